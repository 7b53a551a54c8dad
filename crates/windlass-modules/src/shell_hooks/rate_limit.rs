//! How often a hook may run: an allowance that grows with time. Pure.

use std::time::{Duration, Instant};

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
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + self.interval;
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(self.interval * self.burst)
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
    }
}
