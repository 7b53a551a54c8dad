//! Patches of client-side apply: from the last manifest, the new one and the live object to what is sent. Pure.
//!
//! As Helm's client: built-in kinds get a strategic merge patch, all others a JSON merge patch. Owns the merges and the schema of the
//! built-in kinds. Knows nothing of requests, field managers and releases.

mod json_merge;
mod list_places;
mod merge_schema;
mod strategic;

use serde_json::{Number, Value};
use windlass_cluster::{Gvk, PatchKind};

/// Why no patch can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The live object and the manifest differ below a field that the kind does not have.
    #[error("{type_name} has no field {field:?} that holds an object or a list; remove it from the manifest")]
    UnknownField { type_name: &'static str, field: String },
    #[error(
        "an item of {list} is not an object with the field {key:?}, by which its items are merged: {item}"
    )]
    NoMergeKey { list: String, key: String, item: String },
    #[error("the items of {0} are not of one type, or are lists themselves")]
    MixedItems(String),
    #[error("$patch must be a text")]
    Directive,
}

/// A patch, in the form in which it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Patch {
    pub(crate) kind: PatchKind,
    pub(crate) body: Value,
}

/// The three states of an object that a patch is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct States<'v> {
    /// As in the manifest before; null if it had none.
    pub(crate) original: &'v Value,
    /// As in the manifest now.
    pub(crate) modified: &'v Value,
    /// As it is in the cluster.
    pub(crate) current: &'v Value,
}

/// Which states count for kinds that are not built in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Custom {
    /// The two manifests: a change that others made stays, as with Helm.
    Manifests,
    /// All three.
    All,
}

/// The patch that brings the live object to the new manifest; `None` if there is nothing to change.
///
/// # Errors
/// The states cannot be merged by the schema of their kind.
pub(crate) fn patch(gvk: &Gvk, states: States<'_>, custom: Custom) -> Result<Option<Patch>, MergeError> {
    let object =
        |value: &Value| if value.is_null() { Value::Object(serde_json::Map::new()) } else { plain(value) };
    let (original, modified, current) =
        (object(states.original), object(states.modified), object(states.current));
    let patch = match merge_schema::of_kind(&gvk.api_version(), &gvk.kind) {
        Some(schema) => {
            let body = strategic::three_way(&original, &modified, &current, schema)?;
            Patch { kind: PatchKind::Strategic, body }
        }
        None => {
            let body = match custom {
                Custom::Manifests => json_merge::two_way(&original, &modified),
                Custom::All => json_merge::three_way(&original, &modified, &current),
            };
            Patch { kind: PatchKind::Merge, body }
        }
    };
    let empty = patch.body.as_object().is_none_or(serde_json::Map::is_empty);
    Ok((!empty).then_some(patch))
}

/// The value with numbers as Go writes and reads them: whole ones are integers, however they were written, unless they are too large.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(plain_number(number)),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), plain(v))).collect()),
        other => other.clone(),
    }
}

fn plain_number(number: &Number) -> Number {
    /// 2 to the 63rd.
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if number.is_i64() {
        return number.clone();
    }
    let float = number.as_f64().unwrap_or_default();
    #[allow(clippy::cast_possible_truncation, reason = "whole, and within the bounds of the type")]
    if float.fract() == 0.0 && float.abs() < BEYOND {
        return (float as i64).into();
    }
    Number::from_f64(float).unwrap_or_else(|| number.clone())
}

#[cfg(test)]
mod tests;
