//! Uninstalls a release: its hooks, its objects and its records.

use crate::{
    context::Context,
    decide::{
        self, Observer, ReleaseAction,
        reason::{ActionReason, KeptReason},
    },
    dry_run::{deletions_of, hooks_of_events},
    engine::{Engine, reconcile},
    error::{EngineError, Result},
    execute::{
        apply::{Applier, await_gone},
        chart_hooks::HookRunner,
    },
    lock::lock_policy::{self, RecordHold},
    objects::{field_diff, served_kinds},
    observe::{
        observed_objects,
        release_history::{self, History},
    },
    operation,
    outcome::Uninstalled,
    plan::{
        preview::{ChangeVerb, PlannedChange, Preview},
        uninstall_plan::{RecordedObjects, UninstallPlan},
    },
    record::{Record, RecordStore, ReleaseStatus, StoredRecord, now},
    request::{
        ApplyMethod, Duplicates, HookEvent, ObjectOptions, ReleaseId, ReleaseOptions, RevisionOptions,
        UninstallRequest,
    },
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Instant};
use windlass_cluster::ObjectRef;

/// A hook's path and object.
type HookObject = (String, Value);

impl Engine {
    /// Deletes a release's objects and its records.
    pub async fn uninstall(&self, request: &UninstallRequest) -> Result<Uninstalled> {
        let context = &self.context;
        let options = ReleaseOptions {
            dry_run: request.dry_run,
            revisions: RevisionOptions { break_lock: request.break_lock, ..RevisionOptions::default() },
            timeout: request.timeout,
            // Hooks of a release that is uninstalled cannot be corrected any more.
            objects: ObjectOptions { duplicates: Duplicates::KeepLast, ..ObjectOptions::default() },
            ..ReleaseOptions::default()
        };
        let options = &options;
        operation::run(context, &request.id, request.deadline, |operation| {
            Box::pin(async move {
                operation.observe(options, None).await?;
                let mut history = std::mem::take(&mut operation.history);
                if !request.dry_run && !history.records.is_empty() {
                    operation.acquire_lock(request.break_lock, history.records.last()).await?;
                    history.free = operation.lock.is_held();
                }
                let execution = UninstallExecution { context, request, options };
                operation.bounded(execution.run(history)).await
            })
        })
        .await
    }

    /// Plans an uninstall. Writes nothing.
    pub async fn plan_uninstall(&self, request: &UninstallRequest) -> Result<Preview> {
        let id = &request.id;
        let done = self.uninstall(&UninstallRequest { dry_run: true, ..request.clone() }).await?;
        let record = done.record.as_deref();
        let mut changes: Vec<PlannedChange> = Vec::new();
        let deleted: Vec<&ObjectRef> = done.deleted.iter().collect();
        changes.extend(
            deletions_of(&self.context.cluster, &deleted, "it is the release's", &BTreeSet::new()).await,
        );
        let mut push = |verb, objects: &[ObjectRef], reason: &str| {
            changes.extend(objects.iter().map(|object| PlannedChange::new(verb, object, "", reason)));
        };
        push(ChangeVerb::Skip, &done.kept, &KeptReason::Policy.to_string());
        push(ChangeVerb::Skip, &done.foreign, &KeptReason::NotOwned.to_string());
        let hooks = record.filter(|r| request.run_hooks && r.info.status != ReleaseStatus::Uninstalled);
        let hooks = hooks.map_or(&[][..], |record| &record.hooks);
        let mut warnings = done.errors;
        if request.delete_hooks {
            warnings.push("the objects of its hooks are deleted, too".to_owned());
        }
        let history = if request.keep_history { "is kept" } else { "goes with it" };
        let reason = match record {
            Some(_) => format!("an uninstall was asked for, and its history {history}"),
            None => ActionReason::Absent.to_string(),
        };
        let revision = record.map_or(0, |record| record.version);
        let digest = field_diff::digest(&(&changes, revision, history));
        Ok(Preview {
            release: id.name.clone(),
            namespace: id.namespace.clone(),
            action: ReleaseAction::Uninstall,
            reason,
            revision,
            changes,
            hooks: hooks_of_events(hooks, [HookEvent::PreDelete, HookEvent::PostDelete]),
            hooks_differ: false,
            warnings,
            digest,
        })
    }
}

/// The execution of an uninstall.
struct UninstallExecution<'a> {
    context: &'a Context,
    request: &'a UninstallRequest,
    options: &'a ReleaseOptions,
}

