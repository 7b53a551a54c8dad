//! The history of a release, and whether it is still current.

use crate::{
    context::Context,
    error::{EngineError, Result},
    lock::{
        lock_policy,
        release_lease::{LeaseHolder, LeaseState, LockPlace},
    },
    record::{
        Record, RecordError, RecordRooms, RecordStore, ReleaseStatus, Revision, StoredRecord, is_relevant,
    },
    request::ReleaseId,
    state::engine_state::{CachedRelease, release_of},
};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use windlass_cluster::ObjectRef;

/// The most revisions that one is said to have displaced.
const MAX_DISPLACED: usize = 64;

/// The history of a release.
#[derive(Debug, Default)]
pub struct History {
    /// All revisions, oldest first.
    pub(crate) revisions: Vec<Revision>,
    /// Whole records of the relevant ones: all that are not superseded, the newest, and those that it displaced.
    pub(crate) records: Vec<StoredRecord>,
    /// No other operation runs on the release: its lock is ours, or was free.
    pub(crate) free: bool,
    /// The live holder of the release's lock, where the lock was only read.
    pub(crate) holder: Option<LeaseHolder>,
}

impl History {
    /// The newest record, if there is one.
    #[must_use]
    pub fn newest(&self) -> Option<&Record> {
        self.records.last().map(|stored| &stored.record)
    }

    /// The revision whose values an upgrade reuses: the newest deployed one, or the newest if none is deployed
    /// (`Upgrade.prepareUpgrade`). The values of a failed upgrade are not reused. `None` if there is nothing to upgrade.
    #[must_use]
    pub fn upgrade_base(&self) -> Option<&Record> {
        let newest = self.newest().filter(|newest| newest.info.status != ReleaseStatus::Uninstalled)?;
        let mut newest_first = self.records.iter().rev().map(|stored| &stored.record);
        let deployed = newest_first.find(|record| record.info.status == ReleaseStatus::Deployed);
        Some(deployed.unwrap_or(newest))
    }

    /// Adds the holder of a running operation to an error.
    pub(crate) fn explained(&self, error: EngineError, now: Timestamp) -> EngineError {
        match (error, &self.holder, self.newest()) {
            (EngineError::InProgress, Some(holder), _) => holder.clone().into(),
            (EngineError::InProgress, None, Some(newest)) => lock_policy::pending(newest),
            (EngineError::NameInUse, None, Some(newest))
                if newest.info.status == ReleaseStatus::Uninstalling =>
            {
                let half = lock_policy::half_uninstalled(newest, self.free, now);
                EngineError::HalfUninstalled { name: newest.name.clone(), half }
            }
            (error, ..) => error,
        }
    }

    /// Whether the newest record is unchanged. Without one, the creation of the first record decides.
    pub(crate) async fn is_current(&self, store: RecordStore<'_>, id: &ReleaseId) -> Result<bool> {
        match self.records.last() {
            Some(read) => is_newest(store, id, read).await,
            None => Ok(self.revisions.is_empty()),
        }
    }

    /// Whether one of our processes left a revision unfinished, or works on it.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.records.last().is_some_and(|newest| {
            let status = newest.record.info.status;
            let open = status.is_pending() || status == ReleaseStatus::Uninstalling;
            open && !newest.record.extension.holder.is_empty()
        }) || self.has_two_deployed()
    }

    /// Whether two revisions are deployed, and no process of ours works on the release: the newer one's writer
    /// crashed, or failed to write, before it superseded the older one.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.free && self.has_two_deployed()
    }

    /// Whether the newest revision was deployed by one of our processes while an older one is still deployed.
    pub fn has_two_deployed(&self) -> bool {
        let deployed = |stored: &StoredRecord| stored.record.info.status == ReleaseStatus::Deployed;
        self.records.split_last().is_some_and(|(newest, older)| {
            deployed(newest) && !newest.record.extension.holder.is_empty() && older.iter().any(deployed)
        })
    }
}

/// The history of a release. An engine that watches reads it only as new as its own writes and events: its watch reports later ones,
/// and the lock's holder checks again. Other engines read the newest.
///
/// # Errors
/// Records that cannot be read.
pub(crate) async fn of(context: &Context, id: &ReleaseId) -> Result<History> {
    context.watch_records(id).await;
    if !context.state.was_operated(&context.key(id)) && shows_no_records(context, id) {
        return Ok(History::default());
    }
    match only_record(context, id).await {
        Some(history) => Ok(history),
        None => read(context, id).await,
    }
}

pub(crate) async fn read(context: &Context, id: &ReleaseId) -> Result<History> {
    let store = context.store();
    records(if context.options.watch { store.as_seen() } else { store }, id).await
}

/// The history of a release whose only record this process wrote, if the watch shows no other one: a read by name, where two lists
/// look at all records of the namespace. Saves one of three requests of each pass over a release that waits for its objects.
async fn only_record(context: &Context, id: &ReleaseId) -> Option<History> {
    let written = |known: &mut CachedRelease| {
        (!known.has_successor).then(|| (known.revision, known.record_version.clone()))
    };
    let (revision, version) = context.state.with(&context.key(id), written)??;
    if has_records(context, id, |other| other != revision) != Some(false) {
        return None;
    }
    // Those that read lists report what cannot be read.
    let mut stored = context.store().get(id, revision).await.ok()??;
    if stored.resource_version != version {
        return None;
    }
    stored.record.namespace.clone_from(&id.namespace);
    let status = stored.record.info.status;
    let revisions = vec![Revision { revision, status, resource_version: version }];
    Some(History { revisions, records: vec![stored], free: false, holder: None })
}

