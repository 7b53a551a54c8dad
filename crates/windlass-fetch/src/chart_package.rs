//! Packs charts as Helm does (`chartutil.Save`), and unpacks them (`chartutil.Expand`).

use std::io::{self, Write};
use std::num::IntErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chart_compat::chart::{self, Chart, File};
use chart_compat::data::Data;
use chart_compat::{json, yaml};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::chart_lock::{Lock, LockError};
use super::{atomic_files, go_time};

/// Why a chart could not be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The chart is invalid.
    #[error("chart validation: {0}")]
    Invalid(#[from] chart::Error),
    /// The schema is not JSON.
    #[error("invalid JSON in values.schema.json")]
    Schema,
    /// A file of the chart cannot be written as YAML.
    #[error("{0}")]
    Form(String),
    /// The chart's lock file is invalid.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The variable `SOURCE_DATE_EPOCH` is not a time, in Helm's words.
    #[error("invalid SOURCE_DATE_EPOCH: {0}")]
    SourceDate(String),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Modification times of a chart's files, in seconds since 1970.
pub struct Times {
    root: Option<PathBuf>,
    fixed: Option<u64>,
    fallback: u64,
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

impl Times {
    /// No times: the same chart always gives the same package.
    #[must_use]
    pub fn none() -> Self {
        Self { root: None, fixed: Some(0), fallback: 0 }
    }

    /// From the files of a chart directory; `SOURCE_DATE_EPOCH`, if set, overrides all of them.
    ///
    /// # Errors
    /// The variable is not a number, in Helm's words.
    pub fn of_directory(root: &Path) -> Result<Self, PackageError> {
        let fixed = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(text) if !text.is_empty() => Some(epoch(&text)?),
            _ => None,
        };
        // Files in archives below charts/ have no time of their own here; a fixed one keeps packages reproducible.
        let chart = std::fs::metadata(root.join("Chart.yaml")).and_then(|m| m.modified());
        let fallback = seconds(chart.unwrap_or_else(|_| SystemTime::now()));
        Ok(Self { root: Some(root.to_owned()), fixed, fallback })
    }

    /// The time that replaces the one in lock files, if all files have the same.
    fn of_locks(&self) -> Option<String> {
        self.root.as_ref().and(self.fixed).and_then(go_time::at)
    }

    fn of(&self, path: &str) -> u64 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let found =
            self.root.as_ref().and_then(|root| std::fs::metadata(root.join(path)).ok()?.modified().ok());
        found.map_or(self.fallback, seconds)
    }
}

/// Parses seconds since 1970, with Go's errors.
fn epoch(text: &str) -> Result<u64, PackageError> {
    let failed = |problem| PackageError::SourceDate(format!("strconv.ParseInt: parsing {text:?}: {problem}"));
    let seconds = text.parse::<i64>().map_err(|e| match e.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => failed("value out of range"),
        _ => failed("invalid syntax"),
    })?;
    u64::try_from(seconds).map_err(|_| PackageError::SourceDate("must not be negative".to_owned()))
}

/// The file name of a package.
#[must_use]
pub fn file_name(chart: &Chart) -> String {
    format!("{}-{}.tgz", chart.metadata.name, chart.metadata.version)
}

/// Packs a chart.
///
/// # Errors
/// The chart is invalid or cannot be written.
pub fn pack(chart: &Chart, times: &Times) -> Result<Vec<u8>, PackageError> {
    let mut checked = chart.metadata.clone();
    checked.validate()?;
    let gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut out = tar::Builder::new(gzip);
    add_chart(&mut out, chart, "", "", times)?;
    let broken = |source| PackageError::Write { path: file_name(chart).into(), source };
    out.into_inner().and_then(GzEncoder::finish).map_err(broken)
}

