//! Packaged charts: gzip and tar with Helm's checks and caps (`archive.LoadArchiveFiles`).

use std::io::Read;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

use super::error::Error;
use super::load::File;

/// What a chart may inflate to (`MaxDecompressedChartSize`).
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// How many entries an archive may have. Helm sets no bound; no real chart comes near this one.
pub const MAX_ENTRIES: usize = 100_000;

/// How much larger than its archive a chart can be: deflate's own bound.
const MAX_RATIO: usize = 1032;

fn broken(e: &std::io::Error) -> Error {
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
    failed: Option<std::io::Error>,
}

/// Inflates a whole archive into one buffer, so that files are slices of it.
fn inflate(bytes: &[u8]) -> Inflated {
    // The last four bytes tell the size, if they are not a lie; a chart at its cap may have headers beyond it.
    let told = bytes.last_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b));
    let room = usize::try_from(told).unwrap_or(0).min(bytes.len().saturating_mul(MAX_RATIO));
    let mut out = Vec::with_capacity(room.min(MAX_CHART_BYTES as usize) + 1);
    let failed = MultiGzDecoder::new(bytes).take(MAX_CHART_BYTES * 2).read_to_end(&mut out).err();
    Inflated { bytes: Bytes::from(out), failed }
}

/// Reads a packaged chart: its files in the order of the archive, without byte order marks.
///
/// # Errors
/// Not a gzip archive, damaged, larger than [`MAX_CHART_BYTES`] when inflated, or with paths that leave the chart.
pub fn read_archive(bytes: &[u8]) -> Result<Vec<File>, Error> {
    if !bytes.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(Error::Archive("does not appear to be a gzipped archive".to_owned()));
    }
    let inflated = inflate(bytes);
    // What stands behind the end of the archive is not looked at, damaged or not.
    let damaged = |e: &std::io::Error| broken(inflated.failed.as_ref().unwrap_or(e));
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
    if let Some(e) = inflated.failed.as_ref().filter(|_| end.next_multiple_of(512) >= inflated.bytes.len() as u64) {
        return Err(broken(e));
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
}
