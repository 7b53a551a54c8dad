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
    let mode = || std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // A file that is there, and open to others, holds more than it will.
    std::fs::write(file, "x".repeat(1 << 20)).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(status(&first), 2);
    assert_eq!(mode(), 0o600);
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

#[test]
fn what_the_server_would_refuse_is_refused_in_the_plan() {
    let cp = control_plane();
    let ns = cp.namespace("refused").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let typo = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndta: {size: \"1\"}\n";
    std::fs::write(dir.path().join("templates/all.yaml"), typo).unwrap();
    let told = fails(&["plan", "one", path, "-n", n]);
    assert!(told.contains("the server would refuse 1 object(s) of this plan"), "{told}");
    assert_eq!(run(&["plan", "one", path, "-n", n]).status.code(), Some(1));
    // So does Helm 4, and so do we; Helm 3 left such fields out.
    let theirs = cp.helm4(["install", "one", path, "-n", n]).unwrap_err().to_string();
    let mine = fails(&["install", "one", path, "-n", n]);
    assert!(theirs.contains("field not declared in schema"), "{theirs}");
    assert!(mine.contains("field not declared in schema"), "{mine}");
    let lenient = run(&["upgrade", "--install", "two", path, "-n", n, "--compat", "helm3"]);
    let told = String::from_utf8(lenient.stderr).unwrap();
    assert!(lenient.status.success() && told.contains("are left out: dta"), "{told}");
}

#[test]
fn reasons_name_the_flags_that_decide() {
    let cp = control_plane();
    let ns = cp.namespace("plan-flags").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let missing = &format!("{n}-missing");
    let hint = "--create-namespace creates it";
    let told = run(&["plan", "one", path, "-n", missing]);
    assert_eq!(told.status.code(), Some(1));
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains(&format!("! ConfigMap {missing}/one  namespaces \"{missing}\" not found; {hint}\n")),
        "{told}"
    );
    let told = windlass(&["plan", "one", path, "-n", missing, "--create-namespace"]);
    assert!(told.contains(&format!("+ Namespace {missing}  it is not there; {hint}\n")), "{told}");
    assert!(told.contains(&format!("+ ConfigMap {missing}/one  it is not there\n")), "{told}");
    // The flag creates the release's own namespace only.
    let elsewhere =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: one, namespace: {missing}}}\n");
    std::fs::write(dir.path().join("templates/all.yaml"), elsewhere).unwrap();
    let told = String::from_utf8(run(&["plan", "one", path, "-n", n]).stdout).unwrap();
    assert!(told.contains(&format!("  namespaces \"{missing}\" not found\n")), "{told}");

    let own = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n";
    std::fs::write(dir.path().join("templates/all.yaml"), own).unwrap();
    cp.kubectl(["create", "configmap", "one", "-n", n]).unwrap();
    let file = dir.path().join("plan.json");
    let file = file.to_str().unwrap();
    let taken = windlass(&["plan", "one", path, "-n", n, "--take-ownership", "-o", "json", "--out", file]);
    let json: Value = serde_json::from_str(&taken).unwrap();
    let change = &json["changes"][0];
    assert_eq!((&change["verb"], &change["option"]), (&"adopt".into(), &"take-ownership".into()), "{change}");
    assert_eq!(change["reason"], "it exists, and this release takes it over; --take-ownership allows that");
    assert!(windlass(&["apply", file]).contains("STATUS: deployed"));
}

