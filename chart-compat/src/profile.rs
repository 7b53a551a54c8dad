//! The Helm version to emulate.

/// The Helm version whose output a render must equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Helm 4.3.
    #[default]
    Helm4,
    /// Helm 3.22.
    Helm3,
}

impl Profile {
    /// The full version, as in `.Capabilities.HelmVersion.Version`.
    #[must_use]
    pub fn helm_version(self) -> &'static str {
        match self {
            Self::Helm4 => "v4.3.1",
            Self::Helm3 => "v3.22.0",
        }
    }

    /// Go's name for the type of `.Values`.
    #[must_use]
    pub fn values_type(self) -> &'static str {
        match self {
            Self::Helm4 => "common.Values",
            Self::Helm3 => "chartutil.Values",
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Helm4 => "helm4",
            Self::Helm3 => "helm3",
        })
    }
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "helm4" => Ok(Self::Helm4),
            "helm3" => Ok(Self::Helm3),
            other => Err(format!("unknown compatibility profile {other:?}: use helm4 or helm3")),
        }
    }
}
