//! The status of modules as objects of the cluster: `kubectl get modules.windlass.dev`.
//!
//! Owns their content and when it is written: only changes, and no state that passes within moments. The operator's loop reports the
//! state of a module. The API group is the one of Windlass' annotations, because other groups have a kind `Module` too.

mod deckhouse_writer;
mod status_writer;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{ModuleStatus, Options};
use windlass_base::redact;
use windlass_cluster::Cluster;
use windlass_controller::{Condition, set_conditions};

pub use deckhouse_writer::CRD as DECKHOUSE_CRD;
pub use status_writer::CRD as OWN_CRD;

/// The API group of the modules that probes of module-sdk read.
pub(super) const DECKHOUSE_GROUP: &str = "deckhouse.io";

/// Longest text of a status.
const MAX_TEXT: usize = 1024;

/// What a module is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Disabled,
    /// It waits for its turn.
    Pending,
    Running,
    Ready,
    /// It is released, and its readiness probe says no.
    NotReady,
    Failed,
    Deleting,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Self::Disabled => "Disabled",
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
        }
    }

    /// Those that last until something happens.
    const LASTING: [Self; 4] = [Self::Disabled, Self::Ready, Self::NotReady, Self::Failed];

    fn lasts(self) -> bool {
        Self::LASTING.contains(&self)
    }

    /// Whether the `phase` of an object is one that lasts.
    fn is_lasting(written: &Value) -> bool {
        Self::LASTING.iter().any(|phase| written == phase.name())
    }
}

/// A module as the loop sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) enabled: bool,
    pub(super) phase: Phase,
    /// Revision that is deployed, as far as it is known.
    pub(super) revision: Option<u64>,
    /// One word that says why.
    pub(super) reason: &'static str,
    /// Why the last try failed.
    pub(super) error: Option<String>,
    /// Why it is off, where no flag says so.
    pub(super) off_because: String,
    /// Why the files on disk are not in use: the ones before are.
    pub(super) files: Option<String>,
    /// Its objects are left alone.
    pub(super) maintenance: bool,
    /// Why its readiness probe says no.
    pub(super) not_ready: String,
    /// Why its section of the ConfigMap is not taken: the last good one stays in force.
    pub(super) config: Option<String>,
}

/// All modules by name.
pub(super) type Statuses = Arc<BTreeMap<String, Status>>;

/// Where the loop puts them.
pub(super) type StatusWriter = watch::Sender<Statuses>;

/// Starts what writes statuses to the cluster, if anything does; it ends with the sender.
pub(super) fn start(cluster: &Cluster, options: &Options) -> Option<StatusWriter> {
    if options.module_status == ModuleStatus::Off {
        return None;
    }
    let (sender, statuses) = watch::channel(Statuses::default());
    if options.module_status == ModuleStatus::Deckhouse {
        deckhouse_writer::start(cluster.clone(), options, sender.subscribe());
    }
    status_writer::start(cluster.clone(), (&options.namespace, &options.config_map), statuses);
    Some(sender)
}

impl Status {
    /// The same without secrets: before texts are cut, so that no beginning of one stays.
    fn masked(&self) -> Self {
        let mask = |text: &String| redact::mask(text).into_owned();
        Self {
            error: self.error.as_ref().map(mask),
            off_because: mask(&self.off_because),
            not_ready: mask(&self.not_ready),
            files: self.files.as_ref().map(mask),
            config: self.config.as_ref().map(mask),
            ..self.clone()
        }
    }

