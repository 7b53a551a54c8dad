//! Repositories of images that something was pushed to, as webhooks say.
//!
//! Owns how many such hints are kept. A hint names no registry, and nothing is believed of it: who follows images asks its registries.

use std::collections::BTreeSet;

use super::shared_changes::SharedChanges;

/// The most hints that wait, and of them those of one namespace; the others are found by polling.
const MAX_WAITING: usize = 1000;
const MAX_OF_NAMESPACE: usize = 50;

/// A repository that was pushed to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PushedRepository {
    /// The namespace of the Receiver that was notified.
    pub origin: String,
    /// Its path in its registry, such as `team/web`.
    pub path: String,
    /// The only namespace whose workloads the hint is for.
    pub namespace: Option<String>,
}

/// The hints of a process. Clones share them.
#[derive(Clone, Default)]
pub struct PushedImages(SharedChanges<BTreeSet<PushedRepository>>);

impl PushedImages {
    /// Notes hints; those that are one too many are dropped.
    pub fn note(&self, hints: impl IntoIterator<Item = PushedRepository>) {
        let mut waiting = self.0.lock();
        for hint in hints {
            let own = waiting.iter().filter(|other| other.origin == hint.origin).count();
            if waiting.len() < MAX_WAITING && own < MAX_OF_NAMESPACE {
                waiting.insert(hint);
            }
        }
        drop(waiting);
        self.0.wake();
    }

    /// Waits for hints, and takes them. Cancel-safe; for one that waits.
    pub async fn take(&self) -> BTreeSet<PushedRepository> {
        self.0.take(|waiting| Some(std::mem::take(waiting)).filter(|taken| !taken.is_empty())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hints_are_bounded_and_taken_once() {
        let all = PushedImages::default();
        let of = |origin: usize, number: usize| PushedRepository {
            origin: format!("n{origin}"),
            path: format!("team/{number}"),
            namespace: None,
        };
        let hint = |number: usize| of(0, number);
        all.note((0..2 * MAX_OF_NAMESPACE).map(hint));
        all.note([of(1, 1), of(1, 2)]);
        assert_eq!(all.take().await.len(), MAX_OF_NAMESPACE + 2, "one namespace leaves room for others");
        all.note((0..50).flat_map(|origin| (0..50).map(move |number| of(origin, number))));
        assert_eq!(all.take().await.len(), MAX_WAITING);
        all.note([hint(1), hint(1)]);
        assert_eq!(all.take().await, BTreeSet::from([hint(1)]));
        assert!(all.0.lock().is_empty());
    }
}
