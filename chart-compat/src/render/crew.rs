//! Work that a second thread shares once there is enough of it.
//!
//! Owns the queue and the thread. Knows nothing of what is done; items are done in any order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How much text must wait before a thread is worth its start.
pub(super) const WORTH_A_THREAD: usize = 64 * 1024;

/// A queue of texts to work on.
pub(super) struct Crew<I, O> {
    sender: Sender<I>,
    queue: Arc<Queue<I, O>>,
    waiting: usize,
    helper: Option<JoinHandle<Vec<O>>>,
}

struct Queue<I, O> {
    waiting: Mutex<Receiver<I>>,
    work: Box<dyn Fn(I) -> Option<O> + Send + Sync>,
    /// Nobody wants the rest.
    left: AtomicBool,
}

impl<I, O> Queue<I, O> {
    /// Works until no more can come.
    fn run(&self) -> Vec<O> {
        let mut done = Vec::new();
        while !self.left.load(Ordering::Relaxed) {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(item) = next else { break };
            done.extend((self.work)(item));
        }
        done
    }
}

impl<I: Send + 'static, O: Send + 'static> Crew<I, O> {
    /// A queue of items that `work` makes something of, or nothing.
    pub(super) fn new(work: impl Fn(I) -> Option<O> + Send + Sync + 'static) -> Self {
        let (sender, waiting) = mpsc::channel();
        let queue =
            Queue { waiting: Mutex::new(waiting), work: Box::new(work), left: AtomicBool::new(false) };
        Self { sender, queue: Arc::new(queue), waiting: 0, helper: None }
    }

    /// Takes an item that has `size` bytes of text; it is worked on as soon as someone has time.
    pub(super) fn push(&mut self, item: I, size: usize) {
        self.waiting += size;
        // The queue lives as long as this crew, so nothing is lost.
        drop(self.sender.send(item));
        if self.helper.is_none() && self.waiting > WORTH_A_THREAD {
            let queue = Arc::clone(&self.queue);
            // Without a thread everything is done at the end.
            self.helper = std::thread::Builder::new().spawn(move || queue.run()).ok();
        }
    }

    /// Works on what is left together with the helper; gives what all items became.
    pub(super) fn finish(mut self) -> Vec<O> {
        // No more can come.
        self.sender = mpsc::channel().0;
        let mut done = self.queue.run();
        if let Some(helper) = self.helper.take() {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    }
}

impl<I, O> Drop for Crew<I, O> {
    fn drop(&mut self) {
        self.queue.left.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_with_and_without_a_helper() {
        for size in [1, 1000] {
            let mut crew = Crew::new(|i: usize| i.is_multiple_of(2).then_some(i));
            (0..1000).for_each(|i| crew.push(i, size));
            let mut done = crew.finish();
            done.sort_unstable();
            assert_eq!(done, (0..1000).step_by(2).collect::<Vec<_>>());
        }
    }
}
