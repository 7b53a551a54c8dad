//! `windlass build`: builds a kustomization and prints its manifests, with kustomize's flags.

use std::path::{Path, PathBuf};

use super::flags::Globals;
use super::schemas::Schemas;
use super::{Failure, fetch, print, tell};
use windlass_base::causes::of_the_system;
use windlass_fetch::http::TIMEOUT;
use windlass_render::RenderPermit;
use windlass_render::kustomize::{self, Built, ChartSettings, Settings};

const RESTRICTIONS: [&str; 2] = ["LoadRestrictionsRootOnly", "LoadRestrictionsNone"];
const ORDERS: [&str; 2] = ["legacy", "none"];

/// Flags for what a build may read.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct BuildFlags {
    /// Render the charts of helmCharts
    #[arg(long)]
    enable_helm: bool,
    /// Which files a kustomization may read: LoadRestrictionsRootOnly (below its directory; the default) or LoadRestrictionsNone
    #[arg(long, value_name = "RESTRICTION")]
    load_restrictor: Option<String>,
    /// Kubernetes api versions used for Capabilities.APIVersions of charts without apiVersions (multiple can be specified)
    #[arg(long, value_delimiter = ',', value_name = "VERSION")]
    helm_api_versions: Vec<String>,
    /// Kubernetes version used for Capabilities.KubeVersion of charts without kubeVersion
    #[arg(long, default_value = "", hide_default_value = true, value_name = "VERSION")]
    helm_kube_version: String,
}

/// Flags of kustomize that change nothing here.
#[derive(clap::Args)]
struct WithoutEffect {
    /// No effect: charts are rendered in process
    #[arg(long)]
    helm_command: Option<String>,
    /// No effect: errors of charts name their place
    #[arg(long)]
    helm_debug: bool,
    /// No effect: programs and containers are not run
    #[arg(long)]
    as_current_user: bool,
    /// No effect: built-in plugins are always there, others are not run
    #[arg(long)]
    enable_alpha_plugins: bool,
    /// No effect: programs are not run
    #[arg(long)]
    enable_exec: bool,
    /// No effect: containers are not run
    #[arg(short, long = "env")]
    env: Vec<String>,
    /// No effect: containers are not run
    #[arg(long)]
    mount: Vec<String>,
    /// No effect: containers are not run
    #[arg(long)]
    network: bool,
    /// No effect: containers are not run
    #[arg(long)]
    network_name: Option<String>,
}

impl WithoutEffect {
    fn tell(&self) {
        let functions = "programs and containers are not run";
        for (given, flag, reason) in [
            (self.helm_command.is_some(), "helm-command", "charts are rendered in process"),
            (self.helm_debug, "helm-debug", "charts are rendered in process"),
            (self.as_current_user, "as-current-user", functions),
            (self.enable_alpha_plugins, "enable-alpha-plugins", functions),
            (self.enable_exec, "enable-exec", functions),
            (!self.env.is_empty(), "env", functions),
            (!self.mount.is_empty(), "mount", functions),
            (self.network, "network", functions),
            (self.network_name.is_some(), "network-name", functions),
        ] {
            if given {
                tell(&format!("# Warning: --{flag} has no effect: {reason}"));
            }
        }
    }
}

/// Flags of `build`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The directory of the kustomization, or the URL of a repository with a path
    #[arg(default_value = ".", value_name = "DIR|URL")]
    target: String,
    /// Write to a file, or one file for each object to a directory that exists
    #[arg(short, long, value_parser = super::flags::path(), value_hint = clap::ValueHint::AnyPath)]
    output: Option<PathBuf>,
    /// The order of objects without sortOptions: legacy (by kind; the default) or none (as they were read). Deprecated: use sortOptions
    #[arg(long, value_name = "ORDER")]
    reorder: Option<String>,
    #[command(flatten)]
    build: BuildFlags,
    #[command(flatten)]
    without_effect: WithoutEffect,
}

/// The value of a flag, if kustomize knows it.
fn checked(flag: &str, value: Option<&str>, legal: [&str; 2]) -> Result<bool, Failure> {
    match value {
        None | Some("") => Ok(false),
        Some(value) if legal.contains(&value) => Ok(value == legal[1]),
        Some(value) => {
            Err(format!("illegal flag value --{flag} {value}; legal values: [{}]", legal.join(" ")))
        }
    }
}

impl BuildFlags {
    /// Builds a kustomization.
    pub(super) fn build(&self, globals: &Globals, target: &str, keep_order: bool) -> Result<Built, Failure> {
        let documents = Schemas::new(globals);
        let charts = self.enable_helm.then(|| ChartSettings {
            fetcher: fetch::fetcher(globals),
            profile: globals.profile(),
            bounds: globals.render_bounds(),
            documents: Some(&documents),
            kube_version: self.helm_kube_version.clone(),
            api_versions: self.helm_api_versions.clone(),
            fetched: kustomize::Fetched::default(),
        });
        let settings = Settings {
            unrestricted: checked("load-restrictor", self.load_restrictor.as_deref(), RESTRICTIONS)?,
            keep_order,
            charts,
            http: fetch::http(globals, TIMEOUT),
            budget: None,
            root: None,
            inputs: globals.inputs.clone(),
            permit: RenderPermit::default(),
            warn: &|line| tell(line),
        };
        kustomize::build(target, settings)
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    args.without_effect.tell();
    if args.reorder.is_some() {
        tell(
            "Flag --reorder has been deprecated, use the new 'sortOptions' field in kustomization.yaml instead.",
        );
    }
    let keep_order = checked("reorder", args.reorder.as_deref(), ORDERS)?;
    let built = args.build.build(globals, &args.target, keep_order)?;
    match args.output.as_deref().filter(|path| !path.as_os_str().is_empty()) {
        None => print(built.text()?.as_bytes()),
        Some(path) if path.is_dir() => {
            built.files()?.iter().try_for_each(|(name, text)| write(&path.join(name), text))
        }
        Some(path) => write(path, &built.text()?),
    }
}

/// Writes a file of the output.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| format!("open {}: {}", path.display(), of_the_system(&e)))
}
