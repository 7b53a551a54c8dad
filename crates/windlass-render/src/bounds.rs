//! The resource limits of one render: memory and time.

use std::time::{Duration, Instant};

use chart_compat::template::Limits;

use windlass_base::machine::{input_limit, memory_limit};

/// Default memory limit of a render, in bytes.
const MOST_MEMORY: u64 = 2 << 30;
/// Default time limit of a render.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The resource limits of one render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderBounds {
    /// Maximal memory for values and texts, in bytes.
    pub memory: usize,
    /// Maximal duration.
    pub timeout: Duration,
}

impl Default for RenderBounds {
    /// A quarter of the memory available to the process, at most 2 GiB, and a minute.
    fn default() -> Self {
        let memory = (memory_limit() / 4).min(MOST_MEMORY);
        Self { memory: usize::try_from(memory).unwrap_or(usize::MAX), timeout: TIMEOUT }
    }
}

/// Lets an input take its share of the memory available to the process ([`input_limit`]), whoever reads it. For the start of a program.
pub fn bound_input() {
    chart_compat::memory::limit_input(usize::try_from(input_limit()).unwrap_or(usize::MAX));
}

impl RenderBounds {
    /// The limits for templates.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits::within(self.memory)
    }

    /// The number of concurrent renders in a process: one per processor, but no more than fit in memory with four times
    /// their limit, as heaps grow by doubling and objects are parsed from the text.
    #[must_use]
    pub fn at_once(&self) -> usize {
        let memory = u64::try_from(self.memory).unwrap_or(u64::MAX).max(1);
        let room = memory_limit() / memory.saturating_mul(4);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        usize::try_from(room).unwrap_or(usize::MAX).clamp(1, processors)
    }

    /// The deadline of a render that begins now.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        Deadline { at: Instant::now() + self.timeout, timeout: self.timeout }
    }
}

/// The deadline of a render.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    timeout: Duration,
}

impl Deadline {
    /// The reason to stop the render, once the deadline has passed.
    #[must_use]
    pub fn passed(&self) -> Option<String> {
        (Instant::now() >= self.at).then(|| format!("it took longer than {:?}", self.timeout))
    }
}
