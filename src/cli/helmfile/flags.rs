//! helmfile's flags of every command.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chart_compat::go::parse_bool;

use super::bundle_place;
use crate::cli::flags::Globals;
use crate::cli::schemas::Schemas;
use crate::cli::{fetch, tell};
use helmfile_compat::host::Host;
use helmfile_compat::load::Settings;
use helmfile_compat::visit::{DEFAULT_DIR, DEFAULT_FILE, Query};
use helmfile_compat::{Error, merge, paths};
use windlass_fetch::http::TIMEOUT;
use windlass_helmfile::bundle::bundled_host::BundledHost;
use windlass_helmfile::bundle::opened_bundle::OpenedBundle;
use windlass_helmfile::chart_fetcher::ChartFetcher;
use windlass_helmfile::chart_store::ChartStore;
use windlass_helmfile::local_host::{LocalHost, Permissions, RenderShare};
use windlass_helmfile::release_chart::ReleaseCharts;
use windlass_helmfile::remote_files::RemoteFiles;
use windlass_helmfile::secrets::Secrets;
use windlass_render::SystemWorld;

/// Flags of every command.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Options {
    /// Load state from a file or directory, `-` for standard input [default: helmfile.yaml, helmfile.yaml.gotmpl or helmfile.d]
    #[arg(
        short,
        long,
        global = true,
        env = "HELMFILE_FILE_PATH",
        default_value = "",
        hide_default_value = true
    )]
    file: String,
    /// The environment
    #[arg(short, long, global = true, env = "HELMFILE_ENVIRONMENT", default_value = "default")]
    environment: String,
    /// Only releases whose labels match: `key=value,key!=value`; given several times, one of them
    #[arg(short = 'l', long = "selector", global = true)]
    selectors: Vec<String>,
    /// The namespace of every release
    #[arg(
        short,
        long,
        global = true,
        env = "HELMFILE_NAMESPACE",
        default_value = "",
        hide_default_value = true
    )]
    namespace: String,
    /// The chart of every release
    #[arg(short, long, global = true, default_value = "", hide_default_value = true)]
    chart: String,
    /// The kubeconfig file
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig context
    #[arg(long, global = true, env = "HELMFILE_KUBE_CONTEXT", default_value = "", hide_default_value = true)]
    kube_context: String,
    #[command(flatten)]
    values: StateValues,
    /// Exit with status 0 if no release matches
    #[arg(long, global = true)]
    pub(super) allow_no_matching_release: bool,
    /// Do not fetch dependencies of local charts
    #[arg(long, global = true)]
    skip_deps: bool,
    /// Print no warnings
    #[arg(short, long, global = true, env = "HELMFILE_QUIET", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0)]
    quiet: bool,
    /// Show more
    #[arg(long, global = true, env = "HELMFILE_DEBUG", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0)]
    pub(super) debug: bool,
    /// Ask before changing a cluster
    #[arg(short, long, global = true, env = "HELMFILE_INTERACTIVE", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0)]
    pub(super) interactive: bool,
    /// Run from a bundle without a network, in place of a state file: a file of `windlass bundle`, or oci://HOST/REPOSITORY:TAG
    #[arg(long, global = true, value_name = "FILE|oci://…", default_value = "", hide_default_value = true)]
    bundle: String,
    /// Use insecure HTTP connections for the registry of the bundle
    #[arg(long, global = true)]
    pub(super) plain_http: bool,
    #[arg(skip)]
    opened: Option<Arc<OpenedBundle>>,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// Flags for the state's values.
#[derive(clap::Args, Clone, Debug)]
struct StateValues {
    /// Values of the state: `key.path=value,…`
    #[arg(long, global = true)]
    state_values_set: Vec<String>,
    /// Text values of the state: `key.path=value,…`
    #[arg(long, global = true)]
    state_values_set_string: Vec<String>,
    /// Files with values of the state, relative to the state file
    #[arg(long, global = true)]
    state_values_file: Vec<String>,
}

