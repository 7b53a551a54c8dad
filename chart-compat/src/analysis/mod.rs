//! Static analysis of a chart's templates: which values they read, and which decide what objects they write.
//!
//! Owns the abstract values of expressions. Runs no template: what it finds holds for all values of a user.

mod chart_tree;
mod gates;
mod reads;

pub(crate) use chart_tree::ChartTree;
pub use gates::{Gates, gates};
pub(crate) use reads::{Reader, Scope, ValuePath};
