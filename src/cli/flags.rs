//! Flags that several commands share, with Helm's names.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use chart_compat::go::parse_bool;
use chart_compat::profile::Profile;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::environment::{self, Variables};
use windlass_fetch::helm_paths::Home;
use windlass_fetch::input_store::InputStore;
use windlass_render::RenderBounds;

/// Flags of every command.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct Globals {
    /// Namespace scope for this request
    #[arg(short, long, global = true)]
    pub(super) namespace: Option<String>,
    /// Path to the kubeconfig file
    #[arg(long, alias = "kube-config", global = true, value_parser = path(), value_hint = clap::ValueHint::AnyPath)]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Bearer token used for authentication
    #[arg(long, global = true)]
    pub(super) kube_token: Option<String>,
    /// Username to impersonate for the operation
    #[arg(long, global = true)]
    pub(super) kube_as_user: Option<String>,
    /// Group to impersonate for the operation, this flag can be repeated to specify multiple groups
    #[arg(long = "kube-as-group", global = true)]
    pub(super) kube_as_groups: Vec<String>,
    /// The address and the port for the Kubernetes API server
    #[arg(long, alias = "kube-server", global = true)]
    pub(super) kube_apiserver: Option<String>,
    /// The certificate authority file for the Kubernetes API server connection
    #[arg(long, global = true, value_parser = path(), value_hint = clap::ValueHint::AnyPath)]
    pub(super) kube_ca_file: Option<PathBuf>,
    /// Server name to use for Kubernetes API server certificate validation
    #[arg(long, global = true)]
    pub(super) kube_tls_server_name: Option<String>,
    /// If true, the Kubernetes API server's certificate will not be checked for validity
    #[arg(long = "kube-insecure-skip-tls-verify", global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    skip_tls_verify: Option<bool>,
    /// The flag, or its variable
    #[arg(skip)]
    pub(super) kube_insecure_skip_tls_verify: bool,
    /// Storage driver for release records: secret (the default), configmap or memory
    #[arg(skip)]
    pub(super) driver: String,
    /// Use colored output [default: auto]
    #[arg(long, visible_alias = "colour", global = true, value_enum)]
    color: Option<When>,
    /// Helm's bound of requests; ours is the server's fairness
    #[arg(long, global = true, hide = true, allow_negative_numbers = true)]
    pub(super) burst_limit: Option<i64>,
    #[arg(long, global = true, hide = true, allow_negative_numbers = true)]
    pub(super) qps: Option<f32>,
    /// Time limit for one response of the API server, or for the start of a watch; the request is then retried where that is safe
    /// [default: 70s]
    #[arg(long, global = true, env = "WINDLASS_REQUEST_TIMEOUT", value_parser = duration)]
    pub(super) request_timeout: Option<std::time::Duration>,
    /// Memory limit of one render, such as 512Mi [default: a quarter of the memory limit of the process, at most 2Gi]
    #[arg(long, global = true, env = "WINDLASS_RENDER_MEMORY", value_parser = size)]
    render_memory: Option<usize>,
    /// Time limit of one render [default: 60s]
    #[arg(long, global = true, env = "WINDLASS_RENDER_TIMEOUT", value_parser = duration)]
    render_timeout: Option<std::time::Duration>,
    /// Name of the kubeconfig context to use
    #[arg(long, global = true)]
    pub(super) kube_context: Option<String>,
    /// Path to the file containing repository names and URLs
    #[arg(long, global = true, value_parser = path(), value_hint = clap::ValueHint::AnyPath)]
    repository_config: Option<PathBuf>,
    /// Path to the directory containing cached repository indexes
    #[arg(long, global = true, value_parser = path(), value_hint = clap::ValueHint::AnyPath)]
    repository_cache: Option<PathBuf>,
    /// Path to the directory containing cached content (e.g. charts)
    #[arg(long, global = true, value_parser = path(), value_hint = clap::ValueHint::AnyPath)]
    content_cache: Option<PathBuf>,
    /// Path to the registry config file
    #[arg(long, global = true, value_parser = path(), value_hint = clap::ValueHint::AnyPath)]
    registry_config: Option<PathBuf>,
    /// Fetch nothing: use charts from disk and from the cache only
    #[arg(long, global = true, env = "WINDLASS_OFFLINE", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0)]
    pub(super) offline: bool,
    /// Enable verbose output
    #[arg(id = "debug", long = "debug", global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = boolean)]
    verbose: Option<bool>,
    /// The flag, or its variable
    #[arg(skip)]
    pub(super) debug: bool,
    #[command(flatten)]
    klog: Klog,
    /// Helm version to be compatible with: helm4 (the default) or helm3
    #[arg(long, global = true, env = "WINDLASS_COMPAT")]
    pub(super) compat: Option<Profile>,
    /// Show source lines and the origin of values with an error; auto: only on a terminal
    #[arg(long, global = true, env = "WINDLASS_EXPLAIN_ERRORS", value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    pub(super) explain_errors: When,
    /// Keeps what is read and fetched for a bundle, or has it in place of servers
    #[arg(skip)]
    pub(super) inputs: Option<Arc<dyn InputStore>>,
}

