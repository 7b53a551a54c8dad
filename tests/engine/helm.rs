//! Real Helm, versions 3 and 4, on our releases; and we on theirs.

use crate::support::*;
use serde_json::{Value, json};
use std::path::Path;
use windlass_engine::{ReleaseAction, ReleaseId};
use windlass_testing::{ControlPlane, Error};

pub(crate) type Helm = fn(&ControlPlane, &[&str]) -> Result<String, Error>;

pub(crate) fn helms() -> [(&'static str, Helm); 2] {
    [("helm3", |plane, args| plane.helm3(args)), ("helm4", |plane, args| plane.helm4(args))]
}

/// A chart of documents as they are.
pub(crate) fn write_chart(directory: &Path, objects: &[Value]) {
    std::fs::create_dir_all(directory.join("templates")).unwrap();
    std::fs::write(directory.join("Chart.yaml"), "apiVersion: v2\nname: test\nversion: 1.0.0\n").unwrap();
    for entry in std::fs::read_dir(directory.join("templates")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        std::fs::write(directory.join("templates").join(format!("{name}.yaml")), object.to_string()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn helm_reads_and_changes_our_releases() {
    let plane = control_plane();
    for (version, helm) in helms() {
        let namespace = plane.namespace(version).unwrap();
        let ns = namespace.name();
        let run = |args: &[&str]| helm(plane, &[args, &["-n", ns]].concat()).unwrap();
        let engine = engine().await;
        let mut first = request(ns, "web", &[config_map("a", "1"), config_map("b", "1")], vec![]);
        std::sync::Arc::make_mut(&mut first.rendered).notes = "Read me\n".into();
        engine.reconcile(&first).await.unwrap();
        let second = request(ns, "web", &[config_map("a", "2"), config_map("c", "1")], vec![]);
        engine.reconcile(&second).await.unwrap();

        let list: Value = serde_json::from_str(&run(&["list", "-o", "json"])).unwrap();
        assert_eq!(
            (&list[0]["name"], &list[0]["revision"], &list[0]["status"], &list[0]["chart"]),
            (&json!("web"), &json!("2"), &json!("deployed"), &json!("test-1.0.0")),
            "{version}"
        );
        let history: Value = serde_json::from_str(&run(&["history", "web", "-o", "json"])).unwrap();
        let rows: Vec<_> = history
            .as_array()
            .unwrap()
            .iter()
            .map(|r| (r["status"].as_str().unwrap(), r["description"].as_str().unwrap()))
            .collect();
        assert_eq!(rows, [("superseded", "Install complete"), ("deployed", "Upgrade complete")], "{version}");
        assert_eq!(
            run(&["get", "manifest", "web"]).trim(),
            second.rendered.manifest_text.trim(),
            "{version}"
        );
        assert_eq!(run(&["get", "values", "web", "-o", "json"]).trim(), r#"{"some":"value"}"#, "{version}");
        assert!(run(&["get", "notes", "web", "--revision", "1"]).contains("Read me"), "{version}");
        assert!(run(&["status", "web"]).contains("STATUS: deployed"), "{version}");

        run(&["rollback", "web", "1"]);
        assert_eq!(
            (value(ns, "a").as_deref(), value(ns, "b").is_some(), value(ns, "c")),
            (Some("1"), true, None),
            "{version}"
        );
        assert_eq!(history_of(ns), ["1:superseded", "2:superseded", "3:deployed"], "{version}");

        // Our turn again: what Helm wrote by updates is ours, and what leaves the chart leaves the object.
        let mut lean = config_map("a", "3");
        lean["data"] = json!({"other": "x"});
        let done = engine.reconcile(&request(ns, "web", &[lean], vec![])).await.unwrap();
        assert_eq!((done.action, done.revision), (ReleaseAction::Upgrade, 4), "{version}");
        let live = get(ns, "configmap", "a").unwrap();
        assert_eq!(live["data"], json!({"other": "x"}), "{version}");
        let managers: Vec<_> = live["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| (e["manager"].as_str().unwrap(), e["operation"].as_str().unwrap()))
            .collect();
        assert_eq!(managers, [("helm", "Apply")], "{version}");

        run(&["uninstall", "web"]);
        assert!(history_of(ns).is_empty() && get(ns, "configmap", "a").is_none(), "{version}");
    }
}

fn history_of(ns: &str) -> Vec<String> {
    history(ns, "web")
}

#[tokio::test(flavor = "multi_thread")]
async fn we_take_over_helms_releases() {
    let plane = control_plane();
    for (version, helm) in helms() {
        let namespace = plane.namespace(version).unwrap();
        let ns = namespace.name();
        let directory = tempfile::tempdir().unwrap();
        let chart = directory.path().to_str().unwrap().to_owned();
        let run = |args: &[&str]| helm(plane, &[args, &["-n", ns]].concat()).unwrap();
        let mut full = config_map("a", "1");
        full["data"]["leaves"] = "x".into();
        write_chart(directory.path(), &[full.clone(), config_map("b", "1")]);
        run(&["install", "web", &chart]);

        let engine = engine().await;
        // The same objects: taken over without a revision.
        let taken = request(ns, "web", &[full, config_map("b", "1")], vec![]);
        let same = engine.reconcile(&taken).await.unwrap();
        assert_eq!(same.revision, 1, "{version}: {same:?}");
        assert_eq!(history_of(ns), ["1:deployed"], "{version}");
        let mark = plane.audit_mark().unwrap();
        crate::support::engine().await.reconcile(&taken).await.unwrap();
        assert_eq!(writes(&requests_since(mark, ns)), Vec::<&String>::new(), "{version}: once is enough");

        let done = engine.reconcile(&request(ns, "web", &[config_map("a", "2")], vec![])).await.unwrap();
        assert_eq!((done.action, done.revision), (ReleaseAction::Upgrade, 2), "{version}");
        assert_eq!(get(ns, "configmap", "a").unwrap()["data"], json!({"value": "2"}), "{version}");
        assert_eq!(value(ns, "b"), None, "{version}");

        // Helm's turn, ours, and then a rollback by us to what Helm installed.
        write_chart(directory.path(), &[config_map("a", "3"), config_map("d", "1")]);
        run(&["upgrade", "web", &chart]);
        let back = windlass_engine::RollbackRequest {
            id: ReleaseId::new(ns, "web"),
            revision: 1,
            options: request(ns, "web", &[], vec![]).options,
            description: None,
            cause: String::new(),
        };
        let done = engine.rollback(&back).await.unwrap();
        assert_eq!((done.action, done.revision), (ReleaseAction::Rollback, 4), "{version}");
        assert_eq!(
            (value(ns, "a").as_deref(), value(ns, "b").is_some(), value(ns, "d")),
            (Some("1"), true, None),
            "{version}"
        );
        assert_eq!(
            history_of(ns),
            ["1:superseded", "2:superseded", "3:superseded", "4:deployed"],
            "{version}"
        );
        assert!(run(&["history", "web"]).contains("Rollback to 1"), "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_refusals_are_helms() {
    let plane = control_plane();
    let namespace = plane.namespace("words").unwrap();
    let ns = namespace.name();
    let directory = tempfile::tempdir().unwrap();
    let chart = directory.path().to_str().unwrap();
    write_chart(directory.path(), &[config_map("taken", "1")]);
    plane.kubectl(["create", "configmap", "taken", "-n", ns]).unwrap();
    let engine = engine().await;
    let mut wanted = request(ns, "web", &[config_map("taken", "1")], vec![]);
    let ours =
        |result: windlass_engine::Result<windlass_engine::ReleaseOutcome>| result.unwrap_err().to_string();
    let helms = |args: &[&str]| match plane.helm4([args, &["-n", ns]].concat()) {
        Err(Error::Command { stderr, .. }) => stderr,
        other => panic!("Helm should refuse: {other:?}"),
    };
    let same = |helm: String, us: String| assert!(helm.contains(&us), "Helm: {helm}\nours: {us}");

    same(helms(&["install", "web", chart]), ours(engine.reconcile(&wanted).await));
    wanted.options.mode = windlass_engine::Mode::Upgrade;
    same(helms(&["upgrade", "web", chart]), ours(engine.reconcile(&wanted).await));
    plane.kubectl(["delete", "configmap", "taken", "-n", ns]).unwrap();
    wanted.options.mode = windlass_engine::Mode::Install;
    engine.reconcile(&wanted).await.unwrap();
    same(helms(&["install", "web", chart]), ours(engine.reconcile(&wanted).await));
    plane.kubectl(["create", "configmap", "more", "-n", ns]).unwrap();
    write_chart(directory.path(), &[config_map("taken", "1"), config_map("more", "1")]);
    let more = request(ns, "web", &[config_map("taken", "1"), config_map("more", "1")], vec![]);
    same(helms(&["upgrade", "web", chart]), ours(engine.reconcile(&more).await));

    // A pending record of someone else.
    let secret = get(ns, "secret", "sh.helm.release.v1.web.v1").unwrap();
    let mut record = windlass_engine::record::decode_secret(&secret).unwrap();
    record.version = 2;
    record.extension = Default::default();
    record.info.status = windlass_engine::record::ReleaseStatus::PendingUpgrade;
    let pending = windlass_engine::record::encode_secret(&record, "createdAt").unwrap();
    plane.kubectl_with(["create", "-f", "-"], &pending.to_string()).unwrap();
    let wanted = request(ns, "web", &[config_map("taken", "2")], vec![]);
    let refused = engine.reconcile(&wanted).await.unwrap_err();
    assert_eq!(refused.disposition(), windlass_engine::Disposition::Wait);
    // Helm's words first; then whose it is, and how it ends.
    let told = refused.to_string();
    same(helms(&["upgrade", "web", chart]), told.split(": revision 2 is").next().unwrap().to_owned());
    let mut breaking = wanted.clone();
    breaking.options.revisions.break_lock = true;
    engine.reconcile(&breaking).await.unwrap();
    assert_eq!(history_of(ns), ["1:superseded", "2:failed", "3:deployed"]);
}
