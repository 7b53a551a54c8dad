//! Reading what templates printed while the next ones still run.
//!
//! Owns the second thread of a large render: it splits rendered files into documents and reads their heads, which takes about
//! as long as the templates themselves. Knows nothing of what the heads mean.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use super::manifest::{Documents, read};
use crate::profile::Profile;

/// How much text must wait before a thread is worth its start.
const WORTH_A_THREAD: usize = 64 * 1024;

/// A rendered file: path and text.
type Rendered = (String, String);

/// Files of one render on their way to documents.
pub(super) struct Reader<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    profile: Profile,
    sender: Sender<Rendered>,
    queue: Arc<Mutex<Receiver<Rendered>>>,
    waiting: usize,
    helper: Option<ScopedJoinHandle<'scope, Vec<Documents>>>,
}

impl<'scope, 'env> Reader<'scope, 'env> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, profile: Profile) -> Self {
        let (sender, queue) = mpsc::channel();
        Self { scope, profile, sender, queue: Arc::new(Mutex::new(queue)), waiting: 0, helper: None }
    }

    /// Takes a file; it is read as soon as someone has time.
    pub(super) fn push(&mut self, path: String, text: String) {
        self.waiting += text.len();
        // The queue lives as long as this reader, so nothing is lost.
        drop(self.sender.send((path, text)));
        if self.helper.is_none() && self.waiting > WORTH_A_THREAD {
            let (queue, profile) = (Arc::clone(&self.queue), self.profile);
            self.helper = Some(self.scope.spawn(move || work(&queue, profile)));
        }
    }

    /// Reads what is left together with the helper; gives all files in order of path.
    pub(super) fn finish(self) -> Vec<Documents> {
        let Self { profile, sender, queue, helper, .. } = self;
        drop(sender);
        let mut files = work(&queue, profile);
        if let Some(helper) = helper {
            match helper.join() {
                Ok(more) => files.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        files.sort_by(|a, b| a.source.cmp(&b.source));
        files
    }
}

/// Reads files until no more can come.
fn work(queue: &Mutex<Receiver<Rendered>>, profile: Profile) -> Vec<Documents> {
    let mut files = Vec::new();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((path, text)) = next else { return files };
        files.push(read(path, &text, profile));
    }
}
