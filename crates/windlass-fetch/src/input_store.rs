//! What a run reads and fetches, as a store keeps it: one that records, or one that answers in place of servers.
//!
//! Owns the names of what is fetched. Stores themselves, and what they are for, are elsewhere.

use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use windlass_base::hex::hex;

use bytes::Bytes;
use chart_compat::chart::MAX_CHART_BYTES;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::atomic_files;
use super::fetch::{ChartBytes, FetchError, Options, ProvenanceMode};
use super::location::without_user;

/// What an input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum InputKind {
    /// A packaged chart, with its provenance file beside it if that was fetched.
    Chart,
    /// What an address of a state file names: a file or a directory.
    Address,
    /// A repository of a kustomization: the directory of its copy.
    Repository,
    /// A file that a kustomization or a schema of values names by URL.
    File,
}

/// Something that a run fetches, by what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteInput {
    kind: InputKind,
    address: String,
    /// The version constraint of a chart, or the reference of a repository.
    version: String,
}

impl RemoteInput {
    /// An input. A login in the address is dropped: who fetches does not change what is fetched.
    #[must_use]
    pub fn new(kind: InputKind, address: &str, version: &str) -> Self {
        Self { kind, address: without_user(address), version: version.to_owned() }
    }

    /// The chart of a reference with its options.
    #[must_use]
    pub fn chart(reference: &str, options: &Options) -> Self {
        match &options.repository {
            Some(url) => {
                let address = format!("{}/{reference}", url.trim_end_matches('/'));
                Self::new(InputKind::Chart, &address, &options.version)
            }
            None => Self::new(InputKind::Chart, reference, &options.version),
        }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> InputKind {
        self.kind
    }

    /// The SHA-256 of what is asked for, in hex.
    #[must_use]
    pub fn key(&self) -> String {
        let kind = format!("{:?}", self.kind);
        let mut digest = Sha256::default();
        for part in [&kind, &self.address, &self.version] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        hex(&digest.finalize())
    }
}

/// The address without its login and its query, which may hold secrets, and the version.
impl fmt::Display for RemoteInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.address.split('?').next().unwrap_or_default())?;
        if self.version.is_empty() { Ok(()) } else { write!(f, " {}", self.version) }
    }
}

/// What a store does not have, or cannot keep, and why: a text for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

impl From<String> for StoreError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<StoreError> for String {
    fn from(error: StoreError) -> Self {
        error.0
    }
}

/// Keeps what a run reads and fetches.
pub trait InputStore: Debug + Send + Sync {
    /// The file or directory that stands for an input; `None` if it is to be fetched.
    ///
    /// # Errors
    /// The store does not have it, and it must not be fetched.
    fn find(&self, input: &RemoteInput) -> Result<Option<PathBuf>, StoreError>;

    /// Receives fetched files, the first of which stands for the input. Names have no folder.
    ///
    /// # Errors
    /// They cannot be kept.
    fn take_files(&self, input: &RemoteInput, files: &[(&str, &[u8])]) -> Result<(), StoreError>;

    /// Receives a path that stands for an input, within a temporary copy. Files of the copy that are read later are noted one by one.
    ///
    /// # Errors
    /// The path is outside of the copy.
    fn take_copy(&self, input: &RemoteInput, copy: &Path, path: &Path) -> Result<(), StoreError>;

    /// Receives the path of a file that is read.
    ///
    /// # Errors
    /// It cannot be kept.
    fn note_file(&self, path: &Path) -> Result<(), StoreError>;

    /// Receives the path of a chart that is loaded: a directory or a package.
    ///
    /// # Errors
    /// It cannot be kept.
    fn note_chart(&self, path: &Path) -> Result<(), StoreError>;

    /// Receives the path of a directory that is read as a whole.
    ///
    /// # Errors
    /// It cannot be kept.
    fn note_directory(&self, path: &Path) -> Result<(), StoreError>;
}

/// The chart that a store has, with its provenance file if that is asked for.
pub(super) fn read_chart(path: &Path, options: &Options) -> Result<ChartBytes, FetchError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| FetchError::Read { path, source }
    };
    let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let bytes = atomic_files::read(path, MAX_CHART_BYTES).and_then(|bytes| bytes.ok_or_else(missing));
    let bytes = bytes.map_err(failed(path))?;
    let beside = path.with_file_name(format!("{file_name}.prov"));
    let provenance = match options.provenance {
        ProvenanceMode::No => None,
        ProvenanceMode::IfThere | ProvenanceMode::Yes => {
            atomic_files::read(&beside, super::fetch::MAX_PROVENANCE).map_err(failed(&beside))?
        }
    };
    if options.provenance == ProvenanceMode::Yes && provenance.is_none() {
        return Err(FetchError::NoProvenance(beside.display().to_string()));
    }
    Ok(ChartBytes {
        digest: hex(&Sha256::digest(&bytes)),
        bytes: bytes.into(),
        file_name,
        version: String::new(),
        origin: path.display().to_string(),
        provenance: provenance.map(Bytes::from),
        notes: Vec::new(),
    })
}

/// Hands a fetched chart to a store.
pub(super) fn keep_chart(
    store: &dyn InputStore,
    input: &RemoteInput,
    chart: &ChartBytes,
) -> Result<(), FetchError> {
    let beside = format!("{}.prov", chart.file_name);
    let mut files = vec![(chart.file_name.as_str(), chart.bytes.as_ref())];
    files.extend(chart.provenance.as_ref().map(|bytes| (beside.as_str(), bytes.as_ref())));
    Ok(store.take_files(input, &files)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_named_without_logins_and_queries() {
        let table = [
            (InputKind::Address, "git::https://u:hunter2@h/o/r@f?ref=v1", "git::https://h/o/r@f"),
            (InputKind::File, "https://h/a.yaml?token=hunter2", "https://h/a.yaml"),
            (InputKind::Chart, "oci://h/charts/web", "oci://h/charts/web"),
        ];
        for (kind, address, shown) in table {
            assert_eq!(RemoteInput::new(kind, address, "").to_string(), shown);
        }
        let key = |address: &str, version: &str| RemoteInput::new(InputKind::Address, address, version).key();
        assert_eq!(key("https://u:p@h/f", ""), key("https://h/f", ""));
        assert_ne!(key("https://h/f?ref=a", ""), key("https://h/f?ref=b", ""));
        assert_ne!(key("a", "bc"), key("ab", "c"));
    }

    #[test]
    fn a_chart_of_a_repository_is_named_by_its_url() {
        let options = Options {
            repository: Some("https://h/charts/".to_owned()),
            version: "^1".to_owned(),
            ..Options::default()
        };
        assert_eq!(RemoteInput::chart("web", &options).to_string(), "https://h/charts/web ^1");
        assert_eq!(RemoteInput::chart("oci://h/web", &Options::default()).to_string(), "oci://h/web");
    }
}
