//! The repositories and versions of dependencies (`resolver.Resolver`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chart_compat::chart::Dependency;
use chart_compat::go::semver;
use chart_compat::profile::Profile;

use super::super::fetch::{ChartBytes, FetchError, Fetcher, Options};
use super::super::index;
use super::super::index::entry::ChartVersion;
use super::super::location::{Location, same_repository};
use super::super::repositories::Entry;
use super::super::{clean, load, repository};
use super::DependencyError;

/// The names of the cached indexes, by the name of the dependency.
pub(super) struct Names(BTreeMap<String, String>);

/// A dependency at one version, and its location.
pub(super) struct Resolved {
    pub(super) dependency: Dependency,
    /// Its index entry.
    version: Option<Box<ChartVersion>>,
}

impl Names {
    /// Assigns a name to each repository that the user has not named. Returns those.
    pub(super) fn add_unmanaged(&mut self, declared: &[Dependency]) -> Vec<Entry> {
        let mut out: Vec<Entry> = Vec::new();
        for d in declared.iter().filter(|d| !d.repository.is_empty()) {
            if self.0.contains_key(&d.name) {
                continue;
            }
            let name = repository::name_of(&d.repository);
            self.0.insert(d.name.clone(), name.clone());
            if !out.iter().any(|e| e.name == name) {
                out.push(Entry { name, url: d.repository.clone(), ..Entry::default() });
            }
        }
        out
    }
}

/// Finds the repositories that the user has named, and replaces `@name` and `alias:name` by URLs
/// (`Manager.resolveRepoNames`).
pub(super) fn names(
    declared: &mut [Dependency],
    known: &[Entry],
    chart: &Path,
) -> Result<Names, DependencyError> {
    let mut out = BTreeMap::new();
    let mut missing: Vec<&str> = Vec::new();
    for d in declared {
        if d.repository.is_empty() {
            continue;
        }
        if d.repository.starts_with("file://") {
            local_path(&d.repository, chart)?;
            out.insert(d.name.clone(), d.repository.clone());
            continue;
        }
        if d.repository.starts_with("oci://") {
            out.insert(d.name.clone(), d.repository.clone());
            continue;
        }
        let alias = d.repository.strip_prefix('@').or_else(|| d.repository.strip_prefix("alias:"));
        let found = known.iter().find(|e| match alias {
            Some(alias) => e.name == alias,
            None => same_repository(&e.url, &d.repository),
        });
        match found {
            Some(entry) => {
                if alias.is_some() {
                    d.repository.clone_from(&entry.url);
                }
                out.insert(d.name.clone(), entry.name.clone());
            }
            None if Location::is_absolute(&d.repository) || d.repository.starts_with('/') => {}
            None => missing.push(&d.repository),
        }
    }
    if missing.is_empty() {
        return Ok(Names(out));
    }
    let all = missing.join(", ");
    let mut text = format!("no repository definition for {all}. Please add them via 'helm repo add'");
    if missing.iter().any(|r| !r.contains("//") && !r.starts_with('@') && !r.starts_with("alias:")) {
        text.push_str(
            "\nNote that repositories must be URLs or aliases. For example, to refer to the \"example\"\nrepository, use \
             \"https://charts.example.com/\" or \"@example\" instead of\n\"example\". Don't forget to add the repo, too ('helm repo add').",
        );
    }
    Err(DependencyError::NoRepository(text))
}

/// The directory of `file://…`, or of a path below the chart (`GetLocalPath`).
pub(super) fn local_path(repository: &str, chart: &Path) -> Result<PathBuf, DependencyError> {
    let path = repository.strip_prefix("file://").unwrap_or(repository);
    let path = clean(&if path.starts_with('/') { PathBuf::from(path) } else { chart.join(path) });
    if path.exists() { Ok(path) } else { Err(DependencyError::NoDirectory(path)) }
}

/// Resolves each dependency to one version.
pub(super) async fn resolve(
    fetcher: &Fetcher,
    options: &Options,
    chart: &Path,
    declared: &[Dependency],
    names: &Names,
    warn: &mut (dyn FnMut(String) + Send),
) -> Result<Vec<Resolved>, DependencyError> {
    let mut ranges = Vec::new();
    for d in declared {
        let range = semver::Range::parse(&d.version)
            .map_err(|reason| DependencyError::Range { name: d.name.clone(), reason })?;
        ranges.push(range);
    }
    let remote = |d: &&Dependency| {
        let r = &d.repository;
        !(r.is_empty() || r.starts_with("file://") || r.starts_with("oci://"))
    };
    let name_of = |d: &Dependency| names.0.get(&d.name).cloned().unwrap_or_default();
    let indexes =
        indexes(fetcher, declared.iter().filter(remote).map(|d| (name_of(d), d.name.as_str())), warn)?;
    let mut out = Vec::new();
    let mut missing = Vec::new();
    for (d, range) in declared.iter().zip(&ranges) {
        let fits = |version: &str| semver::parse(version).is_ok_and(|v| range.check(&v));
        let mut lock = |version: &str, found: Option<ChartVersion>| {
            let (name, repository, version) = (d.name.clone(), d.repository.clone(), version.to_owned());
            let dependency = Dependency { name, repository, version, ..Dependency::default() };
            out.push(Resolved { dependency, version: found.map(Box::new) });
        };
        if d.repository.is_empty() {
            local_path(&format!("charts/{}", d.name), chart)?;
            lock(&d.version, None);
            continue;
        }
        let found = if d.repository.starts_with("file://") {
            let on_disk = load(&local_path(&d.repository, chart)?, Profile::Helm4)?.chart.metadata.version;
            Some((on_disk.clone(), None)).filter(|_| fits(&on_disk))
        } else if d.repository.starts_with("oci://") {
            let version = if semver::parse(&d.version).is_ok() {
                Some(d.version.clone())
            } else {
                let reference = format!("{}/{}", d.repository.trim_end_matches('/'), d.name);
                let all = fetcher.oci_versions(&reference, options).await.map_err(|e| {
                    DependencyError::Wrong(format!(
                        "could not retrieve list of tags for repository {}: {e}",
                        d.repository
                    ))
                })?;
                all.into_iter().find(|v| fits(v))
            };
            version.map(|v| (v, None))
        } else {
            let versions = indexes.get(&(name_of(d), d.name.clone())).ok_or_else(|| {
                DependencyError::NotThere { chart: d.name.clone(), repository: d.repository.clone() }
            })?;
            let found = versions.iter().find(|v| !v.urls.is_empty() && fits(&v.metadata.version));
            found.map(|v| (v.metadata.version.clone(), Some(v.clone())))
        };
        match found {
            Some((version, found)) => lock(&version, found),
            None => {
                missing
                    .push(format!("{:?} (repository {:?}, version {:?})", d.name, d.repository, d.version));
            }
        }
    }
    if missing.is_empty() {
        return Ok(out);
    }
    Err(DependencyError::NoVersion { count: missing.len(), all: missing.join(", ") })
}

