//! The past of a release, and whether it is still what was read.

use crate::release::{
    decide,
    engine::{Engine, state_of},
    error::Result,
    lock::release_lease::{LeaseState, ReleaseLease},
    observe::{self, History},
    record::{Record, ReleaseStatus, StoredRecord},
    request::{ReleaseId, ReleaseOptions, RenderedRelease},
};

impl Engine {
    /// The past of a release, for [`Engine::reconcile_with_history`]: whoever renders by it need not have it read twice.
    ///
    /// An engine that watches reads it as new as what it has written and was told of: its watch tells of what is newer, and
    /// under the lock [`Engine::is_current`] does. Any other reads it as of now.
    ///
    /// # Errors
    /// Records that cannot be read.
    pub async fn history_of(&self, id: &ReleaseId) -> Result<History> {
        let store = if self.options.watch { self.store().as_seen() } else { self.store() };
        observe::records(store, id).await
    }

    /// Whether a revision has the objects and hooks of a render; one whose manifests cannot be read has others.
    pub fn has_same_state(&self, record: &Record, rendered: &RenderedRelease) -> bool {
        self.has_state(record, state_of(rendered))
    }

    /// Refuses what would be refused whatever a chart is rendered to: for those who write something ahead of rendering. Who
    /// works on the release is looked at, and nothing is written.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn check_history(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        past: &History,
    ) -> Result<()> {
        if !options.break_lock
            && let Some(holder) = self.holder_of(id).await?
        {
            return Err(holder.into());
        }
        // What a process of ours left unfinished is taken up once its lock is ours.
        let free = past.free || is_unfinished(past);
        let as_if = |same| decide::decide(&id.name, options, &self.rows_where(past, free, None, |_| same));
        // Whether it is the same again matters: what is refused either way is refused.
        match as_if(true) {
            Ok(_) => Ok(()),
            Err(error) => as_if(false).map(drop).map_err(|_| past.explained(error)),
        }
    }

    /// The past of a release, as it was read already or as it is. Where a process of ours left something unfinished, its lock
    /// is taken first: then nobody is at work on it any more.
    pub(crate) async fn locked_history(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        read: Option<History>,
    ) -> Result<(History, Option<ReleaseLease>)> {
        let past = match read {
            Some(past) => past,
            None => self.history_of(id).await?,
        };
        if options.dry_run {
            return Ok((self.with_lock_state(id, past).await?, None));
        }
        if !is_unfinished(&past) {
            return Ok((past, None));
        }
        let lease = self.lock(id, options.break_lock, past.records.last()).await?;
        Ok((self.reread_history(id, &lease).await?, lease))
    }

    /// The same for those who write nothing: the lock is only looked at.
    pub(crate) async fn history_without_lock(&self, id: &ReleaseId) -> Result<History> {
        let past = self.history_of(id).await?;
        self.with_lock_state(id, past).await
    }

    async fn with_lock_state(&self, id: &ReleaseId, past: History) -> Result<History> {
        if !is_unfinished(&past) {
            return Ok(past);
        }
        match self.lease_state(id).await? {
            LeaseState::Free => Ok(History { free: true, ..observe::records(self.store(), id).await? }),
            LeaseState::Held(holder) => Ok(History { holder: Some(holder), ..past }),
            LeaseState::OutOfReach => Ok(past),
        }
    }

    /// The past of a release read once more, with its lock as it is held.
    pub(crate) async fn reread_history(
        &self,
        id: &ReleaseId,
        lease: &Option<ReleaseLease>,
    ) -> Result<History> {
        Ok(History { free: lease.is_some(), ..observe::records(self.store(), id).await? })
    }

    /// Whether the newest record is still the one that was read. Where there was none, making the first one will tell.
    pub(crate) async fn is_current(&self, id: &ReleaseId, past: &History) -> Result<bool> {
        match past.records.last() {
            Some(read) => self.is_newest(id, read).await,
            None => Ok(past.history.is_empty()),
        }
    }

    /// Whether a record is the newest of its release, and as it was read.
    ///
    /// Asked by names: right after a write, as that of a lock, the API server answers a list only when its cache has come as
    /// far, which takes up to a tenth of a second.
    pub(crate) async fn is_newest(&self, id: &ReleaseId, read: &StoredRecord) -> Result<bool> {
        let store = self.store();
        let own = read.record.version;
        let (now, next) = futures::join!(store.revision(id, own), store.revision(id, own + 1));
        Ok(now?.is_some_and(|now| now.resource_version == read.resource_version) && next?.is_none())
    }
}

/// Whether a process of ours left something unfinished, or is at it.
fn is_unfinished(past: &History) -> bool {
    past.records.last().is_some_and(|newest| {
        let status = newest.record.info.status;
        let open = status.is_pending() || status == ReleaseStatus::Uninstalling;
        open && !newest.record.extension.holder.is_empty()
    }) || past.has_two_deployed()
}
