//! The engine's state of releases in memory: cached revisions, locks, pending events.
//!
//! All of it can be lost: it is rebuilt from records and watches.

use crate::{
    objects::desired_objects::Digest,
    record::Horizon,
    request::{DriftMode, ReleaseId, ReleaseKey},
    state::{crd_tracker::CrdTracker, deletion_waits::DeletionWaits, expected_object::ExpectedObject},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, OwnedMutexGuard},
    task::JoinSet,
};
use windlass_base::redact::SecretScope;
use windlass_cluster::{CacheEvent, ObjectKey, ObjectRef};

/// A release as the last operation left it.
#[derive(Debug, Clone)]
pub(crate) struct CachedRelease {
    pub(crate) revision: u64,
    /// Resource version of the record's Secret.
    pub(crate) record_version: String,
    /// This process has begun another revision since, which the watch of records may not show yet.
    pub(crate) has_successor: bool,
    /// Digest of objects and hooks.
    pub(crate) state: Digest,
    /// Digest of `crds/`.
    pub(crate) crds: Digest,
    /// The request's own checksum: a key for `state`.
    pub(crate) checksum: String,
    /// What is done about drift.
    pub(crate) drift: DriftMode,
    /// Whether status changes of workloads are triggers.
    pub(crate) watches_status: bool,
    /// ConfigMaps and Secrets that left the manifest wait for their references to go.
    pub(crate) retains: bool,
    pub(crate) expected: BTreeMap<ObjectKey, ExpectedObject>,
}

/// Flags of an object's events, collected until the reconcile: the cache holds only the latest state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventFlags {
    pub(crate) finished: bool,
    pub(crate) owned: bool,
}

/// Events of a release since its last reconcile.
#[derive(Debug, Default)]
pub(crate) struct PendingEvents {
    pub(crate) objects: BTreeMap<ObjectKey, EventFlags>,
    /// Writes of records, by us or by Helm, by revision. Whose write it was is decided later: the event may arrive
    /// before our own write returns.
    pub(crate) records: BTreeMap<u64, RecordEvent>,
    /// A CRD of its `crds/` was deleted.
    pub(crate) crds: bool,
}

/// The last event of a record.
#[derive(Clone, Debug)]
pub(crate) struct RecordEvent {
    version: String,
    gone: bool,
}

#[derive(Default)]
struct Inner {
    known: BTreeMap<ReleaseKey, CachedRelease>,
    /// The release of each object, for objects that lost their ownership metadata.
    owners: BTreeMap<ObjectKey, ReleaseKey>,
    /// The owner of each release, if its request names one.
    release_owners: BTreeMap<ReleaseKey, String>,
    /// Releases whose records are in another namespace, by that namespace and their name.
    stored_elsewhere: BTreeMap<ReleaseId, ReleaseKey>,
    locks: BTreeMap<ReleaseKey, Arc<tokio::sync::Mutex<()>>>,
    pending: BTreeMap<ReleaseKey, PendingEvents>,
    busy: BTreeSet<ReleaseKey>,
    /// When the last operation on a release began or ended, for some time.
    operated: BTreeMap<ReleaseKey, Instant>,
    crd_tracker: CrdTracker,
    /// Releases of which it was said that autoscalers of a namespace cannot be listed.
    unseen_autoscalers: BTreeSet<(ReleaseId, String)>,
}

/// No watch is behind for so long: what was written before is in the caches.
const CACHES_BEHIND: Duration = Duration::from_secs(600);

impl Inner {
    fn was_operated(&self, key: &ReleaseKey) -> bool {
        self.operated.get(key).is_some_and(|at| at.elapsed() < CACHES_BEHIND)
    }

    fn note_operation(&mut self, key: &ReleaseKey) {
        if !self.operated.contains_key(key) {
            self.operated.retain(|_, at| at.elapsed() < CACHES_BEHIND);
        }
        self.operated.insert(key.clone(), Instant::now());
    }

    /// The releases that ownership metadata name: of a name and namespace, whatever namespace their records are in.
    fn named(&self, id: &ReleaseId) -> Vec<ReleaseKey> {
        let from = ReleaseKey::new(id, "");
        self.known.range(from..).map(|(key, _)| key).take_while(|key| key.id == *id).cloned().collect()
    }
}

