//! The history of a release, and whether it is still current.

use crate::{
    decide::{self, RevisionState},
    desired_objects::Digest,
    engine::Engine,
    engine_state::release_of,
    error::{EngineError, Result},
    lock::{
        lock_policy,
        release_lease::{LeaseHolder, LeaseState, ReleaseLease},
    },
    record::{Record, RecordStore, ReleaseStatus, Revision, StoredRecord, recorded_manifests::state_of},
    request::{ReleaseId, ReleaseOptions, RenderedRelease},
};
use jiff::Timestamp;
use windlass_cluster::ObjectRef;

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
    pub(crate) fn explained(&self, error: EngineError) -> EngineError {
        match (error, &self.holder, self.newest()) {
            (EngineError::InProgress, Some(holder), _) => holder.clone().into(),
            (EngineError::InProgress, None, Some(newest)) => lock_policy::pending(newest),
            (EngineError::NameInUse, None, Some(newest))
                if newest.info.status == ReleaseStatus::Uninstalling =>
            {
                let half = lock_policy::half_uninstalled(newest, self.free, Timestamp::now());
                EngineError::HalfUninstalled { name: newest.name.clone(), half }
            }
            (error, ..) => error,
        }
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

impl Engine {
    /// The history of a release, for [`Engine::reconcile_with_history`]: a caller that renders by it reads it once.
    ///
    /// An engine that watches reads it only as new as its own writes and events: its watch reports later ones, and
    /// [`Engine::is_current`] checks under the lock. Other engines read the newest.
    ///
    /// # Errors
    /// Records that cannot be read.
    pub async fn history_of(&self, id: &ReleaseId) -> Result<History> {
        self.watch_records(id).await;
        if !self.state.was_operated(&self.key(id)) && self.shows_no_records(id) {
            return Ok(History::default());
        }
        self.read_history(id).await
    }

    async fn read_history(&self, id: &ReleaseId) -> Result<History> {
        let store = if self.options.watch { self.store().as_seen() } else { self.store() };
        records(store, id).await
    }

    /// Whether the watch of records shows that a release has none. An operation that relies on it finds out otherwise when it
    /// creates the first record.
    fn shows_no_records(&self, id: &ReleaseId) -> bool {
        // What an actor may read of another namespace, the API server decides.
        let Some(watches) = self.records.as_ref().filter(|_| !self.stores_as_actor()) else { return false };
        let kind = self.options.storage.gvk();
        let stored = ReleaseId::new(self.storage_namespace_of(id), &id.name);
        let own = |name: &str| {
            let object = ObjectRef::new(kind.clone(), Some(&stored.namespace), name);
            release_of(&object).is_some_and(|(found, _)| found == stored)
        };
        watches.has_any(&kind, &stored.namespace, own) == Some(false)
    }

    /// Whether a revision has the objects and hooks of a render; a revision whose manifests cannot be read has not.
    pub fn has_same_state(&self, record: &Record, rendered: &RenderedRelease) -> bool {
        self.has_state(record, state_of(rendered))
    }

    /// Refuses what would be refused for any render of a chart: for callers that write something before rendering.
    /// Reads the lock, and writes nothing.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn check_history(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        history: &History,
    ) -> Result<()> {
        if !options.revisions.break_lock
            && let Some(holder) = self.holder_of(id).await?
        {
            return Err(holder.into());
        }
        // An unfinished revision of one of our processes is resumed once its lock is ours.
        let free = history.free || is_unfinished(history);
        let as_if = |same| decide::decide(&id.name, options, &self.rows_where(history, free, None, |_| same));
        // What is refused for an equal and for a different state is refused for any.
        match as_if(true) {
            Ok(_) => Ok(()),
            Err(error) => as_if(false).map(drop).map_err(|_| history.explained(error)),
        }
    }

    /// The history of a release, given or read. If one of our processes left a revision unfinished, the lock is taken
    /// first: then no operation runs. `first`: this process has not operated on the release lately.
    pub(crate) async fn locked_history(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        read: Option<History>,
        first: bool,
    ) -> Result<(History, Option<ReleaseLease>)> {
        let history = match read {
            Some(history) => history,
            None if first && self.shows_no_records(id) => History::default(),
            None => self.read_history(id).await?,
        };
        if options.dry_run {
            return Ok((self.with_lock_state(id, history).await?, None));
        }
        if !is_unfinished(&history) {
            return Ok((history, None));
        }
        let lease = self.lock(id, options.revisions.break_lock, history.records.last()).await?;
        Ok((self.reread_history(id, &lease).await?, lease))
    }

    /// The same without writes: the lock is only read.
    pub(crate) async fn history_without_lock(&self, id: &ReleaseId) -> Result<History> {
        let history = self.history_of(id).await?;
        self.with_lock_state(id, history).await
    }

    async fn with_lock_state(&self, id: &ReleaseId, history: History) -> Result<History> {
        if !is_unfinished(&history) {
            return Ok(history);
        }
        match self.lease_state(id).await? {
            LeaseState::Free => Ok(History { free: true, ..records(self.store(), id).await? }),
            LeaseState::Held(holder) => Ok(History { holder: Some(holder), ..history }),
            LeaseState::Inaccessible => Ok(history),
        }
    }

    /// Reads the history again, under the lock that is held.
    pub(crate) async fn reread_history(
        &self,
        id: &ReleaseId,
        lease: &Option<ReleaseLease>,
    ) -> Result<History> {
        Ok(History { free: lease.is_some(), ..records(self.store(), id).await? })
    }

    /// Whether the newest record is unchanged. Without one, the creation of the first record decides.
    pub(crate) async fn is_current(&self, id: &ReleaseId, history: &History) -> Result<bool> {
        match history.records.last() {
            Some(read) => self.is_newest(id, read).await,
            None => Ok(history.revisions.is_empty()),
        }
    }

    /// Whether a record is the newest of its release, and unchanged.
    ///
    /// Reads by name: right after a write, such as that of a lock, the API server answers a list only when its cache
    /// has caught up, which takes up to a tenth of a second.
    pub(crate) async fn is_newest(&self, id: &ReleaseId, read: &StoredRecord) -> Result<bool> {
        let store = self.store();
        let own = read.record.version;
        let (now, next) = futures::join!(store.revision(id, own), store.revision(id, own + 1));
        Ok(now?.is_some_and(|now| now.resource_version == read.resource_version) && next?.is_none())
    }

    /// The recorded revisions, as `decide` takes them.
    pub(crate) fn rows(&self, history: &History, state: Digest, owner: Option<&str>) -> Vec<RevisionState> {
        self.rows_where(history, history.free, owner, |record| {
            let comparable =
                !matches!(record.info.status, ReleaseStatus::Superseded | ReleaseStatus::Uninstalled);
            // A stored manifest that cannot be read equals nothing.
            comparable && self.has_state(record, state)
        })
    }

    /// The same, with a given comparison of states.
    pub(crate) fn rows_where(
        &self,
        history: &History,
        free: bool,
        owner: Option<&str>,
        same: impl Fn(&Record) -> bool,
    ) -> Vec<RevisionState> {
        let now = jiff::Timestamp::now();
        let unsettled = free && history.has_two_deployed();
        let newest = history.newest().map(|newest| newest.version);
        let row = |stored: &StoredRecord| RevisionState {
            revision: stored.record.version,
            status: stored.record.info.status,
            same: same(&stored.record),
            hold: lock_policy::judge(&stored.record, &self.options.holder, owner, free, now),
            unsettled: unsettled && newest == Some(stored.record.version),
            undeployed: stored.record.extension.undeployed
                && stored.record.info.status != ReleaseStatus::Uninstalled,
        };
        history.records.iter().map(row).collect()
    }
}

