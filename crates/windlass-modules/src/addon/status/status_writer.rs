//! Writes the statuses of modules to the cluster, and registers their kind.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Phase, Status, Statuses};
use windlass_base::redact;
use windlass_cluster::{
    ApplyOptions, Cluster, ClusterError, DeleteOptions, Gvk, ObjectMeta, ObjectRef, Validation,
};
use windlass_controller::{EventNote, EventRecorder, EventType, STATUS_MANAGER, register_kind};
use windlass_render::parse_manifest;

/// The kind's definition.
pub const CRD: &str = include_str!("../../../../../deploy/chart/crds/modules.yaml");
/// Label of an object: the ConfigMap of the operator that it is of.
pub(super) const OPERATOR: &str = "windlass.dev/operator";
/// A state that passes is written once it has lasted this long.
const DELAY: Duration = Duration::from_secs(3);
/// The same over a state that an earlier process has written: what that says is true until the module's turn has come, and a restart
/// with nothing to do writes nothing. 300 modules with hooks are through in 5 s, where 160 to 249 of them were written twice.
const RESTART_DELAY: Duration = Duration::from_secs(60);
/// After a failure it is tried again this seldom.
pub(super) const PAUSE: Duration = Duration::from_secs(10);
/// After a refusal this seldom: rights change by hand.
pub(super) const LONG_PAUSE: Duration = Duration::from_secs(300);

/// Starts the writer of an operator's namespace and ConfigMap; it ends with the sender.
pub(super) fn start(
    cluster: Cluster,
    (namespace, operator): (&str, &str),
    statuses: watch::Receiver<Statuses>,
) {
    let writer = Writer {
        events: EventRecorder::new(cluster.clone()),
        cluster,
        namespace: namespace.to_owned(),
        operator: operator.to_owned(),
        written: BTreeMap::new(),
        since: BTreeMap::new(),
        reported: String::new(),
    };
    tokio::spawn(redact::own(writer.work(statuses)));
}

/// Waits after a failure. Statuses that come meanwhile are written after that. Breaks off if the operator stops.
pub(super) async fn back_off(statuses: &mut watch::Receiver<Statuses>, pause: Duration) -> ControlFlow<()> {
    let rest = tokio::time::sleep(pause);
    tokio::pin!(rest);
    loop {
        tokio::select! {
            () = &mut rest => break,
            changed = statuses.changed() => if changed.is_err() { return ControlFlow::Break(()) },
        }
    }
    statuses.mark_changed();
    ControlFlow::Continue(())
}

/// An object as it was last written.
struct Written {
    /// `None`: an earlier process has written it.
    status: Option<Status>,
    /// The object's `status`.
    value: Value,
}

struct Writer {
    cluster: Cluster,
    events: EventRecorder,
    namespace: String,
    operator: String,
    written: BTreeMap<String, Written>,
    /// Since when modules are in a phase that passes.
    since: BTreeMap<String, Instant>,
    /// The failure that was logged last.
    reported: String,
}

fn gvk() -> Gvk {
    Gvk::new("windlass.dev/v1alpha1", "Module")
}

impl Writer {
    async fn work(mut self, mut statuses: watch::Receiver<Statuses>) {
        // The sender is gone when the operator stops.
        while statuses.changed().await.is_ok() {
            let mut pause = self.begin().await.err().map(|e| self.failed(&e));
            while pause.is_none() {
                let now = statuses.borrow_and_update().clone();
                let next = match self.bring(&now).await {
                    Ok(next) => next,
                    Err(error) => {
                        pause = Some(self.failed(&error));
                        break;
                    }
                };
                tokio::select! {
                    changed = statuses.changed() => if changed.is_err() { return },
                    () = sleep_until(next) => {}
                }
            }
            if back_off(&mut statuses, pause.unwrap_or(PAUSE)).await.is_break() {
                return;
            }
        }
    }

    /// Logs a failure, once; returns how long to wait.
    fn failed(&mut self, error: &ClusterError) -> Duration {
        let text = error.to_string();
        let refused = error.is_forbidden();
        if self.reported != text {
            if refused {
                tracing::warn!(
                    "cannot write the status of modules: {text}; give the operator the rights (windlass rbac prints \
                     them) or switch it off with --module-status=false"
                );
            } else {
                tracing::warn!("cannot write the status of modules: {text}");
            }
            self.reported = text;
        }
        if refused { LONG_PAUSE } else { PAUSE }
    }

