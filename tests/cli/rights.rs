//! What commands go on without is told where their user sees it.

use super::{chart, control_plane};
use std::process::Command;

#[test]
fn missing_rights_that_can_be_done_without_are_told() {
    let cp = control_plane();
    let ns = cp.namespace("few").unwrap();
    let n = ns.name();
    let user = format!("{n}-user");
    let allow = |name: &str, verbs: &str, resources: &str| {
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        cp.kubectl(["create", "role", name, &verbs, &resources, "-n", n]).unwrap();
        let (role, user) = (format!("--role={name}"), format!("--user={user}"));
        cp.kubectl(["create", "rolebinding", name, &role, &user, "-n", n]).unwrap();
    };
    allow("records", "get,list,create,update,delete", "secrets");
    allow("objects", "get,create,patch,delete", "configmaps,services");
    let kubeconfig = cp.kubeconfig_as(&user, &["system:authenticated"]).unwrap();
    let dir = chart();
    let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["install", "r", dir.path().to_str().unwrap(), "-n", n, "--wait"])
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.success(), "{said}");
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let [lease, watch] = lines[..] else { panic!("two lines: {said}") };
    let cannot = |verb: &str, resource: &str, group: &str| {
        format!(
            "cannot {verb} resource \\\"{resource}\\\" in API group \\\"{group}\\\" in the namespace \\\"{n}\\\": "
        )
    };
    let no_lease = cannot("create", "leases", "coordination.k8s.io")
        + "no Lease can be acquired; the pending record is the only lock\"";
    assert!(lease.starts_with("level=WARN msg=\"") && lease.ends_with(&no_lease), "{lease}");
    let no_watch = cannot("list", "services", "") + "polling each object every 2s instead\"";
    assert!(watch.starts_with("level=WARN msg=\"") && watch.ends_with(&no_watch), "{watch}");
}
