//! `windlass template`: renders a chart and prints what Helm would.

use std::mem::ManuallyDrop;
use std::path::PathBuf;

use chart_compat::go::slog;
use chart_compat::profile::Profile;
use chart_compat::render::{
    Capabilities, Error, Hook, KubeVersion, Options, Release, ShowOnly, release_name_error, template_output,
};
use chart_compat::template::Limits;

use super::failure::{self, Explained};
use super::flags::{Globals, Render};
use super::{chart, print, tell, values};
use crate::render::SystemWorld;

/// Flags of `template`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// `[NAME] CHART`
    #[arg(num_args = 1..=2, required = true, value_names = ["NAME", "CHART"])]
    names: Vec<String>,
    #[command(flatten)]
    render: Render,
    /// Kubernetes version used for Capabilities.KubeVersion
    #[arg(long)]
    kube_version: Option<String>,
    /// Kubernetes api versions used for Capabilities.APIVersions (multiple can be specified)
    #[arg(short, long, value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Include CRDs in the templated output
    #[arg(long)]
    include_crds: bool,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,
    /// Skip tests from templated output
    #[arg(long)]
    skip_tests: bool,
    /// Prevent hooks from running during install
    #[arg(long)]
    no_hooks: bool,
    /// Only show manifests rendered from the given templates
    #[arg(short, long)]
    show_only: Vec<String>,
    /// Writes the executed templates to files in output-dir instead of stdout
    #[arg(long)]
    output_dir: Option<PathBuf>,
    /// Use release name in the output-dir path
    #[arg(long)]
    release_name: bool,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    let mut capabilities = Capabilities::default();
    if let Some(text) = &args.kube_version {
        capabilities.kube_version =
            KubeVersion::parse(text).map_err(|e| format!("invalid kube version '{text}': {e}"))?;
    }
    capabilities.api_versions.extend(args.api_versions.iter().cloned());
    if globals.compat == Profile::Helm3 {
        capabilities.helm_version = "v3.22.0".to_owned();
    }
    let (name, reference) = match &args.names[..] {
        [name, chart] => (name.as_str(), chart),
        [chart] => ("release-name", chart),
        _ => return Err("expected at most two arguments: [NAME] CHART".to_owned().into()),
    };
    if args.render.render_subchart_notes && globals.compat == Profile::Helm4 {
        tell(
            "Flag --render-subchart-notes has been deprecated, this flag has no effect for 'helm template' and \
             will be removed in Helm 5",
        );
    }
    let user = values::merge(&args.render.values)?;
    // The process ends soon: taking the chart apart piece by piece would only cost time.
    let compiled = ManuallyDrop::new(chart::load(reference, globals.compat)?);
    if let Some(text) = release_name_error(name) {
        tell(&slog::line("ERROR", "release name check failed", &[("error", &text)]));
        return Err(format!("release name check failed: {text}").into());
    }
    let options = Options {
        release: Release {
            name: name.to_owned(),
            namespace: globals.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            revision: 1,
            is_upgrade: args.is_upgrade,
        },
        capabilities,
        skip_schema_validation: args.render.skip_schema_validation,
        subchart_notes: args.render.render_subchart_notes,
        limits: Limits::default(),
    };
    let world = SystemWorld { cluster: None, dns: args.render.enable_dns };
    let rendered = compiled.render(&user.values, &options, &world, &mut |w| tell(&w)).map_err(|error| {
        let shown = failure::explains(globals);
        let report = failure::of_render(shown, &error, compiled.chart(), &user, globals.compat);
        if let (Error::Dependencies(e), Profile::Helm4) = (&error, globals.compat) {
            let text = "chart dependencies processing failed";
            tell(&slog::line("ERROR", text, &[("error", &e.to_string())]));
            return Explained { text: format!("{text}: {e}"), report };
        }
        let hint = if error.has_release() { "\n\nUse --debug flag to render out invalid YAML" } else { "" };
        Explained { text: format!("{error}{hint}"), report }
    });
    let rendered = ManuallyDrop::new(rendered?);
    let wanted = |h: &Hook| !(args.no_hooks || args.skip_tests && h.events.iter().any(|e| e == "test"));
    if let Some(dir) = &args.output_dir {
        let dir = if args.release_name { dir.join(name) } else { dir.clone() };
        return Ok(super::output_dir::write(&dir, &rendered, args.include_crds, wanted)?);
    }
    let show_only = ShowOnly { patterns: &args.show_only };
    let out = template_output(&rendered, args.include_crds, wanted, &show_only, globals.compat)?;
    Ok(print(&out)?)
}
