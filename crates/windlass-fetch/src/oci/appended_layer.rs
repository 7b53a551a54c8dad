//! An image with a further layer: for each platform of the base, its manifest and configuration with the layer, and all that they name
//! in the target's repository.
//!
//! Source: OCI image specification, manifest, index and configuration. What the base says and is not about layers stays as it is, so
//! that the same base and layer are the same image.

use std::collections::BTreeMap;
use windlass_base::bounded_json;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::artifact_reference::{OciReference, is_digest};
use super::image_layer::ImageLayer;
use super::{MAX_MANIFEST, OciError, Registry, sha256};

const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";
/// An entry of an index that is about another one, such as a provenance.
const ABOUT_ANOTHER: &str = "vnd.docker.reference.type";

/// The most platforms and layers of a base.
const MAX_PLATFORMS: usize = 50;
const MAX_LAYERS: usize = 500;
/// The most bytes of a layer of a base that anybody needs.
pub const MAX_LAYER_BYTES: u64 = 16 << 30;

/// What an image says of its last layer, and what it may be put on.
#[derive(Clone, Debug, Default)]
pub struct LayerNote {
    /// `created_by` of its entry in the history.
    pub created_by: String,
    /// Further annotations of the manifests; those of Docker's media types have none.
    pub annotations: BTreeMap<String, String>,
    /// The most bytes of a layer of the base.
    pub max_base_layer: u64,
}

/// An image that was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedImage {
    /// Its digest.
    pub digest: String,
    /// The digest of its base.
    pub base_digest: String,
}

/// Why there is no image with the layer.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The base cannot be read.
    #[error("base image {image}: {source}")]
    Base {
        /// The base.
        image: String,
        /// Why not.
        source: OciError,
    },
    /// The base is not an image that can have a further layer.
    #[error("base image {image}: {reason}")]
    NotAnImage {
        /// The base.
        image: String,
        /// What is wrong.
        reason: String,
    },
    /// The target's registry refuses.
    #[error("image {image}: {source}")]
    Target {
        /// The target.
        image: String,
        /// Why not.
        source: OciError,
    },
    /// A layer of the base has no room on disk.
    #[error("a layer of the base image cannot be kept on disk: {0}")]
    Disk(#[from] std::io::Error),
}

/// One image that is made, with its registries.
struct Append<'a> {
    base_registry: &'a Registry<'a>,
    base: &'a OciReference,
    target_registry: &'a Registry<'a>,
    target: &'a OciReference,
    note: &'a LayerNote,
    /// The digest that the base has now.
    base_digest: String,
}

impl Registry<'_> {
    /// Pushes an image: a base with a further layer, for each of the base's platforms. `self` has the base.
    ///
    /// # Errors
    /// The base is no image, or a registry refuses.
    pub async fn append_layer(
        &self,
        base: &OciReference,
        target_registry: &Registry<'_>,
        target: &OciReference,
        layer: &mut ImageLayer,
        note: &LayerNote,
    ) -> Result<AppendedImage, AppendError> {
        let failed = |source| AppendError::Base { image: base.to_string(), source };
        let bytes = self.image_manifest(base).await.map_err(failed)?;
        let append =
            Append { base_registry: self, base, target_registry, target, note, base_digest: sha256(&bytes) };
        let size = layer.size;
        let uploaded = target_registry.upload_file(target, &mut layer.file, size, &layer.digest).await;
        uploaded.map_err(|source| append.refused(source))?;
        let document = append.document(&bytes)?;
        let (bytes, media) = match document.get("manifests") {
            Some(_) => append.index(document, layer).await?,
            None => append.image(document, layer).await?,
        };
        append.put(target, &bytes, &media).await?;
        Ok(AppendedImage { digest: sha256(&bytes), base_digest: append.base_digest })
    }
}

