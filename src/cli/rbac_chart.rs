//! `windlass rbac CHART`: the rights to install a chart with any values, as roles.

use std::path::Path;

use super::failure::Explained;
use super::fetch::ChartPath;
use super::flags::{Globals, Values};
use super::{Failure, block_on, chart, cluster, tell, values};
use crate::preflight::{self, ChartSubject, Needs};
use windlass_charts::KindNames;
use windlass_controller::capabilities;

/// Name of the release where none is given, as in `template`.
pub(super) const RELEASE_NAME: &str = "release-name";

/// Flags of `rbac` for charts.
#[derive(clap::Args)]
pub(super) struct ChartFlags {
    /// Of a chart: API group of its kind; by default charts.windlass.dev
    #[arg(long)]
    group: Option<String>,
    /// Of a chart: kind; by default the chart's name in UpperCamelCase
    #[arg(long)]
    kind: Option<String>,
    /// Of a chart: resource of its kind; by default the kind's plural in lower case
    #[arg(long)]
    plural: Option<String>,
    /// Of a chart: the rights of its releases alone, for a ServiceAccount that an operator impersonates
    #[arg(long)]
    impersonated: bool,
    /// Of a chart: also the rights to give pull secrets, which objects of its kind name, to the ServiceAccount default
    #[arg(long)]
    pull_secrets: bool,
    /// Of a chart: namespace of its releases [default: that of the ServiceAccount]
    #[arg(long, value_name = "NAMESPACE")]
    release_namespace: Option<String>,
    /// Of a chart: name of the release, where the names of objects depend on it
    #[arg(long, value_name = "NAME", default_value = RELEASE_NAME)]
    release_name: String,
    /// Of a chart: read kinds and API versions from the cluster, for charts with objects of others' kinds
    #[arg(long)]
    cluster: bool,
    /// Of a chart: values in a YAML file, which are not varied (can specify multiple)
    #[arg(short = 'f', long = "chart-values", value_name = "FILE")]
    files: Vec<String>,
    /// Of a chart: values that are not varied (key1=val1,key2=val2)
    #[arg(long)]
    set: Vec<String>,
    #[command(flatten)]
    path: ChartPath,
}

/// Whether an argument names a chart, and not directories of modules.
pub(super) fn is_chart(text: &str) -> bool {
    let path = Path::new(text);
    let mut parts = text.split(':').filter(|part| !part.is_empty());
    path.join("Chart.yaml").is_file() || path.is_file() || !parts.all(|part| Path::new(part).is_dir())
}

/// The needs for a chart, and its name.
pub(super) fn needs(
    globals: &Globals,
    reference: &str,
    flags: &ChartFlags,
) -> Result<(Needs, String), Explained> {
    let own = globals.namespace.as_deref().unwrap_or("default");
    let namespace = flags.release_namespace.as_deref().unwrap_or(own);
    let user = Values { files: flags.files.clone(), set: flags.set.clone(), ..Values::default() };
    let user = values::merge(globals, &user, globals.profile())?;
    let compiled = chart::load(reference, globals, &flags.path)?;
    let names = KindNames::new(
        compiled.chart().name(),
        flags.group.as_deref(),
        None,
        flags.kind.as_deref(),
        flags.plural.as_deref(),
    )
    .map_err(|error| error.to_string())?;
    let served = match flags.cluster {
        true => Some(block_on(async {
            let cluster = cluster(globals).await?;
            let kinds = cluster.kinds().await.map_err(|error| error.to_string())?;
            let capabilities = capabilities(&cluster).await.map_err(|error| error.to_string())?;
            Ok::<_, Failure>((kinds, capabilities))
        })??),
        false => None,
    };
    let needs = of_subject(&ChartSubject {
        chart: &compiled,
        values: &user.values,
        release: &flags.release_name,
        namespace,
        cluster: served.as_ref().map(|(kinds, capabilities)| (&**kinds, capabilities)),
        bounds: globals.render_bounds(),
    })?;
    let needs = if flags.pull_secrets { needs.and(preflight::pull_secret_needs(namespace)) } else { needs };
    let needs =
        if flags.impersonated { needs } else { needs.and(preflight::chart_operator_needs(&names, own)) };
    Ok((needs, compiled.chart().name().to_owned()))
}

/// The name of the roles for a chart: one for each chart, beside those of the operator.
pub(super) fn role(account: &str, chart: &str) -> String {
    format!("{account}-{chart}")
}

/// The rights that releases of a chart need. Tells how they were found.
pub(super) fn of_subject(subject: &ChartSubject<'_>) -> Result<Needs, Failure> {
    let (needs, size) = preflight::chart_needs(subject)?;
    tell(&format!(
        "{} values and API versions decide which objects the chart makes: {} renders, of which {} failed",
        size.switches, size.renders, size.failed
    ));
    Ok(needs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_without_a_chart_are_modules() {
        let dir = tempfile::tempdir().unwrap();
        let [modules, chart] = ["modules", "chart"].map(|name| dir.path().join(name));
        std::fs::create_dir(&modules).unwrap();
        std::fs::create_dir(&chart).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "name: a\n").unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        for (argument, expected) in [
            (text(&modules), false),
            (format!("{}:{}", text(&modules), text(&modules)), false),
            (text(&chart), true),
            (text(&chart.join("Chart.yaml")), true),
            ("oci://charts.example.com/web".to_owned(), true),
            ("repo/web".to_owned(), true),
        ] {
            assert_eq!(is_chart(&argument), expected, "{argument}");
        }
    }
}
