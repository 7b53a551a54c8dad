//! Checksums of downloads: `sha256:HEX`, bare hex digits, and lists of checksums as `sha256sum` and BSD print them.
//!
//! Owns the forms that go-getter reads. MD5 and SHA-1 detect damage; they are no proof against a forger.

use std::io::{self, Write};

use md5::Md5;
use sha1::Sha1;
use sha2::digest::DynDigest;
use sha2::{Digest as _, Sha256, Sha512};
use windlass_base::hex::hex;

/// An algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

/// What the bytes of a download must hash to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    /// In lower-case hex.
    digest: String,
}

/// Why a checksum cannot be used, or does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// The algorithm is unknown.
    #[error("unsupported checksum type {0:?}; there are md5, sha1, sha256 and sha512")]
    Algorithm(String),
    /// The digest does not fit its algorithm.
    #[error("invalid checksum {0:?}")]
    Invalid(String),
    /// The bytes hash to another one.
    #[error("the checksum is {found} and not {expected}")]
    Differs {
        /// The digest of the bytes.
        found: String,
        /// The digest that they must have.
        expected: String,
    },
}

impl Checksum {
    /// Parses `ALGORITHM:HEX`, or hex digits whose number tells the algorithm.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Self, ChecksumError> {
        match text.split_once(':') {
            Some((name, digest)) => Self::of(Some(name), digest),
            None => Self::of(None, text),
        }
    }

    fn of(name: Option<&str>, digest: &str) -> Result<Self, ChecksumError> {
        let known = match digest.len() {
            32 => Some(Algorithm::Md5),
            40 => Some(Algorithm::Sha1),
            64 => Some(Algorithm::Sha256),
            128 => Some(Algorithm::Sha512),
            _ => None,
        };
        let named = name.map(|name| match name.to_ascii_lowercase().as_str() {
            "md5" => Ok(Algorithm::Md5),
            "sha1" => Ok(Algorithm::Sha1),
            "sha256" => Ok(Algorithm::Sha256),
            "sha512" => Ok(Algorithm::Sha512),
            _ => Err(ChecksumError::Algorithm(name.to_owned())),
        });
        let algorithm = named.transpose()?.or(known);
        match algorithm {
            Some(algorithm) if known == Some(algorithm) && digest.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Ok(Self { algorithm, digest: digest.to_ascii_lowercase() })
            }
            _ => Err(ChecksumError::Invalid(digest.to_owned())),
        }
    }

    /// The checksum of a file in a list: lines `HEX  FILE`, `HEX *FILE`, `ALGORITHM (FILE) = HEX`, or a checksum alone.
    #[must_use]
    pub fn in_list(list: &str, file: &str) -> Option<Self> {
        list.lines().filter(|line| !line.starts_with(['#', '/', '-'])).find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, digest, listed) = match words.as_slice() {
                [name, listed, "=", digest] => {
                    (Some(*name), *digest, listed.strip_prefix('(')?.strip_suffix(')')?)
                }
                [digest, listed] => (None, *digest, listed.trim_start_matches(['*', '?'])),
                [digest] => (None, *digest, file),
                _ => return None,
            };
            let is_meant = listed.rsplit('/').next() == Some(file);
            is_meant.then(|| Self::of(name, digest).ok()).flatten()
        })
    }

    /// Compares the checksum of bytes with this one.
    ///
    /// # Errors
    /// They differ.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), ChecksumError> {
        let mut sink = self.verifying(io::sink());
        // Neither a hash nor a sink fails.
        drop(sink.write_all(bytes));
        sink.finish().map(drop)
    }

    /// A writer that passes on what is written, and hashes it.
    #[must_use]
    pub fn verifying<W: Write>(&self, inner: W) -> VerifyingWriter<W> {
        let hash: Box<dyn DynDigest + Send> = match self.algorithm {
            Algorithm::Md5 => Box::new(Md5::new()),
            Algorithm::Sha1 => Box::new(Sha1::new()),
            Algorithm::Sha256 => Box::new(Sha256::new()),
            Algorithm::Sha512 => Box::new(Sha512::new()),
        };
        VerifyingWriter { inner, hash, expected: self.digest.clone() }
    }
}

impl std::fmt::Display for Checksum {
    /// `ALGORITHM:HEX`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.algorithm {
            Algorithm::Md5 => "md5",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
            Algorithm::Sha512 => "sha512",
        };
        write!(f, "{name}:{}", self.digest)
    }
}

/// A writer that knows what its bytes must hash to.
pub struct VerifyingWriter<W> {
    inner: W,
    hash: Box<dyn DynDigest + Send>,
    expected: String,
}

impl<W> VerifyingWriter<W> {
    /// Compares the checksum of what was written. Returns the inner writer.
    ///
    /// # Errors
    /// They differ.
    pub fn finish(self) -> Result<W, ChecksumError> {
        let found = hex(&self.hash.finalize());
        match found == self.expected {
            true => Ok(self.inner),
            false => Err(ChecksumError::Differs { found, expected: self.expected }),
        }
    }
}

impl<W: Write> Write for VerifyingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const SHA1: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";
    const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn checksums_are_verified() {
        let sha512 = hex(&Sha512::digest(b"abc"));
        for text in [
            MD5,
            SHA1,
            SHA256,
            &sha512,
            &format!("md5:{MD5}"),
            &format!("SHA256:{}", SHA256.to_uppercase()),
            &format!("sha512:{sha512}"),
        ] {
            let checksum = Checksum::parse(text).unwrap();
            assert!(checksum.verify(b"abc").is_ok(), "{text}");
            assert!(checksum.verify(b"abd").unwrap_err().to_string().contains("and not"), "{text}");
        }
        for bad in ["", "abc", &format!("sha1:{SHA256}"), &format!("crc:{MD5}"), &"x".repeat(32)] {
            assert!(Checksum::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_name_files() {
        for list in [
            format!("{MD5}  b.tgz\n{SHA256}  a.tgz\n"),
            format!("# all\n{SHA256} *dir/a.tgz"),
            format!("SHA256 (a.tgz) = {SHA256}"),
            format!("{SHA256}\n"),
        ] {
            assert_eq!(Checksum::in_list(&list, "a.tgz"), Some(Checksum::parse(SHA256).unwrap()), "{list}");
        }
        for list in [String::new(), format!("{SHA256}  b.tgz"), "zz a.tgz".to_owned()] {
            assert_eq!(Checksum::in_list(&list, "a.tgz"), None, "{list}");
        }
    }
}
