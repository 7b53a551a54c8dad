//! Packaged charts: gzip and tar with Helm's checks and limits (`archive.LoadArchiveFiles`).

use std::cell::Cell;
use std::io::{BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

use super::error::Error;
use super::load::File;
use crate::memory;
use crate::profile::Profile;
use crate::tar_reader::{TarBounds, TarError, read_tar};

/// The maximal decompressed size of a chart, in bytes (`MaxDecompressedChartSize`).
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// The maximal size of a file in a chart with Helm 3, in bytes (`MaxDecompressedFileSize`); Helm 4 has no such limit.
pub const MAX_FILE_BYTES_HELM3: u64 = 5 * 1024 * 1024;

/// The maximal number of entries of an archive. Helm sets no limit; no real chart comes near this one.
pub const MAX_ENTRIES: usize = 100_000;

/// The number of bytes decompressed at once.
const BLOCK: usize = 128 * 1024;

/// The maximal memory allocated for an entry before its data is read, in bytes.
const GROWTH: usize = 1 << 20;

/// The size of a block of a tar archive, in bytes.
const TAR_BLOCK: usize = 512;

fn damaged(reason: &str) -> Error {
    Error::Archive(format!("chart archive is damaged: {reason}"))
}

impl From<TarError> for Error {
    fn from(error: TarError) -> Self {
        match error {
            TarError::Damaged(error) => broken(&error),
            TarError::TooLarge(inflated) => too_large(inflated / 2),
            TarError::TooMany(count) => Self::Archive(format!("chart archive has more than {count} entries")),
            other => Self::Archive(other.to_string()),
        }
    }
}

/// The error of a damaged archive, with Go's text where Go has one.
fn broken(e: &std::io::Error) -> Error {
    let text = e.to_string();
    let reason = match text.as_str() {
        _ if e.kind() == ErrorKind::UnexpectedEof => "unexpected EOF",
        "corrupt gzip stream does not have a matching checksum" => "gzip: invalid checksum",
        "invalid gzip header" => "gzip: invalid header",
        "corrupt deflate stream" => "flate: corrupt input",
        other => other,
    };
    damaged(reason)
}

fn too_large(most: u64) -> Error {
    Error::Archive(format!("decompressed chart is larger than the maximum size {most}"))
}

/// `path.Clean` of a relative, slash-separated path.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|p| *p != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// Returns the path of an archive entry inside the chart, or Helm's error for an unsafe path.
fn entry_name(raw: &str) -> Result<String, Error> {
    let delimiter = if raw.contains('\\') { '\\' } else { '/' };
    let (first, rest) = raw.split_once(delimiter).unwrap_or((raw, ""));
    let name = rest.replace(delimiter, "/");
    let refuse = |text: &str| Err(Error::Archive(text.to_owned()));
    if name.starts_with('/') {
        return refuse("chart illegally contains absolute paths");
    }
    let name = clean(&name);
    if name == "." {
        let shown = crate::go::strconv::quote(raw.as_bytes());
        return refuse(&format!("chart illegally contains content outside the base directory: {shown}"));
    }
    if name.starts_with("..") {
        return refuse("chart illegally references parent directory");
    }
    if let [drive, b':', b'/', ..] = name.as_bytes()
        && drive.is_ascii_alphabetic()
    {
        return refuse("chart contains illegally named files");
    }
    if first == "Chart.yaml" {
        return refuse("chart yaml not in base directory");
    }
    Ok(name)
}

/// Reads a packaged chart: its files in the order of the archive, without byte order marks.
///
/// ```no_run
/// use chart_compat::chart::{load_files, read_archive};
/// use chart_compat::profile::Profile;
///
/// let bytes = std::fs::read("web-1.2.3.tgz")?;
/// let chart = load_files(read_archive(&bytes, Profile::Helm4)?, Profile::Helm4, &mut |warning| eprintln!("{warning}"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Not a gzip archive, damaged, larger than [`MAX_CHART_BYTES`] or [`memory::of_input`] when decompressed, or with paths that leave the chart; with
/// Helm 3 a file larger than [`MAX_FILE_BYTES_HELM3`].
pub fn read_archive(mut bytes: &[u8], profile: Profile) -> Result<Vec<File>, Error> {
    read_archive_with(&mut bytes, profile, &mut |_| {})
}

/// Like [`read_archive`], from a reader. Calls back with each file as soon as it is complete, before the rest is read or
/// decompressed.
///
/// # Errors
/// As [`read_archive`], or a read error. Files before the error were already passed to the callback.
pub fn read_archive_with(
    archive: &mut dyn BufRead,
    profile: Profile,
    each: &mut dyn FnMut(&File),
) -> Result<Vec<File>, Error> {
    read_within(archive, profile, &ArchiveRoom::default(), each)
}

/// What is left for archives that are read together: those within a chart, at any depth.
pub(super) struct ArchiveRoom {
    /// The most for files, in bytes.
    most: u64,
    /// What is left of it.
    files: Cell<u64>,
    /// What is left for all that is decompressed, headers and directories included.
    inflated: Cell<u64>,
    entries: Cell<usize>,
}

impl Default for ArchiveRoom {
    fn default() -> Self {
        let most = MAX_CHART_BYTES.min(memory::of_input() as u64);
        // Files up to their limit, and headers.
        let inflated = Cell::new(2 * most);
        Self { most, files: Cell::new(most), inflated, entries: Cell::new(MAX_ENTRIES) }
    }
}

impl ArchiveRoom {
    /// The error of the whole room, where an archive exceeds what others left.
    fn refusal(&self, error: Error) -> Error {
        match self {
            _ if self.inflated.get() == 0 => too_large(self.most),
            _ if self.entries.get() == 0 => TarError::TooMany(MAX_ENTRIES).into(),
            _ => error,
        }
    }
}

/// A reader that takes what it reads from what may be decompressed.
struct Metered<'r, R> {
    inner: R,
    room: &'r ArchiveRoom,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.room.inflated.set(self.room.inflated.get().saturating_sub(count as u64));
        Ok(count)
    }
}

