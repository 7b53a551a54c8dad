//! Uninstalls a release: its hooks, its objects and its records.

use crate::{
    decide::{
        self, ReleaseAction,
        reason::{ActionReason, KeptReason},
    },
    desired_objects::{self, Scopes},
    engine::Engine,
    error::{EngineError, Result},
    execute::apply::await_gone,
    lock::{
        lock_policy::{self, RecordHold},
        release_lease::lost,
    },
    observe,
    outcome::Uninstalled,
    plan::{
        Deletion, deletion_groups,
        dry_run::{ChangeVerb, PlannedChange, Preview, hooks_of_events},
        field_diff,
        kind_sorter::uninstall_rank,
        ownership,
    },
    record::release_history::{self, History},
    record::{Record, RecordStore, ReleaseStatus, StoredRecord, now, served_kinds},
    request::{
        ApplyMethod, Duplicates, HookEvent, ObjectOptions, ReleaseId, ReleaseOptions, RevisionOptions,
        UninstallRequest,
    },
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use windlass_cluster::{Gvk, ObjectKey, ObjectRef, ServedKinds};

impl Engine {
    /// Deletes a release's objects and its records.
    pub async fn uninstall(&self, request: &UninstallRequest) -> Result<Uninstalled> {
        self.bounded(request.deadline).uninstall_bounded(request).await
    }

    /// Plans an uninstall. Writes nothing.
    pub async fn plan_uninstall(&self, request: &UninstallRequest) -> Result<Preview> {
        let id = &request.id;
        let done = self.uninstall(&UninstallRequest { dry_run: true, ..request.clone() }).await?;
        let record = done.record.as_deref();
        let mut changes: Vec<PlannedChange> = Vec::new();
        let deleted: Vec<&ObjectRef> = done.deleted.iter().collect();
        changes.extend(self.preview_deletions(&deleted, "it is the release's", BTreeSet::new()).await);
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

    async fn uninstall_bounded(&self, request: &UninstallRequest) -> Result<Uninstalled> {
        let id = &request.id;
        let busy = self.begin_operation(id).await?;
        let options = ReleaseOptions {
            dry_run: request.dry_run,
            revisions: RevisionOptions { break_lock: request.break_lock, ..RevisionOptions::default() },
            timeout: request.timeout,
            // Hooks of a release that is uninstalled cannot be corrected any more.
            objects: ObjectOptions { duplicates: Duplicates::KeepLast, ..ObjectOptions::default() },
            ..ReleaseOptions::default()
        };
        let (mut history, mut lease) = tokio::select! {
            history = self.locked_history(id, &options, None, false) => history?,
            error = self.given_up() => return Err(error),
        };
        if lease.is_none() && !request.dry_run && !history.records.is_empty() {
            lease = self.lock(id, request.break_lock, history.records.last()).await?;
            history.free = lease.is_some();
        }
        let done = tokio::select! {
            done = self.uninstall_locked(request, &options, history) => done,
            error = self.given_up() => Err(error),
            () = lost(lease.as_ref()) => Err(EngineError::LockLost),
        };
        self.release_lease(lease, busy).await;
        done
    }

    async fn uninstall_locked(
        &self,
        request: &UninstallRequest,
        options: &ReleaseOptions,
        mut history: History,
    ) -> Result<Uninstalled> {
        let id = &request.id;
        if history.free && !self.is_current(id, &history).await? {
            history = History { free: true, ..release_history::records(self.store(), id).await? };
        }
        let undeployed = decide::never_installed(&self.rows_where(&history, history.free, None, |_| false));
        let Some(mut current) = history.records.pop() else {
            if !request.dry_run {
                self.state.forget(&self.key(id));
            }
            return if request.ignore_not_found {
                Ok(Uninstalled::default())
            } else {
                Err(EngineError::NotFound)
            };
        };
        let store = self.store();
        if current.record.info.status == ReleaseStatus::Uninstalled {
            if request.keep_history {
                return Err(EngineError::AlreadyDeleted(id.name.clone()));
            }
            if !request.dry_run {
                self.state.forget(&self.key(id));
                self.purge(&store, id).await?;
            }
            return Ok(Uninstalled { record: Some(Arc::new(current.record)), ..Uninstalled::default() });
        }
        let held = lock_policy::judge(
            &current.record,
            &self.options.holder,
            current.record.owner(),
            history.free,
            jiff::Timestamp::now(),
        );
        if current.record.info.status.is_pending() && held == RecordHold::Theirs && !request.break_lock {
            return Err(lock_policy::pending(&current.record));
        }
        // Unfinished revisions may have created objects that the newest does not have.
        let older = history.records.iter().map(|r| &r.record);
        let deployed =
            older.clone().filter(|r| r.info.status == ReleaseStatus::Deployed).map(|r| r.version).max();
        let older: Vec<&Record> = older
            .filter(|r| {
                deployed.is_none_or(|d| r.version >= d) && r.info.status != ReleaseStatus::Uninstalled
            })
            .collect();
        let mut all_hooks: Vec<(String, Value)> = Vec::new();
        for record in older.iter().filter(|_| request.delete_hooks) {
            all_hooks.extend(self.hooks_of(record)?.into_iter().map(|h| (h.path, h.object)));
        }
        let mut hooks = self.hooks_of(&current.record)?;
        let mut done = Uninstalled::default();
        // Objects of kinds that are not served are not deleted: what is served must be known as it is now.
        let kinds = self.cluster.current_kinds().await?;
        for warning in served_kinds::to_served(hooks.iter_mut().map(|h| &mut h.object), &kinds) {
            tracing::warn!(release = %id, "{warning}");
        }
        let records = std::iter::once(&current.record).chain(older);
        // A revision that was refused as a whole is not in the cluster, and whoever uninstalls it may have no right to look.
        let records: Vec<&Record> = records.filter(|record| !record.extension.refused).collect();
        let run_hooks = request.run_hooks && !records.is_empty();
        let deletions = self.what_to_delete(&records, id, &kinds, &mut done).await?;
        if request.dry_run {
            done.deleted = deletions.into_iter().flatten().map(|d| d.object).collect();
            done.record = Some(Arc::new(current.record));
            return Ok(done);
        }
        self.state.forget(&self.key(id));
        current.record.info.status = ReleaseStatus::Uninstalling;
        current.record.info.deleted = now();
        current.record.info.description = "Deletion in progress (or silently failed)".to_owned();
        current.record.extension.holder.clone_from(&self.options.holder);
        current.record.extension.hooks_done.clear();
        current.record.extension.undeployed = undeployed;
        if request.delete_hooks {
            all_hooks.extend(hooks.iter().map(|h| (h.path.clone(), h.object.clone())));
        }
        let hooks: Vec<Value> = hooks.into_iter().map(|h| h.object).collect();
        // As Helm, whatever the method of the revision.
        let runner = self.hook_runner(id, options, ApplyMethod::Server);
        store.update(&mut current).await?;
        if run_hooks {
            runner.run(HookEvent::PreDelete, &mut current, &hooks).await?;
        }
        let applier = self.applier(id, options);
        let (deleted, result) = applier.prune(&deletions, request.propagation).await;
        done.deleted = deleted;
        result.map_err(|source| EngineError::Delete { name: id.name.clone(), source: Box::new(source) })?;
        if request.wait {
            for object in &done.deleted {
                let gone = await_gone(&self.cluster, object, request.timeout, self.progress_of(id));
                if let Err(error) = gone.await {
                    done.errors.push(error.to_string());
                }
            }
        }
        if run_hooks && let Err(error) = runner.run(HookEvent::PostDelete, &mut current, &hooks).await {
            done.errors.push(error.to_string());
        }
        if request.delete_hooks {
            for old in store
                .list(Some(store.namespace_of(id)), &format!("name={},status=superseded", id.name))
                .await?
            {
                // A revision that cannot be read names no objects.
                let old = self.hooks_of(&old.record).unwrap_or_default();
                all_hooks.extend(old.into_iter().map(|h| (h.path, h.object)));
            }
            let mut seen = BTreeSet::new();
            all_hooks.retain(|(_, object)| {
                let text = |pointer: &str| object.pointer(pointer).map(Value::to_string);
                seen.insert(["/kind", "/metadata/namespace", "/metadata/name"].map(text))
            });
            done.errors.extend(runner.delete_all(&all_hooks).await);
        }
        current.record.info.status = ReleaseStatus::Uninstalled;
        current.record.info.description =
            request.description.clone().unwrap_or_else(|| "Uninstallation complete".to_owned());
        if request.keep_history {
            self.keep_history(&store, &mut current, history.records).await?;
        } else {
            self.purge(&store, id).await?;
        }
        done.record = Some(Arc::new(current.record));
        Ok(done)
    }

    /// The release's objects in groups, without those that are kept; and warnings about kinds that are no longer
    /// served.
    async fn what_to_delete(
        &self,
        records: &[&Record],
        id: &ReleaseId,
        kinds: &ServedKinds,
        done: &mut Uninstalled,
    ) -> Result<Vec<Vec<Deletion>>> {
        let scopes = Scopes::new(kinds, &[], std::iter::empty());
        let (mut kept, mut seen) = (Vec::new(), BTreeSet::new());
        // Only the names of objects: whole objects of a large release would take most of the memory.
        let mut named: BTreeMap<ObjectKey, ObjectRef> = BTreeMap::new();
        let retained = records.iter().flat_map(|record| &record.extension.retained);
        named.extend(retained.map(|one| one.object()).map(|object| (object.key(), object)));
        for manifest in records.iter().flat_map(|record| self.manifests_of(record)) {
            let mut manifest = manifest?;
            for moved in served_kinds::to_served(std::iter::once(&mut manifest.object), kinds) {
                tracing::warn!(release = %id, "{moved}");
            }
            if Record::keeps(&manifest.object) {
                kept.extend(named_by(&manifest.object, id).filter(|object| seen.insert(object.key())));
                continue;
            }
            for object in desired_objects::items(&manifest.object).filter(|o| !desired_objects::is_empty(o)) {
                match desired_objects::reference(&manifest.source, object, &id.namespace, |gvk| {
                    scopes.namespaced(gvk)
                }) {
                    Ok(found) => drop(named.insert(found.key(), found)),
                    // The objects of a kind are deleted with it.
                    Err(EngineError::NoKind { .. }) if kinds.stale.is_empty() => {}
                    Err(error) => done.errors.push(error.to_string()),
                }
            }
        }
        kept.sort_by(|a, b| uninstall_rank(&a.gvk.kind).cmp(&uninstall_rank(&b.gvk.kind)));
        done.kept.extend(kept);
        let seen = observe::objects(&self.cluster, None, &self.options.field_manager, named.values()).await?;
        let mut deletions = Vec::new();
        let mut named: Vec<(ObjectKey, ObjectRef)> = named.into_iter().collect();
        named.sort_by(|(_, a), (_, b)| uninstall_rank(&a.gvk.kind).cmp(&uninstall_rank(&b.gvk.kind)));
        for (key, object) in named {
            let Some(Some(found)) = seen.get(&key) else { continue };
            if ownership::check(found, id).is_err() {
                done.foreign.push(object);
            } else if ownership::is_kept(found.resource_policy.as_deref()) {
                done.kept.push(object);
            } else {
                deletions.push(Deletion { object, uid: found.uid.clone() });
            }
        }
        Ok(deletion_groups(deletions))
    }

    async fn purge(&self, store: &RecordStore<'_>, id: &ReleaseId) -> Result<()> {
        // The newest last: while it exists, a repeated request finishes after a crash.
        for revision in store.as_seen().history(id).await? {
            store.delete(id, revision.revision).await?;
        }
        Ok(())
    }

    async fn keep_history(
        &self,
        store: &RecordStore<'_>,
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
}

/// The reference of an object by its manifest, whether its kind is served or not.
fn named_by(manifest: &Value, id: &ReleaseId) -> Option<ObjectRef> {
    let of = |field: &str| manifest["metadata"][field].as_str().filter(|text| !text.is_empty());
    let namespace = of("namespace").unwrap_or(&id.namespace);
    Some(ObjectRef::new(Gvk::of(manifest)?, Some(namespace), of("name").unwrap_or_default()))
}