impl UninstallExecution<'_> {
    /// Observes, plans, executes and records.
    async fn run(&self, mut history: History) -> Result<Uninstalled> {
        let Self { context, request, .. } = *self;
        let id = &request.id;
        if history.free && !history.is_current(context.store(), id).await? {
            history = History { free: true, ..release_history::records(context.store(), id).await? };
        }
        let observer = reconcile::observer(context, &history, None);
        let undeployed = decide::never_installed(&decide::revision_states(&history, observer, |_| false));
        let Some(current) = history.records.pop() else {
            if !request.dry_run {
                context.state.forget(&context.key(id));
            }
            return match request.ignore_not_found {
                true => Ok(Uninstalled::default()),
                false => Err(EngineError::NotFound),
            };
        };
        if current.record.info.status == ReleaseStatus::Uninstalled {
            return self.purge_uninstalled(current).await;
        }
        self.require_free(&current.record, Observer { owner: current.record.owner(), ..observer })?;
        let older = unfinished(&history.records);
        let mut hooks = Hooks::of(context, request, &current.record, &older)?;
        let plan = self.plan(&current.record, &older, &mut hooks).await?;
        if request.dry_run {
            let deleted = plan.deletions.into_iter().flatten().map(|deletion| deletion.object).collect();
            let (kept, foreign, errors) = (plan.kept, plan.foreign, plan.errors);
            return Ok(Uninstalled {
                record: Some(Arc::new(current.record)),
                deleted,
                kept,
                foreign,
                errors,
                incomplete: false,
            });
        }
        self.execute(plan, hooks, current, history.records, undeployed).await
    }

    /// Refuses a release on which another operation may be running.
    fn require_free(&self, record: &Record, observer: Observer<'_>) -> Result<()> {
        let Observer { holder, owner, free, now } = observer;
        let theirs = lock_policy::judge(record, holder, owner, free, now) == RecordHold::Theirs;
        match record.info.status.is_pending() && theirs && !self.request.break_lock {
            true => Err(lock_policy::pending(record)),
            false => Ok(()),
        }
    }

    /// Deletes the records of a release that is uninstalled already.
    async fn purge_uninstalled(&self, current: StoredRecord) -> Result<Uninstalled> {
        let Self { context, request, .. } = *self;
        if request.keep_history {
            return Err(EngineError::AlreadyDeleted(request.id.name.clone()));
        }
        if !request.dry_run {
            context.state.forget(&context.key(&request.id));
            purge(context.store(), &request.id).await?;
        }
        Ok(Uninstalled { record: Some(Arc::new(current.record)), ..Uninstalled::default() })
    }

    /// Reads what is there of the objects, and plans by it.
    async fn plan(&self, current: &Record, older: &[&Record], hooks: &mut Hooks) -> Result<UninstallPlan> {
        let Self { context, request, .. } = *self;
        // Objects of kinds that are not served are not deleted: what is served must be known as it is now.
        let kinds = context.cluster.current_kinds().await?;
        for warning in served_kinds::to_served(hooks.current.iter_mut().map(|(_, object)| object), &kinds) {
            tracing::warn!(release = %request.id, "{warning}");
        }
        // A revision that was refused as a whole is not in the cluster, and whoever uninstalls it may have no right to look.
        let records = std::iter::once(current).chain(older.iter().copied());
        let records: Vec<&Record> = records.filter(|record| !record.extension.refused).collect();
        let recorded = RecordedObjects::of(&records, &request.id, context.parser, &kinds)?;
        let (cluster, manager) = (&context.cluster, context.manager());
        let seen = observed_objects::objects(cluster, None, manager, recorded.named.iter()).await?;
        let run_hooks = request.run_hooks && !records.is_empty();
        Ok(UninstallPlan::new(recorded, &seen, request, run_hooks))
    }

    async fn execute(
        &self,
        plan: UninstallPlan,
        hooks: Hooks,
        mut current: StoredRecord,
        others: Vec<StoredRecord>,
        undeployed: bool,
    ) -> Result<Uninstalled> {
        let Self { context, request, options } = *self;
        let id = &request.id;
        let store = context.store();
        context.state.forget(&context.key(id));
        let record = &mut current.record;
        // A try that goes on after one that left objects does not run its hooks again.
        let goes_on = request.keep_incomplete && record.info.status == ReleaseStatus::Uninstalling;
        record.info.status = ReleaseStatus::Uninstalling;
        record.info.deleted = now();
        record.info.description = "Deletion in progress (or silently failed)".to_owned();
        record.extension.holder.clone_from(&context.options.holder);
        if !goes_on {
            record.extension.hooks_done.clear();
        }
        record.extension.undeployed = undeployed;
        store.update(&mut current).await?;
        // As Helm, whatever the method of the revision.
        let runner = HookRunner::new(context, id, options, ApplyMethod::Server);
        let objects: Vec<Value> = hooks.current.iter().map(|(_, object)| object.clone()).collect();
        if plan.run_hooks {
            runner.run(HookEvent::PreDelete, &mut current, &objects).await?;
        }
        let applier = Applier::new(context, id, options);
        let (deleted, result) = applier.prune(&plan.deletions, plan.propagation).await;
        result.map_err(|source| EngineError::Delete { name: id.name.clone(), source: Box::new(source) })?;
        let UninstallPlan { mut errors, kept, foreign, unserved, run_hooks, .. } = plan;
        let held = self.await_all_gone(&deleted).await;
        let incomplete = request.keep_incomplete && (unserved || !held.is_empty());
        errors.extend(held);
        if incomplete {
            let record = Some(Arc::new(current.record));
            return Ok(Uninstalled { record, deleted, kept, foreign, errors, incomplete });
        }
        if run_hooks {
            let ran = runner.run(HookEvent::PostDelete, &mut current, &objects).await;
            errors.extend(ran.err().map(|error| error.to_string()));
        }
        if request.delete_hooks {
            errors.extend(runner.delete_all(&self.all_hooks(hooks).await?).await);
        }
        current.record.info.status = ReleaseStatus::Uninstalled;
        current.record.info.description =
            request.description.clone().unwrap_or_else(|| "Uninstallation complete".to_owned());
        match request.keep_history {
            true => keep_history(store, &mut current, others).await?,
            false => purge(store, id).await?,
        }
        let record = Some(Arc::new(current.record));
        Ok(Uninstalled { record, deleted, kept, foreign, errors, incomplete })
    }

    /// Waits until deleted objects are gone, if that is asked for, for the timeout in all. Returns why those that are not are still there.
    /// An object that itself stays until this uninstall has ended is not waited for: it is gone soon afterwards.
    async fn await_all_gone(&self, deleted: &[ObjectRef]) -> Vec<String> {
        let Self { context, request, .. } = *self;
        let mut held = Vec::new();
        if !request.wait {
            return held;
        }
        let started = Instant::now();
        let own = request.object.as_ref().map(|object| {
            context.state.deletion_waits.begin(object.key(), deleted.iter().map(ObjectRef::key))
        });
        for object in deleted {
            if own.as_ref().is_some_and(|wait| wait.is_mutual(&object.key())) {
                tracing::info!(release = %request.id, %object, "not waited for: its own deletion waits for this uninstall");
                continue;
            }
            let progress = context.progress_of(&request.id);
            let left = request.timeout.saturating_sub(started.elapsed());
            let gone = await_gone(&context.cluster, object, left, progress);
            held.extend(gone.await.err().map(|error| error.to_string()));
        }
        held
    }

    /// The hooks of all revisions, each object once.
    async fn all_hooks(&self, hooks: Hooks) -> Result<Vec<HookObject>> {
        let (context, id) = (self.context, &self.request.id);
        let store = context.store();
        let mut all = hooks.older;
        all.extend(hooks.current);
        let superseded = format!("name={},status=superseded", id.name);
        for old in store.list(Some(store.namespace_of(id)), &superseded).await? {
            // A revision that cannot be read names no objects.
            all.extend(hook_objects(context, &old.record).unwrap_or_default());
        }
        let mut seen = BTreeSet::new();
        all.retain(|(_, object)| {
            let text = |pointer: &str| object.pointer(pointer).map(Value::to_string);
            seen.insert(["/kind", "/metadata/namespace", "/metadata/name"].map(text))
        });
        Ok(all)
    }
}

