//! Flags of `windlass operator`; their environment variables are addon-operator's.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;

use super::addon_operator_env::WithoutEffect;
use super::chart_flags::ChartFlags;
use super::flags::Globals;
use super::helmfile::bundle_place;
use super::image_flags::ImageFlags;
use super::output::Format;
use super::reload_flags::ReloadFlags;
use super::webhook_flags::WebhookFlags;
use crate::runtime::{self, Controller};
use windlass_base::bounded_read;
use windlass_controller::serve;
use windlass_controller::serve::body::DEFAULT_MEMORY;
use windlass_controller::{AccountName, ControllerOptions};
use windlass_engine::{DriftMode, DriftPolicy};
use windlass_fetch::location::Location;
use windlass_fetch::private_directory;
use windlass_flux::notifications::NotifyOptions;
use windlass_helmcharts::{DEFAULT_MANAGER, HelmChartOptions, ReinstallMode, STABLE_REPOSITORY};
use windlass_helmfile::resource::{CustomKind, HelmfileOptions, KindsFile};
use windlass_modules::addon;

/// Format of log lines.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum LogType {
    Text,
    Json,
    Color,
}

/// All flags of `operator`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Controllers to run, separated by commas: modules, helmreleases, helmfiles, charts, helmcharts, reload, images, configmapsources,
    /// imagebuilds; * for all but helmcharts, which k3s reconciles itself unless that is disabled, reload and images, which Reloader and keel
    /// may do, configmapsources and imagebuilds
    #[arg(long, env = "WINDLASS_CONTROLLERS", default_value = "modules")]
    pub(super) controllers: runtime::Controllers,
    #[command(flatten)]
    pub(super) modules: ModuleFlags,
    #[command(flatten)]
    pub(super) helm_releases: HelmReleaseFlags,
    #[command(flatten)]
    pub(super) helmfiles: HelmfileFlags,
    #[command(flatten)]
    pub(super) charts: ChartFlags,
    #[command(flatten)]
    pub(super) helmcharts: HelmChartFlags,
    #[command(flatten)]
    pub(super) reload: ReloadFlags,
    #[command(flatten)]
    pub(super) images: ImageFlags,
    #[command(flatten)]
    pub(super) releases: ReleaseFlags,
    #[command(flatten)]
    pub(super) hooks: HookFlags,
    #[command(flatten)]
    pub(super) servers: ServerFlags,
    #[command(flatten)]
    pub(super) election: ElectionFlags,
    #[command(flatten)]
    pub(super) logs: LogFlags,
    /// Show what would change in the cluster, without writing, and exit: status 2 if anything would change
    #[arg(long)]
    pub(super) observe: bool,
    /// Output format of --observe
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Format,
    #[command(flatten)]
    pub(super) without_effect: WithoutEffect,
}

