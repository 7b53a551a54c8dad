//! The files that a control plane is started with, as text.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Tool;

/// Who may do what: the tests as cluster administrators, and a user for each component, so that the audit log
/// tells them apart.
pub(crate) const ADMIN: &str = "admin";
const COMPONENTS: [&str; 3] = ["system:kube-controller-manager", "system:kube-scheduler", "system:kwok"];

/// The file of `--token-auth-file`: token, user, user id, groups. The API server listens on loopback alone and lives
/// for a test run, so a user's token is made of its name.
pub(crate) fn tokens() -> String {
    let users = COMPONENTS.iter().chain([&ADMIN]);
    users.map(|user| format!("{},{user},{user},system:masters\n", token(user))).collect()
}

fn token(user: &str) -> String {
    format!("token-of-{}", user.replace(':', "-"))
}

/// A kubeconfig that holds all it needs, so that its text can be put into a Secret.
pub(crate) fn kubeconfig(port: u16, certificate: &[u8], user: &str) -> String {
    let authority = STANDARD.encode(certificate);
    let token = token(user);
    format!(
        "apiVersion: v1
kind: Config
current-context: windlass
contexts:
- name: windlass
  context: {{cluster: windlass, user: \"{user}\"}}
clusters:
- name: windlass
  cluster:
    server: https://127.0.0.1:{port}
    certificate-authority-data: {authority}
users:
- name: \"{user}\"
  user: {{token: \"{token}\"}}
"
    )
}

/// Everything is logged once, when it is answered, but for what the components read. A deletion says in its body
/// whether it is a dry run.
pub(crate) fn audit_policy() -> String {
    let components: Vec<String> =
        COMPONENTS.iter().chain([&"system:apiserver"]).map(|user| format!("{user:?}")).collect();
    format!(
        "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  users: [{}]
  verbs: [get, list, watch]
- level: Request
  verbs: [delete, deletecollection]
- level: Metadata
",
        components.join(", ")
    )
}

/// The Node that kwok plays.
pub(crate) const NODE: &str = r#"{
  "apiVersion": "v1",
  "kind": "Node",
  "metadata": {
    "name": "fake",
    "annotations": {"kwok.x-k8s.io/node": "fake"},
    "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": "fake"}
  }
}"#;

/// A script that builds a tool with `builder`, and replaces itself with it.
pub(crate) fn builds_first(builder: &Path, tool: Tool) -> String {
    format!("#!/bin/sh\ntool=$('{}' tools {tool:?}) && exec \"${{tool#*=}}\" \"$@\"\n", builder.display())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::{Tool, builds_first, kubeconfig, tokens};

    #[test]
    fn a_kubeconfig_uses_a_token_of_the_token_file() {
        let line = tokens().lines().find(|line| line.contains(",system:kwok,")).unwrap().to_owned();
        let token = line.split(',').next().unwrap();
        let config = kubeconfig(6443, b"certificate", "system:kwok");
        assert!(config.contains(&format!("user: {{token: \"{token}\"}}")), "{config}");
    }

    #[test]
    fn a_script_becomes_the_tool_that_it_has_built() {
        let directory = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            path
        };
        let run = |builder: &str| {
            let helm = script("helm", &builds_first(&script("the builder", builder), Tool::Helm4));
            Command::new(helm).args(["list", "two words"]).output().unwrap()
        };
        let built = run("#!/bin/sh\n[ \"$*\" = 'tools Helm4' ] && echo Helm4=/bin/echo\n");
        assert_eq!(String::from_utf8(built.stdout).unwrap(), "list two words\n");
        assert_eq!(run("#!/bin/sh\nexit 3\n").status.code(), Some(3));
    }
}
