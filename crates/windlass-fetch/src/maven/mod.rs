//! Maven repositories: which version of an artifact there is, and its file with a verified checksum.
//!
//! Owns the layout of repositories over HTTP: `maven-metadata.xml`, names of files, snapshots, checksums beside files. Builds nothing,
//! and reads no POM. `maven_version`: the order of versions; `maven_metadata`: what a repository has; `answer_cache`: what it said before.

mod answer_cache;
mod maven_metadata;
mod maven_version;

use std::io::Write;

use bytes::Bytes;
use http::{Method, StatusCode};

use self::answer_cache::Validators;
pub use self::answer_cache::{MetadataCache, OwnedCache};
use self::maven_metadata::MavenMetadata;
use self::maven_version::is_file_part;
pub use self::maven_version::{InvalidVersion, MavenVersion, VersionRange, VersionWish};
use super::file_checksum::{Checksum, ChecksumError};
use super::http::{Credentials, Http, HttpError, Request, Tls};
use super::location::{BadLocation, Location};

/// Size limit of a file of metadata, in bytes.
const MAX_METADATA: u64 = 16 << 20;
/// Size limit of a file with a checksum, in bytes.
const MAX_CHECKSUM: u64 = 4096;
/// The checksums that prove a file, the strongest first. Those by MD5 do not: other files with the same one are easily made.
const CHECKSUMS: [&str; 3] = ["sha512", "sha256", "sha1"];

/// The name of an artifact, without its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MavenCoordinates {
    /// The group, such as `com.example.shop`.
    pub group: String,
    /// The artifact, such as `cart`.
    pub artifact: String,
    /// The extension of its file; `war` if it is not said.
    pub extension: String,
    /// The classifier; empty: none.
    pub classifier: String,
}

/// A text names no artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid artifact {0:?}: write GROUP:ARTIFACT, GROUP:ARTIFACT:EXTENSION or GROUP:ARTIFACT:EXTENSION:CLASSIFIER"
)]
pub struct InvalidCoordinates(String);

impl MavenCoordinates {
    /// Parses `GROUP:ARTIFACT[:EXTENSION[:CLASSIFIER]]`.
    ///
    /// # Errors
    /// A part is missing, or is not a part of a path.
    pub fn parse(text: &str) -> Result<Self, InvalidCoordinates> {
        let parts: Vec<&str> = text.split(':').collect();
        let (group, artifact, extension, classifier) = match parts.as_slice() {
            [group, artifact] => (*group, *artifact, "war", None),
            [group, artifact, extension] => (*group, *artifact, *extension, None),
            [group, artifact, extension, classifier] => (*group, *artifact, *extension, Some(*classifier)),
            _ => return Err(InvalidCoordinates(text.to_owned())),
        };
        if ![group, artifact, extension].into_iter().chain(classifier).all(is_file_part) {
            return Err(InvalidCoordinates(text.to_owned()));
        }
        Ok(Self {
            group: group.to_owned(),
            artifact: artifact.to_owned(),
            extension: extension.to_owned(),
            classifier: classifier.unwrap_or_default().to_owned(),
        })
    }

    /// The path of the artifact in a repository, without a slash at the end.
    fn path(&self) -> String {
        format!("{}/{}", self.group.replace('.', "/"), self.artifact)
    }

    /// The name of its file. `version`: the one in names of files, which a snapshot has more than one of.
    fn file_name(&self, version: &str) -> String {
        let classifier =
            if self.classifier.is_empty() { String::new() } else { format!("-{}", self.classifier) };
        format!("{}-{version}{classifier}.{}", self.artifact, self.extension)
    }
}

impl std::fmt::Display for MavenCoordinates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.group, self.artifact, self.extension)?;
        if self.classifier.is_empty() { Ok(()) } else { write!(f, ":{}", self.classifier) }
    }
}

/// A repository, and how it is accessed.
pub struct MavenRepository<'r> {
    /// The client.
    pub http: &'r Http,
    /// The URL of the repository.
    pub url: Location,
    /// Sent to its origin only.
    pub credentials: Option<Credentials>,
    /// TLS flags.
    pub tls: &'r Tls,
    /// What it said before; `None`: it is asked for everything.
    pub cache: Option<OwnedCache<'r>>,
}

