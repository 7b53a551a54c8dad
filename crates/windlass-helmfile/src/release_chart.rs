//! The chart and the values of a release.
//!
//! Owns which chart a release's fields name, what they change in it, and the order of its values. Where charts come from is the
//! store's; what is done with them is the caller's.

use std::path::{Path, PathBuf};

use chart_compat::chart::{Chart, merge_maps, read_values_within};
use chart_compat::data::{Data, Map as DataMap};
use chart_compat::profile::Profile;
use chart_compat::values::strvals;
use chart_compat::yaml::Room;

use super::chart_store::{ChartRequest, ChartStore};
use super::patched_chart::{self, Changes};
use super::release_options;
use helmfile_compat::host::Host;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::Record;
use helmfile_compat::release::release_root;
use helmfile_compat::release_values::{self, Entry, SetFlag};
use helmfile_compat::schema::Key;
use helmfile_compat::template::render_named;
use helmfile_compat::value::map_to_yaml;
use helmfile_compat::{Error, paths};
use windlass_base::redact::SecretText;
use windlass_fetch::fetch::{Options, ProvenanceMode};
use windlass_fetch::http::{Pem, Tls};

/// Further values of the caller, for every release.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExtraValues<'v> {
    /// `--set`
    pub set: &'v [String],
    /// `--values`
    pub files: &'v [String],
}

/// Loads charts and values of releases.
pub struct ReleaseCharts<'c> {
    /// What state files may ask of the outside.
    pub host: &'c dyn Host,
    /// Where charts come from.
    pub store: &'c dyn ChartStore,
    /// The Helm whose rules count.
    pub profile: Profile,
    /// Whether dependencies of local charts are not fetched.
    pub skip_deps: bool,
}

