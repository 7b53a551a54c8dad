//! Diagnostics of objects that are not ready: logs of containers, and warning events.

use super::{
    api_client::{ApiCall, Cluster},
    error::Result,
    object_api::escape,
    object_ref::ObjectRef,
};
use serde_json::Value;

impl Cluster {
    /// The beginning of a container's log, at most `limit` bytes.
    pub async fn pod_log(&self, namespace: &str, pod: &str, container: &str, limit: usize) -> Result<String> {
        self.log(namespace, pod, container, &format!("limitBytes={limit}")).await
    }

    /// The last lines of a container's log, of its previous run if it had one.
    pub async fn pod_log_tail(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        lines: usize,
        previous: bool,
    ) -> Result<String> {
        let query = format!("tailLines={lines}&limitBytes=16384&previous={previous}");
        self.log(namespace, pod, container, &query).await
    }

    async fn log(&self, namespace: &str, pod: &str, container: &str, query: &str) -> Result<String> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}/log?container={}&{query}",
            escape(namespace),
            escape(pod),
            escape(container)
        );
        Ok(self.call_text(&ApiCall { accept: "*/*", ..ApiCall::get(&path) }).await?.0)
    }

    /// The newest warning events of an object, as `reason: message`, at most `most`.
    pub async fn warnings_about(&self, object: &ObjectRef, most: usize) -> Result<Vec<String>> {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let selector = format!(
            "involvedObject.name={},involvedObject.kind={},type=Warning",
            object.name, object.gvk.kind
        );
        let path = format!(
            "/api/v1/namespaces/{}/events?limit=50&fieldSelector={}",
            escape(namespace),
            escape(&selector)
        );
        let list = self.call(ApiCall::get(&path)).await?.value;
        let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
        let mut events: Vec<(String, String)> = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|e| (text(&e["lastTimestamp"]), format!("{}: {}", text(&e["reason"]), text(&e["message"]))))
            .collect();
        events.sort();
        events.dedup_by(|a, b| a.1 == b.1);
        Ok(events.into_iter().rev().take(most).map(|(_, line)| line).collect())
    }
}
