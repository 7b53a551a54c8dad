//! Reading what templates printed while the next ones still run.
//!
//! Owns the rendered files of one render on their way to documents: splitting and reading heads takes about as long as the
//! templates themselves. Knows nothing of what the heads mean.

use rustc_hash::FxHashSet;

use super::beside::Begins;
use super::crew::Crew;
use super::manifest::{Documents, read};
use crate::profile::Profile;

/// Files of one render on their way to documents.
pub(super) struct Reader(Crew<(Tag, String, String), (Tag, Documents)>);

/// Who ran a template: thread and number of the template.
pub(super) type Tag = (usize, usize);

impl Reader {
    pub(super) fn new(profile: Profile) -> Self {
        Self(Crew::new(Begins::Anywhere, move |(tag, path, text): (Tag, String, String)| {
            Some((tag, read(path, text, profile)))
        }))
    }

    /// Takes a file: its path and text.
    pub(super) fn push(&mut self, tag: Tag, path: String, text: String) {
        let size = text.len();
        self.0.push((tag, path, text), size);
    }

    /// The files that count, in order of path.
    pub(super) fn finish(self, wanted: &[Tag]) -> Vec<Documents> {
        let wanted: FxHashSet<Tag> = wanted.iter().copied().collect();
        let files = self.0.finish().into_iter().filter(|(tag, _)| wanted.contains(tag));
        let mut files: Vec<Documents> = files.map(|(_, documents)| documents).collect();
        files.sort_by(|a, b| a.source.cmp(&b.source));
        files
    }
}
