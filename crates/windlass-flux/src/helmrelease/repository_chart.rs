//! The chart of a template whose HelmChart does not exist yet, from its HelmRepository: for plans only.
//!
//! A pass of the operator applies the HelmChart and leaves the fetch to source-controller.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;
use serde::Deserialize as _;

use flux_api::api_names::SOURCES;
use flux_api::helm_release::ChartTemplate;
use flux_api::helm_repository::HelmRepositorySpec;
use windlass_base::redact;
use windlass_base::redact::SecretText;
use windlass_cluster::{Cluster, Gvk, ObjectRef};
use windlass_controller::{ReconcileError, SecretData, SecretReadError};
use windlass_engine::Disposition;
use windlass_fetch::fetch::{Fetcher, Options};
use windlass_fetch::helm_paths::Home;
use windlass_fetch::http::Http;
use windlass_fetch::oci::credentials::Credentials as RegistryCredentials;

/// Reason of charts that are not in the cluster and cannot be fetched here: somebody has to give them.
pub const CHART_UNAVAILABLE: &str = "ChartUnavailable";
/// Time for one download.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn unavailable(why: &str) -> ReconcileError {
    ReconcileError::Reason {
        reason: CHART_UNAVAILABLE,
        text: format!("spec.chart: its HelmChart is not in the cluster in this form, and {why}"),
        disposition: Disposition::Stall,
    }
}

/// Fetches the chart of a template of a HelmRelease in `namespace`.
///
/// # Errors
/// The source is no HelmRepository, needs what is not supported here, or does not have the chart.
pub(super) async fn fetch(
    client: &Cluster,
    namespace: &str,
    template: &ChartTemplate,
) -> Result<Arc<CompiledChart>, ReconcileError> {
    let (spec, reference) = (&template.spec, &template.spec.source_ref);
    if reference.kind != "HelmRepository" {
        return Err(unavailable(&format!(
            "charts of a {} are packed by source-controller only",
            reference.kind
        )));
    }
    if !spec.values_files.is_empty() {
        return Err(unavailable("valuesFiles are merged by source-controller only"));
    }
    let within = reference.namespace.as_deref().unwrap_or(namespace);
    let gvk = Gvk::new(SOURCES, "HelmRepository");
    let repository = ObjectRef::new(gvk, Some(within), &reference.name);
    let found = client.get(&repository).await?;
    let found = found.ok_or_else(|| unavailable(&format!("{repository} does not exist")))?;
    let version = spec.version.as_deref().filter(|version| *version != "*").unwrap_or_default();
    let source = HelmRepositorySpec::deserialize(&found["spec"]);
    let source = source.map_err(|e| unavailable(&format!("{repository} cannot be read: spec: {e}")))?;
    let mut options = options(client, within, &source).await?;
    version.clone_into(&mut options.version);
    let url = source.url.trim_end_matches('/');
    let chart = if url.starts_with("oci://") {
        format!("{url}/{}", spec.chart)
    } else {
        options.repository = Some(url.to_owned());
        spec.chart.clone()
    };
    // Neither charts nor credentials of this machine: the object decides what is fetched, and with whose rights.
    let home = tempfile::tempdir().map_err(|e| ReconcileError::Task(e.to_string()))?;
    let (home, http) = (Home::below(home.path()), Http::new(TIMEOUT, false));
    let fetcher = Fetcher::of_tenant(home, http, RegistryCredentials::none());
    let fetched = fetcher.fetch(&chart, &options, &mut |line| tracing::warn!("{line}")).await;
    let fetched = fetched.map_err(|e| unavailable(&format!("{repository} does not give it: {e}")))?;
    let read = redact::spawn_blocking(move || {
        let loaded =
            windlass_fetch::load_package(&fetched.bytes, Path::new(&fetched.file_name), Profile::Helm4);
        let loaded = loaded.map_err(|e| ReconcileError::Chart(e.to_string()))?;
        Ok::<_, ReconcileError>(Arc::new(loaded.compile(Profile::Helm4)))
    });
    read.await.map_err(|e| ReconcileError::Task(e.to_string()))?
}

/// How a HelmRepository is accessed.
async fn options(
    client: &Cluster,
    namespace: &str,
    spec: &HelmRepositorySpec,
) -> Result<Options, ReconcileError> {
    if !matches!(spec.provider.as_str(), "" | "generic") {
        return Err(unavailable(&format!(
            "its HelmRepository has the provider {}, which is not supported here",
            spec.provider
        )));
    }
    if spec.cert_secret_ref.is_some() {
        return Err(unavailable("its HelmRepository has a certSecretRef, which is not supported here"));
    }
    let mut options =
        Options { pass_credentials: spec.pass_credentials, plain_http: spec.insecure, ..Options::default() };
    let Some(name) = spec.secret_ref.as_ref().map(|secret| &secret.name) else { return Ok(options) };
    let of_repository = |why: &dyn std::fmt::Display| {
        unavailable(&format!("the Secret {namespace}/{name} of its HelmRepository {why}"))
    };
    let secret = SecretData::read(client, namespace, name).await.map_err(|error| match error {
        SecretReadError::Request(error) => error.into(),
        SecretReadError::NotFound(_) => of_repository(&"does not exist"),
        error => of_repository(&format!("cannot be used: {error}")),
    })?;
    let (Some(username), Some(password)) = (secret.text("username"), secret.text("password")) else {
        return Err(of_repository(&"has no username and password"));
    };
    options.username = username;
    options.password = SecretText::new(password);
    Ok(options)
}