/// Finds locked dependencies (`Manager.findChartURL`).
pub(super) fn locked(
    fetcher: &Fetcher,
    locked: &[Dependency],
    known: &[Entry],
    warn: &mut (dyn FnMut(String) + Send),
) -> Result<Vec<Resolved>, DependencyError> {
    let owner = |d: &Dependency| {
        known.iter().find(|e| same_repository(&e.url, &d.repository)).map(|e| e.name.clone())
    };
    let remote = locked.iter().filter(|d| d.repository.contains("://") && !d.repository.starts_with("file:"));
    let indexes = indexes(fetcher, remote.filter_map(|d| Some((owner(d)?, d.name.as_str()))), warn)?;
    let mut out = Vec::new();
    for d in locked {
        let same = |v: &ChartVersion| match (semver::parse(&v.metadata.version), semver::parse(&d.version)) {
            (Ok(a), Ok(b)) => semver::compare(&a, &b).is_eq(),
            _ => v.metadata.version == d.version,
        };
        let version = match owner(d) {
            None => None,
            Some(name) => {
                let versions = indexes.get(&(name, d.name.clone()));
                let versions =
                    versions.ok_or_else(|| DependencyError::NotFound("entry not found".to_owned()))?;
                // Prefers the exact text: versions compare as equal whatever their build metadata.
                let exact = versions.iter().find(|v| v.metadata.version == d.version && !v.urls.is_empty());
                let found = exact.or_else(|| versions.iter().find(|v| !v.urls.is_empty() && same(v)));
                let found =
                    found.ok_or_else(|| DependencyError::NotFound("no matching version".to_owned()))?;
                Some(Box::new(found.clone()))
            }
        };
        out.push(Resolved { dependency: d.clone(), version });
    }
    Ok(out)
}

/// The versions of charts, by index and chart name; each index is read once.
fn indexes<'d>(
    fetcher: &Fetcher,
    wanted: impl Iterator<Item = (String, &'d str)>,
    warn: &mut (dyn FnMut(String) + Send),
) -> Result<BTreeMap<(String, String), Vec<ChartVersion>>, DependencyError> {
    let mut by_index: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (index, chart) in wanted {
        by_index.entry(index).or_default().push(chart);
    }
    let mut out = BTreeMap::new();
    for (name, charts) in by_index {
        let path = repository::index_path(&fetcher.home.indexes, &name);
        let found = index::find(&path, &charts, warn)
            .map_err(|source| DependencyError::NotCached { name: name.clone(), source })?;
        out.extend(found.into_iter().map(|(chart, versions)| ((name.clone(), chart), versions)));
    }
    Ok(out)
}

impl Resolved {
    fn owner<'k>(&self, known: &'k [Entry]) -> Option<&'k Entry> {
        known.iter().find(|e| same_repository(&e.url, &self.dependency.repository))
    }

    /// The location of the package.
    pub(super) fn url(&self, known: &[Entry]) -> Result<String, DependencyError> {
        let d = &self.dependency;
        let Some(version) = &self.version else {
            return Ok(format!("{}/{}:{}", d.repository.trim_end_matches('/'), d.name, d.version));
        };
        let base = self.owner(known).map_or(d.repository.as_str(), |e| e.url.as_str());
        let url = version.urls.first().map(String::as_str).unwrap_or_default();
        let joined = Location::parse(base).and_then(|base| base.within(url));
        joined.map(|l| l.to_string()).map_err(|e| DependencyError::NotFound(e.to_string()))
    }

    /// The package.
    pub(super) async fn fetch(
        &self,
        fetcher: &Fetcher,
        options: &Options,
        known: &[Entry],
        warn: &mut (dyn FnMut(String) + Send),
    ) -> Result<ChartBytes, FetchError> {
        let d = &self.dependency;
        match &self.version {
            Some(version) => {
                let unmanaged = Entry { url: d.repository.clone(), ..Entry::default() };
                let entry = self.owner(known).unwrap_or(&unmanaged);
                fetcher.fetch_version(&entry.into(), version, options, warn).await
            }
            None => {
                let reference = format!("{}/{}", d.repository.trim_end_matches('/'), d.name);
                let options = Options { version: d.version.clone(), repository: None, ..options.clone() };
                fetcher.fetch(&reference, &options, warn).await
            }
        }
    }
}
