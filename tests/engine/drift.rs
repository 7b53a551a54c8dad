//! Drift: what counts as it, what is done about it, and what is told.

use crate::{support::*, watch::next_trigger};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_engine::{DriftMode, ReleaseAction, ReleaseOutcome, ReleaseRequest};
use windlass_testing::wait_until;

fn patch(ns: &str, resource: &str, name: &str, patch: &Value) {
    let text = patch.to_string();
    let args = ["patch", resource, name, "-n", ns, "--type=merge", "--field-manager=somebody", "-p", &text];
    control_plane().kubectl(args).unwrap();
}

fn told(outcome: &ReleaseOutcome) -> Vec<String> {
    outcome.drift.iter().map(ToString::to_string).collect()
}

fn with_mode(request: &ReleaseRequest, mode: DriftMode) -> ReleaseRequest {
    let mut request = request.clone();
    request.options.drift.mode = mode;
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_put_right_told_or_left() {
    let plane = control_plane();
    let namespace = plane.namespace("modes").unwrap();
    let ns = namespace.name();
    let engine = watching().await;
    let correct = request(ns, "web", &[config_map("a", "1"), config_map("b", "1")], vec![]);
    let report = with_mode(&correct, DriftMode::Report);
    let off = with_mode(&correct, DriftMode::Off);
    engine.reconcile(&correct).await.unwrap();

    patch(ns, "configmap", "a", &json!({"data": {"value": "9"}}));
    next_trigger(&engine).await;
    let done = engine.reconcile(&correct).await.unwrap();
    assert_eq!(told(&done), [format!("ConfigMap {ns}/a: data.value is 9 instead of 1, by \"somebody\"")]);
    assert!(done.drift[0].corrected, "{done:?}");
    assert_eq!(value(ns, "a").as_deref(), Some("1"));

    // Told once, and again only when someone asks; left as it is, changed or gone.
    engine.reconcile(&report).await.unwrap();
    patch(ns, "configmap", "a", &json!({"data": {"value": "8"}}));
    next_trigger(&engine).await;
    let done = engine.reconcile(&report).await.unwrap();
    assert_eq!(told(&done), [format!("ConfigMap {ns}/a: data.value is 8 instead of 1, by \"somebody\"")]);
    assert_eq!(
        (done.action, done.drift[0].corrected, done.drift[0].known),
        (ReleaseAction::Unchanged, false, false)
    );
    plane.kubectl(["delete", "configmap", "b", "-n", ns]).unwrap();
    next_trigger(&engine).await;
    let done = engine.reconcile(&report).await.unwrap();
    let known: Vec<bool> = done.drift.iter().map(|d| d.known).collect();
    assert_eq!(
        (told(&done)[1].as_str(), known),
        (format!("ConfigMap {ns}/b was deleted").as_str(), vec![true, false])
    );
    assert_eq!((value(ns, "a").as_deref(), value(ns, "b")), (Some("8"), None));
    assert_eq!(history(ns, "web"), ["1:deployed"]);

    // One that starts anew sees it as well.
    let fresh = watching().await;
    assert_eq!(fresh.reconcile(&report).await.unwrap().drift.len(), 2);

    // What is right by itself is told no more; what is not is put right once that is the mode.
    patch(ns, "configmap", "a", &json!({"data": {"value": "1"}}));
    let done = engine.reconcile(&report).await.unwrap();
    assert_eq!(told(&done), [format!("ConfigMap {ns}/b was deleted")]);
    assert_eq!(engine.reconcile(&off).await.unwrap().drift, []);
    assert_eq!(value(ns, "b"), None);
    let done = engine.reconcile(&correct).await.unwrap();
    assert_eq!((done.action, done.created.len()), (ReleaseAction::Restore, 1), "{done:?}");
    assert_eq!(value(ns, "b").as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_and_annotations_leave_things_alone() {
    let plane = control_plane();
    let namespace = plane.namespace("rules").unwrap();
    let ns = namespace.name();
    let engine = watching().await;
    let objects = ["ruled", "bare", "paused", "last"].map(|name| config_map(name, "1"));
    let mut wanted = request(ns, "web", &objects, vec![]);
    wanted.options.drift.ignore =
        vec!["ConfigMap/ruled:data.value".to_owned(), "ConfigMap/bare:data.value".to_owned()];
    engine.reconcile(&wanted).await.unwrap();
    // What may differ may be gone as well.
    let removal = r#"[{"op": "remove", "path": "/data/value"}]"#;
    plane.kubectl(["patch", "configmap", "bare", "-n", ns, "--type", "json", "-p", removal]).unwrap();
    plane.kubectl(["annotate", "configmap", "paused", "-n", ns, "windlass.dev/drift=off"]).unwrap();
    for name in ["ruled", "paused", "last"] {
        patch(ns, "configmap", name, &json!({"data": {"value": "9"}}));
    }
    let mut found = Vec::new();
    while !told(&engine.reconcile(&wanted).await.unwrap()).iter().any(|text| {
        found.push(text.clone());
        text.contains("/last")
    }) {
        next_trigger(&engine).await;
    }
    assert_eq!(found, [format!("ConfigMap {ns}/last: data.value is 9 instead of 1, by \"somebody\"")]);
    let values = ["ruled", "paused", "last"].map(|name| value(ns, name).unwrap());
    assert_eq!(values, ["9", "9", "1"]);
    assert_eq!(value(ns, "bare"), None);
    // Nor is it looked at again and again.
    assert_eq!(engine.reconcile(&wanted).await.unwrap().action, ReleaseAction::Unchanged);
    let fresh = watching().await;
    assert_eq!((fresh.reconcile(&wanted).await.unwrap().drift, value(ns, "bare")), (vec![], None));

    plane.kubectl(["annotate", "configmap", "paused", "-n", ns, "windlass.dev/drift-"]).unwrap();
    let (_, why) = next_trigger(&engine).await;
    assert_eq!(why, format!("ConfigMap {ns}/paused: its annotation was removed"));
    let done = engine.reconcile(&wanted).await.unwrap();
    assert_eq!(
        told(&done),
        [format!("ConfigMap {ns}/paused: data.value is 9 instead of 1, by \"somebody\"")]
    );
    assert_eq!(value(ns, "paused").as_deref(), Some("1"));
    // The next revision is the chart's all the same.
    let mut next = request(ns, "web", &[config_map("ruled", "2")], vec![]);
    next.options.drift.ignore.clone_from(&wanted.options.drift.ignore);
    engine.reconcile(&next).await.unwrap();
    assert_eq!(value(ns, "ruled").as_deref(), Some("2"));
}

/// A policy of the server's that changes ConfigMaps of a namespace as they come in.
fn mutating_policy(ns: &str) -> String {
    let text = |o: Value| o.to_string();
    let policy = text(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": ns},
        "spec": {"failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "matchConstraints": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["configmaps"]}]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {
                "expression": "[JSONPatch{op: \"replace\", path: \"/data/value\", value: \"mutated\"}]"}}]}}));
    let binding = text(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": ns},
        "spec": {"policyName": ns}}));
    format!("{policy}\n---\n{binding}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_are_for_is_none() {
    let plane = control_plane();
    let namespace = plane.namespace("none").unwrap();
    let ns = namespace.name();
    plane.kubectl_with(["apply", "-f", "-"], &mutating_policy(ns)).unwrap();
    wait_until("the policy is in force", Duration::from_secs(60), || {
        let probe = config_map("probe", "1").to_string();
        plane.kubectl_with(["replace", "--force", "-n", ns, "-f", "-"], &probe)?;
        Ok((value(ns, "probe").as_deref() == Some("mutated")).then_some(()))
    })
    .unwrap();

    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": ns}, "webhooks": [{"name": "a.example.com", "failurePolicy": "Ignore", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "Cg=="},
            "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["nones"]}]}]});
    // Its defaults are the server's: ports, policies, probes.
    let objects = [config_map("m", "1"), deployment("d", "x:1"), webhook];
    let wanted = request(ns, "web", &objects, vec![]);
    let engine = watching().await;
    engine.reconcile(&wanted).await.unwrap();
    assert_eq!(value(ns, "m").as_deref(), Some("mutated"));

    plane.kubectl(["autoscale", "deployment/d", "--min=1", "--max=9", "-n", ns]).unwrap();
    plane.kubectl(["scale", "deployment/d", "--replicas=5", "-n", ns]).unwrap();
    let bundle =
        json!([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": "QUJD"}]).to_string();
    let args = [
        "patch",
        "validatingwebhookconfiguration",
        ns,
        "--type=json",
        "--field-manager=cainjector",
        "-p",
        &bundle,
    ];
    plane.kubectl(args).unwrap();
    patch(ns, "configmap", "m", &json!({"data": {"value": "by hand"}}));
    patch(
        ns,
        "deployment",
        "d",
        &json!({"spec": {"template": {"spec": {"schedulerName": "default-scheduler"}}}}),
    );
    next_trigger(&engine).await;
    let done = engine.reconcile(&wanted).await.unwrap();
    assert_eq!(told(&done), Vec::<String>::new());
    let fresh = watching().await;
    assert_eq!(told(&fresh.reconcile(&wanted).await.unwrap()), Vec::<String>::new());
    assert_eq!(get(ns, "deployment", "d").unwrap()["spec"]["replicas"], 5);
    let live = get(ns, "validatingwebhookconfiguration", ns).unwrap();
    assert_ne!(live["webhooks"][0]["clientConfig"]["caBundle"], "Cg==");
    for kind in
        ["mutatingadmissionpolicybinding", "mutatingadmissionpolicy", "validatingwebhookconfiguration"]
    {
        plane.kubectl(["delete", kind, ns]).unwrap();
    }
}
