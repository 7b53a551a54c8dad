//! Archives unpacked into directories: tar, plain or under gzip, xz or zstd, and zip.
//!
//! Owns where entries go, and the bounds over all archives of a run; those of one are the tar reader's. No entry leaves the
//! directory: paths and symbolic links that lead out of it are refused. Hard links and devices are refused too.

use std::fs;
use std::io::{self, Cursor, Read, Write as _};
use std::path::{Component, Path, PathBuf};

use chart_compat::tar_reader::{MAX_NAME, TarBounds, TarError, read_tar, unpacked_limit};
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use tar::EntryType;

use super::byte_budget::ByteBudget;
use windlass_base::bounded_read;

/// Most entries of an archive.
const MAX_ENTRIES: usize = 100_000;
/// What the head of an entry begins with in a zip's directory.
const ZIP_ENTRY: &[u8] = b"PK\x01\x02";
/// Most bytes that an archive may unpack to.
const MAX_BYTES: u64 = 1 << 30;

/// Why an archive is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// Its type is not supported.
    #[error("archives of type {0} are not supported; use tar.gz, tar.xz or tar.zst")]
    Unsupported(String),
    /// Its type holds a single file.
    #[error("{0} holds a single file and is not an archive; use tar.{0}")]
    SingleFile(String),
    /// The type is unknown.
    #[error("{0:?} is not a type of archives; there are tar, tar.gz, tar.xz, tar.zst and zip")]
    Unknown(String),
    /// It cannot be read.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
    /// It exceeds a bound of tar archives.
    #[error(transparent)]
    Tar(#[from] TarError),
    /// An entry would be written through a link of the archive.
    #[error("the entry {0:?} is below a symbolic link")]
    BelowLink(String),
    /// An entry leads out of the directory.
    #[error("the {what} {name:?} leaves the directory")]
    Outside {
        /// Entry, or symbolic link.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// An entry is a hard link, a device or the like.
    #[error("the entry {0:?} is neither a file, a directory nor a symbolic link")]
    Special(String),
    /// A symbolic link has no target.
    #[error("a symbolic link leads nowhere")]
    EmptyLink,
    /// A name is not UTF-8.
    #[error("a name is not UTF-8 text")]
    Name,
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A kind of archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveKind {
    /// `tar`.
    Tar,
    /// `tar.gz`, `tgz`.
    TarGzip,
    /// `tar.xz`, `txz`.
    TarXz,
    /// `tar.zst`, `tzst`.
    TarZstd,
    /// `zip`.
    Zip,
}

impl ArchiveKind {
    /// The kind of a name such as `tar.gz`.
    ///
    /// # Errors
    /// There is no such kind, or it is not supported.
    pub fn parse(name: &str) -> Result<Self, ArchiveError> {
        match name {
            "tar" => Ok(Self::Tar),
            "tar.gz" | "tgz" => Ok(Self::TarGzip),
            "tar.xz" | "txz" => Ok(Self::TarXz),
            "tar.zst" | "tzst" => Ok(Self::TarZstd),
            "zip" => Ok(Self::Zip),
            "tar.bz2" | "tbz2" | "bz2" => Err(ArchiveError::Unsupported(name.to_owned())),
            "gz" | "xz" | "zst" => Err(ArchiveError::SingleFile(name.to_owned())),
            _ => Err(ArchiveError::Unknown(name.to_owned())),
        }
    }

    /// The kind by the end of a file's name; `None` if it names no archive.
    ///
    /// # Errors
    /// It names an archive that is not supported.
    pub fn of_file(name: &str) -> Result<Option<Self>, ArchiveError> {
        const ENDS: [&str; 14] = [
            "tar.gz", "tar.xz", "tar.zst", "tar.bz2", "tgz", "txz", "tzst", "tbz2", "tar", "zip", "gz", "xz",
            "zst", "bz2",
        ];
        let end = ENDS.into_iter().find(|end| name.strip_suffix(end).is_some_and(|rest| rest.ends_with('.')));
        end.map(Self::parse).transpose()
    }
}

/// Unpacks an archive into a directory that exists. `budget`: what all archives of a run may unpack to.
///
/// # Errors
/// It is damaged or exceeds a bound, an entry leaves the directory, or a file cannot be written.
pub fn unpack(
    bytes: &[u8],
    kind: ArchiveKind,
    directory: &Path,
    budget: &ByteBudget,
) -> Result<(), ArchiveError> {
    let limit = Limit { left: unpacked_limit(bytes.len() as u64, MAX_BYTES), budget };
    let target = Target { directory, entries: 0 };
    match kind {
        ArchiveKind::Zip => unzip(bytes, limit, target),
        ArchiveKind::Tar => untar(bytes, limit, target),
        ArchiveKind::TarGzip => untar(MultiGzDecoder::new(bytes), limit, target),
        ArchiveKind::TarXz => untar(XzReader::new(bytes, true), limit, target),
        ArchiveKind::TarZstd => {
            untar(StreamingDecoder::new(bytes).map_err(|error| damaged(&error))?, limit, target)
        }
    }
}

/// How many bytes may still be unpacked, of this archive and of all of the run.
struct Limit<'b> {
    left: u64,
    budget: &'b ByteBudget,
}

/// Reads bytes within a limit; more is an error.
struct Limited<'l, 'b, R> {
    inner: R,
    limit: &'l mut Limit<'b>,
}

impl<R: Read> Read for Limited<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.limit.left = self
            .limit
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| io::Error::other("it unpacks to more bytes than are allowed"))?;
        self.limit.budget.take(count as u64).map_err(io::Error::other)?;
        Ok(count)
    }
}

