//! Generators of questions. Each puts its simplest alternative first, so that fewer choices make simpler questions.

pub(crate) mod formats;
mod functions;
pub(crate) mod patterns;
pub(crate) mod set;
pub(crate) mod template;
mod text;
pub(crate) mod tree;
pub(crate) mod versions;
pub(crate) mod yaml;
