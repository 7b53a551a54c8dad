//! `windlass operator`: starts logging, servers and the chosen controllers, and runs until a signal.

use std::collections::BTreeMap;
use std::net::SocketAddr;
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

use super::addon_operator_env;
use super::flags::Globals;
use super::hook_lines::Unfolded;
use super::observe;
use super::operator_flags::{Args, LogType, level};
use super::{Failure, ShutdownSignal, cluster};
use crate::runtime::{self, Controller};
use windlass_base::redact;
use windlass_cluster::{CompletedRequest, Election};
use windlass_controller::ContextOptions;
use windlass_controller::serve::body::Budget;
use windlass_controller::serve::runtime_config::{LOG_LEVEL, Runtime};
use windlass_controller::serve::{self, State};
use windlass_engine::Adoption;
use windlass_flux::helmrelease::HelmReleaseOptions;
use windlass_flux::sources::SourceOptions;
use windlass_modules::addon;
use windlass_modules::shell_hooks::webhooks;

/// The targets and levels of log lines.
fn log_filter(level: LevelFilter) -> Targets {
    // Libraries log frames and sockets; only their warnings matter to users.
    Targets::new()
        .with_default(LevelFilter::WARN)
        // The operator logs failures of watches itself, once.
        .with_target("kube_runtime", LevelFilter::ERROR)
        .with_target("windlass", level)
}

/// Standard error without secrets. Each log line is one write.
struct MaskedStderr;

