//! Charts as OCI artifacts: manifest, layers and annotations.

use bytes::Bytes;
use chart_compat::chart::{self, Metadata};
use chart_compat::json;
use chart_compat::profile::Profile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_base::bounded_json;

use super::artifact_reference::OciReference;
use super::{OciError, Registry, sha256};

/// Media types of Helm (`registry` constants).
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
const OLD_CHART: &str = "application/tar+gzip";
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Helm's note about a version with a plus as a tag.
const UNDERSCORE: &str = "
OCI artifact references (e.g. tags) do not support the plus sign (+). To support
storing semantic versions, Helm adopts the convention of changing plus (+) to
an underscore (_) in chart version tags when pushing to a registry and back to
a plus (+) when pulling from a registry.";

/// A part of an artifact.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its media type.
    #[serde(default)]
    pub media_type: String,
    /// Its digest.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An artifact of any kind.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// The digest of its manifest.
    pub digest: String,
    /// Its layers.
    pub layers: Vec<Descriptor>,
    /// The annotations of its manifest.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    schema_version: u32,
    #[serde(default)]
    pub(super) config: Option<Descriptor>,
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// A chart out of a registry.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// The package.
    pub chart: Bytes,
    /// Its provenance file, if it was requested and exists.
    pub provenance: Option<Bytes>,
    /// The digest of the artifact's manifest, at which the tag points now.
    pub digest: String,
    /// Helm's output.
    pub notes: Vec<String>,
}

/// A chart in a registry.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// The digest of the artifact's manifest.
    pub digest: String,
    /// Helm's output.
    pub notes: Vec<String>,
}

fn output_lines(verb: &str, reference: &OciReference, digest: &str) -> Vec<String> {
    let shown = reference.to_string();
    let mut notes = vec![format!("{verb}: {shown}"), format!("Digest: {digest}")];
    if shown.contains('_') {
        notes.push(format!("{shown} contains an underscore."));
        notes.push(UNDERSCORE.to_owned());
    }
    notes
}

impl Manifest {
    pub(super) fn new(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        Self { schema_version: 2, config: Some(config), layers, annotations: BTreeMap::new() }
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, OciError> {
        bounded_json::from_slice(bytes).map_err(|e| OciError::Answer(format!("manifest: {e}")))
    }

    fn layer(&self, media: &str) -> Option<&Descriptor> {
        self.layers.iter().find(|l| l.media_type == media)
    }
}

impl Registry<'_> {
    /// Pulls a chart (`Client.Pull`). `known` may return the package of a digest from a cache.
    ///
    /// # Errors
    /// It does not exist, is not a chart, or fails a check of its digests.
    pub async fn pull(
        &self,
        reference: &OciReference,
        provenance: bool,
        known: &mut (dyn FnMut(&str) -> Option<Bytes> + Send),
    ) -> Result<Pulled, OciError> {
        let (bytes, digest, _) = self.manifest(reference).await?;
        let manifest = Manifest::read(&bytes)?;
        let parts = manifest.layers.len() + usize::from(manifest.config.is_some());
        if parts < 2 {
            return Err(OciError::NoChart(format!(
                "manifest does not contain minimum number of descriptors (2), descriptors found: {parts}"
            )));
        }
        if manifest.config.as_ref().is_none_or(|c| c.media_type != CONFIG) {
            return Err(OciError::NoChart(format!("could not load config with mediatype {CONFIG}")));
        }
        let mut notes = Vec::new();
        let layer = match (manifest.layer(CHART), manifest.layer(OLD_CHART)) {
            (Some(layer), _) => layer,
            (None, Some(layer)) => {
                notes.push(format!("Warning: chart media type {OLD_CHART} is deprecated"));
                layer
            }
            (None, None) => {
                let text = format!("manifest does not contain a layer with mediatype {CHART}");
                return Err(OciError::NoChart(text));
            }
        };
        let chart = match known(&layer.digest) {
            Some(chart) => chart,
            None => self.blob(reference, &layer.digest, layer.size).await?,
        };
        let provenance = match manifest.layer(PROVENANCE).filter(|_| provenance) {
            Some(layer) => Some(self.blob(reference, &layer.digest, layer.size).await?),
            None => None,
        };
        notes.extend(output_lines("Pulled", reference, &digest));
        Ok(Pulled { chart, provenance, digest, notes })
    }

    /// An artifact of any kind, without its layers' content.
    ///
    /// # Errors
    /// It does not exist, or its manifest fails the check of its digest.
    pub async fn artifact(&self, reference: &OciReference) -> Result<Artifact, OciError> {
        let (bytes, digest, _) = self.manifest(reference).await?;
        let Manifest { layers, annotations, .. } = Manifest::read(&bytes)?;
        Ok(Artifact { digest, layers, annotations })
    }

    /// The content of a layer.
    ///
    /// # Errors
    /// It does not exist, is too large, or fails the check of its digest.
    pub async fn layer(&self, reference: &OciReference, layer: &Descriptor) -> Result<Bytes, OciError> {
        self.blob(reference, &layer.digest, layer.size).await
    }

