//! The chart of a kind: loaded, or known by what was recorded of it while it cannot be fetched.

use super::loaded_chart::LoadedChart;
use windlass_base::redact::Masked;

/// A chart that cannot be fetched: its kind's objects are served all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MissingChart {
    /// The name that it had.
    pub(crate) name: String,
    /// The digest that it had.
    pub(crate) digest: String,
    /// Why it cannot be fetched.
    pub(crate) why: Masked,
}

/// The chart of a kind.
#[derive(Clone, Debug)]
pub(crate) enum KindChart {
    Loaded(LoadedChart),
    Missing(MissingChart),
}

impl KindChart {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Loaded(chart) => chart.name(),
            Self::Missing(missing) => &missing.name,
        }
    }

    pub(crate) fn digest(&self) -> &str {
        match self {
            Self::Loaded(chart) => &chart.digest,
            Self::Missing(missing) => &missing.digest,
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

impl From<LoadedChart> for KindChart {
    fn from(chart: LoadedChart) -> Self {
        Self::Loaded(chart)
    }
}

impl From<MissingChart> for KindChart {
    fn from(missing: MissingChart) -> Self {
        Self::Missing(missing)
    }
}
