//! A layer of an image with one file, equal in bytes whenever it is made of the same file.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use windlass_base::hex::hex;

/// The longest path of a file in an image, in bytes; Linux has the same bound.
const MAX_PATH: usize = 4096;

/// A layer, as a temporary file.
#[derive(Debug)]
pub struct ImageLayer {
    pub(super) file: File,
    /// The digest of the compressed layer, `sha256:…`.
    pub digest: String,
    /// The digest of the layer as an archive, `sha256:…`: the `diff_id` of an image's configuration.
    pub diff_id: String,
    /// The size of the compressed layer, in bytes.
    pub size: u64,
}

/// Why a layer cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The path is no path of a file in an image.
    #[error(
        "invalid path {0:?} in an image: write an absolute path of a file without \"..\", such as /config/dropins/app.war"
    )]
    Path(String),
    /// A file cannot be read or written.
    #[error("the layer cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// A writer that hashes and counts what it passes on.
struct HashingWriter<W> {
    inner: W,
    hash: Sha256,
    written: u64,
}

impl<W> HashingWriter<W> {
    fn new(inner: W) -> Self {
        Self { inner, hash: Sha256::new(), written: 0 }
    }

    fn digest(self) -> (W, String, u64) {
        (self.inner, format!("sha256:{}", hex(&self.hash.finalize())), self.written)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The path of a file in an image, without the slash at its beginning.
///
/// # Errors
/// It is not absolute, leads out of its directory, or is none of a file.
pub fn check_image_path(path: &str) -> Result<&str, LayerError> {
    let name = path.strip_prefix('/').filter(|name| {
        name.len() <= MAX_PATH
            && !name.contains('\0')
            && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
    });
    name.ok_or_else(|| LayerError::Path(path.to_owned()))
}

impl ImageLayer {
    /// Makes a layer of one file, which everybody may read and root owns. Its folders are those of the image below.
    ///
    /// # Errors
    /// The path is no path of a file, or a file cannot be read or written.
    pub fn of_file(path: &str, content: impl Read, size: u64) -> Result<Self, LayerError> {
        let name = check_image_path(path)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_entry_type(tar::EntryType::Regular);
        let file = HashingWriter::new(tempfile::tempfile()?);
        let gzip: GzEncoder<_> = GzBuilder::new().mtime(0).write(file, Compression::default());
        let mut archive = tar::Builder::new(HashingWriter::new(gzip));
        archive.append_data(&mut header, name, content)?;
        let (gzip, diff_id, _) = archive.into_inner()?.digest();
        let (mut file, digest, size) = gzip.finish()?.digest();
        file.rewind()?;
        Ok(Self { file, digest, diff_id, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;

    #[test]
    fn a_layer_is_the_same_each_time() {
        let content = vec![b'x'; 100_000];
        let make = || ImageLayer::of_file("/config/dropins/app.war", &content[..], 100_000).unwrap();
        let (mut layer, again) = (make(), make());
        assert_eq!((&layer.digest, &layer.diff_id, layer.size), (&again.digest, &again.diff_id, again.size));
        let mut bytes = Vec::new();
        layer.file.read_to_end(&mut bytes).unwrap();
        assert_eq!(layer.digest, format!("sha256:{}", hex(&Sha256::digest(&bytes))));
        let mut archive = Vec::new();
        GzDecoder::new(&bytes[..]).read_to_end(&mut archive).unwrap();
        assert_eq!(layer.diff_id, format!("sha256:{}", hex(&Sha256::digest(&archive))));
        let mut archive = tar::Archive::new(&archive[..]);
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        assert_eq!(entry.path().unwrap().to_str(), Some("config/dropins/app.war"));
        assert_eq!((entry.header().mode().unwrap(), entry.header().mtime().unwrap()), (0o644, 0));
        let mut read = Vec::new();
        entry.read_to_end(&mut read).unwrap();
        assert!(read == content && entries.next().is_none());
    }

    #[test]
    fn a_path_stays_in_its_image() {
        let long = format!("/{}", "a/".repeat(5000));
        for path in
            ["", "/", "app.war", "/../etc/passwd", "/a/../b", "/a//b", "/a/", "/a/./b", "/a\0b", &long]
        {
            let error = ImageLayer::of_file(path, io::empty(), 0).unwrap_err().to_string();
            assert!(error.starts_with("invalid path"), "{path}: {error}");
        }
        // A name that tar's own header has no room for.
        assert!(ImageLayer::of_file(&format!("/{}", "a/".repeat(200) + "b"), io::empty(), 0).is_ok());
    }
}