    /// The digest that a reference points at.
    ///
    /// # Errors
    /// The artifact does not exist.
    pub async fn resolve(&self, reference: &OciReference) -> Result<String, OciError> {
        Ok(self.manifest(reference).await?.1)
    }

    /// Pushes a package below a path, under its own name and version (`Client.Push`). `created`: RFC 3339.
    ///
    /// # Errors
    /// It is not a chart, or the registry refuses it.
    pub async fn push(
        &self,
        remote: &str,
        chart: Bytes,
        provenance: Option<Bytes>,
        created: &str,
    ) -> Result<Pushed, OciError> {
        let wrong = |e: chart::Error| OciError::NoChart(e.to_string());
        let files = chart::read_archive(&chart, Profile::Helm4).map_err(wrong)?;
        let metadata = chart::load_files(files, Profile::Helm4, &mut drop).map_err(wrong)?.metadata;
        let path = remote.strip_prefix("oci://").unwrap_or(remote).trim_end_matches('/');
        let reference = OciReference::parse(&format!("{path}/{}:{}", metadata.name, metadata.version))?;
        let config = config_text(&metadata).map_err(|e| OciError::NoChart(e.0.to_owned()))?;
        let mut layers = vec![(CHART, chart)];
        layers.extend(provenance.map(|p| (PROVENANCE, p)));
        let mut parts = Vec::new();
        for (media, bytes) in layers {
            let digest = sha256(&bytes);
            self.upload(&reference, bytes.clone(), &digest).await?;
            parts.push(descriptor(media, digest, bytes.len()));
        }
        // Ordered by their digests, as by Helm.
        parts.sort_by(|a, b| a.digest.cmp(&b.digest));
        let config = Bytes::from(config);
        let digest = sha256(&config);
        self.upload(&reference, config.clone(), &digest).await?;
        let manifest = Manifest {
            annotations: annotations(&metadata, created),
            ..Manifest::new(descriptor(CONFIG, digest, config.len()), parts)
        };
        let text = serde_json::to_vec(&manifest).map_err(|e| OciError::Answer(e.to_string()))?;
        let digest = sha256(&text);
        self.put_manifest(&reference, text.into(), MANIFEST).await?;
        Ok(Pushed { notes: output_lines("Pushed", &reference, &digest), digest })
    }
}

pub(super) fn descriptor(media: &str, digest: String, size: usize) -> Descriptor {
    let (media_type, size) = (media.to_owned(), size as u64);
    Descriptor { media_type, digest, size, annotations: BTreeMap::new() }
}

/// `Chart.yaml` as JSON, in the order of Go's fields, so that equal charts are equal artifacts.
fn config_text(metadata: &Metadata) -> Result<String, json::Unsupported> {
    let data = metadata.data();
    let mut parts = Vec::new();
    for key in Metadata::KEYS {
        let Some(value) = data.get(key) else { continue };
        let text = match key {
            "maintainers" => ordered(value, &["name", "email", "url"])?,
            "dependencies" => ordered(
                value,
                &["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"],
            )?,
            _ => json::to_string(value)?,
        };
        parts.push(format!("\"{key}\":{text}"));
    }
    Ok(format!("{{{}}}", parts.join(",")))
}

/// A list of objects with ordered fields.
fn ordered(list: &chart_compat::data::Data, order: &[&str]) -> Result<String, json::Unsupported> {
    let mut items = Vec::new();
    for item in list.as_list().unwrap_or_default() {
        let mut fields = Vec::new();
        for key in order {
            if let Some(value) = item.get(key) {
                let text = json::to_string(value)?;
                fields.push(format!("\"{key}\":{text}"));
            }
        }
        items.push(format!("{{{}}}", fields.join(",")));
    }
    Ok(format!("[{}]", items.join(",")))
}

/// The annotations of the manifest (`generateOCIAnnotations`).
fn annotations(metadata: &Metadata, created: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let people: Vec<String> = metadata
        .maintainers
        .iter()
        .flatten()
        .map(|m| if m.email.is_empty() { m.name.clone() } else { format!("{} ({})", m.name, m.email) })
        .collect();
    let people = people.join(", ");
    let source = metadata.sources.iter().flatten().next().map(String::as_str).unwrap_or_default();
    for (key, text) in [
        ("description", metadata.description.as_str()),
        ("title", &metadata.name),
        ("version", &metadata.version),
        ("url", &metadata.home),
        ("created", created),
        ("source", source),
        ("authors", &people),
    ] {
        if !text.trim().is_empty() {
            out.insert(format!("org.opencontainers.image.{key}"), text.to_owned());
        }
    }
    for (key, value) in metadata.annotations.iter().flatten() {
        // Annotations of name and version are reserved for the chart's own.
        if !matches!(key.as_str(), "org.opencontainers.image.version" | "org.opencontainers.image.title") {
            out.insert(key.clone(), value.clone());
        }
    }
    out
}
