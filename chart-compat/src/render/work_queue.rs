//! A queue of work that a second thread shares once there is enough of it.
//!
//! Owns the queue and the thread. Knows nothing of the work; items are processed in any order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How many bytes of text must be queued before a second thread is worth its start.
pub(super) const WORTH_A_THREAD: usize = 64 * 1024;

/// A queue of items with text.
pub(super) struct WorkQueue<I, O> {
    sender: Sender<I>,
    shared: Arc<Shared<I, O>>,
    /// Bytes queued so far.
    queued: usize,
    second: Option<JoinHandle<Vec<O>>>,
}

struct Shared<I, O> {
    items: Mutex<Receiver<I>>,
    work: Box<dyn Fn(I) -> Option<O> + Send + Sync>,
    canceled: AtomicBool,
}

impl<I, O> Shared<I, O> {
    /// Processes items until the queue is closed or canceled.
    fn run(&self) -> Vec<O> {
        let mut done = Vec::new();
        while !self.canceled.load(Ordering::Relaxed) {
            let next = self.items.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(item) = next else { break };
            done.extend((self.work)(item));
        }
        done
    }
}

impl<I: Send + 'static, O: Send + 'static> WorkQueue<I, O> {
    /// An empty queue; `work` processes an item, with or without a result.
    pub(super) fn new(work: impl Fn(I) -> Option<O> + Send + Sync + 'static) -> Self {
        let (sender, items) = mpsc::channel();
        let shared =
            Shared { items: Mutex::new(items), work: Box::new(work), canceled: AtomicBool::new(false) };
        Self { sender, shared: Arc::new(shared), queued: 0, second: None }
    }

    /// Queues an item with `size` bytes of text.
    pub(super) fn push(&mut self, item: I, size: usize) {
        self.queued += size;
        // The receiver lives as long as this queue.
        drop(self.sender.send(item));
        if self.second.is_none() && self.queued > WORTH_A_THREAD {
            let shared = Arc::clone(&self.shared);
            // If no thread starts, `finish` processes everything.
            self.second = std::thread::Builder::new().spawn(move || shared.run()).ok();
        }
    }

    /// Closes the queue, processes what is left on both threads, and returns all results.
    pub(super) fn finish(mut self) -> Vec<O> {
        self.sender = mpsc::channel().0;
        let mut done = self.shared.run();
        if let Some(second) = self.second.take() {
            match second.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    }
}

impl<I, O> Drop for WorkQueue<I, O> {
    fn drop(&mut self) {
        self.shared.canceled.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_processed_once_on_one_thread_and_on_two() {
        for size in [1, 1000] {
            let mut queue = WorkQueue::new(|i: usize| i.is_multiple_of(2).then_some(i));
            (0..1000).for_each(|i| queue.push(i, size));
            let mut done = queue.finish();
            done.sort_unstable();
            assert_eq!(done, (0..1000).step_by(2).collect::<Vec<_>>());
        }
    }
}
