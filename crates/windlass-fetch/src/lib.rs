//! Sources of charts: directories and packages on disk, repositories, registries, Git, buckets, URLs.
//!
//! Owns finding, fetching, caching and packing, with their limits; knows nothing of the content of a chart's files.
//!
//! - [`chart_reference`]: kinds of references; [`fetch`]: from a reference to bytes; [`load`]: from bytes to a chart
//! - [`repositories`], [`repository`], [`index`]: named repositories, one of them, and its content
//! - [`oci`], `fetch_oci`: registries
//! - [`git`], `bucket`: charts in Git repositories and in buckets; `signed_jwt`: tokens that their servers take
//! - [`dependencies`]: the dependencies of a chart; [`installable`]: whether it can be installed
//! - [`helm_paths`], [`cache`], `atomic_files`: the state on disk, shared with Helm
//! - [`http`], [`location`]: requests within limits, and their URLs; [`address_guard`]: which servers they may lead to
//! - [`provenance`]: signing packages, and verifying signatures
//! - [`chart_lock`], [`chart_package`]: `Chart.lock`, and packing and unpacking charts
//! - [`input_store`]: what a run fetches, recorded or answered from a record
//! - [`maven`], [`maven_image`]: artifacts of Maven repositories, and images of their files
//! - [`archive`], [`file_checksum`]: archives other than charts, and checksums of what was fetched
//! - [`byte_budget`], [`once_map`]: what one run may take, and what it asks for once
//! - [`confined_files`]: the check that paths stay within a directory; [`private_directory`]: directories for their owner only

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod address_guard;
pub mod archive;
mod atomic_files;
mod bucket;
pub mod byte_budget;
pub mod cache;
pub mod chart_lock;
pub mod chart_package;
pub mod chart_reference;
pub mod confined_files;
pub mod dependencies;
mod directory;
pub mod fetch;
mod fetch_oci;
pub mod file_checksum;
pub mod git;
mod go_time;
pub mod helm_paths;
pub mod http;
pub mod index;
pub mod input_store;
pub mod installable;
pub mod location;
pub mod maven;
pub mod maven_image;
pub mod oci;
pub mod once_map;
pub mod private_directory;
pub mod provenance;
pub mod repositories;
pub mod repository;
mod signed_jwt;
pub mod tenant_chart;
mod xml_elements;

pub use bucket::{
    AZURE_REPOSITORIES, AZURE_STORAGE, AwsApi, AwsSession, AzureAccess, BucketError, BucketObject,
    CloudCredentials, EntraApplication, EntraProof, GOOGLE_PLATFORM, GOOGLE_STORAGE, ObjectBucket,
    ObjectStorage, S3Keys, check_aws_region, object,
};

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path, PathBuf};

use chart_compat::chart::{self, Chart, MAX_CHART_BYTES, MAX_FILE_BYTES_HELM3};
use chart_compat::profile::Profile;
use chart_compat::render::{CompiledChart, Prefetch};

use windlass_base::bounded_read;