/// Whether the watch of records shows that a release has none. An operation that relies on it finds out otherwise when it
/// creates the first record.
pub(crate) fn shows_no_records(context: &Context, id: &ReleaseId) -> bool {
    has_records(context, id, |_| true) == Some(false)
}

/// Whether the watch of records has some of a release, of revisions that are asked for; `None`: it does not tell.
fn has_records(context: &Context, id: &ReleaseId, of: impl Fn(u64) -> bool) -> Option<bool> {
    // What an actor may read of another namespace, the API server decides.
    let watches = context.records.as_ref().filter(|_| !context.stores_as_actor())?;
    let kind = context.options.storage.gvk();
    let stored = ReleaseId::new(context.storage_namespace_of(id), &id.name);
    let own = |name: &str| {
        let object = ObjectRef::new(kind.clone(), Some(&stored.namespace), name);
        release_of(&object).is_some_and(|(found, revision)| found == stored && of(revision))
    };
    watches.has_any(&kind, &stored.namespace, own)
}

/// The history of a release, for a plan: the lock is only read.
pub(crate) async fn without_lock(context: &Context, id: &ReleaseId) -> Result<History> {
    with_lock_state(context, id, of(context, id).await?).await
}

/// A history with the state of the lock, if one of our processes left a revision unfinished. Writes nothing.
pub(crate) async fn with_lock_state(context: &Context, id: &ReleaseId, history: History) -> Result<History> {
    if !history.is_unfinished() {
        return Ok(history);
    }
    match LockPlace::new(context, id).state().await? {
        LeaseState::Free => Ok(History { free: true, ..records(context.store(), id).await? }),
        LeaseState::Held(holder) => Ok(History { holder: Some(holder), ..history }),
        LeaseState::Inaccessible => Ok(history),
    }
}

/// Whether a record is the newest of its release, and unchanged.
///
/// Reads by name: right after a write, such as that of a lock, the API server answers a list only when its cache
/// has caught up, which takes up to a tenth of a second.
pub(crate) async fn is_newest(store: RecordStore<'_>, id: &ReleaseId, read: &StoredRecord) -> Result<bool> {
    let own = read.record.version;
    let (now, next) = futures::join!(store.revision(id, own), store.revision(id, own + 1));
    Ok(now?.is_some_and(|now| now.resource_version == read.resource_version) && next?.is_none())
}

/// Reads the history of a release. All its records have one room.
pub(crate) async fn records(store: RecordStore<'_>, id: &ReleaseId) -> Result<History> {
    let mut rooms = RecordRooms::default();
    let (history, mut records) = listed(store, id, &mut rooms).await?;
    let newest = history.last().map_or(0, |newest| newest.revision);
    if !history.is_empty()
        && records.last().is_none_or(|r| r.record.version < newest)
        && let Some(found) = store.head_within(id, newest, &mut rooms).await?
    {
        records.push(found);
    }
    if let Some(newest) = records.last() {
        // The record may be anybody's: only revisions that there are.
        let displaced: BTreeSet<u64> = newest.record.extension.displaced.iter().copied().collect();
        let displaced = history.iter().map(|known| known.revision).filter(|known| displaced.contains(known));
        for revision in displaced.take(MAX_DISPLACED).collect::<Vec<_>>() {
            if records.iter().all(|r| r.record.version != revision) {
                records.extend(store.head_within(id, revision, &mut rooms).await?);
            }
        }
    }
    // The deployed record and the newest have the room first.
    let is_relevant =
        |stored: &StoredRecord| is_relevant(stored.record.version, stored.record.info.status, newest);
    records.sort_by_key(|stored| (!is_relevant(stored), Reverse(stored.record.version)));
    let mut whole = Vec::new();
    for mut stored in records {
        match store.complete(&mut stored, &mut rooms).await {
            Err(error @ RecordError::TooManyBytes { .. }) if !is_relevant(&stored) => {
                tracing::warn!(%error, "release record left out");
                continue;
            }
            completed => completed?,
        }
        // What an operation writes again says where the operation acts.
        stored.record.namespace.clone_from(&id.namespace);
        whole.push(stored);
    }
    whole.sort_by_key(|stored| stored.record.version);
    Ok(History { revisions: history, records: whole, free: false, holder: None })
}

/// All revisions of a release, and the records of those that are not superseded.
async fn listed(
    store: RecordStore<'_>,
    id: &ReleaseId,
    rooms: &mut RecordRooms,
) -> Result<(Vec<Revision>, Vec<StoredRecord>)> {
    let labels = format!("name={},status!={}", id.name, ReleaseStatus::Superseded);
    let whole = store.list_within(Some(store.namespace_of(id)), &labels, rooms);
    if !store.is_as_seen() {
        return Ok(tokio::try_join!(store.history(id), whole)?);
    }
    // The list is answered from the server's cache, and a first install needs no other.
    let history = store.history(id).await?;
    let records = if history.is_empty() { Vec::new() } else { whole.await? };
    Ok((history, records))
}
