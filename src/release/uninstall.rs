//! Taking a release away.

use super::{
    apply::await_gone,
    engine::Engine,
    error::{EngineError, Result},
    lock::{self, Hold},
    observe::{self, Past},
    order::uninstall_rank,
    outcome::Uninstalled,
    ownership, past_kinds,
    plan::{Deletion, deletion_groups},
    record::{Record, Status, Store, Stored, now},
    request::{Duplicates, HookEvent, Options, ReleaseId, UninstallRequest},
    targets::{self, Scopes},
};
use crate::cluster::{Key, Kinds, ObjectRef};
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

    async fn uninstall_bounded(&self, request: &UninstallRequest) -> Result<Uninstalled> {
        let id = &request.id;
        let busy = self.state.busy(id).await;
        let options = Options {
            dry_run: request.dry_run,
            break_lock: request.break_lock,
            timeout: request.timeout,
            // Nobody can mend a hook of a release that goes.
            duplicates: Duplicates::KeepLast,
            ..Options::default()
        };
        let (mut past, mut lease) = tokio::select! {
            past = self.past(id, &options, None) => past?,
            error = self.given_up() => return Err(error),
        };
        if lease.is_none() && !request.dry_run && !past.records.is_empty() {
            lease = self.lock(id, request.break_lock, past.records.last()).await?;
            past.free = lease.is_some();
        }
        let done = tokio::select! {
            done = self.uninstall_locked(request, &options, past) => done,
            error = self.given_up() => Err(error),
        };
        self.let_go(lease, busy).await;
        done
    }

    async fn uninstall_locked(
        &self,
        request: &UninstallRequest,
        options: &Options,
        mut past: Past,
    ) -> Result<Uninstalled> {
        let id = &request.id;
        if past.free && !self.is_as_read(id, &past).await? {
            past = Past { free: true, ..observe::records(self.store(), id).await? };
        }
        let Some(mut current) = past.records.pop() else {
            return if request.ignore_not_found {
                Ok(Uninstalled::default())
            } else {
                Err(EngineError::NotFound)
            };
        };
        let store = self.store();
        if current.record.info.status == Status::Uninstalled {
            if request.keep_history {
                return Err(EngineError::AlreadyDeleted(id.name.clone()));
            }
            if !request.dry_run {
                self.purge(&store, id).await?;
            }
            return Ok(Uninstalled { record: Some(Arc::new(current.record)), ..Uninstalled::default() });
        }
        let held = lock::judge(
            &current.record,
            &self.options.holder,
            current.record.owner(),
            past.free,
            jiff::Timestamp::now(),
        );
        if current.record.info.status.is_pending() && held == Hold::Theirs && !request.break_lock {
            return Err(lock::pending(&current.record));
        }
        // Unfinished revisions may have made objects that the newest does not have.
        let older = past.records.iter().map(|r| &r.record);
        let deployed = older.clone().filter(|r| r.info.status == Status::Deployed).map(|r| r.version).max();
        let older: Vec<&Record> = older
            .filter(|r| deployed.is_none_or(|d| r.version >= d) && r.info.status != Status::Uninstalled)
            .collect();
        let mut all_hooks: Vec<(String, Value)> = Vec::new();
        for record in older.iter().filter(|_| request.delete_hooks) {
            all_hooks.extend(self.hooks_of(record)?.into_iter().map(|h| (h.path, h.object)));
        }
        let mut hooks = self.hooks_of(&current.record)?;
        let mut done = Uninstalled::default();
        let kinds = self.cluster.kinds().await?;
        for told in past_kinds::to_served(hooks.iter_mut().map(|h| &mut h.object), &kinds) {
            tracing::warn!(release = %id, "{told}");
        }
        let records = std::iter::once(&current.record).chain(older);
        let (deletions, unserved) = self.what_to_delete(records, id, &kinds, &mut done).await?;
        if request.dry_run {
            done.deleted = deletions.into_iter().flatten().map(|d| d.object).collect();
            done.record = Some(Arc::new(current.record));
            return Ok(done);
        }
        done.errors.extend(unserved);
        self.state.forget(id);
        current.record.info.status = Status::Uninstalling;
        current.record.info.deleted = now();
        current.record.info.description = "Deletion in progress (or silently failed)".to_owned();
        current.record.memory.holder.clone_from(&self.options.holder);
        current.record.memory.hooks_done.clear();
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
                let gone = await_gone(&self.cluster, object, request.timeout, self.teller(id));
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
        current.record.info.status = Status::Uninstalled;
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
        kinds: &Kinds,
        done: &mut Uninstalled,
    ) -> Result<(Vec<Vec<Deletion>>, Vec<String>)> {
        let scopes = Scopes::new(kinds, &[], std::iter::empty());
        let mut unserved = Vec::new();
        let mut kept: Vec<(String, String)> = Vec::new();
        // Of each object only its name: whole ones of a large release are most of what this command would hold.
        let mut named: BTreeMap<Key, ObjectRef> = BTreeMap::new();
        for manifest in records.flat_map(|record| self.manifests_of(record)) {
            let mut manifest = manifest?;
            for told in past_kinds::to_served(std::iter::once(&mut manifest.object), kinds) {
                tracing::warn!(release = %id, "{told}");
            }
            let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
            if Record::keeps(&manifest.object) {
                let kind = text(&manifest.object["kind"]);
                let label = format!("[{kind}] {}", text(&manifest.object["metadata"]["name"]));
                kept.push((kind, label));
                continue;
            }
            for object in targets::items(&manifest.object).filter(|o| !targets::is_empty(o)) {
                match targets::reference(&manifest.source, object, &id.namespace, |gvk| {
                    scopes.namespaced(gvk)
                }) {
                    Ok(found) => drop(named.insert(found.key(), found)),
                    // With its kind its objects went.
                    Err(EngineError::NoKind { .. }) if kinds.stale.is_empty() => {}
                    Err(error) => unserved.push(error.to_string()),
                }
            }
        }
        kept.sort_by(|(a, _), (b, _)| uninstall_rank(a).cmp(&uninstall_rank(b)));
        kept.dedup();
        done.kept.extend(kept.into_iter().map(|(_, label)| label));
        let seen = observe::objects(&self.cluster, None, &self.options.field_manager, named.values()).await?;
        let mut deletions = Vec::new();
        let mut named: Vec<(Key, ObjectRef)> = named.into_iter().collect();
        named.sort_by(|(_, a), (_, b)| uninstall_rank(&a.gvk.kind).cmp(&uninstall_rank(&b.gvk.kind)));
        for (key, object) in named {
            let Some(Some(found)) = seen.get(&key) else { continue };
            let label = format!("[{}] {}", object.gvk.kind, object.name);
            if ownership::check(found, id).is_err() {
                done.foreign.push(label);
            } else if ownership::is_kept(found.resource_policy.as_deref()) {
                done.kept.push(label);
            } else {
                deletions.push(Deletion { object, uid: found.uid.clone() });
            }
        }
        Ok((deletion_groups(deletions), unserved))
    }

    async fn purge(&self, store: &Store<'_>, id: &ReleaseId) -> Result<()> {
        // The newest last: as long as it is there, a crash is finished by asking again.
        for revision in store.as_seen().history(id).await? {
            store.delete(id, revision.revision).await?;
        }
        Ok(())
    }

    async fn keep_history(&self, store: &Store<'_>, current: &mut Stored, others: Vec<Stored>) -> Result<()> {
        store.update(current).await?;
        for mut stored in others {
            if stored.record.info.status == Status::Deployed {
                stored.record.info.status = Status::Superseded;
                store.update(&mut stored).await?;
            }
        }
        Ok(())
    }
}