impl ReleaseCharts<'_> {
    /// The values of files and maps, then those of `set`, in helm's order.
    pub fn user_values(
        &self,
        state: &State,
        release: &Record,
        entries: &[Entry],
        extra: ExtraValues<'_>,
    ) -> Result<DataMap, Error> {
        let profile = self.profile;
        let room = Room::default();
        let mut user = DataMap::new();
        for entry in entries {
            let map = match entry {
                // As helm reads the file that helmfile writes.
                Entry::Map(map) => {
                    let text = map_to_yaml(map);
                    read_values_within(text.as_bytes(), profile, &room)
                        .map_err(|e| Error::host(e).within("failed to parse values"))?
                }
                Entry::File { path, text } => read_values_within(text.as_bytes(), profile, &room)
                    .map_err(|e| Error::host(e).within(format!("failed to parse {path}")))?,
            };
            merge_maps(&mut user, map);
        }
        for path in extra.files {
            let absolute = paths::within(&state.cwd, path);
            let text = self.host.read(&absolute)?;
            merge_maps(
                &mut user,
                read_values_within(&text, profile, &room)
                    .map_err(|e| Error::host(e).within(format!("failed to parse {path}")))?,
            );
        }
        let flags = release_values::set_flags(self.host, state, release)?;
        for flag in &flags {
            if let SetFlag::Set(text) = flag {
                strvals::parse_into_within(&mut user, text, &room)
                    .map_err(|e| Error::host(e).within("failed parsing --set data"))?;
            }
        }
        for text in extra.set {
            strvals::parse_into_within(&mut user, text, &room)
                .map_err(|e| Error::host(e).within("failed parsing --set data"))?;
        }
        for flag in &flags {
            match flag {
                SetFlag::Set(_) => {}
                SetFlag::SetString(text) => strvals::parse_into_string_within(&mut user, text, &room)
                    .map_err(|e| Error::host(e).within("failed parsing --set-string data"))?,
                SetFlag::SetFile { key, path } => {
                    let mut load = |_: &str| -> Result<Data, String> {
                        let bytes = self.host.read(&paths::within(&state.cwd, path));
                        let bytes = bytes.map_err(|error| error.to_string())?;
                        Ok(Data::String(String::from_utf8_lossy(&bytes).into_owned()))
                    };
                    strvals::parse_file_within(&mut user, &format!("{key}={path}"), &mut load, &room)
                        .map_err(|e| Error::host(e).within("failed parsing --set-file data"))?;
                }
            }
        }
        Ok(user)
    }

    /// What the fields of a release name as its chart.
    pub fn place(&self, state: &State, release: &Record) -> Result<ChartPlace, Error> {
        let reference = release.optional_text(key!("chartPath")).filter(|path| !path.is_empty());
        let mut reference = reference.unwrap_or_else(|| release.text(key!("chart")));
        if reference.contains("::") && paths::is_remote(&reference) {
            reference = self.host.fetch(&reference, "charts")?;
        }
        let local = paths::within(&state.cwd, &paths::normalize_chart(&state.base, &reference));
        match self.host.is_dir(&local) {
            Some(false) => return Ok(ChartPlace::Chart(Box::new(on_disk(local, false)))),
            Some(true) if !paths::is_remote(&reference) => {}
            _ => return Ok(ChartPlace::Chart(Box::new(self.repository_chart(state, release, &reference)))),
        }
        let has_file = |name: &&str| self.host.is_dir(&paths::within(&local, name)) == Some(false);
        if has_file(&"Chart.yaml") {
            let skips_deps = self.skip_deps || release_options::flag(state, release, key!("skipDeps"));
            return Ok(ChartPlace::Chart(Box::new(on_disk(local, !skips_deps))));
        }
        let is_kustomization =
            ["kustomization.yaml", "kustomization.yml", "Kustomization"].iter().any(has_file);
        let dir = PathBuf::from(local);
        Ok(if is_kustomization { ChartPlace::Kustomization(dir) } else { ChartPlace::Manifests(dir) })
    }

    /// The chart of a release at its place: loaded, or made of manifests or a kustomization.
    pub fn chart(
        &self,
        state: &State,
        release: &Record,
        place: ChartPlace,
        entries: &[Entry],
    ) -> Result<ChartSource, Error> {
        let version = release.text(key!("version"));
        let dir = match place {
            ChartPlace::Chart(request) => {
                return self.with_dependencies(state, release, self.store.chart(&request)?);
            }
            ChartPlace::Kustomization(dir) => {
                let built = self.kustomization(state, release, &dir, entries)?;
                let chart = patched_chart::of_kustomization(&dir, &version, built);
                return Ok(ChartSource { chart, made: Some(Made::Kustomization) });
            }
            ChartPlace::Manifests(dir) => dir,
        };
        let root = release_root(state, release, state.values.clone());
        let render = |path: &str, text: &str| {
            let folder = paths::dir(&paths::within(&dir.to_string_lossy(), path));
            Ok(render_named(self.host, &folder, path, text, &root, false)?)
        };
        self.store.manifests(&dir)?;
        let chart = patched_chart::of_manifests(&dir, &version, &render)?;
        Ok(ChartSource { chart, made: Some(Made::Manifests) })
    }

    /// Adds the release's own `dependencies`.
    fn with_dependencies(
        &self,
        state: &State,
        release: &Record,
        mut chart: Chart,
    ) -> Result<ChartSource, Error> {
        for dependency in release.records(key!("dependencies")) {
            let reference = dependency.text(key!("chart"));
            let local = paths::within(&state.cwd, &paths::normalize_chart(&state.base, &reference));
            let version = dependency.text(key!("version"));
            let own = if self.host.is_dir(&local).is_some() {
                self.store.chart(&on_disk(local, false))?
            } else {
                let mut request = self.repository_chart(state, release, &reference);
                request.options.version.clone_from(&version);
                self.store.chart(&request)?
            };
            patched_chart::add_dependency(&mut chart, own, &dependency.text(key!("alias")), &version);
        }
        Ok(ChartSource { chart, made: None })
    }

    /// Builds a kustomization below the overlay of the release's values.
    fn kustomization(
        &self,
        state: &State,
        release: &Record,
        dir: &Path,
        entries: &[Entry],
    ) -> Result<String, Error> {
        let flags = release_values::set_flags(self.host, state, release)?;
        if !flags.is_empty() {
            let name = release.text(key!("name"));
            return Err(Error::Invalid(format!(
                "release {name:?}: set is not supported for a kustomization; use values"
            )));
        }
        let texts: Vec<String> = entries
            .iter()
            .map(|entry| match entry {
                Entry::File { text, .. } => text.clone(),
                Entry::Map(map) => map_to_yaml(map),
            })
            .collect();
        let overlay = self.store.scratch()?;
        let base = relative(overlay.path(), dir)?;
        let text = patched_chart::overlay(&base, &texts, &release.text(key!("namespace")))?;
        let file = overlay.path().join("kustomization.yaml");
        std::fs::write(&file, text)
            .map_err(|error| Error::Invalid(format!("{}: {error}", file.display())))?;
        Ok(self.store.kustomization(overlay.path())?)
    }
}

/// What the fields of a release name as its chart.
pub enum ChartPlace {
    /// A chart on disk, of a repository or of a registry.
    Chart(Box<ChartRequest>),
    /// A directory with a kustomization.
    Kustomization(PathBuf),
    /// A directory of plain manifests.
    Manifests(PathBuf),
}

impl ChartPlace {
    /// What its chart is made of, if it is not a chart itself.
    #[must_use]
    pub const fn made(&self) -> Option<Made> {
        match self {
            Self::Chart(_) => None,
            Self::Kustomization(_) => Some(Made::Kustomization),
            Self::Manifests(_) => Some(Made::Manifests),
        }
    }
}

/// The request for a chart on disk.
fn on_disk(path: String, update_dependencies: bool) -> ChartRequest {
    ChartRequest { reference: path, update_dependencies, ..ChartRequest::default() }
}

/// A chart to render.
pub struct ChartSource {
    /// The chart.
    pub chart: Chart,
    /// What it was made of, if it is not a chart itself.
    pub made: Option<Made>,
}

/// What a chart is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// A directory of manifests.
    Manifests,
    /// A kustomization.
    Kustomization,
}

