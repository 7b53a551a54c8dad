//! Upgrades that failed: how often, and when to stop.
//!
//! Owns the bound of retries. A request that the API server refuses makes a revision and its rollback each time: after a few of them only
//! another digest (chart, values, capabilities) or the user's request makes one more.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use windlass_controller::{MISSING_RIGHTS, ReconcileError};
use windlass_engine::Disposition;

/// Attempts with one digest.
const MAX_ATTEMPTS: u32 = 3;

/// An attempt that failed, as a status has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FailedAttempt {
    /// Digest of chart, values and capabilities.
    pub(crate) digest: String,
    /// How often it failed.
    pub(crate) failures: u32,
    /// No retry can succeed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_final: bool,
    /// It failed for rights that the account has not: it is tried again once they are there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lacks_rights: bool,
    /// The annotation by which the user asked for this attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) requested_at: String,
}

impl FailedAttempt {
    /// Whether this one ends the retries of its digest.
    pub(crate) fn stalls(&self) -> bool {
        self.is_final || self.failures >= MAX_ATTEMPTS
    }

    /// Whether it stands in the way of another attempt with a digest.
    pub(crate) fn blocks(&self, digest: &str, requested_at: &str) -> bool {
        self.stalls() && self.digest == digest && self.requested_at == requested_at
    }
}

/// Whether an error counts: a revision was made of it. What came before the first write is retried without bound, at growing intervals.
fn counts(error: &ReconcileError) -> bool {
    match error {
        ReconcileError::Engine(error) => error.failed_a_revision() && error.missing_kinds().is_empty(),
        _ => false,
    }
}

/// The failed attempts of the objects of a kind. A status may lose them, where the kind's schema does not know the field.
#[derive(Debug, Default)]
pub(crate) struct FailedAttempts(Mutex<BTreeMap<String, FailedAttempt>>);

impl FailedAttempts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FailedAttempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of an object. `recorded`: what its status says, which counts if this process knows nothing.
    pub(crate) fn of(&self, key: &str, recorded: Option<&FailedAttempt>) -> Option<FailedAttempt> {
        self.lock().get(key).cloned().or_else(|| recorded.cloned())
    }

    /// Notes a failure, and returns what is known of the object then.
    pub(crate) fn note(
        &self,
        key: &str,
        recorded: Option<&FailedAttempt>,
        (digest, requested_at): (&str, &str),
        error: &ReconcileError,
    ) -> Option<FailedAttempt> {
        let lacks_rights = error.reason() == MISSING_RIGHTS;
        if !lacks_rights && !counts(error) {
            return self.of(key, recorded);
        }
        let before = self.of(key, recorded);
        let same = before.filter(|known| known.digest == digest && known.requested_at == requested_at);
        let attempt = FailedAttempt {
            digest: digest.to_owned(),
            failures: same.map_or(0, |known| known.failures).saturating_add(u32::from(!lacks_rights)),
            is_final: error.disposition() == Disposition::Stall,
            lacks_rights,
            requested_at: requested_at.to_owned(),
        };
        self.lock().insert(key.to_owned(), attempt.clone());
        Some(attempt)
    }

    /// Forgets those of an object: it was deployed, or is gone.
    pub(crate) fn clear(&self, key: &str) {
        self.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::EngineError;

    fn refused() -> ReconcileError {
        ReconcileError::Engine(EngineError::NotReady { objects: Vec::new(), timed_out: true })
    }

    #[test]
    fn retries_of_a_digest_end() {
        let attempts = FailedAttempts::default();
        for failures in 1..=MAX_ATTEMPTS {
            let attempt = attempts.note("a/b", None, ("1", ""), &refused()).unwrap();
            assert_eq!((attempt.failures, attempt.stalls()), (failures, failures == MAX_ATTEMPTS));
        }
        let attempt = attempts.of("a/b", None).unwrap();
        for (digest, requested, blocks) in [("1", "", true), ("2", "", false), ("1", "now", false)] {
            assert_eq!(attempt.blocks(digest, requested), blocks, "{digest} {requested}");
        }
        assert_eq!(attempts.note("a/b", None, ("2", ""), &refused()).unwrap().failures, 1);
        attempts.clear("a/b");
        // A process that was restarted goes on with what the status says.
        let recorded = FailedAttempt { digest: "3".to_owned(), failures: 2, ..FailedAttempt::default() };
        assert!(attempts.note("a/b", Some(&recorded), ("3", ""), &refused()).unwrap().stalls());
        // Whoever may write the status writes any number.
        let recorded =
            FailedAttempt { digest: "4".to_owned(), failures: u32::MAX, ..FailedAttempt::default() };
        assert_eq!(attempts.note("c/d", Some(&recorded), ("4", ""), &refused()).unwrap().failures, u32::MAX);
    }

    #[test]
    fn missing_rights_end_no_retries() {
        let attempts = FailedAttempts::default();
        let error = ReconcileError::Reason {
            reason: MISSING_RIGHTS,
            text: "no".to_owned(),
            disposition: Disposition::Retry,
        };
        for _ in 0..=MAX_ATTEMPTS {
            let attempt = attempts.note("a/b", None, ("1", ""), &error).unwrap();
            assert_eq!((attempt.lacks_rights, attempt.stalls()), (true, false));
        }
        assert!(!attempts.note("a/b", None, ("1", ""), &refused()).unwrap().lacks_rights);
    }

    #[test]
    fn what_made_no_revision_does_not_count() {
        let attempts = FailedAttempts::default();
        for error in [ReconcileError::Chart("x".to_owned()), ReconcileError::Engine(EngineError::InProgress)]
        {
            assert_eq!(attempts.note("a/b", None, ("1", ""), &error), None, "{error}");
        }
    }
}
