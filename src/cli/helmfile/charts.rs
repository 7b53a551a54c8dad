//! The charts and values of releases, from disk and from the state's repositories.
//!
//! Owns where a release's chart comes from and what its fields change in it. What is done with them is the commands'.

use std::path::{Path, PathBuf};

use chart_compat::chart::{Chart, merge_maps, read_values};
use chart_compat::data::{Data, Map as DataMap};
use chart_compat::values::strvals;

use super::flags::Options;
use crate::cli::fetch::{self, ChartPath};
use crate::cli::flags::Globals;
use crate::cli::post_render::PostRender;
use crate::cli::schemas::Schemas;
use crate::cli::{chart, tell};
use crate::helmfile::patched_chart::{self, Changes};
use crate::helmfile::release_options;
use crate::helmfile::state::host::Host;
use crate::helmfile::state::load::State;
use crate::helmfile::state::record::Record;
use crate::helmfile::state::release::release_root;
use crate::helmfile::state::release_values::{self, Entry, SetFlag};
use crate::helmfile::state::template::render_named;
use crate::helmfile::state::value::map_to_yaml;
use crate::helmfile::state::{Error, paths};
use crate::kustomize;
use crate::source::http::TIMEOUT;

/// Further values of the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExtraValues<'v> {
    /// `--set`
    pub(super) set: &'v [String],
    /// `--values`
    pub(super) files: &'v [String],
}

/// Flags of the post-renderer.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct PostRendererFlags {
    /// A post-renderer for every release
    #[arg(long, default_value = "", hide_default_value = true)]
    post_renderer: String,
    /// An argument of the post-renderer (can specify multiple)
    #[arg(long, allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,
}

impl PostRendererFlags {
    /// The post-renderer of the command line, the release or the defaults.
    pub(super) fn of(&self, state: &State, release: &Record) -> PostRender {
        let defaults = state.fields.record("helmDefaults");
        let own = release.optional_text("postRenderer");
        let program = [
            Some(self.post_renderer.clone()),
            own,
            defaults.as_ref().and_then(|d| d.optional_text("postRenderer")),
        ]
        .into_iter()
        .flatten()
        .find(|program| !program.is_empty());
        let arguments = [
            self.post_renderer_args.clone(),
            release.texts("postRendererArgs"),
            defaults.map(|d| d.texts("postRendererArgs")).unwrap_or_default(),
        ];
        let arguments = arguments.into_iter().find(|arguments| !arguments.is_empty());
        let mut program = program.unwrap_or_default();
        if program.starts_with('.') {
            program = paths::within(&state.cwd, &program);
        }
        PostRender::of(program, arguments.unwrap_or_default())
    }
}

/// An argument for helm.
pub(super) enum HelmArgument {
    Set(String),
    IncludeCrds,
    NoHooks,
    SkipTests,
    SkipSchemaValidation,
}

/// Arguments for helm in lists of `helmDefaults`.
pub(super) fn own_arguments(state: &State, keys: &[&str]) -> String {
    let defaults = state.fields.record("helmDefaults");
    let all = keys.iter().flat_map(|key| defaults.as_ref().map(|own| own.texts(key)).unwrap_or_default());
    all.collect::<Vec<_>>().join(" ")
}

/// Takes arguments for helm apart.
pub(super) fn helm_arguments(text: &str) -> Result<Vec<HelmArgument>, Error> {
    let mut words = text.split_whitespace();
    let mut out = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        out.push(match name {
            "--set" => {
                let value =
                    value.or_else(|| words.next()).ok_or_else(|| "args: --set needs a value".to_owned())?;
                HelmArgument::Set(value.to_owned())
            }
            "--include-crds" => HelmArgument::IncludeCrds,
            "--no-hooks" => HelmArgument::NoHooks,
            "--skip-tests" => HelmArgument::SkipTests,
            "--skip-schema-validation" => HelmArgument::SkipSchemaValidation,
            other => {
                return Err(format!(
                    "args: {other} is not supported: use --set, --include-crds, --no-hooks, --skip-tests or \
                     --skip-schema-validation"
                )
                .into());
            }
        });
    }
    Ok(out)
}

/// Loads charts and values of releases.
pub(super) struct Charts<'c> {
    pub(super) globals: &'c Globals,
    pub(super) options: &'c Options,
    pub(super) host: &'c dyn Host,
}

