//! The permit of one render, or of a build of a kustomization, among all of a process.
//!
//! Owns when it is held: while objects are in memory, and not during a wait for the network, so that a slow server delays one build
//! and not the renders of others.

use std::cell::RefCell;
use std::sync::Arc;

use futures::executor::block_on;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A permit.
#[derive(Debug, Default)]
pub struct RenderPermit {
    permits: Option<Arc<Semaphore>>,
    held: RefCell<Option<OwnedSemaphorePermit>>,
}

impl RenderPermit {
    /// Waits for a permit; `None`: nothing runs at the same time.
    #[must_use]
    pub fn acquire(permits: Option<Arc<Semaphore>>) -> Self {
        let permit = Self { permits, held: RefCell::default() };
        permit.take();
        permit
    }

    fn take(&self) {
        // The semaphore is never closed.
        let permit = self.permits.as_ref().and_then(|all| block_on(Arc::clone(all).acquire_owned()).ok());
        *self.held.borrow_mut() = permit;
    }

    /// Runs what waits for the network, without the permit.
    pub(super) fn without<T>(&self, wait: impl FnOnce() -> T) -> T {
        drop(self.held.take());
        let result = wait();
        self.take();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_go_on_while_a_build_waits() {
        let permits = Arc::new(Semaphore::new(1));
        let permit = RenderPermit::acquire(Some(Arc::clone(&permits)));
        assert_eq!(permits.available_permits(), 0);
        assert_eq!(permit.without(|| permits.available_permits()), 1);
        assert_eq!(permits.available_permits(), 0);
        drop(permit);
        assert_eq!(permits.available_permits(), 1);
        assert!(RenderPermit::acquire(None).without(|| true));
    }
}
