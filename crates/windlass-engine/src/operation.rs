//! One operation on a release, from its begin to its end.
//!
//! Owns the guard against other operations of this process, the lock, the history and the deadline, and when they begin and end. Does
//! not know what is done in between.

use crate::{
    context::Context,
    deadline::Deadline,
    error::{EngineError, Result},
    lock::release_lease::{Lock, LockPlace},
    observe::release_history::{self, History},
    record::StoredRecord,
    request::{ReleaseId, ReleaseOptions},
    state::engine_state::OperationGuard,
};
use futures::future::BoxFuture;
use std::time::Duration;

/// Attempts of an operation that others overtake.
const TRIES: u32 = 4;

/// A running operation.
pub(crate) struct Operation<'a> {
    pub(crate) context: &'a Context,
    pub(crate) id: &'a ReleaseId,
    /// The history as it was read last.
    pub(crate) history: History,
    pub(crate) lock: Lock,
    pub(crate) deadline: Deadline,
    guard: OperationGuard,
    observed: bool,
}

/// Runs an operation: begins it, repeats its work by a new history if another process overtook it, and ends it. `limit`: its deadline,
/// unless the context has one.
pub(crate) async fn run<'a, T>(
    context: &'a Context,
    id: &'a ReleaseId,
    limit: Option<Duration>,
    mut work: impl for<'o> FnMut(&'o mut Operation<'a>) -> BoxFuture<'o, Result<T>>,
) -> Result<T> {
    let deadline = context.deadline.bounded(limit);
    let guard = begin(context, id, &deadline).await?;
    let history = History::default();
    let mut operation =
        Operation { context, id, history, lock: Lock::Open, deadline, guard, observed: false };
    let mut tries = 0;
    let result = loop {
        tries += 1;
        match work(&mut operation).await {
            Err(EngineError::Overtaken) if tries < TRIES => {}
            result => break result,
        }
    };
    operation.end().await;
    result
}

/// Admits one operation at a time on a release. While another one runs, the place among the workers is free: it may run for as
/// long as its objects take to become ready.
async fn begin(context: &Context, id: &ReleaseId, deadline: &Deadline) -> Result<OperationGuard> {
    let key = context.key(id);
    if let Some(guard) = context.state.try_begin_operation(&key) {
        return Ok(guard);
    }
    let progress = context.progress_of(id);
    tokio::select! {
        guard = progress.wait(context.state.begin_operation(&key)) => Ok(guard),
        error = deadline.given_up() => Err(error),
    }
}

impl Operation<'_> {
    /// Whether its history was not read yet.
    pub(crate) fn is_new(&self) -> bool {
        !self.observed
    }

    /// The empty history, if the caches show that there are no records, and this process has not operated on the release lately.
    pub(crate) fn empty_history(&self) -> Option<History> {
        let empty = self.guard.first && release_history::shows_no_records(self.context, self.id);
        empty.then(History::default)
    }

    /// Reads the history unless it is given. If one of our processes left a revision unfinished, the lock is acquired first: then no
    /// operation runs. A dry run only reads the lock. The second time, the history is read under the lock as it is.
    pub(crate) async fn observe(&mut self, options: &ReleaseOptions, given: Option<History>) -> Result<()> {
        if std::mem::replace(&mut self.observed, true) {
            return self.observe_newest().await;
        }
        let deadline = self.deadline.clone();
        tokio::select! {
            observed = self.observe_first(options, given) => observed,
            error = deadline.given_up() => Err(error),
        }
    }

    async fn observe_first(&mut self, options: &ReleaseOptions, given: Option<History>) -> Result<()> {
        self.history = match given {
            Some(history) => history,
            None => release_history::read(self.context, self.id).await?,
        };
        if options.dry_run {
            let history = std::mem::take(&mut self.history);
            self.history = release_history::with_lock_state(self.context, self.id, history).await?;
        } else if self.history.is_unfinished() {
            let history = std::mem::take(&mut self.history);
            self.acquire_lock(options.revisions.break_lock, history.records.last()).await?;
            self.observe_newest().await?;
        }
        Ok(())
    }

    /// Reads the newest history.
    pub(crate) async fn observe_newest(&mut self) -> Result<()> {
        let history = release_history::records(self.context.store(), self.id).await?;
        self.history = History { free: self.lock.is_held(), ..history };
        Ok(())
    }

    /// Acquires the lock, if it is open. The newest record will own it.
    pub(crate) async fn acquire_lock(
        &mut self,
        break_lock: bool,
        newest: Option<&StoredRecord>,
    ) -> Result<()> {
        if matches!(self.lock, Lock::Open) {
            self.lock = LockPlace::new(self.context, self.id).acquire(break_lock, newest).await?;
        }
        Ok(())
    }

    /// Acquires the lock beside other work, if it is open: returns it, and whether the newest record is as it was read. Then no holder of
    /// the lock has changed the release since.
    pub(crate) async fn lock_as_read(&self, break_lock: bool) -> Result<(Option<Lock>, Result<bool>)> {
        let lock = match self.lock {
            Lock::Open => {
                let place = LockPlace::new(self.context, self.id);
                Some(place.acquire(break_lock, self.history.records.last()).await?)
            }
            Lock::Held(_) | Lock::PendingRecord => None,
        };
        Ok((lock, self.history.is_current(self.context.store(), self.id).await))
    }

    /// Keeps a lock that was acquired beside other work; returns whether the release is as it was read.
    pub(crate) fn take_lock(&mut self, locked: Result<(Option<Lock>, Result<bool>)>) -> Result<bool> {
        let (lock, as_read) = locked?;
        self.lock = lock.unwrap_or_else(|| std::mem::take(&mut self.lock));
        as_read
    }

    /// Bounds work by the deadline, and by the loss of the lock.
    pub(crate) async fn bounded<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            result = work => result,
            error = self.deadline.given_up() => Err(error),
            () = self.lock.lost() => Err(EngineError::LockLost),
        }
    }

    /// Releases the lock and admits the next operation. A long-running engine does so in the background: only the next operation on
    /// this release waits for it.
    async fn end(self) {
        let Self { context, lock, guard, .. } = self;
        let Lock::Held(lease) = lock else { return };
        let work = async move {
            lease.release().await;
            drop(guard);
        };
        if context.options.watch { context.state.spawn_background(work) } else { work.await }
    }
}
