//! Heads of manifests. Expectations were recorded from sigs.k8s.io/yaml 1.6.0 and Helm 4.3.1's `SimpleHead`.

use super::*;
use crate::go::strconv::quote;

#[test]
fn heads() {
    let cases = [
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  annotations:\n    a: \"1\"\n    b: 1\n    c: yes\n    d: 1.50\n    e: ~\n    f: 123456789.0\n",
            r#""v1" "Pod" true "x" {"a":"1","b":"1","c":"true","d":"1.5","e":"","f":"1.2345679e+08"}"#,
        ),
        ("kind: 1\nmetadata: {name: 012}", r#""" "1" true "10" {}"#),
        ("# nothing\n", r#""" "" false"#),
        ("metadata: ~\n", r#""" "" false"#),
        ("metadata: {}\n", r#""" "" true "" {}"#),
        ("KIND: Pod\nMetadata: {Name: x}\n", r#""" "Pod" true "x" {}"#),
        ("kind: A\nKind: B", r#""" "A" false"#),
        ("metadata: {name: a}\nMetadata: {annotations: {b: c}}", r#""" "" true "a" {"b":"c"}"#),
        (
            "kind: [a]",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field SimpleHead.kind of type string",
        ),
        (
            "kind: {a: 1}",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go struct field SimpleHead.kind of type string",
        ),
        (
            "metadata: x",
            r#"error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field SimpleHead.metadata of type struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#,
        ),
        (
            "metadata: 1",
            r#"error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go struct field SimpleHead.metadata of type struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#,
        ),
        (
            "metadata: [a]",
            r#"error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field SimpleHead.metadata of type struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#,
        ),
        (
            "metadata: {name: [a]}",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field .metadata.name of type string",
        ),
        (
            "metadata: {annotations: x}",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field .metadata.annotations of type map[string]string",
        ),
        (
            "metadata: {annotations: [a]}",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field .metadata.annotations of type map[string]string",
        ),
        (
            "metadata: {annotations: {a: [b]}}",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field .metadata.annotations of type string",
        ),
        (
            "metadata: {annotations: {a: {b: c}}}",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go struct field .metadata.annotations of type string",
        ),
        (
            "- a",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type util.SimpleHead",
        ),
        (
            "x",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type util.SimpleHead",
        ),
        ("kind: a: b", "error converting YAML to JSON: yaml: mapping values are not allowed in this context"),
        ("kind: .nan", r#""" "NaN" false"#),
        ("spec: .nan", "error converting YAML to JSON: json: unsupported value: NaN"),
        ("metadata: {annotations: {a: .inf}}", r#""" "" true "" {"a":"+Inf"}"#),
        ("kind: A\nkind: B\nspec: {kind: C}", r#""" "B" false"#),
        (
            "apiVersion: v1\nspec: [}",
            "error converting YAML to JSON: yaml: line 1: did not find expected node content",
        ),
    ];
    for (text, expected) in cases {
        let shown = match head(text.as_bytes()) {
            Err(error) => error.to_string(),
            Ok(head) => {
                let mut shown = format!(
                    "{} {} {}",
                    quote(head.api_version.as_bytes()),
                    quote(head.kind.as_bytes()),
                    head.has_metadata
                );
                if head.has_metadata {
                    let annotations =
                        head.annotations.iter().map(|(k, v)| (k.clone(), Data::from(v.as_str()))).collect();
                    let annotations = json::to_string(&Data::Map(annotations)).unwrap();
                    shown += &format!(" {} {annotations}", quote(head.name.as_bytes()));
                }
                shown
            }
        };
        assert_eq!(shown, expected, "{text:?}");
    }
}

#[test]
fn the_namespace_is_read_too() {
    assert_eq!(head(b"metadata: {namespace: 12}").unwrap().namespace, "12");
    assert_eq!(head(b"metadata: {namespace: [a]}").unwrap().namespace, "");
}
