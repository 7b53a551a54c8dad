//! Addresses of files: `[GETTER::]SCHEME://[USER[:PASSWORD]@]HOST/DIRECTORY[@FILE][?QUERY]`.
//!
//! Owns the grammar, which is helmfile's over go-getter's, and how each getter downloads. Keeps nothing: `remote_files` does.
//!
//! - [`address`]: an address in its parts; [`object_address`]: the object of a bucket that it names
//! - [`download`]: archives and single files; [`git_address`]: Git repositories

pub mod address;
pub mod download;
pub mod git_address;
pub mod object_address;
