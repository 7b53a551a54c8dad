//! Charts and kustomizations from disk, repositories and registries.
//!
//! Owns the steps from a request to a chart that can be installed: find, fetch, verify, dependencies, Helm's checks. With a root,
//! nothing on disk outside of it is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chart_compat::chart::{Chart, File, read_archive};
use chart_compat::profile::Profile;
use tempfile::TempDir;

use super::chart_store::{ChartRequest, ChartStore};
use super::error::HelmfileError;
use super::local_host::RenderShare;
use windlass_base::blocking;
use windlass_fetch::byte_budget::ByteBudget;
use windlass_fetch::dependencies::Manager;
use windlass_fetch::fetch::{ChartBytes, Fetcher, Options, ProvenanceMode};
use windlass_fetch::http::{Http, Pem};
use windlass_fetch::installable::{check_installable, missing_dependencies};
use windlass_fetch::provenance::{default_keyring, verify_fetched, verify_file};
use windlass_fetch::{Loaded, confined_files};
use windlass_render::kustomize;
use windlass_render::{Documents, RenderBounds, RenderPermit};

/// Opens charts with the state of Helm that a fetcher has.
pub struct ChartFetcher {
    /// Fetches what is not on disk.
    pub fetcher: Fetcher,
    /// The client for remote bases of kustomizations.
    pub http: Http,
    /// What repositories of kustomizations count against; `None`: each build has a budget of its own.
    pub budget: Option<Arc<ByteBudget>>,
    /// The Helm whose rules count.
    pub profile: Profile,
    /// Bounds of the charts that kustomizations render.
    pub bounds: RenderBounds,
    /// What a build of a kustomization waits for: its objects take as much memory as a render's. It waits for no server meanwhile.
    pub renders: RenderShare,
    /// Loads documents that schemas refer to; `None` refuses them.
    pub documents: Option<Box<dyn Documents>>,
    /// The directory that files must be in, without symbolic links in its path; `None`: any.
    pub root: Option<PathBuf>,
    /// Receives warnings.
    pub warn: fn(&str),
}

impl ChartStore for ChartFetcher {
    fn chart(&self, request: &ChartRequest) -> Result<Chart, HelmfileError> {
        let loaded = match self.find(request)? {
            Found::OnDisk(_, loaded) => *loaded,
            Found::Package(package) => {
                let loaded =
                    windlass_fetch::load_package(&package.bytes, Path::new(&package.file_name), self.profile);
                loaded.map_err(HelmfileError::cause)?
            }
        };
        loaded.warnings.iter().for_each(|line| (self.warn)(line));
        check_installable(&loaded.chart, self.profile, &mut |line| (self.warn)(line))?;
        Ok(loaded.chart)
    }

    fn kustomization(&self, dir: &Path) -> Result<String, HelmfileError> {
        let settings = kustomize::Settings {
            unrestricted: true,
            keep_order: false,
            charts: Some(kustomize::ChartSettings {
                fetcher: self.fetcher.clone(),
                profile: self.profile,
                bounds: self.bounds,
                documents: self.documents.as_deref(),
                kube_version: String::new(),
                api_versions: Vec::new(),
                fetched: kustomize::Fetched::default(),
            }),
            http: self.http.clone(),
            budget: self.budget.clone(),
            root: self.root.clone(),
            inputs: self.fetcher.inputs.clone(),
            permit: RenderPermit::acquire(self.renders.permits.clone()),
            warn: &|line| (self.warn)(line),
        };
        let built = kustomize::build(&dir.to_string_lossy(), settings);
        built.and_then(|built| built.text()).map_err(HelmfileError::Chart)
    }

    fn scratch(&self) -> Result<TempDir, HelmfileError> {
        let made = match &self.root {
            Some(root) => tempfile::tempdir_in(root),
            None => tempfile::tempdir(),
        };
        made.map_err(|error| HelmfileError::cause(error).within("no temporary directory"))
    }

    fn manifests(&self, dir: &Path) -> Result<(), HelmfileError> {
        self.check_root(dir)?;
        Ok(self.fetcher.inputs.as_ref().map_or(Ok(()), |inputs| inputs.note_directory(dir))?)
    }
}

/// Where a chart was found.
enum Found {
    /// On disk, where it has been loaded with its dependencies.
    OnDisk(PathBuf, Box<Loaded>),
    /// In a repository or registry.
    Package(ChartBytes),
}

impl ChartFetcher {
    /// The files of a chart as its directory or package has them, without what `.helmignore` excludes.
    ///
    /// # Errors
    /// It does not exist, cannot be fetched, or is not a chart.
    pub fn files(&self, request: &ChartRequest) -> Result<Vec<File>, HelmfileError> {
        let bytes = match self.find(request)? {
            Found::OnDisk(path, _) if path.is_dir() => {
                return windlass_fetch::directory_files(&path).map_err(HelmfileError::cause);
            }
            Found::OnDisk(path, _) => {
                windlass_fetch::package_bytes(&path).map_err(HelmfileError::cause)?.into()
            }
            Found::Package(package) => package.bytes,
        };
        read_archive(&bytes, self.profile).map_err(HelmfileError::cause)
    }

