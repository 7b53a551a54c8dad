//! The archive of a source's files, which is the same for the same files. Which of them are ignored is
//! [`super::ignore_rules`]'s.

use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use chart_compat::tar_reader::{TarBounds, TarEntry, read_tar};
use flate2::{Compression, write::GzEncoder};

use super::fetch_bounds::{FetchEnd, FileBounds, MAX_BYTES, MAX_FILES};
use super::ignore_rules::IgnoreRules;

/// The deepest directory.
pub(super) const MAX_DEPTH: usize = 100;

pub(super) fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) is_dir: bool,
    is_file: bool,
}

/// The entries of a directory by name. Symbolic links are neither files nor directories.
pub(super) fn sorted(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        all.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            path: entry.path(),
            is_dir: kind.is_dir(),
            is_file: kind.is_file(),
        });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Writes the files of a directory that are not ignored as a `tar.gz`. Times and owners are left out: the same files make the same
/// archive.
///
/// # Errors
/// A file cannot be read, there is too much, or the fetch has ended.
pub(super) fn write_archive(
    root: &Path,
    ignore: &IgnoreRules,
    out: &mut dyn Write,
    end: &FetchEnd,
) -> io::Result<()> {
    let gzip = GzEncoder::new(out, Compression::default());
    let mut archive = tar::Builder::new(gzip);
    let mut bounds = FileBounds::new(end);
    append(&mut archive, root, root, ignore, &mut bounds, 0)?;
    archive.into_inner()?.finish()?;
    Ok(())
}

fn append<W: Write>(
    archive: &mut tar::Builder<W>,
    root: &Path,
    directory: &Path,
    ignore: &IgnoreRules,
    bounds: &mut FileBounds,
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(wrong(format!("{}: more than {MAX_DEPTH} directories deep", directory.display())));
    }
    for Entry { path, is_dir, is_file, .. } in sorted(directory)? {
        if !(is_dir || is_file) || ignore.ignores(&path, is_dir) {
            continue;
        }
        let relative = path.strip_prefix(root).map_err(|e| wrong(e.to_string()))?;
        let metadata = fs::metadata(&path)?;
        bounds.take(if is_dir { 0 } else { metadata.len() })?;
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        header.set_mode(if is_dir { 0o755 } else { mode(&metadata) });
        if is_dir {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, relative, io::empty())?;
            append(archive, root, &path, ignore, bounds, depth + 1)?;
        } else {
            header.set_size(metadata.len());
            archive.append_data(&mut header, relative, fs::File::open(&path)?)?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 }
}

#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> u32 {
    0o644
}

/// Unpacks a `tar.gz` into a directory: files and directories only, none outside of it. `packed`: its size, in bytes.
///
/// # Errors
/// It is not such an archive, leads out of the directory, or is too large.
pub fn unpack(archive: impl io::Read, packed: u64, directory: &Path) -> io::Result<()> {
    unpack_within(archive, packed, directory, &mut FileBounds::new(&FetchEnd::default()))
}

/// The same within bounds, which other files may share.
///
/// # Errors
/// It is not such an archive, leads out of the directory, or is too large; or the fetch has ended.
pub(super) fn unpack_within(
    archive: impl io::Read,
    packed: u64,
    directory: &Path,
    bounds: &mut FileBounds,
) -> io::Result<()> {
    let of_archive = TarBounds::of_compressed(packed, MAX_BYTES, MAX_FILES);
    let read = read_tar(flate2::read::MultiGzDecoder::new(archive), of_archive, |entry| {
        bounds.end().check()?;
        let (is_dir, name) = (entry.kind().is_dir(), entry.path()?);
        if !(entry.is_file() || is_dir) {
            return Ok(());
        }
        let mut path = directory.to_owned();
        let last = name.components().count().saturating_sub(1);
        for (depth, part) in name.components().enumerate() {
            match part {
                Component::Normal(part) => path.push(part),
                // As GNU tar: what is absolute is below the directory.
                Component::RootDir | Component::CurDir => continue,
                _ => return Err(wrong(format!("{} leads out of the archive", name.display()))),
            }
            if depth > MAX_DEPTH {
                return Err(wrong(format!("{}: more than {MAX_DEPTH} directories deep", name.display())));
            }
            let is_last = depth == last;
            if (!is_last || is_dir) && !path.is_dir() {
                bounds.take(0)?;
                fs::create_dir(&path)?;
            }
        }
        if !is_dir {
            bounds.take(entry.size())?;
            write_file(&path, entry)?;
        }
        Ok(())
    });
    read.map(drop)
}

