//! All flags and variables of addon-operator and shell-operator, their precedence, and the notices about those without effect.

use clap::{CommandFactory, Parser};

use super::*;
use crate::cli::Cli;

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
        let variables: Vec<String> = variables.iter().map(|v| (*v).to_owned()).collect();
        only.without_effect.notices(&variables)
    };
    assert_eq!(
        told(
            &[],
            &[
                "PATH",
                "ADDON_OPERATOR_NAMESPACE",
                "TILLER_DEPLOY_SERVICE_HOST",
                "SHELL_OPERATOR_PORT_9115_TCP",
                "SHELL_OPERATOR_NAMESPACE",
                "SHELL_OPERATOR_LISTEN_PORT"
            ]
        )
        .unwrap(),
        Vec::<String>::new()
    );
    let lines = told(&["--kube-client-qps=5", "--helm-monitor-kube-client-burst", "10"], &["USE_NELM"]);
    let lines = lines.unwrap();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("--kube-client-qps has no effect: "), "{lines:?}");
    assert!(lines[2].starts_with("USE_NELM has no effect: "), "{lines:?}");
    for name in [
        "NELM_DEPENDENCY_GRAPH_ENABLED",
        "QUEUE_ACTIONS_METRICS",
        "ADDON_OPERATOR_TILLER_LISTEN_PORT",
        "ADDON_OPERATOR_TILLER_PROBE_LISTEN_PORT",
        "TILLER_BIN_PATH",
        "TILLER_MAX_HISTORY",
        "SHELL_OPERATOR_WORKING_DIR",
    ] {
        let lines = told(&[], &[name]).unwrap();
        assert!(lines.len() == 1 && lines[0].starts_with(&format!("{name} has no effect: ")), "{lines:?}");
    }
    let refused = told(&["--shell-chroot-dir", "/x"], &[]).unwrap_err();
    assert!(refused.contains("ADDON_OPERATOR_SHELL_CHROOT_DIR"), "{refused}");
}

