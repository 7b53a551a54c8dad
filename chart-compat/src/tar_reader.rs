//! Tar archives, read within limits.
//!
//! Owns the one loop over an archive's entries: names that stand in entries of their own, and the bounds of entries, names and bytes.
//! What an entry may be, and where it goes, is the caller's.

#![allow(clippy::disallowed_methods, reason = "archives are opened here, and nowhere else")]

use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

use tar::{EntryType, PaxExtensions};

/// The maximal length of a name and of what a link leads to, in bytes: Linux' own.
pub const MAX_NAME: usize = 4096;
/// The maximal size of a pax header, in bytes: that of Go.
const MAX_PAX: usize = 1 << 20;
/// How many times its own size an archive may unpack to.
const MAX_RATIO: u64 = 100;
/// What every archive may unpack to, whatever the ratio, in bytes.
const FREE_BYTES: u64 = 64 << 20;

/// The limits of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TarBounds {
    /// Most bytes of the archive once it is decompressed, with its headers.
    pub bytes: u64,
    /// Most entries.
    pub entries: usize,
}

impl TarBounds {
    /// Limits of a compressed archive: at most `most` bytes, and 64 MiB or 100 times its own size, whichever is more.
    #[must_use]
    pub fn of_compressed(packed: u64, most: u64, entries: usize) -> Self {
        Self { bytes: unpacked_limit(packed, most), entries }
    }
}

/// How many bytes an archive of `packed` bytes may unpack to, at most `most`.
#[must_use]
pub fn unpacked_limit(packed: u64, most: u64) -> u64 {
    packed.saturating_mul(MAX_RATIO).max(FREE_BYTES).min(most)
}

/// Why an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// It is no archive, or its reader fails.
    #[error("the archive is damaged: {0}")]
    Damaged(io::Error),
    /// It has more bytes than it may.
    #[error("the archive unpacks to more than {0} bytes")]
    TooLarge(u64),
    /// It has more entries than it may.
    #[error("the archive has more than {0} entries")]
    TooMany(usize),
    /// A name is too long.
    #[error("the archive has a name of more than {MAX_NAME} bytes")]
    LongName,
    /// What stands before an entry is too long.
    #[error("a pax header is larger than {MAX_PAX} bytes")]
    LongHeader,
    /// Its header and what stands before it do not agree.
    #[error("the archive has an entry of two sizes")]
    TwoSizes,
    /// It has a file with holes.
    #[error("the archive has a sparse file, which is not supported")]
    Sparse,
}

impl From<TarError> for String {
    fn from(error: TarError) -> Self {
        error.to_string()
    }
}

impl From<TarError> for io::Error {
    fn from(error: TarError) -> Self {
        match error {
            TarError::Damaged(error) => error,
            other => Self::new(ErrorKind::InvalidData, other.to_string()),
        }
    }
}

/// Reads bytes within a limit; more is an error.
#[derive(Debug)]
pub struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or(ErrorKind::FileTooLarge)?;
        Ok(count)
    }
}

/// An entry, whose content is read from it.
pub struct TarEntry<'a, R: Read> {
    entry: tar::Entry<'a, Limited<R>>,
    name: Vec<u8>,
    link: Option<Vec<u8>>,
}

impl<R: Read> TarEntry<'_, R> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its name as a path.
    ///
    /// # Errors
    /// The system's paths are text, and it is none.
    pub fn path(&self) -> io::Result<PathBuf> {
        path_of(&self.name)
    }

    /// What a link leads to.
    ///
    /// # Errors
    /// The system's paths are text, and it is none.
    pub fn link(&self) -> io::Result<Option<PathBuf>> {
        self.link.as_deref().map(path_of).transpose()
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> EntryType {
        self.entry.header().entry_type()
    }

    /// Whether it is a file with content.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self.kind(), EntryType::Regular | EntryType::Continuous)
    }

    /// The size of its content, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.entry.size()
    }

    /// Whether its owner may run it.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0)
    }
}

