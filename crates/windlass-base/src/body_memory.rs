//! The memory of answers that are read whole, over all requests of the process.
//!
//! Owns how much of it large answers have at a time, so that many objects with large charts do not take the memory of a small Pod
//! together, and how much of it those of one namespace have ([`crate::redact::namespace`]). Small answers take none of it: they do not
//! wait for large ones. Does not know what an answer is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::machine::input_limit;
use crate::namespace_semaphores::NamespaceSemaphores;
use crate::redact;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// An answer up to this size, in bytes, takes nothing of the shared memory.
const SMALL: u64 = 1 << 20;

/// The unit of the shared memory, in bytes.
const UNIT: u64 = 64 << 10;

/// How long an answer may take from when it has its share, and the bytes a second that it must come with besides: a slow server does
/// not keep memory from others for long.
const GRACE: Duration = Duration::from_secs(30);
const MIN_RATE: u64 = 128 << 10;

/// The same of an answer whose share is more than a quarter of all memory, while others wait: how long it may take, and for the whole share
/// besides. Together less than requests of others wait.
const LARGE_GRACE: Duration = Duration::from_secs(10);
const LARGE_TIME: Duration = Duration::from_secs(30);

/// Between two looks at whether others wait.
const LOOK: Duration = Duration::from_secs(1);

/// What large answers may take at a time: as much as one input may.
static PROCESS: LazyLock<BodyMemory> = LazyLock::new(|| BodyMemory::new(input_limit()));

/// Memory that large answers share. Clones share it, too.
#[derive(Clone)]
pub struct BodyMemory {
    units: Arc<Semaphore>,
    /// What the answers of one namespace may have, or wait for: half of all. A larger one is the only one of its namespace.
    of_namespace: Arc<NamespaceSemaphores>,
    /// The answers that wait for units.
    waiting: Arc<AtomicUsize>,
    /// All units there are.
    total: u32,
}

/// An answer that waits, until it is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn begin(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An answer, as far as it has been read.
pub struct BodyBuffer {
    memory: BodyMemory,
    /// The namespace whose memory it takes.
    namespace: Option<String>,
    bytes: Vec<u8>,
    /// The bytes that the answer has at most.
    limit: u64,
    /// Its share.
    share: Option<Share>,
}

/// What an answer has of the memory.
struct Share {
    all: OwnedSemaphorePermit,
    of_namespace: Option<OwnedSemaphorePermit>,
    since: Instant,
}

impl BodyMemory {
    fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX >> 4);
        let of_namespace = Arc::new(NamespaceSemaphores::new(total.div_ceil(2) as usize));
        let (units, waiting) = (Arc::new(Semaphore::new(total as usize)), Arc::default());
        Self { units, of_namespace, waiting, total }
    }

    /// The memory of this process.
    #[must_use]
    pub fn of_process() -> Self {
        PROCESS.clone()
    }

    /// A buffer for an answer of at most `limit` bytes, which the caller enforces, for the running pass.
    #[must_use]
    pub fn buffer(self, limit: u64) -> BodyBuffer {
        self.buffer_of(redact::namespace(), limit)
    }

    fn buffer_of(self, namespace: Option<String>, limit: u64) -> BodyBuffer {
        BodyBuffer { memory: self, namespace, bytes: Vec::new(), limit, share: None }
    }

    /// Waits for units: first those of the namespace, so that its other answers do not wait before those of others.
    async fn share(&self, namespace: Option<&str>, units: u32) -> Option<Share> {
        // The semaphores are never closed.
        let of_namespace = match namespace {
            Some(namespace) => {
                let most = u32::try_from(self.of_namespace.permits()).unwrap_or(u32::MAX);
                let semaphore = self.of_namespace.of(namespace);
                Some(semaphore.acquire_many_owned(units.min(most)).await.ok()?)
            }
            None => None,
        };
        let waiting = Waiting::begin(&self.waiting);
        let all = Arc::clone(&self.units).acquire_many_owned(units).await.ok()?;
        drop(waiting);
        Some(Share { all, of_namespace, since: Instant::now() })
    }
}

