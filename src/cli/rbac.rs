//! `windlass rbac`: the RBAC rules that an operator needs for its controllers, as roles or as values of our own chart.

use std::path::PathBuf;

use super::failure::Explained;
use super::flags::Globals;
use super::output::{Format, structured};
use super::rbac_chart::{self, ChartFlags};
use super::{Failure, block_on, print, tell};
use crate::preflight::{self, Needs};
use crate::runtime::{self, Controller, ControllerMode};
use windlass_controller::AccountName;
use windlass_modules::addon;

/// Flags of `rbac`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of modules, separated by colons; or a chart, to install which with any values takes the rights that are printed
    #[arg(env = "MODULES_DIR")]
    modules_dir: Option<String>,
    /// Controllers that the operator runs, separated by commas: modules, helmreleases, helmfiles, charts, helmcharts, reload, images,
    /// configmapsources, imagebuilds; * for all but helmcharts, which k3s reconciles itself unless that is disabled, reload and images, which
    /// Reloader and keel may do, configmapsources and imagebuilds
    #[arg(long, env = "WINDLASS_CONTROLLERS", default_value = "modules")]
    controllers: runtime::Controllers,
    /// The operator's --default-service-account for HelmReleases, Helmfiles, HelmCharts and objects of charts' kinds
    #[arg(long, env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT")]
    default_service_account: Option<AccountName>,
    /// The operator's --sources: with flux it needs no rights to reconcile sources
    #[arg(long, env = "WINDLASS_SOURCES", default_value = "auto", value_name = "auto|own|flux")]
    sources: ControllerMode,
    /// The operator's --notifications: with flux it needs no rights to send notifications
    #[arg(long, env = "WINDLASS_NOTIFICATIONS", default_value = "auto", value_name = "auto|own|flux")]
    notifications: ControllerMode,
    /// Namespace of helm-controller
    #[arg(long, env = "WINDLASS_HELM_CONTROLLER_NAMESPACE", default_value = "flux-system")]
    helm_controller_namespace: String,
    /// The operator's --module-status: with deckhouse.io it keeps modules.deckhouse.io
    #[arg(
        long,
        env = "WINDLASS_MODULE_STATUS",
        default_value = "true",
        value_name = "true|false|deckhouse.io"
    )]
    module_status: addon::ModuleStatus,
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
    #[command(flatten)]
    chart: ChartFlags,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let account = &args.service_account;
    let (needs, role) = match args.modules_dir.as_deref().filter(|argument| rbac_chart::is_chart(argument)) {
        Some(chart) => {
            let (needs, name) = rbac_chart::needs(globals, chart, &args.chart)?;
            (needs, rbac_chart::role(account, &name))
        }
        None => (of_controllers(args, namespace)?, account.clone()),
    };
    let mut added = preflight::AddedRules::default();
    for file in &args.add_rules {
        added.read(file)?;
    }
    let needs = needs.with(added);
    let text = if args.values {
        comments(&needs) + &structured(&needs.values(namespace), Format::Yaml)?
    } else {
        manifests(&needs, &role, account, namespace)?
    };
    Ok(print(text.as_bytes())?)
}

/// Roles and bindings as YAML, with what is not known as comments and warnings.
pub(super) fn manifests(
    needs: &Needs,
    role: &str,
    account: &str,
    namespace: &str,
) -> Result<String, Failure> {
    let manifests = needs.manifests(role, account, namespace);
    let texts: Result<Vec<String>, Failure> = manifests.iter().map(|m| structured(m, Format::Yaml)).collect();
    Ok(comments(needs) + &texts?.join("---\n"))
}

/// The output can be redirected to a file, so it must contain the warnings, too.
fn comments(needs: &Needs) -> String {
    let mut comments = String::new();
    for text in &needs.unknown {
        tell(&format!("WARNING: {text}"));
        text.lines().for_each(|line| comments.push_str(&format!("# {line}\n")));
    }
    comments
}

/// The needs for the controllers of an operator.
fn of_controllers(args: &Args, namespace: &str) -> Result<Needs, Failure> {
    let mut needs = Needs::default();
    if args.controllers.has(Controller::Modules) {
        needs = of_modules(args, namespace)?;
    }
    let accounts = args.default_service_account.is_some();
    let (flux, own_sources) = (&args.helm_controller_namespace, args.sources != ControllerMode::Flux);
    let releases = args.controllers.has(Controller::HelmReleases);
    let config_maps = args.controllers.has(Controller::ConfigMapSources);
    if releases {
        needs = needs.and(preflight::helm_release_needs(flux, accounts, own_sources));
    }
    if config_maps {
        needs = needs.and(preflight::config_map_source_needs(flux, accounts, own_sources));
    }
    if (releases || config_maps) && args.notifications != ControllerMode::Flux {
        needs = needs.and(preflight::notification_needs());
    }
    if args.controllers.has(Controller::Helmfiles) {
        needs = needs.and(preflight::helmfile_needs(accounts));
    }
    if args.controllers.has(Controller::HelmCharts) {
        needs = needs.and(preflight::helmchart_needs(accounts));
    }
    if args.controllers.has(Controller::Reload) {
        needs = needs.and(preflight::reload_needs());
    }
    if args.controllers.has(Controller::Images) {
        needs = needs.and(preflight::image_needs());
    }
    if args.controllers.has(Controller::ImageBuilds) {
        needs = needs.and(preflight::image_build_needs(accounts));
    }
    if args.controllers.has(Controller::Charts) {
        needs = needs.and(preflight::chart_kind_needs(accounts));
    }
    Ok(needs)
}

/// The needs for modules.
fn of_modules(args: &Args, namespace: &str) -> Result<Needs, Failure> {
    let modules = args
        .modules_dir
        .as_deref()
        .ok_or("name the directories of modules, or leave modules out of --controllers")?;
    let global = args.global_hooks_dir.as_deref();
    let configuration = args.webhook_configuration_name.as_deref();
    let look = preflight::needs(modules, global, namespace, addon::UNNUMBERED_ORDER, configuration);
    let (mut needs, problems) = block_on(look)?;
    if args.module_status == addon::ModuleStatus::Deckhouse {
        needs.keep_deckhouse_modules();
    }
    if problems.is_empty() { Ok(needs) } else { Err(problems.join("\n")) }
}