    /// Asks a repository for its index.
    ///
    /// # Errors
    /// It cannot be reached, refuses the login, or has no index.
    pub fn check_repository(&self, url: &str, options: &Options) -> Result<(), HelmfileError> {
        let check = || async {
            let found = self.fetcher.update_index(url, options).await;
            found.map(drop).map_err(HelmfileError::cause)
        };
        blocking::wait(check)
    }

    /// Asks a registry whether it takes the login. `host`: its name and port.
    ///
    /// # Errors
    /// It cannot be reached, or refuses the login.
    pub fn check_registry(&self, host: &str, options: &Options) -> Result<(), HelmfileError> {
        let check =
            || async { self.fetcher.registry(options).ping(host).await.map_err(HelmfileError::cause) };
        blocking::wait(check)
    }

    fn find(&self, request: &ChartRequest) -> Result<Found, HelmfileError> {
        let ChartRequest { reference, options, keyring, update_dependencies } = request;
        let keyring = || keyring.clone().unwrap_or_else(default_keyring);
        let verifies = options.provenance == ProvenanceMode::Yes;
        self.check_files(request)?;
        if options.repository.is_none()
            && let Some(found) = self.locate(reference)?
        {
            self.check_root(&found)?;
            if verifies {
                verify_file(&windlass_fetch::absolute(&found), &keyring())?;
            }
            let mut loaded = self.load(&found)?;
            if *update_dependencies && found.is_dir() && !missing_dependencies(&loaded.chart).is_empty() {
                self.update_dependencies(&found, options)?;
                loaded = self.load(&found)?;
            }
            if let Some(inputs) = &self.fetcher.inputs {
                // With the dependencies that were fetched into it.
                inputs.note_chart(&windlass_fetch::absolute(&found))?;
            }
            return Ok(Found::OnDisk(found, Box::new(loaded)));
        }
        let fetch = || async {
            let mut warnings = Vec::new();
            let chart = self.fetcher.fetch(reference, options, &mut |line| warnings.push(line)).await;
            chart.map(|chart| (chart, warnings)).map_err(HelmfileError::cause)
        };
        let (chart, warnings) = blocking::wait(fetch)?;
        warnings.iter().chain(&chart.notes).for_each(|line| (self.warn)(line));
        if verifies {
            verify_fetched(&chart, &keyring())?;
        }
        Ok(Found::Package(chart))
    }

    /// A chart on disk. With a root, relative paths would be those of this process, and absolute ones are checked before anybody looks
    /// whether they exist.
    fn locate(&self, reference: &str) -> Result<Option<PathBuf>, HelmfileError> {
        let Some(root) = &self.root else {
            return windlass_fetch::locate(reference).map_err(HelmfileError::cause);
        };
        let path = Path::new(reference);
        match path.is_absolute() {
            true => Ok(Some(confined_files::resolve(root, path)?)),
            false if reference.starts_with('.') => {
                Err(HelmfileError::Chart(format!("path {reference:?} not found, or outside of the source")))
            }
            false => Ok(None),
        }
    }

    fn load(&self, path: &Path) -> Result<Loaded, HelmfileError> {
        windlass_fetch::load(path, self.profile).map_err(HelmfileError::cause)
    }

    fn update_dependencies(&self, path: &Path, options: &Options) -> Result<(), HelmfileError> {
        let path = windlass_fetch::clean(path);
        // They are recorded with the directory of the chart.
        let fetcher = Fetcher { inputs: None, ..self.fetcher.clone() };
        let update = || async {
            let mut lines = Vec::new();
            let mut warnings = Vec::new();
            let mut manager = Manager {
                fetcher: &fetcher,
                path: &path,
                skip_refresh: false,
                options,
                keyring: None,
                local_root: self.root.as_deref(),
                say: &mut |text| lines.push(text),
                warn: &mut |line| warnings.push(line),
            };
            let done = manager.update().await.map_err(HelmfileError::cause);
            lines.extend(warnings);
            done.map(|()| lines)
        };
        blocking::wait(update)?.iter().for_each(|line| (self.warn)(line.trim_end()));
        Ok(())
    }

    /// Refuses certificates, keys and keyrings outside of the root.
    fn check_files(&self, request: &ChartRequest) -> Result<(), HelmfileError> {
        let Some(root) = &self.root else { return Ok(()) };
        let Options { tls, provenance, .. } = &request.options;
        let named = [&tls.ca, &tls.certificate, &tls.key].into_iter().flatten().filter_map(|pem| match pem {
            Pem::File(path) => Some(path),
            Pem::Text(_) => None,
        });
        for path in named.chain(&request.keyring) {
            confined_files::resolve(root, path)?;
        }
        if *provenance == ProvenanceMode::Yes && request.keyring.is_none() {
            return Err(HelmfileError::Chart("verify: name a keyring of the source".to_owned()));
        }
        Ok(())
    }

    /// Refuses a path outside of the root, and links below it that lead out.
    fn check_root(&self, path: &Path) -> Result<(), HelmfileError> {
        match &self.root {
            Some(root) => Ok(confined_files::check_tree(root, path)?),
            None => Ok(()),
        }
    }
}
