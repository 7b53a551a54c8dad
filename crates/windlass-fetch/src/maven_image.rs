//! An image of a file of a Maven repository: a base with the file as a further layer.
//!
//! Owns the way from a file that was found to the image that is pushed, by way of temporary files without a name: none is left, however the
//! process ends.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};

use windlass_base::redact;

use super::maven::{MavenCoordinates, MavenError, MavenFile, MavenRepository};
use super::oci::artifact_reference::OciReference;
use super::oci::{AppendError, AppendedImage, ImageLayer, LayerError, LayerNote, Registry};

/// An image that is made.
pub struct MavenImage<'m> {
    /// Where the file is.
    pub repository: &'m MavenRepository<'m>,
    /// What it is of.
    pub artifact: &'m MavenCoordinates,
    /// The file.
    pub file: &'m MavenFile,
    /// Its path in the image ([`path_in_image`]).
    pub path: &'m str,
    /// The most bytes that the file may have.
    pub max_bytes: u64,
    /// The most bytes that a layer of the base may have.
    pub max_base_layer: u64,
}

/// Why an image is not made.
#[derive(Debug, thiserror::Error)]
pub enum MavenImageError {
    /// The file cannot be downloaded.
    #[error(transparent)]
    Maven(#[from] MavenError),
    /// It has no room on disk.
    #[error("a temporary file: {0}")]
    Disk(#[from] io::Error),
    /// It cannot be at the path.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The base cannot be used, or a registry refuses.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The task ended.
    #[error("the task ended unexpectedly: {0}")]
    Task(String),
}

/// The path of an artifact's file in an image. `path`: that of the file, or with a slash at the end that of its directory.
#[must_use]
pub fn path_in_image(path: &str, artifact: &MavenCoordinates) -> String {
    match path.ends_with('/') {
        // Without the version: the next one takes its place.
        true => format!("{path}{}.{}", artifact.artifact, artifact.extension),
        false => path.to_owned(),
    }
}

impl MavenImage<'_> {
    /// Downloads and verifies the file, and pushes the image. Each image comes with the registry that it is in.
    ///
    /// # Errors
    /// The file cannot be had or is too large, the base is no image, or a registry refuses.
    pub async fn push(
        &self,
        (base_registry, base): (&Registry<'_>, &OciReference),
        (target_registry, target): (&Registry<'_>, &OciReference),
    ) -> Result<AppendedImage, MavenImageError> {
        let mut layer = self.layer().await?;
        let MavenFile { file_version, checksum, .. } = self.file;
        let note = LayerNote {
            created_by: format!("windlass build-image {}:{file_version} {checksum}", self.artifact),
            annotations: [("org.opencontainers.image.version".to_owned(), file_version.clone())].into(),
            max_base_layer: self.max_base_layer,
        };
        Ok(base_registry.append_layer(base, target_registry, target, &mut layer, &note).await?)
    }

    /// The verified file as a layer.
    async fn layer(&self) -> Result<ImageLayer, MavenImageError> {
        let content = tempfile::tempfile()?;
        let mut content: File = self.repository.download(self.file, self.max_bytes, content).await?;
        content.flush().and_then(|()| content.rewind())?;
        let size = content.metadata()?.len();
        let path = self.path.to_owned();
        // Compression takes time, which is not that of the runtime's threads.
        let layer = redact::spawn_blocking(move || ImageLayer::of_file(&path, content, size));
        Ok(layer.await.map_err(|error| MavenImageError::Task(error.to_string()))??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_the_file_without_its_version() {
        let artifact = MavenCoordinates::parse("com.example:shop:ear").unwrap();
        for (path, expected) in
            [("/config/dropins/", "/config/dropins/shop.ear"), ("/app.ear", "/app.ear"), ("/", "/shop.ear")]
        {
            assert_eq!(path_in_image(path, &artifact), expected);
        }
    }
}
