//! `windlass operator`: keeps the modules of a directory released, until it is told to stop.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::addon_operator_env::{self, WithoutEffect};
use super::flags::Globals;
use super::hook_lines::Unfolded;
use super::observe;
use super::output::Format;
use super::webhook_flags::WebhookFlags;
use super::{Ended, Failure, cluster};
use crate::addon;
use crate::cluster::{CompletedRequest, Election};
use crate::controller::ContextOptions;
use crate::redact;
use crate::release::{Adoption, DriftMode, DriftPolicy};
use crate::runtime;
use crate::serve::body::{Budget, DEFAULT_MEMORY};
use crate::serve::runtime_config::{LOG_LEVEL, Runtime};
use crate::serve::{self, State};
use crate::shell_hooks::webhooks;

/// How logs are written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LogType {
    Text,
    Json,
    Color,
}

/// Flags of `operator`; their environment variables are addon-operator's.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Controllers to run, separated by commas: modules; * for all
    #[arg(long, env = "WINDLASS_CONTROLLERS", default_value = "modules")]
    controllers: runtime::Controllers,
    /// Directories of modules, separated by colons
    #[arg(long, env = "MODULES_DIR", default_value = "modules")]
    modules_dir: String,
    /// Directory of global hooks, and of the schemas of global values in its openapi/ [default: global-hooks, if it is there]
    #[arg(long, env = "GLOBAL_HOOKS_DIR")]
    global_hooks_dir: Option<PathBuf>,
    /// Name of the ConfigMap with values and enable flags
    #[arg(long, env = "ADDON_OPERATOR_CONFIG_MAP", default_value = "addon-operator")]
    config_map: String,
    /// Order of module directories without a number
    #[arg(long, env = "UNNUMBERED_MODULES_ORDER", default_value_t = addon::UNNUMBERED_ORDER)]
    unnumbered_modules_order: u32,
    /// End if a root or a module has no values.yaml
    #[arg(long, env = "STRICT_CHECK_VALUES_MODE_ENABLED", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    strict_check_values_mode_enabled: bool,
    /// Start modules of a number only when all of the lower ones have worked, as addon-operator does, not when they were tried
    #[arg(long, env = "WINDLASS_STRICT_ORDER", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    strict_order: bool,
    /// Name of a release that is never uninstalled, whoever made it
    #[arg(long, env = "HELM_IGNORE_RELEASE")]
    helm_ignore_release: Option<String>,
    /// Address for probes and metrics
    #[arg(
        long,
        visible_alias = "prometheus-listen-address",
        env = "ADDON_OPERATOR_LISTEN_ADDRESS",
        default_value = "0.0.0.0"
    )]
    listen_address: IpAddr,
    /// Port for probes and metrics; 0 takes a free one
    #[arg(
        long,
        visible_alias = "prometheus-listen-port",
        env = "ADDON_OPERATOR_LISTEN_PORT",
        default_value_t = 9650
    )]
    listen_port: u16,
    /// File to write the address into, once it is listened on
    #[arg(long)]
    address_file: Option<PathBuf>,
    /// Work only while this process holds the Lease of the operator, so that several can run and one works
    #[arg(long, env = "ADDON_OPERATOR_HA", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    leader_election: bool,
    /// Name of this process among those that stand for election
    #[arg(long, env = "ADDON_OPERATOR_POD")]
    pod_name: Option<String>,
    /// Address of this process, to which the Services of webhooks lead while it leads [default: --listen-address, if it is one]
    #[arg(long, env = "WINDLASS_POD_IP")]
    pod_ip: Option<IpAddr>,
    /// Revisions kept of each release
    #[arg(long, env = "HELM_HISTORY_MAX", default_value_t = 10)]
    helm_history_max: usize,
    /// Bound of each wait of a release, e.g. 20m
    #[arg(long, env = "HELM_TIMEOUT", default_value = "20m", value_parser = super::flags::duration)]
    helm_timeout: Duration,
    /// What is done about changed or deleted objects: correct, report or off; a chart's annotation windlass.dev/drift, and
    /// that of an object, come first
    #[arg(long, env = "WINDLASS_DRIFT", default_value = "correct")]
    drift: DriftMode,
    /// Modules take over objects that belong to other releases; otherwise such an object is an error
    #[arg(long, env = "WINDLASS_TAKE_OWNERSHIP", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    take_ownership: bool,
    /// Apply crds/ of modules with a ServiceAccount with the operator's own rights
    #[arg(long, env = "WINDLASS_CRDS_AS_OPERATOR", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    crds_as_operator: bool,
    /// Fields that are no drift: PATH, Kind:PATH or Kind/name:PATH (repeatable)
    #[arg(long, env = "WINDLASS_DRIFT_IGNORE", value_delimiter = ',')]
    drift_ignore: Vec<String>,
    /// Directory for the files of hooks [default: addon-operator in the system's directory for such files]
    #[arg(long, env = "ADDON_OPERATOR_TMP_DIR")]
    tmp_dir: Option<PathBuf>,
    /// Keep the files of hooks after their runs
    #[arg(long, env = "DEBUG_KEEP_TMP_FILES", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    debug_keep_tmp_files: bool,
    /// Kill a run of a hook after this time, e.g. 10m, unless the hook's settings.timeout says another
    #[arg(long, env = "WINDLASS_HOOK_TIMEOUT", value_parser = super::flags::duration)]
    hook_timeout: Option<Duration>,
    /// Modules of higher numbers wait no longer for a module whose hook runs for so long; the hook itself runs on, but a script
    /// or a --config that takes as long is killed
    #[arg(long, env = "WINDLASS_HOOK_PATIENCE", default_value = "5m", value_parser = super::flags::duration)]
    hook_patience: Duration,
    /// Give metrics of hooks that name no group the hook's name for it: they begin anew in each run then
    #[arg(long, env = "WINDLASS_GROUP_HOOK_METRICS", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    group_hook_metrics: bool,
    #[command(flatten)]
    webhooks: WebhookFlags,
    /// What the names of metrics begin with
    #[arg(long, env = "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX", default_value = serve::addon_operator_metrics::PREFIX)]
    prometheus_metrics_prefix: String,
    /// Tell what modules are like as objects: kubectl get modules.windlass.dev
    #[arg(long, env = "WINDLASS_MODULE_STATUS", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "true", default_missing_value = "true", require_equals = true)]
    module_status: bool,
    /// How often the files of modules are looked at for changes; 0: only at the start
    #[arg(long, env = "WINDLASS_MODULES_SCAN_INTERVAL", default_value = "2s", value_parser = super::flags::duration)]
    modules_scan_interval: Duration,
    /// Unix socket to ask the operator by, as `windlass queue`, `module`, … do; empty: none
    #[arg(long, env = "DEBUG_UNIX_SOCKET", default_value = serve::debug::SOCKET)]
    debug_unix_socket: PathBuf,
    /// Address that answers like the socket, without asking who it is: values and Secrets are shown
    #[arg(long, env = "DEBUG_HTTP_SERVER_ADDR")]
    debug_http_addr: Option<String>,
    /// Memory that requests to webhooks may take together, in MiB; one that needs more is refused
    #[arg(long, env = "WINDLASS_REQUEST_MEMORY", default_value_t = DEFAULT_MEMORY, value_parser = memory)]
    request_memory: usize,
    /// Flags that count, lowest first, of Static, ModuleValues (as up to version 1.3 of addon-operator), DynamicallyEnabled,
    /// KubeConfig and ScriptEnabled [default: Static,DynamicallyEnabled,KubeConfig,ScriptEnabled]
    #[arg(
        long,
        env = "ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS",
        default_value = "",
        hide_default_value = true
    )]
    applied_module_extenders: addon::Enabling,
    /// Labels that every object of a module gets: KEY=VALUE, separated by commas
    #[arg(long, env = "ADDON_OPERATOR_CRD_EXTRA_LABELS", default_value = "heritage=addon-operator")]
    crd_extra_labels: String,
    /// Files of crds/ whose names begin so are no CRDs
    #[arg(long, env = "ADDON_OPERATOR_CRD_FILTER_PREFIXES", default_value = "doc-,_")]
    crd_filters: String,
    /// Write nothing, tell what would change in the cluster, and end: exit status 2 if anything would
    #[arg(long)]
    observe: bool,
    /// Form of what --observe tells
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Least level of log lines
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_parser = level)]
    log_level: LevelFilter,
    /// Form of log lines
    #[arg(long, env = "LOG_TYPE", default_value = "text")]
    log_type: LogType,
    /// Write log lines without their times
    #[arg(long, env = "LOG_NO_TIME", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    log_no_time: bool,
    /// Write lines of JSON that hooks print as they are, with what is known of the hook added
    #[arg(long, env = "LOG_PROXY_HOOK_JSON", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    log_proxy_hook_json: bool,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// MiB of memory, as a number that fits into an address space.
