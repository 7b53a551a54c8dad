//! Charts from the artifacts of Flux's sources: fetched by URL, verified by digest.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chart_compat::go::semver;
use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;
use serde::Deserialize as _;
use serde_json::Value;

use super::super::error::FluxError;
use super::digest::sha256;
use flux_api::api_names::SOURCES;
use flux_api::common::{SourceArtifact, failure_of};
use windlass_base::bounded_read;
use windlass_base::redact;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_controller::ReconcileError;
use windlass_engine::Disposition;
use windlass_fetch::http::{Http, Request, Tls};
use windlass_fetch::location::Location;

/// Largest artifact, in bytes.
const MAX_ARTIFACT: u64 = 64 << 20;
/// Time for one download.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The artifact of a source, as its status has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Artifact {
    /// Whose artifact it is.
    pub(super) source: ObjectRef,
    pub(super) url: String,
    pub(super) digest: String,
    pub(super) revision: String,
    /// The revision names a digest, which becomes part of the chart's version.
    pub(super) tracks_digest: bool,
}

/// A failure to get a chart, with Flux's reason.
pub(super) fn failed(reason: &'static str, text: String) -> ReconcileError {
    ReconcileError::Reason { reason, text, disposition: Disposition::Retry }
}

impl Artifact {
    /// The artifact of a source that is ready: observed in its generation, not stalled, with an artifact.
    ///
    /// # Errors
    /// The source is not ready; the text says why.
    pub(super) fn of(source: &Value, kind: &str, name: &str) -> Result<Self, ReconcileError> {
        let not_ready = |why: &str| {
            let failure = failure_of(source);
            let cause = failure.map(|cause| format!(": {cause}")).unwrap_or_default();
            let text = format!("{kind} '{name}' is not ready: {why}{cause}");
            let disposition = Disposition::Dependency { failed: failure.is_some() };
            ReconcileError::Reason { reason: "SourceNotReady", text, disposition }
        };
        let status = &source["status"];
        let meta = ObjectMeta::of(source);
        if status["observedGeneration"] != meta.generation() {
            return Err(not_ready("latest generation of object has not been reconciled"));
        }
        let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        if conditions.iter().any(|c| c["type"] == "Stalled" && c["status"] == "True") {
            return Err(not_ready("the source is stalled"));
        }
        let artifact = SourceArtifact::deserialize(&status["artifact"]).unwrap_or_default();
        let SourceArtifact { url, digest, revision, .. } = artifact;
        if url.is_empty() || digest.is_empty() {
            return Err(not_ready("it has no artifact"));
        }
        Ok(Self {
            source: meta.reference(Gvk::new(SOURCES, kind)),
            url,
            digest,
            tracks_digest: matches!(kind, "OCIRepository" | "ExternalArtifact") && revision.contains(':'),
            revision,
        })
    }

    /// Digest of the OCI artifact that the revision names; empty if it names none. Behind a tag that is no version it is the whole
    /// revision, as with helm-controller.
    pub(super) fn oci_digest(&self) -> &str {
        match self.tag() {
            _ if !self.tracks_digest => "",
            Some((_, digest)) => digest,
            None => &self.revision,
        }
    }

    /// The version that the revision's tag is, and what follows it.
    fn tag(&self) -> Option<(String, &str)> {
        let (tag, digest) = self.revision.split_once('@')?;
        let tag = tag.replace('_', "+");
        semver::parse(&tag).is_ok().then_some((tag, digest))
    }