/// Flags of klog, which Helm takes too. Nothing here logs by them.
#[derive(clap::Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
struct Klog {
    #[arg(short = 'v', long = "v", global = true, hide = true, value_parser = whole, allow_negative_numbers = true)]
    verbosity: Option<i64>,
    #[arg(long, global = true, hide = true)]
    vmodule: Option<String>,
    #[arg(long, global = true, hide = true)]
    log_backtrace_at: Option<String>,
    #[arg(long, global = true, hide = true)]
    log_dir: Option<String>,
    #[arg(long, global = true, hide = true)]
    log_file: Option<String>,
    #[arg(long, global = true, hide = true, value_parser = whole)]
    log_file_max_size: Option<i64>,
    #[arg(long, global = true, hide = true)]
    stderrthreshold: Option<String>,
    #[arg(long, global = true, hide = true)]
    logtostderr: bool,
    #[arg(long, global = true, hide = true)]
    alsologtostderr: bool,
    #[arg(long, global = true, hide = true)]
    add_dir_header: bool,
    #[arg(long, global = true, hide = true)]
    one_output: bool,
    #[arg(long, global = true, hide = true)]
    skip_headers: bool,
    #[arg(long, global = true, hide = true)]
    skip_log_headers: bool,
    #[arg(long, global = true, hide = true)]
    legacy_stderr_threshold_behavior: bool,
}

impl Globals {
    /// Completes the flags by Helm's variables: a flag that is given comes first, also if it is empty.
    pub(super) fn with_environment(mut self, variables: &Variables<'_>) -> Self {
        for (text, name) in [
            (&mut self.namespace, "HELM_NAMESPACE"),
            (&mut self.kube_token, "HELM_KUBETOKEN"),
            (&mut self.kube_as_user, "HELM_KUBEASUSER"),
            (&mut self.kube_apiserver, "HELM_KUBEAPISERVER"),
            (&mut self.kube_tls_server_name, "HELM_KUBETLS_SERVER_NAME"),
            (&mut self.kube_context, "HELM_KUBECONTEXT"),
        ] {
            *text = text.take().or_else(|| variables.text(name));
        }
        self.kube_ca_file = self.kube_ca_file.or_else(|| variables.path("HELM_KUBECAFILE"));
        if self.kube_as_groups.is_empty() {
            self.kube_as_groups = variables.list("HELM_KUBEASGROUPS");
        }
        self.kube_insecure_skip_tls_verify =
            self.skip_tls_verify.unwrap_or_else(|| variables.boolean("HELM_KUBEINSECURE_SKIP_TLS_VERIFY"));
        self.debug = self.verbose.unwrap_or_else(|| variables.boolean("HELM_DEBUG"));
        self.color = self.color.or_else(|| variables.color());
        self.burst_limit = self.burst_limit.or_else(|| variables.whole("HELM_BURST_LIMIT"));
        self.qps = self.qps.or_else(|| variables.fraction("HELM_QPS"));
        self.driver = variables.text("HELM_DRIVER").unwrap_or_default();
        self.without_empty()
    }

    /// Drops empty flags, as Helm does, because scripts pass variables that can be empty.
    pub(super) fn without_empty(mut self) -> Self {
        for text in [
            &mut self.namespace,
            &mut self.kube_token,
            &mut self.kube_as_user,
            &mut self.kube_apiserver,
            &mut self.kube_tls_server_name,
            &mut self.kube_context,
        ] {
            text.take_if(|text| text.is_empty());
        }
        for path in [
            &mut self.kubeconfig,
            &mut self.kube_ca_file,
            &mut self.repository_config,
            &mut self.repository_cache,
            &mut self.content_cache,
            &mut self.registry_config,
        ] {
            path.take_if(|path| path.as_os_str().is_empty());
        }
        self
    }
}

