//! The rendered content of a record: its manifests and hooks, parsed, and their digest.
//!
//! Owns the conversion from stored text to objects. Reads no cluster.

use crate::{
    objects::desired_objects::{self, Digest},
    record::{Record, RecordError, RecordedHook, secret_name, split_manifest},
    request::{ChartHook, Manifest, ManifestParser, RenderedRelease},
};
use serde_json::Value;
use windlass_base::redact;

type Result<T, E = RecordError> = std::result::Result<T, E>;

/// Parses what records store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordParser(pub(crate) ManifestParser);

impl RecordParser {
    /// Whether a revision has the objects and hooks of a state.
    pub(crate) fn has_state(self, record: &Record, state: Digest) -> bool {
        self.rendered_of(record).is_ok_and(|rendered| state_of(&rendered) == state)
    }

    /// The rendered release of a record.
    pub(crate) fn rendered_of(self, record: &Record) -> Result<RenderedRelease> {
        Ok(RenderedRelease {
            manifests: self.manifests_of(record).collect::<Result<_>>()?,
            hooks: self.hooks_of(record)?,
            crds: Vec::new(),
            notes: record.info.notes.clone(),
            checksum: String::new(),
            manifest_text: record.manifest.clone(),
        })
    }

    /// The manifests of a record, parsed one by one: all of them together are large.
    pub(crate) fn manifests_of(self, record: &Record) -> impl Iterator<Item = Result<Manifest>> {
        split_manifest(&record.manifest).into_iter().map(move |(path, text)| {
            let object = self.parsed(record, path, text)?;
            Ok(Manifest { source: path.to_owned(), text: text.to_owned(), object })
        })
    }

    /// The hooks of a record.
    pub(crate) fn hooks_of(self, record: &Record) -> Result<Vec<ChartHook>> {
        let hook = |hook: &RecordedHook| {
            Ok(ChartHook {
                name: hook.name.clone(),
                kind: hook.kind.clone(),
                path: hook.path.clone(),
                text: hook.manifest.clone(),
                object: self.parsed(record, &hook.path, &hook.manifest)?,
                events: hook.events.clone(),
                weight: hook.weight,
                delete_policies: hook.delete_policies.clone(),
                output_log_policies: hook.output_log_policies.clone(),
            })
        };
        record.hooks.iter().map(hook).collect()
    }

    /// Parses a document of a record.
    fn parsed(self, record: &Record, path: &str, text: &str) -> Result<Value> {
        let object = (self.0)(text).map_err(|reason| {
            let name = secret_name(&record.name, record.version);
            let reason = if path.is_empty() { reason } else { format!("{path}: {reason}") };
            RecordError::Manifest { name, reason }
        })?;
        redact::add_secret(&object);
        Ok(object)
    }
}

/// Digest of a release's objects and hooks.
pub(crate) fn state_of(rendered: &RenderedRelease) -> Digest {
    desired_objects::state_digest(rendered.objects(), rendered.hooks.iter().map(|h| &h.object))
}
