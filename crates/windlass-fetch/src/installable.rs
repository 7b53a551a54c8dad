//! Helm's checks of a chart before an install.

use chart_compat::chart::{Chart, other_versions};
use chart_compat::profile::Profile;

/// The declared dependencies that are missing.
#[must_use]
pub fn missing_dependencies(chart: &Chart) -> Vec<&str> {
    let declared = chart.metadata.dependencies.iter().flatten().map(|d| d.name.as_str());
    declared.filter(|name| !chart.dependencies.iter().any(|c| c.name() == *name)).collect()
}

/// Refuses a chart that cannot be installed: a library, or one whose dependencies are missing. `warn` takes lines for the user.
///
/// # Errors
/// It cannot be installed, in Helm's words.
pub fn check_installable(chart: &Chart, profile: Profile, warn: &mut dyn FnMut(&str)) -> Result<(), String> {
    if !matches!(chart.metadata.kind.as_str(), "" | "application") {
        return Err(format!("{} charts are not installable", chart.metadata.kind));
    }
    if chart.metadata.deprecated {
        warn(match profile {
            Profile::Helm4 => "level=WARN msg=\"this chart is deprecated\"",
            Profile::Helm3 => "WARNING: This chart is deprecated",
        });
    }
    for other in other_versions(chart) {
        warn(&format!("# Warning: {other}"));
    }
    let missing = missing_dependencies(chart);
    if missing.is_empty() {
        return Ok(());
    }
    let (an, build) = match profile {
        Profile::Helm4 => ("an", "'helm dependency build'"),
        Profile::Helm3 => ("An", "`helm dependency build`"),
    };
    Err(format!(
        "{an} error occurred while checking for chart dependencies. You may need to run {build} to fetch missing \
         dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        missing.join(", ")
    ))
}
