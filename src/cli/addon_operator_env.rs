//! Environment variables and flags of addon-operator that have another meaning here, or no effect.
//!
//! Owns the notices about them. Variables with the same meaning are declared on the flags of `operator`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Failure;
use super::flags::Globals;

/// Flags of addon-operator without an effect here, with the reason.
#[derive(clap::Args)]
pub(super) struct WithoutEffect {
    #[arg(long, env = "KUBE_CLIENT_QPS", hide = true)]
    kube_client_qps: Option<f64>,
    #[arg(long, env = "KUBE_CLIENT_BURST", hide = true)]
    kube_client_burst: Option<u32>,
    #[arg(long, env = "OBJECT_PATCHER_KUBE_CLIENT_QPS", hide = true)]
    object_patcher_kube_client_qps: Option<f64>,
    #[arg(long, env = "OBJECT_PATCHER_KUBE_CLIENT_BURST", hide = true)]
    object_patcher_kube_client_burst: Option<u32>,
    #[arg(long, env = "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT", value_parser = super::flags::duration, hide = true)]
    object_patcher_kube_client_timeout: Option<Duration>,
    #[arg(long, env = "HELM_MONITOR_KUBE_CLIENT_QPS", hide = true)]
    helm_monitor_kube_client_qps: Option<f64>,
    #[arg(long, env = "HELM_MONITOR_KUBE_CLIENT_BURST", hide = true)]
    helm_monitor_kube_client_burst: Option<u32>,
    #[arg(long, env = "DEBUG_KUBERNETES_API", value_parser = clap::builder::FalseyValueParser::new(), num_args = 0, hide = true)]
    debug_kubernetes_api: bool,
    #[arg(long, env = "JQ_LIBRARY_PATH", hide = true)]
    jq_library_path: Option<String>,
    #[arg(long, env = "ADDON_OPERATOR_SHELL_CHROOT_DIR", hide = true)]
    shell_chroot_dir: Option<String>,
}

/// Variables without a flag and without an effect here, with the reason. A star matches any ending.
const VARIABLES: [(&str, &str); 5] = [
    ("USE_NELM", "releases are applied server-side in waves already"),
    ("NELM_DEPENDENCY_GRAPH_ENABLED", "objects are applied in waves by what they need"),
    ("QUEUE_ACTIONS_METRICS", "what queues do themselves takes no time here that would be worth a metric"),
    ("TILLER_MAX_HISTORY", "there is no Tiller; HELM_HISTORY_MAX bounds the history"),
    ("SHELL_OPERATOR_*", "addon-operator knows six variables of shell-operator, and this is none of them"),
];

/// Flags with several variables: the first that is not empty is used. addon-operator's come before shell-operator's,
/// as in its `applyShellOperatorEnv`, and newer ones before older ones.
const SEVERAL: [(&str, &[&str]); 8] = [
    ("modules_dir", &["ADDON_OPERATOR_MODULES_DIR", "MODULES_DIR"]),
    (
        "global_hooks_dir",
        &["ADDON_OPERATOR_GLOBAL_HOOKS_DIR", "GLOBAL_HOOKS_DIR", "SHELL_OPERATOR_HOOKS_DIR"],
    ),
    ("unnumbered_modules_order", &["ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", "UNNUMBERED_MODULES_ORDER"]),
    (
        "strict_check_values_mode_enabled",
        &["ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED", "STRICT_CHECK_VALUES_MODE_ENABLED"],
    ),
    ("tmp_dir", &["ADDON_OPERATOR_TMP_DIR", "SHELL_OPERATOR_TMP_DIR"]),
    ("listen_address", &["ADDON_OPERATOR_LISTEN_ADDRESS", "SHELL_OPERATOR_LISTEN_ADDRESS"]),
    ("listen_port", &["ADDON_OPERATOR_LISTEN_PORT", "SHELL_OPERATOR_LISTEN_PORT"]),
    (
        "prometheus_metrics_prefix",
        &["ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX", "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX"],
    ),
];

/// The variables of the namespace, which is a flag of every command.
const NAMESPACE: [&str; 2] = ["ADDON_OPERATOR_NAMESPACE", "SHELL_OPERATOR_NAMESPACE"];

