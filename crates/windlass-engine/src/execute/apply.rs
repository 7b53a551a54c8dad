//! Applies the objects of a plan: one write each unless something conflicts.

use crate::{
    context::Context,
    error::{EngineError, Result},
    execute::{
        autoscaler::{self, Autoscalers, Scaled},
        client_write::Originals,
        readiness::{kstatus, status_wait::object_event},
        recreate,
        rejection::{self, Attempt, Rejection, TRIES},
    },
    objects::{
        desired_objects::DesiredObject,
        field_conflicts::{self, Conflict},
        followed_images::IMAGE_MANAGER,
        ownership,
    },
    outcome::ReleaseOutcome,
    plan::{Deletion, PlanStep},
    progress::operation_progress::{OperationProgress, ProgressReporter},
    request::{ApplyMethod, ReleaseId, ReleaseOptions},
    state::{engine_state::EngineState, expected_object::ExpectedObject},
};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use windlass_cluster::{
    Applied, ApplyOptions, Cluster, ClusterError, DeleteOptions, Deleted, Folded, ObjectEvent, ObjectKey,
    ObjectMeta, ObjectRef, ObservedMeta, Propagation,
};

const AT_ONCE: usize = 16;

/// Writes objects on behalf of one operation.
pub(crate) struct Applier<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) manager: &'a str,
    pub(crate) options: &'a ReleaseOptions,
    pub(crate) id: &'a ReleaseId,
    pub(crate) progress: ProgressReporter<'a>,
    /// What patches are made of; `None`: objects are applied by the server.
    pub(crate) client: Option<Originals<'a>>,
    pub(crate) state: &'a EngineState,
    pub(crate) autoscalers: Autoscalers<'a>,
}

/// An object after its write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) target: usize,
    pub(crate) method: ApplyMethod,
    pub(crate) after: ObservedMeta,
    pub(crate) created: bool,
    pub(crate) changed: bool,
    /// Fields of it were left to their owners.
    pub(crate) left: bool,
    pub(crate) warnings: Vec<String>,
}

impl Written {
    fn by_server(step: &PlanStep, after: ObservedMeta, left: bool, warnings: Vec<String>) -> Self {
        let before = step.before.as_ref();
        let same = before.is_some_and(|b| b.uid == after.uid && b.resource_version == after.resource_version);
        // An object that was not read existed if others own fields of it; an empty one of theirs is as good as new.
        let created = before.map_or(after.others == 0, |b| b.uid != after.uid);
        let (target, method, changed) = (step.target, ApplyMethod::Server, !same && !created);
        Self { target, method, after, created, changed, left, warnings }
    }

    /// Adds the write to the outcome of the operation, and its result to the expected objects.
    pub(crate) fn record(
        self,
        target: &DesiredObject,
        expected: &mut BTreeMap<ObjectKey, ExpectedObject>,
        outcome: &mut ReleaseOutcome,
    ) {
        let object = target.object.clone();
        let mut written = ExpectedObject::written(object.clone(), &target.body, self.method, &self.after);
        let is_ready = kstatus::is_ready_once_written(&target.body);
        written.ready_at = self.after.version_number().filter(|_| is_ready);
        expected.insert(target.key.clone(), written);
        if self.created {
            outcome.created.push(object);
        } else if self.changed {
            outcome.changed.push(object);
        } else {
            outcome.unchanged += 1;
        }
        outcome.warnings.extend(self.warnings);
    }
}

impl<'a> Applier<'a> {
    /// Applies by the server. `client` is set for patches.
    pub(crate) fn new(context: &'a Context, id: &'a ReleaseId, options: &'a ReleaseOptions) -> Self {
        Self {
            cluster: &context.cluster,
            manager: context.manager(),
            options,
            id,
            progress: context.progress_of(id),
            client: None,
            state: &context.state,
            autoscalers: Autoscalers::new(&context.cluster),
        }
    }