/// Flags for the location, selection and order of modules.
#[derive(clap::Args)]
pub(super) struct ModuleFlags {
    /// Directories that contain modules, separated by colons
    #[arg(long, env = "MODULES_DIR", default_value = "modules")]
    pub(super) modules_dir: String,
    /// Directory of global hooks, with the schemas of global values in its openapi/ [default: global-hooks, if it exists]
    #[arg(long, env = "GLOBAL_HOOKS_DIR")]
    pub(super) global_hooks_dir: Option<PathBuf>,
    /// Directory of hooks, as of shell-operator: they run without modules and a ConfigMap [default: hooks, where the program is called
    /// shell-operator]
    #[arg(long, conflicts_with = "global_hooks_dir")]
    pub(super) hooks_dir: Option<PathBuf>,
    /// Set where this process stands in for shell-operator
    #[arg(long, hide = true, num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) hooks_only: bool,
    /// Name of the ConfigMap with values and enable flags
    #[arg(long, env = "ADDON_OPERATOR_CONFIG_MAP", default_value = "addon-operator")]
    pub(super) config_map: String,
    /// Order of module directories without a number
    #[arg(long, env = "UNNUMBERED_MODULES_ORDER", default_value_t = addon::UNNUMBERED_ORDER)]
    pub(super) unnumbered_modules_order: u32,
    /// Interval between scans of module files for changes; 0 scans at the start only
    #[arg(long, env = "WINDLASS_MODULES_SCAN_INTERVAL", default_value = "2s", value_parser = super::flags::duration)]
    pub(super) modules_scan_interval: Duration,
    /// Exit if a modules directory or a module has no values.yaml
    #[arg(long, env = "STRICT_CHECK_VALUES_MODE_ENABLED", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) strict_check_values_mode_enabled: bool,
    /// Start the modules of a number only when all modules of lower numbers have succeeded, as addon-operator does; otherwise when
    /// each of them was tried once
    #[arg(long, env = "WINDLASS_STRICT_ORDER", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) strict_order: bool,
    /// Sources of enable flags, in ascending precedence, out of Static, ModuleValues (as up to version 1.3 of addon-operator),
    /// DynamicallyEnabled, KubeConfig and ScriptEnabled [default: Static,DynamicallyEnabled,KubeConfig,ScriptEnabled]
    #[arg(
        long,
        env = "ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS",
        default_value = "",
        hide_default_value = true
    )]
    pub(super) applied_module_extenders: addon::Enabling,
    /// Write module status to the cluster (kubectl get modules.windlass.dev): true, false, or deckhouse.io to keep modules.deckhouse.io
    /// too, which readiness probes of module-sdk read
    #[arg(
        long,
        env = "WINDLASS_MODULE_STATUS",
        num_args = 0..=1,
        default_value = "true",
        default_missing_value = "true",
        require_equals = true,
        value_name = "true|false|deckhouse.io"
    )]
    pub(super) module_status: addon::ModuleStatus,
}

/// Flags of the HelmRelease controller, with helm-controller's names.
#[derive(clap::Args)]
pub(super) struct HelmReleaseFlags {
    /// ServiceAccount of HelmReleases, Helmfiles, ConfigMapSources, ImageBuilds and objects of charts' kinds that name none, and of HelmCharts
    #[arg(long, env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT")]
    pub(super) default_service_account: Option<AccountName>,
    /// ServiceAccount whose token goes to other clusters where a ConfigMap of kubeConfig names none
    #[arg(long, env = "WINDLASS_DEFAULT_KUBECONFIG_SERVICE_ACCOUNT")]
    pub(super) default_kubeconfig_service_account: Option<AccountName>,
    /// Refuse references of HelmReleases, ConfigMapSources, Alerts and Receivers to objects in other namespaces
    #[arg(long, env = "WINDLASS_NO_CROSS_NAMESPACE_REFS", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) no_cross_namespace_refs: bool,
    /// Number of HelmReleases, of Helmfiles and of HelmCharts that are reconciled at a time; those that wait for the cluster do not count
    #[arg(long, env = "WINDLASS_CONCURRENT", default_value_t = 8)]
    pub(super) concurrent: usize,
    /// Reconcile objects of all namespaces; otherwise only those of the namespace in the environment variable
    /// RUNTIME_NAMESPACE
    #[arg(long, env = "WINDLASS_WATCH_ALL_NAMESPACES", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "true", default_missing_value = "true", require_equals = true)]
    pub(super) watch_all_namespaces: bool,
    /// Reconcile only objects of Flux, Helmfiles, HelmCharts and objects of charts' kinds with these labels, such as
    /// sharding.fluxcd.io/key=shard1
    #[arg(long, env = "WINDLASS_WATCH_LABEL_SELECTOR", default_value = "", hide_default_value = true)]
    pub(super) watch_label_selector: String,
    /// Who reconciles Flux's sources: own is this process, flux a source-controller, auto this process unless there is a
    /// source-controller
    #[arg(long, env = "WINDLASS_SOURCES", default_value = "auto", value_name = "auto|own|flux")]
    pub(super) sources: runtime::ControllerMode,
    /// Directory of artifacts of sources [default: windlass-artifacts in the temporary directory]
    #[arg(long, env = "WINDLASS_STORAGE_PATH")]
    pub(super) storage_path: Option<PathBuf>,
    /// Address where artifacts of sources are served
    #[arg(long, env = "WINDLASS_STORAGE_ADDR", default_value = "127.0.0.1:9790")]
    pub(super) storage_addr: SocketAddr,
    /// Host and port at which other controllers reach the artifacts [default: that of --storage-addr]
    #[arg(long, env = "WINDLASS_STORAGE_ADV_ADDR")]
    pub(super) storage_adv_addr: Option<String>,
    /// Sources, and services that get notifications, may be at addresses of this machine and of its cloud's metadata service
    #[arg(long, env = "WINDLASS_ALLOW_LOCAL_SOURCES", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) allow_local_sources: bool,
    /// Sources with the provider aws, azure or gcp, and without credentials, act with the cloud identity of this process
    #[arg(long, env = "WINDLASS_ALLOW_WORKLOAD_IDENTITY", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) allow_workload_identity: bool,
    /// Who sends Flux's notifications and answers the webhooks of its Receivers: own is this process, flux a notification-controller,
    /// auto this process unless there is a notification-controller or --events-addr is set
    #[arg(long, env = "WINDLASS_NOTIFICATIONS", default_value = "auto", value_name = "auto|own|flux")]
    pub(super) notifications: runtime::ControllerMode,
    /// URL of the notification-controller that events are posted to
    #[arg(long, env = "WINDLASS_EVENTS_ADDR")]
    pub(super) events_addr: Option<String>,
    /// Address where the webhooks of Receivers are served
    #[arg(long, env = "WINDLASS_RECEIVER_ADDR", default_value = "127.0.0.1:9292")]
    pub(super) receiver_addr: SocketAddr,
    /// Namespace of helm-controller, whose leader election Lease is held while HelmReleases are reconciled
    #[arg(long, env = "WINDLASS_HELM_CONTROLLER_NAMESPACE", default_value = "flux-system")]
    pub(super) helm_controller_namespace: String,
}

