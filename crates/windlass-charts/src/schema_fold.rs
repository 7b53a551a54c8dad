//! Two schemas that both have to hold, as one: how `allOf` disappears.

use serde_json::{Value, json};

use crate::Object;

/// Keywords that check nothing: the first schema's stays.
pub(crate) const ANNOTATIONS: [&str; 20] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "$vocabulary",
    "contentMediaType",
    "default",
    "definitions",
    "deprecated",
    "description",
    "example",
    "examples",
    "externalDocs",
    "id",
    "markdownDescription",
    "readOnly",
    "title",
    "writeOnly",
    "xml",
];

/// Adds what `other` requires. What one schema cannot say of both is left in `allOf`, a keyword each.
pub(crate) fn fold(base: &mut Object, other: Object) {
    for (key, value) in other {
        let Some(own) = base.get_mut(&key) else {
            base.insert(key, value);
            continue;
        };
        if *own == value || ANNOTATIONS.contains(&key.as_str()) {
            continue;
        }
        if !fold_keyword(&key, own, &value) {
            let rest = json!({ key: value });
            match base.entry("allOf").or_insert_with(|| json!([])) {
                Value::Array(all) => all.push(rest),
                other => *other = json!([rest]),
            }
        }
    }
}

/// Whether both values of a keyword have become one.
fn fold_keyword(key: &str, own: &mut Value, other: &Value) -> bool {
    match (key, &mut *own, other) {
        ("allOf", Value::Array(own), Value::Array(other)) => own.extend(other.iter().cloned()),
        ("type", _, _) => *own = common_types(own, other),
        ("enum", Value::Array(own), Value::Array(other)) => own.retain(|value| other.contains(value)),
        ("required", Value::Array(own), Value::Array(other)) => {
            let new: Vec<Value> = other.iter().filter(|name| !own.contains(name)).cloned().collect();
            own.extend(new);
        }
        ("properties", Value::Object(own), Value::Object(other)) => {
            for (name, schema) in other {
                match own.get_mut(name) {
                    Some(first) => *first = both(first, schema),
                    None => drop(own.insert(name.clone(), schema.clone())),
                }
            }
        }
        ("additionalProperties", Value::Bool(false), _) | ("additionalProperties", _, Value::Bool(true)) => {}
        ("additionalProperties", _, Value::Bool(false)) | ("additionalProperties", Value::Bool(true), _) => {
            *own = other.clone();
        }
        ("items" | "additionalProperties", Value::Object(_), Value::Object(_)) => *own = both(own, other),
        ("minLength" | "minItems" | "minProperties" | "minimum", _, _) => {
            *own = chosen(own, other, |a, b| a < b);
        }
        ("maxLength" | "maxItems" | "maxProperties" | "maximum", _, _) => {
            *own = chosen(own, other, |a, b| a > b);
        }
        _ => return false,
    }
    true
}

fn both(first: &Value, second: &Value) -> Value {
    if first == second { first.clone() } else { json!({ "allOf": [first, second] }) }
}

/// The stricter one of two limits.
fn chosen(own: &Value, other: &Value, looser: fn(f64, f64) -> bool) -> Value {
    match (own.as_f64(), other.as_f64()) {
        (Some(a), Some(b)) if looser(a, b) => other.clone(),
        (None, _) => other.clone(),
        _ => own.clone(),
    }
}

/// The types that both lists permit. Where there are none, no value is valid: the first list stays.
fn common_types(own: &Value, other: &Value) -> Value {
    let list = |value: &Value| match value {
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    let (own_list, other_list) = (list(own), list(other));
    let is = |list: &[Value], name: &str| list.iter().any(|v| v == name);
    let mut common: Vec<Value> = own_list.iter().filter(|t| other_list.contains(t)).cloned().collect();
    for (wide, narrow) in [(&own_list, &other_list), (&other_list, &own_list)] {
        if is(wide, "number") && is(narrow, "integer") && !is(&common, "integer") && !is(&common, "number") {
            common.push(json!("integer"));
        }
    }
    match common.len() {
        0 => own.clone(),
        1 => common.remove(0),
        _ => Value::Array(common),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_folded() {
        let table = [
            (json!({"type": "string"}), json!({"minLength": 1}), json!({"type": "string", "minLength": 1})),
            (json!({"type": ["string", "null"]}), json!({"type": "string"}), json!({"type": "string"})),
            (json!({"type": "number"}), json!({"type": "integer"}), json!({"type": "integer"})),
            (
                json!({"minimum": 1, "maximum": 9}),
                json!({"minimum": 2, "maximum": 7}),
                json!({"minimum": 2, "maximum": 7}),
            ),
            (json!({"enum": [1, 2]}), json!({"enum": [2, 3]}), json!({"enum": [2]})),
            (json!({"required": ["a"]}), json!({"required": ["b", "a"]}), json!({"required": ["a", "b"]})),
            (
                json!({"properties": {"a": {"type": "string"}}}),
                json!({"properties": {"a": {"maxLength": 3}, "b": true}}),
                json!({"properties": {"a": {"allOf": [{"type": "string"}, {"maxLength": 3}]}, "b": true}}),
            ),
            (
                json!({"additionalProperties": {"type": "string"}}),
                json!({"additionalProperties": false}),
                json!({"additionalProperties": false}),
            ),
            (
                json!({"pattern": "a"}),
                json!({"pattern": "b"}),
                json!({"pattern": "a", "allOf": [{"pattern": "b"}]}),
            ),
            (json!({"description": "x"}), json!({"description": "y"}), json!({"description": "x"})),
        ];
        for (first, second, expected) in table {
            let (mut base, other) = (first.as_object().unwrap().clone(), second.as_object().unwrap().clone());
            fold(&mut base, other);
            assert_eq!(Value::Object(base), expected, "{first} {second}");
        }
    }
}
