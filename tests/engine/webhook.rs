//! Webhooks that reject, or do not answer: what is told, what is recorded, and that asking again works.

use crate::{support::*, tls::serve};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_engine::{Disposition, ReleaseRequest};
use windlass_testing::wait_until;

/// Says no to ConfigMaps with the value `forbidden`.
fn review(body: &str) -> String {
    let asked: Value = serde_json::from_str(body).unwrap();
    let bad = asked["request"]["object"]["data"]["value"] == "forbidden";
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
        "uid": asked["request"]["uid"], "allowed": !bad, "status": {"message": "no such value here", "code": 403}}})
    .to_string()
}

/// Has ConfigMaps of a namespace reviewed there, and waits until they are: `refused` says of an object whether it is.
fn configure(ns: &str, url: &str, ca: &str, refused: &Value) {
    let plane = control_plane();
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": ns}, "webhooks": [{"name": "check.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 5,
            "clientConfig": {"url": url, "caBundle": STANDARD.encode(ca)},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"]}]}]});
    plane.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    wait_until("the webhook is asked", Duration::from_secs(60), || {
        let tried =
            plane.kubectl_with(["apply", "--dry-run=server", "-n", ns, "-f", "-"], &refused.to_string());
        Ok(tried.is_err().then_some(()))
    })
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_told_recorded_and_mended_by_asking_again() {
    let plane = control_plane();
    let namespace = plane.namespace("webhook").unwrap();
    let ns = namespace.name();
    let (port, ca) = serve(|_, body| review(body));
    configure(ns, &format!("https://127.0.0.1:{port}/review"), &ca, &config_map("probe", "forbidden"));
    let engine = engine().await;
    let wanted = |value: &str| -> ReleaseRequest { request(ns, "web", &[config_map("c", value)], vec![]) };
    let refusal = format!(
        "applying ConfigMap {ns}/c (test/templates/c.yaml): admission webhook \"check.example.com\" denied the request: \
         no such value here"
    );

    let ends = |status: &str| {
        let rows = history(ns, "web");
        let deployed = rows.iter().filter(|row| row.ends_with(":deployed")).count();
        assert!(rows.last().is_some_and(|row| row.ends_with(status)), "{rows:?}");
        assert!(deployed == 1 && !rows.iter().any(|row| row.contains("pending")), "{rows:?}");
    };
    let error = engine.reconcile(&wanted("forbidden")).await.unwrap_err();
    assert_eq!(error.to_string(), refusal);
    assert_eq!((history(ns, "web"), value(ns, "c")), (vec!["1:failed".to_owned()], None));
    engine.reconcile(&wanted("fine")).await.unwrap();
    ends(":deployed");

    let error = engine.reconcile(&wanted("forbidden")).await.unwrap_err();
    assert_eq!(error.to_string(), refusal);
    ends(":failed");
    assert_eq!(value(ns, "c").as_deref(), Some("fine"));
    let told = plane.helm4(["history", "web", "-n", ns]).unwrap();
    assert!(told.contains("denied the request: no such value here"), "{told}");
    engine.reconcile(&wanted("better")).await.unwrap();
    ends(":deployed");
    assert_eq!(value(ns, "c").as_deref(), Some("better"));

    // Nobody answers: the server does not let anything by, and that may pass.
    configure(ns, "https://127.0.0.1:1/review", &ca, &config_map("probe", "fine"));
    let error = engine.reconcile(&wanted("late")).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("applying ConfigMap {ns}/c (test/templates/c.yaml): "))
            && text.contains("check.example.com"),
        "{text}"
    );
    assert_eq!(error.disposition(), Disposition::Retry, "{text}");
    ends(":failed");
    plane.kubectl(["delete", "validatingwebhookconfiguration", ns]).unwrap();
    wait_until("the webhook is gone", Duration::from_secs(60), || {
        let probe = config_map("probe", "forbidden").to_string();
        let tried = plane.kubectl_with(["apply", "--dry-run=server", "-n", ns, "-f", "-"], &probe);
        Ok(tried.is_ok().then_some(()))
    })
    .unwrap();
    engine.reconcile(&wanted("late")).await.unwrap();
    assert_eq!(value(ns, "c").as_deref(), Some("late"));
}