impl HelmReleaseFlags {
    /// Who sends notifications.
    pub(super) fn notifications(&self) -> Result<runtime::NotifyProcess, String> {
        let address = |text: &String| match Location::parse(text) {
            Ok(url) if ["http", "https"].contains(&url.scheme.as_str()) => Ok(url),
            _ => Err(format!("--events-addr: {text:?} is not a URL of http or https")),
        };
        Ok(runtime::NotifyProcess {
            mode: self.notifications,
            events_address: self
                .events_addr
                .as_ref()
                .filter(|text| !text.is_empty())
                .map(address)
                .transpose()?,
            receiver_address: self.receiver_addr,
            options: NotifyOptions {
                namespace: self.watched_namespace()?,
                no_cross_namespace_refs: self.no_cross_namespace_refs,
                allow_local_addresses: self.allow_local_sources,
            },
        })
    }

    /// The only namespace whose objects are reconciled, if there is one.
    pub(super) fn watched_namespace(&self) -> Result<Option<String>, String> {
        if self.watch_all_namespaces {
            return Ok(None);
        }
        let own = std::env::var("RUNTIME_NAMESPACE").ok().filter(|own| !own.is_empty());
        own.map(Some)
            .ok_or_else(|| "--watch-all-namespaces=false: RUNTIME_NAMESPACE names no namespace".to_owned())
    }

    /// The directory of artifacts.
    pub(super) fn artifact_directory(&self) -> PathBuf {
        let default = || std::env::temp_dir().join("windlass-artifacts");
        self.storage_path.clone().filter(|path| !path.as_os_str().is_empty()).unwrap_or_else(default)
    }
}

/// Flags of the Helmfile controller, beside those that it shares with HelmReleases.
#[derive(clap::Args)]
pub(super) struct HelmfileFlags {
    /// File with kinds whose objects stand for Helmfiles
    #[arg(long, env = "WINDLASS_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of charts of Helmfiles, for this user only [default: windlass-helmfiles in the temporary directory]
    #[arg(long, env = "WINDLASS_HELMFILE_CACHE")]
    helmfile_cache: Option<PathBuf>,
    /// Bundle of Helmfiles without source and state: a file, or oci://HOST/REPOSITORY:TAG [default: windlass-bundle.tar beside the
    /// program, if there is one]
    #[arg(long, env = "WINDLASS_BUNDLE", value_name = "FILE|oci://…")]
    bundle: Option<String>,
    /// Reconcile each Helmfile once and exit: status 1 if one is not ready. Only with --controllers=helmfiles
    #[arg(long)]
    once: bool,
}