/// A file that a repository has. Two that are equal have equal bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MavenFile {
    /// The version; of a snapshot the one with `-SNAPSHOT`.
    pub version: String,
    /// The version in the name of the file; of a snapshot with the time of its build.
    pub file_version: String,
    /// Where the file is.
    pub url: Location,
    /// What its bytes hash to.
    pub checksum: Checksum,
}

/// Why an artifact cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MavenError {
    /// The URL of the repository does not lead to its files.
    #[error(transparent)]
    Location(#[from] BadLocation),
    /// The repository cannot be reached, or refuses.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Its metadata cannot be read.
    #[error("{url}: {reason}")]
    Metadata {
        /// The file of metadata.
        url: String,
        /// Why not.
        reason: String,
    },
    /// No version fits.
    #[error("{url}: none of {count} versions fits {wish:?}")]
    NoVersion {
        /// The file of metadata.
        url: String,
        /// How many versions there are.
        count: usize,
        /// What was asked for.
        wish: String,
    },
    /// There is no checksum that proves a file.
    #[error(
        "{url}: there is no checksum beside it by SHA-512, SHA-256 or SHA-1, which the file is verified by"
    )]
    NoChecksum {
        /// The file.
        url: String,
    },
    /// A checksum cannot be read, or is that of another file.
    #[error("{url}: {source}")]
    Checksum {
        /// The file.
        url: String,
        /// What is wrong.
        source: ChecksumError,
    },
}

