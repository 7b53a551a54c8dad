//! Whole documents, read and written. Expectations were recorded from sigs.k8s.io/yaml 1.6.0.

use super::*;

/// The document as compact JSON, or the error.
fn read(text: &str) -> String {
    match from_slice(text.as_bytes()) {
        Ok(data) => json::to_string(&data).unwrap(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn reads_a_manifest() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels: {a: b}\ndata:\n- yes\n- 0x1F\n- |\n  text\n";
    assert_eq!(
        read(text),
        r#"{"apiVersion":"v1","data":[true,31,"text\n"],"kind":"ConfigMap","metadata":{"labels":{"a":"b"},"name":"x"}}"#
    );
}

#[test]
fn writes_what_it_read() {
    let text = "a: \"yes\"\nb:\n- 1\n- x: null\n  z: {}\nc: |\n  two\n  lines\n";
    assert_eq!(to_string(&from_slice(text.as_bytes()).unwrap()).unwrap(), text);
}
