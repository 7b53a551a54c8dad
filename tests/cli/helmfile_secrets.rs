//! Secret references of helmfiles to objects of a real cluster.

use std::process::Command;

use super::control_plane;

#[test]
fn secrets_and_config_maps_of_the_cluster_are_read() {
    let ns = control_plane().namespace("helmfile-secrets").unwrap();
    let n = ns.name();
    let kubectl = |words: &[&str]| control_plane().kubectl([&["-n", n], words].concat()).unwrap();
    kubectl(&[
        "create",
        "secret",
        "generic",
        "db",
        "--from-literal=password=hunter2",
        "--from-literal=user=me",
    ]);
    kubectl(&["create", "configmap", "app", "--from-literal=size=3"]);
    let dir = tempfile::tempdir().unwrap();
    let run = |reference: &str| {
        let text = format!(
            "environments: {{default: {{values: [{{v: {{{{ fetchSecretValue \"ref+{reference}\" | quote }}}}}}]}}}}\n"
        );
        std::fs::write(dir.path().join("helmfile.yaml.gotmpl"), text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args([
            "--kubeconfig",
            control_plane().kubeconfig().to_str().unwrap(),
            "helmfile",
            "print-env",
        ]);
        let output = command.current_dir(dir.path()).env_remove("KUBECONFIG").output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    for (reference, want) in [
        (format!("k8s://v1/Secret/{n}/db/password"), "v: hunter2\n"),
        (format!("k8s://v1/Secret/{n}/db#/user"), "v: me\n"),
        (format!("k8s://v1/ConfigMap/{n}/app/size"), "v: \"3\"\n"),
        (format!("k8s://v1/ConfigMap/{n}/app"), "v: '{\"size\":\"3\"}'\n"),
    ] {
        let (ok, out, told) = run(&reference);
        assert!(ok && out.contains(want), "{reference}\n{out}{told}");
    }
    for (reference, words) in [
        (format!("k8s://v1/Secret/{n}/none/password"), "not found"),
        (format!("k8s://v1/Secret/{n}/db/none"), "key none does not exist"),
        (format!("k8s://v1/Secret/{n}/db?kubeContext=none#/user"), "none"),
    ] {
        let (ok, _, told) = run(&reference);
        assert!(!ok && told.contains(words) && !told.contains("hunter2"), "{reference}\n{told}");
    }
}