/// Where the files go.
struct Target<'t> {
    directory: &'t Path,
    entries: usize,
}

impl Target<'_> {
    fn count(&mut self) -> Result<(), ArchiveError> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES { Err(TarError::TooMany(MAX_ENTRIES).into()) } else { Ok(()) }
    }

    /// The path of an entry below the directory, whose parents exist. Those that are made count as entries: a name has many.
    fn place(&mut self, name: &Path) -> Result<PathBuf, ArchiveError> {
        self.count()?;
        let mut path = self.directory.to_owned();
        for part in name.components() {
            // No entry is written through a link of the archive.
            if path.is_symlink() {
                return Err(ArchiveError::BelowLink(name.display().to_string()));
            }
            match part {
                Component::Normal(part) => {
                    if !path.exists() {
                        self.count()?;
                        fs::create_dir(&path).map_err(|error| io_error(&path, error))?;
                    }
                    path.push(part);
                }
                Component::CurDir => {}
                _ => return Err(outside("entry", name)),
            }
        }
        Ok(path)
    }

    fn directory(&mut self, name: &Path) -> Result<(), ArchiveError> {
        let path = self.place(name)?;
        if path.is_symlink() {
            return Err(ArchiveError::BelowLink(name.display().to_string()));
        }
        fs::create_dir_all(&path).map_err(|error| io_error(&path, error))
    }

    fn file(&mut self, name: &Path, content: &mut impl Read, executable: bool) -> Result<(), ArchiveError> {
        let path = self.place(name)?;
        remove(&path)?;
        let mut file = fs::File::create_new(&path).map_err(|error| io_error(&path, error))?;
        io::copy(content, &mut file).map_err(|error| io_error(name, error))?;
        file.flush().map_err(|error| io_error(&path, error))?;
        if executable { make_executable(&path).map_err(|error| io_error(&path, error)) } else { Ok(()) }
    }

    fn link(&mut self, name: &Path, to: &Path) -> Result<(), ArchiveError> {
        let path = self.place(name)?;
        let depth = name.components().filter(|part| matches!(part, Component::Normal(_))).count();
        // The way up comes first: after a name it could go up from where another link leads.
        let up = to.components().take_while(|part| matches!(part, Component::ParentDir)).count();
        let rest = to.components().skip(up);
        let stays = rest.into_iter().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if up >= depth || !stays {
            return Err(outside("symbolic link", name));
        }
        remove(&path)?;
        make_link(to, &path).map_err(|error| io_error(&path, error))
    }
}

/// Removes what an earlier entry of the same name wrote.
fn remove(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

fn io_error(path: &Path, source: io::Error) -> ArchiveError {
    ArchiveError::Io { path: path.to_owned(), source }
}

fn outside(what: &'static str, name: &Path) -> ArchiveError {
    ArchiveError::Outside { what, name: name.display().to_string() }
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn make_link(to: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, path)
}

#[cfg(not(unix))]
fn make_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::Error::other("symbolic links are not supported on this system"))
}

/// The content of an entry that is what a link leads to.
fn link_target(entry: impl Read) -> Result<String, ArchiveError> {
    let bytes = bounded_read::read_to_end(entry, MAX_NAME as u64).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => TarError::LongName.into(),
        _ => damaged(&error),
    })?;
    String::from_utf8(bytes).map_err(|_| ArchiveError::Name)
}

fn damaged(error: &dyn std::fmt::Display) -> ArchiveError {
    ArchiveError::Damaged(error.to_string())
}

