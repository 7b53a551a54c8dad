//! Which keys may be in the work queue: a few of each namespace, so that none takes all places. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// The keys of one namespace.
#[derive(Default)]
struct Turns {
    /// Those in the queue, or running.
    admitted: BTreeSet<String>,
    /// Those that come after them, by the number of their request.
    waiting: BTreeMap<u64, String>,
    /// The requests of those that wait, by key.
    requests: BTreeMap<String, u64>,
    /// Requests so far.
    requested: u64,
}

impl Turns {
    fn remove_waiting(&mut self, key: &str) {
        if let Some(request) = self.requests.remove(key) {
            self.waiting.remove(&request);
        }
    }

    fn next(&mut self) -> Option<String> {
        let (_, key) = self.waiting.pop_first()?;
        self.requests.remove(&key);
        Some(key)
    }
}

/// The turns of all namespaces. A request and an end cost the logarithm of what waits.
pub struct NamespaceTurns {
    limit: usize,
    turns: BTreeMap<String, Turns>,
}

impl NamespaceTurns {
    /// `limit`: the most keys of a namespace in the queue.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, turns: BTreeMap::new() }
    }

    /// Asks for a key. Returns whether it goes into the queue now; else it waits for its turn.
    pub fn request(&mut self, namespace: &str, key: &str) -> bool {
        let turns = self.turns.entry(namespace.to_owned()).or_default();
        if turns.admitted.contains(key) {
            return true;
        }
        if turns.admitted.len() < self.limit {
            turns.remove_waiting(key);
            return turns.admitted.insert(key.to_owned());
        }
        if !turns.requests.contains_key(key) {
            turns.requested += 1;
            turns.requests.insert(key.to_owned(), turns.requested);
            turns.waiting.insert(turns.requested, key.to_owned());
        }
        false
    }

    /// Notes that a key is not in the queue any more. Returns the one that goes into it now.
    pub fn leave(&mut self, namespace: &str, key: &str) -> Option<String> {
        let turns = self.turns.get_mut(namespace)?;
        turns.remove_waiting(key);
        let next = turns.admitted.remove(key).then(|| turns.next()).flatten();
        turns.admitted.extend(next.clone());
        if turns.admitted.is_empty() {
            self.turns.remove(namespace);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_only_some_of_the_places() {
        let mut turns = NamespaceTurns::new(2);
        let requested = ["a", "b", "c", "d", "c", "a"].map(|key| turns.request("n", key));
        assert_eq!(requested, [true, true, false, false, false, true]);
        assert!(turns.request("other", "a"));
        // The next in the order of requests; one that is gone has no turn.
        assert_eq!(turns.leave("n", "d"), None);
        assert_eq!(turns.leave("n", "a").as_deref(), Some("c"));
        assert_eq!(turns.leave("n", "b"), None);
        assert_eq!(turns.leave("n", "c"), None);
        assert_eq!(turns.leave("other", "a"), None);
        assert!(turns.turns.is_empty());
    }

    #[test]
    fn many_keys_of_a_namespace_come_in_their_order() {
        let mut turns = NamespaceTurns::new(1);
        let keys: Vec<String> = (0..20_000).map(|number| format!("{}", number * 7919 % 20_011)).collect();
        for key in keys.iter().chain(&keys) {
            turns.request("n", key);
        }
        for pair in keys.windows(2) {
            assert_eq!(turns.leave("n", &pair[0]).as_ref(), Some(&pair[1]));
        }
    }
}
