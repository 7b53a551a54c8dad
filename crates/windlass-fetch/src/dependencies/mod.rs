//! A chart's dependencies: resolved to versions, locked, fetched into `charts/` (`downloader.Manager`).
//!
//! [`list`]: their status; `resolve`: their versions. Owns `charts/` and the lock file of a chart directory, and
//! updates both atomically.

pub mod list;
mod resolve;

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use chart_compat::chart::{Chart, Dependency, MAX_CHART_BYTES};
use chart_compat::go::{semver, slog};
use chart_compat::profile::Profile;
use futures::{StreamExt as _, stream};
use windlass_base::bounded_read;

use self::resolve::{Names, Resolved};
use super::chart_lock::{self, Lock, LockError};
use super::chart_package::{self, PackageError, Times};
use super::fetch::{ChartBytes, FetchError, Fetcher, Options};
use super::index::IndexError;
use super::location::same_repository;
use super::provenance::{self, ProvenanceError};
use super::repositories::{Entry, Repositories, RepositoriesError};
use super::{Error as LoadError, atomic_files, clean, go_time, load, load_package, repository};

/// Number of indexes or charts that are fetched concurrently.
const AT_ONCE: usize = 8;

/// Why dependencies could not be fetched; `Display` is Helm's text where it has one.
#[derive(Debug, thiserror::Error)]
pub enum DependencyError {
    /// There is no chart.
    #[error("could not find {0}: stat {0}: no such file or directory")]
    NoChart(PathBuf),
    /// The chart is a package.
    #[error("only unpacked charts can be updated")]
    Packed,
    /// The chart, or a local dependency, does not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// `repositories.yaml` cannot be used.
    #[error(transparent)]
    Repositories(#[from] RepositoriesError),
    /// A chart cannot be fetched.
    #[error("could not download {url}: {source}")]
    Fetch {
        /// Its location.
        url: String,
        /// Why.
        source: Box<FetchError>,
    },
    /// Repositories without a name in `repositories.yaml`.
    #[error("{0}")]
    NoRepository(String),
    /// The lock file's repositories without a name in `repositories.yaml`.
    #[error("no repository definition for {0}. Please add the missing repos via 'helm repo add'")]
    Unknown(String),
    /// A version range is invalid.
    #[error("dependency {name:?} has an invalid version/constraint format: {reason}")]
    Range {
        /// The dependency.
        name: String,
        /// Why.
        reason: String,
    },
    /// A directory does not exist.
    #[error("directory {0} not found")]
    NoDirectory(PathBuf),
    /// The index of a repository is not in the cache.
    #[error("no cached repository for {name} found. (try 'helm repo update'): {source}")]
    NotCached {
        /// Its name in the cache.
        name: String,
        /// Why.
        source: IndexError,
    },
    /// A repository does not have a chart.
    #[error("{chart} chart not found in repo {repository}")]
    NotThere {
        /// The chart.
        chart: String,
        /// The repository.
        repository: String,
    },
    /// No version is in the range.
    #[error(
        "can't get a valid version for {count} subchart(s): {all}. Make sure a matching chart version exists in the repo, or change the version constraint in Chart.yaml"
    )]
    NoVersion {
        /// How many there are.
        count: usize,
        /// The dependencies.
        all: String,
    },
    /// A dependency cannot be found where the lock file says.
    #[error("could not find : {0}")]
    NotFound(String),
    /// A local chart is not in the range.
    #[error("{0}")]
    Wrong(String),
    /// The lock file is invalid.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock file is out of sync.
    #[error("{0}")]
    OutOfSync(&'static str),
    /// A chart cannot be packed.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// A dependency has no provenance file.
    #[error("failed to verify {0}: it has no provenance file")]
    NotSigned(String),
    /// Dependencies cannot be verified.
    #[error("failed to verify {0}: charts in directories have no provenance file")]
    Unverifiable(String),
    /// A signature is invalid.
    #[error(transparent)]
    Provenance(#[from] ProvenanceError),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Fetches the dependencies of one chart directory.
pub struct Manager<'m> {
    /// Fetches what is not on disk.
    pub fetcher: &'m Fetcher,
    /// The chart directory.
    pub path: &'m Path,
    /// Whether cached indexes are used without an update.
    pub skip_refresh: bool,
    /// User, password and TLS flags for registries.
    pub options: &'m Options,
    /// The keyring for the verification of every dependency, if requested; the options then require provenance files.
    pub keyring: Option<PathBuf>,
    /// The directory that dependencies on disk must be in; `None`: any.
    pub local_root: Option<&'m Path>,
    /// Receives Helm's output, with line ends.
    pub say: &'m mut (dyn FnMut(String) + Send),
    /// Receives lines for standard error.
    pub warn: &'m mut (dyn FnMut(String) + Send),
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DependencyError + use<> {
    let path = path.to_owned();
    |source| DependencyError::Io { path, source }
}

/// Fails if a dependency is a directory, which cannot be signed.
fn refuse_directories(resolved: &[Resolved]) -> Result<(), DependencyError> {
    let directory = |d: &&Dependency| d.repository.is_empty() || d.repository.starts_with("file://");
    let all = resolved.iter().map(|r| &r.dependency).filter(directory);
    let names: Vec<&str> = all.map(|d| d.name.as_str()).collect();
    if names.is_empty() { Ok(()) } else { Err(DependencyError::Unverifiable(names.join(", "))) }
}

impl Manager<'_> {
    fn chart(&mut self) -> Result<Chart, DependencyError> {
        if !self.path.exists() {
            return Err(DependencyError::NoChart(self.path.to_owned()));
        }
        if !self.path.is_dir() {
            return Err(DependencyError::Packed);
        }
        let loaded = load(self.path, Profile::Helm4)?;
        loaded.warnings.into_iter().for_each(&mut *self.warn);
        Ok(loaded.chart)
    }

    /// Resolves what `Chart.yaml` declares, fetches it, and writes the lock file if it changes (`Manager.Update`).
    ///
    /// # Errors
    /// A dependency cannot be fetched; `charts/` and lock file are unchanged.
    pub async fn update(&mut self) -> Result<(), DependencyError> {
        let chart = self.chart()?;
        let Some(mut declared) = chart.metadata.dependencies.clone() else { return Ok(()) };
        let known = Repositories::load(&self.fetcher.home.repositories)?.unwrap_or_default().entries;
        let mut names = resolve::names(&mut declared, &known, self.path)?;
        self.check_local_paths(&declared)?;
        let unmanaged = names.add_unmanaged(&declared);
        if !self.skip_refresh && !unmanaged.is_empty() {
            (self.say)("Getting updates for unmanaged Helm repositories...\n".to_owned());
            self.refresh(unmanaged).await;
        }
        if !self.skip_refresh {
            self.refresh_known(&known).await;
        }
        let mut resolved = self.resolve(&declared, &names).await?;
        self.bring(&mut resolved, &known).await?;
        let locked: Vec<Dependency> = resolved.into_iter().map(|r| r.dependency).collect();
        let digest = chart_lock::digest(&declared, &locked);
        let old = chart.lock.as_ref().and_then(|l| Lock::read(l).ok());
        if old.is_some_and(|old| old.digest == digest) {
            return Ok(());
        }
        let lock = Lock { generated: go_time::now(), digest, dependencies: locked };
        self.write_lock(&lock, chart.metadata.api_version == "v1")
    }

    /// Fetches the dependencies of the lock file (`Manager.Build`).
    ///
    /// # Errors
    /// The lock file is out of sync, or a dependency cannot be fetched; `charts/` is unchanged.
    pub async fn build(&mut self) -> Result<(), DependencyError> {
        let chart = self.chart()?;
        let Some(lock) = chart.lock.as_ref() else { return self.update().await };
        let lock = Lock::read(lock)?;
        let mut declared = chart.metadata.dependencies.clone().unwrap_or_default();
        let v1 = chart.metadata.api_version == "v1";
        // Helm 2 computed the digest before aliases of repositories were resolved.
        let v2_digest = chart_lock::digest_v2(&declared);
        let known = Repositories::load(&self.fetcher.home.repositories)?.unwrap_or_default().entries;
        resolve::names(&mut declared, &known, self.path)?;
        self.check_local_paths(&declared)?;
        self.check_local_paths(&lock.dependencies)?;
        let differs = chart_lock::digest(&declared, &lock.dependencies) != lock.digest;
        if differs && v1 {
            let text = "warning: a valid Helm v3 hash was not found. Checking against Helm v2 hash...";
            (self.warn)(slog::line("INFO", text, &[]));
        }
        if differs && !(v1 && v2_digest == lock.digest) {
            return Err(DependencyError::OutOfSync(if v1 {
                "the lock file (requirements.lock) is out of sync with the dependencies file (requirements.yaml). Please update \
                 the dependencies"
            } else {
                "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the dependencies \
                 with 'helm dependency update'"
            }));
        }
        let remote = |d: &&Dependency| {
            let r = &d.repository;
            !(r.is_empty() || r.starts_with("file://") || r.starts_with("oci://"))
        };
        let unknown = |d: &&Dependency| !known.iter().any(|e| same_repository(&e.url, &d.repository));
        let missing: Vec<&str> =
            lock.dependencies.iter().filter(remote).filter(unknown).map(|d| d.repository.as_str()).collect();
        if !missing.is_empty() {
            return Err(DependencyError::Unknown(missing.join(", ")));
        }
        if !self.skip_refresh {
            self.refresh_known(&known).await;
        }
        let mut resolved = self.locked(&lock.dependencies, &known)?;
        self.bring(&mut resolved, &known).await
    }

    /// Refuses dependencies on disk outside of the directory that they must be in.
    fn check_local_paths(&self, dependencies: &[Dependency]) -> Result<(), DependencyError> {
        let Some(root) = self.local_root else { return Ok(()) };
        for Dependency { name, repository, .. } in dependencies {
            let path = if repository.is_empty() {
                clean(&self.path.join("charts").join(name))
            } else if repository.starts_with("file://") {
                resolve::local_path(repository, self.path)?
            } else {
                continue;
            };
            if !path.starts_with(root) {
                let text =
                    format!("dependency {name:?} with repository {repository:?} leads out of the source");
                return Err(DependencyError::Wrong(text));
            }
        }
        Ok(())
    }

    async fn refresh_known(&mut self, known: &[Entry]) {
        if known.is_empty() {
            return;
        }
        (self.say)("Hang tight while we grab the latest from your chart repositories...\n".to_owned());
        let mut wanted: Vec<Entry> = Vec::new();
        for entry in known {
            if !wanted.iter().any(|w| w.url.trim_end_matches('/') == entry.url.trim_end_matches('/')) {
                wanted.push(entry.clone());
            }
        }
        self.refresh(wanted).await;
        (self.say)("Update Complete. ⎈Happy Helming!⎈\n".to_owned());
    }

    /// Updates indexes; a failed update is reported, and the cached index is used.
    async fn refresh(&mut self, entries: Vec<Entry>) {
        let fetcher = self.fetcher;
        let work = stream::iter(entries).map(async |entry| {
            let result = repository::update(&fetcher.http, &fetcher.home.indexes, &(&entry).into()).await;
            (entry, result.err())
        });
        let mut done = Box::pin(work.buffer_unordered(AT_ONCE));
        while let Some((entry, failed)) = done.next().await {
            let unmanaged = entry.name.starts_with("helm-manager-");
            let shown = if unmanaged { &entry.url } else { &entry.name };
            (self.say)(match failed {
                None => format!("...Successfully got an update from the {shown:?} chart repository\n"),
                Some(e) if unmanaged => {
                    format!("...Unable to get an update from the {shown:?} chart repository:\n\t{e}\n")
                }
                Some(e) => {
                    let url = &entry.url;
                    format!(
                        "...Unable to get an update from the {shown:?} chart repository ({url}):\n\t{e}\n"
                    )
                }
            });
        }
    }

    /// Fetches all resolved dependencies, then changes `charts/` (`Manager.downloadAll`).
    async fn bring(&mut self, resolved: &mut [Resolved], known: &[Entry]) -> Result<(), DependencyError> {
        let directory = self.path.join("charts");
        if directory.exists() && !directory.is_dir() {
            return Err(DependencyError::Wrong(format!("{:?} is not a directory", directory.display())));
        }
        std::fs::create_dir_all(&directory).map_err(io_error(&directory))?;
        let scratch = tempfile::Builder::new().prefix("tmpcharts-").tempdir_in(self.path);
        let scratch = scratch.map_err(io_error(self.path))?;
        (self.say)(format!("Saving {} charts\n", resolved.len()));
        let result = self.gather(resolved, known, scratch.path(), &directory).await;
        if let Err(e) = &result {
            (self.say)(format!("Save error occurred:  {e}\n"));
        }
        result?;
        let local: Vec<&str> = resolved
            .iter()
            .filter(|r| r.dependency.repository.is_empty())
            .map(|r| r.dependency.name.as_str())
            .collect();
        self.replace(scratch.path(), &directory, &local)
    }

    async fn gather(
        &mut self,
        resolved: &mut [Resolved],
        known: &[Entry],
        scratch: &Path,
        directory: &Path,
    ) -> Result<(), DependencyError> {
        if self.keyring.is_some() {
            refuse_directories(resolved)?;
        }
        let mut wanted: Vec<(String, usize)> = Vec::new();
        let mut lines: Vec<(String, bool)> = Vec::new();
        let planned = self.plan(resolved, known, scratch, directory, &mut wanted, &mut lines);
        if planned.is_err() {
            lines.drain(..).for_each(|(line, _)| (self.say)(line));
        }
        planned?;
        let (fetcher, options) = (self.fetcher, self.options);
        let resolved = &*resolved;
        // Each concurrent download prints its output when it ends.
        let work = stream::iter(wanted).map(async |(url, n)| {
            let mut lines = Vec::new();
            let chart = resolved[n].fetch(fetcher, options, known, &mut |w| lines.push(w)).await;
            let mut chart = chart.map_err(|e| DependencyError::Fetch { url, source: Box::new(e) })?;
            // Large packages share memory: none keeps its share while another one waits for it.
            let mut file = tempfile::tempfile_in(scratch).map_err(io_error(scratch))?;
            file.write_all(&std::mem::take(&mut chart.bytes)).map_err(io_error(scratch))?;
            Ok::<_, DependencyError>((chart, file, lines))
        });
        let mut downloads = Box::pin(work.buffered(AT_ONCE));
        let mut all: Vec<(ChartBytes, File)> = Vec::new();
        for (line, fetches) in lines {
            (self.say)(line);
            if !fetches {
                continue;
            }
            // The first that fails ends the output.
            let Some(done) = downloads.next().await else { break };
            let (chart, file, lines) = done?;
            lines.into_iter().for_each(&mut *self.warn);
            chart.notes.iter().for_each(|note| (self.say)(format!("{note}\n")));
            all.push((chart, file));
        }
        for (chart, mut file) in all {
            let path = scratch.join(&chart.file_name);
            let bytes = file.rewind().and_then(|()| bounded_read::read_to_end(&mut file, MAX_CHART_BYTES));
            let bytes = bytes.map_err(io_error(scratch))?;
            if let Some(keyring) = &self.keyring {
                let signed = chart.provenance.as_deref();
                let signed = signed.ok_or_else(|| DependencyError::NotSigned(chart.file_name.clone()))?;
                provenance::verify(&bytes, signed, &chart.file_name, keyring)?;
            }
            // charts/ must contain charts only.
            load_package(&bytes, &path, Profile::Helm4)?;
            chart_package::write(&path, &bytes).map_err(io_error(&path))?;
        }
        Ok(())
    }

    /// What to download, and the line of each dependency with whether a download follows it. Checks and packs those on disk.
    fn plan(
        &mut self,
        resolved: &mut [Resolved],
        known: &[Entry],
        scratch: &Path,
        directory: &Path,
        wanted: &mut Vec<(String, usize)>,
        lines: &mut Vec<(String, bool)>,
    ) -> Result<(), DependencyError> {
        for (n, one) in resolved.iter_mut().enumerate() {
            let d = &one.dependency;
            if d.repository.is_empty() {
                let name = &d.name;
                let text = format!(
                    "Dependency {name} did not declare a repository. Assuming it exists in the charts directory\n"
                );
                lines.push((text, false));
                self.check_local(&directory.join(name), d)?;
            } else if d.repository.starts_with("file://") {
                one.dependency.version = self.pack_local(d, scratch)?;
            } else {
                let url = one.url(known)?;
                let fetches = wanted.iter().all(|w| w.0 != url);
                if fetches {
                    wanted.push((url, n));
                }
                let verb = if fetches { "Downloading" } else { "Already downloaded" };
                lines.push((format!("{verb} {} from repo {}\n", d.name, d.repository), fetches));
            }
        }
        Ok(())
    }

    /// An unpacked dependency in `charts/`.
    fn check_local(&mut self, path: &Path, d: &Dependency) -> Result<(), DependencyError> {
        let chart = load(path, Profile::Helm4)
            .map_err(|e| DependencyError::Wrong(format!("unable to load chart '{}': {e}", path.display())))?
            .chart;
        let version = &chart.metadata.version;
        let name = &d.name;
        let range = semver::Range::parse(&d.version).map_err(|e| {
            DependencyError::Wrong(format!("dependency {name} has an invalid version/constraint format: {e}"))
        })?;
        if semver::parse(version).is_ok_and(|v| range.check(&v)) {
            return Ok(());
        }
        Err(DependencyError::Wrong(format!(
            "dependency {name} at version {version} does not satisfy the constraint {}",
            d.version
        )))
    }

    /// Packs a dependency with a `file://` repository. Returns its version.
    fn pack_local(&mut self, d: &Dependency, scratch: &Path) -> Result<String, DependencyError> {
        let path = resolve::local_path(&d.repository, self.path)?;
        let chart = load(&path, Profile::Helm4)?.chart;
        if !semver::is_compatible(&d.version, &chart.metadata.version) {
            let text = format!("can't get a valid version for dependency {}", d.name);
            return Err(DependencyError::Wrong(text));
        }
        let times = Times::of_directory(&path)?;
        chart_package::save(&chart, &times, scratch)?;
        Ok(chart.metadata.version)
    }

    /// Moves the new packages into `charts/` and deletes outdated ones (`Manager.safeMoveDeps`).
    fn replace(&mut self, scratch: &Path, directory: &Path, local: &[&str]) -> Result<(), DependencyError> {
        let names = |path: &Path| -> Result<Vec<PathBuf>, DependencyError> {
            let entries = std::fs::read_dir(path).map_err(io_error(path))?;
            let mut all = Vec::new();
            for entry in entries {
                let path = entry.map_err(io_error(path))?.path();
                if path.is_file() {
                    all.push(path);
                }
            }
            all.sort();
            Ok(all)
        };
        let new = names(scratch)?;
        for path in &new {
            let target = directory.join(path.file_name().unwrap_or_default());
            std::fs::rename(path, &target).map_err(io_error(&target))?;
        }
        (self.say)("Deleting outdated charts\n".to_owned());
        for path in names(directory)? {
            if new.iter().any(|n| n.file_name() == path.file_name()) {
                continue;
            }
            let bytes =
                atomic_files::read(&path, MAX_CHART_BYTES).map_err(io_error(&path))?.unwrap_or_default();
            match load_package(&bytes, &path, Profile::Helm4) {
                Ok(loaded) if !local.contains(&loaded.chart.name()) => {
                    std::fs::remove_file(&path).map_err(io_error(&path))?;
                }
                Ok(_) => {}
                Err(e) => {
                    let shown = path.display();
                    (self.say)(format!("Could not verify {shown} for deletion: {e} (Skipping)\n"));
                }
            }
        }
        Ok(())
    }

    fn write_lock(&self, lock: &Lock, v1: bool) -> Result<(), DependencyError> {
        let name = if v1 { "requirements.lock" } else { "Chart.lock" };
        let path = self.path.join(name);
        if let Ok(target) = std::fs::read_link(&path) {
            let text = format!("the {name} file is a symlink to {:?}", target.display());
            return Err(DependencyError::Wrong(text));
        }
        let text = lock.text().map_err(|e| DependencyError::Wrong(e.to_string()))?;
        atomic_files::write(&path, text.as_bytes(), 0o644).map_err(io_error(&path))
    }

    async fn resolve(
        &mut self,
        declared: &[Dependency],
        names: &Names,
    ) -> Result<Vec<Resolved>, DependencyError> {
        resolve::resolve(self.fetcher, self.options, self.path, declared, names, self.warn).await
    }

    fn locked(&mut self, locked: &[Dependency], known: &[Entry]) -> Result<Vec<Resolved>, DependencyError> {
        resolve::locked(self.fetcher, locked, known, self.warn)
    }
}
