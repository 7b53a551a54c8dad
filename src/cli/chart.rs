//! From a chart reference on the command line to a chart that can be installed.

use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;

use super::failure::Explained;
use super::tell;
use crate::source::{self, Loaded};

/// As [`open`], ready to render.
pub(super) fn load(reference: &str, profile: Profile) -> Result<CompiledChart, Explained> {
    Ok(open(reference, profile, false)?.compile(profile))
}

/// Finds and loads a chart, with Helm's checks before an install: no library, no missing dependency. `update` asks for
/// what is missing to be fetched.
pub(super) fn open(reference: &str, profile: Profile, update: bool) -> Result<Loaded, Explained> {
    let path = source::locate(reference)?;
    let loaded = source::load(&path, profile)?;
    for line in &loaded.warnings {
        tell(line);
    }
    let chart = &loaded.chart;
    if !matches!(chart.metadata.kind.as_str(), "" | "application") {
        return Err(format!("{} charts are not installable", chart.metadata.kind).into());
    }
    if chart.metadata.deprecated {
        tell(match profile {
            Profile::Helm4 => "level=WARN msg=\"this chart is deprecated\"",
            Profile::Helm3 => "WARNING: This chart is deprecated",
        });
    }
    let missing: Vec<&str> = chart
        .metadata
        .dependencies
        .iter()
        .flatten()
        .map(|d| d.name.as_str())
        .filter(|name| !chart.dependencies.iter().any(|c| c.name() == *name))
        .collect();
    if !missing.is_empty() && update {
        return Err(format!(
            "--dependency-update: windlass cannot fetch charts yet; run 'helm dependency update' for what is missing in \
             charts/: {}",
            missing.join(", ")
        )
        .into());
    }
    if !missing.is_empty() {
        let (an, build) = match profile {
            Profile::Helm4 => ("an", "'helm dependency build'"),
            Profile::Helm3 => ("An", "`helm dependency build`"),
        };
        return Err(format!(
            "{an} error occurred while checking for chart dependencies. You may need to run {build} to fetch \
             missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
            missing.join(", ")
        )
        .into());
    }
    Ok(loaded)
}