/// The command `operator` with its environment variables. `is_set` reports whether a variable is not empty; empty ones are
/// ignored.
pub(super) fn with_environment(command: clap::Command, is_set: &dyn Fn(&str) -> bool) -> clap::Command {
    command.mut_args(|argument| {
        let id = argument.get_id().as_str().to_owned();
        let names = SEVERAL.iter().find(|(of, _)| *of == id).map(|(_, names)| *names).unwrap_or_default();
        if let Some(name) = names.iter().find(|name| is_set(name)) {
            return argument.env(name);
        }
        let named = argument.get_env().and_then(|name| name.to_str()).map(str::to_owned);
        match named {
            Some(name) if !is_set(&name) => argument.env(None::<&'static str>),
            _ => argument,
        }
    })
}

/// Completes the flags of every command with addon-operator's variables. `variable` returns values that are not empty.
pub(super) fn complete(globals: &Globals, variable: &dyn Fn(&str) -> Option<String>) -> Globals {
    let mut globals = globals.clone();
    let or = |given: Option<String>, name: &str| given.or_else(|| variable(name));
    for name in NAMESPACE {
        globals.namespace = or(globals.namespace, name);
    }
    globals.kube_context = or(globals.kube_context, "KUBE_CONTEXT");
    globals.kube_apiserver = or(globals.kube_apiserver, "KUBE_SERVER");
    globals.kubeconfig = globals.kubeconfig.or_else(|| variable("KUBE_CONFIG").map(PathBuf::from));
    globals
}

/// The directory of global hooks: the given one, otherwise addon-operator's default if it exists.
pub(super) fn global_hooks_dir(named: Option<&Path>, working: &Path) -> Option<PathBuf> {
    let usual = || Some(working.join("global-hooks")).filter(|d| d.is_dir());
    named.map(Path::to_owned).or_else(usual)
}

impl WithoutEffect {
    /// Notices about the settings without an effect, one line each. `set` are the names of variables that are not empty.
    ///
    /// # Errors
    /// A setting that would be unsafe to ignore.
    pub(super) fn notices(&self, set: &[String]) -> Result<Vec<String>, Failure> {
        if self.shell_chroot_dir.as_deref().is_some_and(|d| !d.is_empty()) {
            return Err(
                "--shell-chroot-dir (ADDON_OPERATOR_SHELL_CHROOT_DIR): hooks are not run in a directory of their own root here; \
                 run windlass in a container that holds what its hooks may see, and unset it"
                    .to_owned(),
            );
        }
        let limits = [
            ("kube-client-qps", self.kube_client_qps.is_some()),
            ("kube-client-burst", self.kube_client_burst.is_some()),
            ("object-patcher-kube-client-qps", self.object_patcher_kube_client_qps.is_some()),
            ("object-patcher-kube-client-burst", self.object_patcher_kube_client_burst.is_some()),
            ("helm-monitor-kube-client-qps", self.helm_monitor_kube_client_qps.is_some()),
            ("helm-monitor-kube-client-burst", self.helm_monitor_kube_client_burst.is_some()),
        ];
        let mut lines: Vec<String> = limits
            .iter()
            .filter(|(_, given)| *given)
            .map(|(flag, _)| {
                format!("--{flag} has no effect: the API server's priority and fairness is the limit")
            })
            .collect();
        if self.object_patcher_kube_client_timeout.is_some() {
            lines.push(
                "--object-patcher-kube-client-timeout has no effect: requests of hooks end as all others, after 70 s"
                    .to_owned(),
            );
        }
        if self.jq_library_path.as_deref().is_some_and(|path| !path.is_empty()) {
            lines.push("--jq-library-path has no effect: filters have no modules of jq".to_owned());
        }
        if self.debug_kubernetes_api {
            lines.push(
                "--debug-kubernetes-api has no effect: --log-level debug logs failed requests".to_owned(),
            );
        }
        lines.extend(set.iter().filter_map(|name| Some(format!("{name} has no effect: {}", vain(name)?))));
        Ok(lines)
    }
}

/// The reason why a variable of addon-operator or shell-operator has no effect. `None` for other variables, including Kubernetes'
/// Service variables with such names.
fn vain(name: &str) -> Option<&'static str> {
    let heard = NAMESPACE.contains(&name) || SEVERAL.iter().any(|(_, names)| names.contains(&name));
    if heard || name.contains("_SERVICE_") || name.contains("_TCP") {
        return None;
    }
    let fits = |known: &&(&str, &str)| match known.0.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => known.0 == name,
    };
    let known = VARIABLES.iter().find(fits).map(|(_, why)| *why);
    known.or_else(|| name.contains("TILLER").then_some("there is no Tiller"))
}

#[cfg(test)]
mod tests;