impl Charts<'_> {
    /// The values of files and maps, then those of `set`, in helm's order.
    pub(super) fn user_values(
        &self,
        state: &State,
        release: &Record,
        entries: &[Entry],
        extra: ExtraValues<'_>,
    ) -> Result<DataMap, Error> {
        let profile = self.globals.profile();
        let mut user = DataMap::new();
        for entry in entries {
            let map = match entry {
                // As helm reads the file that helmfile writes.
                Entry::Map(map) => {
                    let text = map_to_yaml(map);
                    read_values(text.as_bytes(), profile)
                        .map_err(|e| format!("failed to parse values: {e}"))?
                }
                Entry::File { path, text } => read_values(text.as_bytes(), profile)
                    .map_err(|e| format!("failed to parse {path}: {e}"))?,
            };
            merge_maps(&mut user, map);
        }
        for path in extra.files {
            let absolute = paths::within(&state.cwd, path);
            let text = self.host.read(&absolute)?;
            merge_maps(
                &mut user,
                read_values(&text, profile).map_err(|e| format!("failed to parse {path}: {e}"))?,
            );
        }
        let flags = release_values::set_flags(self.host, state, release)?;
        for flag in &flags {
            if let SetFlag::Set(text) = flag {
                strvals::parse_into(&mut user, text)
                    .map_err(|e| format!("failed parsing --set data: {e}"))?;
            }
        }
        for text in extra.set {
            strvals::parse_into(&mut user, text).map_err(|e| format!("failed parsing --set data: {e}"))?;
        }
        for flag in &flags {
            match flag {
                SetFlag::Set(_) => {}
                SetFlag::SetString(text) => strvals::parse_into_string(&mut user, text)
                    .map_err(|e| format!("failed parsing --set-string data: {e}"))?,
                SetFlag::SetFile { key, path } => {
                    let mut load = |_: &str| -> Result<Data, String> {
                        let bytes = self.host.read(&paths::within(&state.cwd, path))?;
                        Ok(Data::String(String::from_utf8_lossy(&bytes).into_owned()))
                    };
                    strvals::parse_file(&mut user, &format!("{key}={path}"), &mut load)
                        .map_err(|e| format!("failed parsing --set-file data: {e}"))?;
                }
            }
        }
        Ok(user)
    }

    /// The chart of a release: loaded, or made of manifests or a kustomization.
    pub(super) fn chart(&self, state: &State, release: &Record, entries: &[Entry]) -> Result<Source, Error> {
        let reference = release.optional_text("chartPath").filter(|path| !path.is_empty());
        let mut reference = reference.unwrap_or_else(|| release.text("chart"));
        if reference.contains("::") && paths::is_remote(&reference) {
            reference = self.host.fetch(&reference, "charts")?;
        }
        let local = paths::within(&state.cwd, &paths::normalize_chart(&state.base, &reference));
        let dir = Path::new(&local);
        let version = release.text("version");
        let skips_deps = self.options.skip_deps || release_options::flag(state, release, "skipDeps");
        if dir.is_file() {
            let chart = self.open(&local, &ChartPath::default(), false)?;
            return self.with_dependencies(state, release, chart);
        }
        if !dir.is_dir() || paths::is_remote(&reference) {
            let (reference, path) = repository_chart(state, release, &reference);
            let chart = self.open(&reference, &path, false)?;
            return self.with_dependencies(state, release, chart);
        }
        if dir.join("Chart.yaml").is_file() {
            let chart = self.open(&local, &ChartPath::default(), !skips_deps)?;
            return self.with_dependencies(state, release, chart);
        }
        let files = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
        if files.iter().any(|name| dir.join(name).is_file()) {
            let built = self.kustomization(state, release, dir, entries)?;
            let chart = patched_chart::of_kustomization(dir, &version, built);
            return Ok(Source { chart, made: Some(Made::Kustomization) });
        }
        let root = release_root(state, release, state.values.clone());
        let render = |path: &str, text: &str| {
            let folder = paths::dir(&paths::within(&local, path));
            render_named(self.host, &folder, path, text, &root, false)
        };
        let chart = patched_chart::of_manifests(dir, &version, &render)?;
        Ok(Source { chart, made: Some(Made::Manifests) })
    }

    fn open(&self, reference: &str, path: &ChartPath, update: bool) -> Result<Chart, Error> {
        let loaded = chart::open(reference, self.globals, path, update).map_err(|failure| failure.text)?;
        Ok(loaded.chart)
    }

    /// Adds the release's own `dependencies`.
    fn with_dependencies(&self, state: &State, release: &Record, mut chart: Chart) -> Result<Source, Error> {
        for dependency in release.records("dependencies") {
            let reference = dependency.text("chart");
            let local = paths::within(&state.cwd, &paths::normalize_chart(&state.base, &reference));
            let version = dependency.text("version");
            let own = if Path::new(&local).exists() {
                self.open(&local, &ChartPath::default(), false)?
            } else {
                let (reference, mut path) = repository_chart(state, release, &reference);
                path.version.clone_from(&version);
                self.open(&reference, &path, false)?
            };
            patched_chart::add_dependency(&mut chart, own, &dependency.text("alias"), &version);
        }
        Ok(Source { chart, made: None })
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
            let name = release.text("name");
            return Err(
                format!("release {name:?}: set is not supported for a kustomization; use values").into()
            );
        }
        let texts: Vec<String> = entries
            .iter()
            .map(|entry| match entry {
                Entry::File { text, .. } => text.clone(),
                Entry::Map(map) => map_to_yaml(map),
            })
            .collect();
        let overlay = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let base = relative(overlay.path(), dir)?;
        let text = patched_chart::overlay(&base, &texts, &release.text("namespace"))?;
        let file = overlay.path().join("kustomization.yaml");
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let documents = Schemas::new(self.globals);
        let settings = kustomize::Settings {
            unrestricted: true,
            keep_order: false,
            charts: Some(kustomize::ChartSettings {
                fetcher: fetch::fetcher(self.globals),
                profile: self.globals.profile(),
                bounds: self.globals.render_bounds(),
                documents: Some(&documents),
                kube_version: String::new(),
                api_versions: Vec::new(),
                fetched: kustomize::Fetched::default(),
            }),
            http: fetch::http(self.globals, TIMEOUT),
            warn: &|line| tell(line),
        };
        let built = kustomize::build(&overlay.path().to_string_lossy(), settings)?;
        Ok(built.text()?)
    }
}

