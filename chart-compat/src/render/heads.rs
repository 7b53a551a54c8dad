//! Reading what templates printed while the next ones still run.
//!
//! Owns the rendered files of one render on their way to documents: splitting and reading heads takes about as long as the
//! templates themselves. Knows nothing of what the heads mean.

use super::crew::Crew;
use super::manifest::{Documents, read};
use crate::profile::Profile;

/// Files of one render on their way to documents.
pub(super) struct Reader(Crew<(String, String), Documents>);

impl Reader {
    pub(super) fn new(profile: Profile) -> Self {
        Self(Crew::new(move |(path, text): (String, String)| Some(read(path, &text, profile))))
    }

    /// Takes a file: its path and text.
    pub(super) fn push(&mut self, path: String, text: String) {
        let size = text.len();
        self.0.push((path, text), size);
    }

    /// All files in order of path.
    pub(super) fn finish(self) -> Vec<Documents> {
        let mut files = self.0.finish();
        files.sort_by(|a, b| a.source.cmp(&b.source));
        files
    }
}