impl Append<'_> {
    fn refused(&self, source: OciError) -> AppendError {
        AppendError::Target { image: self.target.to_string(), source }
    }

    fn unusable(&self, reason: impl Into<String>) -> AppendError {
        AppendError::NotAnImage { image: self.base.to_string(), reason: reason.into() }
    }

    fn document(&self, bytes: &[u8]) -> Result<Map<String, Value>, AppendError> {
        bounded_json::from_slice(bytes)
            .map_err(|error| self.unusable(format!("its manifest is malformed: {error}")))
    }

    /// The index of all platforms, with the layer in each.
    async fn index(
        &self,
        mut index: Map<String, Value>,
        layer: &ImageLayer,
    ) -> Result<(Vec<u8>, String), AppendError> {
        let entries = index.get("manifests").and_then(Value::as_array).cloned().unwrap_or_default();
        let entries: Vec<Value> = entries.into_iter().filter(is_platform).collect();
        if entries.is_empty() || entries.len() > MAX_PLATFORMS {
            let reason =
                format!("its index has {} platforms, and may have 1 to {MAX_PLATFORMS}", entries.len());
            return Err(self.unusable(reason));
        }
        let mut written = Vec::new();
        for mut entry in entries {
            let digest = self.digest_of(&entry)?;
            let reference = OciReference { tag: None, digest: Some(digest), ..self.base.clone() };
            let bytes = self.base_registry.image_manifest(&reference).await;
            let bytes = bytes.map_err(|source| AppendError::Base { image: reference.to_string(), source })?;
            let (bytes, media) = self.image(self.document(&bytes)?, layer).await?;
            let digest = sha256(&bytes);
            let own = OciReference { tag: None, digest: Some(digest.clone()), ..self.target.clone() };
            self.put(&own, &bytes, &media).await?;
            without_content(&mut entry);
            entry["digest"] = digest.into();
            entry["size"] = bytes.len().into();
            written.push(entry);
        }
        index.insert("manifests".to_owned(), written.into());
        let media = media_type(&index).unwrap_or(OCI_INDEX).to_owned();
        if ![OCI_INDEX, DOCKER_LIST].contains(&media.as_str()) {
            return Err(self.unusable(format!("its index is of the media type {media:?}")));
        }
        self.annotate(&mut index, &media);
        Ok((self.text(&index)?, media))
    }

    /// The manifest of one platform with the layer. What it names is in the target's repository then.
    async fn image(
        &self,
        mut manifest: Map<String, Value>,
        layer: &ImageLayer,
    ) -> Result<(Vec<u8>, String), AppendError> {
        let media = media_type(&manifest).unwrap_or(OCI_MANIFEST).to_owned();
        let layer_media = match media.as_str() {
            OCI_MANIFEST => OCI_LAYER,
            DOCKER_MANIFEST => DOCKER_LAYER,
            _ => return Err(self.unusable(format!("its manifest is of the media type {media:?}"))),
        };
        let mut config = manifest.get("config").cloned().unwrap_or_default();
        let digest = self.digest_of(&config)?;
        let size = config["size"].as_u64().filter(|size| *size <= MAX_MANIFEST);
        let size = size.ok_or_else(|| self.unusable("its configuration is too large"))?;
        let bytes = self.base_registry.blob(self.base, &digest, size).await;
        let bytes = bytes.map_err(|source| AppendError::Base { image: self.base.to_string(), source })?;
        let bytes = Bytes::from(self.configuration(&bytes, layer)?);
        let digest = sha256(&bytes);
        self.target_registry
            .upload(self.target, bytes.clone(), &digest)
            .await
            .map_err(|source| self.refused(source))?;
        without_content(&mut config);
        config["digest"] = digest.into();
        config["size"] = bytes.len().into();
        manifest.insert("config".to_owned(), config);

        let mut layers = manifest.get("layers").and_then(Value::as_array).cloned().unwrap_or_default();
        if layers.len() > MAX_LAYERS {
            return Err(self.unusable(format!("it has {} layers, more than {MAX_LAYERS}", layers.len())));
        }
        for descriptor in &layers {
            self.copy_layer(descriptor).await?;
        }
        layers.push(json!({"mediaType": layer_media, "digest": layer.digest, "size": layer.size}));
        manifest.insert("layers".to_owned(), layers.into());
        self.annotate(&mut manifest, &media);
        Ok((self.text(&manifest)?, media))
    }

    /// The configuration of an image with the layer.
    fn configuration(&self, bytes: &[u8], layer: &ImageLayer) -> Result<Vec<u8>, AppendError> {
        let mut config = self.document(bytes)?;
        let Some(ids) =
            config.get_mut("rootfs").and_then(|fs| fs.get_mut("diff_ids")).and_then(Value::as_array_mut)
        else {
            return Err(self.unusable(
                "its configuration lists no layers (rootfs.diff_ids): it is not the image of a container",
            ));
        };
        ids.push(layer.diff_id.as_str().into());
        // The time is the same for all, so that equal inputs are an equal image.
        let entry = json!({"created": "1970-01-01T00:00:00Z", "created_by": self.note.created_by});
        match config.get_mut("history").and_then(Value::as_array_mut) {
            Some(history) => history.push(entry),
            // Without a history of the layers below it would be one of another layer.
            None => drop(config.remove("history")),
        }
        self.text(&config)
    }

    /// Notes the base and what is in the layer. Documents of Docker's media types have no annotations.
    fn annotate(&self, document: &mut Map<String, Value>, media: &str) {
        // The image is about no other one, whatever its base is about.
        document.remove("subject");
        if ![OCI_MANIFEST, OCI_INDEX].contains(&media) {
            return;
        }
        let mut all = document.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
        let own = [
            ("org.opencontainers.image.base.name", self.base.to_string()),
            ("org.opencontainers.image.base.digest", self.base_digest.clone()),
        ];
        all.extend(own.map(|(key, text)| (key.to_owned(), text.into())));
        all.extend(self.note.annotations.iter().map(|(key, text)| (key.clone(), text.as_str().into())));
        document.insert("annotations".to_owned(), all.into());
    }

    fn digest_of(&self, descriptor: &Value) -> Result<String, AppendError> {
        let digest = descriptor["digest"].as_str().filter(|digest| is_digest(digest));
        digest.map(str::to_owned).ok_or_else(|| self.unusable("its manifest has a part without a SHA-256"))
    }

    fn text(&self, document: &Map<String, Value>) -> Result<Vec<u8>, AppendError> {
        serde_json::to_vec(document).map_err(|error| self.unusable(error.to_string()))
    }

    /// Makes a layer of the base one of the target's repository.
    async fn copy_layer(&self, descriptor: &Value) -> Result<(), AppendError> {
        // Such a layer is fetched from where it says, and is in no registry.
        if descriptor["urls"].as_array().is_some_and(|urls| !urls.is_empty()) {
            return Ok(());
        }
        let digest = self.digest_of(descriptor)?;
        let size = descriptor["size"].as_u64().filter(|size| *size <= self.note.max_base_layer);
        let size = size.ok_or_else(|| self.unusable(format!("layer {digest} is too large")))?;
        let refused = |source| self.refused(source);
        let to = self.target_registry;
        if to.has_blob(self.target, &digest).await.map_err(refused)? {
            return Ok(());
        }
        let same_registry = self.base.host() == self.target.host();
        if same_registry && to.mount(self.target, &self.base.repository, &digest).await.map_err(refused)? {
            return Ok(());
        }
        let mut file = tempfile::tempfile()?;
        let downloaded = self.base_registry.download_blob(self.base, &digest, size, &mut file).await;
        downloaded.map_err(|source| AppendError::Base { image: self.base.to_string(), source })?;
        to.upload_file(self.target, &mut file, size, &digest).await.map_err(refused)
    }

    async fn put(&self, reference: &OciReference, bytes: &[u8], media: &str) -> Result<(), AppendError> {
        let put = self.target_registry.put_manifest(reference, bytes.to_vec().into(), media).await;
        put.map_err(|source| self.refused(source))
    }
}

impl Registry<'_> {
    /// Writes a blob of any size to a file, and checks its digest.
    async fn download_blob(
        &self,
        reference: &OciReference,
        digest: &str,
        size: u64,
        out: &mut std::fs::File,
    ) -> Result<(), OciError> {
        let response = self.blob_response(reference, digest, size).await?;
        let got = format!("sha256:{}", windlass_base::hex::hex(&response.copy_to(out).await?));
        match got == digest {
            true => Ok(()),
            false => Err(OciError::Digest { what: reference.to_string(), got, want: digest.to_owned() }),
        }
    }
}

/// Removes the content that a descriptor may have in itself: what it describes is another one now.
fn without_content(descriptor: &mut Value) {
    if let Some(fields) = descriptor.as_object_mut() {
        fields.remove("data");
    }
}

fn media_type(document: &Map<String, Value>) -> Option<&str> {
    document.get("mediaType").and_then(Value::as_str)
}

/// Whether an entry of an index is an image of a platform.
fn is_platform(entry: &Value) -> bool {
    entry["platform"]["os"] != "unknown" && entry["annotations"][ABOUT_ANOTHER].is_null()
}
