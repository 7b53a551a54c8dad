//! A stream of YAML documents, split as Kubernetes does (`yaml.NewYAMLOrJSONDecoder`), and the fields of each that lint reads.

use crate::data::Data;
use crate::go::strconv::format_float_32;
use crate::json::{type_name, wrong_type};
use crate::yaml;

/// The fields of an object that lint reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// The objects of a text, `None` for an empty document; stops at the first error.
pub(super) fn read(text: &[u8]) -> Vec<Result<Option<Object>, String>> {
    let mut objects = Vec::new();
    let mut doc = Vec::new();
    let mut finish = |doc: &mut Vec<u8>| {
        let text = std::mem::take(doc);
        if !text.is_empty() {
            objects.push(object(&text));
        }
        objects.last().is_none_or(Result::is_ok)
    };
    for line in text.split_inclusive(|c| *c == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = String::from_utf8_lossy(rest);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                objects.push(Err(format!("invalid Yaml document separator: {rest}")));
                return objects;
            }
            if !doc.is_empty() {
                if !finish(&mut doc) {
                    return objects;
                }
                continue;
            }
        }
        doc.extend_from_slice(line);
        doc.push(b'\n');
    }
    finish(&mut doc);
    objects
}

/// Decodes a document as sigs' `Unmarshal` does into Helm's `k8sYamlStruct`: scalars become text, other types fail.
fn object(text: &[u8]) -> Result<Option<Object>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("error unmarshaling JSON: while decoding JSON: {e}");
    let map = match yaml::from_slice(text) {
        Ok(Data::Map(map)) => map,
        Ok(Data::Null) => return Ok(None),
        Ok(other) => return Err(failed(&wrong_type(&other, "rules.k8sYamlStruct"))),
        Err(e) => return Err(format!("error converting YAML to JSON: {e}")),
    };
    let wrong = |value: &Data, field: &str, target: &str| {
        let kind = type_name(value);
        failed(&format!("json: cannot unmarshal {kind} into Go struct field {field} of type {target}"))
    };
    let text = |value: &Data, field: &str| match value {
        Data::Null => Ok(String::new()),
        Data::Bool(b) => Ok(b.to_string()),
        Data::Int(i) => Ok(i.to_string()),
        Data::Float(f) => Ok(format_float_32(*f)),
        Data::String(s) => Ok(s.clone()),
        other => Err(wrong(other, field, "string")),
    };
    let mut object = Object::default();
    // Go matches a field in any letter case.
    for (key, value) in &map {
        match (key.to_ascii_lowercase().as_str(), value) {
            ("apiversion", value) => object.api_version = text(value, "k8sYamlStruct.apiVersion")?,
            ("kind", value) => object.kind = text(value, "k8sYamlStruct.Kind")?,
            ("metadata", Data::Map(metadata)) => {
                for (key, value) in metadata {
                    match key.to_ascii_lowercase().as_str() {
                        "name" => object.name = text(value, "k8sYamlMetadata.Metadata.Name")?,
                        "namespace" => drop(text(value, "k8sYamlMetadata.Metadata.Namespace")?),
                        _ => {}
                    }
                }
            }
            ("metadata", Data::Null) => {}
            ("metadata", other) => {
                return Err(wrong(other, "k8sYamlStruct.Metadata", "rules.k8sYamlMetadata"));
            }
            _ => {}
        }
    }
    Ok(Some(object))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn documents_are_split_as_kubernetes_does() {
        let kinds = |text: &str| -> Vec<String> {
            let show = |o: Result<Option<super::Object>, String>| match o {
                Ok(object) => object.map_or("-".to_owned(), |o| o.kind),
                Err(e) => e,
            };
            read(text.as_bytes()).into_iter().map(show).collect()
        };
        assert_eq!(kinds("kind: A\n---\nkind: B\n"), ["A", "B"]);
        assert_eq!(kinds("---\nkind: A\n--- # x\n# only\n---\nkind: B"), ["A", "-", "B"]);
        assert_eq!(kinds("kind: A\n---x\nkind: B"), ["invalid Yaml document separator: x"]);
        assert_eq!(kinds("kind: A\n---\na: b: c\n---\nkind: B").len(), 2);
    }
}
