//! Keeps `modules.deckhouse.io` for readiness probes of module-sdk, which read the phase and the conditions of their module there and
//! write their result into its status.
//!
//! Owns these objects as far as no other operator does. What a probe has written stays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::status_writer::{LONG_PAUSE, OPERATOR, PAUSE, back_off};
use super::{Phase, Status, Statuses};
use crate::addon::Options;
use windlass_base::redact;
use windlass_cluster::{Cluster, ClusterError, DeleteOptions, Gvk, ObjectMeta, ObjectRef, PatchKind};
use windlass_controller::{Condition, STATUS_MANAGER, register_absent_kind, set_conditions};
use windlass_render::parse_manifest;

/// The kind's definition, where no other operator has registered it.
pub const CRD: &str = include_str!("deckhouse_modules.yaml");
/// Label of an object: the namespace of the operator that it is of. Objects of the kind have none themselves.
const NAMESPACE: &str = "windlass.dev/operator-namespace";
/// How often a status is written that others are faster with.
const TRIES: u32 = 5;
/// What the library calls a module that is not ready.
const NOT_READY: &str = "ReadinessProbeFailed";

/// Starts the writer; it ends with the sender of the statuses.
pub(super) fn start(cluster: Cluster, options: &Options, statuses: watch::Receiver<Statuses>) {
    let writer = Writer {
        cluster,
        namespace: options.namespace.clone(),
        operator: options.config_map.clone(),
        current: BTreeMap::new(),
        reported: String::new(),
        foreign: BTreeSet::new(),
    };
    tokio::spawn(redact::own(writer.run(statuses)));
}

struct Writer {
    cluster: Cluster,
    namespace: String,
    operator: String,
    /// Statuses that are in the cluster; `None` for an object of an earlier process.
    current: BTreeMap<String, Option<Status>>,
    /// The failure that was logged last.
    reported: String,
    /// Objects of other operators that were logged.
    foreign: BTreeSet<String>,
}

fn gvk() -> Gvk {
    Gvk::new("deckhouse.io/v1alpha1", "Module")
}

fn object(name: &str) -> ObjectRef {
    ObjectRef::new(gvk(), None, name)
}

impl Writer {
    async fn run(mut self, mut statuses: watch::Receiver<Statuses>) {
        let mut registered = false;
        // The sender is gone when the operator stops.
        while statuses.changed().await.is_ok() {
            let now = statuses.borrow_and_update().clone();
            let written = async {
                if !registered {
                    self.begin().await?;
                    registered = true;
                }
                self.write_all(&now).await
            };
            let Err(error) = written.await else {
                self.reported.clear();
                continue;
            };
            if back_off(&mut statuses, self.failed(&error)).await.is_break() {
                return;
            }
        }
    }

    /// Logs a failure, once; returns how long to wait.
    fn failed(&mut self, error: &ClusterError) -> Duration {
        let text = error.to_string();
        if self.reported != text {
            tracing::warn!(
                "cannot keep modules.deckhouse.io: {text}; they need the rights that docs/modules.md names \
                 (--module-status=true does without them)"
            );
            self.reported = text;
        }
        if error.is_forbidden() { LONG_PAUSE } else { PAUSE }
    }

    /// Sees to the kind and reads which objects are ours.
    async fn begin(&mut self) -> Result<(), ClusterError> {
        let crd = parse_manifest(CRD).map_err(ClusterError::Other)?;
        register_absent_kind(&self.cluster, &gvk(), &crd).await?;
        let labels = format!("{OPERATOR}={},{NAMESPACE}={}", self.operator, self.namespace);
        let found = self.cluster.list(&gvk(), None, &labels).await?;
        let names = found.iter().map(|object| ObjectMeta::of(object).name());
        self.current = names.map(|name| (name.to_owned(), None)).collect();
        Ok(())
    }

