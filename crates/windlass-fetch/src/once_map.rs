//! Values by key, each made once, however many callers want it at the same time.
//!
//! No lock is held while a value is made: callers of the same key wait for it, others go on. A failure is not kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// Values by key.
#[derive(Debug)]
pub struct OnceMap<K, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K, V> Default for OnceMap<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, V: Clone> OnceMap<K, V> {
    /// The value of a key; `make` makes it, if no caller has yet.
    ///
    /// # Errors
    /// Those of `make`.
    pub async fn get<E>(&self, key: K, make: impl Future<Output = Result<V, E>>) -> Result<V, E> {
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(key).or_default())
        };
        cell.get_or_try_init(|| make).await.cloned()
    }

    /// The keys of the values that were made.
    #[must_use]
    pub fn keys(&self) -> Vec<K> {
        let cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.iter().filter(|(_, cell)| cell.initialized()).map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_value_is_made_once_and_a_failure_is_not_kept() {
        let (map, made) = (OnceMap::default(), Cell::new(0));
        let make = async |value: Result<u8, ()>| {
            made.set(made.get() + 1);
            tokio::task::yield_now().await;
            value
        };
        assert_eq!(map.get("a", make(Err(()))).await, Err(()));
        assert!(map.keys().is_empty());
        let (first, second) = tokio::join!(map.get("a", make(Ok(1))), map.get("a", make(Ok(2))));
        assert_eq!((first, second, made.get()), (Ok(1), Ok(1), 2));
        // A caller that makes a value does not keep another key's from being made.
        let other = map.get("b", async { map.get("c", make(Ok(3))).await });
        assert_eq!((other.await, map.keys().len()), (Ok(3), 3));
    }
}