    /// The version of the chart with the beginning of the OCI digest as its metadata, so that a tag that was pushed again is a new
    /// version.
    fn version(&self, chart_version: &str) -> Result<String, ReconcileError> {
        if !self.tracks_digest {
            return Ok(chart_version.to_owned());
        }
        let wrong = |text: String| failed("ChartMutateError", text);
        let version = semver::parse(chart_version)
            .map_err(|_| wrong(format!("invalid chart version {chart_version}")))?;
        if let Some((tag, _)) = self.tag()
            && !semver::parse(&tag).is_ok_and(|tag| semver::compare(&tag, &version).is_eq())
        {
            return Err(wrong(format!(
                "artifact revision {tag} does not match chart version {chart_version}"
            )));
        }
        let digest = self.oci_digest();
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
}

/// The file of an artifact by its URL, if this process has it: artifacts of its own sources are read from disk.
pub type LocalArtifacts = Arc<dyn Fn(&ObjectRef, &str) -> Result<Option<PathBuf>, FluxError> + Send + Sync>;

/// Fetches charts.
pub(super) struct ArtifactClient {
    http: Http,
    tls: Tls,
    pub(super) local: Option<LocalArtifacts>,
}

impl ArtifactClient {
    /// A client. `no_local_addresses`: it reaches neither this machine nor its cloud's metadata service.
    pub(super) fn new(no_local_addresses: bool) -> Self {
        let http = Http::new(TIMEOUT, false);
        let http = if no_local_addresses { http.without_local_addresses() } else { http };
        Self { http, tls: Tls::default(), local: None }
    }

    /// The chart of an artifact.
    ///
    /// # Errors
    /// It cannot be fetched, has another digest, or is not a chart.
    pub(super) async fn load(&self, artifact: &Artifact) -> Result<Arc<CompiledChart>, ReconcileError> {
        let bytes = self.fetch(artifact).await?;
        compile(artifact, bytes).await
    }

    /// The bytes of an artifact, unverified.
    ///
    /// # Errors
    /// They cannot be fetched.
    pub(super) async fn fetch(&self, artifact: &Artifact) -> Result<Bytes, ReconcileError> {
        let local = self.local.as_ref().map(|local| local(&artifact.source, &artifact.url));
        if let Some(file) = local.transpose().map_err(|e| not_loaded(&e))?.flatten() {
            let read = redact::spawn_blocking(move || bounded_read::read_file(&file, MAX_ARTIFACT));
            let read = read.await.map_err(|e| ReconcileError::Task(e.to_string()))?;
            return read.map(Bytes::from).map_err(|e| not_loaded(&format!("{}: {e}", artifact.url)));
        }
        let url = Location::parse(&artifact.url).map_err(|e| not_loaded(&e))?;
        self.http.fetch(Request::get(url, &self.tls, MAX_ARTIFACT)).await.map_err(|e| not_loaded(&e))
    }
}

fn not_loaded(why: &dyn std::fmt::Display) -> ReconcileError {
    failed("ArtifactFailed", format!("Could not load chart: {why}"))
}

/// The chart in the bytes of an artifact.
///
/// # Errors
/// They have another digest, or are not a chart.
pub(super) async fn compile(artifact: &Artifact, bytes: Bytes) -> Result<Arc<CompiledChart>, ReconcileError> {
    if !artifact.digest.starts_with("sha256:") {
        return Err(not_loaded(&format!("digest {:?} is not a sha256 digest", artifact.digest)));
    }
    let found = sha256(&bytes);
    if found != artifact.digest {
        // The digest that was found may be one of somebody else's file.
        return Err(not_loaded(&format!("the digest of the file is not {}", artifact.digest)));
    }
    let own = artifact.clone();
    let read = redact::spawn_blocking(move || {
        let loaded = windlass_fetch::load_package(&bytes, Path::new(&own.url), Profile::Helm4);
        let mut loaded = loaded.map_err(|e| not_loaded(&e))?;
        loaded.chart.metadata.version = own.version(&loaded.chart.metadata.version)?;
        Ok::<_, ReconcileError>(Arc::new(loaded.compile(Profile::Helm4)))
    });
    read.await.map_err(|e| ReconcileError::Task(e.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_digest_becomes_part_of_the_version() {
        let artifact = |revision: &str, tracks_digest| Artifact {
            source: ObjectRef::new(Gvk::new(SOURCES, "OCIRepository"), Some("a"), "b"),
            url: String::new(),
            digest: String::new(),
            revision: revision.to_owned(),
            tracks_digest,
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
                artifact(revision, tracks).version(version).ok().as_deref(),
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
            let artifact = json!({"url": "http://a/b", "digest": "sha256:00", "revision": revision});
            let source = json!({"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "artifact": artifact}});
            assert_eq!(
                Artifact::of(&source, kind, "a/b").unwrap().oci_digest(),
                expected,
                "{kind} {revision}"
            );
        }
    }
}
