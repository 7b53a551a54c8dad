//! Taking a release away.

use crate::cluster::{Gvk, ObjectKey, ObjectRef, ServedKinds};
use crate::release::{
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
    observe::{self, History},
    outcome::Uninstalled,
    plan::{
        Deletion, deletion_groups,
        dry_run::{ChangeVerb, PlannedChange, Preview, hooks_of_events},
        field_diff,
        kind_sorter::uninstall_rank,
        ownership,
    },
    record::{Record, RecordStore, ReleaseStatus, StoredRecord, now, served_kinds},
    request::{Duplicates, HookEvent, ReleaseId, ReleaseOptions, UninstallRequest},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Engine {
    /// Deletes a release's objects and its records.
    pub async fn uninstall(&self, request: &UninstallRequest) -> Result<Uninstalled> {
        self.bounded(request.deadline).uninstall_bounded(request).await
    }

    /// What an uninstall would do. Writes nothing.
    pub async fn plan_uninstall(&self, request: &UninstallRequest) -> Result<Preview> {
        let id = &request.id;
        let done = self.uninstall(&UninstallRequest { dry_run: true, ..request.clone() }).await?;
        let record = done.record.as_deref();
        let mut changes: Vec<PlannedChange> = Vec::new();
        let mut push = |verb, objects: &[ObjectRef], reason: &str| {
            changes.extend(objects.iter().map(|object| PlannedChange::new(verb, object, "", reason)));
        };
        push(ChangeVerb::Delete, &done.deleted, "it is the release's");
        push(ChangeVerb::Skip, &done.kept, &KeptReason::Policy.to_string());
        push(ChangeVerb::Skip, &done.foreign, &KeptReason::NotOwned.to_string());
        let hooks = record.filter(|r| request.run_hooks && r.info.status != ReleaseStatus::Uninstalled);
        let hooks = hooks.map_or(&[][..], |record| &record.hooks);
        let mut warnings = done.errors;
        if request.delete_hooks {
            warnings.push("what the hooks of its revisions made is deleted, too".to_owned());
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
        let busy = self.state.begin_operation(id).await;
        let options = ReleaseOptions {
            dry_run: request.dry_run,
            break_lock: request.break_lock,
            timeout: request.timeout,
            // Nobody can mend a hook of a release that goes.
            duplicates: Duplicates::KeepLast,
            ..ReleaseOptions::default()
        };
        let (mut past, mut lease) = tokio::select! {
            past = self.locked_history(id, &options, None) => past?,
            error = self.given_up() => return Err(error),
        };
        if lease.is_none() && !request.dry_run && !past.records.is_empty() {
            lease = self.lock(id, request.break_lock, past.records.last()).await?;
            past.free = lease.is_some();
        }
        let done = tokio::select! {
            done = self.uninstall_locked(request, &options, past) => done,
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
        mut past: History,
    ) -> Result<Uninstalled> {
        let id = &request.id;
        if past.free && !self.is_current(id, &past).await? {
            past = History { free: true, ..observe::records(self.store(), id).await? };
        }
        let undeployed = decide::never_installed(&self.rows_where(&past, past.free, None, |_| false));
        let Some(mut current) = past.records.pop() else {
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
                self.purge(&store, id).await?;
            }
            return Ok(Uninstalled { record: Some(Arc::new(current.record)), ..Uninstalled::default() });
        }
        let held = lock_policy::judge(
            &current.record,
            &self.options.holder,
            current.record.owner(),
            past.free,
            jiff::Timestamp::now(),
        );
        if current.record.info.status.is_pending() && held == RecordHold::Theirs && !request.break_lock {
            return Err(lock_policy::pending(&current.record));
        }
        // Unfinished revisions may have made objects that the newest does not have.
        let older = past.records.iter().map(|r| &r.record);
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
        let kinds = self.cluster.kinds().await?;
        for told in served_kinds::to_served(hooks.iter_mut().map(|h| &mut h.object), &kinds) {
            tracing::warn!(release = %id, "{told}");
        }
        let records = std::iter::once(&current.record).chain(older);
        let deletions = self.what_to_delete(records, id, &kinds, &mut done).await?;
        if request.dry_run {
            done.deleted = deletions.into_iter().flatten().map(|d| d.object).collect();
            done.record = Some(Arc::new(current.record));
            return Ok(done);
        }
        self.state.forget(id);
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
        let runner = self.hook_runner(id, options);
        store.update(&mut current).await?;
        if request.run_hooks {
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
        if request.run_hooks
            && let Err(error) = runner.run(HookEvent::PostDelete, &mut current, &hooks).await
        {
            done.errors.push(error.to_string());
        }
        if request.delete_hooks {
            for old in store.list(Some(&id.namespace), &format!("name={},status=superseded", id.name)).await?
            {
                // What cannot be read has made nothing that we could name.
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
            self.keep_history(&store, &mut current, past.records).await?;
        } else {
            self.purge(&store, id).await?;
        }
        done.record = Some(Arc::new(current.record));
        Ok(done)
    }

    /// Objects that are the release's and are not to be kept, in groups; and what is said of kinds that are gone.
    async fn what_to_delete(
        &self,
        records: impl Iterator<Item = &Record>,
        id: &ReleaseId,
        kinds: &ServedKinds,
        done: &mut Uninstalled,
    ) -> Result<Vec<Vec<Deletion>>> {
        let scopes = Scopes::new(kinds, &[], std::iter::empty());
        let (mut kept, mut told) = (Vec::new(), BTreeSet::new());
        // Of each object only its name: whole ones of a large release are most of what this command would hold.
        let mut named: BTreeMap<ObjectKey, ObjectRef> = BTreeMap::new();
        for manifest in records.flat_map(|record| self.manifests_of(record)) {
            let mut manifest = manifest?;
            for moved in served_kinds::to_served(std::iter::once(&mut manifest.object), kinds) {
                tracing::warn!(release = %id, "{moved}");
            }
            if Record::keeps(&manifest.object) {
                kept.extend(named_by(&manifest.object, id).filter(|object| told.insert(object.key())));
                continue;
            }
            for object in desired_objects::items(&manifest.object).filter(|o| !desired_objects::is_empty(o)) {
                match desired_objects::reference(&manifest.source, object, &id.namespace, |gvk| {
                    scopes.namespaced(gvk)
                }) {
                    Ok(found) => drop(named.insert(found.key(), found)),
                    // With its kind its objects went.
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
        // The newest last: as long as it is there, a crash is finished by asking again.
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
        // Last of all: what dies before is finished by asking again.
        Ok(store.update(current).await?)
    }
}

/// An object by what its manifest says, whether its kind is served or not.
fn named_by(manifest: &Value, id: &ReleaseId) -> Option<ObjectRef> {
    let of = |field: &str| manifest["metadata"][field].as_str().filter(|text| !text.is_empty());
    let namespace = of("namespace").unwrap_or(&id.namespace);
    Some(ObjectRef::new(Gvk::of(manifest)?, Some(namespace), of("name").unwrap_or_default()))
}
