//! Packaged charts: gzip and tar with Helm's checks and caps (`archive.LoadArchiveFiles`).

use std::io::Read;

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

use super::error::Error;
use super::load::File;

/// What a chart may inflate to (`MaxDecompressedChartSize`).
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// How many entries an archive may have. Helm sets no bound; no real chart comes near this one.
pub const MAX_ENTRIES: usize = 100_000;

/// What is inflated at most: files up to their cap, and headers.
const MAX_BUFFER: usize = 2 * MAX_CHART_BYTES as usize;

/// By how much the buffer grows when an archive tells less than it holds.
const GROWTH: usize = 1 << 20;

/// How much larger than its archive a chart can be: deflate's own bound.
const MAX_RATIO: usize = 1032;

fn broken(e: &dyn std::fmt::Display) -> Error {
    Error::Archive(format!("chart archive is damaged: {e}"))
}

fn too_large() -> Error {
    Error::Archive(format!("decompressed chart is larger than the maximum size {MAX_CHART_BYTES}"))
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

/// The path inside the chart of an archive entry, or why it must not be there.
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

/// What an archive inflates to, and why it did not inflate further.
struct Inflated {
    bytes: Bytes,
    failed: Option<&'static str>,
}

/// Inflates a whole archive into one buffer, so that files are slices of it.
fn inflate(bytes: &[u8]) -> Inflated {
    // The last four bytes tell the size, if they are not a lie; a chart at its cap may have headers beyond it.
    let told = bytes.last_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
    let told = usize::try_from(told).unwrap_or(usize::MAX);
    let mut out = Vec::with_capacity(told.min(bytes.len().saturating_mul(MAX_RATIO)).min(MAX_BUFFER) + 1);
    let mut rest = bytes;
    let mut failed = None;
    while !rest.is_empty() && out.len() < MAX_BUFFER {
        match member(rest, &mut out) {
            Ok(after) => rest = after,
            Err(why) => {
                failed = Some(why);
                break;
            }
        }
    }
    Inflated { bytes: Bytes::from(out), failed }
}

/// Appends what one gzip member (RFC 1952) inflates to; gives what follows it.
fn member<'b>(bytes: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], &'static str> {
    const CUT: &str = "unexpected EOF";
    let mut rest = header(bytes)?;
    let start = out.len();
    let mut inflate = Decompress::new(false);
    loop {
        if out.capacity() == out.len() {
            out.reserve(GROWTH);
        }
        let (taken, made) = (inflate.total_in(), inflate.total_out());
        let status = inflate.decompress_vec(rest, out, FlushDecompress::None);
        let taken = usize::try_from(inflate.total_in() - taken).unwrap_or(usize::MAX);
        rest = rest.get(taken..).unwrap_or_default();
        match status {
            Ok(Status::StreamEnd) => break,
            Ok(_) if out.len() >= MAX_BUFFER => return Ok(rest),
            // There is room, and it goes no further.
            Ok(_) if taken == 0 && inflate.total_out() == made && out.capacity() > out.len() => {
                return Err(CUT);
            }
            Ok(_) => {}
            Err(_) => return Err("flate: corrupt input"),
        }
    }
    let (trailer, after) = rest.split_first_chunk::<8>().ok_or(CUT)?;
    let own = &out[start..];
    // The size is told modulo 2^32.
    let told =
        [trailer[..4] == crc32fast::hash(own).to_le_bytes(), trailer[4..] == own.len().to_le_bytes()[..4]];
    if told == [true, true] { Ok(after) } else { Err("gzip: invalid checksum") }
}

/// Skips a member's header.
fn header(bytes: &[u8]) -> Result<&[u8], &'static str> {
    const WRONG: &str = "gzip: invalid header";
    let (fixed, mut rest) = bytes.split_first_chunk::<10>().ok_or(WRONG)?;
    if !fixed.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(WRONG);
    }
    let flags = fixed[3];
    if flags & 4 != 0 {
        let (size, after) = rest.split_first_chunk::<2>().ok_or(WRONG)?;
        rest = after.get(usize::from(u16::from_le_bytes(*size))..).ok_or(WRONG)?;
    }
    // Name and comment end with a zero.
    for flag in [8, 16] {
        if flags & flag != 0 {
            let end = memchr::memchr(0, rest).ok_or(WRONG)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & 2 != 0 {
        rest = rest.get(2..).ok_or(WRONG)?;
    }
    Ok(rest)
}

/// Reads a packaged chart: its files in the order of the archive, without byte order marks.
///
/// ```no_run
/// use chart_compat::chart::{load_files, read_archive};
/// use chart_compat::profile::Profile;
///
/// let bytes = std::fs::read("web-1.2.3.tgz")?;
/// let chart = load_files(read_archive(&bytes)?, Profile::Helm4, &mut |warning| eprintln!("{warning}"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Not a gzip archive, damaged, larger than [`MAX_CHART_BYTES`] when inflated, or with paths that leave the chart.
pub fn read_archive(bytes: &[u8]) -> Result<Vec<File>, Error> {
    if !bytes.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(Error::Archive("does not appear to be a gzipped archive".to_owned()));
    }
    let inflated = inflate(bytes);
    // What stands behind the end of the archive is not looked at, damaged or not.
    let damaged = |e: &std::io::Error| match inflated.failed {
        Some(why) => broken(&why),
        None => broken(e),
    };
    let mut archive = tar::Archive::new(std::io::Cursor::new(&inflated.bytes));
    let mut files = Vec::new();
    let mut left = MAX_CHART_BYTES;
    let mut end = 0;
    for (count, entry) in archive.entries().map_err(|e| damaged(&e))?.enumerate() {
        let mut entry = entry.map_err(|e| damaged(&e))?;
        if count >= MAX_ENTRIES {
            return Err(Error::Archive(format!("chart archive has more than {MAX_ENTRIES} entries")));
        }
        let (start, size) = (entry.raw_file_position(), entry.size());
        end = start.saturating_add(size);
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if raw.ends_with('/') {
            continue;
        }
        let name = entry_name(&raw)?;
        if size >= left {
            return Err(too_large());
        }
        left -= size;
        let data = if kind.is_gnu_sparse() {
            let mut data = Vec::new();
            (&mut entry).take(size).read_to_end(&mut data).map_err(|e| damaged(&e))?;
            Bytes::from(data)
        } else {
            let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
            match range.filter(|r| r.1 <= inflated.bytes.len()) {
                Some((from, to)) => inflated.bytes.slice(from..to),
                None => return Err(damaged(&std::io::ErrorKind::UnexpectedEof.into())),
            }
        };
        files.push(File::new(name, data));
    }
    // Without an end mark, what the damage cut off may have been more files.
    if let Some(why) = inflated.failed.filter(|_| end.next_multiple_of(512) >= inflated.bytes.len() as u64) {
        return Err(broken(&why));
    }
    if files.is_empty() {
        return Err(Error::Archive("no files in chart archive".to_owned()));
    }
    Ok(files)
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

    /// A tar of one file, gzipped in as many members as there are parts.
    fn archive(parts: usize) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(3000);
        header.set_mode(0o644);
        builder.append_data(&mut header, "c/templates/a.yaml", &[b'x'; 3000][..]).unwrap();
        let tar = builder.into_inner().unwrap();
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
            let files = read_archive(&archive(parts)).unwrap();
            assert_eq!(files.len(), 1);
            assert_eq!((files[0].name.as_str(), &files[0].data[..]), ("templates/a.yaml", &[b'x'; 3000][..]));
        }
    }

    #[test]
    fn damage_is_told_and_what_follows_the_archive_is_not_looked_at() {
        let good = archive(1);
        let told = |bytes: &[u8]| read_archive(bytes).map(|_| ()).map_err(|e| e.to_string());
        for cut in [5, 20, good.len() / 2, good.len() - 60] {
            let error = told(&good[..cut.max(3)]).unwrap_err();
            assert!(error.contains("chart archive is damaged"), "{cut}: {error}");
        }
        let mut more = good;
        more.extend_from_slice(b"and then some");
        assert_eq!(told(&more), Ok(()));
    }
}
