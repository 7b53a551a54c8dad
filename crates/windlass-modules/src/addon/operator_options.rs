//! The options of an operator of modules, with their defaults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use chart_compat::profile::Profile;

use super::UNNUMBERED_ORDER;
use super::enabled_flags::Enabling;
use super::status::DECKHOUSE_GROUP;
use crate::shell_hooks::webhooks;
use windlass_engine::{Adoption, DriftPolicy};

/// What an operator of modules works on.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace of the ConfigMap and of all releases.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub config_map: String,
    /// Where modules are.
    pub directories: DirectoryOptions,
    /// How modules are released.
    pub releases: ModuleReleaseOptions,
    /// How hooks run.
    pub hooks: HookOptions,
    /// Modules of a number start when all of the lower ones have succeeded, as with addon-operator; otherwise when they were tried.
    pub strict_order: bool,
    /// Which flags say whether a module is on.
    pub enabling: Enabling,
    /// Which statuses of modules are written to the cluster.
    pub module_status: ModuleStatus,
}

/// Which statuses of modules are written to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModuleStatus {
    /// None.
    Off,
    /// `modules.windlass.dev`.
    #[default]
    Own,
    /// `modules.deckhouse.io` too, which readiness probes of module-sdk read and write.
    Deckhouse,
}

impl FromStr for ModuleStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_lowercase().as_str() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Ok(Self::Own),
            "false" | "f" | "no" | "n" | "off" | "0" => Ok(Self::Off),
            DECKHOUSE_GROUP => Ok(Self::Deckhouse),
            _ => Err(format!("{text:?} is none of true, false and {DECKHOUSE_GROUP}")),
        }
    }
}

/// Where modules are.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// Roots of modules, a colon-separated list.
    pub modules: String,
    /// Directory of global hooks and of the schemas of global values, if there is one.
    pub global_hooks: Option<PathBuf>,
    /// Order of module directories without a number.
    pub unnumbered_order: u32,
    /// A root or module without `values.yaml` is an error.
    pub strict: bool,
    /// How often files are scanned for changes; `None`: at the start only.
    pub scan_interval: Option<Duration>,
    /// There are hooks alone, as with shell-operator: neither modules nor their ConfigMap and releases. Hooks run in their own
    /// directories.
    pub hooks_only: bool,
}

/// How modules are released.
#[derive(Clone, Debug)]
pub struct ModuleReleaseOptions {
    /// Revisions kept of each release.
    pub history_max: usize,
    /// Bound of each wait of a release.
    pub timeout: Duration,
    /// Which Helm to be equal to.
    pub profile: Profile,
    /// What is done about drift.
    pub drift: DriftPolicy,
    /// Which existing objects modules take over.
    pub adoption: Adoption,
    /// Labels of every object of a release.
    pub extra_labels: BTreeMap<String, String>,
    /// Beginnings of names of files in `crds/` that are skipped.
    pub crd_filters: Vec<String>,
    /// A release that is never uninstalled.
    pub ignored: Option<String>,
}

/// How hooks run.
#[derive(Clone, Debug)]
pub struct HookOptions {
    /// Where hooks get their files.
    pub tmp_dir: PathBuf,
    /// Files of hooks stay after the run.
    pub keep_tmp_files: bool,
    /// A run of a hook is killed after this time, unless the hook names another; `None`: never.
    pub timeout: Option<Duration>,
    /// Modules of higher numbers stop waiting for one whose hook runs for this long.
    pub unblock_after: Duration,
    /// Lines of JSON that hooks print are logged as they are.
    pub proxy_json: bool,
    /// Metrics of hooks without a group start anew in each run, as with addon-operator.
    pub group_metrics: bool,
    /// How webhooks of hooks are served.
    pub webhooks: webhooks::Options,
    /// The kubeconfig that the operator was given; batch programs are given it, too.
    pub kubeconfig: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            config_map: "addon-operator".to_owned(),
            directories: DirectoryOptions::default(),
            releases: ModuleReleaseOptions::default(),
            hooks: HookOptions::default(),
            strict_order: false,
            enabling: Enabling::default(),
            module_status: ModuleStatus::default(),
        }
    }
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            modules: "modules".to_owned(),
            global_hooks: None,
            unnumbered_order: UNNUMBERED_ORDER,
            strict: false,
            scan_interval: Some(Duration::from_secs(2)),
            hooks_only: false,
        }
    }
}

impl Default for ModuleReleaseOptions {
    fn default() -> Self {
        Self {
            history_max: 10,
            timeout: Duration::from_secs(20 * 60),
            profile: Profile::default(),
            drift: DriftPolicy::default(),
            adoption: Adoption::Unowned,
            extra_labels: BTreeMap::from([("heritage".to_owned(), "addon-operator".to_owned())]),
            crd_filters: vec!["doc-".to_owned(), "_".to_owned()],
            ignored: None,
        }
    }
}

impl Default for HookOptions {
    fn default() -> Self {
        Self {
            tmp_dir: std::env::temp_dir().join("addon-operator"),
            keep_tmp_files: false,
            timeout: None,
            unblock_after: Duration::from_secs(300),
            proxy_json: false,
            group_metrics: false,
            webhooks: webhooks::Options::default(),
            kubeconfig: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_chosen_by_a_word() {
        for (word, expected) in [
            ("true", ModuleStatus::Own),
            ("Yes", ModuleStatus::Own),
            ("0", ModuleStatus::Off),
            ("off", ModuleStatus::Off),
            ("deckhouse.io", ModuleStatus::Deckhouse),
        ] {
            assert_eq!(word.parse(), Ok(expected), "{word}");
        }
        let error = "example.com".parse::<ModuleStatus>().unwrap_err();
        assert_eq!(error, "\"example.com\" is none of true, false and deckhouse.io");
    }
}