/// As [`read_archive_with`], one of several archives that share room.
pub(super) fn read_within(
    archive: &mut dyn BufRead,
    profile: Profile,
    room: &ArchiveRoom,
    each: &mut dyn FnMut(&File),
) -> Result<Vec<File>, Error> {
    if !archive.fill_buf().map_err(|e| broken(&e))?.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(Error::Archive("does not appear to be a gzipped archive".to_owned()));
    }
    let most = room.most;
    let bounds = TarBounds { bytes: room.inflated.get(), entries: room.entries.get() };
    let inflated = BufReader::with_capacity(BLOCK, Metered { inner: MultiGzDecoder::new(archive), room });
    let mut files = Vec::new();
    let read = read_tar(inflated, bounds, |entry| {
        room.entries.set(room.entries.get().saturating_sub(1));
        let raw = String::from_utf8_lossy(entry.name()).into_owned();
        if entry.kind().is_dir() || raw.ends_with('/') {
            return Ok(());
        }
        let name = entry_name(&raw)?;
        let size = entry.size();
        if size >= room.files.get() {
            return Err(too_large(most));
        }
        if profile == Profile::Helm3 && size > MAX_FILE_BYTES_HELM3 {
            let shown = crate::go::strconv::quote(raw.as_bytes());
            return Err(Error::Archive(format!(
                "decompressed chart file {shown} is larger than the maximum file size {MAX_FILE_BYTES_HELM3}"
            )));
        }
        room.files.set(room.files.get() - size);
        let file = File::new(name, read_data(entry, size).map_err(|e| broken(&e))?);
        each(&file);
        files.push(file);
        Ok(())
    });
    let mut rest = read.map_err(|error| room.refusal(error))?;
    check_end(&mut rest)?;
    if files.is_empty() {
        return Err(Error::Archive("no files in chart archive".to_owned()));
    }
    Ok(files)
}

