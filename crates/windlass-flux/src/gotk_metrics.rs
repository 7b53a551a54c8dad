//! Metrics with the names of Flux's controllers.
//!
//! Owns their names and buckets. What is measured is the controller runtime's.

use std::sync::LazyLock;

use windlass_controller::DurationMetric;

/// Number of buckets, and the bounds of the first and the last one in seconds.
const BUCKETS: (i32, f64, f64) = (10, 0.01, 1800.0);

/// Bounds that grow by the same factor each.
static BOUNDS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let (count, first, last) = BUCKETS;
    let factor = (last / first).powf(1.0 / f64::from(count - 1));
    (0..count).map(|n| first * factor.powi(n)).collect()
});

/// How long passes over an object of Flux's kinds take.
#[must_use]
pub fn reconcile_duration() -> DurationMetric {
    DurationMetric {
        name: "gotk_reconcile_duration_seconds",
        help: "The duration in seconds of a GitOps Toolkit resource reconciliation.",
        bounds: &BOUNDS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_go_from_ten_milliseconds_to_half_an_hour() {
        let bounds = reconcile_duration().bounds;
        assert_eq!((bounds.len(), bounds[0]), (10, 0.01));
        assert!((bounds[9] - 1800.0).abs() < 1e-6, "{bounds:?}");
        assert!((bounds[1] / bounds[0] - bounds[9] / bounds[8]).abs() < 1e-9, "{bounds:?}");
    }
}
