//! An artifact with one config and one layer as a whole: in a registry, or as an OCI image layout in a tar archive.
//!
//! Owns both forms, with their limits and the check of every digest. Knows nothing of what is in the layer.

use std::collections::BTreeMap;
use std::io::{self, Read};

use bytes::Bytes;
use chart_compat::tar_reader::{TarBounds, read_tar};
use serde::{Deserialize, Serialize};

use super::artifact::{Descriptor, MANIFEST, Manifest, descriptor};
use super::artifact_reference::OciReference;
use super::{MAX_MANIFEST, OciError, Registry, sha256};
use windlass_base::bounded_json;
use windlass_base::bounded_read;

/// The size limit of a config and of a layer, in bytes: that of all blobs.
pub const MAX_BLOB: u64 = super::MAX_CHART_BYTES;
/// The most files of an image layout.
const MAX_FILES: usize = 16;
/// The file that marks an image layout.
const LAYOUT: &str = "oci-layout";
/// Its content.
const LAYOUT_TEXT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
/// The file that names the manifests of an image layout.
const INDEX: &str = "index.json";

/// The media types of an artifact.
#[derive(Clone, Copy, Debug)]
pub struct MediaTypes {
    /// That of the config, which tells what the artifact is.
    pub config: &'static str,
    /// That of the layer.
    pub layer: &'static str,
}

/// An artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedArtifact {
    /// Its config.
    pub config: Bytes,
    /// Its only layer.
    pub layer: Bytes,
}

/// The list of manifests of an image layout.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    manifests: Vec<Descriptor>,
}

impl PackedArtifact {
    fn manifest(&self, types: MediaTypes) -> Result<Vec<u8>, OciError> {
        let part = |media: &str, bytes: &Bytes| descriptor(media, sha256(bytes), bytes.len());
        let manifest = Manifest::new(part(types.config, &self.config), vec![part(types.layer, &self.layer)]);
        serde_json::to_vec(&manifest).map_err(|e| OciError::NoArtifact(e.to_string()))
    }

    /// The digest of its manifest.
    ///
    /// # Errors
    /// None that is known: the manifest is plain text.
    pub fn digest(&self, types: MediaTypes) -> Result<String, OciError> {
        Ok(sha256(&self.manifest(types)?))
    }

    /// The image layout as a tar archive. Equal artifacts are equal archives.
    ///
    /// # Errors
    /// None that is known: the archive is in memory.
    pub fn to_layout(&self, types: MediaTypes) -> Result<Vec<u8>, OciError> {
        let manifest = Bytes::from(self.manifest(types)?);
        let manifests = vec![descriptor(MANIFEST, sha256(&manifest), manifest.len())];
        let index = serde_json::to_vec(&Index { schema_version: 2, manifests });
        let index = index.map_err(|e| OciError::NoArtifact(e.to_string()))?;
        let mut files: BTreeMap<String, &[u8]> = [&self.config, &self.layer, &manifest]
            .into_iter()
            .map(|blob| (blob_path(blob), &blob[..]))
            .collect();
        files.insert(LAYOUT.to_owned(), LAYOUT_TEXT);
        files.insert(INDEX.to_owned(), &index);
        let mut out = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(0);
            header.set_entry_type(tar::EntryType::Regular);
            out.append_data(&mut header, &path, bytes)
                .map_err(|e| OciError::NoArtifact(format!("{path}: {e}")))?;
        }
        out.into_inner().map_err(|e| OciError::NoArtifact(e.to_string()))
    }

    /// Reads an image layout with one manifest.
    ///
    /// # Errors
    /// The archive is not one, has an artifact of another kind, is too large, or fails a check of its digests.
    pub fn from_layout(archive: impl Read, types: MediaTypes) -> Result<Self, OciError> {
        let files = read_archive(archive).map_err(|e| OciError::NoArtifact(format!("image layout: {e}")))?;
        let file = |path: &str| {
            files.get(path).ok_or_else(|| OciError::NoArtifact(format!("image layout: {path} is missing")))
        };
        file(LAYOUT)?;
        let index: Index = bounded_json::from_slice(file(INDEX)?)
            .map_err(|e| OciError::NoArtifact(format!("image layout: {INDEX}: {e}")))?;
        let [manifest] = index.manifests.as_slice() else {
            let count = index.manifests.len();
            return Err(OciError::NoArtifact(format!("image layout: {count} manifests instead of one")));
        };
        let blob = |part: &Descriptor| -> Result<Bytes, OciError> {
            let path = part.digest.strip_prefix("sha256:").map(|hex| format!("blobs/sha256/{hex}"));
            let path =
                path.ok_or_else(|| OciError::NoArtifact(format!("{:?} is not a SHA-256", part.digest)))?;
            let bytes = file(&path)?;
            check(part, bytes)?;
            Ok(bytes.clone())
        };
        let manifest = Manifest::read(&blob(manifest)?)?;
        let (config, layer) = manifest.parts(types)?;
        Ok(Self { config: blob(config)?, layer: blob(layer)? })
    }
}

fn blob_path(blob: &[u8]) -> String {
    format!("blobs/{}", sha256(blob).replace(':', "/"))
}

/// Checks content against its descriptor.
fn check(part: &Descriptor, bytes: &[u8]) -> Result<(), OciError> {
    let got = sha256(bytes);
    if got != part.digest {
        let (what, want) = (part.media_type.clone(), part.digest.clone());
        return Err(OciError::Digest { what, got, want });
    }
    Ok(())
}

