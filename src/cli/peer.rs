//! Names of addon-operator's environment and flags that mean something else here, or nothing.
//!
//! Owns what is told of them. Names that mean the same are flags of `operator` like any other.

use std::time::Duration;

use super::Failure;

/// Flags that addon-operator has and that change nothing here; why, is told.
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
    #[arg(long, env = "ADDON_OPERATOR_SHELL_CHROOT_DIR", hide = true)]
    shell_chroot_dir: Option<String>,
}

/// Variables without a flag that change nothing here, and why.
const VARIABLES: [(&str, &str); 6] = [
    ("USE_NELM", "releases are applied server-side in waves already"),
    ("NELM_DEPENDENCY_GRAPH_ENABLED", "objects are applied in waves by what they need"),
    ("ADDON_OPERATOR_TILLER_LISTEN_PORT", "there is no Tiller"),
    ("ADDON_OPERATOR_TILLER_PROBE_LISTEN_PORT", "there is no Tiller"),
    ("TILLER_MAX_HISTORY", "there is no Tiller; HELM_HISTORY_MAX bounds the history"),
    ("TILLER_BIN_PATH", "there is no Tiller"),
];

impl WithoutEffect {
    /// What is set in vain, a line each.
    ///
    /// # Errors
    /// Something is asked for that would be unsafe to leave out.
    pub(super) fn told(&self, set: impl Fn(&str) -> bool) -> Result<Vec<String>, Failure> {
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
        if self.debug_kubernetes_api {
            lines.push(
                "--debug-kubernetes-api has no effect: --log-level debug tells of requests that fail"
                    .to_owned(),
            );
        }
        let found = VARIABLES.iter().filter(|(name, _)| set(name));
        lines.extend(found.map(|(name, why)| format!("{name} has no effect: {why}")));
        Ok(lines)
    }
}

/// A variable that addon-operator renamed: its new name comes first.
///
/// # Errors
/// The new name holds what cannot be read.
pub(super) fn renamed<T: std::str::FromStr>(
    bare: &str,
    given: T,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<T, Failure> {
    let name = format!("ADDON_OPERATOR_{bare}");
    match variable(&name) {
        Some(text) if !text.is_empty() => {
            text.parse().map_err(|_| format!("{name}: {text:?} cannot be read"))
        }
        _ => Ok(given),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        without_effect: WithoutEffect,
    }

    #[test]
    fn what_is_set_in_vain_is_told() {
        let told = |arguments: &[&str], variables: &[&str]| {
            let arguments = ["windlass"].iter().chain(arguments);
            let only = Only::try_parse_from(arguments).unwrap_or_else(|e| panic!("{e}"));
            only.without_effect.told(|name| variables.contains(&name))
        };
        assert_eq!(told(&[], &[]).unwrap(), Vec::<String>::new());
        let lines = told(&["--kube-client-qps=5", "--helm-monitor-kube-client-burst", "10"], &["USE_NELM"]);
        let lines = lines.unwrap();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines[0].starts_with("--kube-client-qps has no effect: "), "{lines:?}");
        assert!(lines[2].starts_with("USE_NELM has no effect: "), "{lines:?}");
        let refused = told(&["--shell-chroot-dir", "/x"], &[]).unwrap_err();
        assert!(refused.contains("ADDON_OPERATOR_SHELL_CHROOT_DIR"), "{refused}");
    }

    #[test]
    fn new_names_come_first() {
        let variable =
            |name: &str| (name == "ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER").then(|| "7".to_owned());
        assert_eq!(renamed("UNNUMBERED_MODULES_ORDER", 1, variable), Ok(7));
        assert_eq!(renamed("MODULES_DIR", "m".to_owned(), variable).as_deref(), Ok("m"));
        let wrong = renamed("UNNUMBERED_MODULES_ORDER", 1, |_| Some("x".to_owned())).unwrap_err();
        assert_eq!(wrong, "ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER: \"x\" cannot be read");
    }
}
