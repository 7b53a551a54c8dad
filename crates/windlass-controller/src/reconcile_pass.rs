//! One pass over one custom resource, from its object to its status.
//!
//! Owns the order of the steps that all front ends share (suspension, finalizer, reconcile, status, Event), and what a front end
//! may do on the way. When a pass is due is the loop's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::STATUS_MANAGER;
use super::controller_context::ControllerContext;
use super::crds::report_kept_crds;
use super::drift_policy::report_drift;
use super::error::ReconcileError;
use super::events::EventNote;
use super::finalizer::{add_finalizer, remove_finalizer};
use super::front_end::{FrontEnd, Reconciled, References, RelatedObjects, Report, Requeue};
use super::image_values::ImageValues;
use super::release_claims::ReleaseClaims;
use super::release_runner::{Done, ReleaseRunner, ReleaseSpec, RenderInputs};
use super::release_settings::PassedObject;
use super::worker_slot::WorkerSlot;
use windlass_cluster::{
    Cluster, ClusterError, MAX_NESTING, ObjectMeta, ObjectRef, PatchKind, has_omitted_values,
};
use windlass_engine::record::RecordHead;
use windlass_engine::{
    ReleaseId, ReleaseKey, ReleaseOutcome, ReleaseRequest, UninstallRequest, Uninstalled, WaitListener as _,
};

/// How long an uninstall waits for hooks.
const UNINSTALL_TIMEOUT: Duration = Duration::from_secs(300);

/// What a job has to do.
pub(super) enum Task {
    Reconcile,
    CorrectDrift(Vec<Arc<ReleaseRequest>>),
    Uninstall,
    /// The release belongs to another object: only the finalizer is removed.
    RemoveFinalizer,
    /// These dependencies are not ready. Those unchecked may be: by a rule of the object and the dependency as it was observed, or, if
    /// it is not watched, as it is read now.
    Wait {
        missing: BTreeSet<String>,
        unchecked: BTreeMap<String, Option<Value>>,
    },
    /// The object cannot be reconciled.
    Refuse(ReconcileError),
}

/// How a job ended.
pub(super) enum Finished {
    Reconciled(Reconciled),
    /// Drift was corrected, or there was none.
    Corrected,
    /// Dependencies are not ready; some of them are not watched.
    Waiting {
        elsewhere: bool,
    },
    Suspended,
    Uninstalled,
    Failed {
        error: ReconcileError,
        retry_in: Duration,
        inputs: Option<RenderInputs>,
    },
}

/// An object, and what a front end does with it in one pass.
pub struct ReconcilePass {
    /// What all front ends share.
    pub(super) context: ControllerContext,
    /// Name of the object.
    pub reference: ObjectRef,
    /// The object as it was last read or written.
    pub object: Value,
    /// The generation that the pass began with: what it works on, whatever a write answers.
    pub(super) generation: i64,
    /// Failures in a row before this pass.
    pub failures: u32,
    /// The related objects that the object refers to, as far as they exist.
    pub related: RelatedObjects,
    /// What the last pass left.
    pub memo: Option<Arc<Value>>,
    /// What was read so far.
    pub references: References,
    /// Who has which release.
    pub(super) claims: ReleaseClaims,
    /// The place among the workers: left while the engine waits.
    pub(super) slot: WorkerSlot,
    /// The client that read the references.
    pub(super) reader: Option<Cluster>,
    /// The images that the composed values name.
    pub(super) image_values: Option<ImageValues>,
}

impl ReconcilePass {
    /// Does a job and writes the object's status. Returns the object as it was last written, too.
    pub(super) async fn run<F: FrontEnd>(mut self, front_end: Arc<F>, task: Task) -> (Finished, Value) {
        let began = Instant::now();
        let object = front_end.read(&self.object);
        let result = self.work(&*front_end, &object, task).await;
        if let Some(metric) = front_end.duration_metric() {
            let labels = duration_labels(&self.reference);
            let took = began.elapsed().as_secs_f64();
            self.context.state.metrics.observe(metric.name, metric.help, &labels, took, metric.bounds);
        }
        let finished = match result {
            Ok(finished) => finished,
            Err(mut error) => {
                let failures = self.failures + 1;
                let retry_in = error.retry_delay(failures, front_end.interval(&object));
                let report = Report::Failed { error: &error, retry_in, failures };
                if let Err(failure) = self.report(&*front_end, &object, &report).await {
                    tracing::warn!(object = %self.reference, "the status cannot be written: {failure}");
                }
                let inputs = self.inputs_with(error.take_inputs());
                Finished::Failed { error, retry_in, inputs }
            }
        };
        (finished, self.object)
    }

