//! Front ends for Flux's sources, in place of source-controller: charts and files are fetched, stored, and served as artifacts.
//!
//! Owns the kinds of `source.toolkit.fluxcd.io`: what a spec asks for, the artifact, the status. How servers are talked to is
//! [`windlass_fetch`]'s. A source acts with the credentials of its own namespace: nothing of this process' identity, files or caches is
//! used for it, unless the operator allows sources of a cloud its identity.
//!
//! - `source_kinds`: the front ends; `source_object`: a source as it is read; `fetch_context`: what a fetch has at hand; `fetch_bounds`: what it
//!   may write, and until when; `source_status`: conditions
//! - `artifact_store`, `source_archive`: artifacts on disk, and the files in them; `scratch_directories`: files of work in progress
//! - `index_fetch`, `chart_fetch`, `oci_fetch`, `git_fetch`, `bucket_fetch`: what each kind fetches; `git_includes`:
//!   files of other repositories
//! - `bucket_storage`, `registry_login`, `git_access`: with which credentials
//! - `chart_build`, `chart_dependencies`: packages of charts; `git_signature`, `signature_policy`: signatures

mod artifact_store;
mod bucket_fetch;
mod bucket_storage;
mod chart_build;
mod chart_dependencies;
mod chart_fetch;
mod fetch_bounds;
mod fetch_context;
mod git_access;
mod git_fetch;
mod git_includes;
mod git_signature;
mod ignore_rules;
mod index_fetch;
mod oci_fetch;
mod registry_login;
mod scratch_directories;
mod signature_policy;
mod source_archive;
mod source_kinds;
mod source_object;
mod source_secrets;
mod source_status;

pub use artifact_store::ArtifactStore;
pub use source_archive::unpack as unpack_artifact;
pub use source_kinds::{SourceKind, SourceOptions, Sources};