/// Their flags, the variables in order of precedence, and the defaults here. A dash means none.
const FLAGS: &str = "
modules-dir ADDON_OPERATOR_MODULES_DIR,MODULES_DIR modules
global-hooks-dir ADDON_OPERATOR_GLOBAL_HOOKS_DIR,GLOBAL_HOOKS_DIR,SHELL_OPERATOR_HOOKS_DIR -
unnumbered-modules-order ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER,UNNUMBERED_MODULES_ORDER 1
strict-check-values-mode-enabled ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED,STRICT_CHECK_VALUES_MODE_ENABLED false
tmp-dir ADDON_OPERATOR_TMP_DIR,SHELL_OPERATOR_TMP_DIR -
config-map ADDON_OPERATOR_CONFIG_MAP addon-operator
prometheus-listen-address ADDON_OPERATOR_LISTEN_ADDRESS,SHELL_OPERATOR_LISTEN_ADDRESS 0.0.0.0
prometheus-listen-port ADDON_OPERATOR_LISTEN_PORT,SHELL_OPERATOR_LISTEN_PORT 9650
prometheus-metrics-prefix ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX,SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX addon_operator_
shell-chroot-dir ADDON_OPERATOR_SHELL_CHROOT_DIR -
applied-module-extenders ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS -
crd-extra-labels ADDON_OPERATOR_CRD_EXTRA_LABELS heritage=addon-operator
crd-filters ADDON_OPERATOR_CRD_FILTER_PREFIXES doc-,_
helm-history-max HELM_HISTORY_MAX 10
helm-timeout HELM_TIMEOUT 20m
helm-ignore-release HELM_IGNORE_RELEASE -
helm-monitor-kube-client-qps HELM_MONITOR_KUBE_CLIENT_QPS -
helm-monitor-kube-client-burst HELM_MONITOR_KUBE_CLIENT_BURST -
kube-client-qps KUBE_CLIENT_QPS -
kube-client-burst KUBE_CLIENT_BURST -
object-patcher-kube-client-qps OBJECT_PATCHER_KUBE_CLIENT_QPS -
object-patcher-kube-client-burst OBJECT_PATCHER_KUBE_CLIENT_BURST -
object-patcher-kube-client-timeout OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT -
admission-server-listen-port ADDON_OPERATOR_ADMISSION_SERVER_LISTEN_PORT -
admission-server-certs-dir ADDON_OPERATOR_ADMISSION_SERVER_CERTS_DIR -
admission-server-enabled ADDON_OPERATOR_ADMISSION_SERVER_ENABLED true
log-level LOG_LEVEL info
log-type LOG_TYPE text
log-no-time LOG_NO_TIME false
log-proxy-hook-json LOG_PROXY_HOOK_JSON false
debug-unix-socket DEBUG_UNIX_SOCKET /var/run/addon-operator/debug.socket
debug-http-addr DEBUG_HTTP_SERVER_ADDR -
debug-keep-tmp-files DEBUG_KEEP_TMP_FILES false
debug-kubernetes-api DEBUG_KUBERNETES_API -
jq-library-path JQ_LIBRARY_PATH -
leader-election ADDON_OPERATOR_HA false
pod-name ADDON_OPERATOR_POD -
validating-webhook-listen-address VALIDATING_WEBHOOK_LISTEN_ADDRESS 0.0.0.0
validating-webhook-listen-port VALIDATING_WEBHOOK_LISTEN_PORT -
validating-webhook-server-cert VALIDATING_WEBHOOK_SERVER_CERT -
validating-webhook-server-key VALIDATING_WEBHOOK_SERVER_KEY -
validating-webhook-ca VALIDATING_WEBHOOK_CA -
validating-webhook-client-ca VALIDATING_WEBHOOK_CLIENT_CA -
validating-webhook-service-name VALIDATING_WEBHOOK_SERVICE_NAME windlass-webhooks
validating-webhook-configuration-name VALIDATING_WEBHOOK_CONFIGURATION_NAME -
validating-webhook-failure-policy VALIDATING_WEBHOOK_FAILURE_POLICY Fail
conversion-webhook-listen-address CONVERSION_WEBHOOK_LISTEN_ADDRESS -
conversion-webhook-listen-port CONVERSION_WEBHOOK_LISTEN_PORT -
conversion-webhook-server-cert CONVERSION_WEBHOOK_SERVER_CERT -
conversion-webhook-server-key CONVERSION_WEBHOOK_SERVER_KEY -
conversion-webhook-ca CONVERSION_WEBHOOK_CA -
conversion-webhook-client-ca CONVERSION_WEBHOOK_CLIENT_CA -
conversion-webhook-service-name CONVERSION_WEBHOOK_SERVICE_NAME -
";

/// The command with these variables set.
fn operator(is_set: &dyn Fn(&str) -> bool) -> clap::Command {
    let operator = Cli::command().find_subcommand("operator").unwrap().clone();
    with_environment(operator, is_set)
}

fn argument<'c>(command: &'c clap::Command, flag: &str) -> &'c clap::Arg {
    let named = |a: &&clap::Arg| {
        a.get_long() == Some(flag) || a.get_all_aliases().is_some_and(|all| all.contains(&flag))
    };
    command.get_arguments().find(named).unwrap_or_else(|| panic!("--{flag}"))
}

#[test]
fn every_name_of_the_peers_is_a_flag() {
    // Of helm-controller in k3s.
    let mut known = vec!["STABLE_REPO_URL"];
    for row in FLAGS.trim().lines() {
        let [flag, names, default] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let names: Vec<&str> = names.split(',').collect();
        // The first variable that is not empty is used.
        for at in 0..names.len() {
            let command = operator(&|name| names[at..].contains(&name));
            let argument = argument(&command, flag);
            assert_eq!(argument.get_env().and_then(|n| n.to_str()), Some(names[at]), "{row}");
        }
        // Without any, or with an empty one, the default is used.
        let command = operator(&|_| false);
        let argument = argument(&command, flag);
        assert_eq!(argument.get_env(), None, "{row}");
        let defaults: Vec<_> = argument.get_default_values().iter().map(|d| d.to_str().unwrap()).collect();
        let expected = if default == "-" { "" } else { default };
        assert_eq!(defaults.join(","), expected, "{row}");
        known.extend(names);
    }
    for argument in operator(&|_| true).get_arguments() {
        let name = argument.get_env().and_then(|n| n.to_str()).unwrap_or("WINDLASS_");
        assert!(name.starts_with("WINDLASS_") || known.contains(&name), "{name} is in no table");
    }
    for (alias, id) in [("kube-config", "kubeconfig"), ("kube-server", "kube_apiserver")] {
        assert_eq!(argument(&Cli::command(), alias).get_id().as_str(), id);
    }
    assert_eq!(argument(&Cli::command(), "kube-context").get_id().as_str(), "kube_context");
}