    /// The object's new `status`; transition times are those of `before` where nothing changed.
    fn to_value(&self, before: &Value, now: &str) -> Value {
        let cut = |text: &str| text.chars().take(MAX_TEXT).collect::<String>();
        let mut status = json!({
            "enabled": self.enabled, "phase": self.phase.name(), "reason": self.reason, "message": cut(&self.message()),
        });
        if let Some(revision) = self.revision {
            status["revision"] = revision.into();
        }
        if let Some(error) = &self.error {
            status["lastError"] = cut(error).into();
        }
        let ready = match self.phase {
            Phase::Ready => Some(true),
            Phase::NotReady | Phase::Failed | Phase::Disabled | Phase::Deleting => Some(false),
            Phase::Pending | Phase::Running => None,
        };
        let condition = |condition_type, status, reason, message: &str| Condition {
            condition_type,
            status,
            reason,
            message: message.to_owned(),
        };
        let why = self.error.as_deref().map_or_else(|| self.message(), str::to_owned);
        let files = self.files.as_deref();
        let loaded = if files.is_none() { "Loaded" } else { "Broken" };
        let (managed, objects) = if self.maintenance {
            ("Maintenance", "its objects are not reconciled")
        } else {
            ("Managed", "its objects are reconciled")
        };
        let conditions = [
            condition("Ready", ready, self.reason, &why),
            condition(
                "FilesLoaded",
                Some(files.is_none()),
                loaded,
                files.unwrap_or("the files on disk are in use"),
            ),
            condition("Managed", Some(!self.maintenance), managed, objects),
            condition(
                "ConfigApplied",
                Some(self.config.is_none()),
                if self.config.is_none() { "Applied" } else { "Invalid" },
                self.config.as_deref().unwrap_or("its section of the ConfigMap is in force"),
            ),
        ];
        status["conditions"] = set_conditions(&before["conditions"], &conditions, None, now);
        status
    }

    fn message(&self) -> String {
        match (self.phase, self.revision) {
            (Phase::Disabled, _) if !self.off_because.is_empty() => self.off_because.clone(),
            (Phase::Disabled, _) => "the module is off".to_owned(),
            (Phase::Pending, _) => "waiting for its turn".to_owned(),
            (Phase::Running, _) => "its hooks or its release are running".to_owned(),
            (Phase::Deleting, _) => "its release is uninstalled".to_owned(),
            (Phase::NotReady, _) => self.not_ready.clone(),
            (Phase::Ready, Some(revision)) => format!("revision {revision} is deployed"),
            (Phase::Ready, None) => "its hooks have run; it has no release".to_owned(),
            (Phase::Failed, Some(revision)) => {
                format!("the last try failed; revision {revision} is deployed")
            }
            (Phase::Failed, None) => "the last try failed".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_with_what_they_are_of() {
        let ready = Status {
            enabled: true,
            phase: Phase::Ready,
            revision: Some(3),
            reason: "Released",
            ..Status::default()
        };
        let first = ready.to_value(&Value::Null, "T1");
        assert_eq!(first["message"], "revision 3 is deployed");
        assert_eq!(first.get("lastError"), None);
        assert_eq!(ready.to_value(&first, "T2"), first, "nothing has changed");
        let failed = Status {
            phase: Phase::Failed,
            reason: "RenderFailed",
            error: Some("x".repeat(5000)),
            files: Some("001-a/Chart.yaml: no".into()),
            ..ready
        };
        let second = failed.to_value(&first, "T2");
        let shown: Vec<String> = second["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| {
                format!("{} {} {} {}", c["type"], c["status"], c["reason"], c["lastTransitionTime"])
                    .replace('"', "")
            })
            .collect();
        assert_eq!(
            shown,
            [
                "Ready False RenderFailed T2",
                "FilesLoaded False Broken T2",
                "Managed True Managed T1",
                "ConfigApplied True Applied T1"
            ]
        );
        assert_eq!(second["lastError"].as_str().unwrap().len(), MAX_TEXT);
        assert_eq!(second["revision"], 3);
    }

    #[test]
    fn what_a_module_says_by_phase() {
        for (phase, ready, lasts) in [
            (Phase::Disabled, "False", true),
            (Phase::Pending, "Unknown", false),
            (Phase::Running, "Unknown", false),
            (Phase::Ready, "True", true),
            (Phase::NotReady, "False", true),
            (Phase::Failed, "False", true),
            (Phase::Deleting, "False", false),
        ] {
            let value = Status { phase, reason: "R", ..Status::default() }.to_value(&Value::Null, "T");
            assert_eq!(value["conditions"][0]["status"], ready, "{phase:?}");
            assert_eq!(phase.lasts(), lasts, "{phase:?}");
        }
    }
}