/// Reads the history of a release.
pub(crate) async fn records(store: RecordStore<'_>, id: &ReleaseId) -> Result<History> {
    let labels = format!("name={},status!={}", id.name, ReleaseStatus::Superseded);
    let whole = store.list(Some(store.namespace_of(id)), &labels);
    let (history, mut records) = if store.is_as_seen() {
        // The list is answered from the server's cache, and a first install needs no other.
        let history = store.history(id).await?;
        let records = if history.is_empty() { Vec::new() } else { whole.await? };
        (history, records)
    } else {
        tokio::try_join!(store.history(id), whole)?
    };
    if let Some(newest) = history.last()
        && records.last().is_none_or(|r| r.record.version < newest.revision)
        && let Some(found) = store.get(id, newest.revision).await?
    {
        records.push(found);
    }
    if let Some(newest) = records.last() {
        for revision in newest.record.extension.displaced.clone() {
            if records.iter().all(|r| r.record.version != revision) {
                records.extend(store.get(id, revision).await?);
            }
        }
        records.sort_by_key(|stored| stored.record.version);
    }
    for stored in &mut records {
        store.complete(stored).await?;
        // What an operation writes again says where the operation acts.
        stored.record.namespace.clone_from(&id.namespace);
    }
    Ok(History { revisions: history, records, free: false, holder: None })
}

/// Whether one of our processes left a revision unfinished, or works on it.
fn is_unfinished(history: &History) -> bool {
    history.records.last().is_some_and(|newest| {
        let status = newest.record.info.status;
        let open = status.is_pending() || status == ReleaseStatus::Uninstalling;
        open && !newest.record.extension.holder.is_empty()
    }) || history.has_two_deployed()
}
