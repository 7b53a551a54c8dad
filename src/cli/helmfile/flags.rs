//! helmfile's flags of every command.

use crate::cli::flags::Globals;
use crate::cli::{fetch, tell};
use crate::helmfile::local_host::{LocalHost, Permissions};
use crate::helmfile::remote_files::RemoteFiles;
use crate::helmfile::secrets::Secrets;
use crate::helmfile::state::load::Settings;
use crate::helmfile::state::visit::Query;
use crate::helmfile::state::{Error, merge};
use crate::render::SystemWorld;
use crate::source::http::TIMEOUT;

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
    pub(super) skip_deps: bool,
    /// Print no warnings
    #[arg(short, long, global = true, env = "HELMFILE_QUIET", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0)]
    quiet: bool,
    /// Show more
    #[arg(long, global = true, env = "HELMFILE_DEBUG", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0)]
    pub(super) debug: bool,
    /// Ask before changing a cluster
    #[arg(short, long, global = true, env = "HELMFILE_INTERACTIVE", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0)]
    pub(super) interactive: bool,
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
    /// No effect
    #[arg(long, global = true)]
    color: bool,
    /// No effect
    #[arg(long, global = true)]
    no_color: bool,
}

/// Whether an environment variable says yes, as Go's `ParseBool` reads it.
fn says_yes(name: &str) -> bool {
    std::env::var(name)
        .is_ok_and(|value| matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True"))
}

impl Options {
    /// The question that the flags ask.
    pub(super) fn query(&self) -> Result<Query, Error> {
        let mut overrides = crate::helmfile::state::value::Map::new();
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

    /// This machine, with what the environment permits.
    pub(super) fn host(&self, globals: &Globals) -> LocalHost {
        let insecure = !says_yes("HELMFILE_DISABLE_INSECURE_FEATURES");
        let permissions = Permissions {
            programs: insecure && !says_yes("HELMFILE_DISABLE_INSECURE_TEMPLATE_FUNCTIONS"),
            addresses: insecure,
            hooks: !says_yes("HELMFILE_DISABLE_HOOKS"),
        };
        let warn: fn(&str) = if self.quiet { |_| () } else { tell };
        let world = SystemWorld { cluster: None, documents: None, dns: false, deadline: None };
        let addresses = RemoteFiles::new(fetch::http(globals, TIMEOUT));
        let secrets = Secrets::new(fetch::http(globals, TIMEOUT), super::super::connect_options(globals));
        LocalHost::new(Box::new(world), Box::new(addresses), Box::new(secrets), permissions, warn)
    }
}

/// The folder of the command, absolute.
pub(super) fn cwd() -> String {
    std::env::current_dir().map_or_else(|_| "/".to_owned(), |dir| dir.to_string_lossy().into_owned())
}
