//! Releases that are larger than a Secret.

use crate::{
    helm::{helms, write_chart},
    support::*,
};
use serde_json::{Value, json};
use windlass_engine::{ReleaseAction, ReleaseId};
use windlass_testing::Error;

/// A ConfigMap of text that gzip cannot shrink much.
fn noise(name: &str, mut seed: u64) -> Value {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'#' + u8::try_from((seed >> 40) % 57).unwrap())
    };
    let text: String = (0..600_000).map(|_| next()).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}})
}

fn parts(ns: &str) -> usize {
    let list = control_plane().kubectl(["get", "secrets", "-n", ns, "-o", "name"]).unwrap();
    list.lines().filter(|line| line.contains("windlass.release.v1.web.")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn live_as_small_ones_do_and_helm_refuses_to_act_on_half_of_them() {
    let plane = control_plane();
    let engine = engine().await;
    let chart = tempfile::tempdir().unwrap();
    write_chart(chart.path(), &[config_map("a", "1")]);
    let path = chart.path().to_str().unwrap();
    let wanted = |ns: &str, names: &[&str]| {
        let objects: Vec<Value> = names.iter().zip(1..).map(|(name, seed)| noise(name, seed)).collect();
        request(ns, "web", &objects, vec![])
    };
    for (version, helm) in helms() {
        let namespace = plane.namespace(version).unwrap();
        let ns = namespace.name();
        engine.reconcile(&wanted(ns, &["a", "b", "c"])).await.unwrap();
        assert_eq!(parts(ns), 2);
        let record = engine.records().get(&ReleaseId::new(ns, "web"), 1).await.unwrap();
        assert!(record.manifest.len() > 1_800_000 && record.config == json!({"some": "value"}));
        let list = helm(plane, &["list", "-n", ns]).unwrap();
        assert!(list.contains("web") && list.contains("deployed") && list.contains("test-1.0.0"), "{list}");
        for args in [&["history", "web"][..], &["get", "values", "web"], &["get", "manifest", "web"]] {
            helm(plane, &[args, &["-n", ns]].concat()).unwrap();
        }
        // What would act on half of the objects is refused.
        for args in [&["upgrade", "web", path][..], &["rollback", "web", "1"], &["uninstall", "web"]] {
            let refused = helm(plane, &[args, &["-n", ns]].concat());
            let Err(Error::Command { stderr, .. }) = refused else { panic!("{args:?}: {refused:?}") };
            // Helm 3 keeps to itself why.
            let said = ["no matches for kind", "failed to delete release: web"];
            assert!(said.iter().any(|said| stderr.contains(said)), "{version} {args:?}: {stderr}");
        }
        assert!(get(ns, "configmap", "b").is_some(), "Helm deleted nothing");
        // What Helm tried left its mark; we go on.
        let past = history(ns, "web");
        let newest: u64 = past.last().unwrap().split(':').next().unwrap().parse().unwrap();
        let mut second = wanted(ns, &["a", "c"]);
        second.options.revisions.break_lock = true;
        let done = engine.reconcile(&second).await.unwrap();
        assert_eq!((done.action, done.revision), (ReleaseAction::Upgrade, newest + 1), "{past:?}");
        assert!(get(ns, "configmap", "b").is_none(), "what was pruned was known");
        let again = crate::support::engine().await.reconcile(&second).await.unwrap();
        assert_eq!(again.action, ReleaseAction::Unchanged, "{again:?}");
        engine.uninstall(&uninstall(ns, "web")).await.unwrap();
        assert!(get(ns, "configmap", "a").is_none());
        assert!(history(ns, "web").is_empty());
    }
}
