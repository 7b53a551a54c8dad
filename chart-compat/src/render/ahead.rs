//! Parsing templates before anyone knows under which path they stand, and reading values and their schema before anyone asks for
//! them.
//!
//! Owns the templates of a chart that is still being read: they are parsed as soon as their file is there, while the archive
//! inflates on. Knows texts alone: names come later, and what does not parse is parsed again then, for an error with its name.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::beside::Begins;
use super::crew::Crew;
use super::engine::funcs;
use super::schema::Known;
use crate::chart::File;
use crate::profile::Profile;
use crate::template::{self, Template, UNNAMED};

/// Templates that are being parsed, values and a schema that are being read.
pub struct Ahead {
    crew: Crew<Early, Done>,
    /// The chart's own schema, with its text.
    schema: Option<(Bytes, EarlySchema)>,
}

/// A schema that two threads may ask for: the first one reads it, the other waits.
type EarlySchema = Arc<OnceLock<Result<Arc<Known>, String>>>;

/// A text to work on.
enum Early {
    Template(Bytes),
    Values(File),
    Schema(Bytes, EarlySchema),
}

/// A text and what it parsed to.
type Done = (Bytes, Vec<Template>);

impl Ahead {
    /// Nothing yet.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let crew = Crew::new(Begins::Beside, move |text| match text {
            Early::Template(text) => {
                let templates = template::parse(UNNAMED, &text, funcs(profile)).ok()?;
                Some((text, templates))
            }
            Early::Values(file) => {
                file.values.read(&file.data, profile);
                None
            }
            Early::Schema(text, schema) => {
                schema.get_or_init(|| Known::read(&text).map(Arc::new));
                None
            }
        });
        Self { crew, schema: None }
    }

    /// Starts on a chart's file if it is a template or has values in it, one of an unpacked subchart too, or is the chart's schema.
    pub fn push(&mut self, file: &File) {
        let text = if file.name.starts_with("templates/") || file.name.contains("/templates/") {
            Early::Template(file.data.clone())
        } else if file.is_values() {
            Early::Values(file.clone())
        } else if file.name == "values.schema.json" {
            let (_, schema) = self.schema.insert((file.data.clone(), EarlySchema::default()));
            Early::Schema(file.data.clone(), Arc::clone(schema))
        } else {
            return;
        };
        self.crew.push(text, file.data.len());
    }

    /// A schema, if it is the one that is read ahead.
    pub(super) fn schema(&self, text: &Bytes) -> Option<Result<Arc<Known>, String>> {
        // Both are alive, so that one address is one text.
        let (_, schema) = self.schema.as_ref().filter(|(own, _)| own.as_ptr() == text.as_ptr())?;
        Some(schema.get_or_init(|| Known::read(text).map(Arc::new)).clone())
    }

    /// Helps with what is left; gives the templates by the address of their text.
    pub(super) fn finish(self) -> FxHashMap<usize, Done> {
        self.crew.finish().into_iter().map(|d| (d.0.as_ptr().addr(), d)).collect()
    }
}