/// The hooks of the revisions that are uninstalled.
struct Hooks {
    current: Vec<HookObject>,
    /// Of older revisions, if they are to be deleted.
    older: Vec<HookObject>,
}

impl Hooks {
    fn of(
        context: &Context,
        request: &UninstallRequest,
        current: &Record,
        older: &[&Record],
    ) -> Result<Self> {
        let mut hooks = Self { current: Vec::new(), older: Vec::new() };
        for record in older.iter().filter(|_| request.delete_hooks) {
            hooks.older.extend(hook_objects(context, record)?);
        }
        hooks.current = hook_objects(context, current)?;
        Ok(hooks)
    }
}

fn hook_objects(context: &Context, record: &Record) -> Result<Vec<HookObject>> {
    Ok(context.parser.hooks_of(record)?.into_iter().map(|hook| (hook.path, hook.object)).collect())
}

/// Unfinished revisions, which may have created objects that the newest does not have, and the deployed one before them.
fn unfinished(older: &[StoredRecord]) -> Vec<&Record> {
    let older = older.iter().map(|stored| &stored.record);
    let deployed =
        older.clone().filter(|r| r.info.status == ReleaseStatus::Deployed).map(|r| r.version).max();
    let live =
        |r: &&Record| deployed.is_none_or(|d| r.version >= d) && r.info.status != ReleaseStatus::Uninstalled;
    older.filter(live).collect()
}

async fn purge(store: RecordStore<'_>, id: &ReleaseId) -> Result<()> {
    // The newest last: while it exists, a repeated request finishes after a crash.
    for revision in store.as_seen().history(id).await? {
        store.delete(id, revision.revision).await?;
    }
    Ok(())
}

async fn keep_history(
    store: RecordStore<'_>,
    current: &mut StoredRecord,
    others: Vec<StoredRecord>,
) -> Result<()> {
    for mut stored in others {
        if stored.record.info.status == ReleaseStatus::Deployed {
            stored.record.info.status = ReleaseStatus::Superseded;
            store.update(&mut stored).await?;
        }
    }
    // Last: after a crash before it, a repeated request finishes.
    Ok(store.update(current).await?)
}
