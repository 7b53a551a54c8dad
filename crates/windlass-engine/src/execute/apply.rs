//! Applies the objects of a plan: one write each unless something conflicts.

use crate::{
    context::Context,
    error::{EngineError, Result},
    execute::{
        autoscaler::{self, Autoscalers, Scaled},
        client_write::Originals,
        readiness::status_wait::object_event,
        recreate,
        sanitize::sanitize,
    },
    objects::{
        desired_objects::DesiredObject,
        field_conflicts::{self, Conflict},
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
    borrow::Cow,
    collections::BTreeMap,
    time::{Duration, Instant},
};
use windlass_cluster::{
    Applied, ApplyOptions, Cluster, ClusterError, DeleteOptions, Deleted, Folded, ObjectEvent, ObjectKey,
    ObjectRef, ObservedMeta, Propagation,
};

const AT_ONCE: usize = 16;
/// Attempts of a write that another write interferes with.
pub(crate) const TRIES: u32 = 4;

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
    /// Adds the write to the outcome of the operation, and its result to the expected objects.
    pub(crate) fn record(
        self,
        target: &DesiredObject,
        expected: &mut BTreeMap<ObjectKey, ExpectedObject>,
        outcome: &mut ReleaseOutcome,
    ) {
        let object = target.object.clone();
        let written = ExpectedObject::written(object.clone(), &target.body, self.method, &self.after);
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
                let written = self.write(targets, step).await.map_err(|error| {
                    let EngineError::Cluster(source) = error else { return error };
                    let (object, path) = (target.object.to_string(), target.path.clone());
                    let conflicts = field_conflicts::of(&source, self.manager, Folded::Helm);
                    if is_immutable(&source) && step.before.is_some() {
                        EngineError::Immutable { object, path, source }
                    } else if conflicts.is_empty() {
                        EngineError::Object { action: "applying", object, path, source }
                    } else {
                        EngineError::Conflict { object, path, conflicts, source: Box::new(source) }
                    }
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
        let fields = &Value::Null;
        let policy = (false, &Scaled::ByManifest);
        let settled = settle(&target.body, &conflicts, fields, &target.object, self.options, policy);
        let (object, path) = (target.object.to_string(), target.path.clone());
        let conflict = EngineError::Conflict { object, path, conflicts, source: Box::new(error) };
        settled.is_none().then_some(conflict)
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
        let (mut force, mut left) = (false, false);
        let mut body = Cow::Borrowed(&target.body);
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.send(&target.object, &body, force, false).await {
                Ok(Applied { object: applied, warnings: more }) => {
                    warnings.extend(more);
                    let after = ObservedMeta::of(&applied, self.manager);
                    if after.deleting && tries < TRIES {
                        // The object was deleted during our write: what we applied is gone with it.
                        self.await_gone(&target.object).await?;
                        continue;
                    }
                    if after.helm_updates && tries < TRIES {
                        // Helm's entries still own fields: folded into ours, the next apply removes those that left
                        // the chart. A conflict means another write: read again.
                        match self.cluster.fold(&target.object, &applied, self.manager, Folded::Helm).await {
                            Ok(_) => {}
                            Err(e) if e.is_conflict() => {}
                            Err(e) => return Err(e.into()),
                        }
                        continue;
                    }
                    let same = before
                        .is_some_and(|b| b.uid == after.uid && b.resource_version == after.resource_version);
                    // An object that was not read existed if others own fields of it; an empty one of theirs is as good as new.
                    let created = before.map_or(after.others == 0, |b| b.uid != after.uid);
                    return Ok(Written {
                        target: step.target,
                        method: ApplyMethod::Server,
                        created,
                        changed: !same && !created,
                        after,
                        left,
                        warnings,
                    });
                }
                Err(error) => error,
            };
            if tries >= TRIES {
                return Err(error.into());
            }
            if error.is_apply_conflict() {
                let live = self.cluster.get_metadata(&target.object).await?;
                let folded = match &live {
                    Some(live) => self.cluster.fold(&target.object, live, self.manager, Folded::Helm).await,
                    None => Ok(true),
                };
                match folded {
                    Ok(true) => continue,
                    Err(e) if e.is_conflict() => continue,
                    Err(e) => return Err(e.into()),
                    Ok(false) => {
                        let entries = live.as_ref().map_or(&Value::Null, |l| &l["metadata"]["managedFields"]);
                        let conflicts = field_conflicts::of(&error, self.manager, Folded::Helm);
                        let scaled = self.scaled(targets, target, &conflicts, entries, &mut warnings).await?;
                        let policy = (force, &scaled);
                        match settle(&body, &conflicts, entries, &target.object, self.options, policy) {
                            Some(settled) => {
                                body = Cow::Owned(settled.body);
                                force = settled.force;
                                left |= settled.left;
                            }
                            None => return Err(error.into()),
                        }
                    }
                }
            } else if error.is_settling() {
                tokio::time::sleep(Duration::from_millis(50 << tries)).await;
            } else if let Some(sanitized) = sanitize(self.options.sanitize_rules(), &body, &error) {
                // Each time something is removed: it ends by itself, and does not count as an attempt.
                tries -= 1;
                warnings.push(format!("{}: {}", target.object, sanitized.warning));
                body = Cow::Owned(sanitized.body);
            } else if is_immutable(&error) && (before.is_some() || self.exists(&target.object).await?) {
                if !self.options.objects.immutable.recreates() {
                    let (object, path) = (target.object.to_string(), target.path.clone());
                    return Err(EngineError::Immutable { object, path, source: error });
                }
                self.delete_for_another(target, error).await?;
            } else {
                if error.is_not_found() {
                    // The kind may have been removed: the next attempt finds out.
                    self.cluster.refresh_kinds(Instant::now()).await?;
                }
                return Err(error.into());
            }
        }
    }

    /// Who decides about the replicas of an object that is in conflict. Says once a release that autoscalers cannot be listed.
    pub(super) async fn scaled(
        &self,
        targets: &[DesiredObject],
        target: &DesiredObject,
        conflicts: &[Conflict],
        managed_fields: &Value,
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

    /// Deletes an object with an immutable field, unless data would be lost.
    pub(super) async fn delete_for_another(
        &self,
        target: &DesiredObject,
        source: ClusterError,
    ) -> Result<()> {
        let Some(live) = self.cluster.get(&target.object).await? else { return Ok(()) };
        if let Some(reason) = recreate::refusal(self.cluster, &target.object, &live, &target.body).await? {
            let (object, path) = (target.object.to_string(), target.path.clone());
            let source = Box::new(source);
            return Err(EngineError::NotRecreated { object, path, reason, source });
        }
        let uid = live["metadata"]["uid"].as_str();
        let options = DeleteOptions { uid, ..DeleteOptions::default() };
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
                    Err(source) => errors.push(EngineError::Object {
                        action: "deleting",
                        object: deletion.object.to_string(),
                        path: "not in the chart".to_owned(),
                        source,
                    }),
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
            let finalizers: Vec<&str> = live
                .iter()
                .flat_map(|live| live["metadata"]["finalizers"].as_array().into_iter().flatten())
                .filter_map(Value::as_str)
                .collect();
            let held = match finalizers.len() {
                0 => String::new(),
                _ => format!(": it waits for the finalizers {}", finalizers.join(", ")),
            };
            Err(ClusterError::WaitTimeout { what: format!("{object} to be gone{held}") })
        }
    }
}

/// Whether a rejection is about immutable fields only: deleted and created again, the object would be accepted. There
/// is no code for it, only texts.
pub(crate) fn is_immutable(error: &ClusterError) -> bool {
    const WORDS: [&str; 8] = [
        "immutable",
        "may not change",
        "may not be changed",
        "Forbidden: updates to",
        "Forbidden: pod updates may not",
        "cannot change roleRef",
        "cannot be changed",
        "can not be unset",
    ];
    // The rejected value comes first and may contain anything.
    let complaint = |text: &str| match text.strip_prefix("Invalid value: ") {
        Some(rest) => rest.rsplit(": ").next().unwrap_or(rest).to_owned(),
        None => text.to_owned(),
    };
    let causes = error.causes();
    error.is_invalid()
        && !causes.is_empty()
        && causes.iter().all(|cause| {
            let complaint = complaint(&cause.message);
            WORDS.iter().any(|words| complaint.contains(words))
        })
}

pub(crate) fn several(mut errors: Vec<EngineError>) -> Result<()> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(EngineError::Several(errors)),
    }
}

