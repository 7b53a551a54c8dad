//! What a fetch has at hand: the pass over its object, the store, and a client for URLs of tenants.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::artifact_store::{ArtifactStore, SourceName};
use super::fetch_bounds::{self, FetchEnd};
use super::source_secrets;
use super::source_status::SourceError;
use flux_api::GoDuration;
use flux_api::common::LocalObjectReference;
use windlass_cluster::{Gvk, ObjectRef};
use windlass_controller::ReconcilePass;
use windlass_fetch::http::Http;
use windlass_fetch::location::Location;

/// Time limit of a fetch without one of its own.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time limit of a fetch: one holds a worker.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);

/// Time limit of a request for credentials of this process.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(10);

/// One fetch.
pub(super) struct FetchContext<'p> {
    pub(super) pass: &'p mut ReconcilePass,
    pub(super) store: Arc<ArtifactStore>,
    /// A client without a proxy.
    pub(super) http: Http,
    /// The object's kind.
    pub(super) kind: &'static str,
    /// The object's generation.
    pub(super) generation: i64,
    /// Sources may be on this machine.
    pub(super) allows_local: bool,
    /// Sources of a cloud may act with this process' identity.
    pub(super) allows_own_identity: bool,
}

/// The time limit of a fetch.
pub(super) fn timeout_of(own: Option<Duration>) -> Duration {
    own.map_or(TIMEOUT, |own| own.min(MAX_TIMEOUT))
}

impl FetchContext<'_> {
    pub(super) fn namespace(&self) -> String {
        self.pass.reference.namespace.clone().unwrap_or_default()
    }

    /// The name of the source among the artifacts.
    pub(super) fn with_source<T>(&self, work: impl FnOnce(&SourceName<'_>) -> T) -> T {
        let namespace = self.namespace();
        work(&SourceName { kind: self.kind, namespace: &namespace, name: &self.pass.reference.name })
    }

    /// A client with the source's time limit and proxy.
    pub(super) async fn http(
        &mut self,
        timeout: Option<&GoDuration>,
        proxy: Option<&LocalObjectReference>,
    ) -> Result<Http, SourceError> {
        let http = self.http.clone().with_timeout(timeout_of(timeout.map(GoDuration::get)));
        Ok(match source_secrets::read_optional(self.pass, proxy).await? {
            Some(secret) => http.with_proxy(secret.proxy()?),
            None => http,
        })
    }

    /// A client with which this process asks for credentials of its own: not the tenant's, which reaches no metadata service.
    ///
    /// # Errors
    /// The operator does not allow it.
    pub(super) fn own_identity(&self, provider: &str) -> Result<Http, SourceError> {
        if self.allows_own_identity {
            return Ok(Http::new(IDENTITY_TIMEOUT, false));
        }
        let text = format!(
            "spec.provider {provider:?} without credentials in spec.secretRef asks for the identity of this process, which sources have only with \
             --allow-workload-identity"
        );
        Err(SourceError::fetch("InvalidProviderConfiguration", text).stalling())
    }

    /// Whether this process may send its identity to a host: one of these domains of its cloud.
    pub(super) fn is_of_cloud(&self, url: &Location, domains: &[&str]) -> bool {
        let host = url.hostname();
        let within = |domain: &&str| host == *domain || host.ends_with(&format!(".{domain}"));
        let known = url.scheme == "https" && domains.iter().any(within);
        known || self.allows_local && url.is_loopback()
    }

    /// The image pull Secrets of a ServiceAccount of the source's namespace.
    pub(super) async fn pull_secrets(&self, account: &str) -> Result<Vec<LocalObjectReference>, SourceError> {
        let namespace = self.namespace();
        let reference = ObjectRef::new(Gvk::new("v1", "ServiceAccount"), Some(&namespace), account);
        let failed = |text: String| {
            let text = format!("failed to get service account '{namespace}/{account}': {text}");
            SourceError::fetch("AuthenticationFailed", text)
        };
        let object = self.pass.client().get(&reference).await.map_err(|e| failed(e.to_string()))?;
        let object = object.ok_or_else(|| failed("not found".to_owned()))?;
        let all = object["imagePullSecrets"].as_array().cloned().unwrap_or_default();
        let names = all.iter().filter_map(|secret| secret["name"].as_str());
        Ok(names.map(|name| LocalObjectReference { name: name.to_owned() }).collect())
    }

    /// A directory for work in progress, which threads that work in it share.
    pub(super) fn scratch(&self) -> Result<Arc<TempDir>, SourceError> {
        self.store.scratch().map(Arc::new).map_err(|e| SourceError::storage("DirectoryCreationFailed", &e))
    }

    /// Does work on disk, off the threads that wait. Work on many files looks at the end.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&ArtifactStore, &SourceName<'_>, &FetchEnd) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let (store, kind) = (Arc::clone(&self.store), self.kind);
        let (namespace, name) = (self.namespace(), self.pass.reference.name.clone());
        let task = fetch_bounds::blocking(move |end| {
            work(&store, &SourceName { kind, namespace: &namespace, name: &name }, end)
        });
        task.await.unwrap_or_else(|e| Err(SourceError::fetch("Failed", format!("a task ended early: {e}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fetch_takes_longer_than_an_hour() {
        for (own, limit) in [(None, 60), (Some(5), 5), (Some(3600), 3600), (Some(u64::MAX), 3600)] {
            assert_eq!(timeout_of(own.map(Duration::from_secs)), Duration::from_secs(limit));
        }
    }
}
