//! A bundle that is unpacked for a run.
//!
//! Owns its temporary directory, which is private and goes with it, and the check that all of it is there.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::bundle_archive::{MAX_BYTES, unpack};
use super::bundle_manifest::BundleManifest;
use crate::error::HelmfileError;
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_base::hex::hex;
use windlass_fetch::input_store::{InputStore, RemoteInput, StoreError};

/// An unpacked bundle.
#[derive(Debug)]
pub struct OpenedBundle {
    /// What it says of itself.
    pub manifest: BundleManifest,
    root: PathBuf,
    _home: TempDir,
}

impl OpenedBundle {
    /// Unpacks a bundle.
    ///
    /// # Errors
    /// The manifest or the archive is not valid, or something that the manifest names is missing or differs from its digest.
    pub fn open(manifest: &[u8], archive: &[u8]) -> Result<Self, HelmfileError> {
        let manifest = BundleManifest::parse(manifest)?;
        let failed = |error: std::io::Error| {
            HelmfileError::Machine(format!("no temporary directory: {}", of_the_system(&error)))
        };
        let home = tempfile::Builder::new().prefix("windlass-bundle-").tempdir().map_err(failed)?;
        let root = fs::canonicalize(home.path()).map_err(failed)?;
        unpack(archive, &root)?;
        for input in manifest.inputs.values() {
            let path = root.join(&input.path);
            let missing = |error: std::io::Error| {
                HelmfileError::Bundle(format!(
                    "the bundle does not have {} of {}: {}",
                    input.path,
                    input.name,
                    of_the_system(&error)
                ))
            };
            match &input.digest {
                Some(want) => {
                    let got =
                        hex(&Sha256::digest(bounded_read::read_file(&path, MAX_BYTES).map_err(missing)?));
                    if got != *want {
                        return Err(HelmfileError::Bundle(format!(
                            "{}: the digest is sha256:{got}, but sha256:{want} is expected",
                            input.name
                        )));
                    }
                }
                None => {
                    fs::metadata(&path).map_err(missing)?;
                }
            }
        }
        // A folder from which nothing was read.
        fs::create_dir_all(root.join(&manifest.directory)).map_err(failed)?;
        Ok(Self { manifest, root, _home: home })
    }

    /// The directory of all its files, without symbolic links in its path.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the command.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.root.join(&self.manifest.directory)
    }

    /// The path in the bundle of a path on disk; `None` if it is elsewhere.
    #[must_use]
    pub fn place(&self, path: &Path) -> Option<String> {
        Some(path.strip_prefix(&self.root).ok()?.to_string_lossy().into_owned())
    }
}

impl InputStore for OpenedBundle {
    fn find(&self, input: &RemoteInput) -> Result<Option<PathBuf>, StoreError> {
        match self.manifest.inputs.get(&input.key()) {
            Some(packed) => Ok(Some(self.root.join(&packed.path))),
            None => Err(format!("{input}: the bundle does not have it: bundle again").into()),
        }
    }

    fn take_files(&self, _: &RemoteInput, _: &[(&str, &[u8])]) -> Result<(), StoreError> {
        Ok(())
    }

    fn take_copy(&self, _: &RemoteInput, _: &Path, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn note_file(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn note_chart(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn note_directory(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::bundle_archive::{pack, write};
    use super::super::bundle_manifest::{FILES, PackedInput};
    use super::*;
    use windlass_fetch::input_store::InputKind;

    fn opened(digest: &str, file: &str) -> Result<OpenedBundle, HelmfileError> {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join(file), b"chart", false).unwrap();
        let mut manifest = BundleManifest::new(FILES.to_owned(), String::new());
        let input = RemoteInput::new(InputKind::Chart, "oci://h/web", "1");
        let packed = PackedInput {
            kind: InputKind::Chart,
            name: input.to_string(),
            path: "remote/a/web.tgz".to_owned(),
            digest: Some(digest.to_owned()),
        };
        manifest.inputs.insert(input.key(), packed);
        OpenedBundle::open(&manifest.to_json().unwrap(), &pack(dir.path()).unwrap())
    }

    #[test]
    fn inputs_are_found_by_what_is_asked_for() {
        let bundle = opened(&hex(&Sha256::digest(b"chart")), "remote/a/web.tgz").unwrap();
        let found = |version: &str| bundle.find(&RemoteInput::new(InputKind::Chart, "oci://h/web", version));
        assert_eq!(fs::read(found("1").unwrap().unwrap()).unwrap(), b"chart");
        assert_eq!(found("2").unwrap_err().0, "oci://h/web 2: the bundle does not have it: bundle again");
        assert_eq!(bundle.place(&bundle.directory().join("a")).as_deref(), Some("files/a"));
        let root = bundle.root.clone();
        drop(bundle);
        assert!(!root.exists());
    }

    #[test]
    fn what_is_missing_or_differs_is_refused() {
        let told = opened("00", "remote/a/web.tgz").unwrap_err().to_string();
        assert!(told.contains("but sha256:00 is expected"), "{told}");
        let told = opened("00", "remote/a/other.tgz").unwrap_err().to_string();
        assert!(told.contains("does not have remote/a/web.tgz of oci://h/web 1"), "{told}");
    }
}
