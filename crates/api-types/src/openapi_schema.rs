//! Schemas of types in the form that CustomResourceDefinitions take: structural OpenAPI v3.
//!
//! Owns the translation of what schemars makes. Knows no kind.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// A default that the API server fills in. schemars writes what `Default` gives under `default`: fields that are absent when an
/// object is read, which no CRD says.
const SERVER_DEFAULT: &str = "x-default";

/// Formats of numbers that OpenAPI does not know.
const FORMATS: [&str; 2] = ["int32", "int64"];

/// The schema of a type, without references. What is required follows from how the type is written: fields that it may leave away
/// are optional.
#[must_use]
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().for_serialize().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The name of the Rust type.
    schema.remove("title");
    structural(schema)
}

/// The schema of a whole object: what all kinds have, and these fields (`spec`, `status`).
#[must_use]
pub fn of_object<const N: usize>(description: &str, fields: [(&str, Value); N]) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string", "description": "Group and version of the kind."},
        "kind": {"type": "string", "description": "The kind of the object."},
        "metadata": {"type": "object"},
    });
    for (name, schema) in fields {
        properties[name] = schema;
    }
    json!({"type": "object", "description": description, "properties": properties})
}

/// The schema of a list of conditions, for fields that hold them as they are.
#[must_use]
pub fn condition_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "required": ["type", "status"],
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string"},
                "reason": {"type": "string"},
                "message": {"type": "string"},
            },
        },
    })
}

fn structural(schema: Schema) -> Value {
    let Value::Object(map) = schema.to_value() else { return Value::Object(Map::new()) };
    Value::Object(map.into_iter().filter_map(|(key, value)| keyword(&key, value)).collect())
}

/// One keyword of a schema; `None` if CRDs have no such keyword.
fn keyword(key: &str, value: Value) -> Option<(String, Value)> {
    let nested = |value: Value| Schema::try_from(value).map_or(Value::Null, structural);
    let value = match (key, value) {
        // `readOnly` are fields that are not read; to the API server it means nothing.
        ("default" | "readOnly", _) => return None,
        // The API server drops unknown fields anyway, and takes no schema that says so.
        ("additionalProperties", Value::Bool(false)) => return None,
        ("format", Value::String(format)) if is_number_format(&format) => return None,
        (SERVER_DEFAULT, value) => return Some(("default".to_owned(), value)),
        // A paragraph of the source is one line.
        ("description", Value::String(text)) => {
            let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
            paragraphs.collect::<Vec<_>>().join("\n\n").into()
        }
        // A field that is null is one that is absent.
        ("type", Value::Array(types)) => types.into_iter().find(|name| name != "null")?,
        ("properties", Value::Object(fields)) => {
            Value::Object(fields.into_iter().map(|(name, field)| (name, nested(field))).collect())
        }
        ("items" | "additionalProperties", value) => nested(value),
        ("required", Value::Array(mut names)) => {
            names.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
            names.into()
        }
        (_, value) => value,
    };
    Some((key.to_owned(), value))
}

fn is_number_format(format: &str) -> bool {
    let is_number = format.starts_with("int") || format.starts_with("uint");
    is_number && !FORMATS.contains(&format)
}
