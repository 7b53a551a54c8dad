//! The place of a running job among the workers, and how it is left during a wait.
//!
//! A wait for readiness takes minutes and no work: while the engine waits, another job may use the worker.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{oneshot, watch};

use crate::release::WaitListener;

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
}

impl WorkerSlot {
    pub(super) fn new(key: &str, events: UnboundedSender<SlotEvent>, cancel: watch::Receiver<bool>) -> Self {
        Self { key: key.to_owned(), events, cancel }
    }

    /// The flag that cancels the operation of this job.
    pub(super) fn cancel(&self) -> watch::Receiver<bool> {
        self.cancel.clone()
    }
}

impl WaitListener for WorkerSlot {
    fn begins(&self) {
        // The receiver is gone when the controller stops.
        drop(self.events.send(SlotEvent::Left(self.key.clone())));
    }

    fn ended(&self) -> BoxFuture<'_, ()> {
        async {
            let (sender, granted) = oneshot::channel();
            if self.events.send(SlotEvent::Returning(self.key.clone(), sender)).is_ok() {
                drop(granted.await);
            }
        }
        .boxed()
    }
}
