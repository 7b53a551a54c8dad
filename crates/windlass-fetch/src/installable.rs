//! Helm's checks of a chart before an install.

use chart_compat::chart::{Chart, other_versions};
use chart_compat::profile::Profile;

/// Why a chart cannot be installed; `Display` is Helm's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInstallable {
    /// The chart is of this kind.
    #[error("{0} charts are not installable")]
    Kind(String),
    /// These dependencies are declared, and not in `charts/`.
    #[error(
        "{} error occurred while checking for chart dependencies. You may need to run {} to fetch missing \
         dependencies: found in Chart.yaml, but missing in charts/ directory: {names}",
        match .profile { Profile::Helm4 => "an", Profile::Helm3 => "An" },
        match .profile { Profile::Helm4 => "'helm dependency build'", Profile::Helm3 => "`helm dependency build`" }
    )]
    Missing {
        /// Whose text it is.
        profile: Profile,
        /// Their names, with commas.
        names: String,
    },
}

impl From<NotInstallable> for String {
    fn from(error: NotInstallable) -> Self {
        error.to_string()
    }
}

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
pub fn check_installable(
    chart: &Chart,
    profile: Profile,
    warn: &mut dyn FnMut(&str),
) -> Result<(), NotInstallable> {
    if !matches!(chart.metadata.kind.as_str(), "" | "application") {
        return Err(NotInstallable::Kind(chart.metadata.kind.clone()));
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
    Err(NotInstallable::Missing { profile, names: missing.join(", ") })
}