#[derive(Default)]
pub(crate) struct EngineState {
    inner: Mutex<Inner>,
    /// The newest resource version of records that was observed.
    pub(crate) horizon: Horizon,
    /// Uninstalls that wait until objects are gone.
    pub(crate) deletion_waits: DeletionWaits,
    wake: Notify,
    /// Background tasks, for which no operation waits.
    beside: Mutex<JoinSet<()>>,
}

/// Admits one operation at a time on a release, and holds back its events until it ends.
pub(crate) struct OperationGuard {
    state: Arc<EngineState>,
    key: ReleaseKey,
    /// Whether there was no operation before it that a cache may not show yet.
    pub(crate) first: bool,
    _lock: OwnedMutexGuard<()>,
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        let mut inner = self.state.lock();
        inner.busy.remove(&self.key);
        inner.note_operation(&self.key);
        // Nothing waits for the lock and nothing is cached or tracked: a deleted release leaves no entry.
        if !inner.known.contains_key(&self.key)
            && !inner.crd_tracker.tracks(&self.key)
            && inner.locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) <= 2)
        {
            inner.locks.remove(&self.key);
            inner.pending.remove(&self.key);
            inner.release_owners.remove(&self.key);
            inner.unseen_autoscalers.retain(|(id, _)| *id != self.key.id);
            inner.stored_elsewhere.retain(|_, key| *key != self.key);
        }
        if inner.pending.contains_key(&self.key) {
            self.state.wake.notify_waiters();
        }
    }
}

impl EngineState {
    /// Whether it was not said before that a release's account cannot list autoscalers of a namespace.
    pub(crate) fn is_first_unseen(&self, id: &ReleaseId, namespace: &str) -> bool {
        self.lock().unseen_autoscalers.insert((id.clone(), namespace.to_owned()))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an operation unless another one runs on the release.
    pub(crate) fn try_begin_operation(self: &Arc<Self>, key: &ReleaseKey) -> Option<OperationGuard> {
        let lock = Arc::clone(self.lock().locks.entry(key.clone()).or_default());
        lock.try_lock_owned().ok().map(|guard| self.began(key, guard))
    }

    /// Waits until no other operation runs on the release.
    pub(crate) async fn begin_operation(self: &Arc<Self>, key: &ReleaseKey) -> OperationGuard {
        let lock = Arc::clone(self.lock().locks.entry(key.clone()).or_default());
        let guard = lock.lock_owned().await;
        self.began(key, guard)
    }

    fn began(self: &Arc<Self>, key: &ReleaseKey, guard: OwnedMutexGuard<()>) -> OperationGuard {
        let mut inner = self.lock();
        let first = !inner.was_operated(key);
        inner.busy.insert(key.clone());
        inner.note_operation(key);
        drop(inner);
        OperationGuard { state: Arc::clone(self), key: key.clone(), first, _lock: guard }
    }

    /// Whether this process has operated on a release lately: the caches may not show yet what it wrote.
    pub(crate) fn was_operated(&self, key: &ReleaseKey) -> bool {
        self.lock().was_operated(key)
    }

    /// Runs a task in the background.
    pub(crate) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        while beside.try_join_next().is_some() {}
        beside.spawn(SecretScope::current().run_async(work));
    }

    /// Waits for all background tasks.
    pub(crate) async fn settle(&self) {
        let mut beside = std::mem::take(&mut *self.beside.lock().unwrap_or_else(PoisonError::into_inner));
        while beside.join_next().await.is_some() {}
    }

    pub(crate) fn get(&self, key: &ReleaseKey) -> Option<CachedRelease> {
        self.lock().known.get(key).cloned()
    }

    /// Accesses the cached state of a release without copying it.
    pub(crate) fn with<R>(&self, key: &ReleaseKey, look: impl FnOnce(&mut CachedRelease) -> R) -> Option<R> {
        self.lock().known.get_mut(key).map(look)
    }

