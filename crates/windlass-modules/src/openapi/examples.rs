//! `x-examples` of schemas: values that stand for what hooks and users set, where a chart is rendered without either.

use serde_json::{Map, Value};

/// The key of examples: a list of values.
pub(super) const EXAMPLES: &str = "x-examples";

/// What the examples of a schema say of a value: those of the value as a whole, or of its properties at any depth. `index` is the place
/// in each list; shorter lists give their last one. `None`: there are no examples.
pub(super) fn collect(schema: &Value, index: usize) -> Option<Value> {
    let whole = schema[EXAMPLES].as_array().filter(|list| !list.is_empty());
    if let Some(list) = whole {
        let example = list.get(index.min(list.len() - 1)).cloned();
        // Authors write the list itself where a list is wanted.
        let flat = schema["type"] == "array" && !example.as_ref().is_some_and(Value::is_array);
        return if flat { Some(Value::Array(list.clone())) } else { example };
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    let found: Map<String, Value> =
        properties.filter_map(|(key, property)| Some((key.clone(), collect(property, index)?))).collect();
    (!found.is_empty()).then_some(Value::Object(found))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn examples_of_the_whole_come_before_those_of_its_properties() {
        let schema = json!({
            "properties": {
                "zone": {"x-examples": ["a", "b"]},
                "plain": {"type": "string"},
                "internal": {"properties": {
                    "certificate": {"x-examples": [{"crt": "x"}], "properties": {"crt": {"x-examples": ["y"]}}},
                    "count": {"x-examples": []},
                }},
            },
        });
        let internal = json!({"certificate": {"crt": "x"}});
        assert_eq!(collect(&schema, 0), Some(json!({"zone": "a", "internal": internal})));
        assert_eq!(collect(&schema, 7), Some(json!({"zone": "b", "internal": internal})));
        let whole = json!({"x-examples": [{}, {"a": 1}], "properties": {"zone": {"x-examples": ["a"]}}});
        assert_eq!((collect(&whole, 0), collect(&whole, 1)), (Some(json!({})), Some(json!({"a": 1}))));
        assert_eq!(collect(&json!({"properties": {"a": {}}}), 0), None);
        let list = |examples: Value| collect(&json!({"type": "array", "x-examples": examples}), 0);
        assert_eq!(list(json!(["a", "b"])), Some(json!(["a", "b"])));
        assert_eq!(list(json!([["a"], ["b"]])), Some(json!(["a"])));
    }
}
