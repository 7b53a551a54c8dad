//! Defaults of OpenAPI schemas: what is filled in where values say nothing.
//!
//! As addon-operator's `ApplyDefaults`, and below `patternProperties` and `additionalProperties` too, where addon-operator leaves
//! defaults out (its issue 371).

use chart_compat::go::regexp;
use serde_json::Value;

/// Fills in the defaults of a schema, at every depth that the value reaches.
///
/// A missing map is not created for the defaults of its properties: only its own `default` creates it.
pub(crate) fn apply(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            for (key, property) in properties.into_iter().flatten() {
                if let Some(default) = property.get("default").filter(|d| !d.is_null()) {
                    map.entry(key.clone()).or_insert_with(|| default.clone());
                }
            }
            for (key, inner) in map.iter_mut() {
                match properties.and_then(|p| p.get(key)) {
                    Some(property) => apply(inner, property),
                    None => by_pattern(key, inner, schema),
                }
            }
        }
        Value::Array(list) if schema["items"].is_object() => {
            list.iter_mut().for_each(|inner| apply(inner, &schema["items"]));
        }
        _ => {}
    }
}

/// Defaults below a key that the schema does not name itself.
fn by_pattern(key: &str, value: &mut Value, schema: &Value) {
    let mut matched = false;
    for (pattern, property) in schema["patternProperties"].as_object().into_iter().flatten() {
        // An invalid pattern was reported when the schema was read.
        let fits = regexp::compile(pattern.as_bytes()).is_ok_and(|re| re.is_match(key.as_bytes()));
        if fits {
            matched = true;
            apply(value, property);
        }
    }
    if !matched && schema["additionalProperties"].is_object() {
        apply(value, &schema["additionalProperties"]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_filled_in() {
        let schema = json!({
            "properties": {
                "replicas": {"default": 2},
                "off": {"default": false},
                "none": {"default": null},
                "deep": {"properties": {"a": {"default": 1}}},
                "made": {"default": {}, "properties": {"a": {"default": 1}}},
                "list": {"items": {"properties": {"port": {"default": 80}}}},
            },
            "patternProperties": {"^zone-": {"properties": {"size": {"default": "s"}}}},
            "additionalProperties": {"properties": {"other": {"default": true}}},
        });
        let table = [
            (json!({}), json!({"replicas": 2, "off": false, "made": {"a": 1}})),
            (
                json!({"replicas": 5, "off": null, "made": {"a": 0}, "deep": {}}),
                json!({"replicas": 5, "off": null, "made": {"a": 0}, "deep": {"a": 1}}),
            ),
            (
                json!({"list": [{}, {"port": 1}, 7], "zone-a": {}, "x": {}, "made": 1}),
                json!({
                    "replicas": 2, "off": false, "made": 1, "list": [{"port": 80}, {"port": 1}, 7],
                    "zone-a": {"size": "s"}, "x": {"other": true},
                }),
            ),
        ];
        for (mut value, want) in table {
            apply(&mut value, &schema);
            assert_eq!(value, want);
        }
    }
}
