//! Times: the median over many batches, each long enough for the clock.

use std::time::{Duration, Instant};

/// How long one batch takes at least.
const BATCH: Duration = Duration::from_micros(400);

/// How many batches there are.
const BATCHES: usize = 41;

/// What one turn of `work` takes; `work` does as many turns as it is told.
pub(crate) fn per_turn(mut work: impl FnMut(u32)) -> Duration {
    let mut timed = |turns: u32| {
        let begin = Instant::now();
        work(turns);
        begin.elapsed()
    };
    let mut turns = 1;
    while timed(turns) < BATCH && turns < 1 << 24 {
        turns *= 2;
    }
    let mut batches: Vec<Duration> = (0..BATCHES).map(|_| timed(turns)).collect();
    batches.sort_unstable();
    batches[BATCHES / 2] / turns
}

/// A duration for people, in microseconds.
pub(crate) fn micros(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 10.0 { format!("{micros:.2} µs") } else { format!("{micros:.0} µs") }
}

/// Megabytes a second for people.
pub(crate) fn rate(bytes: usize, duration: Duration) -> String {
    #[allow(clippy::cast_precision_loss)]
    let rate = bytes as f64 / 1e6 / duration.as_secs_f64();
    format!("{rate:.0} MB/s")
}
