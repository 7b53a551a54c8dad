//! What there is: the metadata of objects, and the recorded history of a release.
//!
//! Owns how both are read in few requests. Writes nothing and decides nothing.

pub(crate) mod observed_objects;
pub(crate) mod release_history;
