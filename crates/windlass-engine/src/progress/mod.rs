//! Progress of operations, for listeners such as a terminal, and why an object is not ready.
//!
//! Owns what is reported while an operation runs. Decides nothing and writes nothing.

pub(crate) mod not_ready;
pub(crate) mod operation_progress;
