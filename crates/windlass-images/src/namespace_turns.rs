//! Which groups may be in the queue: a few of each namespace, so that none takes all places. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The groups of one namespace.
#[derive(Default)]
struct Turns {
    /// Those in the queue, or running.
    admitted: BTreeSet<String>,
    /// Those that come after them, in this order.
    waiting: VecDeque<String>,
}

/// The turns of all namespaces.
pub(crate) struct NamespaceTurns {
    limit: usize,
    turns: BTreeMap<String, Turns>,
}

impl NamespaceTurns {
    /// `limit`: the most groups of a namespace in the queue.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, turns: BTreeMap::new() }
    }

    /// Asks for a group. Returns whether it goes into the queue now; else it waits for its turn.
    pub(crate) fn request(&mut self, namespace: &str, group: &str) -> bool {
        let turns = self.turns.entry(namespace.to_owned()).or_default();
        if turns.admitted.contains(group) {
            return true;
        }
        if turns.admitted.len() < self.limit {
            turns.waiting.retain(|waiting| waiting != group);
            return turns.admitted.insert(group.to_owned());
        }
        if !turns.waiting.iter().any(|waiting| waiting == group) {
            turns.waiting.push_back(group.to_owned());
        }
        false
    }

    /// Notes that a group is not in the queue any more. Returns the one that goes into it now.
    pub(crate) fn leave(&mut self, namespace: &str, group: &str) -> Option<String> {
        let turns = self.turns.get_mut(namespace)?;
        turns.waiting.retain(|waiting| waiting != group);
        let next = turns.admitted.remove(group).then(|| turns.waiting.pop_front()).flatten();
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
        let requested = ["a", "b", "c", "d", "c", "a"].map(|group| turns.request("n", group));
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
}
