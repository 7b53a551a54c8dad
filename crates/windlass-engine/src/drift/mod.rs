//! Drift: what differs between live objects and the recorded manifest, and its correction.
//!
//! A suspicion (`state::expected_object`) is cheap and may be wrong: applying a suspect again changes nothing if nothing is wrong with
//! it. Creates no revision, and knows nothing of values or charts.

pub(crate) mod correct_drift;
pub(crate) mod drift_diff;
pub(crate) mod unchanged;
