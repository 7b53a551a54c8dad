//! A state that tasks of a process share, and the wait for what one of them is to do about it.
//!
//! Owns the lock and the wake-up. Knows nothing of the state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

struct Shared<S> {
    state: Mutex<S>,
    changes: watch::Sender<()>,
}

/// A state with a wake-up for one task that waits for changes. Clones share it.
pub(super) struct SharedChanges<S>(Arc<Shared<S>>);

impl<S> Clone for SharedChanges<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Default> Default for SharedChanges<S> {
    fn default() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), changes: watch::Sender::new(()) }))
    }
}

impl<S> SharedChanges<S> {
    /// The state. Who changes it calls [`Self::wake`] afterwards.
    pub(super) fn lock(&self) -> MutexGuard<'_, S> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the task that waits.
    pub(super) fn wake(&self) {
        self.0.changes.send_replace(());
    }

    /// Waits until `take` finds something in the state. Cancel-safe: nothing is taken by a call that is dropped.
    pub(super) async fn take<T>(&self, take: impl Fn(&mut S) -> Option<T>) -> T {
        let mut changes = self.0.changes.subscribe();
        loop {
            let taken = take(&mut self.lock());
            if let Some(taken) = taken {
                return taken;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
