//! Records whose objects are of versions or kinds that the cluster serves no more.

use crate::support::*;
use serde_json::{Value, json};
use windlass_engine::{ReleaseId, ReleaseOptions, RollbackRequest, record};

fn budget(version: &str, least: u64) -> Value {
    json!({"apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "d"}}}})
}

/// Makes a record one of old times: its budget of a version that went, beside an object of a kind that went.
fn age(ns: &str, revision: u64) {
    let name = format!("sh.helm.release.v1.web.v{revision}");
    let secret = get(ns, "secret", &name).unwrap();
    let mut old = record::decode_secret(&secret).unwrap();
    let policy =
        json!({"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": {"name": "psp"}});
    old.manifest = old.manifest.replace("\"policy/v1\"", "\"policy/v1beta1\"");
    old.manifest.push_str(&format!("---\n# Source: test/templates/psp.yaml\n{policy}\n"));
    assert!(old.manifest.contains("policy/v1beta1"), "{}", old.manifest);
    let aged = record::encode_secret(&old, "modifiedAt").unwrap();
    let patch = json!({"data": aged["data"]}).to_string();
    control_plane().kubectl(["patch", "secret", &name, "-n", ns, "-p", &patch]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_went_block_nothing() {
    let namespace = control_plane().namespace("removed").unwrap();
    let ns = namespace.name();
    let engine = engine().await;
    let id = ReleaseId::new(ns, "web");
    let asked = |objects: &[Value]| {
        let mut wanted = request(ns, "web", objects, vec![]);
        wanted.options.revisions.skip_unchanged = false;
        wanted
    };
    let least = || get(ns, "pdb", "pdb").map(|o| o["spec"]["minAvailable"].clone());
    let told = |warnings: &[String]| {
        warnings
            .iter()
            .any(|w| w.contains("PodDisruptionBudget pdb of policy/v1beta1") && w.contains("policy/v1 "))
    };
    engine.reconcile(&asked(&[config_map("a", "1"), budget("policy/v1", 1)])).await.unwrap();
    age(ns, 1);

    let shown = engine.resources(&id, &engine.records().get(&id, 1).await.unwrap(), false).await.unwrap();
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["v1/ConfigMap", "v1/PodDisruptionBudget"]);

    let restored = {
        control_plane().kubectl(["delete", "pdb", "pdb", "-n", ns]).unwrap();
        engine.restore(&id, &ReleaseOptions::default(), None).await.unwrap()
    };
    assert_eq!((restored.created.len(), least()), (1, Some(json!(1))), "{restored:?}");

    // What the chart no longer has is deleted, whatever version it was recorded in.
    let upgraded = engine.reconcile(&asked(&[config_map("a", "2")])).await.unwrap();
    assert!(told(&upgraded.warnings), "{upgraded:?}");
    assert_eq!((upgraded.pruned.len(), least()), (1, None), "{upgraded:?}");

    let back = RollbackRequest {
        id: id.clone(),
        revision: 1,
        options: ReleaseOptions::default(),
        description: None,
        cause: "a test".to_owned(),
    };
    let back = engine.rollback(&back).await.unwrap();
    assert!(told(&back.warnings), "{back:?}");
    assert!(back.warnings.iter().any(|w| w.contains("PodSecurityPolicy psp")), "{back:?}");
    assert_eq!((value(ns, "a").as_deref(), least()), (Some("1"), Some(json!(1))));

    let gone = engine.uninstall(&uninstall(ns, "web")).await.unwrap();
    assert!(gone.errors.is_empty(), "{gone:?}");
    assert_eq!((gone.deleted.len(), least(), history(ns, "web").len()), (2, None, 0), "{gone:?}");
}
