//! A JSON Schema inferred from a chart's `values.yaml` and its comments.

use std::collections::BTreeMap;

use chart_compat::chart::Chart;
use chart_compat::yaml::{self, tree};
use serde_json::{Value, json};

use crate::chart_definition::DefinitionError;
use crate::structural_schema::type_of;
use crate::subchart_values::to_json;
use crate::{Object, Warning, value_comments};

/// The schema of a chart's values. `defaults`: the values with what a parent sets of them, whose types count; `at`: where the values are, for warnings.
///
/// # Errors
/// `values.yaml` is not YAML, or its numbers have no JSON form.
pub(crate) fn inferred(
    chart: &Chart,
    defaults: &Value,
    at: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Value, DefinitionError> {
    let text = chart.values_text.clone().unwrap_or_default();
    let error = |error: String| DefinitionError::Values { chart: chart.name().to_owned(), error };
    let mut values = yaml::from_slice(&text)
        .map_err(|e| error(e.to_string()))
        .and_then(|data| to_json(&data).map_err(error))?;
    replace_set(&mut values, defaults);
    let document = tree::read(&String::from_utf8_lossy(&text)).map_err(|e| error(e.to_string()))?;
    let root = document.as_ref().and_then(|document| document.content.first());
    let parameters = value_comments::parameters(&String::from_utf8_lossy(&text));
    let mut reader = Reader { at, parameters, warnings };
    Ok(match &values {
        Value::Object(map) => reader.map(map, root, ""),
        _ => json!({"type": "object"}),
    })
}

/// Replaces values by those that a parent sets.
fn replace_set(own: &mut Value, set: &Value) {
    match (own, set) {
        (_, Value::Null) => {}
        (Value::Object(own), Value::Object(set)) => {
            for (key, value) in own {
                replace_set(value, set.get(key).unwrap_or(&Value::Null));
            }
        }
        (own, set) => *own = set.clone(),
    }
}

struct Reader<'a> {
    at: &'a str,
    /// Descriptions that stand elsewhere than above their keys, by path.
    parameters: BTreeMap<String, String>,
    warnings: &'a mut Vec<Warning>,
}

impl Reader<'_> {
    /// `node`: the map with its comments, unless it is written elsewhere; `path`: of the map, such as `image`.
    fn map(&mut self, map: &Object, node: Option<&tree::Node>, path: &str) -> Value {
        let (mut properties, mut required) = (Object::new(), Vec::new());
        let pairs = node
            .filter(|node| node.kind == tree::Kind::Map)
            .into_iter()
            .flat_map(|node| node.content.chunks_exact(2));
        let places: BTreeMap<&str, &[tree::Node]> =
            pairs.map(|pair| (pair[0].value.as_str(), pair)).collect();
        for (key, value) in map {
            let place = places.get(key.as_str());
            let head = place.map_or("", |pair| pair[0].head.as_str());
            let below = place.map(|pair| &pair[1]);
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let comment = value_comments::read(head, &path);
            if let Some(error) = comment.error {
                let text = format!("the @schema block of values.yaml is not read: {error}");
                self.warnings.push(Warning { text, path: format!("{}.{path}", self.at) });
            }
            let mut schema = self.value(value, below, &path);
            if comment.schema.get("required") == Some(&json!(true)) {
                required.push(json!(key));
            }
            declare(&mut schema, comment.schema);
            let description = self.parameters.remove(&path).unwrap_or(comment.description);
            if !description.is_empty() && !schema.contains_key("description") {
                schema.insert("description".to_owned(), json!(description));
            }
            properties.insert(key.clone(), Value::Object(schema));
        }
        let mut out = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            out["required"] = Value::Array(required);
        }
        out
    }

    fn value(&mut self, value: &Value, node: Option<&tree::Node>, path: &str) -> Object {
        let schema = match value {
            Value::Null => json!({}),
            Value::Object(map) if !map.is_empty() => self.map(map, node, path),
            Value::Array(items) => match common_item(items) {
                Some(item) => json!({"type": "array", "items": item}),
                None => json!({"type": "array"}),
            },
            other => json!({"type": type_of(other)}),
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Object::new(),
        }
    }
}

/// Lays a declared schema over an inferred one, which says nothing of a value of another type.
fn declare(schema: &mut Object, mut declared: Object) {
    if declared.get("required").is_some_and(Value::is_boolean) {
        declared.remove("required");
    }
    let retyped = declared.get("type").is_some_and(|declared| Some(declared) != schema.get("type"));
    let referred =
        ["$ref", "oneOf", "anyOf", "allOf", "const", "enum"].iter().any(|key| declared.contains_key(*key));
    if retyped || referred {
        schema.clear();
    }
    schema.extend(declared);
}

/// The schema of all items of a list: their type, and for maps all their fields. None if they differ.
fn common_item(items: &[Value]) -> Option<Value> {
    let mut all = items.iter().map(item);
    let first = all.next()?;
    all.try_fold(first, |mut common, next| merge_items(&mut common, &next).then_some(common))
}

fn item(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Object(map) => {
            let properties: Object = map.iter().map(|(key, value)| (key.clone(), item(value))).collect();
            json!({"type": "object", "properties": properties})
        }
        Value::Array(items) => match common_item(items) {
            Some(item) => json!({"type": "array", "items": item}),
            None => json!({"type": "array"}),
        },
        other => json!({"type": type_of(other)}),
    }
}

/// Whether two schemas of items have become one.
fn merge_items(common: &mut Value, other: &Value) -> bool {
    if common == other {
        return true;
    }
    if common["type"] != other["type"] {
        return false;
    }
    if let (Some(Value::Object(own)), Some(Value::Object(fields))) =
        (common.get_mut("properties"), other.get("properties"))
    {
        for (name, field) in fields {
            match own.get_mut(name) {
                None => drop(own.insert(name.clone(), field.clone())),
                Some(known) => {
                    if !merge_items(known, field) {
                        *known = json!({});
                    }
                }
            }
        }
        return true;
    }
    *common = json!({"type": common["type"]});
    true
}
