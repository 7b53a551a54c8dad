//! Fetches charts by reference: chooses the version, finds its location, and verifies the package.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use chart_compat::chart::MAX_CHART_BYTES;
use chart_compat::go::slog;
use http::header;
use sha2::{Digest as _, Sha256};

use super::bucket::{self, BucketError, ObjectCredentials};
use super::cache::{Cache, DigestError, Kind, parse_digest};
use super::chart_reference::{BadReference, ChartReference};
use super::git::GitError;
use super::helm_paths::Home;
use super::http::{Credentials, Http, HttpError, Request, Tls};
use super::index::entry::{BadRange, ChartVersion, Choice, choose};
use super::index::{self, IndexError};
use super::input_store::{self, InputStore, RemoteInput, StoreError};
use super::location::{BadLocation, Location};
use super::oci::OciError;
use super::oci::cosign::{self, CosignError};
use super::oci::credentials::Credentials as RegistryCredentials;
use super::repositories::{self, Repositories, RepositoriesError};
use super::repository::{self, RepositoryAccess};
use windlass_base::hex::hex;
use windlass_base::redact::SecretText;

/// Size limit of a provenance file.
pub(super) const MAX_PROVENANCE: u64 = 16 << 20;

/// Why a repository has no version of a chart to fetch, in Helm's words.
#[derive(Debug, thiserror::Error)]
pub enum NoVersion {
    /// There is no such chart.
    #[error("no chart name found")]
    NoChart,
    /// The chart has no versions.
    #[error("no chart version found")]
    None,
    /// No version is in the range.
    #[error("no chart version found for {chart}-{wish}")]
    InRange {
        /// The chart.
        chart: String,
        /// The range.
        wish: String,
    },
    /// The range is invalid.
    #[error(transparent)]
    Range(#[from] BadRange),
}

/// Why a chart could not be fetched; `Display` is Helm's text where it has one.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A package in a bucket cannot be fetched.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The reference is invalid.
    #[error(transparent)]
    Reference(#[from] BadReference),
    /// A URL is invalid.
    #[error(transparent)]
    Location(#[from] BadLocation),
    /// A server did not return it.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// An index is invalid.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// `repositories.yaml` cannot be used.
    #[error(transparent)]
    Repositories(#[from] RepositoriesError),
    /// The repository's URL has a scheme without indexes.
    #[error("could not find protocol handler for: {0}")]
    Protocol(String),
    /// No repository has this name.
    #[error("repo {0} not found")]
    NoRepository(String),
    /// The repository has no URL.
    #[error("no URL found for repository {0}")]
    NoUrl(String),
    /// The repository's index is not in the cache.
    #[error("no cached repo found. (try 'helm repo update'): {0}")]
    NotCached(String),
    /// The index in the cache does not have the chart.
    #[error(
        "chart {chart:?} matching {version} not found in {repository} index. (try 'helm repo update'): {reason}"
    )]
    NoChart {
        /// The chart.
        chart: String,
        /// The requested version.
        version: String,
        /// The repository's name.
        repository: String,
        /// Whether there is no such chart or no such version.
        reason: NoVersion,
    },
    /// The repository of `--repo` does not have the chart.
    #[error("{chart} not found in {repository} repository")]
    NotThere {
        /// The chart, and the requested version.
        chart: String,
        /// The repository's URL.
        repository: String,
    },
    /// The URL of `--repo` is not a repository.
    #[error("looks like {url:?} is not a valid chart repository or cannot be reached: {source}")]
    NoIndex {
        /// Its URL.
        url: String,
        /// Why.
        source: Box<FetchError>,
    },
    /// The index has no location for the chart.
    #[error("{0} has no downloadable URLs")]
    NoUrls(String),
    /// The index's digest is invalid.
    #[error(transparent)]
    BadDigest(#[from] DigestError),
    /// The package differs from the index's digest.
    #[error(
        "{url}: the digest is sha256:{got}, but sha256:{want} is expected; someone replaced the package, or the transfer went wrong"
    )]
    Digest {
        /// Its location.
        url: String,
        /// The actual digest.
        got: String,
        /// The expected digest.
        want: String,
    },
    /// The provenance file does not exist.
    #[error("failed to fetch provenance {0:?}")]
    NoProvenance(String),
    /// A file cannot be written.
    #[error("{path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of a store cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A store does not have it, or cannot keep it.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// A registry did not return it.
    #[error(transparent)]
    Oci(#[from] OciError),
    /// Its cosign signature is invalid.
    #[error(transparent)]
    Cosign(#[from] CosignError),
    /// A cosign signature is required, but the chart's source does not support any.
    #[error("{0}: only charts in registries (oci://) have cosign signatures")]
    NoCosign(String),
    /// Git did not return it.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The kind of location is not supported.
    #[error("{0}")]
    Unsupported(String),
}

impl FetchError {
    /// Whether a server refuses the credentials, or TLS with them.
    #[must_use]
    pub fn is_access_denied(&self) -> bool {
        match self {
            Self::Http(error) => error.is_access_denied(),
            Self::Oci(error) => error.is_access_denied(),
            Self::NoIndex { source, .. } => source.is_access_denied(),
            _ => false,
        }
    }
}

/// The values of `--version`, `--repo`, `--username` and the like.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The version or range; empty for the newest.
    pub version: String,
    /// URL of the repository in which the reference is a chart's name.
    pub repository: Option<String>,
    /// User.
    pub username: String,
    /// Password.
    pub password: SecretText,
    /// Whether user, password and client certificate also go to other servers that the index names; never to the
    /// target of a redirect.
    pub pass_credentials: bool,
    /// TLS flags.
    pub tls: Tls,
    /// Whether registries are accessed without TLS.
    pub plain_http: bool,
    /// Whether to fetch the provenance file, too.
    pub provenance: ProvenanceMode,
    /// The required cosign signer. If set, only charts of registries are fetched: no others have cosign signatures.
    pub cosign: Option<cosign::Policy>,
}

/// Whether the provenance file is fetched, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProvenanceMode {
    /// No.
    #[default]
    No,
    /// If it exists.
    IfThere,
    /// It is required.
    Yes,
}

