//! Reads from a Service through the API server, for processes outside the cluster.

use super::{
    api_client::{ApiCall, Cluster},
    error::{ClusterError, Result},
    object_api::escape,
};
use bytes::Bytes;

impl Cluster {
    /// What a Service answers to a GET of a path. Needs the right to `services/proxy`.
    pub async fn get_from_service(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
        path: &str,
    ) -> Result<Bytes> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        // Escaped or not, these would make another path.
        if let Some(bad) =
            [namespace, service].iter().chain(&parts).find(|part| matches!(**part, "" | "." | ".."))
        {
            return Err(ClusterError::Name { kind: "Service".to_owned(), name: (*bad).to_owned() });
        }
        let parts: Vec<String> = parts.into_iter().map(escape).collect();
        let path = format!(
            "/api/v1/namespaces/{}/services/http:{}:{port}/proxy/{}",
            escape(namespace),
            escape(service),
            parts.join("/")
        );
        Ok(self.call_bytes(&ApiCall { accept: "*/*", ..ApiCall::get(&path) }).await?.0)
    }
}
