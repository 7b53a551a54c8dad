//! HelmRepository: the index of an HTTP repository. A registry has no index: charts are read from it directly.

use serde_json::Map;

use super::fetch_context::FetchContext;
use super::source_secrets;
use super::source_status::{Fetched, SourceError, SourceStatus};
use flux_api::common::SourceArtifact;
use flux_api::helm_repository::HelmRepositorySpec;
use windlass_fetch::http::{Credentials, Tls};
use windlass_fetch::location::Location;
use windlass_fetch::repository::{self, RepositoryAccess};

/// The largest index, in bytes; as in source-controller.
const MAX_INDEX: u64 = 50 << 20;
/// Name of the index among the files that stay between passes.
const CACHED: &str = "repository";

/// Whether a repository is a registry.
pub(super) fn is_registry(spec: &HelmRepositorySpec) -> bool {
    spec.repository_type == "oci"
}

/// How the repository is accessed.
pub(super) async fn access(
    context: &mut FetchContext<'_>,
    spec: &HelmRepositorySpec,
) -> Result<RepositoryAccess, SourceError> {
    let secret = source_secrets::read_optional(context.pass, spec.secret_ref.as_ref()).await?;
    let certificates = source_secrets::read_optional(context.pass, spec.cert_secret_ref.as_ref()).await?;
    let tls = match (&certificates, &secret) {
        (Some(secret), _) => secret.tls(false)?,
        (None, Some(secret)) => secret.tls(true)?,
        (None, None) => Tls::default(),
    };
    let login = secret.map(|secret| secret.login()).transpose()?.flatten();
    Ok(RepositoryAccess {
        name: CACHED.to_owned(),
        url: spec.url.clone(),
        credentials: login.map(|(user, password)| Credentials::Basic(user, password)),
        pass_credentials: spec.pass_credentials,
        tls,
        max_index: MAX_INDEX,
    })
}

/// Fetches the index unless it is there.
pub(super) async fn fetch(
    context: &mut FetchContext<'_>,
    spec: &HelmRepositorySpec,
    status: &SourceStatus,
) -> Result<Fetched, SourceError> {
    let invalid = |text: &str| {
        SourceError::fetch("URLInvalid", format!("invalid Helm repository URL: {text}")).stalling()
    };
    let url = Location::parse(&spec.url).map_err(|e| invalid(&e.to_string()))?;
    match url.scheme.as_str() {
        "http" | "https" => {}
        "oci" => return Err(invalid("'oci' URL scheme cannot be used with 'default' HelmRepository type")),
        other => return Err(invalid(&format!("scheme {other:?} is not http or https"))),
    }
    let access = access(context, spec).await?;
    let http = context.http(spec.timeout.as_ref(), None).await?;
    let directory = context
        .with_source(|source| context.store.cache_of(source))
        .map_err(|e| SourceError::storage("DirectoryCreationFailed", &e))?;
    let index = repository::update(&http, &directory, &access)
        .await
        .map_err(|e| SourceError::fetch("Failed", format!("failed to fetch Helm repository index: {e}")))?;
    let known = status.artifact.clone();
    let artifact = context
        .blocking(move |store, source, _| {
            let stored = |e: std::io::Error| SourceError::storage("ArchiveOperationFailed", &e);
            let digest = repository::digest_of(&index).map_err(stored)?;
            let revision = format!("sha256:{digest}");
            if let Some(known) = known.filter(|known| known.revision == revision) {
                return Ok::<SourceArtifact, SourceError>(known);
            }
            let file = format!("index-{digest}.yaml");
            let copy = |out: &mut dyn std::io::Write| {
                std::io::copy(&mut std::fs::File::open(&index)?, out).map(drop)
            };
            store.save(source, &file, &revision, copy).map_err(stored)
        })
        .await?;
    let size = artifact.size.unwrap_or_default();
    Ok(Fetched {
        reason: "Succeeded",
        message: format!("stored artifact: revision '{}'", artifact.revision),
        note: format!("stored fetched index of size {size}B from '{}'", spec.url),
        artifact,
        observed: Map::new(),
        verified: None,
        latest: Some("index.yaml"),
    })
}