    async fn write_all(&mut self, statuses: &Statuses) -> Result<(), ClusterError> {
        // Before the loop's first report nothing is known.
        if statuses.is_empty() {
            return Ok(());
        }
        // One object that cannot be written does not keep the others from it.
        let mut result = Ok(());
        let gone: Vec<String> = self.current.keys().filter(|n| !statuses.contains_key(*n)).cloned().collect();
        for name in gone {
            match self.delete(&name).await {
                Ok(()) => drop(self.current.remove(&name)),
                Err(error) => result = result.and(Err(error)),
            }
        }
        for (name, status) in statuses.iter() {
            let status = status.masked();
            if self.current.get(name).and_then(Option::as_ref) == Some(&status) {
                continue;
            }
            match self.write(name, &status).await {
                Ok(true) => drop(self.current.insert(name.clone(), Some(status))),
                Ok(false) => drop(self.current.remove(name)),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Deletes the object of a module that is gone, if it is this operator's as it is read.
    async fn delete(&self, name: &str) -> Result<(), ClusterError> {
        let Some(live) = self.cluster.get(&object(name)).await? else { return Ok(()) };
        if !self.is_own(&live) {
            return Ok(());
        }
        let options = DeleteOptions { uid: Some(ObjectMeta::of(&live).uid()), ..DeleteOptions::default() };
        self.cluster.delete(&object(name), options).await.map(drop)
    }

    fn is_own(&self, live: &Value) -> bool {
        let meta = ObjectMeta::of(live);
        meta.label(OPERATOR) == Some(&self.operator) && meta.label(NAMESPACE) == Some(&self.namespace)
    }

    /// Writes the status of a module; a probe may be writing it, too. Returns whether the object is this operator's.
    async fn write(&mut self, name: &str, status: &Status) -> Result<bool, ClusterError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(live) = self.own(name).await? else { return Ok(false) };
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let new = new_status(&live["status"], status, &now);
            if live["status"] == new {
                return Ok(true);
            }
            let version = ObjectMeta::of(&live).resource_version();
            let patch = json!({"metadata": {"resourceVersion": version}, "status": new});
            let object = object(name);
            let patched =
                self.cluster.patch_subresource(&object, "status", PatchKind::Merge, &patch, STATUS_MANAGER);
            match patched.await {
                Err(e) if e.is_conflict() && tries < TRIES => {}
                done => return done.map(|_| true),
            }
        }
    }

    /// The object of a module, which is created; `None` if it is another operator's.
    async fn own(&mut self, name: &str) -> Result<Option<Value>, ClusterError> {
        let labels = json!({OPERATOR: self.operator, NAMESPACE: self.namespace});
        let Some(live) = self.cluster.get(&object(name)).await? else {
            let body = json!({
                "apiVersion": gvk().api_version(), "kind": gvk().kind, "metadata": {"name": name, "labels": labels},
            });
            return self.cluster.create(&object(name), &body, STATUS_MANAGER).await.map(Some);
        };
        let ours = self.is_own(&live);
        if !ours && self.foreign.insert(name.to_owned()) {
            tracing::warn!(
                module = name,
                "modules.deckhouse.io {name} is another operator's: its status is left alone"
            );
        }
        Ok(Some(live).filter(|_| ours))
    }
}

/// The new `status` of a module: its phase and its conditions among those that are there.
fn new_status(before: &Value, status: &Status, now: &str) -> Value {
    let (phase, ready) = match status.phase {
        Phase::Disabled => ("Available", Some(false)),
        Phase::Pending | Phase::Running | Phase::Deleting => ("Reconciling", None),
        Phase::NotReady => ("Reconciling", Some(false)),
        Phase::Ready => ("Ready", Some(true)),
        Phase::Failed => ("Error", Some(false)),
    };
    let message = match status.phase {
        Phase::Ready => String::new(),
        Phase::NotReady => status.not_ready.clone(),
        _ => status.error.clone().unwrap_or_else(|| status.message()),
    };
    let enabled = Condition {
        condition_type: "EnabledByModuleManager",
        status: Some(status.enabled),
        reason: status.reason,
        message: String::new(),
    };
    let is_ready = Condition {
        condition_type: "IsReady",
        status: ready,
        reason: if status.phase == Phase::NotReady { NOT_READY } else { status.reason },
        message,
    };
    // While a module runs again, what its probe said last stays; and its own words for the same stay anyway.
    let known = before["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "IsReady");
    let stays = known.is_some_and(|known| {
        let text = known["message"].as_str().unwrap_or_default();
        let same = known["status"] == if ready == Some(true) { "True" } else { "False" };
        ready.is_none() && status.phase != Phase::Deleting
            || same && ready.is_some() && text == is_ready.message
    });
    let mut conditions = vec![enabled];
    if !stays {
        conditions.push(is_ready);
    }
    json!({"phase": phase, "conditions": set_conditions(&before["conditions"], &conditions, None, now)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(status: &Value) -> Vec<String> {
        let conditions = status["conditions"].as_array().unwrap().iter();
        let text = |c: &Value| {
            format!("{} {} {} {}", c["type"], c["status"], c["message"], c["lastTransitionTime"])
                .replace('"', "")
        };
        conditions.map(text).collect()
    }

    #[test]
    fn phases_and_conditions_are_those_that_the_library_reads() {
        let of =
            |phase| Status { phase, enabled: phase != Phase::Disabled, reason: "R", ..Status::default() };
        for (phase, word, ready) in [
            (Phase::Disabled, "Available", "False"),
            (Phase::Pending, "Reconciling", "Unknown"),
            (Phase::Running, "Reconciling", "Unknown"),
            (Phase::NotReady, "Reconciling", "False"),
            (Phase::Ready, "Ready", "True"),
            (Phase::Failed, "Error", "False"),
            (Phase::Deleting, "Reconciling", "Unknown"),
        ] {
            let status = new_status(&Value::Null, &of(phase), "T");
            assert_eq!(status["phase"], word, "{phase:?}");
            let conditions = status["conditions"].as_array().unwrap();
            assert_eq!(
                (&conditions[1]["type"], &conditions[1]["status"]),
                (&json!("IsReady"), &json!(ready))
            );
        }
    }

    #[test]
    fn what_a_probe_has_written_stays() {
        let probed = json!({"phase": "Reconciling", "conditions": [
            {"type": "IsReady", "status": "False", "message": "2 Pods", "lastProbeTime": "P", "lastTransitionTime": "P"},
            {"type": "Other", "status": "True"},
        ]});
        let not_ready = Status {
            phase: Phase::NotReady,
            enabled: true,
            reason: "ReadinessProbeFailed",
            not_ready: "2 Pods".to_owned(),
            ..Status::default()
        };
        let same = new_status(&probed, &not_ready, "T");
        assert_eq!(same["conditions"][0], probed["conditions"][0]);
        assert_eq!(new_status(&same, &not_ready, "T2"), same, "nothing is written again");
        let running = Status { phase: Phase::Running, ..not_ready.clone() };
        assert_eq!(new_status(&probed, &running, "T")["conditions"][0], probed["conditions"][0]);
        let ready = Status { phase: Phase::Ready, not_ready: String::new(), ..not_ready };
        let expected = ["IsReady True  T", "Other True null null", "EnabledByModuleManager True  T"];
        assert_eq!(shown(&new_status(&probed, &ready, "T")), expected);
    }
}