    /// Applies the objects of one phase at the same time. All are tried, whatever fails.
    pub(crate) async fn phase(
        &self,
        targets: &[DesiredObject],
        steps: &[PlanStep],
    ) -> (Vec<Written>, Result<()>) {
        let writes: Vec<_> = steps
            .iter()
            .map(|step| async move {
                let target = &targets[step.target];
                let written = self.write(targets, step).await.map_err(|error| match error {
                    EngineError::Cluster(source) => {
                        rejection::error_of(source, target, self.manager, step.before.is_some())
                    }
                    error => error,
                })?;
                let Written { created, changed, .. } = written;
                self.progress.report(&OperationProgress::Applied {
                    object: &target.object,
                    created,
                    changed,
                });
                Ok(written)
            })
            .collect();
        let results: Vec<Result<Written>> = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        let mut written = Vec::with_capacity(results.len());
        let mut errors = Vec::new();
        for result in results {
            match result {
                Ok(one) => written.push(one),
                Err(error) => errors.push(error),
            }
        }
        (written, several(errors))
    }

    /// The conflicts of objects that will not be applied, found by the server's dry run. Other failures are not
    /// reported.
    pub(crate) async fn conflicts_ahead<'s>(
        &self,
        targets: &[DesiredObject],
        steps: impl Iterator<Item = &'s PlanStep>,
    ) -> Vec<EngineError> {
        if self.client.is_some() {
            return Vec::new();
        }
        let there = steps.filter(|step| step.before.as_ref().is_some_and(|before| !before.deleting));
        let looks: Vec<_> = there.map(|step| self.conflict_ahead(&targets[step.target], step)).collect();
        let found: Vec<Option<EngineError>> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        found.into_iter().flatten().collect()
    }

    async fn conflict_ahead(&self, target: &DesiredObject, step: &PlanStep) -> Option<EngineError> {
        let error = self.send(&target.object, &target.body, false, true).await.err()?;
        let folded = ownership::folded(step.before.as_ref(), self.id, &self.options.ownership);
        let conflicts = field_conflicts::of(&error, self.manager, folded);
        if conflicts.is_empty() {
            return None;
        }
        let mut attempt = Attempt::new(&target.body);
        let object = &target.object;
        let ours = conflicts.iter().any(|conflict| conflict.manager == IMAGE_MANAGER);
        let live = match ours {
            true => self.cluster.get_metadata(object).await.ok()?.unwrap_or_default(),
            false => Value::Null,
        };
        if attempt.settle(&conflicts, &live, object, self.options, &Scaled::ByManifest) {
            return None;
        }
        let (object, path) = (object.to_string(), target.path.clone());
        Some(EngineError::Conflict { object, path, conflicts, source: Box::new(error) })
    }

    async fn write(&self, targets: &[DesiredObject], step: &PlanStep) -> Result<Written> {
        let target = &targets[step.target];
        let before = step.before.as_ref();
        if before.is_some_and(|b| b.deleting) {
            self.await_gone(&target.object).await?;
        }
        if let Some(originals) = self.client {
            return self.write_as_client(targets, step, originals).await;
        }
        let folded = ownership::folded(before, self.id, &self.options.ownership);
        if folded == Folded::HelmAndKubectl && before.is_some_and(|seen| seen.kubectl_applies) {
            // Before the apply, which marks the object as the release's: after a crash between the two it is taken over again.
            self.fold(&target.object, folded).await?;
        }
        let mut warnings = Vec::new();
        let mut attempt = Attempt::new(&target.body);
        loop {
            let error = match self.send(&target.object, &attempt.body, attempt.force, false).await {
                Ok(Applied { object: applied, warnings: more }) => {
                    warnings.extend(more);
                    let after = ObservedMeta::of(&applied, self.manager);
                    if after.deleting && attempt.again() {
                        // The object was deleted during our write: what we applied is gone with it.
                        self.await_gone(&target.object).await?;
                        continue;
                    }
                    if after.helm_updates && attempt.again() {
                        // Helm's entries still own fields: folded into ours, the next apply removes those that left
                        // the chart. A conflict means another write: read again.
                        self.fold_once(&target.object, &applied).await?;
                        continue;
                    }
                    return Ok(Written::by_server(step, after, attempt.left, warnings));
                }
                Err(error) => error,
            };
            match attempt.rejected(&error, self.options.sanitize_rules()) {
                Rejection::Conflict => {
                    if !self.resolve(&error, targets, target, &mut attempt, &mut warnings).await? {
                        return Err(error.into());
                    }
                }
                Rejection::Settling(pause) => tokio::time::sleep(pause).await,
                Rejection::Sanitized(warning) => warnings.push(format!("{}: {warning}", target.object)),
                Rejection::Immutable if before.is_some() || self.exists(&target.object).await? => {
                    self.delete_for_another(target, error).await?;
                }
                Rejection::Immutable | Rejection::Final => {
                    if error.is_not_found() {
                        // The kind may have been removed: the next attempt finds out.
                        self.cluster.refresh_kinds(Instant::now()).await?;
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Prepares an object that is in conflict for the next attempt: entries of Helm are folded into ours, then the conflict policy
    /// decides. `false`: the write fails.
    async fn resolve(
        &self,
        error: &ClusterError,
        targets: &[DesiredObject],
        target: &DesiredObject,
        attempt: &mut Attempt<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<bool> {
        let Some(live) = self.cluster.get_metadata(&target.object).await? else { return Ok(true) };
        if self.fold_once(&target.object, &live).await? {
            return Ok(true);
        }
        let entries = ObjectMeta::of(&live).managed_fields();
        let conflicts = field_conflicts::of(error, self.manager, Folded::Helm);
        let scaled = self.scaled(targets, target, &conflicts, entries, warnings).await?;
        Ok(attempt.settle(&conflicts, &live, &target.object, self.options, &scaled))
    }

    /// Folds Helm's entries into ours; `true` if there were some, or another write came first.
    async fn fold_once(&self, object: &ObjectRef, live: &Value) -> Result<bool, ClusterError> {
        match self.cluster.fold(object, live, self.manager, Folded::Helm).await {
            Err(error) if error.is_conflict() => Ok(true),
            folded => folded,
        }
    }

    /// Who decides about the replicas of an object that is in conflict. Says once a release that autoscalers cannot be listed.
    pub(super) async fn scaled(
        &self,
        targets: &[DesiredObject],
        target: &DesiredObject,
        conflicts: &[Conflict],
        managed_fields: &[Value],
        warnings: &mut Vec<String>,
    ) -> Result<Scaled, ClusterError> {
        let forced = self.options.ownership.force_conflicts;
        if !forced || !autoscaler::contested(conflicts, managed_fields) {
            return Ok(Scaled::ByManifest);
        }
        let documents = targets.iter().map(|target| &target.body);
        let scaled = self.autoscalers.scaled(&target.object, documents, &self.id.namespace).await?;
        if let Scaled::Unseen(kinds) = &scaled {
            let namespace = target.object.namespace.as_deref().unwrap_or_default();
            if self.state.is_first_unseen(self.id, namespace) {
                warnings.push(autoscaler::unseen(kinds, namespace));
            }
        }
        Ok(scaled)
    }

    /// Folds entries of an object's managed fields into ours. A conflict means another write: it is read again.
    async fn fold(&self, object: &ObjectRef, folded: Folded) -> Result<(), ClusterError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let Some(live) = self.cluster.get_metadata(object).await? else { return Ok(()) };
            match self.cluster.fold(object, &live, self.manager, folded).await {
                Err(e) if e.is_conflict() && tries < TRIES => {}
                done => return done.map(drop),
            }
        }
    }

    async fn exists(&self, object: &ObjectRef) -> Result<bool, ClusterError> {
        Ok(self.cluster.get_metadata(object).await?.is_some())
    }

    /// Deletes an object with an immutable field for another one, if the request allows it and no data would be lost.
    pub(super) async fn delete_for_another(
        &self,
        target: &DesiredObject,
        source: ClusterError,
    ) -> Result<()> {
        if !self.options.objects.immutable.recreates() {
            let (object, path) = (target.object.to_string(), target.path.clone());
            return Err(EngineError::Immutable { object, path, source });
        }
        let Some(live) = self.cluster.get(&target.object).await? else { return Ok(()) };
        if let Some(reason) = recreate::refusal(self.cluster, &target.object, &live, &target.body).await? {
            let (object, path) = (target.object.to_string(), target.path.clone());
            let source = Box::new(source);
            return Err(EngineError::NotRecreated { object, path, reason, source });
        }
        let uid = ObjectMeta::of(&live).uid();
        let options = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
        match self.cluster.delete(&target.object, options).await? {
            Deleted::Yes | Deleted::Absent => Ok(self.await_gone(&target.object).await?),
            // Another writer created it again: the apply shows how it differs.
            Deleted::Another => Ok(()),
        }
    }

    async fn send(
        &self,
        object: &ObjectRef,
        body: &Value,
        force: bool,
        dry_run: bool,
    ) -> Result<Applied, ClusterError> {
        let validation = self.options.objects.validation;
        let options = ApplyOptions { manager: self.manager, force, validation, dry_run, whole: false };
        self.cluster.apply(object, body, options).await
    }

    pub(super) async fn await_gone(&self, object: &ObjectRef) -> Result<(), ClusterError> {
        await_gone(self.cluster, object, self.options.timeout, self.progress).await
    }

    /// Deletes groups of objects one after the other; returns the deleted ones.
    pub(crate) async fn prune(
        &self,
        groups: &[Vec<Deletion>],
        propagation: Propagation,
    ) -> (Vec<ObjectRef>, Result<()>) {
        let mut deleted = Vec::new();
        let mut errors = Vec::new();
        for group in groups {
            let deletions: Vec<_> = group
                .iter()
                .map(|deletion| async move { (deletion, self.delete(deletion, propagation).await) })
                .collect();
            let results: Vec<_> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
            for (deletion, result) in results {
                match result {
                    Ok(true) => {
                        self.progress.report(&OperationProgress::Deleted(&deletion.object));
                        deleted.push(deletion.object.clone());
                    }
                    Ok(false) => {}
                    Err(source) => {
                        let path = "not in the chart";
                        errors.push(EngineError::object("deleting", &deletion.object, path, source));
                    }
                }
            }
        }
        (deleted, several(errors))
    }
}

impl Applier<'_> {
    /// Deletes the planned object by UID, or its replacement if that is the release's too.
    async fn delete(&self, deletion: &Deletion, propagation: Propagation) -> Result<bool, ClusterError> {
        let mut uid = deletion.uid.clone();
        for _ in 0..TRIES {
            let options = DeleteOptions { propagation, uid: Some(&uid), version: None };
            match self.cluster.delete(&deletion.object, options).await? {
                Deleted::Yes => return Ok(true),
                Deleted::Absent => return Ok(false),
                Deleted::Another => {
                    let Some(live) = self.cluster.get_metadata(&deletion.object).await? else {
                        return Ok(false);
                    };
                    let seen = ObservedMeta::of(&live, self.manager);
                    if ownership::check(&seen, self.id).is_err() {
                        return Ok(false);
                    }
                    uid = seen.uid;
                }
            }
        }
        Ok(false)
    }
}

/// Waits until an object is deleted.
pub(crate) async fn await_gone(
    cluster: &Cluster,
    object: &ObjectRef,
    timeout: Duration,
    progress: ProgressReporter<'_>,
) -> Result<(), ClusterError> {
    let wait = async {
        let mut events =
            cluster.follow_named(&object.gvk, object.namespace.as_deref(), &[&object.name], "").await?;
        let mut there = false;
        while let Some(event) = events.next().await {
            match object_event(event?, Some(progress)) {
                Some(ObjectEvent::Present(_)) => there = true,
                Some(ObjectEvent::Gone(_)) => return Ok(()),
                Some(ObjectEvent::Listing) => there = false,
                Some(ObjectEvent::Listed) if !there => return Ok(()),
                Some(ObjectEvent::Listed) | None => {}
            }
        }
        Ok(())
    };
    match progress.wait(tokio::time::timeout(timeout, wait)).await {
        Ok(done) => done,
        Err(_) => {
            let live = cluster.get_metadata(object).await.unwrap_or_default();
            let finalizers: Vec<&str> =
                live.iter().flat_map(|live| ObjectMeta::of(live).finalizers()).collect();
            let held = match finalizers.len() {
                0 => String::new(),
                _ => format!(": it waits for the finalizers {}", finalizers.join(", ")),
            };
            Err(ClusterError::WaitTimeout { what: format!("{object} to be gone{held}") })
        }
    }
}

pub(crate) fn several(mut errors: Vec<EngineError>) -> Result<()> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(EngineError::Several(errors)),
    }
}
