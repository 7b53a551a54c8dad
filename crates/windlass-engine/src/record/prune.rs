//! Which old revisions are pruned. Pure.

use crate::record::ReleaseStatus;

/// A revision, as its Secret's labels show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    pub revision: u64,
    pub status: ReleaseStatus,
    pub resource_version: String,
}

/// Revisions to delete, oldest first, so that with one more there are at most `max`. Never the latest deployed one;
/// `max` 0 keeps all. Mirrors Helm's `removeLeastRecent`.
pub fn to_prune(history: &[Revision], max: usize) -> Vec<u64> {
    if max == 0 {
        return Vec::new();
    }
    let surplus = (history.len() + 1).saturating_sub(max);
    let deployed = history.iter().filter(|r| r.status == ReleaseStatus::Deployed).map(|r| r.revision).max();
    let mut revisions: Vec<u64> =
        history.iter().map(|r| r.revision).filter(|r| Some(*r) != deployed).collect();
    revisions.sort_unstable();
    revisions.truncate(surplus);
    revisions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prunes_oldest_first_but_never_the_deployed() {
        let history = |states: &[(u64, ReleaseStatus)]| -> Vec<Revision> {
            states
                .iter()
                .map(|&(revision, status)| Revision { revision, status, resource_version: String::new() })
                .collect()
        };
        use ReleaseStatus::{Deployed, Failed, Superseded};
        let cases = [
            (history(&[(1, Superseded), (2, Superseded), (3, Deployed)]), 3, vec![1]),
            (history(&[(3, Deployed), (1, Superseded), (2, Superseded)]), 2, vec![1, 2]),
            (history(&[(1, Deployed), (2, Failed), (3, Failed)]), 2, vec![2, 3]),
            (history(&[(1, Deployed)]), 1, vec![]),
            (history(&[(1, Deployed), (2, Deployed)]), 2, vec![1]),
            (history(&[(1, Superseded), (2, Deployed)]), 0, vec![]),
            (history(&[]), 10, vec![]),
        ];
        for (history, max, expected) in cases {
            assert_eq!(to_prune(&history, max), expected, "{history:?} max {max}");
        }
    }
}
