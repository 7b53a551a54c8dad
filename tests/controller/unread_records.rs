//! Deletions of objects and modules whose release records cannot all be read: what is known goes, and an Event says what is not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use windlass_testing::{ControlPlane, wait_until};

use super::chart_objects::{self, Setup};
use super::helmfiles::{self, Repository};
use super::{LIMIT, Process, Samples, control_plane, sample_chart, write};

/// Names of the Secrets with records of a release, and of those with parts of them.
fn records(cp: &ControlPlane, namespace: &str, release: &str) -> Vec<String> {
    let all = cp.kubectl(["get", "secrets", "-n", namespace, "-o", "name"]).unwrap();
    let names = all.lines().filter_map(|line| line.strip_prefix("secret/"));
    names.filter(|name| name.contains(&format!(".{release}.v"))).map(str::to_owned).collect()
}

/// Makes a record one that cannot be read.
fn spoil(cp: &ControlPlane, namespace: &str, record: &str) {
    let garbage = format!(r#"{{"data":{{"release":"{}"}}}}"#, STANDARD.encode("garbage"));
    let name = format!("sh.helm.release.v1.{record}");
    cp.kubectl(["patch", "secret", &name, "-n", namespace, "-p", &garbage]).unwrap();
}

fn wait_event(cp: &ControlPlane, namespace: &str, reason: &str, part: &str) {
    let path = format!("jsonpath={{.items[?(@.reason==\"{reason}\")].message}}");
    let found = || cp.kubectl(["get", "events", "-n", namespace, "-o", &path]);
    let what = format!("an Event {reason} says {part:?}");
    wait_until(&what, LIMIT, || Ok(found()?.contains(part).then_some(()))).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_record_lacks_a_part_is_deleted_with_what_is_known() {
    let mut own = chart_objects::Running::start(&["Cache"]).await;
    let n = own.ns.name().to_owned();
    for name in ["web", "only"] {
        own.apply("Cache", name, &json!({"size": 1, "large": name == "only"}));
        own.ready("Cache", name);
    }
    own.apply("Cache", "web", &json!({"size": 2, "large": true}));
    own.ready("Cache", "web");
    own.end().await;
    for name in ["web", "only"] {
        let all = records(own.cp, &n, name);
        let part = all.iter().find(|name| !name.starts_with("sh.helm.")).unwrap_or_else(|| panic!("{all:?}"));
        own.cp.kubectl(["delete", "secret", part, "-n", &n]).unwrap();
    }
    // Whoever runs next knows of the records what is stored.
    let kind = format!("caches.{}", chart_objects::GROUP);
    own.cp.kubectl(["delete", &kind, "web", "only", "-n", &n, "--wait=false"]).unwrap();
    own.resume(&["Cache"], &Setup::default()).await;
    own.wait("the objects are gone", || {
        own.object("Cache", "web").is_none() && own.object("Cache", "only").is_none()
    });
    assert!(own.object("configmap", "web").is_none(), "the first revision names it");
    assert!(own.object("clusterrole", &format!("{n}-web")).is_none());
    own.wait("no record is left", || {
        records(own.cp, &n, "web").is_empty() && records(own.cp, &n, "only").is_empty()
    });
    wait_event(own.cp, &n, "DeletingRecords", "parts of its manifest are missing");
    let unread = format!("the records of revisions 2 of release {n}/web are deleted unread");
    wait_event(own.cp, &n, "DeletingRecords", &unread);
    let advice = "look for objects with the annotation meta.helm.sh/release-name: only";
    wait_event(own.cp, &n, "DeletingRecords", advice);
    // Nothing of the last one is known; it has a cluster-scoped object.
    own.cp.kubectl(["delete", "clusterrole", &format!("{n}-only")]).unwrap();
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_others_stay_when_an_object_is_deleted() {
    let mut own = chart_objects::Running::start(&["Cache"]).await;
    let n = own.ns.name().to_owned();
    for name in ["web", "lost"] {
        own.apply("Cache", name, &json!({}));
        own.ready("Cache", name);
    }
    // The name had another owner before.
    for size in [1, 2] {
        own.apply("Cache", "below", &json!({"size": size}));
        own.ready("Cache", "below");
    }
    own.end().await;
    spoil(own.cp, &n, "below.v2");
    let older = "sh.helm.release.v1.below.v1";
    own.cp.kubectl(["label", "--overwrite", "secret", older, "-n", &n, "windlass.dev/owner=other"]).unwrap();
    for (name, label) in [("web", "windlass.dev/owner=other"), ("lost", "windlass.dev/owner-")] {
        spoil(own.cp, &n, &format!("{name}.v1"));
        let record = format!("sh.helm.release.v1.{name}.v1");
        own.cp.kubectl(["label", "--overwrite", "secret", &record, "-n", &n, label]).unwrap();
    }
    let kind = format!("caches.{}", chart_objects::GROUP);
    own.resume(&["Cache"], &Setup::default()).await;
    // Until then the condition names the record.
    let text = own.wait_condition("Cache", "lost", "Irreconcilable", "True ErrorGettingReleaseState");
    assert!(text.contains("sh.helm.release.v1.lost.v1"), "{text}");
    own.cp.kubectl(["delete", &kind, "web", "lost", "below", "-n", &n, "--wait=false"]).unwrap();
    own.wait("the objects are gone", || {
        ["web", "lost", "below"].iter().all(|name| own.object("Cache", name).is_none())
    });
    assert_eq!(records(own.cp, &n, "below"), [older]);
    // Namespaced ones have an owner reference to the deleted object: the garbage collector deletes them whoever has the release.
    assert!(own.object("clusterrole", &format!("{n}-below")).is_some(), "the other owner's release has it");
    wait_event(own.cp, &n, "NotUninstalled", "the record of revision 1, the newest that is left");
    assert_eq!((records(own.cp, &n, "web").len(), records(own.cp, &n, "lost").len()), (1, 1));
    wait_event(own.cp, &n, "NotUninstalled", &format!("release {n}/lost is not uninstalled"));
    for name in ["web", "lost", "below"] {
        own.cp.kubectl(["delete", "clusterrole", &format!("{n}-{name}")]).unwrap();
    }
    own.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helmfile_is_deleted_though_a_record_cannot_be_read() {
    let mut running = helmfiles::Running::start().await;
    let n = running.ns.name().to_owned();
    let repository =
        Repository::new("releases: [{name: web, chart: ./web, values: [{size: {{ .Values.size }}}]}]").await;
    for size in [1, 2] {
        let spec = json!({"source": repository.source(), "values": {"size": size}});
        running.apply("stack", &spec);
        let wanted = size.to_string();
        wait_until("it is deployed", LIMIT, || Ok((running.size("web") == wanted).then_some(()))).unwrap();
        running.ready("stack", "True Deployed");
    }
    running.pause().await;
    spoil(running.cp, &n, "web.v2");
    // One that stays after its deletion is no reason to turn in circles.
    let record = "sh.helm.release.v1.web.v2";
    let hold = r#"{"metadata":{"finalizers":["test.windlass.dev/hold"]}}"#;
    running.cp.kubectl(["patch", "secret", record, "-n", &n, "-p", hold]).unwrap();
    running.resume(None, false).await;
    running.cp.kubectl(["delete", helmfiles::HELMFILES, "stack", "-n", &n, "--wait=false"]).unwrap();
    wait_event(running.cp, &n, "DeletingRecords", "deleted unread");
    let free = r#"{"metadata":{"finalizers":null}}"#;
    running.cp.kubectl(["patch", "secret", record, "-n", &n, "-p", free]).unwrap();
    running.delete("stack");
    assert_eq!(running.size("web"), "");
    assert_eq!(records(running.cp, &n, "web"), [""; 0]);
    wait_event(running.cp, &n, "DeletingRecords", "deleted unread");
    running.pause().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_end_of_one_operation_and_modules_do_the_same() {
    let cp = control_plane();
    let ns = cp.namespace("sample").unwrap();
    let n = ns.name();
    let s = Samples { cp, namespace: n };
    let (_chart, path) = sample_chart();
    let modules = tempfile::tempdir().unwrap();
    super::chart(&modules.path().join("001-alpha"), "alpha");
    write(modules.path(), "values.yaml", "alphaEnabled: true\n");
    let process = Process::start(cp, n, Some(modules.path())).await;
    for size in [1, 2] {
        s.apply("web", &json!({"chart": path, "values": {"size": size}}));
        s.wait("it is deployed", || s.size("web") == size.to_string());
    }
    s.wait("both revisions are there", || s.revisions("web") == 2);
    s.wait("the module is released", || s.size("alpha") == "1");
    process.end().await;
    spoil(cp, n, "web.v2");
    spoil(cp, n, "alpha.v1");
    cp.kubectl(["delete", "releasesample", "web", "-n", n, "--wait=false"]).unwrap();
    write(modules.path(), "values.yaml", "alphaEnabled: false\n");
    let process = Process::start(cp, n, Some(modules.path())).await;
    s.wait("the object is gone", || s.get("releasesample", "web", "{.metadata.name}").is_empty());
    assert_eq!(s.size("web"), "");
    s.wait("no record is left", || records(cp, n, "web").is_empty() && records(cp, n, "alpha").is_empty());
    wait_event(cp, n, "DeletingRecords", &format!("release {n}/web are deleted unread"));
    wait_event(cp, n, "DeletingRecords", "module alpha: ");
    process.end().await;
}
