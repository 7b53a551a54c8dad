//! The memory of answers that are read whole, over all requests of the process.
//!
//! Owns how much of it large answers have at a time, so that many objects with large charts do not take the memory of a small Pod
//! together. Small answers take none of it: they do not wait for large ones. Does not know what an answer is, and who asked.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::machine::input_limit;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// An answer up to this size, in bytes, takes nothing of the shared memory.
const SMALL: u64 = 1 << 20;

/// The unit of the shared memory, in bytes.
const UNIT: u64 = 64 << 10;

/// How long a large answer may take from when it has its share, and the bytes a second that it must come with besides: a slow server does
/// not keep memory from others for long.
const GRACE: Duration = Duration::from_secs(30);
const MIN_RATE: u64 = 128 << 10;

/// What large answers may take at a time: as much as one input may.
static PROCESS: LazyLock<BodyMemory> = LazyLock::new(|| BodyMemory::new(input_limit()));

/// Memory that large answers share. Clones share it, too.
#[derive(Clone)]
pub struct BodyMemory {
    units: Arc<Semaphore>,
    /// All units there are.
    total: u32,
}

/// An answer, as far as it has been read.
pub struct BodyBuffer {
    memory: BodyMemory,
    bytes: Vec<u8>,
    /// The bytes that the answer has at most.
    limit: u64,
    /// Its share, and since when it has it.
    share: Option<(OwnedSemaphorePermit, Instant)>,
}

impl BodyMemory {
    fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX >> 4);
        Self { units: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// The memory of this process.
    #[must_use]
    pub fn of_process() -> Self {
        PROCESS.clone()
    }

    /// A buffer for an answer of at most `limit` bytes, which the caller enforces.
    #[must_use]
    pub fn buffer(self, limit: u64) -> BodyBuffer {
        BodyBuffer { memory: self, bytes: Vec::new(), limit, share: None }
    }
}

impl BodyBuffer {
    /// Appends bytes. Waits for memory when the answer becomes a large one.
    pub async fn push(&mut self, data: &[u8]) {
        let large = self.bytes.len() as u64 + data.len() as u64 > SMALL;
        if large && self.share.is_none() {
            let units = u32::try_from(self.limit.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.memory.total);
            // The semaphore is never closed.
            let share = Arc::clone(&self.memory.units).acquire_many_owned(units).await.ok();
            self.share = share.map(|share| (share, Instant::now()));
        }
        self.bytes.extend_from_slice(data);
    }

    /// When the next bytes must have come; `None` while the answer is a small one.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let (_, since) = self.share.as_ref()?;
        Some(*since + GRACE + Duration::from_secs(self.bytes.len() as u64 / MIN_RATE))
    }

    /// The answer. It keeps its share of the memory until its last clone is dropped.
    #[must_use]
    pub fn finish(self) -> Bytes {
        let Some((mut share, _)) = self.share else { return self.bytes.into() };
        let used = usize::try_from((self.bytes.len() as u64).div_ceil(UNIT)).unwrap_or(usize::MAX);
        drop(share.split(share.num_permits().saturating_sub(used)));
        let mut bytes = self.bytes;
        bytes.shrink_to_fit();
        Bytes::from_owner(Large { bytes, _share: share })
    }
}

/// A large answer.
struct Large {
    bytes: Vec<u8>,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Large {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn large_answers_wait_for_each_other_and_small_ones_for_none() {
        let memory = BodyMemory::new(4 << 20);
        let large = vec![0; (1 << 20) + 1];
        let mut first = memory.clone().buffer(3 << 20);
        assert_eq!(first.deadline(), None);
        assert!(first.push(&large).now_or_never().is_some());
        let left = first.deadline().unwrap() - Instant::now();
        assert!(left > Duration::from_secs(30) && left <= Duration::from_secs(38), "{left:?}");
        let mut small = memory.clone().buffer(3 << 20);
        assert!(small.push(&large[..SMALL as usize]).now_or_never().is_some());
        let mut second = memory.clone().buffer(2 << 20);
        assert!(second.push(&large).now_or_never().is_none(), "3 of 4 MiB are taken");
        // What it did not need is free when it is complete, the rest when the last clone is dropped.
        let first = first.finish();
        assert_eq!((first.len(), memory.units.available_permits()), (large.len(), 64 - 17));
        assert!(second.push(&large).now_or_never().is_some());
        let clone = first.clone();
        drop((first, second));
        assert_eq!(memory.units.available_permits(), 64 - 17);
        drop(clone);
        assert_eq!(memory.units.available_permits(), 64);
    }

    #[test]
    fn an_answer_larger_than_all_memory_has_all_of_it() {
        let memory = BodyMemory::new(1 << 20);
        let mut all = memory.clone().buffer(u64::MAX);
        assert!(all.push(&vec![0; 2 << 20]).now_or_never().is_some());
        assert_eq!(memory.units.available_permits(), 0);
        drop(all);
        assert_eq!(memory.units.available_permits(), 16);
    }
}