impl HelmfileFlags {
    /// How Helmfiles are reconciled.
    ///
    /// # Errors
    /// The file cannot be read, or --once is set beside other controllers.
    pub(super) fn process(
        &self,
        globals: &Globals,
        controllers: &runtime::Controllers,
        shared: &HelmReleaseFlags,
    ) -> Result<runtime::HelmfileProcess, String> {
        let alone = |controller| !controllers.has(controller);
        let others = [
            Controller::Modules,
            Controller::HelmReleases,
            Controller::Charts,
            Controller::HelmCharts,
            Controller::Reload,
            Controller::Images,
            Controller::ConfigMapSources,
            Controller::ImageBuilds,
        ];
        if self.once && !others.into_iter().all(alone) {
            return Err("--once works with --controllers=helmfiles only".to_owned());
        }
        let kinds = match &self.config {
            Some(path) => kinds_of(path)?,
            None => Vec::new(),
        };
        let cache = || std::env::temp_dir().join("windlass-helmfiles");
        let cache = self.helmfile_cache.clone().unwrap_or_else(cache);
        let cache = match controllers.has(Controller::Helmfiles) {
            true => private_directory::create(&cache)
                .map_err(|error| format!("--helmfile-cache {}: {error}", cache.display()))?,
            false => cache,
        };
        let place = self.bundle.clone().filter(|place| !place.is_empty()).or_else(bundle_place::side_file);
        let place = place.filter(|_| controllers.has(Controller::Helmfiles));
        Ok(runtime::HelmfileProcess {
            options: HelmfileOptions {
                default_service_account: shared.default_service_account.clone(),
                allow_local_addresses: shared.allow_local_sources,
                cache,
                bundle: place.map(|place| bundle_place::open(globals, &place)).transpose()?,
            },
            kinds,
            controller: ControllerOptions {
                namespace: shared.watched_namespace()?,
                selector: shared.watch_label_selector.clone(),
                concurrency: shared.concurrent,
                once: self.once,
                ..ControllerOptions::default()
            },
        })
    }
}

/// Flags of the controller of k3s' HelmCharts, beside those that it shares with HelmReleases.
#[derive(clap::Args)]
pub(super) struct HelmChartFlags {
    /// Name in the annotation helmcharts.cattle.io/managed-by of the HelmCharts to reconcile; those without the annotation get it
    #[arg(long, env = "WINDLASS_MANAGED_BY", default_value = DEFAULT_MANAGER, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(super) managed_by: String,
    /// What the failure policy reinstall of HelmCharts does: as-needed creates objects anew that cannot be changed, as-k3s uninstalls a
    /// release whose newest revision has failed
    #[arg(
        long,
        env = "WINDLASS_FAILURE_POLICY_REINSTALL",
        default_value = "as-needed",
        value_name = "as-needed|as-k3s"
    )]
    failure_policy_reinstall: ReinstallMode,
    /// URL of the repository of HelmCharts whose chart is stable/NAME
    #[arg(long, env = "STABLE_REPO_URL", default_value = STABLE_REPOSITORY)]
    stable_repo_url: String,
}

impl HelmChartFlags {
    /// How HelmCharts are reconciled.
    ///
    /// # Errors
    /// No namespace is named where one is watched.
    pub(super) fn process(
        &self,
        releases: &ReleaseFlags,
        shared: &HelmReleaseFlags,
    ) -> Result<runtime::HelmChartProcess, String> {
        Ok(runtime::HelmChartProcess {
            options: HelmChartOptions {
                managed_by: self.managed_by.clone(),
                default_service_account: shared.default_service_account.clone(),
                allow_local_addresses: shared.allow_local_sources,
                stable_repository: self.stable_repo_url.clone(),
                drift: releases.drift_policy(),
                reinstall: self.failure_policy_reinstall,
                keeps_own_status: false,
            },
            controller: ControllerOptions {
                namespace: shared.watched_namespace()?,
                selector: shared.watch_label_selector.clone(),
                concurrency: shared.concurrent,
                once: false,
                ..ControllerOptions::default()
            },
        })
    }
}