/// What the release's fields change in its resources.
pub fn changes(
    host: &dyn Host,
    state: &State,
    release: &Record,
    made: Option<Made>,
) -> Result<Changes, Error> {
    let texts = |key: Key| -> Result<Vec<String>, Error> {
        let entries = release_values::patches(host, state, release, key)?;
        Ok(entries
            .into_iter()
            .map(|entry| match entry {
                Entry::File { text, .. } => text,
                Entry::Map(map) => map_to_yaml(&map),
            })
            .collect())
    };
    let forced = release.text(key!("forceNamespace"));
    let namespace = if forced.is_empty() && made == Some(Made::Manifests) {
        release.text(key!("namespace"))
    } else {
        forced
    };
    Ok(Changes {
        namespace,
        json_patches: texts(key!("jsonPatches"))?,
        strategic_merge_patches: texts(key!("strategicMergePatches"))?,
        transformers: texts(key!("transformers"))?,
    })
}

impl ReleaseCharts<'_> {
    /// A chart that is not on disk; it may be in one of the state's repositories.
    #[must_use]
    pub fn repository_chart(&self, state: &State, release: &Record, reference: &str) -> ChartRequest {
        let defaults = state.fields.record(key!("helmDefaults"));
        let flag = |key: Key| release_options::flag(state, release, key);
        let version = release.text(key!("version")).split('@').next().unwrap_or_default().trim().to_owned();
        let version = if version.is_empty() && flag(key!("devel")) { ">0.0.0-0".to_owned() } else { version };
        let own = Some(release.text(key!("keyring"))).filter(|own| !own.is_empty());
        let keyring = own.or_else(|| defaults.as_ref().map(|defaults| defaults.text(key!("keyring"))));
        let mut request = ChartRequest {
            reference: reference.to_owned(),
            options: Options {
                version,
                plain_http: flag(key!("plainHttp")),
                tls: Tls { insecure: flag(key!("insecureSkipTLSVerify")), ..Tls::default() },
                provenance: if flag(key!("verify")) { ProvenanceMode::Yes } else { ProvenanceMode::No },
                ..Options::default()
            },
            keyring: keyring.and_then(|keyring| file(state, &keyring)),
            update_dependencies: false,
        };
        let Some((name, chart)) = paths::repository_chart(reference) else { return request };
        let Some(repository) = state
            .fields
            .records(key!("repositories"))
            .find(|repository| repository.text(key!("name")) == name)
        else {
            return request;
        };
        self.set_access(state, repository, &mut request.options);
        if let Some(keyring) = file(state, &repository.text(key!("keyring"))) {
            request.keyring = Some(keyring);
        }
        if repository.flag(key!("oci")) == Some(true) {
            request.reference =
                format!("oci://{}/{chart}", repository.text(key!("url")).trim_end_matches('/'));
        } else {
            request.options.repository = Some(repository.text(key!("url"))).filter(|url| !url.is_empty());
            request.reference = chart.to_owned();
        }
        request
    }

    /// The login and TLS files of a repository of the state.
    #[must_use]
    pub fn repository_access(&self, state: &State, repository: &Record) -> Options {
        let mut options = Options::default();
        self.set_access(state, repository, &mut options);
        options
    }

    fn set_access(&self, state: &State, repository: &Record, options: &mut Options) {
        let name = repository.text(key!("name"));
        if !repository.text(key!("registryConfig")).is_empty() {
            self.host.warn(&format!(
                "repository {name:?}: registryConfig has no effect: run `windlass registry login`, or set username and password"
            ));
        }
        let upper = name.to_uppercase().replace('-', "_");
        let credential = |key: Key, suffix: &str| {
            let own = repository.text(key);
            match own.is_empty() {
                true => self.host.variable(&format!("{upper}_{suffix}")).unwrap_or_default(),
                false => own,
            }
        };
        let yes = |key: Key| repository.flag(key).unwrap_or(false);
        let pem = |key: Key| file(state, &repository.text(key)).map(Pem::from);
        options.username = credential(key!("username"), "USERNAME");
        options.password = SecretText::new(credential(key!("password"), "PASSWORD"));
        options.pass_credentials = yes(key!("passCredentials"));
        options.plain_http |= yes(key!("plainHttp"));
        options.tls.insecure |= yes(key!("skipTLSVerify"));
        options.tls.ca = pem(key!("caFile"));
        options.tls.certificate = pem(key!("certFile"));
        options.tls.key = pem(key!("keyFile"));
        if yes(key!("verify")) {
            options.provenance = ProvenanceMode::Yes;
        }
    }
}

/// The path of a file that a state names; `None` for an empty one.
fn file(state: &State, path: &str) -> Option<PathBuf> {
    (!path.is_empty()).then(|| PathBuf::from(paths::within(&state.cwd, &paths::join(&state.base, path))))
}

/// The path from one folder to another.
fn relative(from: &Path, to: &Path) -> Result<String, Error> {
    let resolve = |path: &Path| {
        path.canonicalize().map_err(|error| Error::Invalid(format!("{}: {error}", path.display())))
    };
    let (from, to) = (resolve(from)?, resolve(to)?);
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let ups = from.components().count() - shared;
    let rest: PathBuf = to.components().skip(shared).collect();
    Ok(format!("{}{}", "../".repeat(ups), rest.display()))
}