fn untar(content: impl Read, mut limit: Limit<'_>, mut target: Target<'_>) -> Result<(), ArchiveError> {
    let bounds = TarBounds { bytes: limit.left, entries: MAX_ENTRIES };
    read_tar(Limited { inner: content, limit: &mut limit }, bounds, |entry| {
        let name = entry.path().map_err(|error| damaged(&error))?;
        match entry.kind() {
            EntryType::Regular | EntryType::Continuous => {
                let executable = entry.is_executable();
                target.file(&name, entry, executable)
            }
            EntryType::Directory => target.directory(&name),
            EntryType::Symlink => {
                let to = entry.link().map_err(|error| damaged(&error))?;
                target.link(&name, &to.ok_or(ArchiveError::EmptyLink)?)
            }
            _ => Err(ArchiveError::Special(name.display().to_string())),
        }
    })
    .map(drop)
}

fn unzip(bytes: &[u8], mut limit: Limit<'_>, mut target: Target<'_>) -> Result<(), ArchiveError> {
    // The library reads the heads of all entries at once, with some 200 bytes for each.
    if memchr::memmem::find_iter(bytes, ZIP_ENTRY).nth(MAX_ENTRIES).is_some() {
        return Err(TarError::TooMany(MAX_ENTRIES).into());
    }
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(&error))?;
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).map_err(|error| damaged(&error))?;
        let name = PathBuf::from(entry.name().map_err(|error| damaged(&error))?.into_owned());
        if entry.is_dir() {
            target.directory(&name)?;
            continue;
        }
        let (is_link, executable) =
            (entry.is_symlink(), entry.unix_mode().is_some_and(|mode| mode & 0o100 != 0));
        let mut content = Limited { inner: &mut entry, limit: &mut limit };
        if is_link {
            let to = link_target(&mut content)?;
            target.link(&name, Path::new(&to))?;
        } else {
            target.file(&name, &mut content, executable)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of entries: kind, name, and content or what a link leads to.
    fn tar_of(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut out = tar::Builder::new(Vec::new());
        for (kind, name, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            let bytes = if *kind == EntryType::Regular { content.as_bytes() } else { b"" };
            header.set_size(bytes.len() as u64);
            // The builder refuses such names, which the tests need.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            if *kind != EntryType::Regular {
                header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
            }
            header.set_cksum();
            out.append(&header, bytes).unwrap();
        }
        out.into_inner().unwrap()
    }

    fn unpacked(bytes: &[u8], kind: ArchiveKind) -> Result<tempfile::TempDir, String> {
        let dir = tempfile::tempdir().unwrap();
        unpack(bytes, kind, dir.path(), &ByteBudget::new(u64::MAX)).map(|()| dir).map_err(|e| e.to_string())
    }

    #[test]
    fn names_are_bounded() {
        let name = |length: usize| format!("{}f", "d/".repeat((length - 1) / 2));
        let gnu = |name: &str| {
            let mut out = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            // A name that does not fit the header goes into an entry of its own.
            out.append_data(&mut header, name, &b"x"[..]).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            out.append_link(&mut header, "link", name).unwrap();
            out.into_inner().unwrap()
        };
        let pax = |name: &str| {
            let mut out = tar::Builder::new(Vec::new());
            out.append_pax_extensions([("path", name.as_bytes()), ("size", &b"1"[..])]).unwrap();
            let mut header = tar::Header::new_ustar();
            header.set_size(1);
            header.set_path("short").unwrap();
            header.set_cksum();
            out.append(&header, &b"x"[..]).unwrap();
            out.into_inner().unwrap()
        };
        let zip = |name: &str| {
            let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
            out.add_symlink("link", name, zip::write::SimpleFileOptions::default()).unwrap();
            out.finish().unwrap().into_inner()
        };
        let dir = unpacked(&gnu(&name(201)), ArchiveKind::Tar).unwrap();
        assert_eq!(fs::read(dir.path().join("link")).unwrap(), b"x");
        let dir = unpacked(&pax(&name(201)), ArchiveKind::Tar).unwrap();
        assert_eq!(fs::read(dir.path().join(name(201))).unwrap(), b"x");
        let long = name(5001);
        for (bytes, kind) in
            [(gnu(&long), ArchiveKind::Tar), (pax(&long), ArchiveKind::Tar), (zip(&long), ArchiveKind::Zip)]
        {
            let told = unpacked(&bytes, kind).unwrap_err();
            assert_eq!(told, "the archive has a name of more than 4096 bytes", "{kind:?}");
        }
        let told = unpacked(&pax(&name(1_100_001)), ArchiveKind::Tar).unwrap_err();
        assert_eq!(told, "a pax header is larger than 1048576 bytes");
    }

    #[test]
    fn the_heads_of_a_zip_are_counted_before_they_are_read() {
        let head = [ZIP_ENTRY, &[0; 42]].concat();
        let mut bytes = head.repeat(MAX_ENTRIES);
        let told = |bytes: &[u8]| unpacked(bytes, ArchiveKind::Zip).unwrap_err();
        assert!(told(&bytes).starts_with("the archive is damaged"), "it has no end");
        bytes.extend(head);
        assert_eq!(told(&bytes), TarError::TooMany(MAX_ENTRIES).to_string());
    }

    #[test]
    fn archives_share_the_budget_of_a_run() {
        let tar = tar_of(&[(EntryType::Regular, "a", &"x".repeat(10_000))]);
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("a", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&[b'x'; 10_000]).unwrap();
        let zip = zip.finish().unwrap().into_inner();
        for (bytes, kind) in [(&tar, ArchiveKind::Tar), (&zip, ArchiveKind::Zip)] {
            let (dir, budget) = (tempfile::tempdir().unwrap(), ByteBudget::new(19_000));
            unpack(bytes, kind, dir.path(), &budget).unwrap();
            let told = unpack(bytes, kind, dir.path(), &budget).unwrap_err().to_string();
            assert!(told.contains("a run may take"), "{kind:?}: {told}");
        }
    }

    #[test]
    fn archives_are_unpacked() {
        use EntryType::{Directory, Regular, Symlink};
        let tar = tar_of(&[
            (Directory, "d/", ""),
            (Regular, "d/e/f.yaml", "x: 1\n"),
            (Symlink, "d/g.yaml", "e/f.yaml"),
            (Symlink, "d/e/h.yaml", "../e/f.yaml"),
            (Regular, "d/e/f.yaml", "x: 2\n"),
        ]);
        let dir = unpacked(&tar, ArchiveKind::Tar).unwrap();
        for name in ["d/e/f.yaml", "d/g.yaml", "d/e/h.yaml"] {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), "x: 2\n", "{name}");
        }
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file("d/f.yaml", options.unix_permissions(0o755)).unwrap();
        zip.write_all(b"x: 3\n").unwrap();
        zip.add_symlink("d/g.yaml", "f.yaml", options).unwrap();
        let dir = unpacked(&zip.finish().unwrap().into_inner(), ArchiveKind::Zip).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("d/g.yaml")).unwrap(), "x: 3\n");
    }

    #[test]
    fn no_entry_leaves_the_directory() {
        use EntryType::{Char, Link, Regular, Symlink};
        for (entries, words) in [
            (vec![(Regular, "../x", "")], "leaves the directory"),
            (vec![(Regular, "a/../../x", "")], "leaves the directory"),
            (vec![(Regular, "/tmp/x", "")], "leaves the directory"),
            (vec![(Symlink, "a", "/etc/passwd")], "leaves the directory"),
            (vec![(Symlink, "a", "../x")], "leaves the directory"),
            (vec![(Symlink, "a/b", "../../x")], "leaves the directory"),
            (vec![(Symlink, "a/b", "c/../../../x")], "leaves the directory"),
            (vec![(Symlink, "a/b", "../c"), (Regular, "a/b/x", "")], "below a symbolic link"),
            (vec![(Link, "a", "b")], "is neither a file"),
            (vec![(Char, "a", "")], "is neither a file"),
        ] {
            let told = unpacked(&tar_of(&entries), ArchiveKind::Tar).unwrap_err();
            assert!(told.contains(words), "{entries:?}: {told}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        use flate2::{Compression, write::GzEncoder};
        let mut zeros = tar::Header::new_gnu();
        zeros.set_size(80 << 20);
        zeros.set_path("zeros").unwrap();
        zeros.set_cksum();
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        bomb.write_all(zeros.as_bytes()).unwrap();
        let chunk = vec![0; 1 << 20];
        for _ in 0..80 {
            bomb.write_all(&chunk).unwrap();
        }
        let told = unpacked(&bomb.finish().unwrap(), ArchiveKind::TarGzip).unwrap_err();
        assert!(told.contains("more bytes than are allowed"), "{told}");
        for kind in [
            ArchiveKind::Tar,
            ArchiveKind::TarGzip,
            ArchiveKind::TarXz,
            ArchiveKind::TarZstd,
            ArchiveKind::Zip,
        ] {
            assert!(unpacked(b"no archive, of whatever kind it may be", kind).is_err(), "{kind:?}");
        }
    }

    #[test]
    fn kinds_are_known_by_name() {
        for (file, kind) in [
            ("a.tar.gz", Some(ArchiveKind::TarGzip)),
            ("a.tgz", Some(ArchiveKind::TarGzip)),
            ("a.tar.zst", Some(ArchiveKind::TarZstd)),
            ("a.zip", Some(ArchiveKind::Zip)),
            ("a.yaml", None),
            ("zip", None),
        ] {
            assert_eq!(ArchiveKind::of_file(file).unwrap(), kind, "{file}");
        }
        for file in ["a.tar.bz2", "a.gz"] {
            assert!(ArchiveKind::of_file(file).unwrap_err().to_string().contains("use tar."), "{file}");
        }
    }
}