/// A chart to render.
pub(super) struct Source {
    pub(super) chart: Chart,
    /// What it was made of, if it is not a chart itself.
    pub(super) made: Option<Made>,
}

/// What a chart is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Manifests,
    Kustomization,
}

/// What the release's fields change in its resources.
pub(super) fn changes(
    host: &dyn Host,
    state: &State,
    release: &Record,
    made: Option<Made>,
) -> Result<Changes, Error> {
    let texts = |key: &str| -> Result<Vec<String>, Error> {
        let entries = release_values::patches(host, state, release, key)?;
        Ok(entries
            .into_iter()
            .map(|entry| match entry {
                Entry::File { text, .. } => text,
                Entry::Map(map) => map_to_yaml(&map),
            })
            .collect())
    };
    let forced = release.text("forceNamespace");
    let namespace =
        if forced.is_empty() && made == Some(Made::Manifests) { release.text("namespace") } else { forced };
    Ok(Changes {
        namespace,
        json_patches: texts("jsonPatches")?,
        strategic_merge_patches: texts("strategicMergePatches")?,
        transformers: texts("transformers")?,
    })
}

/// The reference and location of a chart, which may be in one of the state's repositories.
fn repository_chart(state: &State, release: &Record, reference: &str) -> (String, ChartPath) {
    let defaults = state.fields.record("helmDefaults");
    let flag = |key: &str| release.flag(key).or_else(|| defaults.as_ref()?.flag(key)).unwrap_or(false);
    let file = |text: String| {
        (!text.is_empty()).then(|| PathBuf::from(paths::within(&state.cwd, &paths::join(&state.base, &text))))
    };
    let mut path = ChartPath {
        version: release.text("version").split('@').next().unwrap_or_default().to_owned(),
        devel: flag("devel"),
        ..ChartPath::default()
    };
    path.login.plain_http = flag("plainHttp");
    path.login.tls.insecure_skip_tls_verify = flag("insecureSkipTLSVerify");
    path.verify.verify = flag("verify");
    let own = Some(release.text("keyring")).filter(|own| !own.is_empty());
    let keyring = own.or_else(|| defaults.as_ref().map(|defaults| defaults.text("keyring")));
    if let Some(keyring) = keyring.and_then(file) {
        path.verify.keyring.keyring = Some(keyring);
    }
    let Some((name, chart)) = paths::repository_chart(reference) else { return (reference.to_owned(), path) };
    let Some(repository) =
        state.fields.records("repositories").find(|repository| repository.text("name") == name)
    else {
        return (reference.to_owned(), path);
    };
    if !repository.text("registryConfig").is_empty() {
        tell(&format!(
            "repository {name:?}: registryConfig has no effect: run `windlass registry login`, or set username and password"
        ));
    }
    let upper = name.to_uppercase().replace('-', "_");
    let credential = |key: &str, suffix: &str| {
        let own = repository.text(key);
        if own.is_empty() { std::env::var(format!("{upper}_{suffix}")).unwrap_or_default() } else { own }
    };
    path.login.username = credential("username", "USERNAME");
    path.login.password = credential("password", "PASSWORD");
    path.pass_credentials = repository.flag("passCredentials").unwrap_or(false);
    path.login.plain_http |= repository.flag("plainHttp").unwrap_or(false);
    path.login.tls.insecure_skip_tls_verify |= repository.flag("skipTLSVerify").unwrap_or(false);
    path.login.tls.ca_file = file(repository.text("caFile"));
    path.login.tls.cert_file = file(repository.text("certFile"));
    path.login.tls.key_file = file(repository.text("keyFile"));
    path.verify.verify |= repository.flag("verify").unwrap_or(false);
    if let Some(keyring) = file(repository.text("keyring")) {
        path.verify.keyring.keyring = Some(keyring);
    }
    if repository.flag("oci") == Some(true) {
        return (format!("oci://{}/{chart}", repository.text("url").trim_end_matches('/')), path);
    }
    path.repo = Some(repository.text("url"));
    (chart.to_owned(), path)
}

/// The path from one folder to another.
fn relative(from: &Path, to: &Path) -> Result<String, Error> {
    let resolve = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let (from, to) = (resolve(from)?, resolve(to)?);
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let ups = from.components().count() - shared;
    let rest: PathBuf = to.components().skip(shared).collect();
    Ok(format!("{}{}", "../".repeat(ups), rest.display()))
}
