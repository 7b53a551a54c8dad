//! The place of a running job among the workers, and how it is left during a wait.
//!
//! A wait for readiness takes minutes and no work: while the engine waits, another job may use the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use windlass_engine::WaitListener;

/// A job leaves its place, or wants it back.
#[derive(Debug)]
pub(super) enum SlotEvent {
    /// The job of this key waits.
    Left(String),
    /// The wait is over: the sender is answered when the job may go on.
    Returning(String, oneshot::Sender<()>),
}

/// The place of one running job.
#[derive(Clone, Debug)]
pub struct WorkerSlot {
    key: String,
    events: UnboundedSender<SlotEvent>,
    /// Becomes true when the wait is pointless: a newer generation of the object is there.
    cancel: watch::Receiver<bool>,
    /// How many operations of the job wait: a job may have several releases.
    waits: Arc<AtomicUsize>,
}

impl WorkerSlot {
    pub(super) fn new(key: &str, events: UnboundedSender<SlotEvent>, cancel: watch::Receiver<bool>) -> Self {
        Self { key: key.to_owned(), events, cancel, waits: Arc::default() }
    }

    /// The flag that cancels the operation of this job.
    pub(super) fn cancel(&self) -> watch::Receiver<bool> {
        self.cancel.clone()
    }
}

impl WaitListener for WorkerSlot {
    fn begins(&self) {
        if self.waits.fetch_add(1, Ordering::AcqRel) == 0 {
            // The receiver is gone when the controller stops.
            drop(self.events.send(SlotEvent::Left(self.key.clone())));
        }
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        async {
            // The place is left as long as any operation waits.
            if self.waits.fetch_sub(1, Ordering::AcqRel) > 1 {
                return;
            }
            let (sender, granted) = oneshot::channel();
            if self.events.send(SlotEvent::Returning(self.key.clone(), sender)).is_ok() {
                drop(granted.await);
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_left_with_the_first_wait_and_wanted_back_after_the_last() {
        let (events, mut received) = tokio::sync::mpsc::unbounded_channel();
        let slot = WorkerSlot::new("a", events, watch::channel(false).1);
        let other = slot.clone();
        slot.begins();
        other.begins();
        assert!(matches!(received.try_recv(), Ok(SlotEvent::Left(key)) if key == "a"));
        assert!(slot.ended().now_or_never().is_some());
        assert!(received.try_recv().is_err(), "one still waits");
        assert!(other.ended().now_or_never().is_none(), "it waits for a place");
        assert!(matches!(received.try_recv(), Ok(SlotEvent::Returning(key, _)) if key == "a"));
    }
}
