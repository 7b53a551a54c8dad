//! Conditions of a HelmRelease, and the summary that is its readiness. Pure.

use flux_api::common::StatusCondition;
use flux_api::helm_release_status::HelmReleaseStatus;
use flux_api::status_conditions as conditions;
pub(super) use flux_api::status_conditions::{READY, RECONCILING, STALLED, Truth};

pub(super) const RELEASED: &str = "Released";
pub(super) const TEST_SUCCESS: &str = "TestSuccess";
pub(super) const REMEDIATED: &str = "Remediated";
pub(super) const DRIFTED: &str = "Drifted";

/// A status whose conditions are set for a generation, as of now.
pub(super) struct Conditions<'s> {
    pub(super) status: &'s mut HelmReleaseStatus,
    pub(super) generation: i64,
}

impl Conditions<'_> {
    pub(super) fn get(&self, kind: &str) -> Option<&StatusCondition> {
        conditions::get(&self.status.conditions, kind)
    }

    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| condition.status == "True")
    }

    pub(super) fn set(&mut self, kind: &str, status: Truth, reason: &str, message: &str) {
        let all = &mut self.status.conditions;
        crate::condition_setter::set(all, kind, status, (reason, message), self.generation);
    }

    pub(super) fn delete(&mut self, kind: &str) {
        conditions::delete(&mut self.status.conditions, kind);
    }

    /// Composes Ready of Remediated, TestSuccess and Released: the one of the newest generation counts, in that order.
    pub(super) fn summarize(&mut self, tests: bool, ignore_tests: bool) {
        if !tests {
            self.delete(TEST_SUCCESS);
        }
        let kinds: &[&str] = if tests && !ignore_tests {
            &[REMEDIATED, TEST_SUCCESS, RELEASED]
        } else {
            &[REMEDIATED, RELEASED]
        };
        let found = kinds.iter().filter_map(|kind| self.get(kind)).rev();
        // The last of equals: the list is reversed.
        let Some(first) = found.max_by_key(|condition| condition.observed_generation).cloned() else {
            return;
        };
        let status = match first.status.as_str() {
            "True" if first.condition_type != REMEDIATED => Truth::True,
            "Unknown" if first.condition_type != REMEDIATED => Truth::Unknown,
            _ => Truth::False,
        };
        if status == Truth::True {
            self.delete(STALLED);
        }
        self.set(READY, status, &first.reason, &first.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(set: &[(&str, Truth, i64)], tests: bool, ignore: bool) -> (String, String) {
        let mut status = HelmReleaseStatus::default();
        let mut conditions = Conditions { status: &mut status, generation: 0 };
        for (kind, truth, generation) in set {
            conditions.generation = *generation;
            conditions.set(kind, *truth, &format!("{kind}Reason"), "");
        }
        conditions.summarize(tests, ignore);
        let ready = conditions.get(READY).cloned().unwrap_or_default();
        (ready.status, ready.reason)
    }

    #[test]
    fn readiness_is_the_newest_result() {
        use Truth::{False, True, Unknown};
        for (set, tests, ignore, expected) in [
            (&[(RELEASED, True, 1)][..], false, false, ("True", "ReleasedReason")),
            (&[(RELEASED, True, 1), (TEST_SUCCESS, False, 1)], true, false, ("False", "TestSuccessReason")),
            (&[(RELEASED, True, 1), (TEST_SUCCESS, False, 1)], true, true, ("True", "ReleasedReason")),
            (
                &[(RELEASED, True, 1), (TEST_SUCCESS, Unknown, 1)],
                true,
                false,
                ("Unknown", "TestSuccessReason"),
            ),
            (&[(RELEASED, False, 1), (REMEDIATED, True, 1)], false, false, ("False", "RemediatedReason")),
            (&[(REMEDIATED, True, 1), (RELEASED, True, 2)], false, false, ("True", "ReleasedReason")),
            (&[(DRIFTED, True, 1)], false, false, ("", "")),
        ] {
            let found = ready(set, tests, ignore);
            assert_eq!((found.0.as_str(), found.1.as_str()), expected, "{set:?}");
        }
    }
}