    pub(crate) fn set(&self, key: &ReleaseKey, known: CachedRelease) {
        let mut inner = self.lock();
        inner.owners.retain(|_, owner| owner != key);
        inner.owners.extend(known.expected.keys().map(|object| (object.clone(), key.clone())));
        inner.known.insert(key.clone(), known);
    }

    pub(crate) fn forget(&self, key: &ReleaseKey) {
        let mut inner = self.lock();
        inner.crd_tracker.set(key, BTreeSet::new());
        inner.owners.retain(|_, owner| owner != key);
        inner.known.remove(key);
    }

    /// Whether an object is one that a release has applied; `None`: nothing is known of the release. Another release of this name, with
    /// records elsewhere, is no proof.
    pub(crate) fn has_object(&self, key: &ReleaseKey, object: &ObjectKey) -> Option<bool> {
        self.lock().known.get(key).map(|release| release.expected.contains_key(object))
    }

    /// Another release of the name that has applied objects in its namespace, with its records elsewhere.
    pub(crate) fn rival_of(&self, key: &ReleaseKey) -> Option<ReleaseKey> {
        let inner = self.lock();
        let is_there = |object: &ObjectKey| object.namespace.as_ref() == Some(&key.id.namespace);
        let has_objects = |other: &ReleaseKey| {
            inner.known.get(other).is_some_and(|release| release.expected.keys().any(is_there))
        };
        inner.named(&key.id).into_iter().find(|other| other != key && has_objects(other))
    }

    /// Takes an event of the objects' watches.
    pub(crate) fn on_object_event(&self, change: &CacheEvent) {
        let (CacheEvent::Present(object, seen) | CacheEvent::Gone(object, seen)) = change;
        let mut inner = self.lock();
        let object = object.key();
        let marked = match (&seen.release_namespace, &seen.release_name) {
            (Some(namespace), Some(name)) => inner.named(&ReleaseId::new(namespace, name)),
            _ => Vec::new(),
        };
        let owner = inner.owners.get(&object).cloned();
        for key in owner.into_iter().chain(marked).collect::<BTreeSet<_>>() {
            if inner.known.contains_key(&key) {
                let flags = inner.pending.entry(key).or_default().objects.entry(object.clone()).or_default();
                flags.finished |= seen.finished;
                flags.owned |= seen.owned;
            }
        }
        drop(inner);
        self.wake.notify_waiters();
    }

    /// Takes an event of the CRDs' watch.
    pub(crate) fn on_crd_event(&self, change: &CacheEvent) {
        let (CacheEvent::Present(object, _) | CacheEvent::Gone(object, _)) = change;
        if object.gvk.kind != "CustomResourceDefinition" {
            return;
        }
        let mut inner = self.lock();
        match change {
            CacheEvent::Present(object, _) => inner.crd_tracker.mark_present(&object.name),
            CacheEvent::Gone(object, _) => {
                for key in inner.crd_tracker.mark_deleted(&object.name) {
                    inner.pending.entry(key).or_default().crds = true;
                }
            }
        }
        drop(inner);
        self.wake.notify_waiters();
    }

    /// Sets the CRDs of a release.
    pub(crate) fn track_crds(&self, key: &ReleaseKey, crds: BTreeSet<String>) {
        self.lock().crd_tracker.set(key, crds);
    }

    /// Marks written CRDs as present, before their events arrive.
    pub(crate) fn mark_crds_present(&self, names: &BTreeSet<String>) {
        let mut inner = self.lock();
        for name in names {
            inner.crd_tracker.mark_present(name);
        }
    }

    /// The deleted CRDs of a release that are to be re-created.
    pub(crate) fn missing_crds(&self, key: &ReleaseKey) -> BTreeSet<String> {
        let inner = self.lock();
        match inner.known.get(key).is_none_or(|known| known.drift == DriftMode::Correct) {
            true => inner.crd_tracker.missing(key),
            false => BTreeSet::new(),
        }
    }

