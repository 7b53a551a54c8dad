//! Parsing of templates and values while the chart's archive is still being read.
//!
//! Owns the templates and values files that arrive before the chart is complete, and the thread that parses them. Template names are
//! not known then: they are set later, and a template that does not parse is parsed again, for an error with its name.
//!
//! Kept for its speed: a render takes 15 % longer without it in the median of the corpus bench (11 to 20 %, charts
//! below 64 KiB excepted), on two processors, 2026-11-25.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;

use super::engine::funcs;
use crate::chart::File;
use crate::memory;
use crate::profile::Profile;
use crate::template::{self, Template, UNNAMED};
use crate::yaml::Room;

/// The minimal size of text for a second thread, in bytes.
pub(super) const WORTH_A_THREAD: usize = 64 * 1024;

/// A text, the templates in it, and the memory of their trees in bytes.
pub(super) type ParsedText = (Bytes, Vec<Template>, usize);

/// Templates and values files that are being parsed: by a second thread once there is enough text, and by the caller at the end.
pub struct Prefetch {
    sender: Sender<File>,
    shared: Arc<Shared>,
    /// Bytes queued so far.
    queued: usize,
    second: Option<JoinHandle<Vec<ParsedText>>>,
}

struct Shared {
    files: Mutex<Receiver<File>>,
    profile: Profile,
    room: Room,
    /// What is left of the memory for syntax trees. Templates beyond that are parsed by the render, within its own memory.
    left: AtomicUsize,
    canceled: AtomicBool,
}

impl Shared {
    /// Parses files until the queue is closed or canceled.
    fn run(&self) -> Vec<ParsedText> {
        let mut parsed = Vec::new();
        while !self.canceled.load(Ordering::Relaxed) {
            let next = self.files.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(file) = next else { break };
            parsed.extend(self.parse(file));
        }
        parsed
    }

    /// Parses the templates of a file; values are stored in the file itself.
    fn parse(&self, file: File) -> Option<ParsedText> {
        if file.is_values() {
            file.values.read(&file.data, self.profile, &self.room);
            return None;
        }
        let before = self.left.load(Ordering::Relaxed);
        let mut left = before;
        let parsed = template::parse_within(UNNAMED, &file.data, funcs(self.profile), &mut left);
        let taken = before - left;
        // Two threads may take the same bytes, which makes the bound no more than twice as high.
        self.left.store(self.left.load(Ordering::Relaxed).saturating_sub(taken), Ordering::Relaxed);
        Some((file.data, parsed.ok()?, taken))
    }
}

impl Prefetch {
    /// Starts with no files.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let (sender, files) = mpsc::channel();
        let shared = Shared {
            files: Mutex::new(files),
            profile,
            room: Room::default(),
            left: AtomicUsize::new(memory::of_input()),
            canceled: AtomicBool::new(false),
        };
        Self { sender, shared: Arc::new(shared), queued: 0, second: None }
    }

    /// Queues a file of the chart or of an unpacked subchart if it is a template or `values.yaml`.
    pub fn push(&mut self, file: &File) {
        if !(file.name.starts_with("templates/") || file.name.contains("/templates/") || file.is_values()) {
            return;
        }
        self.queued += file.data.len();
        // The receiver lives as long as this queue.
        drop(self.sender.send(file.clone()));
        if self.second.is_none() && self.queued > WORTH_A_THREAD {
            let shared = Arc::clone(&self.shared);
            // If no thread starts, `finish` parses everything.
            self.second = std::thread::Builder::new().spawn(move || shared.run()).ok();
        }
    }

    /// Parses the remaining files on both threads; returns the templates of each text.
    pub(super) fn finish(mut self) -> Vec<ParsedText> {
        self.sender = mpsc::channel().0;
        let mut parsed = self.shared.run();
        if let Some(second) = self.second.take() {
            match second.join() {
                Ok(more) => parsed.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        parsed
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.shared.canceled.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_template_is_parsed_once_on_one_thread_and_on_two() {
        for (filling, threads) in [(1, 1), (1000, 2)] {
            let text =
                |i: usize| if i.is_multiple_of(2) { "x".repeat(filling) } else { "{{".repeat(filling) };
            let file = |i| File::new(format!("templates/{i}.yaml"), text(i).into_bytes());
            let files: Vec<File> = (0..1000).map(file).collect();
            let mut prefetch = Prefetch::new(Profile::Helm4);
            files.iter().for_each(|file| prefetch.push(file));
            assert_eq!(1 + usize::from(prefetch.second.is_some()), threads);
            let mut parsed: Vec<usize> =
                prefetch.finish().iter().map(|parsed| parsed.0.as_ptr().addr()).collect();
            parsed.sort_unstable();
            let mut expected: Vec<usize> = files.iter().step_by(2).map(|f| f.data.as_ptr().addr()).collect();
            expected.sort_unstable();
            assert_eq!(parsed, expected);
        }
    }
}
