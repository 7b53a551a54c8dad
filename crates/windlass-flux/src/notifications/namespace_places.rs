//! Places of what runs or waits: one namespace has a part of all, so that it leaves some to the others.
//!
//! Owns the counts alone. Does not know what a place is for.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::error::FluxError;
use windlass_base::cel_expression::off_runtime;
use windlass_base::namespace_semaphores::NamespaceSemaphores;

/// The unit in which bytes are counted.
const UNIT: usize = 1 << 10;

/// Places of all namespaces.
#[derive(Debug)]
pub(super) struct NamespacePlaces {
    all: Arc<Semaphore>,
    of_namespace: NamespaceSemaphores,
}

/// Places that are taken until this is dropped.
#[derive(Debug)]
pub(super) struct TakenPlaces {
    /// Those of all are free before those of the namespace are.
    _permits: [OwnedSemaphorePermit; 2],
}

/// Whose places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// Those of the namespace.
    OfNamespace,
    /// Those of all.
    OfAll,
}

impl NamespacePlaces {
    /// `all`: the places there are. `of_namespace`: those of one namespace.
    pub(super) fn new(all: usize, of_namespace: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(all)), of_namespace: NamespaceSemaphores::new(of_namespace) }
    }

    /// Takes so many places, if they are free now.
    pub(super) fn try_take(&self, namespace: &str, count: u32) -> Result<TakenPlaces, NoPlace> {
        let own = self.of_namespace.of(namespace).try_acquire_many_owned(count);
        let own = own.map_err(|_| NoPlace::OfNamespace)?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(count).map_err(|_| NoPlace::OfAll)?;
        Ok(TakenPlaces { _permits: [all, own] })
    }

    /// Waits for a place, first for one of the namespace: its other work does not wait before that of others.
    async fn take(&self, namespace: &str) -> Result<TakenPlaces, FluxError> {
        let closed = |_| FluxError::from("the process stops");
        let own = self.of_namespace.of(namespace).acquire_owned().await.map_err(closed)?;
        let all = Arc::clone(&self.all).acquire_owned().await.map_err(closed)?;
        Ok(TakenPlaces { _permits: [all, own] })
    }

    /// Does work that computes, off the runtime and in a place. The place is free when the work ends, also where nobody waits for it any
    /// more.
    ///
    /// # Errors
    /// Those of the work.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        namespace: &str,
        work: impl FnOnce() -> Result<T, FluxError> + Send + 'static,
    ) -> Result<T, FluxError> {
        let place = self.take(namespace).await?;
        off_runtime(move || {
            let done = work();
            drop(place);
            done
        })
        .await
    }
}

/// Places of what waits: its number and its bytes are bounded.
#[derive(Debug)]
pub(super) struct WaitingPlaces {
    number: NamespacePlaces,
    units: NamespacePlaces,
}

/// What waits, until it is dropped.
#[derive(Debug)]
pub(super) struct WaitingPlace {
    _places: [TakenPlaces; 2],
}

impl WaitingPlaces {
    /// The most that wait, and their bytes: of all, and of one namespace.
    pub(super) fn new(number: [usize; 2], bytes: [usize; 2]) -> Self {
        let places = |[all, of_namespace]: [usize; 2]| NamespacePlaces::new(all, of_namespace);
        Self { number: places(number), units: places(bytes.map(|bytes| bytes / UNIT)) }
    }

    /// A place for something of so many bytes; else why there is none.
    pub(super) fn take(&self, namespace: &str, bytes: usize) -> Result<WaitingPlace, &'static str> {
        let number = self.number.try_take(namespace, 1).map_err(|whose| match whose {
            NoPlace::OfNamespace => "too many of its namespace wait",
            NoPlace::OfAll => "too many wait",
        })?;
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let units = self.units.try_take(namespace, units).map_err(|whose| match whose {
            NoPlace::OfNamespace => "too many bytes of its namespace wait",
            NoPlace::OfAll => "too many bytes wait",
        })?;
        Ok(WaitingPlace { _places: [number, units] })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn bytes_count_as_well_as_the_number() {
        let places = WaitingPlaces::new([8, 4], [64 * UNIT, 32 * UNIT]);
        let first = places.take("a", 31 * UNIT).unwrap();
        assert_eq!(places.take("a", 2 * UNIT).unwrap_err(), "too many bytes of its namespace wait");
        let small: Vec<_> = (0..3).map(|_| places.take("a", 1)).take_while(Result::is_ok).collect();
        assert_eq!(small.len(), 1, "a part of a unit is a whole one");
        let other = places.take("b", 32 * UNIT).unwrap();
        assert_eq!(places.take("c", 1).unwrap_err(), "too many bytes wait");
        assert_eq!(places.take("c", usize::MAX).unwrap_err(), "too many bytes of its namespace wait");
        drop((first, small, other));
        assert!(places.take("c", 32 * UNIT).is_ok(), "what was refused has left nothing");
        let held = ["a", "a", "a", "a", "b", "b", "b", "b"].map(|own| places.take(own, 1).unwrap());
        assert_eq!(places.take("a", 1).unwrap_err(), "too many of its namespace wait");
        assert_eq!(places.take("c", 1).unwrap_err(), "too many wait");
        drop(held);
    }

    #[tokio::test]
    async fn work_of_one_namespace_does_not_stop_that_of_others() {
        let places = NamespacePlaces::new(2, 1);
        let (end, ended) = mpsc::channel::<()>();
        let work = move || {
            ended.recv().unwrap_err();
            Ok(())
        };
        // The first one is given up while it runs: it keeps its place.
        assert!(places.run("a", work).now_or_never().is_none());
        assert_eq!(places.all.available_permits(), 1);
        assert!(places.run("a", || Ok(())).now_or_never().is_none(), "the place of the namespace is taken");
        assert_eq!(places.run("b", || Ok(1)).await, Ok(1));
        drop(end);
        assert_eq!(places.run("a", || Ok(2)).await, Ok(2));
        assert_eq!(places.all.available_permits(), 2);
    }
}
