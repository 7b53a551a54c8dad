//! What one render may take of the machine: memory and time.

use std::time::{Duration, Instant};

use chart_compat::template::Limits;

use crate::machine::memory_limit;

/// Default memory limit of a render, in bytes.
const MOST_MEMORY: u64 = 2 << 30;
/// Default time limit of a render.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What one render may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderBounds {
    /// Memory for values and texts, in bytes.
    pub memory: usize,
    /// Time.
    pub timeout: Duration,
}

impl Default for RenderBounds {
    /// A quarter of the memory that the process may take, at most 2 GiB, and a minute.
    fn default() -> Self {
        let memory = (memory_limit() / 4).min(MOST_MEMORY);
        Self { memory: usize::try_from(memory).unwrap_or(usize::MAX), timeout: TIMEOUT }
    }
}

impl RenderBounds {
    /// The bounds that templates are held to.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::within(self.memory)
    }

    /// How many renders may run at once in a process: as many as there are processors, but no more than have room for four times
    /// their memory, as heaps grow by doubling and objects are made of the text.
    #[must_use]
    pub fn at_once(&self) -> usize {
        let memory = u64::try_from(self.memory).unwrap_or(u64::MAX).max(1);
        let room = memory_limit() / memory.saturating_mul(4);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        usize::try_from(room).unwrap_or(usize::MAX).clamp(1, processors)
    }

    /// When a render that begins now has to end.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        Deadline { at: Instant::now() + self.timeout, timeout: self.timeout }
    }
}

/// When a render has to end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    timeout: Duration,
}

impl Deadline {
    /// Why a render stops, once it has to.
    #[must_use]
    pub fn passed(&self) -> Option<String> {
        (Instant::now() >= self.at).then(|| format!("it took longer than {:?}", self.timeout))
    }
}