    /// Takes an event of the records' watch.
    pub(crate) fn on_record_event(&self, change: &CacheEvent) {
        let (CacheEvent::Present(object, seen) | CacheEvent::Gone(object, seen)) = change;
        let Some((stored, revision)) = release_of(object) else { return };
        self.horizon.note(&seen.resource_version);
        let mut inner = self.lock();
        let at_home = ReleaseKey::new(&stored, &stored.namespace);
        // Who stores records in a namespace does not take the events of a release that is at home there.
        let elsewhere = inner.stored_elsewhere.get(&stored).cloned();
        let event = RecordEvent {
            version: seen.resource_version.clone(),
            gone: matches!(change, CacheEvent::Gone(..)),
        };
        for key in elsewhere.into_iter().chain([at_home]) {
            if inner.known.get(&key).is_some_and(|known| is_foreign_write(known, revision, &event)) {
                inner.pending.entry(key).or_default().records.insert(revision, event.clone());
            }
        }
        drop(inner);
        self.wake.notify_waiters();
    }

    /// Sets that the records of a release are watched.
    pub(crate) fn note_storage(&self, key: &ReleaseKey) {
        if key.storage != key.id.namespace {
            let stored = ReleaseId::new(&key.storage, &key.id.name);
            self.lock().stored_elsewhere.insert(stored, key.clone());
        }
    }

    /// Sets the owner of a release, who gets its triggers.
    pub(crate) fn set_owner(&self, key: &ReleaseKey, owner: &str) {
        self.lock().release_owners.insert(key.clone(), owner.to_owned());
        self.wake.notify_waiters();
    }

    /// The next release with pending events and no running operation; with `owners`, only releases of these.
    pub(crate) async fn next_pending(
        &self,
        owners: Option<&BTreeSet<String>>,
    ) -> (ReleaseKey, PendingEvents) {
        loop {
            let wake = self.wake.notified();
            tokio::pin!(wake);
            wake.as_mut().enable();
            {
                let mut inner = self.lock();
                let matches = |key: &ReleaseKey| {
                    owners.is_none_or(|own| inner.release_owners.get(key).is_some_and(|o| own.contains(o)))
                };
                let free = |key: &&ReleaseKey| !inner.busy.contains(*key) && matches(key);
                let free = inner.pending.keys().find(free).cloned();
                if let Some(key) = free
                    && let Some(pending) = inner.pending.remove(&key)
                {
                    return (key, pending);
                }
            }
            wake.await;
        }
    }
}

/// Whether an event of a record is another writer's. Records older than the cached one, such as those that we
/// supersede, do not count.
fn is_foreign_write(known: &CachedRelease, revision: u64, event: &RecordEvent) -> bool {
    let ours = || match (event.version.parse::<u64>(), known.record_version.parse::<u64>()) {
        (Ok(event), Ok(ours)) => event <= ours,
        _ => event.version == known.record_version,
    };
    match revision.cmp(&known.revision) {
        std::cmp::Ordering::Greater => !event.gone,
        std::cmp::Ordering::Equal => event.gone || !ours(),
        std::cmp::Ordering::Less => false,
    }
}

impl PendingEvents {
    /// Whether another writer wrote a record.
    pub(crate) fn has_foreign_write(&self, known: &CachedRelease) -> bool {
        self.records.iter().any(|(revision, event)| is_foreign_write(known, *revision, event))
    }
}

