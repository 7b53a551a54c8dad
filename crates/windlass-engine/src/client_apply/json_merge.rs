//! JSON merge patches (RFC 7386): of two documents, and of three. Pure.

use serde_json::{Map, Value};

/// The patch from one document to another: lists are replaced, fields that left are null.
pub(super) fn two_way(original: &Value, modified: &Value) -> Value {
    let empty = Map::new();
    Value::Object(difference(original.as_object().unwrap_or(&empty), modified.as_object().unwrap_or(&empty)))
}

/// What the live document lacks or has otherwise, and what left the manifest.
pub(super) fn three_way(original: &Value, modified: &Value, current: &Value) -> Value {
    let changes = changes_of(&two_way(current, modified)).unwrap_or_else(|| Value::Object(Map::new()));
    let mut patch = nulls_of(&two_way(original, modified)).unwrap_or_else(|| Value::Object(Map::new()));
    merge(&mut patch, changes);
    patch
}

fn difference(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, new) in to {
        match (from.get(key), new) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let inner = difference(old, new);
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Some(old), new) if old == new => {}
            _ => {
                patch.insert(key.clone(), new.clone());
            }
        }
    }
    let gone = from.keys().filter(|key| !to.contains_key(*key));
    patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    patch
}

/// A patch without its nulls; `None` if nothing is left of it. An empty object is a value.
fn changes_of(patch: &Value) -> Option<Value> {
    match patch {
        Value::Null => None,
        Value::Object(map) if !map.is_empty() => {
            let kept = map.iter().filter_map(|(key, value)| Some((key.clone(), changes_of(value)?)));
            let kept: Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other.clone()),
    }
}

/// Only the nulls of a patch; `None` if it has none.
fn nulls_of(patch: &Value) -> Option<Value> {
    match patch {
        Value::Null => Some(Value::Null),
        Value::Object(map) => {
            let kept = map.iter().filter_map(|(key, value)| Some((key.clone(), nulls_of(value)?)));
            let kept: Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        _ => None,
    }
}

/// Lays changes over the deletions.
fn merge(patch: &mut Value, changes: Value) {
    match (patch, changes) {
        (Value::Object(map), Value::Object(changes)) => {
            for (key, change) in changes {
                match map.get_mut(&key) {
                    Some(slot) if !slot.is_null() => merge(slot, change),
                    _ => {
                        map.insert(key, without_nulls(change));
                    }
                }
            }
        }
        (slot, change) => *slot = change,
    }
}

/// A value without the fields that are null, those of the items of its lists too.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
