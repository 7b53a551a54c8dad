//! One job of one custom resource, from its object to its status.
//!
//! Owns the order of the steps: suspension, finalizer, request, release, status, Event. When a job is due is the loop's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::STATUS_MANAGER;
use super::controller_context::ControllerContext;
use super::crds::contains;
use super::drift_policy::report_drift;
use super::error::ReconcileError;
use super::finalizer::{add_finalizer, remove_finalizer};
use super::front_end::{Desired, FrontEnd, Report};
use super::release_runner::{Done, ReleaseRunner, RenderInputs};
use crate::cluster::{Cluster, ClusterError, ObjectRef, PatchKind};
use crate::release::ReleaseRequest;

/// How long an uninstall waits for hooks.
const UNINSTALL_TIMEOUT: Duration = Duration::from_secs(300);

/// What a job has to do.
pub(super) enum Task {
    Reconcile,
    CorrectDrift(Option<Arc<ReleaseRequest>>),
    Uninstall,
    /// The release belongs to another object: only the finalizer is removed.
    RemoveFinalizer,
    /// These dependencies are not ready.
    Wait(BTreeSet<String>),
    /// The object cannot be reconciled.
    Refuse(ReconcileError),
}

/// What a job did.
pub(super) enum Finished {
    Released { request: Arc<ReleaseRequest>, inputs: Option<RenderInputs>, interval: Option<Duration> },
    Waiting,
    Suspended,
    Uninstalled,
    Failed { error: ReconcileError, retry_in: Duration, inputs: Option<RenderInputs> },
}

/// An object and what its job needs.
pub(super) struct ReconcileJob<F> {
    pub(super) front_end: Arc<F>,
    pub(super) context: ControllerContext,
    pub(super) reference: ObjectRef,
    pub(super) object: Value,
    /// Failures in a row before this job.
    pub(super) failures: u32,
    /// What was read so far.
    pub(super) inputs: Option<RenderInputs>,
}

impl<F: FrontEnd> ReconcileJob<F> {
    /// Does the job and writes the object's status.
    pub(super) async fn run(mut self, task: Task) -> Finished {
        match self.work(task).await {
            Ok(finished) => finished,
            Err(error) => {
                let retry_in = error.retry_delay(self.failures + 1);
                if let Err(failure) = self.report(&Report::Failed { error: &error, retry_in }).await {
                    tracing::warn!(object = %self.reference, "the status cannot be written: {failure}");
                }
                Finished::Failed { error, retry_in, inputs: self.inputs }
            }
        }
    }

    async fn work(&mut self, task: Task) -> Result<Finished, ReconcileError> {
        let deletes = matches!(task, Task::Uninstall | Task::RemoveFinalizer);
        if !deletes && self.front_end.is_suspended(&self.object) {
            self.report(&Report::Suspended).await?;
            return Ok(Finished::Suspended);
        }
        match task {
            Task::Refuse(error) => Err(error),
            Task::Wait(dependencies) => {
                self.report(&Report::DependencyNotReady(&dependencies)).await?;
                Ok(Finished::Waiting)
            }
            Task::Uninstall => self.uninstall().await,
            Task::RemoveFinalizer => self.remove_finalizer().await,
            Task::CorrectDrift(request) => match request {
                Some(request) => {
                    let done = self.runner()?.correct_drift(request).await?;
                    self.released(done, None).await
                }
                None => self.reconcile().await,
            },
            Task::Reconcile => self.reconcile().await,
        }
    }

    async fn reconcile(&mut self) -> Result<Finished, ReconcileError> {
        self.object =
            add_finalizer(self.client(), &self.reference, &self.object, self.front_end.finalizer()).await?;
        let generation = &self.object["metadata"]["generation"];
        if self.object["status"]["observedGeneration"] != *generation {
            self.report(&Report::Progressing).await?;
        }
        let runner = self.runner()?;
        let inputs = self.inputs.insert(RenderInputs::new(runner.engine().cluster().clone()));
        let desired = self.front_end.desired(&self.object, &runner, &mut inputs.lookups);
        let Desired { spec, interval } = desired.await?;
        let done = runner.run(spec).await?;
        self.released(done, interval).await
    }

    async fn released(&mut self, done: Done, interval: Option<Duration>) -> Result<Finished, ReconcileError> {
        let key = self.reference.to_string();
        for text in &done.outcome.warnings {
            tracing::warn!(object = key, "{text}");
        }
        report_drift(&self.context.events, &self.context.state, ("object", &key), &done.outcome);
        tracing::info!(
            object = key,
            action = ?done.outcome.action,
            revision = done.outcome.revision,
            reason = %done.outcome.reason,
            "reconciled"
        );
        self.report(&Report::Released(&done.outcome)).await?;
        let mut inputs = done.inputs;
        if let (Some(inputs), Some(read)) = (&mut inputs, self.inputs.take()) {
            inputs.lookups.extend(read.lookups);
        }
        Ok(Finished::Released { request: done.request, inputs, interval })
    }

    async fn uninstall(&mut self) -> Result<Finished, ReconcileError> {
        let id = self.front_end.release(&self.object);
        let deleted = self.runner()?.uninstall(&id, UNINSTALL_TIMEOUT).await?;
        tracing::info!(object = %self.reference, deleted, "uninstalled");
        self.remove_finalizer().await
    }

    async fn remove_finalizer(&self) -> Result<Finished, ReconcileError> {
        remove_finalizer(self.client(), &self.reference, &self.object, self.front_end.finalizer()).await?;
        Ok(Finished::Uninstalled)
    }

    /// The runner that acts on behalf of the object.
    fn runner(&self) -> Result<ReleaseRunner, ReconcileError> {
        let target = self.front_end.target(&self.object)?;
        let namespace = self.front_end.release(&self.object).namespace;
        Ok(self.context.runner.acting_for(&target, &namespace)?)
    }

    fn client(&self) -> &Cluster {
        self.context.runner.engine().operator_client()
    }

    /// Writes the status unless the object has it, and records the Event that goes with it.
    async fn report(&mut self, report: &Report<'_>) -> Result<(), ClusterError> {
        let status = self.front_end.status(&self.object, report);
        if contains(&self.object["status"], &status) {
            return Ok(());
        }
        let patch = json!({"status": status});
        let client = self.client();
        match client
            .patch_subresource(&self.reference, "status", PatchKind::Merge, &patch, STATUS_MANAGER)
            .await
        {
            Ok(object) => self.object = object,
            // It was deleted meanwhile.
            Err(e) if e.is_not_found() => return Ok(()),
            Err(e) => return Err(e),
        }
        if let Some(note) = self.front_end.event(&self.object, report) {
            let mut object = self.object.clone();
            object["apiVersion"] = self.reference.gvk.api_version().into();
            object["kind"] = self.reference.gvk.kind.as_str().into();
            self.context.events.spawn_for(&object, note);
        }
        Ok(())
    }
}
