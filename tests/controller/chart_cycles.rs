//! Charts whose objects are HelmCharts, or objects of charts' kinds: those that have the very object that they are deployed for, and two
//! that have each other's.

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::chart_objects::{self, GROUP, Setup};
use super::chart_server::ChartServer;
use super::helmcharts::{Running, chart, content};
use super::{LIMIT, write};

/// A HelmChart that the values name, and which names the release in turn.
const HELM_CHART: &str = r#"{{- with .Values.peer }}
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata: {name: "{{ . }}"}
spec:
  chart: "{{ $.Values.url }}"
  takeOwnership: true
  set: {peer: "{{ $.Release.Name }}", url: "{{ $.Values.url }}"}
{{- end }}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_helmchart_that_its_own_chart_has_is_refused() {
    let mut running = Running::started().await;
    let package = chart("1.0.0", &[("templates/peer.yaml", HELM_CHART)]);
    running.chart("web", &json!({"chartContent": content(&package), "set": {"peer": "web", "url": "x"}}));
    running.wait_ready("web", "False ChartInvalid");
    let message = running.message("web");
    let expected = "templates/peer.yaml has the object that the release is deployed for";
    assert!(message.contains(expected) && message.contains("HelmChart"), "{message}");
    assert_eq!(running.kubectl("get secrets,configmaps -o name -l owner=helm"), "");
    // Another name is enough.
    running.chart("web", &json!({"chartContent": content(&package), "set": {"peer": ""}}));
    running.wait_revision("web", 1);
    // A release that exists stays as it is.
    running.chart("web", &json!({"chartContent": content(&package), "set": {"peer": "web", "url": "x"}}));
    running.wait_ready("web", "False ChartInvalid");
    assert_eq!((running.revisions("web"), running.size("web")), (1, "one".to_owned()));
    running.kubectl("delete helmchart web --timeout=50s");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_helmcharts_that_have_each_other_are_deleted() {
    let package = chart("1.0.0", &[("templates/peer.yaml", HELM_CHART)]);
    let server = ChartServer::start(&[("/web-1.0.0.tgz", package)]).await;
    let url = format!("http://{}/web-1.0.0.tgz", server.address);
    let mut running = Running::started().await;
    running.chart("a", &json!({"chart": url, "takeOwnership": true, "set": {"peer": "b", "url": url}}));
    let release_of =
        |name: &str| running.get("helmchart", name, "{.metadata.annotations.meta\\.helm\\.sh/release-name}");
    running.wait("each is an object of the other's release", || {
        (release_of("a"), release_of("b")) == ("b".to_owned(), "a".to_owned())
    });
    running.wait("both are deployed", || {
        running.cp.helm4(["list", "-n", running.ns.name(), "-q"]).unwrap() == "a\nb\n"
    });
    running.kubectl("delete helmchart a --timeout=50s");
    assert_eq!(running.get("helmchart", "b", "{.metadata.name}"), "", "it is gone before the other one");
    assert_eq!(running.kubectl("get secrets -l owner=helm -o name"), "");
    assert_eq!([running.size("a"), running.size("b")], ["", ""]);
    running.stop().await;
}

/// An object of the kind that the values name, and which names the release in turn.
fn object_chart(root: &std::path::Path) {
    write(root, "Chart.yaml", "apiVersion: v2\nname: cache\nversion: 0.1.0\n");
    write(root, "values.yaml", "peer: \"\"\n");
    std::fs::remove_file(root.join("values.schema.json")).unwrap();
    let object = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ .Release.Name }}}}\"}}\ndata: {{size: \"1\"}}\n{{{{ with .Values.peer }}}}\n---\n\
         apiVersion: {GROUP}/v1\nkind: Cache\nmetadata:\n  name: \"{{{{ . }}}}\"\n  annotations: \
         {{helm.sdk.operatorframework.io/uninstall-wait: \"true\"}}\nspec: {{peer: \"{{{{ $.Release.Name }}}}\"}}\n{{{{ end }}}}\n"
    );
    write(root, "templates/all.yaml", &object);
    write(root, "templates/NOTES.txt", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_kind_that_have_themselves_or_each_other() {
    let mut own = chart_objects::Running::start(&["Store"]).await;
    own.end().await;
    object_chart(own.root.path());
    own.resume(&["Cache"], &Setup { fields: ", reconcilePeriod: 1h", ..Setup::default() }).await;
    let n = own.ns.name().to_owned();
    own.apply("Cache", "self", &json!({"peer": "self"}));
    let message = own.wait_condition("Cache", "self", "Stalled", "True InstallError");
    assert!(
        message.contains("templates/all.yaml has the object that the release is deployed for"),
        "{message}"
    );
    assert_eq!(own.history("self"), [""; 0]);
    own.delete("Cache", "self");

    // The first has the marks of the other's release, which would not take it over.
    let metadata = json!({
        "name": "a",
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "meta.helm.sh/release-name": "b", "meta.helm.sh/release-namespace": n,
            "helm.sdk.operatorframework.io/uninstall-wait": "true",
        },
    });
    own.apply_in(&n, "Cache", &metadata, &json!({"peer": "b"}));
    let owner = |name: &str| {
        let object = own.object("Cache", name).unwrap_or_default();
        object["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().to_owned()
    };
    own.wait("each is an object of the other's release", || {
        (owner("a"), owner("b")) == ("b".to_owned(), "a".to_owned())
    });
    own.wait("both are deployed", || {
        (own.history("a"), own.history("b")) == (vec!["deployed".to_owned()], vec!["deployed".to_owned()])
    });
    own.cp.kubectl(["delete", &format!("caches.{GROUP}"), "a", "-n", &n, "--timeout=50s"]).unwrap();
    wait_until("the other is gone", LIMIT, || Ok(own.object("Cache", "b").is_none().then_some(()))).unwrap();
    assert_eq!([own.data("a", "size"), own.data("b", "size")], ["", ""]);
    assert_eq!(own.object("secret", "sh.helm.release.v1.b.v1"), None::<Value>);
    own.end().await;
}