/// Checks the second of the two zero blocks that end an archive, as Go's tar reader does; the `tar` crate stops after the first. Go
/// accepts an archive without it. Neither Go nor Helm reads the rest: bytes after the archive, or a wrong gzip trailer.
fn check_end(rest: &mut impl Read) -> Result<(), Error> {
    let mut block = Vec::with_capacity(TAR_BLOCK);
    #[expect(clippy::disallowed_methods, reason = "within the limit")]
    rest.take(TAR_BLOCK as u64).read_to_end(&mut block).map_err(|e| broken(&e))?;
    if block.iter().any(|byte| *byte != 0) {
        return Err(damaged("archive/tar: invalid tar header"));
    }
    if block.is_empty() || block.len() == TAR_BLOCK { Ok(()) } else { Err(damaged("unexpected EOF")) }
}

/// Reads the content of an entry. Allocates memory as data arrives, whatever size the header claims.
fn read_data(entry: &mut impl Read, size: u64) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(GROWTH).min(GROWTH));
    #[expect(clippy::disallowed_methods, reason = "an entry's size is within the archive's limits")]
    entry.take(size).read_to_end(&mut data)?;
    if data.len() as u64 == size { Ok(data) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_chart_are_refused() {
        let table = [
            ("c/templates/a.yaml", Ok("templates/a.yaml")),
            ("c\\templates\\a.yaml", Ok("templates/a.yaml")),
            ("c/a/../b", Ok("b")),
            ("c//etc/passwd", Err("chart illegally contains absolute paths")),
            ("c/../x", Err("chart illegally references parent directory")),
            ("c/a/../../x", Err("chart illegally references parent directory")),
            ("c/C:/x", Err("chart contains illegally named files")),
            (
                "Chart.yaml",
                Err("chart illegally contains content outside the base directory: \"Chart.yaml\""),
            ),
            ("c/.", Err("chart illegally contains content outside the base directory: \"c/.\"")),
        ];
        for (raw, want) in table {
            let got = entry_name(raw).map_err(|e| e.to_string());
            assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{raw}");
        }
    }

    /// A file and the two zero blocks that end an archive.
    fn tar_of_one_file() -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(3000);
        header.set_mode(0o644);
        builder.append_data(&mut header, "c/templates/a.yaml", &[b'x'; 3000][..]).unwrap();
        builder.into_inner().unwrap()
    }

    /// A tar of one file, gzipped in as many members as there are parts.
    fn archive(parts: usize) -> Vec<u8> {
        let tar = tar_of_one_file();
        let mut out = Vec::new();
        for part in tar.chunks(tar.len().div_ceil(parts)) {
            let mut gz = flate2::GzBuilder::new()
                .filename("chart.tar")
                .comment("made here")
                .extra(vec![1, 2, 3])
                .write(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut gz, part).unwrap();
            out.extend(gz.finish().unwrap());
        }
        out
    }

    #[test]
    fn archives_of_several_members_are_read_whole() {
        for parts in [1, 2, 3] {
            let files = read_archive(&archive(parts), Profile::Helm4).unwrap();
            assert_eq!(files.len(), 1);
            assert_eq!((files[0].name.as_str(), &files[0].data[..]), ("templates/a.yaml", &[b'x'; 3000][..]));
        }
    }

    #[test]
    fn helm_3_has_a_bound_for_a_file() {
        let big = usize::try_from(MAX_FILE_BYTES_HELM3).unwrap() + 1;
        let mut builder =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(big as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, "c/big", &vec![b'x'; big][..]).unwrap();
        let archive = builder.into_inner().unwrap().finish().unwrap();
        assert_eq!(read_archive(&archive, Profile::Helm4).unwrap()[0].data.len(), big);
        let error = read_archive(&archive, Profile::Helm3).unwrap_err().to_string();
        assert_eq!(error, "decompressed chart file \"c/big\" is larger than the maximum file size 5242880");
    }

    #[test]
    fn damage_is_an_error_except_after_the_end_of_the_archive() {
        let good = archive(1);
        let result =
            |bytes: &[u8]| read_archive(bytes, Profile::Helm4).map(|_| ()).map_err(|e| e.to_string());
        for cut in [5, 20, good.len() / 2, good.len() - 60] {
            let error = result(&good[..cut.max(3)]).unwrap_err();
            assert!(error.contains("chart archive is damaged"), "{cut}: {error}");
        }
        let mut more = good;
        more.extend_from_slice(b"and then some");
        assert_eq!(result(&more), Ok(()));
    }

    /// The table is the behaviour of Helm 3 and 4: they do not read a gzip trailer after two zero blocks.
    #[test]
    fn the_gzip_trailer_counts_unless_two_zero_blocks_end_the_archive() {
        let tar = tar_of_one_file();
        let entries = tar.len() - 2 * TAR_BLOCK;
        let gzip = |tar: &[u8]| {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut gz, tar).unwrap();
            gz.finish().unwrap()
        };
        let error = |bytes: &[u8]| read_archive(bytes, Profile::Helm4).err().map(|e| e.to_string());
        for (zero_blocks, reads_trailer) in [(0, true), (1, true), (2, false), (20, false)] {
            let good = gzip(&[&tar[..entries], &vec![0; zero_blocks * TAR_BLOCK]].concat());
            assert_eq!(error(&good), None, "{zero_blocks}");
            let changed = |from_end: usize| {
                let mut bytes = good.clone();
                let at = bytes.len() - from_end;
                bytes[at] ^= 1;
                bytes
            };
            let cases = [
                ("gzip: invalid checksum", changed(8)),
                ("gzip: invalid checksum", changed(4)),
                ("unexpected EOF", good[..good.len() - 4].to_vec()),
                ("unexpected EOF", good[..good.len() - 8].to_vec()),
                ("gzip: invalid header", [&good[..], b"and then some"].concat()),
            ];
            for (reason, bytes) in cases {
                let expected = reads_trailer.then(|| format!("chart archive is damaged: {reason}"));
                assert_eq!(error(&bytes), expected, "{zero_blocks} {reason}");
            }
        }
        for (end, reason) in [
            (&[&[0; TAR_BLOCK][..], &[1; TAR_BLOCK]].concat()[..], "archive/tar: invalid tar header"),
            (&[0; TAR_BLOCK + 100], "unexpected EOF"),
        ] {
            let bytes = gzip(&[&tar[..entries], end].concat());
            assert_eq!(error(&bytes), Some(format!("chart archive is damaged: {reason}")));
        }
    }

    #[test]
    fn an_archive_that_inflates_to_more_than_its_bound_is_refused() {
        let gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(gz);
        let entry = |kind: tar::EntryType, size: u64| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(size);
            header
        };
        let mut file = entry(tar::EntryType::Regular, 0);
        // The data of a directory does not count towards the chart's size.
        let blocks = 3 * TAR_BLOCK as u64;
        let inflated = 2 * MAX_CHART_BYTES;
        let mut directory = entry(tar::EntryType::Directory, inflated - blocks);
        builder.append_data(&mut file.clone(), "c/first", &[][..]).unwrap();
        let data = std::io::repeat(0).take(inflated - blocks);
        builder.append_data(&mut directory, "c/directory", data).unwrap();
        builder.append_data(&mut file.clone(), "c/second", &[][..]).unwrap();
        builder.append_data(&mut file, "c/third", &[][..]).unwrap();
        let archive = builder.into_inner().unwrap().finish().unwrap();
        let error = read_archive(&archive, Profile::Helm4).unwrap_err().to_string();
        assert_eq!(error, too_large(MAX_CHART_BYTES).to_string());
    }
}
