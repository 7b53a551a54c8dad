//! How often a hook may run: an allowance that grows with time. Pure.

use std::time::{Duration, Instant};

/// What an interval counts as whose end no clock shows.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A token bucket: `burst` runs at once, and one more for each `interval`.
#[derive(Clone, Debug)]
pub(super) struct RateLimit {
    interval: Duration,
    burst: u32,
    /// When the bucket would be full again.
    full_at: Option<Instant>,
}

impl RateLimit {
    #[must_use]
    pub(super) fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst: burst.max(1), full_at: None }
    }

    /// Takes a run out of the allowance; returns how long it has to wait.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let begin = self.full_at.map_or(now, |at| at.max(now));
        let full_at = begin.checked_add(self.interval).or_else(|| now.checked_add(LONGEST)).unwrap_or(begin);
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(self.interval.saturating_mul(self.burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_for_each_interval() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let mut limit = RateLimit::new(Duration::from_secs(10), 2);
        let waits: Vec<u64> =
            [0, 0, 0, 1, 100, 100, 105].iter().map(|s| limit.take(at(*s)).as_secs()).collect();
        assert_eq!(waits, [0, 0, 10, 19, 0, 0, 5]);
        // As long as a configuration can say.
        let mut limit = RateLimit::new(Duration::from_nanos(u64::MAX / 2), u32::MAX);
        assert_eq!([limit.take(start), limit.take(start)], [Duration::ZERO; 2]);
        let mut limit = RateLimit::new(Duration::MAX, 1);
        assert_eq!(limit.take(start), Duration::ZERO);
    }
}
