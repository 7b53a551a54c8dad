//! OCIRepository: an artifact of a registry, by tag, range of versions or digest.

use chart_compat::go::regexp;
use chart_compat::go::semver;
use serde_json::{Map, Value, json};

use std::time::{Duration, Instant};

use super::super::error::FluxError;
use super::fetch_bounds::FileBounds;
use super::fetch_context::FetchContext;
use super::ignore_rules::IgnoreRules;
use super::registry_login::{self, RegistryAccess};
use super::signature_policy::verify_artifact;
use super::source_archive::{unpack_within, write_archive};
use super::source_secrets;
use super::source_status::{Fetched, SOURCE_VERIFIED, SourceError, SourceStatus};
use flux_api::common::SourceArtifact;
use flux_api::oci_repository::{OciLayerSelector, OciRepositorySpec};
use windlass_base::redact;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::{Artifact, OciError, Registry};

/// The largest automaton of `semverFilter`, in bytes, and how long all tags may take.
const MAX_FILTER: usize = 64 << 10;
const FILTER_TIME: Duration = Duration::from_secs(30);
/// Media type of the layer of a chart.
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Annotations that say where an artifact comes from.
const ORIGIN: [&str; 2] = ["org.opencontainers.image.source", "org.opencontainers.image.revision"];

fn pull_failed(text: String) -> SourceError {
    SourceError::fetch("OCIArtifactPullFailed", text)
}

/// The digest that a revision ends with.
fn digest_of(revision: &str) -> &str {
    revision.rsplit('@').next().unwrap_or_default()
}

/// Fetches the artifact unless it is there.
pub(super) async fn fetch(
    context: &mut FetchContext<'_>,
    spec: &OciRepositorySpec,
    status: &SourceStatus,
) -> Result<Fetched, SourceError> {
    let wrong = |text: &str| {
        let text = format!("URL validation failed for '{}': {text}", spec.url);
        SourceError::fetch("URLInvalid", text).stalling()
    };
    let Some(bare) = spec.url.strip_prefix("oci://") else {
        return Err(wrong("URL must be in format 'oci://<domain>/<org>/<repo>'"));
    };
    let repository = OciReference::parse(bare).map_err(|e| wrong(&e.to_string()))?;
    if let Some(tag) = &repository.tag {
        return Err(wrong(&format!("URL must not contain a tag; remove ':{tag}'")));
    }
    let access = RegistryAccess {
        provider: &spec.provider,
        secret: spec.secret_ref.as_ref(),
        account: &spec.service_account_name,
        insecure: spec.insecure,
    };
    let login = registry_login::login(context, &access, &repository).await?;
    let certificates = source_secrets::read_optional(context.pass, spec.cert_secret_ref.as_ref()).await?;
    let tls = certificates.map(|secret| secret.tls(false)).transpose()?.unwrap_or_default();
    let http = context.http(spec.timeout.as_ref(), spec.proxy_secret_ref.as_ref()).await?;
    let registry = Registry::new(&http, tls, spec.insecure, login.login, login.credentials);
    let reference = chosen(&registry, spec, &repository).await?;
    let artifact = registry
        .artifact(&reference)
        .await
        .map_err(|e| pull_failed(format!("failed to determine artifact digest: {e}")))?;
    let revision = match &reference.tag {
        Some(tag) => format!("{tag}@{}", artifact.digest),
        None => artifact.digest.clone(),
    };
    let pinned = OciReference { tag: None, digest: Some(artifact.digest.clone()), ..reference };
    let known = status.artifact.as_ref().filter(|known| known.revision == revision);
    let verified = verify(context, spec, status, (&registry, &pinned, &revision), known.is_some()).await?;
    let selector = spec.layer_selector.clone().unwrap_or_default();
    let observed = observed(spec);
    let same = |key: &str| status.observed.get(key).unwrap_or(&Value::Null) == &observed[key];
    let artifact = match known {
        Some(known) if same("observedIgnore") && same("observedLayerSelector") => known.clone(),
        _ => {
            let content = layer(&registry, &pinned, &artifact, &selector, &spec.url).await?;
            let mut stored = store(context, spec, &selector, &revision, &content).await?;
            stored.metadata = artifact.annotations;
            stored
        }
    };
    let mut note = format!("stored artifact with revision '{revision}' from '{}'", spec.url);
    if let [Some(source), Some(origin)] = ORIGIN.map(|key| artifact.metadata.get(key)) {
        note = format!("{note}, origin source '{source}', origin revision '{origin}'");
    }
    Ok(Fetched {
        reason: "Succeeded",
        message: format!("stored artifact for digest '{revision}'"),
        note,
        artifact,
        observed,
        verified,
        latest: Some("latest.tar.gz"),
    })
}