/// How an apply continues after a conflict.
pub(crate) struct Settled {
    pub(crate) body: Value,
    pub(crate) force: bool,
    /// Fields were left to their owners.
    pub(crate) left: bool,
}

/// Applies the conflict policy: fields are left to their owners, or taken over. `None`: the apply fails.
pub(crate) fn settle(
    body: &Value,
    conflicts: &[Conflict],
    managed_fields: &Value,
    object: &ObjectRef,
    options: &ReleaseOptions,
    (forced, scaled): (bool, &Scaled),
) -> Option<Settled> {
    let (left, taken): (Vec<_>, Vec<_>) = conflicts.iter().partition(|c| {
        field_conflicts::is_left(&options.ownership.leave_to_owner, object, &c.field)
            || options.ownership.force_conflicts && field_conflicts::is_injected(body, object, &c.field)
    });
    let mut settled = body.clone();
    for conflict in &left {
        field_conflicts::remove(&mut settled, &conflict.field);
    }
    if taken.is_empty() {
        return (settled != *body).then_some(Settled { body: settled, force: forced, left: true });
    }
    (options.ownership.force_conflicts && !forced).then(|| {
        let sent = autoscaler::without_scaled(&settled, conflicts, managed_fields, scaled);
        Settled { left: !left.is_empty() || sent != settled, body: sent, force: true }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_not_change_is_made_again() {
        let table: [(&[&str], bool); 9] = [
            (&[r#"Invalid value: {"matchLabels":{"app":"two"}}: field is immutable"#], true),
            (&[r#"Invalid value: ["10.0.0.9"]: may not change once set"#], true),
            (
                &["Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden"],
                true,
            ),
            (&[r#"Invalid value: {"kind":"Role","name":"b"}: cannot change roleRef"#], true),
            (&["Forbidden: spec is immutable after creation except resources.requests"], true),
            (&[r#"Invalid value: "immutable": must be a DNS label"#], false),
            (&["Invalid value: 70000: must be between 1 and 65535, inclusive"], false),
            (&["Invalid value: {}: field is immutable", "Required value"], false),
            (&[], false),
        ];
        for (messages, expected) in table {
            let causes = messages.iter().map(|m| windlass_cluster::StatusCause {
                message: (*m).to_owned(),
                ..windlass_cluster::StatusCause::default()
            });
            let mut status = windlass_cluster::ApiStatus { code: 422, ..Default::default() };
            status.details.causes = causes.collect();
            status.message = "field is immutable".to_owned();
            assert_eq!(is_immutable(&ClusterError::Api(Box::new(status))), expected, "{messages:?}");
        }
    }
}
