//! Events as the API server takes them.

use std::collections::BTreeMap;

use windlass_cluster::{Cluster, ConnectOptions, Gvk, ObjectRef};
use windlass_controller::{EventNote, EventRecorder, EventType};
use windlass_testing::shared;

/// The API server counts bytes: a note that was cut after so many characters would be refused, and the cause of a failure lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_note_that_is_too_long_is_recorded_with_its_beginning_and_end() {
    let cp = tokio::task::spawn_blocking(|| shared().unwrap()).await.unwrap();
    let ns = cp.namespace("events").unwrap();
    let kubeconfig = Some(cp.kubeconfig().to_owned());
    let client = Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
    cp.kubectl(["create", "configmap", "web", "-n", ns.name()]).unwrap();
    let reference = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(ns.name()), "web");
    let object = client.get(&reference).await.unwrap().unwrap();
    let recorder = EventRecorder::new(client);
    let notes = ["x".repeat(5000), "ä".repeat(5000), "ä".repeat(500)];
    for note in &notes {
        let note = format!("first{note}last");
        let (event_type, annotations) = (EventType::Warning, BTreeMap::new());
        recorder
            .record(&object, EventNote { event_type, reason: "Long", action: "Test", note, annotations })
            .await;
    }
    let path = "jsonpath={range .items[?(@.reason=='Long')]}{.message}{'\\n'}{end}";
    let found = cp.kubectl(["get", "events", "-n", ns.name(), "-o", path]).unwrap();
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), notes.len(), "{found}");
    assert!(lines.iter().all(|line| line.starts_with("first") && line.ends_with("last")), "{found}");
}
