//! What objects read of each other: their names, and vars.
//!
//! Owns the search for what a name stands for after names have changed.

pub mod names;
pub mod vars;