/// A packaged chart.
#[derive(Clone, Debug)]
pub struct ChartBytes {
    /// The package.
    pub bytes: Bytes,
    /// SHA-256 of the package in hex.
    pub digest: String,
    /// The name of the package's file.
    pub file_name: String,
    /// The chosen version; empty if the reference names a package without one.
    pub version: String,
    /// Its origin.
    pub origin: String,
    /// The provenance file, if it was requested and exists.
    pub provenance: Option<Bytes>,
    /// Helm's output about the fetch.
    pub notes: Vec<String>,
}

/// Fetches charts, using the state on disk shared with Helm. Clones share the client.
#[derive(Clone)]
pub struct Fetcher {
    /// The paths of that state.
    pub home: Home,
    /// The client.
    pub http: Http,
    /// The cache of charts.
    pub cache: Cache,
    /// Credentials of registries.
    pub registry_credentials: RegistryCredentials,
    /// Keeps the charts that are fetched, or has them in place of servers.
    pub inputs: Option<Arc<dyn InputStore>>,
    /// Whether charts are fetched for a tenant: nothing of this process' user is used.
    pub of_tenant: bool,
}

/// The location of a package, and the origin that may receive credentials.
struct Place {
    url: Location,
    digest: String,
    version: String,
    /// The repository that it belongs to: only its origin gets credentials and the client certificate.
    base: Location,
    credentials: Option<Credentials>,
    /// Whether the origin of `url` gets them, too.
    pass_credentials: bool,
    tls: Tls,
    /// Credentials of a bucket's server, signed for each request.
    asker: Option<ObjectCredentials>,
}

impl Fetcher {
    /// A fetcher.
    #[must_use]
    pub fn new(home: Home, http: Http) -> Self {
        let cache = Cache::new(&home.content);
        let registry_credentials = RegistryCredentials::of_files(&home.registry);
        Self { home, http, cache, registry_credentials, inputs: None, of_tenant: false }
    }

    /// A fetcher for a tenant: with these logins of registries alone, and from HTTP repositories and registries alone, since Git and
    /// buckets would be read with the logins of this process.
    #[must_use]
    pub fn of_tenant(home: Home, http: Http, registry_credentials: RegistryCredentials) -> Self {
        Self { registry_credentials, of_tenant: true, ..Self::new(home, http) }
    }

