//! What a hook says on `--config`: its bindings, in both versions of the form; and what a batch program says on `hook config`. Pure.
//!
//! Errors name the key and the value; the caller adds the hook's name.

mod batch;
mod fields;
mod selectors;
mod v0;
mod v1;
mod webhooks;

use std::collections::BTreeMap;
use std::time::Duration;

use chart_compat::yaml;
use serde_json::Value;

use super::jq::Filter;
use super::{Moment, Scope};
use fields::Fields;
use windlass_base::cron::Cron;
use windlass_render::to_json;

pub use batch::{BatchConfig, BatchHook, Probe};
pub use webhooks::{Admission, Conversion};

/// The queue of hooks that name none.
pub const MAIN_QUEUE: &str = "main";

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{text}", if .path.is_empty() { String::new() } else { format!("{}: ", .path) })]
pub struct ConfigError {
    /// The key, with the indexes of lists; empty for the whole.
    pub path: String,
    /// What is wrong with it.
    pub text: String,
}

impl ConfigError {
    fn new(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), text }
    }
}

/// Version of a configuration: binding contexts of version 0 have another form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V0,
    V1,
}

/// The bindings of a hook.
#[derive(Clone, Debug)]
pub struct HookConfig {
    pub version: Version,
    pub settings: Settings,
    /// Its place at each moment that it is bound to.
    pub moments: BTreeMap<Moment, i64>,
    pub schedules: Vec<Schedule>,
    pub kubernetes: Vec<Kubernetes>,
    pub validating: Vec<Admission>,
    pub mutating: Vec<Admission>,
    pub conversions: Vec<Conversion>,
    /// A failed run of a moment counts as done; those of other bindings have a flag of their own.
    pub allow_failure: bool,
    /// `LOG_LEVEL` of its runs, if it names one.
    pub log_level: Option<String>,
}

/// How often and how long a hook may run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Time in which the allowance of runs grows by one; `None`: no bound.
    pub min_interval: Option<Duration>,
    /// How many runs may follow each other at once.
    pub burst: u32,
    /// After this time a run is killed (`settings.timeout`, ours); `None`: as the operator says.
    pub timeout: Option<Duration>,
    /// Ticks of its schedules count before the first converge is done.
    pub schedules_on_startup: bool,
}

/// What all bindings but moments have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    pub name: String,
    pub group: Option<String>,
    /// Kubernetes bindings of the same hook whose objects come along; those of its group are among them.
    pub snapshots: Vec<String>,
    pub queue: String,
    /// A failed run counts as done.
    pub allow_failure: bool,
}

/// Runs at times.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub common: Common,
    pub cron: Cron,
}

/// What befalls an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchEvent {
    Added,
    Modified,
    Deleted,
}

impl WatchEvent {
    /// Its name in the new form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "Added",
            Self::Modified => "Modified",
            Self::Deleted => "Deleted",
        }
    }
}

/// Runs on changes of objects.
#[derive(Clone, Debug)]
pub struct Kubernetes {
    pub common: Common,
    /// May be empty: any version that serves the kind.
    pub api_version: String,
    /// Kind, plural or short name, in any case.
    pub kind: String,
    pub events: Vec<WatchEvent>,
    /// It also runs once for all objects that exist already.
    pub on_synchronization: bool,
    /// The module (or the first converge) waits for that run.
    pub wait_for_synchronization: bool,
    pub keep_objects: bool,
    /// Names of objects; empty: all.
    pub names: Vec<String>,
    /// Label selector in the API's notation; empty: all.
    pub labels: String,
    /// Field selector in the API's notation.
    pub fields: String,
    pub namespaces: Namespaces,
    pub filter: Option<Filter>,
}

/// Which namespaces a binding watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    All,
    Named(Vec<String>),
    /// Those that a label selector picks, as they come and go.
    Labelled(String),
}

impl HookConfig {
    /// Parses what a hook printed: YAML or JSON, of the version in `configVersion`.
    ///
    /// # Errors
    /// The text is not a map, a key is unknown, or a value has a wrong type or no meaning.
    pub fn parse(text: &[u8], scope: Scope) -> Result<Self, ConfigError> {
        let data = yaml::from_slice(text).map_err(|e| {
            let line = e.line().map_or_else(String::new, |line| format!("line {line}: "));
            ConfigError::new("", format!("{line}yaml: {}", e.problem()))
        })?;
        Self::from_value(&to_json(&data), scope)
    }

    fn from_value(value: &Value, scope: Scope) -> Result<Self, ConfigError> {
        let mut fields = Fields::new("", value)?;
        match fields.word("configVersion", &["v0", "v1"])? {
            None | Some("v0") => v0::read(fields, scope),
            Some(_) => v1::read(fields, scope),
        }
    }

    fn empty(version: Version) -> Self {
        Self {
            version,
            settings: Settings { burst: 1, ..Settings::default() },
            moments: BTreeMap::new(),
            schedules: Vec::new(),
            kubernetes: Vec::new(),
            validating: Vec::new(),
            mutating: Vec::new(),
            conversions: Vec::new(),
            allow_failure: false,
            log_level: None,
        }
    }

    /// The configuration of a readiness probe: its schedule is its owner's.
    pub(super) fn of_probe(probe: &Probe) -> Self {
        let (settings, log_level) = (probe.settings.clone(), probe.log_level.clone());
        Self { settings, log_level, ..Self::empty(Version::V1) }
    }

    /// How many bindings there are, as addon-operator counts them for its metrics.
    #[must_use]
    pub fn count(&self) -> usize {
        self.moments.len()
            + self.schedules.len()
            + self.kubernetes.len()
            + self.validating.len()
            + self.mutating.len()
            + self.conversions.len()
    }

    /// The kubernetes binding of a name.
    #[must_use]
    pub fn binding(&self, name: &str) -> Option<&Kubernetes> {
        self.kubernetes.iter().find(|k| k.common.name == name)
    }
}

/// Reads the moments of a scope; keys of the other scope's moments are refused with a word of explanation.
fn moments(fields: &mut Fields<'_>, scope: Scope) -> Result<BTreeMap<Moment, i64>, ConfigError> {
    let mut found = BTreeMap::new();
    for moment in Moment::of(scope) {
        if let Some(order) = fields.whole(moment.name())? {
            found.insert(*moment, order);
        }
    }
    let (other, owner) = match scope {
        Scope::Global => (Scope::Module, "modules"),
        Scope::Module => (Scope::Global, "GLOBAL_HOOKS_DIR"),
    };
    for moment in Moment::of(other).iter().filter(|m| !Moment::of(scope).contains(m)) {
        if fields.any(moment.name()).is_some() {
            return fields.fail(moment.name(), format!("only hooks of {owner} can have this binding"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
