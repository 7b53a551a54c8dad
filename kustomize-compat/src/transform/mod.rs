//! Transformers: changes of the same kind in many objects.
//!
//! Owns the list of them; each is a module that knows no other.

pub mod images;
pub mod metadata;