impl std::io::Write for MaskedStderr {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        std::io::stderr().write_all(redact::mask_log(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Starts logging. The level is a runtime parameter.
fn start_logs(args: &Args, runtime: &Runtime) -> Result<(), Failure> {
    let (filter, handle) = reload::Layer::new(log_filter(args.logs.log_level));
    let lines = tracing_subscriber::fmt::layer().with_writer(|| MaskedStderr);
    let layer = match (args.logs.log_type, args.logs.log_no_time) {
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
    let default = args.logs.log_level.to_string();
    let description = "Global log level. Default duration for debug level is 30m0s";
    runtime.register(LOG_LEVEL, description, &default, Box::new(change));
    Ok(())
}

/// Opens the debug endpoint. A failure is logged; the operator runs without it.
async fn serve_debug(
    args: &Args,
    state: &Arc<State>,
    stopped: &watch::Receiver<bool>,
) -> Vec<JoinHandle<()>> {
    let stop = || {
        let mut stopped = stopped.clone();
        // An error means that the sender is dropped: stop as well.
        async move { drop(stopped.wait_for(|s| *s).await) }
    };
    let mut servers = Vec::new();
    let path = &args.servers.debug_unix_socket;
    if !path.as_os_str().is_empty() {
        match serve::debug::serve_socket(path, Arc::clone(state), stop()).await {
            Ok(server) => servers.push(server),
            Err(e) => tracing::warn!(
                path = %path.display(),
                "no debug socket: {e}; name another path with --debug-unix-socket"
            ),
        }
    }
    let Some(text) = args.servers.debug_http_addr.as_deref().filter(|a| !a.is_empty()) else {
        return servers;
    };
    // As in Go, `:9652` means all interfaces.
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
    let bodies = Arc::new(Budget::new(args.servers.request_memory << 20));
    let state = Arc::new(State { bodies, ..State::new(&args.servers.prometheus_metrics_prefix) });
    start_logs(args, &state.runtime)?;
    let names = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let mut names: Vec<String> = names.filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort();
    for line in args.without_effect.notices(&names)? {
        tracing::warn!("{line}");
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    // The list of kubeconfigs comes first.
    let listed = variable("KUBECONFIG").is_some();
    let globals = &addon_operator_env::complete(globals, &|name| {
        variable(name).filter(|_| !(listed && name == "KUBE_CONFIG"))
    });
    let working = std::env::current_dir().map_err(|e| format!("cannot tell the working directory: {e}"))?;
    let hooks_only = args.modules.hooks_only;
    let global_hooks_dir = match hooks_only {
        true => {
            let named = args.modules.hooks_dir.as_ref().or(args.modules.global_hooks_dir.as_ref());
            Some(named.cloned().unwrap_or_else(|| working.join("hooks")))
        }
        false => addon_operator_env::global_hooks_dir(args.modules.global_hooks_dir.as_deref(), &working),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    // A bundle of a registry is pulled by a runtime of its own.
    let helmfiles = args.helmfiles.process(globals, &args.controllers, &args.helm_releases)?;
    let helmcharts = args.helmcharts.process(&args.releases, &args.helm_releases)?;
    runtime.block_on(async {
        let cluster = cluster(globals).await?;
        let counting = Arc::clone(&state);
        cluster.observe(Box::new(move |exchange| count(&counting, exchange)));
        let context = ContextOptions {
            storage: super::storage::storage(&globals.driver)?,
            render_bounds: globals.render_bounds(),
            crds_as_operator: args.releases.crds_as_operator,
        };
        let directories = addon::DirectoryOptions {
            modules: if hooks_only { String::new() } else { args.modules.modules_dir.clone() },
            global_hooks: global_hooks_dir,
            hooks_only,
            unnumbered_order: args.modules.unnumbered_modules_order,
            strict: args.modules.strict_check_values_mode_enabled,
            scan_interval: Some(args.modules.modules_scan_interval).filter(|every| !every.is_zero()),
        };
        let releases = addon::ModuleReleaseOptions {
            history_max: args.releases.helm_history_max,
            timeout: args.releases.helm_timeout,
            profile: globals.profile(),
            drift: args.releases.drift_policy(),
            adoption: if args.releases.take_ownership { Adoption::Any } else { Adoption::Unowned },
            extra_labels: labels(&args.releases.crd_extra_labels)?,
            crd_filters: list(&args.releases.crd_filters),
            ignored: args.releases.helm_ignore_release.clone().filter(|name| !name.is_empty()),
        };
        let hooks = addon::HookOptions {
            tmp_dir: args
                .hooks
                .tmp_dir
                .clone()
                .unwrap_or_else(|| std::env::temp_dir().join("addon-operator")),
            keep_tmp_files: args.hooks.debug_keep_tmp_files,
            timeout: args.hooks.hook_timeout,
            unblock_after: args.hooks.hook_unblock_after,
            proxy_json: args.hooks.log_proxy_hook_json,
            group_metrics: args.hooks.group_hook_metrics,
            webhooks: webhooks(args)?,
            kubeconfig: globals.kubeconfig.clone(),
        };
        let modules = addon::Options {
            namespace: globals.namespace.clone().unwrap_or_else(|| cluster.default_namespace().to_owned()),
            config_map: args.modules.config_map.clone(),
            directories,
            releases,
            hooks,
            strict_order: args.modules.strict_order,
            enabling: args.modules.applied_module_extenders.clone(),
            module_status: if hooks_only { addon::ModuleStatus::Off } else { args.modules.module_status },
        };
        let helm_releases = HelmReleaseOptions {
            default_service_account: args.helm_releases.default_service_account.clone(),
            default_kubeconfig_service_account: args.helm_releases.default_kubeconfig_service_account.clone(),
            no_cross_namespace_refs: args.helm_releases.no_cross_namespace_refs,
            no_local_addresses: !args.helm_releases.allow_local_sources,
        };
        if args.observe {
            let observed = observe::Observed {
                modules: args.controllers.has(Controller::Modules).then_some(&modules),
                helm_releases: args.controllers.has(Controller::HelmReleases).then_some(helm_releases),
                helmcharts: args.controllers.has(Controller::HelmCharts).then_some(helmcharts),
                charts: match args.controllers.has(Controller::Charts) {
                    true => Some(args.charts.process(&args.controllers, &args.helm_releases)?),
                    false => None,
                },
            };
            return observe::run(cluster, &context, observed, args.output, globals.paints()).await;
        }
        let mut ended = ShutdownSignal::listen()?;
        let (stopping, stopped) = watch::channel(false);
        let address = SocketAddr::new(args.servers.listen_address, args.servers.listen_port);
        let mut server_stop = stopped.clone();
        let (address, server) = serve::serve(address, Arc::clone(&state), async move {
            // An error means that the sender is dropped: stop as well.
            drop(server_stop.wait_for(|s| *s).await);
        })
        .await
        .map_err(|e| format!("cannot listen on {address}: {e}"))?;
        tracing::info!(%address, "serving probes and metrics");
        if let Some(file) = &args.servers.address_file {
            std::fs::write(file, address.to_string())
                .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
        }
        let mut servers = serve_debug(args, &state, &stopped).await;
        servers.push(server);
        for address in args.charts.listeners()? {
            let mut stopped = stopped.clone();
            let stop = async move { drop(stopped.wait_for(|s| *s).await) };
            let served = serve::serve(address, Arc::clone(&state), stop).await;
            let (address, server) = served.map_err(|e| format!("cannot listen on {address}: {e}"))?;
            tracing::info!(%address, "serving probes and metrics");
            servers.push(server);
        }
        let stop = async move { ended.next().await };
        let election = election(args, &modules);
        let options = runtime::Options {
            controllers: args.controllers.clone(),
            flux: runtime::FluxProcess {
                options: helm_releases,
                concurrency: args.helm_releases.concurrent,
                watched_namespace: args.helm_releases.watched_namespace()?,
                selector: args.helm_releases.watch_label_selector.clone(),
                election: runtime::FluxElection {
                    namespace: args.helm_releases.helm_controller_namespace.clone(),
                    identity: election.identity.clone(),
                    gone: None,
                },
                sources: args.helm_releases.sources,
                source_options: SourceOptions {
                    storage: args.helm_releases.artifact_directory(),
                    advertised: args.helm_releases.storage_adv_addr.clone().unwrap_or_default(),
                    allow_local_addresses: args.helm_releases.allow_local_sources,
                    allow_workload_identity: args.helm_releases.allow_workload_identity,
                },
                artifact_address: args.helm_releases.storage_addr,
                notifications: args.helm_releases.notifications()?,
            },
            helmfiles,
            helmcharts,
            reload: args.reload.options(&args.helm_releases)?,
            images: args.images.options(&args.helm_releases)?,
            image_builds: args.images.builds(&args.helm_releases)?,
            charts: args.charts.process(&args.controllers, &args.helm_releases)?,
            election: args.election.leader_election.then_some(election),
            context,
            modules,
        };
        let result = runtime::run(cluster, options, state, stop).await.map_err(|e| e.to_string());
        stopping.send_replace(true);
        drop(tokio::time::timeout(Duration::from_secs(1), futures::future::join_all(servers)).await);
        result.map(|()| ExitCode::SUCCESS)
    })
}

/// Counts a request as addon-operator's `kube-client`. One client here does the work of addon-operator's three.
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

/// The webhook options. Of several replicas only the leader answers, so Services must point to it.
fn webhooks(args: &Args) -> Result<webhooks::Options, Failure> {
    let mut options = args.hooks.webhooks.options()?;
    if args.election.leader_election && options.url.is_none() && options.enabled {
        let heard = Some(args.servers.listen_address).filter(|a| !a.is_unspecified() && !a.is_loopback());
        options.leader_at = args.election.pod_ip.or(heard);
        if options.leader_at.is_none() {
            tracing::warn!(
                "--pod-ip is not set: if hooks have webhooks, see to it that their Service leads to the operator that leads, for no \
                 other one answers"
            );
        }
    }
    Ok(options)
}

/// The items of a comma-separated list.
fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Parses labels.
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
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let name =
        given(&args.election.leader_election_id).unwrap_or_else(|| match options.config_map.as_str() {
            "addon-operator" => "windlass-operator".to_owned(),
            other => format!("windlass-operator-{other}"),
        });
    let identity = args.election.pod_name.clone().unwrap_or_else(|| {
        let started = jiff::Timestamp::now().as_nanosecond();
        format!("windlass-{}-{started:x}", std::process::id())
    });
    let namespace =
        given(&args.election.leader_election_namespace).unwrap_or_else(|| options.namespace.clone());
    Election { namespace, name, identity, gone: None }
}