/// Release and revision, from the name of a record's Secret.
pub(crate) fn release_of(object: &ObjectRef) -> Option<(ReleaseId, u64)> {
    let (name, revision) = object.name.strip_prefix("sh.helm.release.v1.")?.rsplit_once(".v")?;
    Some((ReleaseId::new(object.namespace.as_deref()?, name), revision.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::{Gvk, ObservedMeta};

    fn known(revision: u64, version: &str) -> CachedRelease {
        CachedRelease {
            watches_status: false,
            retains: false,
            revision,
            record_version: version.into(),
            has_successor: false,
            state: [0; 32],
            crds: [0; 32],
            checksum: String::new(),
            drift: DriftMode::Correct,
            expected: BTreeMap::new(),
        }
    }

    #[test]
    fn records_by_name() {
        let secret = |name: &str| ObjectRef::new(Gvk::new("v1", "Secret"), Some("ns"), name);
        assert_eq!(
            release_of(&secret("sh.helm.release.v1.a.v2.v13")),
            Some((ReleaseId::new("ns", "a.v2"), 13))
        );
        assert_eq!(release_of(&secret("sh.helm.release.v1.a")), None);
        assert_eq!(release_of(&secret("token")), None);
    }

    #[test]
    fn only_others_writes_of_records_are_news() {
        let cases = [
            ("our last write", 2, "20", false, false),
            ("one before it", 2, "19", false, false),
            ("changed by someone", 2, "21", false, true),
            ("a later revision", 3, "5", false, true),
            ("superseding the old one", 1, "30", false, false),
            ("deleted", 2, "21", true, true),
            ("an old one deleted", 1, "21", true, false),
        ];
        for (what, revision, version, gone, expected) in cases {
            let event = RecordEvent { version: version.into(), gone };
            assert_eq!(is_foreign_write(&known(2, "20"), revision, &event), expected, "{what}");
        }
    }

    #[tokio::test]
    async fn events_wait_for_the_operation() {
        let state = Arc::new(EngineState::default());
        let id = ReleaseKey::new(&ReleaseId::new("ns", "rel"), "ns");
        state.set(&id, known(1, "1"));
        let object = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some("ns"), "c");
        let seen = ObservedMeta {
            release_name: Some("rel".into()),
            release_namespace: Some("ns".into()),
            ..ObservedMeta::default()
        };
        let busy = state.begin_operation(&id).await;
        state.on_object_event(&CacheEvent::Gone(object, seen));
        let waiting = {
            let state = Arc::clone(&state);
            tokio::spawn(async move { state.next_pending(None).await })
        };
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the release is busy");
        drop(busy);
        let (pending, what) = waiting.await.unwrap();
        assert_eq!((pending, what.objects.len()), (id, 1));
    }

    #[tokio::test]
    async fn releases_of_one_name_with_records_in_two_namespaces_are_two() {
        let state = Arc::new(EngineState::default());
        let target = ReleaseId::new("shop", "web");
        let (own, other) = (ReleaseKey::new(&target, "shop"), ReleaseKey::new(&target, "tenant"));
        state.note_storage(&other);
        state.set(&own, known(1, "1"));
        state.set(&other, known(4, "4"));
        state.set_owner(&own, "modules");
        state.set_owner(&other, "helmreleases");
        let held = state.try_begin_operation(&other).unwrap();
        assert!(state.try_begin_operation(&other).is_none());
        assert!(state.try_begin_operation(&own).is_some(), "an operation on the other does not stop it");
        drop(held);
        let record = |namespace: &str| {
            ObjectRef::new(Gvk::new("v1", "Secret"), Some(namespace), "sh.helm.release.v1.web.v5")
        };
        let seen = || ObservedMeta { resource_version: "9".into(), ..ObservedMeta::default() };
        state.on_record_event(&CacheEvent::Present(record("tenant"), seen()));
        let modules = BTreeSet::from(["modules".to_owned()]);
        assert_eq!(state.next_pending(None).await.0, other);
        // Records of another release that are asked for in the namespace do not take its events.
        state.note_storage(&ReleaseKey::new(&ReleaseId::new("tenant", "web"), "shop"));
        state.on_record_event(&CacheEvent::Present(record("shop"), seen()));
        assert_eq!(state.next_pending(Some(&modules)).await.0, own);
        let object = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some("shop"), "c");
        let marked = ObservedMeta {
            release_name: Some("web".into()),
            release_namespace: Some("shop".into()),
            ..ObservedMeta::default()
        };
        state.on_object_event(&CacheEvent::Gone(object, marked));
        assert_eq!(state.next_pending(Some(&modules)).await.0, own);
        assert_eq!(state.next_pending(None).await.0, other);
    }

    #[test]
    fn objects_of_a_release_are_those_that_it_has_applied() {
        let object = |name: &str| ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("shop"), name);
        let web = object("web");
        let expected = ExpectedObject::remembered(
            web.clone(),
            &serde_json::Value::Null,
            crate::request::ApplyMethod::Server,
            None,
        );
        let state = EngineState::default();
        // One of the same name has its records elsewhere.
        let id = ReleaseId::new("shop", "web");
        let (own, squatter) = (ReleaseKey::new(&id, "tenant"), ReleaseKey::new(&id, "evil"));
        let other = ReleaseKey::at_home(&ReleaseId::new("shop", "other"));
        assert_eq!(state.has_object(&own, &web.key()), None);
        let applied = CachedRelease { expected: [(web.key(), expected)].into(), ..known(1, "1") };
        state.set(&own, applied);
        state.set(&other, known(1, "1"));
        assert_eq!(state.has_object(&own, &web.key()), Some(true));
        assert_eq!(state.has_object(&own, &object("forged").key()), Some(false));
        assert_eq!(state.has_object(&other, &web.key()), Some(false));
        assert_eq!(state.has_object(&squatter, &web.key()), None);
        state.set(&squatter, known(1, "1"));
        assert_eq!(state.has_object(&squatter, &web.key()), Some(false), "the other's record is no proof");
        // Their objects would have the same owner. Who has none there keeps nobody from the name.
        assert_eq!((state.rival_of(&own), state.rival_of(&squatter)), (None, Some(own.clone())));
        state.forget(&own);
        assert_eq!((state.has_object(&own, &web.key()), state.rival_of(&squatter)), (None, None));
    }

    #[tokio::test]
    async fn a_crd_that_went_touches_who_brought_it_until_it_is_back() {
        let state = Arc::new(EngineState::default());
        let id = ReleaseKey::new(&ReleaseId::new("ns", "rel"), "ns");
        let crd =
            || ObjectRef::new(Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"), None, "a");
        state.track_crds(&id, BTreeSet::from(["a".to_owned()]));
        state.on_crd_event(&CacheEvent::Gone(crd(), ObservedMeta::default()));
        let (pending, what) = state.next_pending(None).await;
        assert_eq!((pending, what.crds, state.missing_crds(&id).len()), (id.clone(), true, 1));
        state.mark_crds_present(&BTreeSet::from(["a".to_owned()]));
        assert_eq!(state.missing_crds(&id).len(), 0);
        state.on_crd_event(&CacheEvent::Gone(crd(), ObservedMeta::default()));
        state.on_crd_event(&CacheEvent::Present(crd(), ObservedMeta::default()));
        assert_eq!(state.missing_crds(&id).len(), 0, "someone made it again");
    }

    #[tokio::test]
    async fn a_release_keeps_its_owner_while_its_crds_are_tracked() {
        let state = Arc::new(EngineState::default());
        let id = ReleaseKey::new(&ReleaseId::new("ns", "rel"), "ns");
        let crd = ObjectRef::new(Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"), None, "a");
        state.track_crds(&id, BTreeSet::from(["a".to_owned()]));
        state.on_crd_event(&CacheEvent::Gone(crd, ObservedMeta::default()));
        let waiting = {
            let state = Arc::clone(&state);
            tokio::spawn(
                async move { state.next_pending(Some(&BTreeSet::from(["modules".to_owned()]))).await },
            )
        };
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "it has no owner");
        state.set_owner(&id, "modules");
        assert_eq!(waiting.await.unwrap().0, id);
        // An operation that fails before it caches anything.
        drop(state.begin_operation(&id).await);
        assert_eq!(state.lock().release_owners.len(), 1);
        let operation = state.begin_operation(&id).await;
        state.forget(&id);
        drop(operation);
        let inner = state.lock();
        assert!(inner.release_owners.is_empty() && inner.locks.is_empty() && inner.pending.is_empty());
    }

    #[tokio::test]
    async fn our_own_write_is_no_news_once_it_is_known() {
        let state = Arc::new(EngineState::default());
        let id = ReleaseKey::new(&ReleaseId::new("ns", "rel"), "ns");
        state.set(&id, known(1, "1"));
        let busy = state.begin_operation(&id).await;
        let record = ObjectRef::new(Gvk::new("v1", "Secret"), Some("ns"), "sh.helm.release.v1.rel.v2");
        state.on_record_event(&CacheEvent::Present(
            record,
            ObservedMeta { resource_version: "7".into(), ..ObservedMeta::default() },
        ));
        state.set(&id, known(2, "7"));
        drop(busy);
        let (_, what) = state.next_pending(None).await;
        assert!(!what.has_foreign_write(&known(2, "7")));
        assert!(what.has_foreign_write(&known(1, "1")));
    }
}
