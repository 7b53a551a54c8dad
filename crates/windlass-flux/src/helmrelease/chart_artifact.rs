//! Charts from the artifacts of Flux's sources: fetched by URL, verified by digest.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use chart_compat::go::semver;
use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;

use windlass_artifacts::{Artifact, ArtifactClient, check_digest};
use windlass_base::redact;
use windlass_controller::ReconcileError;
use windlass_engine::Disposition;

/// A failure to get a chart, with Flux's reason.
pub(super) fn failed(reason: &'static str, text: String) -> ReconcileError {
    ReconcileError::Reason { reason, text, disposition: Disposition::Retry }
}

/// Whether the revision names a digest, which becomes part of the chart's version.
fn tracks_digest(artifact: &Artifact) -> bool {
    matches!(artifact.source.gvk.kind.as_str(), "OCIRepository" | "ExternalArtifact")
        && artifact.revision.contains(':')
}

/// Digest of the OCI artifact that the revision names; empty if it names none. Behind a tag that is no version it is the whole
/// revision, as with helm-controller.
pub(super) fn oci_digest(artifact: &Artifact) -> &str {
    match tag(artifact) {
        _ if !tracks_digest(artifact) => "",
        Some((_, digest)) => digest,
        None => &artifact.revision,
    }
}

/// The version that the revision's tag is, and what follows it.
fn tag(artifact: &Artifact) -> Option<(String, &str)> {
    let (tag, digest) = artifact.revision.split_once('@')?;
    let tag = tag.replace('_', "+");
    semver::parse(&tag).is_ok().then_some((tag, digest))
}

/// The version of the chart with the beginning of the OCI digest as its metadata, so that a tag that was pushed again is a new
/// version.
fn version_of(artifact: &Artifact, chart_version: &str) -> Result<String, ReconcileError> {
    if !tracks_digest(artifact) {
        return Ok(chart_version.to_owned());
    }
    let wrong = |text: String| failed("ChartMutateError", text);
    let version =
        semver::parse(chart_version).map_err(|_| wrong(format!("invalid chart version {chart_version}")))?;
    if let Some((tag, _)) = tag(artifact)
        && !semver::parse(&tag).is_ok_and(|tag| semver::compare(&tag, &version).is_eq())
    {
        return Err(wrong(format!("artifact revision {tag} does not match chart version {chart_version}")));
    }
    let digest = oci_digest(artifact);
    let hex = digest.split_once(':').map_or("", |(_, hex)| hex);
    let Some(short) = hex.get(..12).filter(|_| !hex.contains(':')) else {
        return Err(wrong(format!("invalid artifact revision {digest}")));
    };
    let prerelease = match version.prerelease {
        "" => String::new(),
        prerelease => format!("-{prerelease}"),
    };
    Ok(format!("{}.{}.{}{prerelease}+{short}", version.major, version.minor, version.patch))
}

/// The chart of an artifact.
///
/// # Errors
/// It cannot be fetched, has another digest, or is not a chart.
pub(super) async fn load(
    client: &ArtifactClient,
    artifact: &Artifact,
) -> Result<Arc<CompiledChart>, ReconcileError> {
    let bytes = fetch(client, artifact).await?;
    compile(artifact, bytes).await
}

/// The bytes of an artifact, unverified.
///
/// # Errors
/// They cannot be fetched.
pub(super) async fn fetch(client: &ArtifactClient, artifact: &Artifact) -> Result<Bytes, ReconcileError> {
    client.fetch(artifact).await.map_err(|error| not_loaded(&error))
}

fn not_loaded(why: &dyn std::fmt::Display) -> ReconcileError {
    failed("ArtifactFailed", format!("Could not load chart: {why}"))
}

/// The chart in the bytes of an artifact.
///
/// # Errors
/// They have another digest, or are not a chart.
pub(super) async fn compile(artifact: &Artifact, bytes: Bytes) -> Result<Arc<CompiledChart>, ReconcileError> {
    check_digest(artifact, &bytes).map_err(|error| not_loaded(&error))?;
    let own = artifact.clone();
    let read = redact::spawn_blocking(move || {
        let loaded = windlass_fetch::load_package(&bytes, Path::new(&own.url), Profile::Helm4);
        let mut loaded = loaded.map_err(|e| not_loaded(&e))?;
        loaded.chart.metadata.version = version_of(&own, &loaded.chart.metadata.version)?;
        Ok::<_, ReconcileError>(Arc::new(loaded.compile(Profile::Helm4)))
    });
    read.await.map_err(|e| ReconcileError::Task(e.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use flux_api::api_names::SOURCES;
    use windlass_cluster::{Gvk, ObjectRef};

    fn artifact(kind: &str, revision: &str) -> Artifact {
        Artifact {
            source: ObjectRef::new(Gvk::new(SOURCES, kind), Some("a"), "b"),
            url: String::new(),
            digest: String::new(),
            revision: revision.to_owned(),
        }
    }

    #[test]
    fn a_digest_becomes_part_of_the_version() {
        let artifact = |revision: &str, tracks_digest| {
            artifact(if tracks_digest { "OCIRepository" } else { "HelmChart" }, revision)
        };
        let oci = "1.2.3@sha256:0123456789abcdef";
        for (revision, tracks, version, expected) in [
            (oci, true, "1.2.3", Some("1.2.3+0123456789ab")),
            (oci, true, "v1.2.3", Some("1.2.3+0123456789ab")),
            (oci, true, "1.2.3-rc.1", None),
            ("1.2@sha256:0123456789abcdef", true, "1.2.0", Some("1.2.0+0123456789ab")),
            ("1.2.3_b@sha256:0123456789abcdef", true, "1.2.3", Some("1.2.3+0123456789ab")),
            ("sha256:0123456789abcdef", true, "6.6.0-rc.1", Some("6.6.0-rc.1+0123456789ab")),
            ("sha256:0123", true, "6.6.0", None),
            (oci, true, "newest", None),
            ("latest@sha256:0123456789abcdef", true, "1.2.3+old", Some("1.2.3+0123456789ab")),
            (oci, true, "1.2.4", None),
            (oci, false, "1.2.4", Some("1.2.4")),
            ("1.2.3", false, "1.2.3", Some("1.2.3")),
        ] {
            assert_eq!(
                version_of(&artifact(revision, tracks), version).ok().as_deref(),
                expected,
                "{revision} {version}"
            );
        }
    }

    #[test]
    fn a_revision_names_the_digest_of_its_artifact() {
        for (kind, revision, expected) in [
            ("OCIRepository", "1.2.3@sha256:0123456789abcdef", "sha256:0123456789abcdef"),
            ("OCIRepository", "sha256:0123456789abcdef", "sha256:0123456789abcdef"),
            ("OCIRepository", "latest@sha256:0123456789abcdef", "latest@sha256:0123456789abcdef"),
            ("ExternalArtifact", "sha256:0123456789abcdef", "sha256:0123456789abcdef"),
            ("ExternalArtifact", "1.2.3", ""),
            ("HelmChart", "1.2.3@sha256:0123456789abcdef", ""),
        ] {
            assert_eq!(oci_digest(&artifact(kind, revision)), expected, "{kind} {revision}");
        }
    }
}