/// `prefix`: the path in the archive; `place`: the path in the chart's directory.
fn add_chart<W: Write>(
    out: &mut tar::Builder<W>,
    chart: &Chart,
    prefix: &str,
    place: &str,
    times: &Times,
) -> Result<(), PackageError> {
    let form = |e: yaml::WriteError| PackageError::Form(e.to_string());
    let base = format!("{prefix}{}", chart.name());
    let mut add = |name: &str, data: &[u8]| {
        let path = format!("{base}/{name}");
        let mut header = tar::Header::new_ustar();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(times.of(&format!("{place}{name}")));
        header.set_entry_type(tar::EntryType::Regular);
        let written = out.append_data(&mut header, &path, data);
        written.map_err(|source| PackageError::Write { path: path.into(), source })
    };
    let (v1, v2) = (chart.metadata.api_version == "v1", chart.metadata.api_version == "v2");
    let mut metadata = chart.metadata.clone();
    if v1 {
        // requirements.yaml contains the dependencies.
        metadata.dependencies = None;
    }
    add("Chart.yaml", yaml::to_string(&metadata.data()).map_err(form)?.as_bytes())?;
    if let Some(lock) = chart.lock.as_ref().filter(|lock| v2 && **lock != Data::Null) {
        let mut lock = Lock::read(lock)?;
        lock.generated = times.of_locks().unwrap_or(lock.generated);
        add("Chart.lock", lock.text().map_err(form)?.as_bytes())?;
    }
    if let Some(values) = &chart.values_text {
        add("values.yaml", values)?;
    }
    if let Some(schema) = &chart.schema {
        json::from_slice(schema).map_err(|_| PackageError::Schema)?;
        add("values.schema.json", schema)?;
    }
    for file in chart.templates.iter().chain(&chart.files) {
        add(&file.name, &file.data)?;
    }
    for sub in &chart.dependencies {
        let place = format!("{place}charts/{}/", sub.name());
        add_chart(out, sub, &format!("{base}/charts/"), &place, times)?;
    }
    Ok(())
}

/// Packs a chart into a directory. Returns its path.
///
/// # Errors
/// As [`pack`].
pub fn save(chart: &Chart, times: &Times, directory: &Path) -> Result<PathBuf, PackageError> {
    let bytes = pack(chart, times)?;
    let path = directory.join(file_name(chart));
    atomic_files::write(&path, &bytes, 0o644)
        .map_err(|source| PackageError::Write { path: path.clone(), source })?;
    Ok(path)
}

/// Writes a package or its provenance file atomically.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    atomic_files::write(path, bytes, 0o644)
}

/// Unpacks a chart's files atomically into a new directory with the chart's name.
///
/// # Errors
/// The chart has no name, or a file cannot be written.
pub fn expand(files: &[File], directory: &Path) -> Result<PathBuf, PackageError> {
    let target = directory.join(directory_name(files)?);
    write_directory(files, &target)?;
    Ok(target)
}

/// The name of the directory that a chart's files are unpacked into: that of the chart.
///
/// # Errors
/// The chart has no name, or one that is not a name of a directory.
pub fn directory_name(files: &[File]) -> Result<String, PackageError> {
    let chart = files.iter().find(|f| f.name == "Chart.yaml");
    let data = chart.map(|f| yaml::from_slice(&f.data)).transpose();
    let data = data.map_err(|e| PackageError::Form(format!("cannot load Chart.yaml: {e}")))?;
    let name = data.as_ref().and_then(|d| d.get("name")).and_then(Data::as_str).unwrap_or_default();
    match name {
        "" => Err(PackageError::Form("chart name not specified".to_owned())),
        "." | ".." => Err(PackageError::Form(format!("chart name {name:?} is not allowed"))),
        _ if name.contains(['/', '\\']) => {
            Err(PackageError::Form(format!("chart name {name:?} must not contain path separators")))
        }
        _ => Ok(name.to_owned()),
    }
}

/// Writes a chart's files atomically as a new directory.
///
/// # Errors
/// The directory exists and is not empty, or a file cannot be written.
pub fn write_directory(files: &[File], target: &Path) -> Result<(), PackageError> {
    let write = |path: &Path, source| PackageError::Write { path: path.to_owned(), source };
    let directory = target.parent().unwrap_or(target);
    std::fs::create_dir_all(directory).map_err(|e| write(directory, e))?;
    let scratch = tempfile::Builder::new().prefix(".windlass-").tempdir_in(directory);
    let scratch = scratch.map_err(|e| write(directory, e))?;
    let root = scratch.path().join("chart");
    std::fs::create_dir(&root).map_err(|e| write(&root, e))?;
    for file in files {
        // The archive parser refused paths outside of the chart; no link is ever written.
        let path = root.join(&file.name);
        let parent = path.parent().unwrap_or(&root);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, &file.data))
            .map_err(|e| write(&path, e))?;
    }
    std::fs::rename(&root, target).map_err(|e| write(target, e))
}
