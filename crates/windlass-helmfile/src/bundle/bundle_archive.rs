//! The files of a bundle as a compressed tar archive.
//!
//! Owns its order, modes and times, so that equal files are equal archives, and the checks of an archive that others made.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use chart_compat::tar_reader::{TarBounds, TarError, read_tar};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::bundle_manifest::check_path;
use crate::error::HelmfileError;
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;

/// The most files of a bundle.
pub(super) const MAX_FILES: usize = 100_000;
/// The most bytes of all files of a bundle.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// Packs all files below a directory, in the order of their paths.
///
/// # Errors
/// A file cannot be read.
pub fn pack(root: &Path) -> Result<Vec<u8>, HelmfileError> {
    let mut paths = BTreeSet::new();
    collect(root, "", &mut paths)?;
    let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for path in paths {
        let failed = |error: std::io::Error| HelmfileError::file(&path, &error);
        let place = root.join(&path);
        let bytes = bounded_read::read_file(&place, MAX_BYTES).map_err(failed)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(if is_executable(&place) { 0o755 } else { 0o644 });
        header.set_mtime(0);
        header.set_entry_type(tar::EntryType::Regular);
        out.append_data(&mut header, &path, &bytes[..]).map_err(failed)?;
    }
    out.into_inner().and_then(GzEncoder::finish).map_err(HelmfileError::cause)
}

fn collect(root: &Path, below: &str, paths: &mut BTreeSet<String>) -> Result<(), HelmfileError> {
    let dir = root.join(below);
    let failed = |error: std::io::Error| HelmfileError::file(dir.display(), &error);
    for entry in fs::read_dir(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type().map_err(failed)?.is_dir() {
            collect(root, &path, paths)?;
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}

/// Unpacks an archive into an empty directory.
///
/// # Errors
/// It is not an archive of files below the directories of a bundle, has a file twice, or is too large.
pub fn unpack(archive: &[u8], root: &Path) -> Result<(), HelmfileError> {
    // Half of them are headers, at most.
    let bounds = TarBounds::of_compressed(archive.len() as u64, 2 * MAX_BYTES, MAX_FILES);
    let mut left = MAX_BYTES;
    let read = read_tar(GzDecoder::new(archive), bounds, |entry| {
        let path = entry.path().map_err(|error| broken(&error))?.to_string_lossy().into_owned();
        check_path(&path)?;
        if !entry.is_file() {
            return Err(HelmfileError::Bundle(format!("the bundle's archive: {path} is not a file")));
        }
        left = left.checked_sub(entry.size()).ok_or_else(too_large)?;
        let executable = entry.is_executable();
        let mut file = create(&root.join(&path), executable).map_err(|error| error.within(&*path))?;
        io::copy(entry, &mut file).map(drop).map_err(|error| broken(&error))
    });
    read.map(drop)
}

impl From<TarError> for HelmfileError {
    fn from(error: TarError) -> Self {
        match error {
            TarError::Damaged(error) => broken(&error),
            TarError::TooMany(_) | TarError::TooLarge(_) => too_large(),
            other => Self::Bundle(format!("the bundle's archive: {other}")),
        }
    }
}

fn broken(error: &std::io::Error) -> HelmfileError {
    HelmfileError::Bundle(format!("the bundle's archive: {}", of_the_system(error)))
}

/// The error of a bundle that is too large.
pub(super) fn too_large() -> HelmfileError {
    HelmfileError::Bundle(format!("a bundle has at most {MAX_FILES} files and {} MiB", MAX_BYTES >> 20))
}

/// Writes a new file, with the folders above it.
///
/// # Errors
/// It exists, or cannot be written.
pub(super) fn write(path: &Path, content: &[u8], executable: bool) -> Result<(), HelmfileError> {
    create(path, executable)?
        .write_all(content)
        .map_err(|error| HelmfileError::Machine(of_the_system(&error)))
}

/// Creates a new file, with the folders above it.
fn create(path: &Path, executable: bool) -> Result<fs::File, HelmfileError> {
    let failed = |error: std::io::Error| HelmfileError::Machine(of_the_system(&error));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(if executable { 0o755 } else { 0o644 });
    }
    options.open(path).map_err(failed)
}

/// Whether the owner may run a file.
#[cfg(unix)]
pub(super) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o100 != 0)
}

/// Whether the owner may run a file.
#[cfg(not(unix))]
pub(super) fn is_executable(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with one entry of a type, and its path as it is: libraries refuse to write such paths.
    fn hostile(path: &str, kind: tar::EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(0);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        if kind.is_symlink() {
            header.set_link_name("/etc").unwrap();
        }
        header.set_cksum();
        let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        out.append(&header, &[][..]).unwrap();
        out.append(&header, &[][..]).unwrap();
        out.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn an_archive_depends_on_paths_contents_and_modes_alone() {
        let pack_of = |files: &[&str]| {
            let dir = tempfile::tempdir().unwrap();
            for path in files {
                write(&dir.path().join(path), path.as_bytes(), path.ends_with(".sh")).unwrap();
            }
            pack(dir.path()).unwrap()
        };
        let archive = pack_of(&["files/b/c.yaml", "files/run.sh", "remote/x"]);
        assert_eq!(archive, pack_of(&["remote/x", "files/run.sh", "files/b/c.yaml"]));
        let out = tempfile::tempdir().unwrap();
        unpack(&archive, out.path()).unwrap();
        assert_eq!(fs::read_to_string(out.path().join("files/b/c.yaml")).unwrap(), "files/b/c.yaml");
        assert!(is_executable(&out.path().join("files/run.sh")));
        assert!(!is_executable(&out.path().join("remote/x")));
    }

    #[test]
    fn hostile_archives_are_refused() {
        use tar::EntryType::{Directory, Link, Regular, Symlink};
        for (path, kind, words) in [
            ("../x", Regular, "not below"),
            ("/etc/x", Regular, "not below"),
            ("files/../../x", Regular, "not below"),
            ("other/x", Regular, "not below"),
            ("files/link", Symlink, "is not a file"),
            ("files/link", Link, "is not a file"),
            ("files/dir", Directory, "is not a file"),
            ("files/twice", Regular, "exists"),
        ] {
            let out = tempfile::tempdir().unwrap();
            let told = unpack(&hostile(path, kind), out.path()).unwrap_err().to_string();
            assert!(told.contains(words), "{path}: {told}");
        }
        let out = tempfile::tempdir().unwrap();
        assert!(
            unpack(b"no archive", out.path()).unwrap_err().to_string().starts_with("the bundle's archive: ")
        );
    }

    #[test]
    fn a_file_that_is_too_large_is_refused_before_it_is_read() {
        let mut header = tar::Header::new_gnu();
        header.set_path("files/large").unwrap();
        header.set_size(MAX_BYTES + 1);
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(header.as_bytes()).unwrap();
        let out = tempfile::tempdir().unwrap();
        assert_eq!(
            unpack(&gzip.finish().unwrap(), out.path()).unwrap_err().to_string(),
            too_large().to_string()
        );
    }
}
