//! Reports about a release for people: plans as text, progress, causes of revisions, objects that are not ready.
//!
//! Owns words and layout, and the reads that they need. Writes nothing to the cluster and decides nothing.

pub(crate) mod not_ready;
pub(crate) mod operation_progress;
pub(crate) mod plan_text;
pub(crate) mod revision_report;
pub(crate) mod status_resources;
