//! Explanations for users: where a value comes from, and the context of an error.
//!
//! Owns the layers of values and their origins, and reports that show source lines. Values and Helm's error texts come
//! from the renderer.

mod diagnose;
mod layers;
mod nearest;
mod report;
mod trace;

pub use diagnose::{chart_report, file_report, render_report};
pub use layers::{Layer, Layers};
pub use nearest::nearest;
pub use report::{Place, Report};
pub use trace::{Added, Explanation, IgnoredNull, Origin, Setting, Trace};

#[cfg(test)]
mod tests;
