//! A cache of charts by the SHA-256 of their bytes, in Helm 4's directory and under its names.
//!
//! Owns the limit of its size and the integrity of what it returns. Several processes may use it at the same time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use windlass_base::hex::hex;

use sha2::{Digest as _, Sha256};

use super::atomic_files;

/// Size limit of the cache in bytes, unless `WINDLASS_CONTENT_CACHE_LIMIT` sets another.
const DEFAULT_LIMIT: u64 = 2 << 30;

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packaged chart, by its own digest.
    Chart,
    /// A provenance file, by the digest of its chart.
    Provenance,
}

impl Kind {
    fn extension(self) -> &'static str {
        match self {
            Self::Chart => "chart",
            Self::Provenance => "prov",
        }
    }
}

/// The cache.
#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    limit: u64,
}

/// Why a text is not a SHA-256 digest, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Its number of digits is odd.
    #[error("unable to decode digest: encoding/hex: odd length hex string")]
    OddLength,
    /// A digit is none.
    #[error("unable to decode digest: encoding/hex: invalid byte")]
    InvalidByte,
    /// It has this number of bytes.
    #[error("invalid digest length: {0}")]
    Length(usize),
}

/// A SHA-256 in hex, with or without `sha256:`.
///
/// # Errors
/// It is not one, in Go's words.
pub fn parse_digest(text: &str) -> Result<[u8; 32], DigestError> {
    let digits = text.split_once(':').map_or(text, |d| d.1);
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(DigestError::OddLength);
    }
    let bytes: Result<Vec<u8>, _> =
        (0..digits.len()).step_by(2).map(|n| u8::from_str_radix(&digits[n..n + 2], 16)).collect();
    let bytes = bytes.map_err(|_| DigestError::InvalidByte)?;
    let length = bytes.len();
    bytes.try_into().map_err(|_| DigestError::Length(length))
}

impl Cache {
    /// The cache in a directory, which need not exist yet.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let set = std::env::var("WINDLASS_CONTENT_CACHE_LIMIT").ok().and_then(|v| v.parse().ok());
        Self { root: root.to_owned(), limit: set.unwrap_or(DEFAULT_LIMIT) }
    }

    fn path(&self, digest: &[u8; 32], kind: Kind) -> PathBuf {
        self.root.join(format!("{:02x}", digest[0])).join(format!("{}.{}", hex(digest), kind.extension()))
    }

    /// The entry with a digest. A chart whose bytes have another digest is deleted, and counts as missing.
    #[must_use]
    pub fn get(&self, digest: &[u8; 32], kind: Kind, limit: u64) -> Option<Vec<u8>> {
        let path = self.path(digest, kind);
        let bytes = atomic_files::read(&path, limit).ok()??;
        if bytes.is_empty() {
            return None;
        }
        if kind == Kind::Chart && Sha256::digest(&bytes)[..] != digest[..] {
            // Another process may have deleted it already.
            drop(fs::remove_file(&path));
            return None;
        }
        // Marks the entry as used; a read-only cache still works.
        drop(fs::File::open(&path).and_then(|f| f.set_modified(SystemTime::now())));
        Some(bytes)
    }

    /// Stores an entry.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, digest: &[u8; 32], kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(digest, kind);
        atomic_files::write(&path, bytes, 0o644)?;
        self.trim(&path)
    }

    /// Deletes the least recently used entries until the rest is within the limit.
    fn trim(&self, keep: &Path) -> io::Result<()> {
        let mut all = Vec::new();
        for directory in fs::read_dir(&self.root)? {
            // Another process may trim the cache, too.
            let Ok(entries) = directory.and_then(|d| fs::read_dir(d.path())) else { continue };
            for entry in entries.flatten() {
                let Ok(meta) = entry.metadata() else { continue };
                let ours = entry.path().extension().is_some_and(|e| e == "chart" || e == "prov");
                if ours && meta.is_file() {
                    all.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry.path()));
                }
            }
        }
        let mut total: u64 = all.iter().map(|f| f.1).sum();
        if total <= self.limit {
            return Ok(());
        }
        all.sort();
        for (_, size, path) in all {
            if total <= self.limit {
                break;
            }
            if path != keep {
                drop(fs::remove_file(&path));
                total -= size;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(bytes: &[u8]) -> [u8; 32] {
        Sha256::digest(bytes).into()
    }

    #[test]
    fn what_was_put_is_found_and_what_is_wrong_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache { root: dir.path().to_owned(), limit: 1000 };
        let key = digest(b"chart");
        assert_eq!(cache.get(&key, Kind::Chart, 100), None);
        cache.put(&key, Kind::Chart, b"chart").unwrap();
        assert_eq!(cache.get(&key, Kind::Chart, 100).as_deref(), Some(&b"chart"[..]));
        fs::write(cache.path(&key, Kind::Chart), b"forged").unwrap();
        assert_eq!(cache.get(&key, Kind::Chart, 100), None);
        assert!(!cache.path(&key, Kind::Chart).exists());
    }

    #[test]
    fn the_oldest_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache { root: dir.path().to_owned(), limit: 250 };
        let bodies: Vec<Vec<u8>> = (0..4).map(|n| vec![n; 100]).collect();
        for (n, body) in bodies.iter().enumerate() {
            cache.put(&digest(body), Kind::Chart, body).unwrap();
            let old = SystemTime::now() - std::time::Duration::from_secs(1000 - n as u64);
            if let Ok(file) = fs::File::open(cache.path(&digest(body), Kind::Chart)) {
                file.set_modified(old).unwrap();
            }
        }
        let kept: Vec<bool> =
            bodies.iter().map(|b| cache.get(&digest(b), Kind::Chart, 1000).is_some()).collect();
        assert_eq!(kept, [false, false, true, true]);
    }

    #[test]
    fn digests_are_read_as_go_reads_them() {
        assert!(parse_digest(&format!("sha256:{}", "ab".repeat(32))).is_ok());
        assert_eq!(parse_digest("abcd"), Err(DigestError::Length(2)));
        assert!(parse_digest("xyz").is_err() && parse_digest("zz").is_err() && parse_digest("é").is_err());
    }
}
