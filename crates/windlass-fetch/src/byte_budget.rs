//! The bytes that one run may take, over all that it fetches, unpacks or keeps.
//!
//! Owns the count, which threads share. What is counted, and what a run is, is the caller's.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number of bytes, of which parts are taken.
#[derive(Debug)]
pub struct ByteBudget {
    total: u64,
    left: AtomicU64,
}

/// A budget has fewer bytes left than were to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run may take {} MiB in all", .0 >> 20)]
pub struct BudgetExceeded(u64);

impl ByteBudget {
    /// A budget of `total` bytes.
    #[must_use]
    pub const fn new(total: u64) -> Self {
        Self { total, left: AtomicU64::new(total) }
    }

    /// The bytes that are left, and at most `limit`.
    #[must_use]
    pub fn at_most(&self, limit: u64) -> u64 {
        self.left.load(Ordering::Relaxed).min(limit)
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// Fewer are left. Nothing is taken then.
    pub fn take(&self, bytes: u64) -> Result<(), BudgetExceeded> {
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| BudgetExceeded(self.total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let budget = ByteBudget::new(3 << 20);
        assert_eq!(budget.take(2 << 20), Ok(()));
        assert_eq!((budget.at_most(5), budget.at_most(u64::MAX)), (5, 1 << 20));
        let error = budget.take((1 << 20) + 1).unwrap_err();
        assert_eq!(error.to_string(), "a run may take 3 MiB in all");
        assert_eq!((budget.take(1 << 20), budget.at_most(1)), (Ok(()), 0));
    }
}
