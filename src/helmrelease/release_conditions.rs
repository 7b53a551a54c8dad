//! Conditions of a HelmRelease, and the summary that is its readiness. Pure.
//!
//! Not [`crate::controller::set_conditions`]: Flux's transition times also change with reason and message, and some of its conditions
//! exclude each other.

use crate::flux_api::common::StatusCondition;
use crate::flux_api::helm_release_status::HelmReleaseStatus;
use crate::redact;

pub(super) const READY: &str = "Ready";
pub(super) const RELEASED: &str = "Released";
pub(super) const TEST_SUCCESS: &str = "TestSuccess";
pub(super) const REMEDIATED: &str = "Remediated";
pub(super) const DRIFTED: &str = "Drifted";
pub(super) const RECONCILING: &str = "Reconciling";
pub(super) const STALLED: &str = "Stalled";

/// Longest message, in characters.
const MAX_MESSAGE: usize = 20_000;

/// The state of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A status whose conditions are set for a generation, at a time in RFC 3339.
pub(super) struct Conditions<'s> {
    pub(super) status: &'s mut HelmReleaseStatus,
    pub(super) generation: i64,
    pub(super) now: String,
}

impl Conditions<'_> {
    pub(super) fn get(&self, kind: &str) -> Option<&StatusCondition> {
        self.status.conditions.iter().find(|condition| condition.condition_type == kind)
    }

    pub(super) fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| condition.status == "True")
    }

    /// Sets a condition. Its transition time changes with its status, reason or message, as fluxcd/pkg has it. Reconciling and
    /// Stalled exclude each other.
    pub(super) fn set(&mut self, kind: &str, status: Truth, reason: &str, message: &str) {
        let message: String = redact::process().mask(message).chars().take(MAX_MESSAGE).collect();
        let mut condition = StatusCondition {
            condition_type: kind.to_owned(),
            status: status.name().to_owned(),
            observed_generation: self.generation,
            last_transition_time: self.now.clone(),
            reason: reason.to_owned(),
            message,
        };
        if let Some(old) = self.get(kind)
            && (&old.status, &old.reason, &old.message)
                == (&condition.status, &condition.reason, &condition.message)
        {
            condition.last_transition_time.clone_from(&old.last_transition_time);
        }
        self.delete(kind);
        self.status.conditions.push(condition);
        match kind {
            RECONCILING => self.delete(STALLED),
            STALLED => self.delete(RECONCILING),
            _ => {}
        }
        // Ready first, for people.
        let order = |c: &StatusCondition| (c.condition_type != READY, c.condition_type.clone());
        self.status.conditions.sort_by_key(order);
    }

    pub(super) fn delete(&mut self, kind: &str) {
        self.status.conditions.retain(|condition| condition.condition_type != kind);
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
        let mut conditions = Conditions { status: &mut status, generation: 0, now: "T".to_owned() };
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

    #[test]
    fn transition_times_change_with_the_content() {
        let mut status = HelmReleaseStatus::default();
        let mut set = |now: &str, reason| {
            let mut conditions = Conditions { status: &mut status, generation: 1, now: now.to_owned() };
            conditions.set(STALLED, Truth::True, reason, "m");
            conditions.status.conditions[0].last_transition_time.clone()
        };
        assert_eq!((set("1", "A"), set("2", "A"), set("3", "B")), ("1".into(), "1".into(), "3".into()));
        let mut conditions = Conditions { status: &mut status, generation: 1, now: "4".to_owned() };
        conditions.set(RECONCILING, Truth::True, "Progressing", "");
        assert!(conditions.get(STALLED).is_none());
    }
}
