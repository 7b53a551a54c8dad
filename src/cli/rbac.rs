//! `windlass rbac`: the RBAC rules that an operator needs for its modules, as roles or as values of our own chart.

use std::path::PathBuf;

use super::flags::Globals;
use super::output::{Format, structured};
use super::{Failure, print, tell};
use crate::addon;
use crate::preflight;

/// Flags of `rbac`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of modules, separated by colons
    #[arg(env = "MODULES_DIR")]
    modules_dir: String,
    /// Directory of global hooks
    #[arg(long, env = "GLOBAL_HOOKS_DIR")]
    global_hooks_dir: Option<PathBuf>,
    /// Name of the ServiceAccount that the operator runs as, and of the roles
    #[arg(long, default_value = "windlass")]
    service_account: String,
    /// Name of the operator's webhook configurations, if its --webhook-configuration-name is set [default: windlass-NAMESPACE]
    #[arg(long, env = "VALIDATING_WEBHOOK_CONFIGURATION_NAME")]
    webhook_configuration_name: Option<String>,
    /// File with additional rules, for what hooks write: lists `rules` (in the namespace) and `clusterRules`, and a map
    /// `namespaceRules` of lists (can be repeated)
    #[arg(long, value_name = "FILE")]
    add_rules: Vec<PathBuf>,
    /// Print values for the chart that installs Windlass instead of roles and bindings
    #[arg(long)]
    values: bool,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let global = args.global_hooks_dir.as_deref();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    let configuration = args.webhook_configuration_name.as_deref();
    let look = preflight::needs(&args.modules_dir, global, namespace, addon::UNNUMBERED_ORDER, configuration);
    let (needs, problems) = runtime.block_on(look);
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let mut added = preflight::AddedRules::default();
    for file in &args.add_rules {
        added.read(file)?;
    }
    let needs = needs.with(added);
    let mut comments = String::new();
    for text in &needs.unknown {
        tell(&format!("WARNING: {text}"));
        // The output can be redirected to a file, so it must contain the warnings, too.
        text.lines().for_each(|line| comments.push_str(&format!("# {line}\n")));
    }
    let text = if args.values {
        structured(&needs.values(namespace), Format::Yaml)?
    } else {
        let manifests = needs.manifests(&args.service_account, namespace);
        let texts: Result<Vec<String>, Failure> =
            manifests.iter().map(|m| structured(m, Format::Yaml)).collect();
        texts?.join("---\n")
    };
    print((comments + &text).as_bytes())
}