/// Flags of helmfile that change nothing here: no helm, kustomize or plugin is run.
#[derive(clap::Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
struct WithoutEffect {
    /// Shown by `build`: helm is not run
    #[arg(
        short = 'b',
        long,
        global = true,
        env = "HELMFILE_HELM_BINARY",
        default_value = "",
        hide_default_value = true
    )]
    helm_binary: String,
    /// Shown by `build`: kustomize is not run
    #[arg(
        short = 'k',
        long,
        global = true,
        env = "HELMFILE_KUSTOMIZE_BINARY",
        default_value = "",
        hide_default_value = true
    )]
    kustomize_binary: String,
    /// No effect: files are always handled in order
    #[arg(long, global = true)]
    sequential_helmfiles: bool,
    /// No effect: repositories are updated when a chart asks for them
    #[arg(long, global = true)]
    skip_refresh: bool,
    /// No effect
    #[arg(long, global = true)]
    disable_force_update: bool,
    /// No effect
    #[arg(long, global = true)]
    enable_live_output: bool,
    /// No effect
    #[arg(long, global = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", hide_default_value = true)]
    strip_args_values_on_exit_error: String,
    /// No effect
    #[arg(long, global = true)]
    log_level: Option<String>,
    /// No effect: plugins are not installed
    #[arg(long, global = true)]
    enforce_plugin_verification: bool,
    /// No effect: requests are repeated as those of the other commands
    #[arg(long, global = true)]
    repo_retries: Option<u32>,
    /// No effect
    #[arg(long, global = true)]
    otel_tracing: bool,
    /// No effect
    #[arg(long, global = true)]
    color: bool,
    /// No effect
    #[arg(long, global = true)]
    no_color: bool,
}

/// Whether an environment variable says yes, as Go's `ParseBool` reads it.
fn says_yes(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| parse_bool(&value) == Some(true))
}

impl Options {
    /// The question that the flags ask.
    pub(super) fn query(&self) -> Result<Query, Error> {
        let mut overrides = helmfile_compat::value::Map::new();
        for text in &self.values.state_values_set_string {
            merge::assign(&mut overrides, text, true)
                .map_err(|error| format!("--state-values-set-string {error}"))?;
        }
        for text in &self.values.state_values_set {
            merge::assign(&mut overrides, text, false)
                .map_err(|error| format!("--state-values-set {error}"))?;
        }
        Ok(Query {
            settings: Settings {
                environment: if self.environment.is_empty() {
                    "default".to_owned()
                } else {
                    self.environment.clone()
                },
                namespace: self.namespace.clone(),
                chart: self.chart.clone(),
                kube_context: self.kube_context.clone(),
                helm_binary: self.without_effect.helm_binary.clone(),
                kustomize_binary: self.without_effect.kustomize_binary.clone(),
                render_yaml: says_yes("HELMFILE_RENDER_YAML"),
            },
            file: self.file.clone(),
            selectors: self.selectors.clone(),
            values_files: self.values.state_values_file.clone(),
            overrides,
            reverse: false,
            explicit_selector_inheritance: std::env::var("HELMFILE_EXPERIMENTAL").is_ok_and(|value| {
                value.split(',').any(|item| item == "true" || item == "explicit-selector-inheritance")
            }),
        })
    }

    /// Where charts come from: this machine's state of Helm.
    pub(super) fn store(&self, globals: &Globals) -> ChartFetcher {
        ChartFetcher {
            fetcher: fetch::fetcher(globals),
            http: fetch::http(globals, TIMEOUT),
            budget: None,
            profile: globals.profile(),
            bounds: globals.render_bounds(),
            renders: RenderShare { memory: globals.render_bounds().memory, permits: None },
            documents: Some(Box::new(Schemas::new(globals))),
            root: None,
            warn: tell,
        }
    }

