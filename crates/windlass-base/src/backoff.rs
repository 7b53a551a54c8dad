//! How long to wait before another try.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Delay after the first failure, before jitter.
pub const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Longest delay before jitter, which adds a quarter at most.
const MAX_DELAY: Duration = Duration::from_secs(LONGEST.as_secs() / 5 * 4);

/// Delay after this many failures in a row: 1 s doubling to 48 s, and up to a quarter more, so that what fails for the same
/// reason is not tried again all at once.
#[must_use]
pub fn delay(failures: u32) -> Duration {
    let base = (FIRST_DELAY * (1 << failures.saturating_sub(1).min(6))).min(MAX_DELAY);
    let chance = RandomState::new().build_hasher().finish() % 1000;
    base + base.mul_f64(chance as f64 / 4000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_failures_is_tried_at_bounded_intervals() {
        let (mut elapsed, mut tries) = (Duration::ZERO, 0);
        while elapsed < Duration::from_hours(1) {
            tries += 1;
            let delay = delay(tries);
            assert!(delay <= LONGEST, "try {tries}: {delay:?}");
            elapsed += delay;
        }
        // Neither forgotten nor overrun: one try in 48 to 60 seconds.
        assert!((60..=85).contains(&tries), "{tries}");
        assert!(delay(u32::MAX) <= LONGEST);
    }

    #[test]
    fn delays_double_up_to_a_bound_with_jitter() {
        for (failures, seconds) in [(0, 1), (1, 1), (2, 2), (3, 4), (5, 16), (6, 32), (7, 48), (60, 48)] {
            let (least, most) = (Duration::from_secs(seconds), Duration::from_millis(1250 * seconds));
            let delay = delay(failures);
            assert!(delay >= least && delay <= most, "{failures}: {delay:?}");
        }
    }
}