/// The kinds of a file.
fn kinds_of(path: &Path) -> Result<Vec<CustomKind>, String> {
    let failed = |error: String| format!("--config {}: {error}", path.display());
    let text =
        bounded_read::read_text(path, bounded_read::MAX_TEXT).map_err(|error| failed(error.to_string()))?;
    let file = KindsFile::parse(&text).map_err(|error| failed(error.to_string()))?;
    for line in &file.ignored {
        tracing::warn!("--config {}: no effect: {line}", path.display());
    }
    Ok(file.kinds)
}

/// Flags for the releases of modules.
#[derive(clap::Args)]
pub(super) struct ReleaseFlags {
    /// Maximum number of revisions saved per release
    #[arg(long, env = "HELM_HISTORY_MAX", default_value_t = 10)]
    pub(super) helm_history_max: usize,
    /// Time limit of each wait of a release, e.g. 20m
    #[arg(long, env = "HELM_TIMEOUT", default_value = "20m", value_parser = super::flags::duration)]
    pub(super) helm_timeout: Duration,
    /// Name of a release that is never uninstalled
    #[arg(long, env = "HELM_IGNORE_RELEASE")]
    pub(super) helm_ignore_release: Option<String>,
    /// What happens to changed or deleted objects: correct, report or off; the annotation windlass.dev/drift of a chart or an object
    /// takes precedence
    #[arg(long, env = "WINDLASS_DRIFT", default_value = "correct")]
    pub(super) drift: DriftMode,
    /// Fields to ignore when drift is detected: PATH, Kind:PATH or Kind/name:PATH (can be repeated)
    #[arg(long, env = "WINDLASS_DRIFT_IGNORE", value_delimiter = ',')]
    pub(super) drift_ignore: Vec<String>,
    /// Take over objects that belong to other releases; otherwise such an object is an error
    #[arg(long, env = "WINDLASS_TAKE_OWNERSHIP", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) take_ownership: bool,
    /// Apply crds/ of modules that have a ServiceAccount with the operator's own rights
    #[arg(long, env = "WINDLASS_CRDS_AS_OPERATOR", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) crds_as_operator: bool,
    /// Labels for every object of a module: KEY=VALUE, separated by commas
    #[arg(long, env = "ADDON_OPERATOR_CRD_EXTRA_LABELS", default_value = "heritage=addon-operator")]
    pub(super) crd_extra_labels: String,
    /// Prefixes of file names in crds/ to skip, separated by commas
    #[arg(long, env = "ADDON_OPERATOR_CRD_FILTER_PREFIXES", default_value = "doc-,_")]
    pub(super) crd_filters: String,
}

impl ReleaseFlags {
    /// What happens to drift.
    pub(super) fn drift_policy(&self) -> DriftPolicy {
        DriftPolicy { mode: self.drift, ignore: self.drift_ignore.clone() }
    }
}

/// Flags for shell hooks.
#[derive(clap::Args)]
pub(super) struct HookFlags {
    /// Directory for temporary files of hooks [default: addon-operator in the system's temporary directory]
    #[arg(long, env = "ADDON_OPERATOR_TMP_DIR")]
    pub(super) tmp_dir: Option<PathBuf>,
    /// Keep temporary files of hooks after each run
    #[arg(long, env = "DEBUG_KEEP_TMP_FILES", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) debug_keep_tmp_files: bool,
    /// Kill a hook after this time, e.g. 10m; settings.timeout of the hook takes precedence
    #[arg(long, env = "WINDLASS_HOOK_TIMEOUT", value_parser = super::flags::duration)]
    pub(super) hook_timeout: Option<Duration>,
    /// Unblock modules of higher numbers when a hook runs for this long; the hook continues, but a script or a --config that takes
    /// as long is killed
    #[arg(long, alias = "hook-patience", env = "WINDLASS_HOOK_UNBLOCK_AFTER", default_value = "5m", value_parser = super::flags::duration)]
    pub(super) hook_unblock_after: Duration,
    /// Use the hook's name as the group of metrics without a group: they are reset in each run
    #[arg(long, env = "WINDLASS_GROUP_HOOK_METRICS", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) group_hook_metrics: bool,
    /// Log JSON lines of hooks unchanged, with fields that identify the hook added
    #[arg(long, env = "LOG_PROXY_HOOK_JSON", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) log_proxy_hook_json: bool,
    #[command(flatten)]
    pub(super) webhooks: WebhookFlags,
}

