//! What a bundle says of itself: the config of its artifact, as JSON.
//!
//! Owns the format and the check of its paths. Paths are below the root of the bundle's files, with `/`.

use std::collections::{BTreeMap, BTreeSet};
use windlass_base::bounded_json;

use serde::{Deserialize, Serialize};

use crate::error::HelmfileError;
use windlass_fetch::input_store::InputKind;

/// The version of the format.
const VERSION: u32 = 1;
/// The directory of files that were on disk.
pub const FILES: &str = "files";
/// The directory of what was fetched.
pub(super) const REMOTE: &str = "remote";

/// A bundle's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BundleManifest {
    /// The version of the format.
    pub(super) version: u32,
    /// The folder of the command.
    pub directory: String,
    /// The state file, folder or address, from there; empty for the default.
    pub file: String,
    /// The environments that were evaluated.
    pub environments: BTreeSet<String>,
    /// What was fetched, by [`key`](windlass_fetch::input_store::RemoteInput::key).
    pub inputs: BTreeMap<String, PackedInput>,
    /// Folders that were listed: the names of their entries, and whether each is a folder. Entries that were not read have no content.
    pub folders: BTreeMap<String, BTreeMap<String, bool>>,
    /// Paths that were asked for: whether each was a folder, a file, or missing (`null`).
    pub paths: BTreeMap<String, Option<bool>>,
    /// What a run still takes from its machine.
    pub needs: MachineNeeds,
    /// The images of the releases.
    pub images: BTreeSet<String>,
}

/// Something that was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackedInput {
    /// What it is.
    pub kind: InputKind,
    /// Its address without login and query, and its version constraint.
    pub name: String,
    /// The file or folder that stands for it.
    pub path: String,
    /// The SHA-256 of the file in hex; none for a folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What is not packed and is taken from the machine of each run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineNeeds {
    /// Environment variables.
    pub variables: BTreeSet<String>,
    /// Programs of templates and hooks.
    pub programs: BTreeSet<String>,
    /// Providers of secret references, with the path of files.
    pub secrets: BTreeSet<String>,
    /// Files outside of the root of the bundle.
    pub files: BTreeSet<String>,
}

impl BundleManifest {
    /// A manifest of nothing.
    #[must_use]
    pub fn new(directory: String, file: String) -> Self {
        Self {
            version: VERSION,
            directory,
            file,
            environments: BTreeSet::new(),
            inputs: BTreeMap::new(),
            folders: BTreeMap::new(),
            paths: BTreeMap::new(),
            needs: MachineNeeds::default(),
            images: BTreeSet::new(),
        }
    }

    /// Its JSON: equal manifests are equal texts.
    ///
    /// # Errors
    /// None that is known: keys are texts.
    pub fn to_json(&self) -> Result<Vec<u8>, HelmfileError> {
        serde_json::to_vec(self).map_err(HelmfileError::cause)
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It is not one, is of another version, or names a path outside of the bundle.
    pub fn parse(json: &[u8]) -> Result<Self, HelmfileError> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let wrong =
            |error: bounded_json::JsonError| HelmfileError::Bundle(format!("the bundle's manifest: {error}"));
        let Head { version } = bounded_json::from_slice_within(json, u64::MAX).map_err(wrong)?;
        if version != VERSION {
            return Err(HelmfileError::Bundle(format!(
                "the bundle has version {version} of the format, and this program reads version {VERSION}: bundle again"
            )));
        }
        let manifest: Self = bounded_json::from_slice_within(json, u64::MAX).map_err(wrong)?;
        let inputs = manifest.inputs.values().map(|input| &input.path);
        for path in inputs.chain(std::iter::once(&manifest.directory)) {
            check_path(path)?;
        }
        Ok(manifest)
    }
}

/// Refuses a path that is not below the root of the bundle's files.
///
/// # Errors
/// The path.
pub(super) fn check_path(path: &str) -> Result<(), HelmfileError> {
    let mut parts = path.split('/');
    let below = matches!(parts.next(), Some(FILES | REMOTE));
    if below && parts.all(|part| !matches!(part, "" | "." | "..")) && !path.contains(['\\', '\0']) {
        return Ok(());
    }
    Err(HelmfileError::Bundle(format!(
        "the bundle has the path {path:?}, which is not below {FILES} or {REMOTE}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let mut manifest = BundleManifest::new("files/apps".to_owned(), "helmfile.yaml".to_owned());
        manifest.environments.insert("default".to_owned());
        manifest.paths.insert("files/apps/helmfile.lock".to_owned(), None);
        let input = PackedInput {
            kind: InputKind::Chart,
            name: "https://h/charts/web ^1".to_owned(),
            path: "remote/a/web-1.0.0.tgz".to_owned(),
            digest: Some("00".to_owned()),
        };
        manifest.inputs.insert("a".to_owned(), input);
        assert_eq!(BundleManifest::parse(&manifest.to_json().unwrap()).unwrap(), manifest);
    }

    #[test]
    fn paths_outside_of_the_bundle_are_refused() {
        for valid in ["files", "files/a", "remote/a b/c.yaml", "files/..a"] {
            assert!(check_path(valid).is_ok(), "{valid}");
        }
        for invalid in
            ["", "/", "/etc/passwd", "files/../x", "files//a", "files/", "other/a", "files/./a", "files\\a"]
        {
            assert!(check_path(invalid).is_err(), "{invalid}");
        }
        let manifest = BundleManifest::new("files/../..".to_owned(), String::new());
        let told = BundleManifest::parse(&manifest.to_json().unwrap()).unwrap_err().to_string();
        assert!(told.contains("files/../.."), "{told}");
    }

    #[test]
    fn other_versions_and_fields_are_refused() {
        for (json, words) in [
            (r#"{"version": 2, "more": 1}"#, "bundle again"),
            (r#"{"version": 1, "more": 1}"#, "unknown field `more`"),
            ("[]", "the bundle's manifest"),
        ] {
            let told = BundleManifest::parse(json.as_bytes()).unwrap_err().to_string();
            assert!(told.contains(words), "{told}");
        }
    }
}