/// Writes a file in place of an earlier one of the same name.
fn write_file<R: io::Read>(path: &Path, entry: &mut TarEntry<'_, R>) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(if entry.is_executable() { 0o755 } else { 0o644 });
    }
    io::copy(entry, &mut options.open(path)?).map(drop)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::ignore_rules::SOURCE_IGNORE;
    use super::*;

    /// A directory of files, by path and content.
    pub(in super::super) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn archived(root: &Path, ignore: Option<&str>) -> Vec<String> {
        let rules = IgnoreRules::load(root, ignore).unwrap();
        let mut bytes = Vec::new();
        write_archive(root, &rules, &mut bytes, &FetchEnd::default()).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let files = archive.entries().unwrap().map(|e| e.unwrap());
        let files = files.filter(|e| e.header().entry_type().is_file());
        files.map(|e| e.path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn ignored_files_are_no_part_of_an_archive() {
        let files = [
            (".git/HEAD", ""),
            (".github/x.yaml", ""),
            ("a.png", ""),
            ("charts/demo/Chart.yaml", ""),
            ("charts/demo/logo.png", ""),
            ("docs/a.md", ""),
            ("docs/keep.md", ""),
        ];
        let root = tree(&files);
        let charts = "charts/demo/Chart.yaml";
        assert_eq!(archived(root.path(), None), [charts, "docs/a.md", "docs/keep.md"]);
        // Rules of the spec replace the defaults, but for those of Git's own files.
        assert_eq!(
            archived(root.path(), Some("docs/*\n!docs/keep.md\n")),
            [".github/x.yaml", "a.png", charts, "charts/demo/logo.png", "docs/keep.md"]
        );
        assert_eq!(archived(root.path(), Some("/*\n!/charts\n")), [charts, "charts/demo/logo.png"]);
        // A file of rules counts from its own directory.
        fs::write(root.path().join("docs").join(SOURCE_IGNORE), "/a.md\n").unwrap();
        assert_eq!(
            archived(root.path(), None),
            [".github/x.yaml", "a.png", charts, "charts/demo/logo.png", "docs/.sourceignore", "docs/keep.md"]
        );
    }

    #[test]
    fn the_same_files_make_the_same_archive() {
        let make = || {
            let root = tree(&[("b/x", "1"), ("a", "2")]);
            let rules = IgnoreRules::load(root.path(), None).unwrap();
            let mut bytes = Vec::new();
            write_archive(root.path(), &rules, &mut bytes, &FetchEnd::default()).unwrap();
            bytes
        };
        let bytes = make();
        assert_eq!(bytes, make());
        let target = tempfile::tempdir().unwrap();
        unpack(&bytes[..], bytes.len() as u64, target.path()).unwrap();
        assert_eq!(fs::read_to_string(target.path().join("b/x")).unwrap(), "1");
    }

    #[test]
    fn archives_do_not_lead_out_of_their_directory() {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        // The library refuses such a path, so it is written by hand.
        header.as_gnu_mut().unwrap().name[..5].copy_from_slice(b"../ab");
        header.set_cksum();
        archive.append(&header, &b"x"[..]).unwrap();
        let bytes = archive.into_inner().unwrap().finish().unwrap();
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        fs::create_dir(&inner).unwrap();
        assert!(unpack(&bytes[..], bytes.len() as u64, &inner).is_err());
        assert!(!outer.path().join("ab").exists());
    }

    /// A small layer whose only header claims a name or fields of 2 MiB.
    #[test]
    fn names_and_headers_of_archives_are_bounded() {
        for (kind, told) in [
            (tar::EntryType::GNULongName, "the archive has a name of more than 4096 bytes"),
            (tar::EntryType::XHeader, "a pax header is larger than 1048576 bytes"),
        ] {
            let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(2 << 20);
            header.set_cksum();
            archive.append(&header, io::Read::take(io::repeat(b'x'), 2 << 20)).unwrap();
            let bytes = archive.into_inner().unwrap().finish().unwrap();
            let target = tempfile::tempdir().unwrap();
            let error = unpack(&bytes[..], bytes.len() as u64, target.path()).unwrap_err();
            assert_eq!(error.to_string(), told, "{kind:?}");
        }
    }
}