impl<R: Read> Read for TarEntry<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.entry.read(buffer)
    }
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Ok(std::ffi::OsStr::from_bytes(name).into())
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> io::Result<PathBuf> {
    std::str::from_utf8(name)
        .map(PathBuf::from)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Calls back with each entry of an archive. Returns what follows its last one.
///
/// # Errors
/// It is damaged or exceeds a bound, or the callback fails.
pub fn read_tar<R: Read, E: From<TarError>>(
    content: R,
    bounds: TarBounds,
    mut each: impl FnMut(&mut TarEntry<'_, R>) -> Result<(), E>,
) -> Result<Limited<R>, E> {
    let damaged = |error: io::Error| match error.kind() {
        ErrorKind::FileTooLarge => TarError::TooLarge(bounds.bytes),
        _ => TarError::Damaged(error),
    };
    let mut archive = tar::Archive::new(Limited { inner: content, left: bounds.bytes });
    let mut before = Before::default();
    let mut count = 0;
    // The crate would read names whole, whatever their length.
    for entry in archive.entries().map_err(damaged)?.raw(true) {
        let mut entry = entry.map_err(damaged)?;
        if before.read(&mut entry, &damaged)? {
            continue;
        }
        count += 1;
        if count > bounds.entries {
            return Err(TarError::TooMany(bounds.entries).into());
        }
        let Before { name, link, size } = std::mem::take(&mut before);
        if size.is_some_and(|size| size.parse() != Ok(entry.size())) {
            return Err(TarError::TwoSizes.into());
        }
        if entry.header().entry_type() == EntryType::GNUSparse {
            return Err(TarError::Sparse.into());
        }
        let name = name.unwrap_or_else(|| entry.path_bytes().into_owned());
        let link = link.or_else(|| entry.link_name_bytes().map(std::borrow::Cow::into_owned));
        each(&mut TarEntry { entry, name, link })?;
    }
    Ok(archive.into_inner())
}

/// What stands before an entry in entries of their own: what its header has no room for.
#[derive(Default)]
struct Before {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<String>,
}

impl Before {
    /// Reads an entry; `false` if it is not one of these.
    fn read(
        &mut self,
        entry: &mut tar::Entry<'_, impl Read>,
        damaged: &impl Fn(io::Error) -> TarError,
    ) -> Result<bool, TarError> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.name = Some(long_name(entry, damaged)?),
            EntryType::GNULongLink => self.link = Some(long_name(entry, damaged)?),
            EntryType::XHeader => {
                let text = whole(entry, MAX_PAX, damaged)?.ok_or(TarError::LongHeader)?;
                for field in PaxExtensions::new(&text) {
                    let field = field.map_err(damaged)?;
                    let value = field.value_bytes();
                    match field.key_bytes() {
                        b"path" => self.name = Some(short(value)?),
                        b"linkpath" => self.link = Some(short(value)?),
                        b"size" => self.size = Some(String::from_utf8_lossy(&short(value)?).into_owned()),
                        _ => {}
                    }
                }
            }
            EntryType::XGlobalHeader => {}
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn short(value: &[u8]) -> Result<Vec<u8>, TarError> {
    if value.len() > MAX_NAME { Err(TarError::LongName) } else { Ok(value.to_owned()) }
}

/// The content of an entry that is the name of the next one.
fn long_name(entry: &mut impl Read, damaged: &impl Fn(io::Error) -> TarError) -> Result<Vec<u8>, TarError> {
    // With the zero byte that ends it.
    let mut name = whole(entry, MAX_NAME + 1, damaged)?.ok_or(TarError::LongName)?;
    name.truncate(name.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    short(&name)
}

/// All of an entry; `None` if it has more bytes than `limit`.
fn whole(
    entry: &mut impl Read,
    limit: usize,
    damaged: &impl Fn(io::Error) -> TarError,
) -> Result<Option<Vec<u8>>, TarError> {
    let mut bytes = Vec::new();
    entry.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(damaged)?;
    Ok((bytes.len() <= limit).then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TarBounds = TarBounds { bytes: 64 << 20, entries: 10 };

    /// An archive whose first entry is of this kind and has a content of this size.
    fn archive(kind: EntryType, size: u64) -> impl Read {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_cksum();
        let head = io::Cursor::new(header.as_bytes().to_vec());
        head.chain(io::repeat(b'x').take(size))
    }

    fn names(content: impl Read, bounds: TarBounds) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        read_tar(content, bounds, |entry| {
            names.push(String::from_utf8_lossy(entry.name()).into_owned());
            Ok::<_, String>(())
        })?;
        Ok(names)
    }

    #[test]
    fn what_stands_before_an_entry_is_bounded_whatever_size_it_claims() {
        let huge = 1 << 40;
        for (kind, told) in [
            (EntryType::GNULongName, "the archive has a name of more than 4096 bytes"),
            (EntryType::GNULongLink, "the archive has a name of more than 4096 bytes"),
            (EntryType::XHeader, "a pax header is larger than 1048576 bytes"),
            (EntryType::Regular, "the archive unpacks to more than 67108864 bytes"),
            (EntryType::XGlobalHeader, "the archive unpacks to more than 67108864 bytes"),
            (EntryType::GNUSparse, "the archive has a sparse file, which is not supported"),
        ] {
            assert_eq!(names(archive(kind, huge), BOUNDS).unwrap_err(), told, "{kind:?}");
        }
    }

    #[test]
    fn names_of_all_forms_are_read_and_entries_are_counted() {
        let long = format!("{}/f", "d".repeat(200));
        let mut out = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        out.append_data(&mut header, &long, &b"x"[..]).unwrap();
        out.append_pax_extensions([("path", &b"of pax"[..]), ("size", &b"1"[..])]).unwrap();
        header.set_path("short").unwrap();
        header.set_cksum();
        out.append(&header, &b"x"[..]).unwrap();
        out.append(&header, &b"x"[..]).unwrap();
        let plain = out.into_inner().unwrap();
        assert_eq!(names(&plain[..], BOUNDS).unwrap(), [&long, "of pax", "short"]);
        let told = names(&plain[..], TarBounds { entries: 2, ..BOUNDS }).unwrap_err();
        assert_eq!(told, "the archive has more than 2 entries");
        let mut out = tar::Builder::new(Vec::new());
        out.append_pax_extensions([("size", &b"2"[..])]).unwrap();
        out.append(&header, &b"x"[..]).unwrap();
        let told = names(&out.into_inner().unwrap()[..], BOUNDS).unwrap_err();
        assert_eq!(told, "the archive has an entry of two sizes");
    }

    #[test]
    fn small_archives_unpack_to_a_multiple_of_their_size() {
        for (packed, most, limit) in [
            (0, 1 << 30, 64 << 20),
            (1 << 20, 1 << 30, 100 << 20),
            (1 << 30, 1 << 30, 1 << 30),
            (u64::MAX, 5, 5),
        ] {
            assert_eq!(TarBounds::of_compressed(packed, most, 1).bytes, limit);
        }
    }
}
