//! Charts as custom resources.
//!
//! Owns the CustomResourceDefinition of a chart: a kind whose spec is the chart's values. Knows no file, cluster or release.
//!
//! - `structural_schema`: JSON Schema to the structural schemas that the API server takes; with `schema_document` (references),
//!   `schema_fold` (`allOf`), `schema_alternatives` (`oneOf`, `anyOf`, `not`)
//! - `inferred_schema`: a JSON Schema from `values.yaml`; with `value_comments`
//! - `subchart_values`: the values that a chart brings itself; what the schema of its subcharts adds
//! - `structural_rules`: what the API server requires of a schema; `schema_overlay`: edits by hand
//! - `chart_definition`, `kind_names`, `example_object`: the objects
//! - `value_switches`: the values that decide which objects a chart makes; `pairwise`: combinations of their settings

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(missing_docs)]

mod chart_definition;
mod example_object;
mod inferred_schema;
mod kind_names;
mod pairwise;
mod schema_alternatives;
mod schema_document;
mod schema_fold;
mod schema_overlay;
mod structural_rules;
mod structural_schema;
mod subchart_values;
mod value_comments;
mod value_switches;

#[cfg(test)]
mod tests;

pub use chart_definition::{Definition, DefinitionError, DefinitionOptions, define};
pub use kind_names::{DEFAULT_GROUP, DEFAULT_VERSION, KindNames, NameError, plural};
pub use pairwise::{Choice, Pairwise};
pub use schema_overlay::{Overlay, OverlayError};
pub use structural_rules::{Violation, violations};
pub use value_switches::{MAX_SWITCHES, Setting, Switch, Switches};

/// What a schema loses on its way into a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warning {
    /// What is lost, and what happens instead.
    pub text: String,
    /// The place in the values, such as `$.image.tag`; items of lists are `[]`, values of maps `*`.
    pub path: String,
}

/// A JSON object.
pub(crate) type Object = serde_json::Map<String, serde_json::Value>;