    /// Loads the charts and values of releases.
    pub(super) fn charts<'c>(
        &self,
        globals: &Globals,
        host: &'c dyn Host,
        store: &'c dyn ChartStore,
    ) -> ReleaseCharts<'c> {
        ReleaseCharts { host, store, profile: globals.profile(), skip_deps: self.skip_deps }
    }

    /// The state file, folder or address of `--file`; empty for the default.
    pub(super) fn file(&self) -> Result<&str, Error> {
        match self.file.as_str() {
            _ if !self.bundle.is_empty() => {
                Err("--bundle is for `windlass helmfile`: a bundle is not packed again".to_owned().into())
            }
            "-" => Err("standard input cannot be packed into a bundle: write it to a file".to_owned().into()),
            file => Ok(file),
        }
    }

    /// The same flags with another environment.
    pub(super) fn in_environment(&self, environment: &str) -> Self {
        Self { environment: environment.to_owned(), ..self.clone() }
    }

    /// The bundle beside the program, where neither a file is named nor the current directory has a helmfile.
    fn side_bundle(&self) -> Option<String> {
        let own = [DEFAULT_FILE, "helmfile.yaml.gotmpl", DEFAULT_DIR];
        let has_own = !self.file.is_empty() || own.iter().any(|name| Path::new(name).exists());
        if has_own { None } else { bundle_place::side_file() }
    }

    /// Opens the bundle of `--bundle`, or the one beside the program, if there is one.
    pub(super) fn opened(&self, globals: &Globals) -> Result<(Globals, Self), Error> {
        let mut globals = globals.clone();
        globals.kubeconfig = self.kubeconfig.clone().or(globals.kubeconfig);
        let place = match self.bundle.as_str() {
            "" => self.side_bundle(),
            place => Some(place.to_owned()),
        };
        let Some(place) = place else { return Ok((globals, self.clone())) };
        if !self.file.is_empty() {
            let text = "a bundle has its own state file: give --bundle without --file and HELMFILE_FILE_PATH";
            return Err(text.to_owned().into());
        }
        let artifact = bundle_place::read(&globals, &place, self.plain_http)?;
        let opened = OpenedBundle::open(&artifact.config, &artifact.layer)
            .map_err(|error| error.within(format!("bundle {place}")))?;
        self.with_bundle(&globals, &Arc::new(opened))
    }

    /// The flags of a run from a bundle: nothing is fetched.
    pub(super) fn with_bundle(
        &self,
        globals: &Globals,
        bundle: &Arc<OpenedBundle>,
    ) -> Result<(Globals, Self), Error> {
        let manifest = &bundle.manifest;
        if !manifest.environments.contains(&self.environment) {
            let known = manifest.environments.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let text = format!(
                "the bundle has the environments {known}, and not {:?}: bundle again",
                self.environment
            );
            return Err(text.into());
        }
        let mut globals = globals.clone();
        globals.offline = true;
        globals.inputs = Some(Arc::<OpenedBundle>::clone(bundle));
        let (file, opened) = (manifest.file.clone(), Some(Arc::clone(bundle)));
        Ok((globals, Self { file, opened, ..self.clone() }))
    }

    /// The folder of the command, absolute: that of the process, or that of the bundle.
    pub(super) fn cwd(&self) -> String {
        self.opened.as_ref().map_or_else(cwd, |bundle| bundle.directory().to_string_lossy().into_owned())
    }

    /// A path of the command line, relative to the folder of the state file; with a bundle, to that of the process.
    pub(super) fn given_path(&self, path: &str) -> String {
        if self.opened.is_some() { paths::within(&cwd(), path) } else { path.to_owned() }
    }

    /// The folder of relative paths that are written: that of the process with a bundle, else that of each state file.
    pub(super) fn output_folder(&self) -> Option<String> {
        self.opened.is_some().then(cwd)
    }

    /// Refuses to write into the bundle's temporary directory.
    pub(super) fn check_output(&self, path: &Path, flag: &str) -> Result<(), Error> {
        match self.opened.as_ref().and_then(|bundle| bundle.place(path)) {
            Some(place) => Err(format!(
                "{place} is in the bundle, where nothing is written: give an absolute path with {flag}"
            )
            .into()),
            None => Ok(()),
        }
    }

    /// This machine with what the environment permits, and with the files of the bundle if there is one.
    pub(super) fn host(&self, globals: &Globals) -> Box<dyn Host> {
        let insecure = !says_yes("HELMFILE_DISABLE_INSECURE_FEATURES");
        let permissions = Permissions {
            programs: insecure && !says_yes("HELMFILE_DISABLE_INSECURE_TEMPLATE_FUNCTIONS"),
            addresses: insecure,
            hooks: !says_yes("HELMFILE_DISABLE_HOOKS"),
        };
        let warn: fn(&str) = if self.quiet { |_| () } else { tell };
        let world = SystemWorld::default();
        let addresses = RemoteFiles::new(fetch::http(globals, TIMEOUT)).with_inputs(globals.inputs.clone());
        let secrets = Secrets::new(fetch::http(globals, TIMEOUT), super::super::connect_options(globals));
        let (world, secrets) = (Box::new(world), Box::new(secrets));
        let renders = RenderShare { memory: globals.render_bounds().memory, permits: None };
        let local = Box::new(LocalHost::new(world, Box::new(addresses), secrets, permissions, renders, warn));
        match &self.opened {
            Some(bundle) => Box::new(BundledHost::new(local, Arc::clone(bundle))),
            None => local,
        }
    }
}

/// The folder of the command, absolute.
pub(super) fn cwd() -> String {
    std::env::current_dir().map_or_else(|_| "/".to_owned(), |dir| dir.to_string_lossy().into_owned())
}