#[test]
fn switches_know_the_usual_words_and_flags_come_before_variables() {
    for flag in [
        "strict-check-values-mode-enabled",
        "admission-server-enabled",
        "log-no-time",
        "log-proxy-hook-json",
        "debug-keep-tmp-files",
        "leader-election",
    ] {
        let command = operator(&|_| false);
        let id = argument(&command, flag).get_id().as_str().to_owned();
        for (word, expected) in [
            ("=1", true),
            ("=true", true),
            ("=True", true),
            ("=TRUE", true),
            ("=t", true),
            ("=yes", true),
            ("=on", true),
            ("=0", false),
            ("=False", false),
            ("=no", false),
            ("", true),
        ] {
            let found = command.clone().try_get_matches_from(["operator", &format!("--{flag}{word}")]);
            assert_eq!(found.unwrap().get_one::<bool>(&id), Some(&expected), "--{flag}{word}");
        }
    }
    // PATH replaces a variable of addon-operator that is not empty: no other variable is certain to be set.
    let command = operator(&|_| false).mut_arg("modules_dir", |a| a.env("PATH"));
    let of = |arguments: &[&str]| {
        let matches = command.clone().try_get_matches_from(arguments).unwrap();
        matches.get_one::<String>("modules_dir").cloned()
    };
    assert_eq!(of(&["operator"]), std::env::var("PATH").ok());
    assert_eq!(of(&["operator", "--modules-dir", "m"]).as_deref(), Some("m"));
}

#[test]
fn variables_complete_the_flags_of_every_command() {
    #[derive(Parser)]
    struct Whole {
        #[command(flatten)]
        globals: Globals,
    }
    let set = |name: &str| Some(format!("{name}!"));
    let flags = ["windlass", "-n", "n", "--kube-context", "c", "--kube-server", "s", "--kube-config", "f"];
    let given = complete(&Whole::parse_from(flags).globals, &set);
    let shown = |g: &Globals| {
        let path = g.kubeconfig.as_ref().map(|f| f.display().to_string());
        [&g.namespace, &g.kube_context, &g.kube_apiserver, &path].map(|o| o.clone().unwrap_or_default())
    };
    assert_eq!(shown(&given), ["n", "c", "s", "f"]);
    let empty = ["windlass", "-n", "", "--kube-context", "", "--kube-server", "", "--kubeconfig", ""];
    let globals = Whole::try_parse_from(empty).unwrap().globals.without_empty();
    let names = ["ADDON_OPERATOR_NAMESPACE!", "KUBE_CONTEXT!", "KUBE_SERVER!", "KUBE_CONFIG!"];
    assert_eq!(shown(&complete(&globals, &set)), names);
    assert_eq!(shown(&complete(&globals, &|_| None)), [""; 4]);
    let shell = |name: &str| (name == "SHELL_OPERATOR_NAMESPACE").then(|| "s".to_owned());
    assert_eq!(shown(&complete(&globals, &shell))[0], "s");
}

#[test]
fn the_peers_directory_of_global_hooks_is_taken_if_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(global_hooks_dir(None, dir.path()), None);
    assert_eq!(global_hooks_dir(Some(Path::new("x")), dir.path()), Some(PathBuf::from("x")));
    let usual = dir.path().join("global-hooks");
    std::fs::create_dir(&usual).unwrap();
    assert_eq!(global_hooks_dir(None, dir.path()), Some(usual));
}