    async fn work<F: FrontEnd>(
        &mut self,
        front_end: &F,
        object: &F::Object,
        task: Task,
    ) -> Result<Finished, ReconcileError> {
        if front_end.belongs_elsewhere(object) {
            self.context.release_settings.leave(&self.reference);
            return Ok(Finished::Suspended);
        }
        let deletes = matches!(task, Task::Uninstall | Task::RemoveFinalizer);
        if deletes || matches!(task, Task::Refuse(_)) {
            self.context.release_settings.leave(&self.reference);
        }
        if !deletes && front_end.is_suspended(object) {
            self.context.release_settings.leave(&self.reference);
            self.report(front_end, object, &Report::Suspended).await?;
            return Ok(Finished::Suspended);
        }
        match task {
            Task::Refuse(error) => Err(error),
            Task::Wait { mut missing, unchecked } => {
                front_end.check_dependencies(object)?;
                let rules = front_end.dependencies(object);
                let elsewhere = unchecked.values().any(Option::is_none);
                for (key, observed) in unchecked {
                    let rule = rules.get(&key).and_then(Option::as_deref);
                    if self.is_dependency_ready(front_end, (&key, rule), observed).await? {
                        missing.remove(&key);
                    }
                }
                if missing.is_empty() {
                    return Box::pin(self.reconcile(front_end, object)).await;
                }
                self.report(front_end, object, &Report::DependencyNotReady(&missing)).await?;
                Ok(Finished::Waiting { elsewhere })
            }
            Task::Uninstall => {
                front_end.uninstall(self, object).await?;
                self.remove_finalizer(front_end).await
            }
            Task::RemoveFinalizer => self.remove_finalizer(front_end).await,
            Task::CorrectDrift(requests) => {
                for request in requests {
                    let runner = front_end.release_runner(self, object, &request.id)?;
                    match runner.correct_drift(request).await {
                        Ok(done) => self.note_released(front_end, object, &done).await?,
                        // What becomes of the release is the front end's decision.
                        Err(ReconcileError::Engine(error)) if error.is_unreadable_record() => {
                            return Box::pin(self.reconcile(front_end, object)).await;
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(Finished::Corrected)
            }
            Task::Reconcile => {
                front_end.check_dependencies(object)?;
                Box::pin(self.reconcile(front_end, object)).await
            }
        }
    }

    async fn reconcile<F: FrontEnd>(
        &mut self,
        front_end: &F,
        object: &F::Object,
    ) -> Result<Finished, ReconcileError> {
        if has_omitted_values(&self.object) {
            return Err(ReconcileError::Config(format!(
                "the object has values that are nested deeper than some {} levels: make them flatter",
                MAX_NESTING - 5
            )));
        }
        self.context.release_settings.note_begun(&self.reference);
        if front_end.needs_finalizer(object) {
            let finalizer = front_end.finalizer();
            self.object = add_finalizer(self.client(), &self.reference, &self.object, finalizer).await?;
        }
        let mut reconciled = front_end.reconcile(self, object).await?;
        if let (Requeue::Failure, Some(error)) = (reconciled.requeue, &reconciled.failure) {
            let retry_in = error.retry_delay(self.failures + 1, front_end.interval(object));
            reconciled.requeue = Requeue::After(retry_in);
        }
        if reconciled.ready {
            self.note_settings(front_end, &reconciled.requests);
        }
        let failed = reconciled.failure.as_mut().and_then(ReconcileError::take_inputs);
        let rendered = [reconciled.inputs.take(), failed].into_iter().flatten().reduce(RenderInputs::merged);
        reconciled.inputs = self.inputs_with(rendered);
        Ok(Finished::Reconciled(reconciled))
    }

    /// From now on the object's settings count for the workloads of its releases: of those that the pass asked for, or else of those that
    /// it has.
    fn note_settings<F: FrontEnd>(&mut self, front_end: &F, requests: &[Arc<ReleaseRequest>]) {
        let (meta, generation) = (ObjectMeta::of(&self.object), self.generation);
        if meta.generation() != generation {
            // Its releases are those of another spec, over which the next pass is.
            return;
        }
        let mut releases: BTreeSet<ReleaseKey> =
            requests.iter().map(|request| ReleaseKey::at_home(&request.id)).collect();
        if releases.is_empty() {
            // The pass may have chosen one just now, which the status has.
            releases = front_end.releases(&front_end.read(&self.object));
        }
        let key = meta.namespaced_name();
        // The pass was through: it has written the records, or found its own.
        releases.retain(|release| self.claims.claim(release, &key).is_ok());
        let images = self.image_values.take();
        // An object without a release here may name images that cannot be followed, which is said by who follows images.
        if releases.is_empty() && images.as_ref().is_none_or(|images| images.errors.is_empty()) {
            self.context.release_settings.leave(&self.reference);
            return;
        }
        let passed = PassedObject { generation, releases, images };
        self.context.release_settings.note_pass(&self.reference, passed);
    }

    /// What renders have looked up, and the references, as inputs to watch.
    fn inputs_with(&mut self, rendered: Option<RenderInputs>) -> Option<RenderInputs> {
        let read = self.inputs();
        rendered.into_iter().chain(read).reduce(RenderInputs::merged)
    }

    /// Whether a dependency is ready. `observed`: `None` if this process does not watch it: of another namespace or another shard.
    async fn is_dependency_ready<F: FrontEnd>(
        &self,
        front_end: &F,
        (key, rule): (&str, Option<&str>),
        observed: Option<Value>,
    ) -> Result<bool, ReconcileError> {
        let (namespace, name) =
            key.split_once('/').map_or((None, key), |(namespace, name)| (Some(namespace), name));
        let dependency = ObjectRef::new(front_end.kind(), namespace, name);
        let found = match observed {
            Some(observed) => Some(observed),
            None => self.client().get(&dependency).await?,
        };
        let Some(found) = found else { return Ok(false) };
        match rule {
            Some(rule) => front_end.fits_dependency_rule(rule, &self.object, (key, &found)).await,
            None => Ok(front_end.shows_ready(&front_end.read(&found)).unwrap_or(false)),
        }
    }

    /// Says that a new generation is being reconciled.
    ///
    /// # Errors
    /// The status cannot be written.
    pub async fn report_progress<F: FrontEnd>(
        &mut self,
        front_end: &F,
        object: &F::Object,
    ) -> Result<(), ClusterError> {
        if self.object["status"]["observedGeneration"] == ObjectMeta::of(&self.object).generation() {
            return Ok(());
        }
        self.report(front_end, object, &Report::Progressing).await
    }

    /// Renders a release and reconciles it in one operation of the engine, and reports the outcome.
    ///
    /// # Errors
    /// Any step from the render to the status fails.
    pub async fn reconcile_release<F: FrontEnd>(
        &mut self,
        front_end: &F,
        object: &F::Object,
        spec: ReleaseSpec,
        interval: Option<Duration>,
    ) -> Result<Reconciled, ReconcileError> {
        let done = self.runner(front_end, object)?.run(spec).await?;
        self.note_released(front_end, object, &done).await?;
        let requeue = interval.map_or(Requeue::Never, Requeue::After);
        let Done { request, inputs, .. } = done;
        Ok(Reconciled { requests: vec![request], inputs, ..Reconciled::new(true, requeue) })
    }

    async fn note_released<F: FrontEnd>(
        &mut self,
        front_end: &F,
        object: &F::Object,
        done: &Done,
    ) -> Result<(), ReconcileError> {
        self.note_outcome(&done.outcome);
        Ok(self.report(front_end, object, &Report::Released(&done.outcome)).await?)
    }

    /// Logs an outcome of the engine with its warnings, and reports its drift.
    pub fn note_outcome(&self, outcome: &ReleaseOutcome) {
        let key = self.reference.to_string();
        for text in &outcome.warnings {
            tracing::warn!(object = key, "{text}");
        }
        report_drift(&self.context.events, &self.context.state, ("object", &key), outcome);
        report_kept_crds(&self.context.events, outcome);
        tracing::info!(
            object = key,
            action = ?outcome.action,
            revision = outcome.revision,
            reason = %outcome.reason,
            "reconciled"
        );
    }

    /// Uninstalls a release of the object; one that does not exist is fine.
    ///
    /// # Errors
    /// As the engine's.
    pub async fn uninstall_release<F: FrontEnd>(
        &self,
        front_end: &F,
        object: &F::Object,
        id: &ReleaseId,
    ) -> Result<(), ReconcileError> {
        let request = UninstallRequest {
            ignore_not_found: true,
            timeout: UNINSTALL_TIMEOUT,
            ..UninstallRequest::new(id.clone())
        };
        let runner = self.runner(front_end, object)?;
        let is_own = |head: &RecordHead| head.owner() == Some(front_end.name());
        let deleted = self.uninstall_readable(&runner, &request, is_own).await?.deleted;
        tracing::info!(object = %self.reference, deleted = deleted.len(), "uninstalled");
        Ok(())
    }

    /// Uninstalls a release of the object as far as its records can be read; Events say what could not be. `is_own`: whether a record
    /// is the object's, by its labels.
    ///
    /// # Errors
    /// As [`ReleaseRunner::uninstall`], but not for records that cannot be read.
    pub async fn uninstall_readable(
        &self,
        runner: &ReleaseRunner,
        request: &UninstallRequest,
        is_own: impl Fn(&RecordHead) -> bool,
    ) -> Result<Uninstalled, ReconcileError> {
        let note = |note: EventNote| {
            tracing::warn!(object = %self.reference, "{}", note.note);
            self.record_event(note);
        };
        runner.uninstall_readable(request, is_own, note).await
    }

    async fn remove_finalizer<F: FrontEnd>(&self, front_end: &F) -> Result<Finished, ReconcileError> {
        let own = |name: &str| name == front_end.finalizer() || front_end.legacy_finalizers().contains(&name);
        remove_finalizer(self.client(), &self.reference, &self.object, own).await?;
        Ok(Finished::Uninstalled)
    }

    /// The runner that acts on behalf of the object; it leaves the worker's place while the engine waits.
    ///
    /// # Errors
    /// The object's target is invalid, or the impersonating client cannot be built.
    pub fn runner<F: FrontEnd>(
        &self,
        front_end: &F,
        object: &F::Object,
    ) -> Result<ReleaseRunner, ReconcileError> {
        let target = front_end.target(object)?;
        let own = self.reference.namespace.clone().unwrap_or_default();
        let release = front_end.releases(object).into_iter().next();
        let namespace = release.map_or(own, |key| key.id.namespace);
        Ok(self.adopt_runner(self.context.runner.acting_for(&target, &namespace)?))
    }

    /// A runner of the front end's own for this pass: it leaves the worker's place while its engine waits. Where it is of the cluster of
    /// the object, its releases are deployed for that.
    #[must_use]
    pub fn adopt_runner(&self, runner: ReleaseRunner) -> ReleaseRunner {
        let runner = runner.with_slot(&self.slot);
        match runner.engine().operator_client().server() == self.client().server() {
            true => runner.for_object(&self.reference),
            false => runner,
        }
    }

    /// Does work that takes long and is none of the cluster's: it leaves the worker's place to other jobs meanwhile. `None`: a newer
    /// generation of the object came, and the work was dropped.
    pub async fn outside<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.slot.begins();
        let mut cancel = self.slot.cancel();
        let cancelled = async {
            if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
                // Nobody can cancel it any more.
                std::future::pending::<()>().await;
            }
        };
        let done = tokio::select! {
            done = work => Some(done),
            () = cancelled => None,
        };
        self.slot.ended().await;
        done
    }

    /// Claims a release for the object, which may write its record, or has.
    ///
    /// # Errors
    /// It belongs to another object.
    pub fn claim_release(&self, release: &ReleaseKey) -> Result<(), ReconcileError> {
        self.claims.claim(release, &ObjectMeta::of(&self.object).namespaced_name())
    }

    /// Refuses the object a release that another object has claimed.
    ///
    /// # Errors
    /// It belongs to another object.
    pub fn check_release(&self, release: &ReleaseKey) -> Result<(), ReconcileError> {
        self.claims.refusal(release, &ObjectMeta::of(&self.object).namespaced_name()).map_or(Ok(()), Err)
    }

    /// The runner that acts as the operator itself.
    #[must_use]
    pub fn runner_of_operator(&self) -> &ReleaseRunner {
        &self.context.runner
    }

    /// The operator's own client, for the object itself and for what is not the tenant's.
    #[must_use]
    pub fn client(&self) -> &Cluster {
        self.context.runner.engine().operator_client()
    }

    /// Notes the images that the composed values of the release name ([`ImageAnnotations::apply`]): newer ones are followed once the
    /// pass was through.
    ///
    /// [`ImageAnnotations::apply`]: super::ImageAnnotations::apply
    pub fn note_image_values(&mut self, images: ImageValues) {
        self.image_values = Some(images);
    }

    /// Sets who reads the references: they are watched with the same rights.
    pub fn set_reader(&mut self, reader: &Cluster) {
        self.reader = Some(reader.clone());
    }

    /// Who reads the references: the operator, unless one was set.
    pub(crate) fn reader(&self) -> &Cluster {
        self.reader.as_ref().unwrap_or_else(|| self.client())
    }

    /// The references as inputs to watch; `None` if there are none.
    fn inputs(&mut self) -> Option<RenderInputs> {
        let lookups = std::mem::take(&mut self.references);
        let client = self.reader().clone();
        (!lookups.is_empty()).then(|| RenderInputs { lookups, ..RenderInputs::new(client) })
    }

    /// Writes the status of a report unless the object has it, and records the Event that goes with it.
    async fn report<F: FrontEnd>(
        &mut self,
        front_end: &F,
        object: &F::Object,
        report: &Report<'_>,
    ) -> Result<(), ClusterError> {
        let status = front_end.status(object, &self.object["status"], report);
        if !self.write_status(&status).await? {
            return Ok(());
        }
        if let Some(note) = front_end.event(report) {
            self.record_event(note);
        }
        Ok(())
    }

    /// Merges fields into the status, null removing one, unless the object has them already. Returns whether it was written.
    ///
    /// # Errors
    /// The write fails; an object that was deleted meanwhile is fine.
    pub async fn write_status(&mut self, status: &Value) -> Result<bool, ClusterError> {
        if is_merged(&self.object["status"], status) {
            return Ok(false);
        }
        let patch = json!({"status": status});
        let client = self.client();
        match client
            .patch_subresource(&self.reference, "status", PatchKind::Merge, &patch, STATUS_MANAGER)
            .await
        {
            Ok(object) => self.object = object,
            // It was deleted meanwhile.
            Err(e) if e.is_not_found() => return Ok(false),
            Err(e) => return Err(e),
        }
        Ok(true)
    }

    /// Writes a whole status: fields that it does not have are removed. Returns whether it was written.
    ///
    /// # Errors
    /// As [`Self::write_status`].
    pub async fn replace_status(&mut self, status: &impl serde::Serialize) -> Result<bool, ClusterError> {
        let mut patch = serde_json::to_value(status).unwrap_or_default();
        for field in self.object["status"].as_object().into_iter().flat_map(serde_json::Map::keys) {
            if patch.get(field).is_none() {
                patch[field.as_str()] = Value::Null;
            }
        }
        self.write_status(&patch).await
    }

    /// Records an Event on the object, in the background.
    pub fn record_event(&self, note: EventNote) {
        let mut object = self.object.clone();
        object["apiVersion"] = self.reference.gvk.api_version().into();
        object["kind"] = self.reference.gvk.kind.as_str().into();
        self.context.events.spawn_for(&object, note);
    }
}

/// The labels of an object in a histogram of durations.
pub(super) fn duration_labels(object: &ObjectRef) -> [(&'static str, &str); 3] {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    [("kind", &object.gvk.kind), ("name", &object.name), ("namespace", namespace)]
}

/// Whether merging a patch would change nothing.
fn is_merged(object: &Value, patch: &Value) -> bool {
    match (object, patch) {
        (object, Value::Null) => object.is_null(),
        (Value::Object(_), Value::Object(patch)) => {
            patch.iter().all(|(key, value)| is_merged(&object[key], value))
        }
        (object, patch) => object == patch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_written_only_if_it_changes_something() {
        let status = json!({"a": 1, "b": {"c": [1]}, "gone": null});
        for (patch, merged) in [
            (json!({}), true),
            (json!({"a": 1}), true),
            (json!({"a": 2}), false),
            (json!({"a": null}), false),
            (json!({"x": null, "gone": null}), true),
            (json!({"b": {"c": [1], "d": null}}), true),
            (json!({"b": {"c": [1, 2]}}), false),
            (json!({"b": {"d": 1}}), false),
        ] {
            assert_eq!(is_merged(&status, &patch), merged, "{patch}");
        }
        assert!(is_merged(&Value::Null, &Value::Null) && !is_merged(&Value::Null, &json!({"a": 1})));
    }
}