impl BodyBuffer {
    /// Appends bytes. Waits for memory when the answer becomes a large one.
    pub async fn push(&mut self, data: &[u8]) {
        let large = self.bytes.len() as u64 + data.len() as u64 > SMALL;
        if large && self.share.is_none() {
            let units = u32::try_from(self.limit.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.memory.total);
            self.share = self.memory.share(self.namespace.as_deref(), units).await;
        }
        self.bytes.extend_from_slice(data);
    }

    /// Ends when the next bytes have come too late; never while the answer is a small one.
    pub async fn expired(&self) {
        loop {
            match self.deadline() {
                Some(deadline) if deadline <= Instant::now() => return,
                Some(deadline) => tokio::time::sleep_until(deadline.min(Instant::now() + LOOK)).await,
                None => std::future::pending().await,
            }
        }
    }

    /// When the next bytes must have come, as long as as many wait as now; `None` while the answer is a small one.
    fn deadline(&self) -> Option<Instant> {
        let share = self.share.as_ref()?;
        let (units, bytes) = (share.all.num_permits() as u64, self.bytes.len() as u64);
        let is_wanted = self.memory.waiting.load(Ordering::Relaxed) > 0;
        let time = match is_wanted && units > u64::from(self.memory.total / 4) {
            true => LARGE_GRACE + LARGE_TIME.mul_f64((bytes as f64 / (units * UNIT) as f64).min(1.0)),
            false => GRACE + Duration::from_secs(bytes / MIN_RATE),
        };
        Some(share.since + time)
    }

    /// The answer. It keeps its share of the memory until its last clone is dropped.
    #[must_use]
    pub fn finish(self) -> Bytes {
        let Some(mut share) = self.share else { return self.bytes.into() };
        let used = usize::try_from((self.bytes.len() as u64).div_ceil(UNIT)).unwrap_or(usize::MAX);
        for permit in [Some(&mut share.all), share.of_namespace.as_mut()].into_iter().flatten() {
            drop(permit.split(permit.num_permits().saturating_sub(used)));
        }
        let mut bytes = self.bytes;
        bytes.shrink_to_fit();
        Bytes::from_owner(Large { bytes, _share: share })
    }
}

/// A large answer.
struct Large {
    bytes: Vec<u8>,
    _share: Share,
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

    #[test]
    fn a_share_is_held_for_a_bounded_time_and_by_a_namespace_in_part() {
        let memory = BodyMemory::new(16 << 20);
        let large = vec![0; (1 << 20) + 1];
        let begin = |namespace: &str, limit: u64| {
            let mut buffer = memory.clone().buffer_of(Some(namespace.to_owned()), limit);
            let has_share = buffer.push(&large).now_or_never().is_some();
            (buffer, has_share)
        };
        let left = |buffer: &BodyBuffer| (buffer.deadline().unwrap() - Instant::now()).as_secs_f64();
        // One that has all of it: while others wait 10 s, and 30 s with its bytes, however many its server has announced.
        let (mut whole, has_share) = begin("a", u64::MAX);
        assert!(has_share && left(&whole) > 37.0, "nobody waits");
        let waiting = Waiting::begin(&memory.waiting);
        assert!(left(&whole) < 12.0, "a sixteenth of 30 s");
        whole.bytes.resize(64 << 20, 0);
        assert!(left(&whole) < 40.1);
        drop((whole, waiting));
        assert_eq!(memory.waiting.load(Ordering::Relaxed), 0);
        // Small shares of one namespace: half of all together, and 128 KiB a second.
        let (quarters, shares): (Vec<_>, Vec<_>) = (0..3).map(|_| begin("a", 4 << 20)).unzip();
        assert_eq!(shares, [true, true, false]);
        assert!(left(&quarters[0]) > 37.0);
        assert!(begin("b", 8 << 20).1, "the other half");
        assert!(memory.clone().buffer_of(None, 8 << 20).push(&large).now_or_never().is_some());
        drop(quarters);
        assert_eq!(memory.units.available_permits(), 256);
        assert!(begin("a", 8 << 20).1);
    }
}
