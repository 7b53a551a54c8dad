//! Waiting for a condition.

use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

const INTERVAL: Duration = Duration::from_millis(20);

/// Asks `probe` again and again until it answers with a value, fails, or `limit` has passed.
/// `what` completes the error "WHAT: not within N s".
pub fn wait_until<T>(what: &str, limit: Duration, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            return Err(Error::Timeout { what: what.to_owned(), seconds: limit.as_secs_f32() });
        }
        thread::sleep(INTERVAL);
    }
}
