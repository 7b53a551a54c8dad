//! Uninstalls that wait until objects are gone, by the objects for which their releases were deployed.
//!
//! Owns whether two of them wait for each other: an object of a release may be one for which another release was deployed, and stay until
//! that is uninstalled. Knows no cluster and no finalizer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use windlass_cluster::ObjectKey;

/// The uninstalls of a process that wait.
#[derive(Default)]
pub(crate) struct DeletionWaits(Mutex<Waits>);

#[derive(Default)]
struct Waits {
    /// The object of each wait, and what it waits for. One object may have several releases.
    all: BTreeMap<u64, (ObjectKey, BTreeSet<ObjectKey>)>,
    next: u64,
}

/// The wait of one uninstall, until it is dropped.
pub(crate) struct DeletionWait<'w> {
    waits: &'w DeletionWaits,
    number: u64,
    object: ObjectKey,
}

impl DeletionWaits {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the wait of an object that stays until all of these are gone.
    pub(crate) fn begin(
        &self,
        object: ObjectKey,
        awaited: impl IntoIterator<Item = ObjectKey>,
    ) -> DeletionWait<'_> {
        let awaited = awaited.into_iter().collect();
        let mut waits = self.lock();
        let number = waits.next;
        waits.next += 1;
        waits.all.insert(number, (object.clone(), awaited));
        DeletionWait { waits: self, number, object }
    }
}

impl DeletionWait<'_> {
    /// Whether an object is this wait's own, or waits for that, directly or through others: neither would ever be gone.
    pub(crate) fn is_mutual(&self, awaited: &ObjectKey) -> bool {
        let waits = self.waits.lock();
        let (mut reached, mut next) = (BTreeSet::from([awaited]), vec![awaited]);
        while let Some(object) = next.pop() {
            if *object == self.object {
                return true;
            }
            let own = waits.all.values().filter(|(other, _)| other == object);
            next.extend(own.flat_map(|(_, awaited)| awaited).filter(|other| reached.insert(*other)));
        }
        false
    }
}

impl Drop for DeletionWait<'_> {
    fn drop(&mut self) {
        self.waits.lock().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::{Gvk, ObjectRef};

    fn key(name: &str) -> ObjectKey {
        ObjectRef::new(Gvk::new("example.com/v1", "Web"), Some("ns"), name).key()
    }

    #[test]
    fn waits_for_each_other_are_found() {
        let all = DeletionWaits::default();
        let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect::<Vec<_>>();
        let a = all.begin(key("a"), keys(&["b", "config"]));
        assert!(!a.is_mutual(&key("b")) && !a.is_mutual(&key("config")), "b does not wait yet");
        assert!(a.is_mutual(&key("a")), "a release with its own object");
        let b = all.begin(key("b"), keys(&["c", "d"]));
        assert!(!a.is_mutual(&key("b")) && !b.is_mutual(&key("c")));
        let c = all.begin(key("c"), keys(&["a"]));
        // Whoever asks gets the same answer.
        assert!(c.is_mutual(&key("a")) && b.is_mutual(&key("c")) && a.is_mutual(&key("b")));
        assert!(!b.is_mutual(&key("d")) && !a.is_mutual(&key("config")));
        let again = all.begin(key("c"), keys(&["e"]));
        drop(c);
        assert!(!a.is_mutual(&key("b")) && !again.is_mutual(&key("e")), "the wait for a has ended");
        let f = all.begin(key("f"), keys(&["b"]));
        let twins = all.begin(key("b"), keys(&["b"]));
        assert!(!f.is_mutual(&key("b")), "a circle of others is theirs");
        drop((b, twins));
    }
}