/// Addresses that the operator listens on.
#[derive(clap::Args)]
pub(super) struct ServerFlags {
    /// Address for probes and metrics
    #[arg(
        long,
        visible_alias = "prometheus-listen-address",
        env = "ADDON_OPERATOR_LISTEN_ADDRESS",
        default_value = "0.0.0.0"
    )]
    pub(super) listen_address: IpAddr,
    /// Port for probes and metrics; 0 selects a free one
    #[arg(
        long,
        visible_alias = "prometheus-listen-port",
        env = "ADDON_OPERATOR_LISTEN_PORT",
        default_value_t = 9650
    )]
    pub(super) listen_port: u16,
    /// File to write the address to, once the server listens
    #[arg(long)]
    pub(super) address_file: Option<PathBuf>,
    /// Prefix of metric names
    #[arg(long, env = "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX", default_value = serve::addon_operator_metrics::PREFIX)]
    pub(super) prometheus_metrics_prefix: String,
    /// Unix socket of the debug endpoint, for windlass queue, module and others; empty disables it
    #[arg(long, env = "DEBUG_UNIX_SOCKET", default_value = serve::debug::SOCKET)]
    pub(super) debug_unix_socket: PathBuf,
    /// Address of the debug endpoint, without authentication: it shows values and Secrets
    #[arg(long, env = "DEBUG_HTTP_SERVER_ADDR")]
    pub(super) debug_http_addr: Option<String>,
    /// Maximum memory of all webhook requests together, in MiB; a request that needs more is rejected
    #[arg(long, env = "WINDLASS_REQUEST_MEMORY", default_value_t = DEFAULT_MEMORY, value_parser = memory)]
    pub(super) request_memory: usize,
}

/// Flags of the leader election.
#[derive(clap::Args)]
pub(super) struct ElectionFlags {
    /// Run only while this process holds the operator's Lease: of several replicas one is active
    #[arg(long, visible_alias = "leader-elect", alias = "enable-leader-election", env = "ADDON_OPERATOR_HA", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) leader_election: bool,
    /// Name of the Lease [default: windlass-operator]
    #[arg(long, env = "WINDLASS_LEADER_ELECTION_ID")]
    pub(super) leader_election_id: Option<String>,
    /// Namespace of the Lease [default: the operator's]
    #[arg(long, env = "WINDLASS_LEADER_ELECTION_NAMESPACE")]
    pub(super) leader_election_namespace: Option<String>,
    /// Identity of this process in the leader election
    #[arg(long, env = "ADDON_OPERATOR_POD")]
    pub(super) pod_name: Option<String>,
    /// Address of this process: the Services of webhooks point to it while it leads [default: --listen-address, if it is one]
    #[arg(long, env = "WINDLASS_POD_IP")]
    pub(super) pod_ip: Option<IpAddr>,
}

/// Flags of logging.
#[derive(clap::Args)]
pub(super) struct LogFlags {
    /// Minimum level of log lines
    #[arg(long, env = "LOG_LEVEL", default_value = "info", value_parser = level)]
    pub(super) log_level: LevelFilter,
    /// Format of log lines
    #[arg(long, env = "LOG_TYPE", default_value = "text")]
    pub(super) log_type: LogType,
    /// Omit timestamps from log lines
    #[arg(long, env = "LOG_NO_TIME", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(super) log_no_time: bool,
}

/// Parses MiB of memory that fit into the address space.
fn memory(text: &str) -> Result<usize, String> {
    let mib: u32 = text.parse().map_err(|e| format!("{e}"))?;
    match mib {
        1..=1_048_576 => usize::try_from(mib).map_err(|e| e.to_string()),
        _ => Err("write a number of MiB from 1 to 1048576".to_owned()),
    }
}

/// Parses a level. addon-operator's `fatal` maps to `error`, our highest level.
pub(super) fn level(name: &str) -> Result<LevelFilter, String> {
    let name = name.to_lowercase();
    let known = if name == "fatal" { "error" } else { &name };
    known.parse().map_err(|_| format!("{name:?} is not a level: write error, warn, info, debug or trace"))
}
