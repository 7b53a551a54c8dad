//! The rights that the account of an object has not, in one condition with the command that grants them.

use std::process::Command;

use serde_json::json;

use super::chart_resources::Running;

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_lists_all_missing_rights_and_ends_when_they_are_granted() {
    let mut own = Running::start().await;
    let (cp, n) = (own.cp, own.ns.name().to_owned());
    let kind = format!("webs.{}", own.group());
    let more = "---\napiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec: {ports: [{port: 80}]}\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n";
    own.chart("0.1.0", "size: {type: integer}", more);
    own.resource("web", &json!({"serviceAccountName": "tenant"}));
    own.ready("web", "True Registered");
    // Rights to records and ConfigMaps alone: the release begins, and its first Service is forbidden.
    cp.kubectl(["create", "serviceaccount", "tenant", "-n", &n]).unwrap();
    let all = "--verb=get,list,watch,create,update,patch,delete";
    let resources = "--resource=configmaps,secrets,leases.coordination.k8s.io";
    cp.kubectl(["create", "role", "some", all, resources, "-n", &n]).unwrap();
    let account = format!("--serviceaccount={n}:tenant");
    cp.kubectl(["create", "rolebinding", "some", "--role=some", &account, "-n", &n]).unwrap();
    own.web("one", &json!({}));
    let message = || own.get(&kind, "one", "{.status.conditions[?(@.reason==\"MissingRights\")].message}");
    own.wait("the condition is there", || !message().is_empty());
    let conditions = own.get(&kind, "one", "{.status.conditions[?(@.status==\"True\")].type}");
    assert_eq!(conditions, "Initialized Irreconcilable", "retries do not end");
    let text = own.get(&kind, "one", "{.status.conditions[?(@.type==\"Irreconcilable\")].message}");
    for right in ["services", "ingresses.networking.k8s.io"] {
        let expected = format!("create, delete, get, list, patch, update, watch {right} in namespace {n}");
        assert!(text.contains(&expected), "{expected}: {text}");
    }
    assert!(text.starts_with(&format!("ServiceAccount {n}/tenant lacks rights: ")), "{text}");
    assert!(!text.contains(" configmaps "), "{text}");
    let attempts = || own.get(&kind, "one", "{.status.failedAttempt.failures}");
    assert!(["", "0"].contains(&attempts().as_str()), "{}", attempts());
    // What it tells to run grants them, and the object goes on by itself.
    let command = text.split("Grant them: ").nth(1).unwrap().split(" | kubectl").next().unwrap();
    let words: Vec<&str> = command.strip_prefix("windlass ").unwrap().split(' ').collect();
    let out = Command::new(env!("CARGO_BIN_EXE_windlass")).args(words).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let roles = String::from_utf8(out.stdout).unwrap();
    cp.kubectl_with(["apply", "-f", "-"], &roles).unwrap();
    let ready = "{.status.conditions[?(@.type==\"Ready\")].status}";
    own.wait("it is ready", || own.get(&kind, "one", ready) == "True");
    assert_eq!(message(), "");
    own.end().await;
}
