//! Charts of registries: chooses the version, and warns if a tag was moved.

use std::path::PathBuf;
use windlass_base::hex::hex;

use bytes::Bytes;
use chart_compat::chart::MAX_CHART_BYTES;
use chart_compat::go::{semver, slog};
use sha2::{Digest as _, Sha256};

use super::atomic_files;
use super::cache::{Kind, parse_digest};
use super::fetch::{ChartBytes, FetchError, Fetcher, Options, ProvenanceMode};
use super::index::entry::{Choice, choose};
use super::oci::artifact_reference::OciReference;
use super::oci::{OciError, Registry, cosign};

/// Length of a digest, with its algorithm.
const MAX_DIGEST: u64 = 256;

impl Fetcher {
    /// A registry client with the flags of a command.
    #[must_use]
    pub fn registry(&self, options: &Options) -> Registry<'_> {
        let given = (!options.username.is_empty() && !options.password.is_empty())
            .then(|| (options.username.clone(), options.password.clone()));
        let credentials = self.registry_credentials.clone();
        Registry::new(&self.http, options.tls.clone(), options.plain_http, given, credentials)
    }

    /// The versions of a chart in a registry, highest first.
    ///
    /// # Errors
    /// The reference is invalid, or the registry does not list them.
    pub async fn oci_versions(&self, reference: &str, options: &Options) -> Result<Vec<String>, FetchError> {
        let reference = OciReference::parse(reference).map_err(OciError::from)?;
        Ok(self.registry(options).versions(&reference).await?)
    }

    pub(super) async fn fetch_oci(
        &self,
        text: &str,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, FetchError> {
        let registry = self.registry(options);
        let asked = OciReference::parse(text).map_err(OciError::from)?;
        let (reference, version) = chosen(&registry, &asked, &options.version).await?;
        let verifier = options.cosign.as_ref().map(cosign::Verifier::new).transpose()?;
        let mut from_cache = |digest: &str| {
            let key = parse_digest(digest).ok()?;
            self.cache.get(&key, Kind::Chart, MAX_CHART_BYTES).map(Bytes::from)
        };
        let provenance = options.provenance != ProvenanceMode::No;
        let pulled = registry.pull(&reference, provenance, &mut from_cache).await?;
        if let Some(verifier) = &verifier {
            verifier.verify(&registry, &reference, &pulled.digest).await?;
        }
        if options.provenance == ProvenanceMode::Yes && pulled.provenance.is_none() {
            return Err(FetchError::NoProvenance(format!("oci://{reference}.prov")));
        }
        if reference.digest.is_none() {
            self.notice(&reference, &pulled.digest, warn);
        }
        let digest: [u8; 32] = Sha256::digest(&pulled.chart).into();
        self.keep(&digest, Kind::Chart, &pulled.chart, warn);
        if let Some(provenance) = &pulled.provenance {
            self.keep(&digest, Kind::Provenance, provenance, warn);
        }
        let suffix = match (&version, &reference.digest) {
            (version, None) => format!("-{version}"),
            (_, Some(digest)) => format!("@{}", digest.replace(':', "-")),
        };
        Ok(ChartBytes {
            file_name: format!("{}{suffix}.tgz", reference.name()),
            bytes: pulled.chart,
            digest: hex(&digest),
            version,
            origin: format!("oci://{reference}@{}", pulled.digest),
            provenance: pulled.provenance,
            notes: pulled.notes,
        })
    }

    /// Warns if a tag points at another digest than at the last pull.
    fn notice(&self, reference: &OciReference, digest: &str, warn: &mut (dyn FnMut(String) + Send)) {
        let shown = reference.to_string();
        let path: PathBuf =
            self.home.content.join("windlass-tags").join(hex(&Sha256::digest(shown.as_bytes())));
        let before = atomic_files::read(&path, MAX_DIGEST).ok().flatten();
        match before.map(|b| String::from_utf8_lossy(&b).into_owned()) {
            Some(before) if before == digest => return,
            Some(before) => {
                let text = "the tag was pushed again with another content";
                let attributes = [("ref", shown.as_str()), ("before", &before), ("now", digest)];
                warn(slog::line("WARN", text, &attributes));
            }
            None => {}
        }
        // Without this record the next pull does not warn.
        drop(atomic_files::write(&path, digest.as_bytes(), 0o644));
    }
}

/// The requested artifact, and its version (`Client.ValidateReference`).
async fn chosen(
    registry: &Registry<'_>,
    asked: &OciReference,
    wish: &str,
) -> Result<(OciReference, String), FetchError> {
    let own = asked.tag.clone().unwrap_or_default();
    let wish = if wish.is_empty() { own.replace('_', "+") } else { wish.to_owned() };
    if !own.is_empty() && own != wish.replace('+', "_") {
        let text = format!("chart reference and version mismatch: {wish} is not {own}");
        return Err(OciError::Mismatch(text).into());
    }
    if let Some(digest) = &asked.digest {
        if !wish.is_empty()
            && let Ok(found) = registry.resolve(&asked.tagged(&wish)).await
            && found != *digest
        {
            let text = format!("chart reference digest mismatch: {found} is not {digest}");
            return Err(OciError::Mismatch(text).into());
        }
        return Ok((asked.clone(), wish));
    }
    if semver::parse(&wish).is_ok() {
        return Ok((asked.tagged(&wish), wish));
    }
    let all = registry.versions(asked).await?;
    if all.is_empty() {
        let text = format!("unable to locate any tags in provided repository: oci://{asked}");
        return Err(OciError::Mismatch(text).into());
    }
    match choose(all.iter().map(String::as_str), &wish).map_err(|e| OciError::Mismatch(e.0))? {
        Choice::Found(version) | Choice::Near(version) => Ok((asked.tagged(version), version.to_owned())),
        Choice::None => {
            let text = format!("could not locate a version matching provided version string {wish}");
            Err(OciError::Mismatch(text).into())
        }
    }
}
