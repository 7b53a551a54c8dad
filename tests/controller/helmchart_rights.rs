//! The rights that the account of a HelmChart has not, in one condition with the command that grants them.

use std::process::Command;

use serde_json::json;
use windlass_controller::AccountName;

use super::helmcharts::{Running, chart, content};

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_lists_the_rights_that_a_helmchart_lacks() {
    let mut running = Running::prepare().await;
    let (cp, n) = (running.cp, running.ns.name().to_owned());
    running.kubectl("create serviceaccount tenant");
    let all = "--verb=get,list,watch,create,update,patch,delete";
    let resources = "--resource=configmaps,secrets,leases.coordination.k8s.io";
    cp.kubectl(["create", "role", "some", all, resources, "-n", &n]).unwrap();
    let account = format!("--serviceaccount={n}:tenant");
    cp.kubectl(["create", "rolebinding", "some", "--role=some", &account, "-n", &n]).unwrap();
    running.options.default_service_account = AccountName::parse("tenant");
    running.start().await;
    let more = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n";
    let package = chart("1.0.0", &[("templates/more.yaml", more)]);
    running.chart("web", &json!({"chartContent": content(&package)}));
    running.wait_ready("web", "False MissingRights");
    let text = running.message("web");
    for right in ["services", "ingresses.networking.k8s.io"] {
        let expected = format!("create, delete, get, list, patch, update, watch {right} in namespace {n}");
        assert!(text.contains(&expected), "{expected}: {text}");
    }
    assert!(text.starts_with(&format!("ServiceAccount {n}/tenant lacks rights: ")), "{text}");
    assert!(
        text.ends_with("(web.tgz is spec.chartContent, decoded)") && !text.contains(" configmaps "),
        "{text}"
    );
    assert_eq!(running.condition("web", "Failed"), "False Retrying");
    // A try that cannot succeed makes no revision.
    let revisions = || running.kubectl("get secret -l owner=helm,name=web -o name").lines().count();
    let before = revisions();
    running.kubectl("annotate helmchart web windlass.dev/requested-at=now");
    running.wait_event("web", "MissingRights: ");
    assert_eq!(revisions(), before);
    // What it tells to run grants them, and the object goes on.
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("web.tgz"), &package).unwrap();
    let command = text.split("Grant them: ").nth(1).unwrap().split(" | kubectl").next().unwrap();
    let words: Vec<&str> = command.strip_prefix("windlass ").unwrap().split(' ').collect();
    let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(words)
        .current_dir(scratch.path())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    cp.kubectl_with(["apply", "-f", "-"], &String::from_utf8(out.stdout).unwrap()).unwrap();
    running.kubectl("annotate --overwrite helmchart web windlass.dev/requested-at=again");
    running.wait_ready("web", "True Deployed");
    running.stop().await;
}