fn memory(text: &str) -> Result<usize, String> {
    let mib: u32 = text.parse().map_err(|e| format!("{e}"))?;
    match mib {
        1..=1_048_576 => usize::try_from(mib).map_err(|e| e.to_string()),
        _ => Err("write a number of MiB from 1 to 1048576".to_owned()),
    }
}

/// A level by its name; addon-operator's `fatal` maps to `error`, our highest level.
fn level(name: &str) -> Result<LevelFilter, String> {
    let name = name.to_lowercase();
    let known = if name == "fatal" { "error" } else { &name };
    known.parse().map_err(|_| format!("{name:?} is not a level: write error, warn, info, debug or trace"))
}

/// Which log lines are written.
fn log_filter(level: LevelFilter) -> Targets {
    // Libraries below us speak of frames and sockets; only their warnings are for operators.
    Targets::new()
        .with_default(LevelFilter::WARN)
        // What goes wrong with a watch is told by us, once.
        .with_target("kube_runtime", LevelFilter::ERROR)
        .with_target("windlass", level)
}

/// Standard error without secrets. Each line of the log is written at once, whole.
struct MaskedStderr;

impl std::io::Write for MaskedStderr {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        std::io::stderr().write_all(redact::process().mask(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Starts logging; the level is a parameter that can be changed.
fn start_logs(args: &Args, runtime: &Runtime) -> Result<(), Failure> {
    let (filter, handle) = reload::Layer::new(log_filter(args.log_level));
    let lines = tracing_subscriber::fmt::layer().with_writer(|| MaskedStderr);
    let layer = match (args.log_type, args.log_no_time) {
        (LogType::Text, false) => lines.with_ansi(false).boxed(),
        (LogType::Text, true) => lines.with_ansi(false).without_time().boxed(),
        (LogType::Color, false) => lines.with_ansi(true).boxed(),
        (LogType::Color, true) => lines.with_ansi(true).without_time().boxed(),
        (LogType::Json, false) => lines.json().flatten_event(true).map_event_format(Unfolded).boxed(),
        (LogType::Json, true) => {
            lines.json().flatten_event(true).without_time().map_event_format(Unfolded).boxed()
        }
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(layer)
        .try_init()
        .map_err(|e| format!("cannot start logging: {e}"))?;
    let change = move |value: &str| handle.reload(log_filter(level(value)?)).map_err(|e| e.to_string());
    let default = args.log_level.to_string();
    let description = "Global log level. Default duration for debug level is 30m0s";
    runtime.register(LOG_LEVEL, description, &default, Box::new(change));
    Ok(())
}

/// Opens the debug endpoint. What cannot be opened is told: the operator works without it.
async fn serve_debug(
    args: &Args,
    state: &Arc<State>,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let stop = || {
        let mut stopped = stopped.clone();
        // An error means that the sender is gone: stop as well.
        async move { drop(stopped.wait_for(|s| *s).await) }
    };
    let mut servers = Vec::new();
    let path = &args.debug_unix_socket;
    if !path.as_os_str().is_empty() {
        match serve::debug::serve_socket(path, Arc::clone(state), stop()).await {
            Ok(server) => servers.push(server),
            Err(e) => tracing::warn!(
                path = %path.display(),
                "no debug socket: {e}; name another path with --debug-unix-socket"
            ),
        }
    }
    let Some(text) = args.debug_http_addr.as_deref().filter(|a| !a.is_empty()) else { return servers };
    // As Go reads addresses: `:9652` is every interface.
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let opened = match whole.parse::<SocketAddr>() {
        Ok(address) => {
            serve::debug::serve_address(address, Arc::clone(state), stop()).await.map_err(|e| e.to_string())
        }
        Err(e) => Err(e.to_string()),
    };
    match opened {
        Ok((address, server)) => {
            if !address.ip().is_loopback() {
                tracing::warn!(%address, "the debug endpoint shows values and Secrets to every client of this address");
            }
            tracing::info!(%address, "serving the debug endpoint");
            servers.push(server);
        }
        Err(e) => tracing::warn!(address = text, "no debug endpoint there: {e}; write e.g. 127.0.0.1:9652"),
    }
    servers
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let bodies = Arc::new(Budget::new(args.request_memory << 20));
    let state = Arc::new(State { bodies, ..State::new(&args.prometheus_metrics_prefix) });
    start_logs(args, &state.runtime)?;
    let names = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let mut names: Vec<String> = names.filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort();
    for line in args.without_effect.told(&names)? {
        tracing::warn!("{line}");
    }
    let globals =
        &addon_operator_env::complete(globals, &|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    let working = std::env::current_dir().map_err(|e| format!("cannot tell the working directory: {e}"))?;
    let global_hooks_dir = addon_operator_env::global_hooks_dir(args.global_hooks_dir.as_deref(), &working);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    runtime.block_on(async {
        let cluster = cluster(globals).await?;
        let counting = Arc::clone(&state);
        cluster.observe(Box::new(move |exchange| count(&counting, exchange)));
        let context = ContextOptions {
            storage: super::storage::storage(&globals.driver)?,
            render_bounds: globals.render_bounds(),
            crds_as_operator: args.crds_as_operator,
        };
        let directories = addon::DirectoryOptions {
            modules: args.modules_dir.clone(),
            global_hooks: global_hooks_dir,
            unnumbered_order: args.unnumbered_modules_order,
            strict: args.strict_check_values_mode_enabled,
            scan_interval: Some(args.modules_scan_interval).filter(|every| !every.is_zero()),
        };
        let releases = addon::ModuleReleaseOptions {
            history_max: args.helm_history_max,
            timeout: args.helm_timeout,
            profile: globals.profile(),
            drift: DriftPolicy { mode: args.drift, ignore: args.drift_ignore.clone() },
            adoption: if args.take_ownership { Adoption::Any } else { Adoption::Unowned },
            extra_labels: labels(&args.crd_extra_labels)?,
            crd_filters: list(&args.crd_filters),
            ignored: args.helm_ignore_release.clone().filter(|name| !name.is_empty()),
        };
        let hooks = addon::HookOptions {
            tmp_dir: args.tmp_dir.clone().unwrap_or_else(|| std::env::temp_dir().join("addon-operator")),
            keep_tmp_files: args.debug_keep_tmp_files,
            timeout: args.hook_timeout,
            patience: args.hook_patience,
            proxy_json: args.log_proxy_hook_json,
            group_metrics: args.group_hook_metrics,
            webhooks: webhooks(args)?,
        };
        let modules = addon::Options {
            namespace: globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned()),
            config_map: args.config_map.clone(),
            directories,
            releases,
            hooks,
            strict_order: args.strict_order,
            enabling: args.applied_module_extenders.clone(),
            module_status: args.module_status,
        };
        if args.observe {
            return observe::run(cluster, &context, &modules, args.output, globals.paints()).await;
        }
        let mut ended = Ended::listen()?;
        let (stopping, stopped) = watch::channel(false);
        let address = SocketAddr::new(args.listen_address, args.listen_port);
        let mut server_stop = stopped.clone();
        let (address, server) = serve::serve(address, Arc::clone(&state), async move {
            // An error means that the sender is gone: stop as well.
            drop(server_stop.wait_for(|s| *s).await);
        })
        .await
        .map_err(|e| format!("cannot listen on {address}: {e}"))?;
        tracing::info!(%address, "serving probes and metrics");
        if let Some(file) = &args.address_file {
            std::fs::write(file, address.to_string())
                .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        }
        let mut servers = serve_debug(args, &state, &stopped).await;
        servers.push(server);
        let stop = async move { ended.next().await };
        let options = runtime::Options {
            controllers: args.controllers.clone(),
            election: args.leader_election.then(|| election(args, &modules)),
            context,
            modules,
        };
        let result = runtime::run(cluster, options, state, stop).await.map_err(|e| e.to_string());
        stopping.send_replace(true);
        drop(tokio::time::timeout(Duration::from_secs(1), futures::future::join_all(servers)).await);
        result.map(|()| ExitCode::SUCCESS)
    })
}

/// Counts a request as addon-operator's `kube-client`: one client does the work of its three.
fn count(state: &State, exchange: &CompletedRequest) {
    let CompletedRequest { method, host, path, status, took } = exchange;
    let code = status.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
    let component = ("component", "main");
    let labels = [component, ("code", &code), ("method", method), ("host", host)];
    state.measures.add("kubernetes_client_request_result_total", &labels, 1.0);
    let url = format!("https://{host}{path}");
    let labels = [component, ("verb", method), ("url", &url)];
    state.measures.observe("kubernetes_client_request_latency_seconds", &labels, *took);
}

/// How webhooks are served. Of several operators the leader alone answers, so that it says where it is.
fn webhooks(args: &Args) -> Result<webhooks::Options, Failure> {
    let mut options = args.webhooks.options()?;
    if args.leader_election && options.url.is_none() && options.enabled {
        let heard = Some(args.listen_address).filter(|a| !a.is_unspecified() && !a.is_loopback());
        options.leader_at = args.pod_ip.or(heard);
        if options.leader_at.is_none() {
            tracing::warn!(
                "--pod-ip is not set: if hooks have webhooks, see to it that their Service leads to the operator that leads, for no \
                 other one answers"
            );
        }
    }
    Ok(options)
}

/// The parts of a list that is separated by commas.
fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Labels from their text.
fn labels(text: &str) -> Result<BTreeMap<String, String>, Failure> {
    let label = |part: String| match part.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => {
            Err(format!("--crd-extra-labels: {part:?} is not a label; write KEY=VALUE, separated by commas"))
        }
    };
    list(text).into_iter().map(label).collect()
}

/// The Lease that the operators of one ConfigMap share.
fn election(args: &Args, options: &addon::Options) -> Election {
    let name = match options.config_map.as_str() {
        "addon-operator" => "windlass-operator".to_owned(),
        other => format!("windlass-operator-{other}"),
    };
    let identity = args.pod_name.clone().unwrap_or_else(|| {
        let started = jiff::Timestamp::now().as_nanosecond();
        format!("windlass-{}-{started:x}", std::process::id())
    });
    Election { namespace: options.namespace.clone(), name, identity }
}
