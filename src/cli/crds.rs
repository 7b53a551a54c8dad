//! `windlass crds`: CustomResourceDefinitions, as YAML to apply.

use serde_json::Value;

use super::output::{Format, structured};
use super::{Failure, print};
use windlass_chartresource::chart_resource_definition;
use windlass_configmaps::config_map_source_definition;
use windlass_helmfile::resource::definition;
use windlass_images::image_build_definition;
use windlass_modules::addon;
use windlass_render::parse_manifest;

/// Whose kinds.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Print those of Flux's API: HelmReleases, their sources, Alerts, Providers and Receivers
    Flux(FluxArgs),
    /// Print that of Helmfiles
    Helmfile,
    /// Print those of HelmCharts and HelmChartConfigs, for clusters without k3s: k3s and RKE2 have their own
    #[command(name = "helmcharts")]
    HelmCharts,
    /// Print that of ChartResources
    Charts,
    /// Print that of ConfigMapSources
    #[command(name = "configmapsources")]
    ConfigMapSources,
    /// Print that of ImageBuilds
    #[command(name = "imagebuilds")]
    ImageBuilds,
    /// Print that of modules' status
    Modules(ModuleArgs),
}

/// Flags of `crds modules`.
#[derive(clap::Args)]
pub(super) struct ModuleArgs {
    /// API group: windlass.dev, or deckhouse.io, whose modules readiness probes of module-sdk read
    #[arg(long, default_value = "windlass.dev", value_parser = ["windlass.dev", "deckhouse.io"])]
    group: String,
}

/// Flags of `crds flux`.
#[derive(clap::Args)]
pub(super) struct FluxArgs {
    /// Kinds to print, such as HelmRelease; all by default
    #[arg(value_name = "KIND")]
    kinds: Vec<String>,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    let crds = match command {
        Command::Flux(args) => chosen(flux_api::crds::all(), &args.kinds)?,
        Command::Helmfile => vec![definition::crd()],
        Command::HelmCharts => windlass_helmcharts::crds::all(),
        Command::Charts => vec![chart_resource_definition::crd()],
        Command::ConfigMapSources => vec![config_map_source_definition::crd()],
        Command::ImageBuilds => vec![image_build_definition::crd()],
        Command::Modules(args) => {
            let own = args.group == "windlass.dev";
            vec![parse_manifest(if own { addon::OWN_CRD } else { addon::DECKHOUSE_CRD })?]
        }
    };
    let texts: Result<Vec<String>, Failure> = crds.iter().map(|crd| structured(crd, Format::Yaml)).collect();
    print(texts?.join("---\n").as_bytes())
}

/// The definitions of these kinds, which may be named in the plural; all without a name.
fn chosen(mut crds: Vec<Value>, kinds: &[String]) -> Result<Vec<Value>, Failure> {
    let names = |crd: &Value| {
        ["kind", "plural"].map(|name| crd["spec"]["names"][name].as_str().unwrap_or_default().to_owned())
    };
    let all: Vec<[String; 2]> = crds.iter().map(names).collect();
    if let Some(unknown) = kinds.iter().find(|kind| !all.iter().any(|names| names.contains(kind))) {
        let known: Vec<&str> = all.iter().map(|[kind, _]| kind.as_str()).collect();
        return Err(format!("Flux has no kind {unknown:?}; there are {}", known.join(", ")));
    }
    if !kinds.is_empty() {
        crds.retain(|crd| names(crd).iter().any(|name| kinds.contains(name)));
    }
    Ok(crds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_chosen_by_name() {
        let count = |kinds: &[&str]| {
            let kinds: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
            chosen(flux_api::crds::all(), &kinds).map(|crds| crds.len())
        };
        assert_eq!(count(&[]), Ok(10));
        assert_eq!(count(&["HelmRelease", "helmreleases", "buckets"]), Ok(2));
        let error = count(&["HelmRelease", "Kustomization"]).unwrap_err();
        assert!(
            error.starts_with("Flux has no kind \"Kustomization\"; there are Alert, Bucket, "),
            "{error}"
        );
    }
}
