//! `windlass init operator`: the repository passes its own test, and a real API server takes what is in it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{control_plane, fails, run, windlass};
use windlass_testing::wait_until;

/// How long the operator may take for one step.
const LIMIT: Duration = Duration::from_secs(60);

fn fixture(name: &str) -> String {
    format!("{}/fixtures/chart-resources/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Writes the repository for the Liberty application in a directory.
fn write_repository(target: &Path, group: &str, more: &[&str]) {
    let (chart, overlay, sample) = (fixture("liberty"), fixture("overlay.yaml"), fixture("plants.yaml"));
    let own = [
        "init",
        "operator",
        &chart,
        target.to_str().unwrap(),
        "--kind",
        "LibertyApp",
        "--group",
        group,
        "--overlay",
        &overlay,
        "--sample",
        "plants",
        "--values",
        &sample,
    ];
    let out = run(&[&own[..], more].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Runs the repository's own test, with windlass alone in its path beside the system's tools.
fn own_test(repository: &Path) -> (bool, String) {
    let out = Command::new(repository.join("test.sh"))
        .env("WINDLASS", env!("CARGO_BIN_EXE_windlass"))
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (out.status.success(), text)
}

#[test]
fn a_chart_with_another_sort_of_name_gets_no_repository() {
    let dir = tempfile::tempdir().unwrap();
    let (chart, target) = (dir.path().join("chart"), dir.path().join("operator"));
    std::fs::create_dir(&chart).unwrap();
    for name in [
        "../up",
        "..",
        ".",
        "a/b",
        "",
        " ",
        "a b",
        "a: b",
        "{{ .Values.x }}",
        "<KIND>",
        "$(touch x)",
        "a\nb",
        "'",
        "\u{e4}",
    ] {
        let head =
            format!("apiVersion: v2\nname: {}\nversion: 1.0.0\n", serde_json::to_string(name).unwrap());
        std::fs::write(chart.join("Chart.yaml"), head).unwrap();
        let error = fails(&["init", "operator", chart.to_str().unwrap(), target.to_str().unwrap()]);
        assert!(error.contains("name"), "{name:?}: {error}");
        assert!(!target.exists() && !dir.path().join("up").exists(), "{name:?}: {error}");
    }
    std::fs::write(
        chart.join("Chart.yaml"),
        format!("apiVersion: v2\nname: {}\nversion: 1.0.0\n", "a".repeat(300)),
    )
    .unwrap();
    let error = fails(&["init", "operator", chart.to_str().unwrap(), target.to_str().unwrap()]);
    assert!(error.contains("between 1 and 250 characters") && error.len() < 400, "{error}");
}

#[test]
fn a_new_repository_passes_its_own_test_until_its_chart_changes() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("operator");
    write_repository(&target, "liberty.example.com", &[]);
    let (passed, text) = own_test(&target);
    assert!(passed && text.contains("\nall checks passed\n"), "{text}");
    let error = fails(&["init", "operator", &fixture("liberty"), target.to_str().unwrap()]);
    assert!(error.contains("the directory is not empty"), "{error}");
    let error = fails(&["init", "operator", &fixture("liberty"), "new", "--sample", "Plants"]);
    assert!(error.contains("--sample \"Plants\""), "{error}");
    // A new value of the chart.
    let values = target.join("charts/liberty/values.yaml");
    let text = std::fs::read_to_string(&values).unwrap();
    std::fs::write(&values, text + "\n# -- How many requests at once\nthreads: 10\n").unwrap();
    let (passed, text) = own_test(&target);
    assert!(!passed && text.contains("config/crd.yaml is out of date"), "{text}");
    std::fs::write(
        target.join("charts/liberty/templates/job.yaml"),
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n",
    )
    .unwrap();
    let flags = ["--group", "liberty.example.com", "--kind", "LibertyApp", "--plural", "libertyapps"];
    let (chart, overlay) = (target.join("charts/liberty"), target.join("overlay.yaml"));
    let (chart, overlay) = (chart.to_str().unwrap(), overlay.to_str().unwrap());
    let crd = windlass(&[&["crd", chart, "--overlay", overlay], &flags[..]].concat());
    std::fs::write(target.join("config/crd.yaml"), crd).unwrap();
    let (passed, text) = own_test(&target);
    assert!(!passed && text.contains("config/rbac.yaml is out of date"), "{text}");
}

#[test]
fn an_api_server_takes_what_a_repository_builds() {
    let cp = control_plane();
    let ns = cp.namespace("initop").unwrap();
    let n = ns.name();
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("operator");
    let group = format!("liberty.{n}.example.com");
    write_repository(&target, &group, &[]);
    let built = windlass(&["build", target.join("config").to_str().unwrap()]);
    let mut kinds: Vec<String> = Vec::new();
    for document in built.split("---\n") {
        let Some(kind) = document.lines().find_map(|line| line.strip_prefix("kind: ")) else { continue };
        kinds.push(kind.to_owned());
        // The API server has no ChartResources yet. The rest is taken as it is, in a namespace that is there.
        let here = document.replace("namespace: libertyapp-operator\n", &format!("namespace: {n}\n"));
        if kind != "ChartResource" {
            cp.kubectl_with(["apply", "--server-side", "--dry-run=server", "-f", "-"], &here)
                .unwrap_or_else(|error| panic!("{error}\n{document}"));
        }
    }
    kinds.sort();
    assert_eq!(
        kinds,
        [
            "ChartResource",
            "ClusterRole",
            "ClusterRoleBinding",
            "CustomResourceDefinition",
            "CustomResourceDefinition",
            "Deployment",
            "Namespace",
            "Role",
            "RoleBinding",
            "ServiceAccount"
        ]
    );
    assert!(built.contains("image: libertyapp-operator:0.1.0\n"), "{built}");
    let crd = std::fs::read_to_string(target.join("config/crd.yaml")).unwrap();
    cp.kubectl_with(["apply", "--server-side", "-f", "-"], &crd).unwrap();
    let name = format!("libertyapps.{group}");
    super::crd::wait_established(&[&name]);
    let sample = target.join("samples/plants.yaml");
    cp.kubectl(["create", "-n", n, "-f", sample.to_str().unwrap()]).unwrap();
    let live = cp.find(&[&format!("libertyapps.{group}"), "plants", "-n", n]).unwrap().unwrap();
    assert_eq!(live["spec"]["image"]["pullSecret"], "my-pull-secret");
    assert_eq!(live["spec"]["service"]["targetPort"], 9080);
    cp.kubectl(["delete", "crd", &name]).unwrap();
}

/// A running operator; it ends with the test.
struct Operator(Child);

impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_operator_of_a_repository_runs_with_its_rights_alone() {
    let cp = control_plane();
    let ns = cp.namespace("plants").unwrap();
    let n = ns.name();
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("operator");
    let group = format!("liberty.{n}.example.com");
    write_repository(&target, &group, &["-n", n]);
    for document in windlass(&["build", target.join("config").to_str().unwrap()]).split("---\n") {
        // The program runs here instead of in a Pod; ChartResources come once their kind is there.
        if !["Deployment", "ChartResource"].iter().any(|kind| document.contains(&format!("\nkind: {kind}\n")))
        {
            cp.kubectl_with(["apply", "--server-side", "-f", "-"], document).unwrap();
        }
    }
    let name = format!("libertyapps.{group}");
    super::crd::wait_established(&[&name, "chartresources.windlass.dev"]);
    let kind = target.join("config/chartresource.yaml");
    cp.kubectl(["create", "-f", kind.to_str().unwrap()]).unwrap();
    let groups = ["system:serviceaccounts", "system:authenticated"];
    let user = cp.kubeconfig_as(&format!("system:serviceaccount:{n}:libertyapp-operator"), &groups).unwrap();
    let log = dir.path().join("log");
    // As the Deployment of the repository starts it.
    let operator = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["operator", "--controllers=charts", "--charts-dir"])
        .arg(target.join("charts"))
        .env("KUBECONFIG", user)
        .env("ADDON_OPERATOR_NAMESPACE", n)
        .env("ADDON_OPERATOR_POD", "operator")
        .env("ADDON_OPERATOR_LISTEN_PORT", "0")
        .env("DEBUG_UNIX_SOCKET", dir.path().join("debug.socket"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let operator = Operator(operator);
    let sample = target.join("samples/plants.yaml");
    cp.kubectl(["create", "-n", n, "-f", sample.to_str().unwrap()]).unwrap();
    let read = |kind: &str, path: &str| {
        let path = format!("jsonpath={path}");
        cp.kubectl(["get", kind, "plants", "-n", n, "--ignore-not-found", "-o", &path])
    };
    let wait = |what: &str, kind: &str, path: &str, expected: &str| {
        let found = wait_until(what, LIMIT, || Ok((read(kind, path)? == expected).then_some(())));
        found.unwrap_or_else(|error| panic!("{error}\n{}", std::fs::read_to_string(&log).unwrap()));
    };
    let ready = "{.status.conditions[?(@.type=='Ready')].status}";
    let reason = "{.status.conditions[?(@.type=='Irreconcilable')].reason}";
    wait("its pull secret is missing", &name, reason, "PullSecretUnavailable");
    assert_eq!(read("deployment", "{.metadata.name}").unwrap(), "");
    cp.kubectl(["create", "secret", "generic", "my-pull-secret", "-n", n, "--from-literal=a=b"]).unwrap();
    wait("it is ready", &name, ready, "True");
    let secrets = |account: &str| {
        let path = "jsonpath={.imagePullSecrets[*].name}";
        cp.kubectl(["get", "serviceaccount", account, "-n", n, "--ignore-not-found", "-o", path]).unwrap()
    };
    assert_eq!([secrets("default"), secrets("plants")], ["my-pull-secret", "my-pull-secret"]);
    wait("its Service", "service", "{.spec.ports[0].port}", "9080");
    let edit = r#"{"spec": {"service": {"port": 9081}, "ingress": {"enabled": true}}}"#;
    cp.kubectl(["patch", &name, "plants", "-n", n, "--type=merge", "-p", edit]).unwrap();
    wait("the Service follows", "service", "{.spec.ports[0].port}", "9081");
    wait("an Ingress is there", "ingress", "{.metadata.name}", "plants");
    cp.kubectl(["delete", &name, "plants", "-n", n, "--timeout=60s"]).unwrap();
    wait("its Deployment is gone", "deployment", "{.metadata.name}", "");
    assert_eq!(secrets("default"), "");
    let log = std::fs::read_to_string(&log).unwrap();
    // It says that it may not watch all namespaces; nothing is wrong with that.
    let absent = "Secret NAMESPACE/my-pull-secret, with which".replace("NAMESPACE", n);
    let wrong = log
        .lines()
        .any(|line| (line.contains(" WARN ") || line.contains(" ERROR ")) && !line.contains(&absent));
    assert!(!wrong, "{log}");
    drop(operator);
    cp.kubectl(["delete", "-f", kind.to_str().unwrap(), "--wait=false"]).unwrap();
    cp.kubectl(["delete", "crd", &name]).unwrap();
}