/// Why a chart could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not exist, and the name looks like a path.
    #[error("path {0:?} not found")]
    NotFound(String),
    /// It could not be fetched.
    #[error(transparent)]
    Fetch(#[from] fetch::FetchError),
    /// A file or directory cannot be read, in Go's words.
    #[error("{step} {path}: {}", windlass_base::causes::of_the_system(source))]
    Read {
        /// The system call that failed.
        step: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of a chart directory cannot be read.
    #[error("error reading {name}: {source}")]
    File {
        /// Its path in the chart.
        name: String,
        /// Why not.
        source: Box<Error>,
    },
    /// A symbolic link of a chart directory is broken.
    #[error("error evaluating symlink {path}: {source}")]
    Link {
        /// The link.
        path: PathBuf,
        /// Why not.
        source: Box<Error>,
    },
    /// Symbolic links form a cycle.
    #[error("EvalSymlinks: too many links")]
    Links,
    /// A directory in the path of a symbolic link is a file.
    #[error("not a directory")]
    NoDirectory,
    /// A device, a socket or a pipe in a chart directory.
    #[error("cannot load irregular file {0} as it has file mode type bits set")]
    Irregular(PathBuf),
    /// The total size of a chart directory exceeds the limit.
    #[error("chart exceeds maximum decompressed size of {MAX_CHART_BYTES} bytes")]
    Budget,
    /// A file of a chart directory is too large, with Helm 3.
    #[error("chart file {0:?} is larger than the maximum file size {MAX_FILE_BYTES_HELM3}")]
    TooLarge(String),
    /// The directory contains something that is not a chart file, or too much.
    #[error("cannot load chart from {path}: {reason}")]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The archive is not a chart, or the chart is invalid.
    #[error("{0}")]
    Chart(#[from] chart::Error),
    /// The file is not a gzip archive.
    #[error("{0}")]
    NotAnArchive(String),
}

/// A chart read from disk, and warnings about it.
pub struct Loaded {
    /// The chart.
    pub chart: Chart,
    /// Its templates, while they are being parsed.
    pub prefetch: Prefetch,
    /// Lines for stderr.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// The chart, ready to render.
    #[must_use]
    pub fn compile(self, profile: Profile) -> CompiledChart {
        CompiledChart::with_prefetch(self.chart, self.prefetch, profile)
    }
}

/// Finds a chart on disk (`LocateChart`); `None` if the reference must be fetched.
///
/// # Errors
/// The reference is a path that does not exist.
pub fn locate(reference: &str) -> Result<Option<PathBuf>, Error> {
    let path = Path::new(reference.strip_prefix("file://").unwrap_or(reference));
    if path.exists() {
        return Ok(Some(path.to_owned()));
    }
    if path.is_absolute() || reference.starts_with('.') {
        return Err(Error::NotFound(reference.to_owned()));
    }
    Ok(None)
}

/// Loads a chart from a directory or a packaged chart.
///
/// # Errors
/// It cannot be read, is too large, or is not a chart.
pub fn load(path: &Path, profile: Profile) -> Result<Loaded, Error> {
    if !path.is_dir() {
        return load_archive(&mut BufReader::with_capacity(BLOCK, package(path)?), path, profile);
    }
    let mut warnings = Vec::new();
    // Templates are parsed while the rest of the chart is read.
    let mut prefetch = Prefetch::new(profile);
    let files = directory::files(path, profile, &mut |w| warnings.push(w))?;
    files.iter().for_each(|file| prefetch.push(file));
    let chart = chart::load_files(files, profile, &mut |w| warnings.push(w))?;
    Ok(Loaded { chart, prefetch, warnings })
}

/// Loads a chart directory as lint does: as API version 1 or 2, whatever `Chart.yaml` declares; with warnings.
///
/// # Errors
/// It cannot be read, is too large, or is not a chart.
pub fn load_directory_as_v2(path: &Path, profile: Profile) -> Result<(chart::Chart, Vec<String>), Error> {
    let mut warnings = Vec::new();
    let files = directory::files(path, profile, &mut |w| warnings.push(w))?;
    let chart = chart::load_files_as_v2(files, profile, &mut |w| warnings.push(w))?;
    Ok((chart, warnings))
}

/// Bytes of a package that are read at a time.
const BLOCK: usize = 64 * 1024;

/// Opens a package on disk.
fn package(path: &Path) -> Result<File, Error> {
    let read = |source| Error::Read { step: "open", path: absolute(path), source };
    let size = std::fs::metadata(path)
        .map_err(|source| Error::Read { step: "stat", path: path.to_owned(), source })?
        .len();
    if size > MAX_CHART_BYTES {
        let reason = format!("the archive has {size} bytes, more than the maximum {MAX_CHART_BYTES}");
        return Err(Error::Directory { path: path.to_owned(), reason });
    }
    File::open(path).map_err(read)
}

/// The bytes of a package on disk.
///
/// # Errors
/// It cannot be read or is too large.
pub fn package_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let read = bounded_read::read_to_end(package(path)?, MAX_CHART_BYTES);
    read.map_err(|source| Error::Read { step: "read", path: absolute(path), source })
}

/// Loads a packaged chart, named `path` in errors.
///
/// # Errors
/// It is not a package, too large when inflated, or not a chart.
pub fn load_package(mut bytes: &[u8], path: &Path, profile: Profile) -> Result<Loaded, Error> {
    load_archive(&mut bytes, path, profile)
}

/// Loads a packaged chart while it is being read.
fn load_archive(archive: &mut dyn BufRead, path: &Path, profile: Profile) -> Result<Loaded, Error> {
    let mut warnings = Vec::new();
    let mut prefetch = Prefetch::new(profile);
    let start = archive.fill_buf();
    let start = start.map_err(|source| Error::Read { step: "read", path: absolute(path), source })?;
    if !start.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(Error::NotAnArchive(not_gzip(path, start)));
    }
    let files = match (chart::read_archive_with(archive, profile, &mut |file| prefetch.push(file)), profile) {
        (Ok(files), _) => files,
        // Helm 4 does not give the reason.
        (Err(_), Profile::Helm4) => {
            return Err(Error::NotAnArchive("unable to load chart archive".into()));
        }
        (Err(e), Profile::Helm3) => return Err(e.into()),
    };
    if profile == Profile::Helm4 && !files.iter().any(|f| f.name == "Chart.yaml") {
        let text = "unable to detect chart version, no Chart.yaml found";
        return Err(Error::NotAnArchive(text.to_owned()));
    }
    let chart = chart::load_files(files, profile, &mut |w| warnings.push(w))?;
    Ok(Loaded { chart, prefetch, warnings })
}

/// Reads the files of a directory as those of a chart.
///
/// # Errors
/// It cannot be read or is too large.
pub fn directory_files(path: &Path) -> Result<Vec<chart::File>, Error> {
    directory::files(path, Profile::Helm4, &mut |_| {})
}

/// The absolute path, without `.` and `..`, links unresolved (`filepath.Abs`).
#[must_use]
pub fn absolute(path: &Path) -> PathBuf {
    // Without a working directory the path stays relative.
    clean(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// The path without `.`, and without `..` where there is something before it (`filepath.Clean`).
#[must_use]
pub fn clean(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match (part, out.components().next_back()) {
            (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                out.pop();
            }
            (other, _) => out.push(other),
        }
    }
    if out.as_os_str().is_empty() { ".".into() } else { out }
}

/// Helm's text for a file that is not a gzip archive.
fn not_gzip(path: &Path, bytes: &[u8]) -> String {
    let path = absolute(path);
    let name = path.display();
    if matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml")) {
        return format!("file '{name}' seems to be a YAML file, but expected a gzipped archive");
    }
    // Helm reads 512 bytes, with zeros after a shorter file.
    let text = bytes.len() >= 512
        && bytes.iter().take(512).all(|b| matches!(b, 0x09 | 0x0a | 0x0c | 0x0d | 0x1b) || *b >= 0x20);
    let kind = if text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    format!("file '{name}' does not appear to be a gzipped archive; got '{kind}'")
}
