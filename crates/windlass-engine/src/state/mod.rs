//! What the engine remembers of releases between operations: cached revisions, expected objects, CRDs, pending events.
//!
//! All of it can be lost: it is rebuilt from records and watches. Makes no request.

pub(crate) mod crd_tracker;
pub(crate) mod deletion_waits;
pub(crate) mod engine_state;
pub(crate) mod expected_object;
