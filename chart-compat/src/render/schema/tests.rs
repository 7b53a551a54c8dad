//! What Helm 4.3 says of values under a schema, recorded from the real tool; an empty text means that it is content.

use std::sync::Arc;

use super::validate;
use crate::chart::Chart;
use crate::data::Data;
use crate::json;

#[test]
fn verdicts_are_helms() {
    for (schema, values, want) in TABLE {
        let mut chart = Chart { schema: Some(Arc::from(schema.as_bytes())), ..Chart::default() };
        chart.metadata.name = "sch".to_owned();
        let Ok(Data::Map(values)) = json::from_slice(values.as_bytes()) else { panic!("{values}") };
        let got = match validate(&chart, &values) {
            Ok(()) => String::new(),
            Err(e) => e
                .to_string()
                .split_once("chart(s):\n")
                .map(|(_, t)| t.trim_end().to_owned())
                .unwrap_or_default(),
        };
        assert_eq!(got, *want, "{schema} {values:?}");
    }
}

/// Schema, values, Helm's text.
const TABLE: &[(&str, &str, &str)] = &[
    (r#"{"type": "object", "required": ["a", "b"]}"#, r#"{}"#, "sch:\n- at '': missing properties 'a', 'b'"),
    (
        r#"{"properties": {"a": {"type": "string"}}}"#,
        r#"{"a": 1}"#,
        "sch:\n- at '/a': got number, want string",
    ),
    (
        r#"{"properties": {"a": {"type": ["string", "null"]}}}"#,
        r#"{"a": [1]}"#,
        "sch:\n- at '/a': got array, want null or string",
    ),
    (
        r#"{"properties": {"a": {"enum": ["x", "y"]}}}"#,
        r#"{"a": "z"}"#,
        "sch:\n- at '/a': value must be one of 'x', 'y'",
    ),
    (r#"{"properties": {"a": {"const": 3}}}"#, r#"{"a": 4}"#, "sch:\n- at '/a': value must be 3"),
    (
        r#"{"properties": {"a": {"minimum": 3, "multipleOf": 2}}}"#,
        r#"{"a": 1}"#,
        "sch:\n- at '/a': minimum: got 1, want 3\n- at '/a': multipleOf: got 1, want 2",
    ),
    (
        r#"{"properties": {"a": {"exclusiveMaximum": 3}}}"#,
        r#"{"a": 3}"#,
        "sch:\n- at '/a': exclusiveMaximum: got 3, want 3",
    ),
    (
        r#"{"properties": {"a": {"minLength": 3, "pattern": "^x"}}}"#,
        r#"{"a": "ab"}"#,
        "sch:\n- at '/a': minLength: got 2, want 3\n- at '/a': 'ab' does not match pattern '^x'",
    ),
    (
        r#"{"properties": {"a": {"minItems": 2, "uniqueItems": true, "items": {"type": "integer"}}}}"#,
        r#"{"a": [1.5]}"#,
        "sch:\n- at '/a': minItems: got 1, want 2\n- at '/a/0': got number, want integer",
    ),
    (r#"{"properties": {"a": {"type": "integer"}}}"#, r#"{"a": 5.0}"#, ""),
    (
        r#"{"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "number", "minimum": 5}]}}}"#,
        r#"{"a": 3}"#,
        "sch:\n- at '/a': 'oneOf' failed, none matched\n  - at '/a': got number, want string\n  - at '/a': minimum: got 3, want 5",
    ),
    (
        r#"{"properties": {"a": {"oneOf": [{"type": "number"}, {"minimum": 1}]}}}"#,
        r#"{"a": 3}"#,
        "sch:\n- at '/a': 'oneOf' failed, subschemas 0, 1 matched",
    ),
    (
        r#"{"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}}}"#,
        r#"{"a": 3}"#,
        "sch:\n- at '/a': 'anyOf' failed\n  - at '/a': got number, want string\n  - at '/a': got number, want boolean",
    ),
    (
        r#"{"properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 9}]}}}"#,
        r#"{"a": "x"}"#,
        "sch:\n- at '/a': 'allOf' failed\n  - at '/a': minLength: got 1, want 9",
    ),
    (r#"{"properties": {"a": {"not": {"type": "number"}}}}"#, r#"{"a": 3}"#, "sch:\n- at '/a': 'not' failed"),
    (
        r#"{"properties": {"a": {"minProperties": 2, "propertyNames": {"pattern": "^z"}}}}"#,
        r#"{"a": {"b": 1}}"#,
        "sch:\n- at '/a': minProperties: got 1, want 2\n- at '/a': invalid propertyName 'b'\n  - at '': 'b' does not match pattern '^z'",
    ),
    (
        r##"{"$defs": {"p": {"type": "integer", "maximum": 9}}, "properties": {"a": {"$ref": "#/$defs/p"}}}"##,
        r#"{"a": 30}"#,
        "sch:\n- at '/a': maximum: got 30, want 9",
    ),
    (
        r#"{"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}"#,
        r#"{"a": 1}"#,
        "sch:\n- at '': missing property 'b'",
    ),
    (
        r#"{"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}}"#,
        r#"{"a": 1}"#,
        "sch:\n- at '': properties 'b' required, if 'a' exists",
    ),
    (
        r#"{"dependentRequired": {"a": ["b"]}}"#,
        r#"{"a": 1}"#,
        "sch:\n- at '': properties 'b' required, if 'a' exists",
    ),
    (
        r#"{"properties": {"a": {"type": "object", "patternProperties": {"^n": {"type": "number"}}, "additionalProperties": false}}}"#,
        r#"{"a": {"n": "x", "m": 1}}"#,
        "sch:\n- at '/a/n': got string, want number\n- at '/a': additional properties 'm' not allowed",
    ),
    (
        r#"{"properties": {"a": {"contains": {"type": "string"}}}}"#,
        r#"{"a": [1]}"#,
        "sch:\n- at '/a': no items match contains schema\n  - at '/a/0': got number, want string",
    ),
    (r#"{"properties": {"a": {"format": "ipv4"}}}"#, r#"{"a": "x"}"#, ""),
    (
        r#"{"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"minimum": 3, "exclusiveMinimum": true}}}"#,
        r#"{"a": 3}"#,
        "sch:\n- at '/a': exclusiveMinimum: got 3, want 3",
    ),
    (r#"{"properties": {"a": false}}"#, r#"{"a": 3}"#, "sch:\n- at '/a': false schema"),
    (
        r#"{"unevaluatedProperties": false, "properties": {"a": {}}}"#,
        r#"{"b": 3}"#,
        "sch:\n- at '/b': false schema",
    ),
    (
        r#"{"properties": {"a": {"prefixItems": [{"type": "string"}], "items": false}}}"#,
        r#"{"a": ["x", 1]}"#,
        "sch:\n- at '/a/1': false schema",
    ),
];
