//! Files and streams that are read as a whole, within a limit.
//!
//! Owns the check: what is longer is an error, and never cut off. Who reads names the file in the error. `clippy.toml` forbids the
//! standard library's readers of whole files beside it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest file of a text that a person writes, in bytes: values, settings, certificates, rules.
pub const MAX_TEXT: u64 = 16 << 20;

/// Reads a file. `limit`: its maximal size, in bytes.
///
/// # Errors
/// It cannot be opened or read, or is larger: [`io::ErrorKind::FileTooLarge`].
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_to_end(File::open(path)?, limit)
}

/// Reads a file of text. `limit`: its maximal size, in bytes.
///
/// # Errors
/// As [`read_file`], and [`io::ErrorKind::InvalidData`] for what is not UTF-8, in the words of the standard library.
pub fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(read_file(path, limit)?).map_err(not_text)
}

/// Reads a stream to its end. `limit`: the most bytes that it may have.
///
/// # Errors
/// It cannot be read, or has more: [`io::ErrorKind::FileTooLarge`].
pub fn read_to_end(stream: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = first_bytes(stream, limit.saturating_add(1))?;
    if bytes.len() as u64 <= limit {
        return Ok(bytes);
    }
    let text = match limit % (1 << 20) {
        0 => format!("larger than {} MiB", limit >> 20),
        _ => format!("larger than {limit} bytes"),
    };
    Err(io::Error::new(io::ErrorKind::FileTooLarge, text))
}

/// The first bytes of a stream, which may have more. `most`: how many.
///
/// # Errors
/// It cannot be read.
pub fn first_bytes(stream: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "within the limit")]
    stream.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_within_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, b"ab\xff").unwrap();
        assert_eq!(read_file(&path, 3).unwrap(), b"ab\xff");
        assert_eq!(read_text(&path, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_text(&path, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_text(&path.join("none"), 2).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn what_is_longer_is_an_error() {
        assert_eq!(read_to_end(&b"abc"[..], 3).unwrap(), b"abc");
        let error = read_to_end(&b"abcd"[..], 3).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "larger than 3 bytes")
        );
        assert_eq!(first_bytes(io::repeat(7), 2).unwrap(), [7, 7]);
        let error = read_to_end(io::repeat(0), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "larger than 1 MiB");
    }
}
