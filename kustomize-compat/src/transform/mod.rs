//! Transformers: changes of the same kind in many objects.
//!
//! Owns the list of them; each is a module that knows no other.

pub mod affixes;
pub mod images;
pub mod metadata;
pub mod namespace;
pub mod replacements;
pub mod replicas;
mod structured;
pub mod value_add;
