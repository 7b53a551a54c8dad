//! Places of what the process does or keeps a bounded number of: one namespace has a part of all, so that it leaves some to the others.
//!
//! Owns the counts alone. Does not know what a place is for.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cel_expression::off_runtime;
use crate::namespace_semaphores::NamespaceSemaphores;

/// Places of all namespaces.
#[derive(Debug)]
pub struct NamespacePlaces {
    all: Arc<Semaphore>,
    of_namespace: NamespaceSemaphores,
}

/// Places that are taken until this is dropped.
#[derive(Debug)]
pub struct TakenPlaces {
    /// Those of all are free before those of the namespace are.
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// Whose places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// Those of the namespace.
    OfNamespace,
    /// Those of all.
    OfAll,
}

impl NamespacePlaces {
    /// `all`: the places there are. `of_namespace`: those of one namespace.
    #[must_use]
    pub fn new(all: usize, of_namespace: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), of_namespace: NamespaceSemaphores::new(of_namespace) }
    }

    /// Takes so many places, if they are free now.
    ///
    /// # Errors
    /// Whose places are taken.
    pub fn try_take(&self, namespace: &str, count: u32) -> Result<TakenPlaces, NoPlace> {
        let own = self.of_namespace.of(namespace).try_acquire_many_owned(count);
        let own = own.map_err(|_| NoPlace::OfNamespace)?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(count).map_err(|_| NoPlace::OfAll)?;
        Ok(TakenPlaces { _permits: [Some(all), Some(own)] })
    }

    /// Waits for a place, first for one of the namespace: its other work does not wait before that of others.
    pub async fn take(&self, namespace: &str) -> TakenPlaces {
        // The semaphores are never closed.
        let own = self.of_namespace.of(namespace).acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        TakenPlaces { _permits: [all, own] }
    }

    /// Does work that computes, off the runtime and in a place. The place is free when the work ends, also where nobody waits for it any
    /// more.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn run<T: Send + 'static, E: From<String> + Send + 'static>(
        &self,
        namespace: &str,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let place = self.take(namespace).await;
        off_runtime(move || {
            let done = work();
            drop(place);
            done
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn work_of_one_namespace_does_not_stop_that_of_others() {
        let places = NamespacePlaces::new(2, 1);
        let (end, ended) = mpsc::channel::<()>();
        let work = move || {
            ended.recv().unwrap_err();
            Ok::<_, String>(())
        };
        // The first one is given up while it runs: it keeps its place.
        assert!(places.run("a", work).now_or_never().is_none());
        assert_eq!(places.all.available_permits(), 1);
        assert!(
            places.run("a", || Ok::<_, String>(())).now_or_never().is_none(),
            "the place of the namespace is taken"
        );
        assert_eq!(places.run("b", || Ok::<_, String>(1)).await, Ok(1));
        drop(end);
        assert_eq!(places.run("a", || Ok::<_, String>(2)).await, Ok(2));
        assert_eq!(places.all.available_permits(), 2);
    }
}
