//! The files of a directory in an artifact, which is a `tar.gz`.
//!
//! Owns that nothing but files is taken, that no name leads out of the directory, and how much is read into memory. Writes nothing to disk.

use std::collections::BTreeMap;
use std::io::Read as _;

use chart_compat::tar_reader::{TarBounds, TarEntry, TarError, read_tar};
use windlass_base::bounded_read;

/// The most bytes that an artifact may unpack to, and the most entries that it may have: those of a source.
const MAX_UNPACKED: u64 = 2 << 30;
const MAX_ENTRIES: usize = 200_000;

/// The most parts of the path of a file, whether it is wanted or not.
const MAX_PARTS: usize = 64;

/// How much is taken of an artifact.
#[derive(Clone, Copy, Debug)]
pub struct FileBounds {
    /// The most files.
    pub files: usize,
    /// The most bytes of one file.
    pub file_bytes: u64,
    /// The most bytes of all files.
    pub bytes: u64,
    /// The most directories below each other, from the directory that is asked for.
    pub depth: usize,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFile {
    /// Its path from the directory that is asked for, with slashes.
    pub path: String,
    /// Its content.
    pub content: Vec<u8>,
}

/// Why the files of an artifact cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// It is no `tar.gz`, or exceeds a bound.
    #[error("the artifact is not usable: {0}")]
    Archive(#[from] TarError),
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// Its path.
        path: String,
        /// Why not.
        error: std::io::Error,
    },
    /// The artifact has nothing at the path.
    #[error("the artifact has no directory {0:?}")]
    Absent(String),
    /// The path is a file.
    #[error("{0:?} is a file: name its directory")]
    IsFile(String),
    /// An entry is neither a file nor a directory.
    #[error("{0}: it is a link or a device: only files are used")]
    NotAFile(String),
    /// A name is no text, or has `..` in it.
    #[error("{0:?} is not a path below the artifact's root")]
    BadName(String),
    /// There is too much.
    #[error("{0}")]
    TooMuch(String),
}

/// The parts of a path below the root of an artifact; `None` if it leads out of it. `./a/`, `/a` and `a` are the same.
#[must_use]
pub fn inner_path(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    (!parts.contains(&"..")).then_some(parts)
}

/// The files of a directory of a `tar.gz`, by path. `directory`: its parts ([`inner_path`]); `wanted`: whether a file is taken, by its path
/// from there.
///
/// # Errors
/// The bytes are no archive, the directory is not in it, an entry that is wanted is not a file, there is too much, or `wanted` fails.
pub fn files_below(
    archive: &[u8],
    directory: &[&str],
    wanted: impl Fn(&str) -> Result<bool, FilesError>,
    bounds: FileBounds,
) -> Result<Vec<ArchivedFile>, FilesError> {
    let limits = TarBounds::of_compressed(archive.len() as u64, MAX_UNPACKED, MAX_ENTRIES);
    let mut taken = Taken { bounds, files: BTreeMap::new(), bytes: 0, has_directory: directory.is_empty() };
    read_tar(flate2::read::MultiGzDecoder::new(archive), limits, |entry| {
        let name = String::from_utf8_lossy(entry.name()).into_owned();
        // What is elsewhere is not ours to judge.
        let Some(parts) = inner_path(&name) else {
            return match is_below(&name, directory) {
                true => Err(FilesError::BadName(name)),
                false => Ok(()),
            };
        };
        let Some(inner) = parts.strip_prefix(directory) else { return Ok(()) };
        let is_directory = entry.kind().is_dir();
        if inner.is_empty() {
            if !is_directory && !directory.is_empty() {
                return Err(FilesError::IsFile(directory.join("/")));
            }
            taken.has_directory = true;
            return Ok(());
        }
        taken.has_directory = true;
        if is_directory { Ok(()) } else { taken.take(entry, inner, &name, &wanted) }
    })?;
    if !taken.has_directory {
        return Err(FilesError::Absent(directory.join("/")));
    }
    Ok(taken.files.into_iter().map(|(path, content)| ArchivedFile { path, content }).collect())
}

