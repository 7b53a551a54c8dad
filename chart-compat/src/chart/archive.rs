//! Packaged charts: gzip and tar with Helm's checks and caps (`archive.LoadArchiveFiles`).

use std::io::Read;

use flate2::read::MultiGzDecoder;

use super::error::Error;
use super::load::File;

/// What a chart may inflate to (`MaxDecompressedChartSize`).
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// How many entries an archive may have. Helm sets no bound; no real chart comes near this one.
pub const MAX_ENTRIES: usize = 100_000;

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

/// Reads a packaged chart: its files in the order of the archive, without byte order marks.
///
/// # Errors
/// Not a gzip archive, damaged, larger than [`MAX_CHART_BYTES`] when inflated, or with paths that leave the chart.
pub fn read_archive(bytes: &[u8]) -> Result<Vec<File>, Error> {
    if !bytes.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(Error::Archive("does not appear to be a gzipped archive".to_owned()));
    }
    // One byte more than allowed tells a chart that reaches the cap from one that goes past it; headers are not counted.
    let inflated = MultiGzDecoder::new(bytes).take(MAX_CHART_BYTES * 2);
    let mut archive = tar::Archive::new(inflated);
    let mut files = Vec::new();
    let mut left = MAX_CHART_BYTES;
    for (count, entry) in archive.entries().map_err(|e| broken(&e))?.enumerate() {
        let mut entry = entry.map_err(|e| broken(&e))?;
        if count >= MAX_ENTRIES {
            return Err(Error::Archive(format!("chart archive has more than {MAX_ENTRIES} entries")));
        }
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            continue;
        }
        let raw = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if raw.ends_with('/') {
            continue;
        }
        let name = entry_name(&raw)?;
        let size = entry.size();
        if size > left {
            return Err(too_large());
        }
        let mut data = Vec::with_capacity(usize::try_from(size.min(1 << 20)).unwrap_or(0));
        (&mut entry).take(left).read_to_end(&mut data).map_err(|e| broken(&e))?;
        left -= data.len() as u64;
        if (data.len() as u64) < size || left == 0 {
            return Err(too_large());
        }
        files.push(File::new(name, data));
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
