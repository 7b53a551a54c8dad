//! Parsing templates before anyone knows under which path they stand, and reading values before anyone asks for them.
//!
//! Owns the templates of a chart that is still being read: they are parsed as soon as their file is there, while the archive
//! inflates on. Knows texts alone: names come later, and what does not parse is parsed again then, for an error with its name.

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::crew::Crew;
use super::engine::funcs;
use crate::chart::File;
use crate::profile::Profile;
use crate::template::{self, Template, UNNAMED};

/// Templates that are being parsed, and values that are being read.
pub struct Ahead(Crew<File, Done>);

/// A text and what it parsed to.
type Done = (Bytes, Vec<Template>);

impl Ahead {
    /// Nothing yet.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self(Crew::new(move |file: File| {
            if file.is_values() {
                file.values.read(&file.data, profile);
                return None;
            }
            let templates = template::parse(UNNAMED, &file.data, funcs(profile)).ok()?;
            Some((file.data, templates))
        }))
    }

    /// Starts on a chart's file if it is a template or has values in it, one of an unpacked subchart too.
    pub fn push(&mut self, file: &File) {
        if file.name.starts_with("templates/") || file.name.contains("/templates/") || file.is_values() {
            self.0.push(file.clone(), file.data.len());
        }
    }

    /// Helps with what is left; gives the templates by the address of their text.
    pub(super) fn finish(self) -> FxHashMap<usize, Done> {
        self.0.finish().into_iter().map(|d| (d.0.as_ptr().addr(), d)).collect()
    }
}
