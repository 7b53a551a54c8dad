//! Releases for people and front ends: lists, histories, plans as text, causes of revisions, live objects.
//!
//! Owns words and layout, and the reads that they need. Writes nothing but the namespace of a record that names a wrong one, deletes
//! nothing but records that cannot be read, and decides nothing.

pub(crate) mod plan_text;
pub(crate) mod record_namespace;
pub(crate) mod release_records;
pub(crate) mod revision_report;
pub(crate) mod status_resources;
pub(crate) mod unreadable_records;
