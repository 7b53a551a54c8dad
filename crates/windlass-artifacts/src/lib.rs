//! Artifacts of Flux's sources, as those who use them get them.
//!
//! Owns which artifact a source has, its download and its digest, and the files in it. Knows neither how a source is fetched nor what is
//! made of its files.
//!
//! - `source_artifact`: the artifact in the status of a source, and what of a source triggers a reconcile
//! - `artifact_client`: its bytes
//! - `archived_files`: the files of a directory in it

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(missing_docs)]

mod archived_files;
mod artifact_client;
mod source_artifact;

pub use archived_files::{ArchivedFile, FileBounds, FilesError, files_below, inner_path};
pub use artifact_client::{ArtifactClient, ArtifactError, LocalArtifacts, check_digest};
pub use source_artifact::{Artifact, check_source_namespace, source_state};