/// The tag or digest that the spec asks for.
async fn chosen(
    registry: &Registry<'_>,
    spec: &OciRepositorySpec,
    repository: &OciReference,
) -> Result<OciReference, SourceError> {
    let asked = spec.reference.clone().unwrap_or_default();
    if !asked.digest.is_empty() {
        return Ok(OciReference { digest: Some(asked.digest), ..repository.clone() });
    }
    if asked.semver.is_empty() {
        let tag = if asked.tag.is_empty() { "latest".to_owned() } else { asked.tag };
        return Ok(OciReference { tag: Some(tag), ..repository.clone() });
    }
    let failed = |text: String| {
        let text = format!("failed to determine the artifact tag for '{}': {text}", spec.url);
        SourceError::fetch("ReadOperationFailed", text)
    };
    let tags = registry.tags(repository).await.map_err(|e| failed(e.to_string()))?;
    let is_chart = spec.layer_selector.as_ref().is_some_and(|selector| selector.media_type == CHART);
    // A registry may list many tags: not on a thread that requests of others wait for.
    let newest = redact::spawn_blocking(move || newest(&tags, &asked.semver, &asked.semver_filter, is_chart));
    let tag = newest.await.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.into()))?;
    Ok(OciReference { tag: Some(tag), ..repository.clone() })
}

/// The tag of the highest version in a range. Tags of charts have `_` where versions have `+`.
fn newest(tags: &[String], range: &str, filter: &str, is_chart: bool) -> Result<String, FluxError> {
    let wish = semver::Range::parse(range).map_err(|e| format!("semver '{range}' parse error: {e}"))?;
    let filter = match filter {
        "" => None,
        text => {
            let compiled = regexp::compile_within(text.as_bytes(), MAX_FILTER);
            Some(compiled.map_err(|e| format!("semverFilter {text:?}: {e}"))?)
        }
    };
    let is_wanted = |tag: &&String| filter.as_ref().is_none_or(|filter| filter.is_match(tag.as_bytes()));
    let begin = Instant::now();
    let mut wanted = Vec::new();
    for tag in tags {
        if begin.elapsed() > FILTER_TIME {
            let seconds = FILTER_TIME.as_secs();
            return Err(
                format!("the semverFilter takes more than {seconds} s for {} tags", tags.len()).into()
            );
        }
        wanted.extend(Some(tag).filter(is_wanted));
    }
    let tags = wanted.into_iter();
    let texts: Vec<(String, &String)> =
        tags.map(|tag| (if is_chart { tag.replace('_', "+") } else { tag.clone() }, tag)).collect();
    let versions = texts.iter().filter_map(|(text, tag)| Some((semver::parse(text).ok()?, tag)));
    let versions = versions.filter(|(version, _)| wish.check(version));
    let best = versions.max_by(|a, b| semver::compare(&a.0, &b.0)).map(|(_, tag)| (*tag).clone());
    best.ok_or_else(|| format!("no match found for semver: {range}").into())
}

