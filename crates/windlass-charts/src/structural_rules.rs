//! What the API server requires of the schema of a CustomResourceDefinition (`apiextensions.k8s.io/v1`, structural schemas).

use serde_json::Value;

use crate::Object;
use crate::structural_schema::{INT_OR_STRING, PRESERVE};

/// A rule that a schema breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The place in the schema, such as `properties.image.type`.
    pub path: String,
    /// The rule.
    pub text: String,
}

/// Whether the value of a key is permitted.
type Check = fn(&Value) -> bool;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// What checks a value, inside and outside of alternatives; with the type of each.
const CHECKS: [(&str, Check); 18] = [
    ("enum", is_filled),
    ("pattern", Value::is_string),
    ("format", Value::is_string),
    ("minimum", Value::is_number),
    ("maximum", Value::is_number),
    ("exclusiveMinimum", Value::is_boolean),
    ("exclusiveMaximum", Value::is_boolean),
    ("multipleOf", Value::is_number),
    ("minLength", Value::is_u64),
    ("maxLength", Value::is_u64),
    ("minItems", Value::is_u64),
    ("maxItems", Value::is_u64),
    ("minProperties", Value::is_u64),
    ("maxProperties", Value::is_u64),
    ("required", is_filled),
    ("allOf", is_filled),
    ("anyOf", is_filled),
    ("oneOf", is_filled),
];
/// What declares the structure, outside of alternatives only.
const DECLARATIONS: [(&str, Check); 13] = [
    ("type", is_type),
    ("description", Value::is_string),
    ("title", Value::is_string),
    ("default", |_| true),
    ("example", |_| true),
    ("nullable", Value::is_boolean),
    ("additionalProperties", |value| value.is_object() || *value == Value::Bool(true)),
    (PRESERVE, is_true),
    (INT_OR_STRING, Value::is_boolean),
    ("x-kubernetes-list-type", Value::is_string),
    ("x-kubernetes-list-map-keys", is_filled),
    ("x-kubernetes-map-type", Value::is_string),
    ("x-kubernetes-validations", is_filled),
];

fn is_filled(value: &Value) -> bool {
    value.as_array().is_some_and(|all| !all.is_empty())
}

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

fn is_type(value: &Value) -> bool {
    value.as_str().is_some_and(|name| TYPES.contains(&name))
}

/// The rules that a schema breaks, with their places.
#[must_use]
pub fn violations(schema: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    structure(schema, "", &mut found);
    found
}

fn report(found: &mut Vec<Violation>, path: &str, text: impl Into<String>) {
    found.push(Violation { path: path.trim_start_matches('.').to_owned(), text: text.into() });
}

fn structure(schema: &Value, path: &str, found: &mut Vec<Violation>) {
    let Value::Object(node) = schema else { return report(found, path, format!("{schema} is not a schema")) };
    for (key, value) in node {
        let known = CHECKS.iter().chain(&DECLARATIONS).find(|(name, _)| name == key);
        match known {
            Some((_, valid)) if !valid(value) => {
                report(found, &format!("{path}.{key}"), format!("{value} is not permitted here"));
            }
            None if !matches!(key.as_str(), "properties" | "items" | "not") => {
                report(found, &format!("{path}.{key}"), "a CustomResourceDefinition has no such keyword");
            }
            _ => {}
        }
    }
    let open = node.get(PRESERVE) == Some(&Value::Bool(true));
    let either = node.get(INT_OR_STRING) == Some(&Value::Bool(true));
    match node.get("type") {
        None if !open && !either => {
            report(found, path, format!("it needs a type, {PRESERVE} or {INT_OR_STRING}"));
        }
        Some(_) if either => report(found, path, format!("a type beside {INT_OR_STRING} is not permitted")),
        Some(Value::String(name)) if name == "array" && !node.contains_key("items") => {
            report(found, path, "an array needs items");
        }
        _ => {}
    }
    if node.contains_key("properties") && node.contains_key("additionalProperties") {
        report(found, path, "properties and additionalProperties exclude each other");
    }
    rules_of_checks(node, path, found);
    match node.get("properties") {
        Some(Value::Object(properties)) => {
            for (name, inside) in properties {
                structure(inside, &format!("{path}.properties.{name}"), found);
            }
        }
        Some(other) => report(found, path, format!("properties must be a map, not {other}")),
        None => {}
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inside) = node.get(key).filter(|inside| key == "items" || inside.is_object()) {
            structure(inside, &format!("{path}.{key}"), found);
        }
    }
    alternatives(node, node, path, found);
}

