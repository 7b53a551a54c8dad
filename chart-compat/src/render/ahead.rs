//! Parsing templates before anyone knows under which path they stand.
//!
//! Owns a thread that starts as soon as a chart's files are there, while metadata and values are still read. Knows texts
//! alone: names come later, and what does not parse is parsed again then, for an error with its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::engine::{WORTH_A_THREAD, funcs};
use crate::chart::File;
use crate::profile::Profile;
use crate::template::{self, Template, UNNAMED};

/// Templates that are being parsed.
pub struct Ahead {
    queue: Arc<Queue>,
    helper: Option<JoinHandle<Vec<Done>>>,
}

/// A text and what it parsed to.
type Done = (Bytes, Vec<Template>);

struct Queue {
    texts: Vec<Bytes>,
    next: AtomicUsize,
    profile: Profile,
}

impl Queue {
    fn work(&self) -> Vec<Done> {
        let mut done = Vec::new();
        while let Some(text) = self.texts.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if let Ok(templates) = template::parse(UNNAMED, text, funcs(self.profile)) {
                done.push((text.clone(), templates));
            }
        }
        done
    }
}

impl Ahead {
    /// Starts on the templates among a chart's files, those of unpacked subcharts too.
    #[must_use]
    pub fn start(files: &[File], profile: Profile) -> Self {
        let is_template = |f: &&File| f.name.starts_with("templates/") || f.name.contains("/templates/");
        let texts: Vec<Bytes> = files.iter().filter(is_template).map(|f| f.data.clone()).collect();
        let size: usize = texts.iter().map(Bytes::len).sum();
        let queue = Arc::new(Queue { texts, next: AtomicUsize::new(0), profile });
        let mut helper = None;
        if size > WORTH_A_THREAD {
            let queue = Arc::clone(&queue);
            // Without a thread the rest is done when it is needed.
            helper = std::thread::Builder::new().spawn(move || queue.work()).ok();
        }
        Self { queue, helper }
    }

    /// Helps with what is left; gives the templates by the address of their text.
    pub(super) fn finish(self) -> FxHashMap<usize, Done> {
        let mut done = self.queue.work();
        if let Some(helper) = self.helper {
            match helper.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done.into_iter().map(|d| (d.0.as_ptr().addr(), d)).collect()
    }
}