/// Verifies the signature of a revision that is new, or was not verified with this spec.
async fn verify(
    context: &mut FetchContext<'_>,
    spec: &OciRepositorySpec,
    status: &SourceStatus,
    (registry, reference, revision): (&Registry<'_>, &OciReference, &str),
    known: bool,
) -> Result<Option<String>, SourceError> {
    let Some(verification) = &spec.verify else { return Ok(None) };
    let before = status.get(SOURCE_VERIFIED).filter(|c| c.status == "True" && known);
    if let Some(before) = before.filter(|c| c.observed_generation == context.generation) {
        return Ok(Some(before.message.clone()));
    }
    let keyless = verification.secret_ref.is_none() && verification.provider == "cosign";
    let provider = if keyless { "cosign keyless" } else { verification.provider.as_str() };
    let failed = |text: String| {
        let text = format!("failed to verify the signature using provider '{provider}': {text}");
        SourceError::new(SOURCE_VERIFIED, "VerificationError", text)
    };
    let secrets = (verification.secret_ref.as_ref(), verification.trusted_root_secret_ref.as_ref());
    let (own, identities) = (&verification.provider, &verification.match_oidc_identity);
    verify_artifact(context, own, secrets, identities, (registry, reference), failed).await?;
    Ok(Some(format!("verified signature of revision {revision}")))
}

/// The fields of the spec that the artifact depends on, as the status has them.
fn observed(spec: &OciRepositorySpec) -> Map<String, Value> {
    Map::from_iter([
        ("observedIgnore".to_owned(), json!(spec.ignore)),
        ("observedLayerSelector".to_owned(), json!(spec.layer_selector)),
    ])
}

/// The content of the layer that the spec selects.
async fn layer(
    registry: &Registry<'_>,
    reference: &OciReference,
    artifact: &Artifact,
    selector: &OciLayerSelector,
    url: &str,
) -> Result<bytes::Bytes, SourceError> {
    let failed = |text: String| SourceError::fetch("OCIArtifactLayerOperationFailed", text);
    let media = selector.media_type.as_str();
    let layer =
        match media {
            "" => artifact.layers.first().ok_or_else(|| failed("no layers found in artifact".to_owned()))?,
            _ => artifact.layers.iter().find(|layer| layer.media_type == media).ok_or_else(|| {
                failed(format!("failed to find layer with media type '{media}' in artifact"))
            })?,
        };
    let pulled = registry.layer(reference, layer).await;
    pulled.map_err(|e: OciError| pull_failed(format!("failed to pull artifact from '{url}': {e}")))
}

/// Stores a layer as it is, or the files in it.
async fn store(
    context: &FetchContext<'_>,
    spec: &OciRepositorySpec,
    selector: &OciLayerSelector,
    revision: &str,
    content: &bytes::Bytes,
) -> Result<SourceArtifact, SourceError> {
    let (content, ignore, revision) = (content.clone(), spec.ignore.clone(), revision.to_owned());
    let file = format!("{}.tar.gz", digest_of(&revision));
    let copies = selector.operation == "copy";
    context
        .blocking(move |store, source, end| {
            let stored = |e: std::io::Error| SourceError::storage("ArchiveOperationFailed", &e);
            if copies {
                return store.save(source, &file, &revision, |out| out.write_all(&content)).map_err(stored);
            }
            let scratch = store.scratch().map_err(stored)?;
            let mut bounds = FileBounds::new(end);
            unpack_within(&content[..], content.len() as u64, scratch.path(), &mut bounds).map_err(|e| {
                let text = format!("failed to extract layer contents from artifact: {e}");
                SourceError::fetch("OCIArtifactLayerOperationFailed", text)
            })?;
            let ignore = IgnoreRules::load(scratch.path(), ignore.as_deref()).map_err(stored)?;
            let saved =
                store.save(source, &file, &revision, |out| write_archive(scratch.path(), &ignore, out, end));
            saved.map_err(stored)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_tag_of_a_range_is_chosen() {
        let tags = ["1.0.0", "1.2.0_build.1", "2.0.0-rc.1", "latest", "1.10.0"].map(str::to_owned);
        for (range, filter, is_chart, expected) in [
            (">=1.0.0", "", false, Ok("1.10.0")),
            ("1.2.x", "", true, Ok("1.2.0_build.1")),
            ("1.2.x", "", false, Err("no match found for semver: 1.2.x")),
            (">=1.0.0-0", "", false, Ok("2.0.0-rc.1")),
            (">=1.0.0-0", ".*-rc.*", false, Ok("2.0.0-rc.1")),
            ("*", "^1\\.0", false, Ok("1.0.0")),
        ] {
            let found = newest(&tags, range, filter, is_chart).map_err(String::from);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{range} {filter}");
        }
        assert!(newest(&tags, "x y", "", false).is_err());
        assert!(newest(&tags, "*", "(", false).is_err());
        let large = newest(&tags, "*", &"(?:[a-z0-9.-]?){1000}".repeat(60), false).map_err(String::from);
        assert!(large.unwrap_err().starts_with("semverFilter"), "its automaton is too large");
    }
}