/// Patterns, and bounds without a limit.
fn rules_of_checks(node: &Object, path: &str, found: &mut Vec<Violation>) {
    if let Some(Value::String(pattern)) = node.get("pattern")
        && let Err(error) = chart_compat::go::regexp::compile(pattern.as_bytes())
    {
        report(found, &format!("{path}.pattern"), error);
    }
    for (bound, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if node.contains_key(bound) && !node.contains_key(limit) {
            report(found, &format!("{path}.{bound}"), format!("it needs {limit} beside it"));
        }
    }
}

fn alternatives(node: &Object, outside: &Object, path: &str, found: &mut Vec<Violation>) {
    for key in ["allOf", "anyOf", "oneOf"] {
        for (at, branch) in node.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            checks(branch, outside, &format!("{path}.{key}[{at}]"), found);
        }
    }
    if let Some(branch) = node.get("not") {
        checks(branch, outside, &format!("{path}.not"), found);
    }
}

/// A schema inside of alternatives. `outside`: the structure of the same value.
fn checks(schema: &Value, outside: &Object, path: &str, found: &mut Vec<Violation>) {
    let Value::Object(node) = schema else { return report(found, path, format!("{schema} is not a schema")) };
    for (key, value) in node {
        match CHECKS.iter().find(|(name, _)| name == key) {
            Some((_, valid)) if valid(value) => {}
            None if matches!(key.as_str(), "properties" | "items" | "not") => {}
            _ => {
                report(
                    found,
                    &format!("{path}.{key}"),
                    "not permitted inside of allOf, anyOf, oneOf and not",
                );
            }
        }
    }
    rules_of_checks(node, path, found);
    for (name, inside) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.properties.{name}");
        match outside.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object) {
            Some(outside) => checks(inside, outside, &path, found),
            None => report(found, &path, "it must be declared outside of allOf, anyOf, oneOf and not, too"),
        }
    }
    if let Some(inside) = node.get("items") {
        match outside.get("items").and_then(Value::as_object) {
            Some(outside) => checks(inside, outside, &format!("{path}.items"), found),
            None => report(found, &format!("{path}.items"), "it must be declared outside, too"),
        }
    }
    alternatives(node, outside, path, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_broken_rule_has_its_place() {
        for (schema, path) in [
            (json!({"type": "text"}), "type"),
            (json!({"type": "object", "properties": {"a": {}}}), "properties.a"),
            (json!({"type": "object", "properties": {"a": true}}), "properties.a"),
            (json!({"type": "array"}), ""),
            (json!({"type": "array", "items": {"type": "string", "const": 1}}), "items.const"),
            (json!({"type": "object", "additionalProperties": false}), "additionalProperties"),
            (json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}), ""),
            (json!({"type": "string", "pattern": "(?=a)"}), "pattern"),
            (json!({"type": "string", "minLength": 1.5}), "minLength"),
            (json!({"type": "integer", "exclusiveMinimum": true}), "exclusiveMinimum"),
            (json!({"type": "integer", "minimum": 1, "exclusiveMinimum": 2}), "exclusiveMinimum"),
            (json!({"type": "integer", "x-kubernetes-int-or-string": true}), ""),
            (json!({"type": "string", "uniqueItems": true}), "uniqueItems"),
            (json!({"type": "string", "anyOf": [{"type": "string"}]}), "anyOf[0].type"),
            (json!({"type": "object", "not": {"properties": {"a": {"minimum": 1}}}}), "not.properties.a"),
            (
                json!({"type": "object", "oneOf": [{"anyOf": [{"nullable": true}]}]}),
                "oneOf[0].anyOf[0].nullable",
            ),
            (json!({"type": "object", "allOf": [{"items": {"minimum": 1}}]}), "allOf[0].items"),
        ] {
            let found = violations(&schema);
            assert_eq!(found.iter().map(|v| v.path.as_str()).collect::<Vec<_>>(), [path], "{schema}");
        }
        let good = json!({"type": "object", "required": ["a"], "properties": {"a": {"x-kubernetes-int-or-string": true},
            "b": {"type": "object", "additionalProperties": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}}}},
            "anyOf": [{"required": ["b"]}, {"properties": {"a": {"enum": [1]}}}], "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(violations(&good), []);
    }
}