/// The files of an archive, by path.
fn read_archive(archive: impl Read) -> io::Result<BTreeMap<String, Bytes>> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut files = BTreeMap::new();
    let bounds = TarBounds { bytes: 2 * (MAX_BLOB + MAX_MANIFEST), entries: 2 * MAX_FILES };
    read_tar(archive, bounds, |entry| {
        let path = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        if entry.kind().is_dir() {
            return Ok(());
        }
        if !entry.is_file() {
            return Err(wrong(format!("{path} is not a file")));
        }
        if entry.size() > MAX_BLOB {
            return Err(wrong(format!(
                "{path} has {} bytes, more than the maximum {MAX_BLOB}",
                entry.size()
            )));
        }
        let bytes = bounded_read::read_to_end(entry, MAX_BLOB)?;
        if files.insert(path.clone(), Bytes::from(bytes)).is_some() || files.len() > MAX_FILES {
            return Err(wrong(format!("{path} is there twice, or there are more than {MAX_FILES} files")));
        }
        Ok(())
    })?;
    Ok(files)
}

impl Manifest {
    /// Config and layer of an artifact with these media types.
    fn parts(&self, types: MediaTypes) -> Result<(&Descriptor, &Descriptor), OciError> {
        let wrong = |what: &str, found: &str| {
            OciError::NoArtifact(format!(
                "the artifact has the {what} {found:?}; is it another kind of artifact?"
            ))
        };
        let config = self.config.as_ref().ok_or_else(|| wrong("config", ""))?;
        if config.media_type != types.config {
            return Err(wrong("config", &config.media_type));
        }
        match self.layers.as_slice() {
            [layer] if layer.media_type == types.layer => Ok((config, layer)),
            layers => Err(wrong("layer", layers.first().map_or("", |layer| &layer.media_type))),
        }
    }
}

impl Registry<'_> {
    /// Pushes an artifact under a reference's tag; returns the digest of its manifest.
    ///
    /// # Errors
    /// The registry refuses it.
    pub async fn push_packed(
        &self,
        reference: &OciReference,
        artifact: &PackedArtifact,
        types: MediaTypes,
    ) -> Result<String, OciError> {
        for blob in [&artifact.config, &artifact.layer] {
            self.upload(reference, blob.clone(), &sha256(blob)).await?;
        }
        let manifest = artifact.manifest(types)?;
        let digest = sha256(&manifest);
        self.put_manifest(reference, manifest.into(), MANIFEST).await?;
        Ok(digest)
    }

    /// Pulls an artifact with these media types.
    ///
    /// # Errors
    /// It does not exist, is of another kind, is too large, or fails a check of its digests.
    pub async fn pull_packed(
        &self,
        reference: &OciReference,
        types: MediaTypes,
    ) -> Result<PackedArtifact, OciError> {
        let (bytes, ..) = self.manifest(reference).await?;
        let manifest = Manifest::read(&bytes)?;
        let (config, layer) = manifest.parts(types)?;
        Ok(PackedArtifact {
            config: self.blob(reference, &config.digest, config.size).await?,
            layer: self.blob(reference, &layer.digest, layer.size).await?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: MediaTypes =
        MediaTypes { config: "application/vnd.example.config", layer: "application/vnd.example.layer" };

    fn artifact() -> PackedArtifact {
        PackedArtifact { config: Bytes::from_static(b"{}"), layer: Bytes::from_static(b"layer") }
    }

    /// A tar archive of some files.
    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = tar::Builder::new(Vec::new());
        for (path, bytes) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            out.append_data(&mut header, path, *bytes).unwrap();
        }
        out.into_inner().unwrap()
    }

    #[test]
    fn a_layout_is_read_as_it_was_written() {
        let layout = artifact().to_layout(TYPES).unwrap();
        assert_eq!(layout, artifact().to_layout(TYPES).unwrap());
        assert_eq!(PackedArtifact::from_layout(&layout[..], TYPES).unwrap(), artifact());
        let other = MediaTypes { config: "application/vnd.example.other", ..TYPES };
        let told = PackedArtifact::from_layout(&layout[..], other).unwrap_err().to_string();
        assert!(told.contains("application/vnd.example.config"), "{told}");
    }

    #[test]
    fn what_is_not_an_artifact_is_refused() {
        let layout = artifact().to_layout(TYPES).unwrap();
        let mut changed = layout.clone();
        let at = layout.windows(5).position(|part| part == b"layer").unwrap();
        changed[at..at + 5].copy_from_slice(b"LAYER");
        let two = br#"{"schemaVersion":2,"manifests":[]}"#;
        let escaping = br#"{"schemaVersion":2,"manifests":[{"digest":"../../etc/passwd","size":1}]}"#;
        let table: [(Vec<u8>, &str); 6] = [
            (changed, "is expected"),
            (archive(&[("a", b"")]), "oci-layout is missing"),
            (archive(&[("oci-layout", LAYOUT_TEXT), ("index.json", two)]), "0 manifests"),
            (archive(&[("oci-layout", LAYOUT_TEXT), ("index.json", escaping)]), "is not a SHA-256"),
            (archive(&[("a", b""), ("a", b"")]), "twice"),
            (b"no tar at all, but long enough for a header".repeat(20), "image layout"),
        ];
        for (bytes, words) in table {
            let told = PackedArtifact::from_layout(&bytes[..], TYPES).unwrap_err().to_string();
            assert!(told.contains(words), "{words}: {told}");
        }
    }
}