impl Globals {
    /// The limits of one render.
    pub(super) fn render_bounds(&self) -> RenderBounds {
        let own = RenderBounds::default();
        RenderBounds {
            memory: self.render_memory.unwrap_or(own.memory),
            timeout: self.render_timeout.unwrap_or(own.timeout),
        }
    }
}

/// A path; can be empty.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// A boolean as Go reads it.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    parse_bool(text).ok_or_else(|| format!("strconv.ParseBool: parsing {text:?}: invalid syntax"))
}

/// A whole number.
pub(super) fn whole(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
}

/// A label in the form `key=value`.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(format!("{text} must be formatted as key=value"));
    };
    Ok((key.to_owned(), value.to_owned()))
}

/// When to use a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

impl Globals {
    /// Whether to colour standard output.
    pub(super) fn paints(&self) -> bool {
        environment::allows_colors()
            && match self.color.unwrap_or_default() {
                When::Always => true,
                When::Never => false,
                When::Auto => std::io::stdout().is_terminal() && environment::terminal_has_colors(),
            }
    }

    /// The paths of Helm's state.
    pub(super) fn home(&self) -> Home {
        let mut home = Home::from_env();
        for (place, flag) in [
            (&mut home.repositories, &self.repository_config),
            (&mut home.indexes, &self.repository_cache),
            (&mut home.content, &self.content_cache),
            (&mut home.registry, &self.registry_config),
        ] {
            if let Some(path) = flag {
                place.clone_from(path);
            }
        }
        home
    }

    /// The Helm version to be compatible with.
    pub(super) fn profile(&self) -> Profile {
        self.compat.unwrap_or_default()
    }
}

/// Flags for values.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Values {
    /// Specify values in a YAML file (can specify multiple; `-` is stdin)
    #[arg(short = 'f', long = "values", value_delimiter = ',')]
    pub(super) files: Vec<String>,
    /// Set values on the command line (key1=val1,key2=val2)
    #[arg(long)]
    pub(super) set: Vec<String>,
    /// Set STRING values on the command line
    #[arg(long)]
    pub(super) set_string: Vec<String>,
    /// Set values from files (key1=path1,key2=path2)
    #[arg(long)]
    pub(super) set_file: Vec<String>,
    /// Set JSON values on the command line (key1=jsonval1 or a whole object)
    #[arg(long)]
    pub(super) set_json: Vec<String>,
    /// Set a literal STRING value on the command line
    #[arg(long)]
    pub(super) set_literal: Vec<String>,
}

impl Values {
    /// Whether any values flag is set.
    pub(super) fn any(&self) -> bool {
        let Self { files, set, set_string, set_file, set_json, set_literal } = self;
        [files, set, set_string, set_file, set_json, set_literal].iter().any(|f| !f.is_empty())
    }
}

/// Flags of a render.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Render {
    #[command(flatten)]
    pub(super) values: Values,
    /// Disable JSON schema validation
    #[arg(long)]
    pub(super) skip_schema_validation: bool,
    /// Render subchart notes along with the parent
    #[arg(long)]
    pub(super) render_subchart_notes: bool,
    /// Enable DNS lookups when rendering templates
    #[arg(long)]
    pub(super) enable_dns: bool,
    /// Store generated values (passwords, certificates, times) in a Secret of the release and reuse them
    #[arg(long)]
    pub(super) replay: bool,
}

/// A Kubernetes quantity of bytes: `64Mi`, `1Gi`, `500M`, or a number.
pub(super) fn size(text: &str) -> Result<usize, String> {
    let bad =
        || format!("invalid size {text:?}: give a number of bytes, or one with Ki, Mi or Gi, such as 512Mi");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..digits].parse().map_err(|_| bad())?;
    let unit: usize = match &text[digits..] {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return Err(bad()),
    };
    number.checked_mul(unit).ok_or_else(bad)
}

/// A Go duration: `300ms`, `1h30m`, `90s`.
pub(super) fn duration(text: &str) -> Result<std::time::Duration, String> {
    let bad = || format!("invalid duration {text:?}: give a number with a unit, such as 90s or 5m");
    let mut rest = text;
    let mut seconds = 0.0f64;
    if rest == "0" {
        return Ok(std::time::Duration::ZERO);
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
        let number: f64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        seconds += number
            * match &rest[..unit] {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return Err(bad()),
            };
        rest = &rest[unit..];
    }
    if text.is_empty() {
        return Err(bad());
    }
    std::time::Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}