    /// The same with another state of Helm. Logins of registries are those of that state, but for a tenant's own.
    #[must_use]
    pub fn with_home(&self, home: Home) -> Self {
        let fetcher = match self.of_tenant {
            true => Self::of_tenant(home, self.http.clone(), self.registry_credentials.clone()),
            false => Self::new(home, self.http.clone()),
        };
        Self { inputs: self.inputs.clone(), ..fetcher }
    }

    /// Fetches the chart that a reference names, unless the store has it. `warn` takes lines for the user.
    ///
    /// # Errors
    /// It does not exist, cannot be fetched, or fails a check.
    pub async fn fetch(
        &self,
        reference: &str,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, FetchError> {
        let Some(store) = self.inputs.as_deref() else {
            return self.fetch_from_server(reference, options, warn).await;
        };
        let input = RemoteInput::chart(reference, options);
        if let Some(path) = store.find(&input)? {
            return input_store::read_chart(&path, options);
        }
        let chart = self.fetch_from_server(reference, options, warn).await?;
        input_store::keep_chart(store, &input, &chart)?;
        Ok(chart)
    }

    async fn fetch_from_server(
        &self,
        reference: &str,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, FetchError> {
        let registry = options.repository.is_none() && reference.starts_with("oci://");
        if options.cosign.is_some() && !registry {
            return Err(FetchError::NoCosign(reference.to_owned()));
        }
        let place = match &options.repository {
            Some(url) => self.in_repository_at(url, reference, options, warn).await?,
            None => match ChartReference::parse(reference)? {
                ChartReference::Path(path) => {
                    return Err(FetchError::Unsupported(format!("path {:?} not found", path.display())));
                }
                ChartReference::Repository { repository, chart } => {
                    self.in_repository(&repository, &chart, options, warn)?
                }
                ChartReference::Url(url) => self.at(url, options)?,
                ChartReference::Oci(text) => return self.fetch_oci(&text, options, warn).await,
                // Both would act with the logins of this process' user.
                ChartReference::Git(_) | ChartReference::Bucket(_) if self.of_tenant => {
                    let text = format!(
                        "{reference}: a tenant's charts come from HTTP repositories and registries, not from Git and buckets"
                    );
                    return Err(FetchError::Unsupported(text));
                }
                ChartReference::Git(_) if options.provenance == ProvenanceMode::Yes => {
                    let text = format!("{reference}: charts of Git have no provenance file to verify");
                    return Err(FetchError::Unsupported(text));
                }
                ChartReference::Git(location) => return Ok(self.fetch_git(&location, options, warn).await?),
                ChartReference::Bucket(bucket) => {
                    let (url, asker) = bucket::place(&bucket, None, &self.http).await?;
                    Place { asker, credentials: None, ..self.at(url, options)? }
                }
            },
        };
        self.download(place, options, warn).await
    }

    /// Fetches one version of a chart of a repository.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn fetch_version(
        &self,
        repository: &RepositoryAccess,
        version: &ChartVersion,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, FetchError> {
        if options.cosign.is_some() {
            return Err(FetchError::NoCosign(version.metadata.name.clone()));
        }
        let mut place = place(&repository.url, version, &format!("chart {:?}", version.metadata.name))?;
        place.tls = merged(repository.tls.clone(), &options.tls);
        place.credentials.clone_from(&repository.credentials);
        place.pass_credentials = repository.pass_credentials;
        self.download(place, options, warn).await
    }

    /// A chart of a named repository.
    fn in_repository(
        &self,
        name: &str,
        chart: &str,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<Place, FetchError> {
        let all = Repositories::load(&self.home.repositories)?.unwrap_or_default();
        let entry = all.get(name).ok_or_else(|| FetchError::NoRepository(name.to_owned()))?;
        if entry.url.is_empty() {
            return Err(FetchError::NoUrl(name.to_owned()));
        }
        let path = repository::index_path(&self.home.indexes, name);
        let mut versions = match index::find(&path, &[chart], warn) {
            Ok(found) => found,
            Err(IndexError::Io(e)) if e.kind() == io::ErrorKind::NotFound => {
                let text = format!("open {}: no such file or directory", path.display());
                return Err(FetchError::NotCached(text));
            }
            Err(e) => {
                let text = format!("error loading {}: {e}", path.display());
                return Err(FetchError::NotCached(text));
            }
        };
        let missing = |reason: NoVersion| FetchError::NoChart {
            chart: chart.to_owned(),
            version: options.version.clone(),
            repository: name.to_owned(),
            reason,
        };
        let versions = versions.remove(chart).ok_or_else(|| missing(NoVersion::NoChart))?;
        let chosen = pick(&versions, chart, &options.version, warn).map_err(missing)?;
        let mut place = place(&entry.url, chosen, &format!("chart {:?}", format!("{name}/{chart}")))?;
        place.tls = merged(entry.tls(), &options.tls);
        place.credentials = entry.credentials().or_else(|| options.credentials());
        place.pass_credentials = entry.pass_credentials_all || options.pass_credentials;
        Ok(place)
    }

    /// A chart of the repository of `--repo` (`repo.FindChartInRepoURL`).
    async fn in_repository_at(
        &self,
        url: &str,
        chart: &str,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<Place, FetchError> {
        let path = self.update_index(url, options).await?;
        let versions = index::find(&path, &[chart], warn)?.remove(chart).unwrap_or_default();
        let shown = match options.version.as_str() {
            "" => format!("chart {chart:?}"),
            version => format!("chart {chart:?} version {version:?}"),
        };
        let missing = |_| FetchError::NotThere { chart: shown.clone(), repository: url.to_owned() };
        let chosen = pick(&versions, chart, &options.version, warn).map_err(missing)?;
        let mut place = place(url, chosen, &shown)?;
        place.tls = options.tls.clone();
        place.credentials = options.credentials();
        place.pass_credentials = options.pass_credentials;
        Ok(place)
    }

    /// Fetches the index of the repository at a URL, unless the cached one is current. Returns its path.
    ///
    /// # Errors
    /// The server does not return it, or it is not an index.
    pub async fn update_index(&self, url: &str, options: &Options) -> Result<PathBuf, FetchError> {
        let path = repository::update(&self.http, &self.home.indexes, &options.repository(url)).await;
        path.map_err(|e| FetchError::NoIndex { url: url.to_owned(), source: Box::new(e) })
    }

    /// A package at a URL. The named repository above it, if there is one, has the credentials.
    fn at(&self, url: Location, options: &Options) -> Result<Place, FetchError> {
        let all = Repositories::load(&self.home.repositories)?.unwrap_or_default();
        let owner = all.entries.iter().find(|e| {
            Location::parse(&e.url).is_ok_and(|base| {
                let below = format!("{}/", base.path.trim_end_matches('/'));
                base.same_origin(&url) && url.path.starts_with(&below)
            })
        });
        let own = owner.cloned().unwrap_or_default();
        Ok(Place {
            base: url.clone(),
            digest: String::new(),
            version: String::new(),
            credentials: own.credentials().or_else(|| options.credentials()),
            pass_credentials: own.pass_credentials_all || options.pass_credentials,
            tls: merged(own.tls(), &options.tls),
            asker: None,
            url,
        })
    }

    async fn download(
        &self,
        place: Place,
        options: &Options,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, FetchError> {
        let promised = match place.digest.as_str() {
            "" => None,
            text => Some(parse_digest(text)?),
        };
        let cached = promised.and_then(|d| self.cache.get(&d, Kind::Chart, MAX_CHART_BYTES));
        let bytes = match cached {
            Some(bytes) => Bytes::from(bytes),
            None => self.get(&place, place.url.clone(), MAX_CHART_BYTES).await?,
        };
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        if let Some(want) = promised.filter(|want| *want != digest) {
            let url = place.url.to_string();
            return Err(FetchError::Digest { url, got: hex(&digest), want: hex(&want) });
        }
        self.keep(&digest, Kind::Chart, &bytes, warn);
        let provenance = self.provenance(&place, &digest, options.provenance, warn).await?;
        Ok(ChartBytes {
            bytes,
            digest: hex(&digest),
            file_name: place.url.file_name().to_owned(),
            version: place.version,
            origin: place.url.to_string(),
            provenance,
            notes: Vec::new(),
        })
    }

    async fn provenance(
        &self,
        place: &Place,
        digest: &[u8; 32],
        wanted: ProvenanceMode,
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<Option<Bytes>, FetchError> {
        if wanted == ProvenanceMode::No {
            return Ok(None);
        }
        if let Some(bytes) = self.cache.get(digest, Kind::Provenance, MAX_PROVENANCE) {
            return Ok(Some(bytes.into()));
        }
        let url = place.url.with_path(format!("{}.prov", place.url.path));
        let shown = url.to_string();
        match self.get(place, url, MAX_PROVENANCE).await {
            Ok(bytes) => {
                self.keep(digest, Kind::Provenance, &bytes, warn);
                Ok(Some(bytes))
            }
            Err(_) if wanted == ProvenanceMode::Yes => Err(FetchError::NoProvenance(shown)),
            Err(e) => {
                warn(format!("WARNING: Verification not found for {}: {e}", place.url));
                Ok(None)
            }
        }
    }

    async fn get(&self, place: &Place, url: Location, limit: u64) -> Result<Bytes, FetchError> {
        let trusted = place.pass_credentials || url.same_origin(&place.base);
        let tls = if trusted { place.tls.clone() } else { place.tls.without_identity() };
        let mut request = Request::get(url, &tls, limit);
        request.credentials = place.credentials.clone().filter(|_| trusted);
        if let Some(asker) = &place.asker {
            request.credentials = Some(asker.credentials(&request.url).await?);
        }
        request.headers.push((header::ACCEPT, "application/gzip,application/octet-stream".to_owned()));
        Ok(self.http.fetch(request).await?)
    }

    /// Stores a package in the cache; reports a failure, since the chart can be used without.
    pub(super) fn keep(
        &self,
        digest: &[u8; 32],
        kind: Kind,
        bytes: &[u8],
        warn: &mut (dyn FnMut(String) + Send),
    ) {
        if self.cache.get(digest, kind, MAX_CHART_BYTES).is_some() {
            return;
        }
        if let Err(e) = self.cache.put(digest, kind, bytes) {
            warn(slog::line("WARN", "cannot keep a chart in the cache", &[("error", &e.to_string())]));
        }
    }
}

impl Options {
    pub(super) fn credentials(&self) -> Option<Credentials> {
        repositories::credentials(&self.username, &self.password)
    }

    /// How a repository at this URL is accessed.
    fn repository(&self, url: &str) -> RepositoryAccess {
        RepositoryAccess {
            name: repository::name_of(url),
            url: url.to_owned(),
            credentials: self.credentials(),
            pass_credentials: self.pass_credentials,
            tls: self.tls.clone(),
            max_index: repository::MAX_INDEX,
        }
    }
}

/// TLS flags of a repository; those that it lacks are the command line's.
fn merged(own: Tls, flags: &Tls) -> Tls {
    Tls {
        ca: own.ca.or_else(|| flags.ca.clone()),
        certificate: own.certificate.or_else(|| flags.certificate.clone()),
        key: own.key.or_else(|| flags.key.clone()),
        insecure: own.insecure || flags.insecure,
    }
}

/// The requested version of a chart (`IndexFile.Get`).
///
/// # Errors
/// There is none, in Helm's words.
pub(super) fn pick<'v>(
    versions: &'v [ChartVersion],
    chart: &str,
    wish: &str,
    warn: &mut (dyn FnMut(String) + Send),
) -> Result<&'v ChartVersion, NoVersion> {
    if versions.is_empty() {
        return Err(NoVersion::None);
    }
    let names = versions.iter().map(|v| v.metadata.version.as_str());
    let found = match choose(names, wish)? {
        Choice::Found(version) => version,
        Choice::Near(version) => {
            let text = "unable to find exact version requested; falling back to closest available version";
            warn(slog::line("WARN", text, &[("chart", chart), ("requested", wish), ("selected", version)]));
            version
        }
        Choice::None => return Err(NoVersion::InRange { chart: chart.to_owned(), wish: wish.to_owned() }),
    };
    versions.iter().find(|v| v.metadata.version == found).ok_or(NoVersion::None)
}

/// The location of a version.
fn place(repository: &str, version: &ChartVersion, shown: &str) -> Result<Place, FetchError> {
    let url = version.urls.first().ok_or_else(|| FetchError::NoUrls(shown.to_owned()))?;
    let base = Location::parse(repository)?;
    Ok(Place {
        url: base.within(url)?,
        digest: version.digest.clone(),
        version: version.metadata.version.clone(),
        base,
        credentials: None,
        pass_credentials: false,
        tls: Tls::default(),
        asker: None,
    })
}