    /// Sees to the kind and reads what is there.
    async fn begin(&mut self) -> Result<(), ClusterError> {
        let crd = parse_manifest(CRD).map_err(ClusterError::Other)?;
        register_kind(&self.cluster, &gvk(), &crd).await?;
        let labels = format!("{OPERATOR}={}", self.operator);
        let found = self.cluster.list(&gvk(), Some(&self.namespace), &labels).await?;
        self.written.clear();
        for mut object in found {
            let name = ObjectMeta::of(&object).name().to_owned();
            let value = object["status"].take();
            self.written.insert(name, Written { status: None, value });
        }
        self.reported.clear();
        Ok(())
    }

    fn object(&self, name: &str) -> ObjectRef {
        ObjectRef::new(gvk(), Some(&self.namespace), name)
    }

    /// Writes what differs; returns when to write again without a new status.
    async fn bring(&mut self, statuses: &Statuses) -> Result<Option<Instant>, ClusterError> {
        let gone: Vec<String> = self.written.keys().filter(|n| !statuses.contains_key(*n)).cloned().collect();
        // Before the loop's first report nothing is known.
        for name in gone.into_iter().filter(|_| !statuses.is_empty()) {
            self.cluster.delete(&self.object(&name), DeleteOptions::default()).await?;
            self.written.remove(&name);
            self.since.remove(&name);
        }
        let mut next: Option<Instant> = None;
        for (name, status) in statuses.iter() {
            if status.phase.lasts() {
                self.since.remove(name);
            } else {
                let since = *self.since.entry(name.clone()).or_insert_with(Instant::now);
                let due = since + delay(self.written.get(name));
                if due > Instant::now() {
                    next = Some(next.map_or(due, |n| n.min(due)));
                    continue;
                }
            }
            self.write(name, status).await?;
        }
        Ok(next)
    }

    async fn write(&mut self, name: &str, status: &Status) -> Result<(), ClusterError> {
        let status = &status.masked();
        let before = self.written.get(name);
        if before.is_some_and(|b| b.status.as_ref() == Some(status)) {
            return Ok(());
        }
        let now = windlass_cluster::api_now();
        let old = before.map_or(&Value::Null, |b| &b.value);
        let value = status.to_value(old, &now);
        let news = status.error.clone().or_else(|| status.files.clone());
        if *old != value {
            let known = news.as_deref().is_none_or(|n| old.to_string().contains(&json!(cut(n)).to_string()));
            let body = json!({
                "apiVersion": gvk().api_version(), "kind": gvk().kind,
                "metadata": {"name": name, "namespace": self.namespace, "labels": {OPERATOR: self.operator}},
                "status": value,
            });
            let options = ApplyOptions {
                manager: STATUS_MANAGER,
                force: true,
                validation: Validation::Ignore,
                dry_run: false,
                whole: false,
            };
            let object = self.object(name);
            let applied = self.cluster.apply(&object, &body, options).await?;
            if let Some(text) = news.filter(|_| !known) {
                let reason = if status.error.is_some() { status.reason } else { "FilesBroken" };
                let mut module = applied.object;
                module["apiVersion"] = gvk().api_version().into();
                module["kind"] = gvk().kind.into();
                let note = EventNote {
                    event_type: EventType::Warning,
                    reason,
                    action: "Reconcile",
                    note: text,
                    annotations: BTreeMap::new(),
                };
                self.events.record(&module, note).await;
            }
        }
        self.written.insert(name.to_owned(), Written { status: Some(status.clone()), value });
        Ok(())
    }
}

/// How long a state that passes must last to be written over an object.
fn delay(before: Option<&Written>) -> Duration {
    match before {
        Some(Written { status: None, value }) if Phase::is_lasting(&value["phase"]) => RESTART_DELAY,
        _ => DELAY,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(super::MAX_TEXT).collect()
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_process_has_written_stays_for_longer() {
        let ready = || json!({"phase": "Ready"});
        let running = Status { phase: Phase::Running, ..Status::default() };
        for (before, expected) in [
            (None, DELAY),
            (Some(Written { status: None, value: ready() }), RESTART_DELAY),
            (Some(Written { status: None, value: json!({"phase": "Running"}) }), DELAY),
            (Some(Written { status: None, value: Value::Null }), DELAY),
            (Some(Written { status: Some(running), value: ready() }), DELAY),
        ] {
            let value = before.as_ref().map(|before| before.value.to_string());
            assert_eq!(delay(before.as_ref()), expected, "{value:?}");
        }
    }
}
