//! Files and streams that are read as a whole, within a limit.
//!
//! Owns the check: what is longer is an error, and never cut off. Who reads names the file in the error.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file. `limit`: its maximal size, in bytes.
///
/// # Errors
/// It cannot be opened or read, or is larger: [`io::ErrorKind::FileTooLarge`].
pub fn read_file(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_to_end(File::open(path)?, limit)
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
