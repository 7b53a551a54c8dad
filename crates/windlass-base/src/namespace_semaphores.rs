//! A semaphore for each namespace: what the process has a bounded number of, one namespace takes a part of.
//!
//! Does not know what a permit stands for, and what all namespaces have together.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Semaphores that are kept without looking for those that nobody uses.
const KEPT: usize = 64;

/// The semaphores of all namespaces. Those without permits in use are dropped in time.
#[derive(Debug)]
pub struct NamespaceSemaphores {
    /// The permits of each.
    permits: usize,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    semaphores: BTreeMap<String, Arc<Semaphore>>,
    /// The number of semaphores at which those that nobody uses are dropped.
    full: usize,
}

impl NamespaceSemaphores {
    /// `permits`: those of one namespace.
    #[must_use]
    pub fn new(permits: usize) -> Self {
        let known = Known { semaphores: BTreeMap::new(), full: KEPT };
        Self { permits, known: Mutex::new(known) }
    }

    /// The permits of one namespace.
    #[must_use]
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// The semaphore of a namespace.
    #[must_use]
    pub fn of(&self, namespace: &str) -> Arc<Semaphore> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(semaphore) = known.semaphores.get(namespace) {
            return Arc::clone(semaphore);
        }
        if known.semaphores.len() >= known.full {
            // Permits in use and their waiters hold the semaphore.
            known.semaphores.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            known.full = KEPT.max(2 * known.semaphores.len());
        }
        let semaphore = Arc::new(Semaphore::new(self.permits));
        known.semaphores.insert(namespace.to_owned(), Arc::clone(&semaphore));
        semaphore
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_its_own_permits_and_nothing_is_kept_of_those_gone() {
        let semaphores = NamespaceSemaphores::new(2);
        let held = semaphores.of("a").try_acquire_many_owned(2).unwrap();
        assert!(semaphores.of("a").try_acquire_owned().is_err());
        assert!(semaphores.of("b").try_acquire_owned().is_ok());
        (0..10_000).for_each(|n| drop(semaphores.of(&n.to_string())));
        assert!(semaphores.known.lock().unwrap().semaphores.len() <= KEPT);
        assert!(semaphores.of("a").try_acquire_owned().is_err(), "what is in use stays");
        drop(held);
        assert!(semaphores.of("a").try_acquire_owned().is_ok());
    }
}
