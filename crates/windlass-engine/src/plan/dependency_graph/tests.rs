//! Cases of `graph`: objects, and the waves that they are applied in.

use super::*;
use serde_json::json;
use windlass_cluster::{Gvk, ObjectRef};

fn target(kind: &str, name: &str, body: Value) -> DesiredObject {
    let api_version = match kind {
        "Deployment" => "apps/v1",
        "Job" => "batch/v1",
        "RoleBinding" => "rbac.authorization.k8s.io/v1",
        "ValidatingWebhookConfiguration" => "admissionregistration.k8s.io/v1",
        "Issuer" | "Certificate" => "cert-manager.io/v1",
        _ => "v1",
    };
    let object = ObjectRef::new(Gvk::new(api_version, kind), Some("ns"), name);
    DesiredObject { key: object.key(), object, path: format!("{name}.yaml"), body, digest: [0; 32] }
}

fn after(what: &str) -> Value {
    json!({"metadata": {"annotations": {DEPENDS_ON: what}}})
}

/// The names of each wave, in order.
fn waves(targets: &[DesiredObject]) -> Result<Vec<String>, String> {
    let order = order(targets).map_err(|e| e.to_string())?;
    let mut waves: BTreeMap<Wave, Vec<&str>> = BTreeMap::new();
    for (target, wave) in targets.iter().zip(order.waves) {
        waves.entry(wave).or_default().push(&target.object.name);
    }
    Ok(waves.into_values().map(|names| names.join(" ")).collect())
}

#[test]
fn kinds_come_in_phases() {
    let targets = [
        target("ValidatingWebhookConfiguration", "hook", json!({})),
        target("Deployment", "web", json!({})),
        target("ConfigMap", "conf", json!({})),
        target("ConfigMap", "conf2", json!({})),
        target("Issuer", "issuer", json!({})),
    ];
    assert_eq!(waves(&targets).unwrap(), ["conf conf2", "web", "issuer", "hook"]);
}

#[test]
fn what_is_named_comes_first() {
    let reference = |kind: &str, name: &str| json!({"spec": {"issuerRef": {"kind": kind, "name": name}}});
    let targets = [
        target("Certificate", "cert", reference("Issuer", "issuer")),
        target("Issuer", "issuer", json!({})),
        target("Certificate", "other", reference("Issuer", "elsewhere")),
    ];
    assert_eq!(waves(&targets).unwrap(), ["issuer other", "cert"]);
    // A circle of mentions is none of ours to judge.
    let round = [
        target("Issuer", "a", reference("Issuer", "b")),
        target("Issuer", "b", reference("Issuer", "a")),
        target("Certificate", "c", reference("Issuer", "c")),
    ];
    assert_eq!(waves(&round).unwrap(), ["a b c"]);
}

#[test]
fn annotations_move_objects_and_what_needs_them() {
    let pod = json!({"spec": {"template": {"spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "late"}}]}]}}}});
    let targets = [
        target("ConfigMap", "late", after("Deployment/db, Job/migrate")),
        target("ConfigMap", "early", json!({})),
        target("Deployment", "web", pod),
        target("Deployment", "db", json!({})),
        target("Job", "migrate", after("Deployment/ns/db")),
    ];
    assert_eq!(waves(&targets).unwrap(), ["early", "db", "migrate", "late", "web"]);
    let order = order(&targets).unwrap();
    assert_eq!(order.awaits[0], BTreeSet::from([3, 4]));
    assert_eq!(order.awaits[2], BTreeSet::new(), "mentions are no waits");
    let kpt = json!({"metadata": {"annotations": {KPT_DEPENDS_ON: "apps/namespaces/ns/Deployment/db,/Job/migrate"}}});
    let targets = [
        target("Deployment", "db", json!({})),
        target("Job", "migrate", json!({})),
        target("Issuer", "i", kpt),
    ];
    assert_eq!(super::order(&targets).unwrap().awaits[2], BTreeSet::from([0, 1]));
}

#[test]
fn every_way_to_mention_is_seen() {
    let body = json!({
        "metadata": {"annotations": {"configMap": {"name": "no"}}},
        "spec": {"serviceAccountName": "sa", "priorityClassName": "pc", "imagePullSecrets": [{"name": "pull"}],
            "volumes": [{"configMap": {"name": "cm"}}, {"secret": {"secretName": "s"}}, {"persistentVolumeClaim": {"claimName": "pvc"}},
                {"projected": {"sources": [{"secret": {"name": "ps"}}]}}],
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "k", "key": "x"}}}]}]},
        "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": "sub", "namespace": "other"}],
        "webhooks": [{"clientConfig": {"service": {"name": "svc", "namespace": "ns"}}}],
    });
    let mut found = Vec::new();
    mentioned(&body, &mut |kind, namespace, name| {
        let namespace = namespace.map_or(String::new(), |n| format!("{n}/"));
        found.push(format!("{kind}/{namespace}{name}"));
    });
    found.sort();
    assert_eq!(
        found,
        [
            "ConfigMap/cm",
            "PersistentVolumeClaim/pvc",
            "PriorityClass/pc",
            "Role/r",
            "Secret/k",
            "Secret/ps",
            "Secret/pull",
            "Secret/s",
            "Service/ns/svc",
            "ServiceAccount/other/sub",
            "ServiceAccount/sa",
        ]
    );
}

#[test]
fn wrong_annotations_are_named() {
    let cases = [
        (
            vec![target("ConfigMap", "a", after("Deployment/none"))],
            "a.yaml: annotation windlass.dev/depends-on: \"Deployment/none\" is not an object of this release (Kind/name)",
        ),
        (
            vec![
                target("ConfigMap", "a", after("ConfigMap/b")),
                target("ConfigMap", "b", after("ConfigMap/a")),
            ],
            "a.yaml: annotation windlass.dev/depends-on: these wait for each other: ConfigMap ns/a, ConfigMap ns/b",
        ),
        (
            vec![target("ConfigMap", "a", after("ConfigMap/a"))],
            "a.yaml: annotation windlass.dev/depends-on: these wait for each other: ConfigMap ns/a",
        ),
    ];
    for (targets, expected) in cases {
        assert_eq!(waves(&targets).unwrap_err(), expected);
    }
}
