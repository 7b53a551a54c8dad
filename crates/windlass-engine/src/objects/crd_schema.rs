//! Which fields a CustomResourceDefinition's schema keeps: the server drops all others from objects that it stores
//! and reads. Pure.

use serde_json::{Value, json};
use std::sync::LazyLock;

/// A schema that keeps everything.
static ANYTHING: LazyLock<Value> = LazyLock::new(|| json!({"x-kubernetes-preserve-unknown-fields": true}));
/// Fields of every object, whatever its schema is.
pub(crate) const OF_ALL_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The schema of a version of a CRD.
pub(crate) fn of_version(crd: &Value, version: &Value) -> Value {
    // A CRD of v1beta1: nothing is dropped, whatever its schemas are.
    let mut schema = match crd["spec"]["preserveUnknownFields"].as_bool() {
        Some(true) => ANYTHING.clone(),
        _ => version["schema"]["openAPIV3Schema"].clone(),
    };
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("x-kubernetes-embedded-resource".to_owned(), true.into());
    }
    schema
}

/// The schema of a field, `None` if the field is dropped.
pub(crate) fn field<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    if is_object(schema) && OF_ALL_OBJECTS.contains(&name) {
        return Some(&ANYTHING);
    }
    schema["properties"].get(name).or_else(|| others(schema))
}

/// The schema of unnamed fields, `None` if they are dropped.
pub(crate) fn others(schema: &Value) -> Option<&Value> {
    match &schema["additionalProperties"] {
        given @ Value::Object(_) => Some(given),
        // The field is kept, and its own fields are not.
        Value::Bool(true) => Some(&Value::Null),
        _ => keeps_all(schema).then_some(&*ANYTHING),
    }
}

/// The schema of the items of a list.
pub(crate) fn items(schema: &Value) -> Option<&Value> {
    match &schema["items"] {
        given @ Value::Object(_) => Some(given),
        _ => keeps_all(schema).then_some(&*ANYTHING),
    }
}

/// Whether values of a schema are whole objects with a kind, or the resources themselves.
pub(crate) fn is_object(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == Value::Bool(true)
}

/// Whether values of a schema may have fields.
pub(crate) fn is_scalar(schema: &Value) -> bool {
    let named = matches!(schema["type"].as_str(), Some("string" | "integer" | "number" | "boolean"));
    named || schema["x-kubernetes-int-or-string"] == Value::Bool(true)
}

/// Whether a schema would drop fields of a value.
pub(crate) fn drops(schema: &Value, value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| field(schema, name).is_none_or(|schema| drops(schema, value)))
        }
        Value::Array(list) => {
            let schema = items(schema).unwrap_or(&Value::Null);
            list.iter().any(|item| drops(schema, item))
        }
        _ => false,
    }
}

fn keeps_all(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kept_as_the_server_keeps_them() {
        let open = || json!({"x-kubernetes-preserve-unknown-fields": true});
        let closed = || json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let mut both = closed();
        both["x-kubernetes-preserve-unknown-fields"] = true.into();
        let of_objects = json!({"type": "object", "additionalProperties": closed()});
        let table = [
            (json!({"type": "object"}), json!({}), false),
            (json!({"type": "object"}), json!({"a": 1}), true),
            (open(), json!({"a": {"b": [{"c": 1}]}}), false),
            (closed(), json!({"a": "x"}), false),
            (closed(), json!({"a": "x", "b": 1}), true),
            (both.clone(), json!({"a": "x", "b": {"c": 1}}), false),
            // Named fields follow their schema, also where others are kept.
            (both, json!({"a": {"c": 1}}), true),
            (of_objects.clone(), json!({"x": {"a": "1"}, "y": {}}), false),
            (of_objects, json!({"x": {"b": "1"}}), true),
            (json!({"additionalProperties": true}), json!({"x": "1", "y": ["2"]}), false),
            (json!({"additionalProperties": true}), json!({"x": {"y": "1"}}), true),
            (json!({"type": "array", "items": closed()}), json!([{"a": "x"}]), false),
            (json!({"type": "array", "items": closed()}), json!([{"a": "x"}, {"b": 1}]), true),
            (
                json!({"x-kubernetes-embedded-resource": true}),
                json!({"kind": "X", "metadata": {"a": 1}}),
                false,
            ),
            (json!({"x-kubernetes-embedded-resource": true}), json!({"kind": "X", "spec": {}}), true),
        ];
        for (schema, value, expected) in table {
            assert_eq!(drops(&schema, &value), expected, "{schema} {value}");
        }
    }

    #[test]
    fn a_resource_keeps_what_makes_it_one() {
        let version = json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}});
        let one = json!({"apiVersion": "g/v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"a": 1}});
        assert!(drops(&of_version(&json!({}), &version), &one));
        let old = json!({"spec": {"preserveUnknownFields": true}});
        assert!(!drops(&of_version(&old, &version), &one));
        let without = json!({"apiVersion": "g/v1", "kind": "X", "metadata": {"name": "x"}, "spec": {}});
        assert!(!drops(&of_version(&json!({}), &version), &without));
    }
}
