//! `plan`, `diff` and `apply`.

use super::{chart, control_plane, fails, run, windlass};
use serde_json::Value;

#[test]
fn a_plan_is_shown_saved_and_applied() {
    let cp = control_plane();
    let ns = cp.namespace("plan").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let status = |args: &[&str]| run(args).status.code().unwrap();
    let file = dir.path().join("plan.json");
    let file = file.to_str().unwrap();
    let first = ["plan", "one", path, "-n", n, "--detailed-exitcode", "--out", file];
    assert_eq!(status(&first), 2);
    let out = windlass(&["diff", "one", path, "-n", n]);
    assert_eq!(
        out,
        format!(
            "{n}/one: revision 1 (the release does not exist)\n+ ConfigMap {n}/one  it is not there\n+ Service {n}/one  it is not \
             there\nPlan: 2 create\n"
        )
    );
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(windlass(&["apply", file]).contains("STATUS: deployed\nREVISION: 1\n"));
    assert!(fails(&["apply", file]).contains("the plan no longer holds"));

    // The chart prints its revision: that is a change, and the only one.
    let json: Value = serde_json::from_str(&windlass(&["plan", "one", path, "-n", n, "-o", "json"])).unwrap();
    let verbs: Vec<_> =
        json["changes"].as_array().unwrap().iter().map(|c| c["verb"].as_str().unwrap()).collect();
    assert_eq!(verbs, ["update", "unchanged"]);
    assert_eq!(json["changes"][0]["fields"][0]["path"], "data.revision");
    std::fs::write(
        dir.path().join("templates/all.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {size: \"{{ .Values.size }}\"}\n",
    )
    .unwrap();
    windlass(&["upgrade", "one", path, "-n", n]);
    assert_eq!(status(&["plan", "one", path, "-n", n, "--detailed-exitcode"]), 0);
    let shown =
        windlass(&["plan", "one", path, "-n", n, "--set", "size=2", "--out", file, "--color", "always"]);
    assert!(shown.contains("\u{1b}[33m~ ConfigMap") && shown.contains("data.size"), "{shown}");
    cp.helm4(["upgrade", "one", path, "-n", n, "--set", "size=3"]).unwrap();
    let text = fails(&["apply", file]);
    assert!(text.contains("the plan no longer holds: it was Upgrade to revision 3"), "{text}");
    let data = cp.get(&format!("/api/v1/namespaces/{n}/configmaps/one")).unwrap()["data"].clone();
    assert_eq!(data["size"], "3", "nothing was written");
    std::fs::write(file, "{}").unwrap();
    assert!(fails(&["apply", file]).contains("not a plan of windlass: it is of another version"));
    assert!(fails(&["plan", "one", "./nowhere"]).contains("not found"));
}
