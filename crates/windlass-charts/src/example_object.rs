//! An object that the schema of a kind accepts.

use chart_compat::go::regexp;
use serde_json::{Value, json};

use crate::structural_schema::INT_OR_STRING;
use crate::{Object, Warning};

/// Texts that most patterns ask for one of.
const TEXTS: [&str; 16] = [
    "example",
    "example.com",
    "https://example.com",
    "1",
    "1.0.0",
    "v1.0.0",
    "10m",
    "1Gi",
    "10.0.0.1",
    "10.0.0.0/8",
    "user@example.com",
    "example:latest",
    "/example",
    "EXAMPLE",
    "2006-01-02T15:04:05Z",
    "0123456789abcdef0123456789abcdef",
];

/// The smallest value of a schema: what is required, and no more.
pub(crate) fn example(schema: &Object, at: &str, warnings: &mut Vec<Warning>) -> Value {
    if let Some(value) = schema.get("default") {
        return value.clone();
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values.first().cloned().unwrap_or_default();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => object(schema, at, warnings),
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(16);
            let items = schema.get("items").and_then(Value::as_object).cloned().unwrap_or_default();
            (0..least).map(|_| example(&items, &format!("{at}[]"), warnings)).collect()
        }
        Some("boolean") => json!(false),
        Some("integer" | "number") => number(schema),
        Some("string") => text(schema, at, warnings),
        _ if schema.contains_key(INT_OR_STRING) => number(schema),
        _ => json!({}),
    }
}

fn object(schema: &Object, at: &str, warnings: &mut Vec<Warning>) -> Value {
    let mut names: Vec<&str> = Vec::new();
    let branch =
        ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.get(0)).filter_map(Value::as_object);
    let all =
        schema.get("allOf").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    let branches: Vec<&Object> = std::iter::once(schema).chain(branch).chain(all).collect();
    for node in &branches {
        names.extend(
            node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str),
        );
    }
    let mut out = Object::new();
    for name in names {
        let mut inside = field(schema, name);
        // What the first alternative asks for.
        for node in branches.iter().skip(1) {
            inside.extend(field(node, name));
        }
        out.insert(name.to_owned(), example(&inside, &format!("{at}.{name}"), warnings));
    }
    Value::Object(out)
}

fn field(schema: &Object, name: &str) -> Object {
    let declared =
        schema.get("properties").and_then(|all| all.get(name)).or_else(|| schema.get("additionalProperties"));
    declared.and_then(Value::as_object).cloned().unwrap_or_default()
}

fn number(schema: &Object) -> Value {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let exclusive = |key: &str| schema.get(key) == Some(&json!(true));
    let mut value = limit("minimum")
        .map_or(1.0, |least| if exclusive("exclusiveMinimum") { least + 1.0 } else { least.ceil() });
    if let Some(most) = limit("maximum") {
        value = value.min(if exclusive("exclusiveMaximum") { most - 1.0 } else { most.floor() });
    }
    if let Some(step) = limit("multipleOf").filter(|step| *step > 0.0) {
        value = (value / step).ceil() * step;
    }
    #[allow(clippy::cast_possible_truncation, reason = "it is whole and in range")]
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

fn text(schema: &Object, at: &str, warnings: &mut Vec<Warning>) -> Value {
    let limit = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let (least, most) = (limit("minLength").unwrap_or(0).min(4096), limit("maxLength").unwrap_or(usize::MAX));
    let pattern =
        schema.get("pattern").and_then(Value::as_str).and_then(|p| regexp::compile(p.as_bytes()).ok());
    let by_format = match schema.get("format").and_then(Value::as_str) {
        Some("uri" | "url") => Some("https://example.com"),
        Some("email") => Some("user@example.com"),
        Some("ipv4" | "ip") => Some("10.0.0.1"),
        Some("ipv6") => Some("fd00::1"),
        Some("cidr") => Some("10.0.0.0/8"),
        Some("date-time") => Some("2006-01-02T15:04:05Z"),
        Some("date") => Some("2006-01-02"),
        Some("duration") => Some("1h"),
        Some("uuid") => Some("00000000-0000-4000-8000-000000000000"),
        _ => None,
    };
    let long = "x".repeat(least);
    let short: String = "example".chars().take(most).collect();
    let mut candidates = by_format.into_iter().chain(TEXTS).chain([long.as_str(), short.as_str()]);
    let fits = |text: &str| {
        (least..=most).contains(&text.chars().count())
            && pattern.as_ref().is_none_or(|p| p.is_match(text.as_bytes()))
    };
    match candidates.find(|text| fits(text)) {
        Some(text) => json!(text),
        None => {
            let text = "the example has no value for its pattern: set one".to_owned();
            warnings.push(Warning { text, path: at.to_owned() });
            json!(long)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_what_is_required() {
        for (schema, expected) in [
            (json!({"type": "object", "properties": {"a": {"type": "string"}}}), json!({})),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^v[0-9]"}}}),
                json!({"a": "v1.0.0"}),
            ),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "minimum": 3, "exclusiveMinimum": true}}}),
                json!({"a": 4}),
            ),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "array", "minItems": 1,
                "items": {"type": "string", "enum": ["x"]}}}}),
                json!({"a": ["x"]}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"],
                "properties": {"a": {"enum": ["z"]}}}]}),
                json!({"a": "z"}),
            ),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 2}}}),
                json!({"a": "1"}),
            ),
        ] {
            let mut warnings = Vec::new();
            assert_eq!(example(schema.as_object().unwrap(), "$", &mut warnings), expected, "{schema}");
            assert_eq!(warnings, []);
        }
    }

    #[test]
    fn a_pattern_without_a_known_value_is_a_warning() {
        let schema = json!({"type": "string", "pattern": "^zzz-[0-9]{40}$"});
        let mut warnings = Vec::new();
        example(schema.as_object().unwrap(), "$.a", &mut warnings);
        assert_eq!(warnings[0].path, "$.a");
    }
}