#[test]
fn crds_are_kept_where_that_is_asked_for() {
    let cp = control_plane();
    let ns = cp.namespace("crdflag").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let crd = |label: &str| {
        let text = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.{n}.example.com, \
             labels: {{label: {label}}}}}\nspec:\n  group: {n}.example.com\n  scope: Namespaced\n  names: {{kind: Thing, plural: \
             things}}\n  versions:\n  - {{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}\n"
        );
        std::fs::create_dir_all(dir.path().join("crds")).unwrap();
        std::fs::write(dir.path().join("crds/things.yaml"), text).unwrap();
    };
    let name = format!("things.{n}.example.com");
    let live = || {
        let found = cp.kubectl([
            "get",
            "crd",
            &name,
            "--ignore-not-found",
            "-o",
            "jsonpath={.metadata.labels.label}",
        ]);
        found.unwrap()
    };
    crd("a");
    windlass(&["install", "one", path, "-n", n, "--crds", "skip"]);
    assert_eq!(live(), "");
    windlass(&["upgrade", "one", path, "-n", n]);
    assert_eq!(live(), "", "as with Helm: on install only");
    windlass(&["upgrade", "one", path, "-n", n, "--crds=apply"]);
    assert_eq!(live(), "a");
    crd("b");
    let told = windlass(&["plan", "one", path, "-n", n, "--crds=apply"]);
    assert!(
        told.contains(&format!("~ CustomResourceDefinition {name}"))
            && told.contains("metadata.labels.label"),
        "{told}"
    );
    windlass(&["upgrade", "one", path, "-n", n]);
    assert_eq!(live(), "a");
    windlass(&["upgrade", "one", path, "-n", n, "--crds=apply"]);
    assert_eq!(live(), "b");
    let told = windlass(&["plan", "one", path, "-n", n, "--crds=apply"]);
    assert!(!told.contains("~ CustomResourceDefinition"), "{told}");
    assert!(fails(&["plan", "one", path, "--crds=apply", "--skip-crds"]).contains("cannot be used with"));
    cp.kubectl(["delete", "crd", &name]).unwrap();
}

#[test]
fn rollbacks_and_uninstalls_are_planned_as_well() {
    let cp = control_plane();
    let ns = cp.namespace("plan-back").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("templates/all.yaml"), text).unwrap();
    let map = |name: &str, size: &str, more: &str| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{more}}}}}\ndata: {{size: \"{size}\"}}\n"
        )
    };
    let hook = map("asked", "1", "helm.sh/hook: 'pre-rollback,post-delete'");
    let kept = map("kept", "1", "helm.sh/resource-policy: keep");
    write(&[map("one", "1", ""), map("old", "1", ""), hook.clone()].concat());
    windlass(&["install", "one", path, "-n", n]);
    write(&[map("one", "2", ""), map("new", "1", ""), kept, hook].concat());
    windlass(&["upgrade", "one", path, "-n", n]);
    let back = format!(
        "{n}/one: revision 3 (a rollback to revision 1 was asked for)\n\
         ~ ConfigMap {n}/one  it differs\n    data.size: \"2\" → \"1\"\n\
         + ConfigMap {n}/old  it is not there\n\
         - ConfigMap {n}/new  revision 1 does not have it\n\
         · ConfigMap {n}/kept  revision 1 does not have it; its resource policy says keep\n\
         ▸ pre-rollback hook ConfigMap asked\n\
         Plan: 1 create, 1 update, 1 delete, 1 skip\n"
    );
    assert_eq!(windlass(&["rollback", "one", "1", "-n", n, "--plan"]), back);
    // What somebody took from the release stays.
    cp.kubectl(["annotate", "-n", n, "configmap", "new", "--overwrite", "meta.helm.sh/release-name=other"])
        .unwrap();
    let gone = format!(
        "{n}/one: revision 2 (an uninstall was asked for, and its history goes with it)\n\
         - ConfigMap {n}/one  it is the release's\n\
         · ConfigMap {n}/kept  its resource policy says keep\n\
         · ConfigMap {n}/new  it is not owned by this release\n\
         ▸ post-delete hook ConfigMap asked\n\
         Plan: 1 delete, 2 skip\n"
    );
    assert_eq!(windlass(&["uninstall", "one", "-n", n, "--plan"]), gone);
    let json =
        windlass(&["uninstall", "one", "-n", n, "--plan", "--keep-history", "--no-hooks", "-o", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["action"], &json["hooks"]), (&"uninstall".into(), &Value::Array(vec![])), "{json}");
    assert!(json["reason"].as_str().unwrap().ends_with("its history is kept"), "{json}");
    let size = |name: &str| {
        cp.get(&format!("/api/v1/namespaces/{n}/configmaps/{name}")).ok().map(|o| o["data"]["size"].clone())
    };
    assert_eq!(
        (size("one"), size("old"), size("new")),
        (Some("2".into()), None, Some("1".into())),
        "nothing was written"
    );
    assert!(fails(&["rollback", "one", "7", "-n", n, "--plan"]).contains("7"));
    assert!(fails(&["uninstall", "two", "-n", n, "--plan"]).contains("not found"));
    assert!(fails(&["uninstall", "one", "-n", n, "-o", "json"]).contains("--plan"));
}
