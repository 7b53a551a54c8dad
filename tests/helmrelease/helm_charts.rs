//! The HelmChart that a HelmRelease with `spec.chart` makes: its fields, Events and end.

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::support::{LIMIT, Running};

impl Running {
    fn helm_release(&self, interval: &str, source: &Value) {
        self.apply(&json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "web"},
            "spec": {"interval": interval, "chart": {"spec": {"chart": "./demo", "sourceRef": source}}},
        }));
    }

    fn helm_chart_in(&self, namespace: &str) -> Value {
        let name = format!("{}-web", self.ns.name());
        self.cp.find(&["helmchart", &name, "-n", namespace]).unwrap().unwrap_or_default()
    }

    /// Waits for an Event of this reason; its message.
    fn event(&self, reason: &str) -> String {
        let found = wait_until(reason, LIMIT, || {
            let events = self.list("events");
            let found =
                events.into_iter().find(|event| event["reason"] == reason && event["type"] == "Normal");
            Ok(found.map(|event| event["message"].as_str().unwrap().to_owned()))
        });
        found.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helm_chart_comes_and_goes_with_its_helm_release() {
    for kind in ["HelmRepository", "GitRepository", "Bucket"] {
        let mut running = Running::prepare("hc").await;
        let other = running.cp.namespace("hc-other").unwrap();
        let own = running.ns.name().to_owned();
        running.start().await;
        running.helm_release("5m", &json!({"kind": kind, "name": "charts"}));
        assert_eq!(
            running.event("HelmChartCreated"),
            format!("Created HelmChart/{own}/{own}-web with SourceRef '{kind}/{own}/charts'")
        );
        // In Go's form, as helm-controller writes it.
        assert_eq!(running.helm_chart_in(&own)["spec"]["interval"], "5m0s");
        running.helm_release("90s", &json!({"kind": kind, "name": "charts"}));
        assert_eq!(
            running.event("HelmChartConfigured"),
            format!("Configured HelmChart/{own}/{own}-web with SourceRef '{kind}/{own}/charts'")
        );
        assert_eq!(running.helm_chart_in(&own)["spec"]["interval"], "1m30s");

        // The source is in another namespace now, and the HelmChart with it.
        running.helm_release("90s", &json!({"kind": kind, "name": "charts", "namespace": other.name()}));
        assert_eq!(running.event("HelmChartDeleted"), format!("deleted HelmChart '{own}/{own}-web'"));
        let moved = || Ok((!running.helm_chart_in(other.name()).is_null()).then_some(()));
        wait_until("moved", LIMIT, moved).unwrap();
        assert!(running.helm_chart_in(&own).is_null());

        // Also where a process ended before it wrote the status.
        let known = |object: &Value| object["status"]["helmChart"].is_string();
        running.wait("noted", known, "web");
        running.stop().await;
        running.set_status("helmrelease", "web", &json!({"helmChart": null}));
        running.cp.kubectl(["delete", "helmrelease", "web", "-n", &own, "--wait=false"]).unwrap();
        running.start().await;
        let gone = || Ok(running.helm_chart_in(other.name()).is_null().then_some(()));
        wait_until("deleted", LIMIT, gone).unwrap();
        let gone = || Ok(running.get("helmrelease", "web").is_null().then_some(()));
        wait_until("gone", LIMIT, gone).unwrap();
        running.end().await;
    }
}
