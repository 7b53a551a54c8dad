//! `windlass env`: the variables shared with Helm, with their effective values (`EnvSettings.EnvVars`).

use std::collections::BTreeMap;
use std::env;

use super::flags::Globals;
use super::{Failure, block_on, cluster, environment, print};

/// Helm's default of `HELM_BURST_LIMIT`.
const BURST_LIMIT: i64 = 100;

/// The variable.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Print only the value of this variable
    variable: Option<String>,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let all = variables(globals)?;
    match &args.variable {
        Some(name) => print(format!("{}\n", all.get(name.as_str()).map_or("", String::as_str)).as_bytes()),
        None => {
            let lines: String = all.iter().map(|(name, value)| format!("{name}=\"{value}\"\n")).collect();
            print(lines.as_bytes())
        }
    }
}

fn variables(globals: &Globals) -> Result<BTreeMap<&'static str, String>, Failure> {
    let home = globals.home();
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let path = |value: &std::path::Path| value.display().to_string();
    // An unreadable kubeconfig has no namespace.
    let current = || block_on(cluster(globals)).ok()?.ok().map(|c| c.default_namespace().to_owned());
    let namespace = globals
        .namespace
        .clone()
        .filter(|n| !n.is_empty())
        .or_else(current)
        .unwrap_or_else(|| "default".into());
    let burst = globals.burst_limit.unwrap_or(BURST_LIMIT).to_string();
    let qps = globals.qps.unwrap_or_default();
    let mut all = BTreeMap::from([
        ("HELM_BIN", env::args().next().unwrap_or_default()),
        ("HELM_BURST_LIMIT", burst),
        ("HELM_CACHE_HOME", path(&home.cache)),
        ("HELM_CONFIG_HOME", path(&home.config)),
        ("HELM_CONTENT_CACHE", path(&home.content)),
        ("HELM_DATA_HOME", path(&home.data)),
        ("HELM_DEBUG", globals.debug.to_string()),
        ("HELM_KUBEAPISERVER", text(&globals.kube_apiserver)),
        ("HELM_KUBEASGROUPS", globals.kube_as_groups.join(",")),
        ("HELM_KUBEASUSER", text(&globals.kube_as_user)),
        ("HELM_KUBECAFILE", globals.kube_ca_file.as_deref().map(path).unwrap_or_default()),
        ("HELM_KUBECONTEXT", text(&globals.kube_context)),
        ("HELM_KUBEINSECURE_SKIP_TLS_VERIFY", globals.kube_insecure_skip_tls_verify.to_string()),
        ("HELM_KUBETLS_SERVER_NAME", text(&globals.kube_tls_server_name)),
        ("HELM_KUBETOKEN", text(&globals.kube_token)),
        ("HELM_MAX_HISTORY", environment::max_history().to_string()),
        ("HELM_NAMESPACE", namespace),
        ("HELM_PLUGINS", path(&home.plugins)),
        ("HELM_QPS", format!("{qps:.2}")),
        ("HELM_REGISTRY_CONFIG", path(&home.registry)),
        ("HELM_REPOSITORY_CACHE", path(&home.indexes)),
        ("HELM_REPOSITORY_CONFIG", path(&home.repositories)),
    ]);
    // Helm prints the flag's value, not the variable's.
    if let Some(file) = &globals.kubeconfig {
        all.insert("KUBECONFIG", path(file));
    }
    Ok(all)
}
