//! Packaged charts: gzip and tar with Helm's checks and caps (`archive.LoadArchiveFiles`).

use std::io::{BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

use super::error::Error;
use super::load::File;
use crate::profile::Profile;

/// What a chart may inflate to (`MaxDecompressedChartSize`).
pub const MAX_CHART_BYTES: u64 = 100 * 1024 * 1024;

/// What a file of a chart may have with Helm 3 (`MaxDecompressedFileSize`); Helm 4 has no such bound.
pub const MAX_FILE_BYTES_HELM3: u64 = 5 * 1024 * 1024;

/// How many entries an archive may have. Helm sets no bound; no real chart comes near this one.
pub const MAX_ENTRIES: usize = 100_000;

/// What is inflated at most: files up to their cap, and headers.
const MAX_INFLATED: u64 = 2 * MAX_CHART_BYTES;

/// How much is inflated at once.
const BLOCK: usize = 128 * 1024;

/// The memory that an entry takes before any of its data was read, at most.
const GROWTH: usize = 1 << 20;

/// flate2's text for a member that differs from the checksum in its trailer.
const WRONG_CHECKSUM: &str = "corrupt gzip stream does not have a matching checksum";

/// Damage, in Go's words as far as it has some.
fn broken(e: &std::io::Error) -> Error {
    let text = e.to_string();
    let reason = match text.as_str() {
        _ if e.kind() == ErrorKind::UnexpectedEof => "unexpected EOF",
        WRONG_CHECKSUM => "gzip: invalid checksum",
        "invalid gzip header" => "gzip: invalid header",
        "corrupt deflate stream" => "flate: corrupt input",
        other => other,
    };
    Error::Archive(format!("chart archive is damaged: {reason}"))
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
/// Not a gzip archive, damaged, larger than [`MAX_CHART_BYTES`] when inflated, or with paths that leave the chart; with
/// Helm 3 a file larger than [`MAX_FILE_BYTES_HELM3`].
pub fn read_archive(mut bytes: &[u8], profile: Profile) -> Result<Vec<File>, Error> {
    read_archive_with(&mut bytes, profile, &mut |_| {})
}

/// As [`read_archive`], from anything that hands out an archive piece by piece, and shows each file as soon as it is there, while the
/// rest is neither read nor inflated yet.
///
/// # Errors
/// As [`read_archive`], or it cannot be read on; files may have been shown before.
pub fn read_archive_with(
    archive: &mut dyn BufRead,
    profile: Profile,
    each: &mut dyn FnMut(&File),
) -> Result<Vec<File>, Error> {
    if !archive.fill_buf().map_err(|e| broken(&e))?.starts_with(&[0x1f, 0x8b, 0x08]) {
        return Err(Error::Archive("does not appear to be a gzipped archive".to_owned()));
    }
    let inflated = BufReader::with_capacity(BLOCK, MultiGzDecoder::new(archive));
    let mut archive = tar::Archive::new(inflated.take(MAX_INFLATED));
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
        if size >= left {
            return Err(too_large());
        }
        if profile == Profile::Helm3 && size > MAX_FILE_BYTES_HELM3 {
            let shown = crate::go::strconv::quote(raw.as_bytes());
            return Err(Error::Archive(format!(
                "decompressed chart file {shown} is larger than the maximum file size {MAX_FILE_BYTES_HELM3}"
            )));
        }
        left -= size;
        let file = File::new(name, read_data(&mut entry, size).map_err(|e| broken(&e))?);
        each(&file);
        files.push(file);
    }
    // The tar reader stops before the trailer of its gzip member. Whatever else follows the archive is ignored, damaged or not.
    if let Err(e) = std::io::copy(&mut archive.into_inner(), &mut std::io::sink())
        && e.to_string() == WRONG_CHECKSUM
    {
        return Err(broken(&e));
    }
    if files.is_empty() {
        return Err(Error::Archive("no files in chart archive".to_owned()));
    }
    Ok(files)
}

/// The content of an entry. Memory is taken as data arrives, whatever size the header claims.
fn read_data(entry: &mut impl Read, size: u64) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(GROWTH).min(GROWTH));
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
    fn damage_is_told_and_what_follows_the_archive_is_not_looked_at() {
        let good = archive(1);
        let told = |bytes: &[u8]| read_archive(bytes, Profile::Helm4).map(|_| ()).map_err(|e| e.to_string());
        for cut in [5, 20, good.len() / 2, good.len() - 60] {
            let error = told(&good[..cut.max(3)]).unwrap_err();
            assert!(error.contains("chart archive is damaged"), "{cut}: {error}");
        }
        let mut wrong = good.clone();
        let checksum = wrong.len() - 8;
        wrong[checksum] ^= 1;
        assert_eq!(told(&wrong).unwrap_err(), "chart archive is damaged: gzip: invalid checksum");
        let mut more = good;
        more.extend_from_slice(b"and then some");
        assert_eq!(told(&more), Ok(()));
    }
}