/// Whether a name with `..` in it begins in the directory.
fn is_below(name: &str, directory: &[&str]) -> bool {
    let mut parts = name.split('/').filter(|part| !matches!(*part, "" | "."));
    directory.iter().all(|part| parts.next() == Some(part))
}

struct Taken {
    bounds: FileBounds,
    /// By path; a later entry of a name takes the place of an earlier one, as where an archive is unpacked.
    files: BTreeMap<String, Vec<u8>>,
    bytes: u64,
    has_directory: bool,
}

impl Taken {
    fn take<R: std::io::Read>(
        &mut self,
        entry: &mut TarEntry<'_, R>,
        inner: &[&str],
        name: &str,
        wanted: &impl Fn(&str) -> Result<bool, FilesError>,
    ) -> Result<(), FilesError> {
        // A pattern is looked at for each directory of a path.
        if inner.len() > MAX_PARTS {
            return Err(FilesError::TooMuch(format!("{name}: it is more than {MAX_PARTS} directories deep")));
        }
        let path = inner.join("/");
        if !wanted(&path)? {
            return Ok(());
        }
        if std::str::from_utf8(entry.name()).is_err() {
            return Err(FilesError::BadName(name.to_owned()));
        }
        if !entry.is_file() {
            return Err(FilesError::NotAFile(name.to_owned()));
        }
        let FileBounds { files, file_bytes, bytes, depth } = self.bounds;
        if inner.len() > depth + 1 {
            let text = format!(
                "{name}: it is more than {depth} directories deep: choose another path, or exclude it"
            );
            return Err(FilesError::TooMuch(text));
        }
        if let Some(before) = self.files.remove(&path) {
            self.bytes -= before.len() as u64;
        }
        if self.files.len() >= files {
            let text =
                format!("there are more than {files} files: choose a path with fewer, or exclude some");
            return Err(FilesError::TooMuch(text));
        }
        let size = entry.size();
        if size > file_bytes {
            let text = format!("{name}: the file has {size} bytes, more than {file_bytes}: exclude it");
            return Err(FilesError::TooMuch(text));
        }
        self.bytes += size;
        if self.bytes > bytes {
            let text = format!(
                "the files have more than {bytes} bytes together: choose a path with fewer, or exclude some"
            );
            return Err(FilesError::TooMuch(text));
        }
        let content = bounded_read::read_to_end(entry.by_ref().take(size), file_bytes);
        let content = content.map_err(|error| FilesError::Read { path: name.to_owned(), error })?;
        if content.len() as u64 != size {
            let error = std::io::ErrorKind::UnexpectedEof.into();
            return Err(FilesError::Read { path: name.to_owned(), error });
        }
        self.files.insert(path, content);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    const BOUNDS: FileBounds = FileBounds { files: 3, file_bytes: 10, bytes: 20, depth: 2 };

    enum Entry {
        File(&'static [u8]),
        Link(&'static str),
        Directory,
    }

    fn packed(entries: &[(&str, Entry)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, entry) in entries {
            let mut header = tar::Header::new_gnu();
            // The library refuses some of the names, so they are written by hand.
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_mode(0o644);
            let content: &[u8] = match entry {
                Entry::File(content) => content,
                Entry::Link(to) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    header.set_link_name(to).unwrap();
                    b""
                }
                Entry::Directory => {
                    header.set_entry_type(tar::EntryType::Directory);
                    b""
                }
            };
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    fn below(archive: &[u8], directory: &str) -> Result<Vec<(String, usize)>, String> {
        let parts = inner_path(directory).unwrap();
        let files = files_below(archive, &parts, |path| Ok(!path.ends_with(".md")), BOUNDS);
        let shown = |file: ArchivedFile| (file.path, file.content.len());
        files.map(|files| files.into_iter().map(shown).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn files_of_a_directory_are_taken_by_path() {
        let archive = packed(&[
            ("conf/", Entry::Directory),
            ("./conf/b.xml", Entry::File(b"12")),
            ("conf/a/c.xml", Entry::File(b"1")),
            ("conf/README.md", Entry::File(b"a text that is too long")),
            ("conf/b.xml", Entry::File(b"123")),
            ("confused/d.xml", Entry::File(b"1")),
            ("../../x", Entry::File(b"1")),
            ("other/link", Entry::Link("/etc/passwd")),
            ("empty/", Entry::Directory),
        ]);
        let expected = vec![("a/c.xml".to_owned(), 1), ("b.xml".to_owned(), 3)];
        for directory in ["conf", "./conf/", "/conf", "conf//."] {
            assert_eq!(below(&archive, directory).as_ref(), Ok(&expected), "{directory}");
        }
        assert_eq!(below(&archive, "empty"), Ok(vec![]));
        assert_eq!(below(&archive, "conf/a"), Ok(vec![("c.xml".to_owned(), 1)]));
        assert_eq!(inner_path("a/../../b"), None);
        for (directory, part) in [
            ("none", "the artifact has no directory \"none\""),
            ("con", "the artifact has no directory \"con\""),
            ("conf/b.xml", "\"conf/b.xml\" is a file: name its directory"),
            ("", "\"../../x\" is not a path below the artifact's root"),
            ("other", "other/link: it is a link or a device"),
        ] {
            let error = below(&archive, directory).unwrap_err();
            assert!(error.starts_with(part), "{directory}: {error}");
        }
    }

    #[test]
    fn what_is_taken_is_bounded() {
        let many: Vec<(&str, Entry)> =
            ["1", "2", "3", "4"].into_iter().map(|name| (name, Entry::File(b"x"))).collect();
        for (entries, part) in [
            (many, "there are more than 3 files"),
            (vec![("a", Entry::File(b"12345678901"))], "a: the file has 11 bytes, more than 10"),
            (
                vec![
                    ("a", Entry::File(b"1234567890")),
                    ("b", Entry::File(b"1234567890")),
                    ("c", Entry::File(b"1")),
                ],
                "the files have more than 20 bytes together",
            ),
            (vec![("a/b/c/d", Entry::File(b"1"))], "a/b/c/d: it is more than 2 directories deep"),
        ] {
            let error = below(&packed(&entries), "").unwrap_err();
            assert!(error.starts_with(part), "{error}");
        }
        // The same name again and again is one file.
        let same: Vec<(&str, Entry)> = (0..10).map(|_| ("a", Entry::File(b"1234567890"))).collect();
        assert_eq!(below(&packed(&same), ""), Ok(vec![("a".to_owned(), 10)]));
    }

    /// Patterns are matched against each directory of a path, also of files that they leave out.
    #[test]
    fn paths_are_bounded_before_they_are_matched() {
        let archive = |directories: usize| {
            let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            let path = format!("{}x.md", "a/".repeat(directories));
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            archive.append_data(&mut header, path, &b""[..]).unwrap();
            archive.into_inner().unwrap().finish().unwrap()
        };
        assert_eq!(below(&archive(MAX_PARTS - 1), ""), Ok(vec![]));
        let error = below(&archive(MAX_PARTS), "").unwrap_err();
        assert!(error.ends_with("x.md: it is more than 64 directories deep"), "{error}");
    }

    #[test]
    fn what_is_damaged_has_no_files() {
        let archive = packed(&[("a", Entry::File(b"1")), ("b", Entry::File(b"2"))]);
        for bytes in [&b""[..], b"no archive", &archive[..archive.len() / 2], &archive[..20]] {
            assert!(below(bytes, "").is_err(), "{} bytes", bytes.len());
        }
    }
}
