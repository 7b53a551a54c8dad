//! Which images are built at a time: two of all, and one of a namespace, so that none takes all places.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// Builds at a time.
const AT_ONCE: usize = 2;

/// The places.
pub(crate) struct BuildPlaces {
    all: Arc<Semaphore>,
    /// The turn of each namespace that builds or waits.
    turns: Mutex<HashMap<String, Weak<Turn<()>>>>,
}

/// A place, until it is dropped.
pub(crate) struct BuildPlace {
    _place: Option<OwnedSemaphorePermit>,
    _turn: OwnedMutexGuard<()>,
}

impl BuildPlaces {
    pub(crate) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), turns: Mutex::default() }
    }

    /// Waits for a place of a namespace.
    pub(crate) async fn acquire(&self, namespace: &str) -> BuildPlace {
        // One of each namespace waits for the places of all.
        let turn = self.turn(namespace).lock_owned().await;
        // The semaphore is never closed.
        let place = Arc::clone(&self.all).acquire_owned().await.ok();
        BuildPlace { _place: place, _turn: turn }
    }

    fn turn(&self, namespace: &str) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(namespace).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Turn::new(()));
        turns.insert(namespace.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn two_are_built_at_a_time_and_one_of_a_namespace() {
        let places = BuildPlaces::new();
        let first = places.acquire("a").await;
        // The others of the namespace wait, and leave the second place to another one.
        assert!(places.acquire("a").now_or_never().is_none());
        let second = places.acquire("b").await;
        assert!(places.acquire("c").now_or_never().is_none());
        drop(first);
        let third = places.acquire("c").await;
        assert!(places.acquire("a").now_or_never().is_none());
        drop((second, third));
        drop(places.acquire("a").await);
        assert!(places.turns.lock().unwrap().values().all(|turn| turn.strong_count() == 0));
    }
}