impl MavenRepository<'_> {
    /// Finds the file of a version. Nothing but metadata and a checksum is downloaded.
    ///
    /// # Errors
    /// No version fits, the repository does not answer, or there is no checksum.
    pub async fn find(&self, artifact: &MavenCoordinates, wish: &str) -> Result<MavenFile, FindError> {
        let version = match VersionWish::parse(wish)? {
            VersionWish::Exact(version) => version,
            wanted => self.latest(artifact, &wanted, wish).await?,
        };
        let file_version = match version.ends_with("-SNAPSHOT") {
            true => self.snapshot(artifact, &version).await?,
            false => version.clone(),
        };
        let url =
            self.place(&format!("{}/{version}/{}", artifact.path(), artifact.file_name(&file_version)))?;
        let checksum = self.checksum(&url).await?;
        Ok(MavenFile { version, file_version, url, checksum })
    }

    /// Downloads a file into a writer, and verifies it.
    ///
    /// # Errors
    /// The repository does not answer, the file is larger than `limit` bytes, or its checksum differs.
    pub async fn download<W: Write>(&self, file: &MavenFile, limit: u64, out: W) -> Result<W, MavenError> {
        let mut out = file.checksum.verifying(out);
        self.http.send(self.request(file.url.clone(), limit)).await?.ok(&file.url)?.copy_to(&mut out).await?;
        out.finish().map_err(|source| MavenError::Checksum { url: file.url.to_string(), source })
    }

    async fn latest(
        &self,
        artifact: &MavenCoordinates,
        wanted: &VersionWish,
        wish: &str,
    ) -> Result<String, MavenError> {
        let url = self.place(&format!("{}/maven-metadata.xml", artifact.path()))?;
        let metadata = self.metadata(&url).await?;
        // A name that leads elsewhere is no version.
        let versions =
            || metadata.versions.iter().map(String::as_str).filter(|version| is_file_part(version));
        let chosen = wanted.choose(versions());
        chosen.map(str::to_owned).ok_or_else(|| MavenError::NoVersion {
            url: url.to_string(),
            count: versions().count(),
            wish: wish.to_owned(),
        })
    }

    /// The version in the name of the newest file of a snapshot.
    async fn snapshot(&self, artifact: &MavenCoordinates, version: &str) -> Result<String, MavenError> {
        let url = self.place(&format!("{}/{version}/maven-metadata.xml", artifact.path()))?;
        let metadata = match self.metadata(&url).await {
            Ok(metadata) => metadata,
            // A repository may keep one file of each snapshot.
            Err(MavenError::Http(error)) if error.is_not_found() => MavenMetadata::default(),
            Err(error) => return Err(error),
        };
        let found = metadata.file_version(version, &artifact.extension, &artifact.classifier);
        let found = found.unwrap_or_else(|| version.to_owned());
        match is_file_part(&found) {
            true => Ok(found),
            false => Err(MavenError::Metadata {
                url: url.to_string(),
                reason: format!("{found:?} is not the version of a file"),
            }),
        }
    }

    async fn metadata(&self, url: &Location) -> Result<MavenMetadata, MavenError> {
        let bytes = self.fetch(url, MAX_METADATA).await?;
        MavenMetadata::read(&bytes)
            .map_err(|error| MavenError::Metadata { url: url.to_string(), reason: error.to_string() })
    }

    async fn checksum(&self, file: &Location) -> Result<Checksum, MavenError> {
        for algorithm in CHECKSUMS {
            let url = file.with_path(format!("{}.{algorithm}", file.path));
            let bytes = match self.fetch(&url, MAX_CHECKSUM).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            // Some servers write the name of the file behind it.
            let text = String::from_utf8_lossy(&bytes);
            let digest = text.split_whitespace().next().unwrap_or_default();
            return Checksum::parse(&format!("{algorithm}:{digest}"))
                .map_err(|source| MavenError::Checksum { url: url.to_string(), source });
        }
        // Without the file there is none beside it, either: that says more.
        let head = Request { method: Method::HEAD, ..self.request(file.clone(), MAX_CHECKSUM) };
        self.http.send(head).await?.ok(file)?;
        Err(MavenError::NoChecksum { url: file.to_string() })
    }

    async fn fetch(&self, url: &Location, limit: u64) -> Result<Bytes, HttpError> {
        let mut request = self.request(url.clone(), limit);
        let Some(OwnedCache { cache, owner }) = self.cache else { return self.http.fetch(request).await };
        let name = url.to_string();
        let cached = cache.get(owner, &name);
        request.headers.extend(cached.iter().flat_map(answer_cache::CachedAnswer::conditions));
        let response = self.http.send(request).await?;
        if let (StatusCode::NOT_MODIFIED, Some(cached)) = (response.status, cached) {
            return Ok(cached.bytes);
        }
        let response = response.ok(url)?;
        let validators = Validators::of(&response);
        let bytes = response.bytes().await?;
        cache.put(owner, &name, &bytes, validators);
        Ok(bytes)
    }

    fn request(&self, url: Location, limit: u64) -> Request<'_> {
        Request { credentials: self.credentials.clone(), ..Request::get(url, self.tls, limit) }
    }

    /// A file of the repository.
    fn place(&self, path: &str) -> Result<Location, BadLocation> {
        self.url.within(path)
    }
}

/// Why no file is found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// What is asked for is no version.
    #[error(transparent)]
    Version(#[from] InvalidVersion),
    /// The repository does not have it.
    #[error(transparent)]
    Repository(#[from] MavenError),
    /// The URL of the repository does not lead to its files.
    #[error(transparent)]
    Location(#[from] BadLocation),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_name_files() {
        let shop = MavenCoordinates::parse("com.example.shop:cart").unwrap();
        assert_eq!(
            (shop.path().as_str(), shop.file_name("1.2").as_str()),
            ("com/example/shop/cart", "cart-1.2.war")
        );
        let sources = MavenCoordinates::parse("g:a:jar:sources").unwrap();
        assert_eq!(
            (sources.file_name("1").as_str(), sources.to_string().as_str()),
            ("a-1-sources.jar", "g:a:jar:sources")
        );
        for text in [
            "",
            "a",
            "a:",
            ":a",
            "a:b:",
            "a:b:c:d:e",
            "a:../b",
            "a/b:c",
            "a:b:war:",
            "a..b:c",
            ".a:b",
            "a:b c",
        ] {
            let error = MavenCoordinates::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("invalid artifact"), "{text:?}: {error}");
        }
    }
}
