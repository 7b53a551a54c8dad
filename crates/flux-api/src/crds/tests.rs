//! Our definitions beside what controller-gen makes of Flux's Go types (tests/tools/flux-api, `make fixtures`).

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::*;

/// What a definition says, one fact a line, as tests/tools/flux-api writes it.
fn facts(crd: &Value) -> Vec<String> {
    let mut crd = crd.clone();
    let mut out = Vec::new();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        let schema = version.as_object_mut().unwrap().remove("schema").unwrap();
        let path = format!("{} ", version["name"].as_str().unwrap());
        schema_facts(&path, &schema["openAPIV3Schema"], &mut out);
    }
    fields("crd ", &crd, &mut out);
    out.sort();
    out
}

/// Each scalar and each empty object outside of the schema.
fn fields(path: &str, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(map) if map.is_empty() => out.push(format!("{path} {{}}")),
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| *key != "description") {
                fields(&format!("{path}.{key}"), value, out);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                fields(&format!("{path}[{at}]"), value, out);
            }
        }
        scalar => out.push(format!("{path} {scalar}")),
    }
}

fn schema_facts(path: &str, schema: &Value, out: &mut Vec<String>) {
    for (key, value) in schema.as_object().unwrap() {
        match (key.as_str(), value) {
            ("description", _) => {}
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    schema_facts(&format!("{path}.{name}"), property, out);
                }
            }
            ("items", items) => schema_facts(&format!("{path}[]"), items, out),
            ("additionalProperties", Value::Object(_)) => schema_facts(&format!("{path}{{}}"), value, out),
            ("required" | "enum", Value::Array(list)) => {
                out.extend(list.iter().map(|one| format!("{path} {key} {one}")));
            }
            ("x-kubernetes-validations", Value::Array(list)) => {
                for rule in list {
                    let mut rule = rule.clone();
                    assert!(rule.as_object_mut().unwrap().remove("message").is_some(), "{path}: {rule}");
                    out.push(format!("{path} {key} {rule}"));
                }
            }
            _ => out.push(format!("{path} {key} {value}")),
        }
    }
}

fn name(crd: &Value) -> &str {
    crd["metadata"]["name"].as_str().unwrap()
}

#[test]
fn definitions_say_what_flux_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/flux-api");
    let recorded: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let crds = all();
    let ours: BTreeSet<String> = crds.iter().map(|crd| format!("{}.txt", name(crd))).collect();
    assert_eq!(ours, recorded);
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for crd in &crds {
        let text = std::fs::read_to_string(folder.join(format!("{}.txt", name(crd)))).unwrap();
        let theirs: BTreeSet<&str> = text.lines().collect();
        let facts = facts(crd);
        let ours: BTreeSet<&str> = facts.iter().map(String::as_str).collect();
        assert_eq!(ours.len(), facts.len(), "{}: a fact stands twice", name(crd));
        compared += theirs.len();
        wrong.extend(theirs.difference(&ours).map(|fact| format!("{}: - {fact}", name(crd))));
        wrong.extend(ours.difference(&theirs).map(|fact| format!("{}: + {fact}", name(crd))));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1400, "{compared}");
}

/// `kubectl explain` has a text for every field.
#[test]
fn every_field_is_described() {
    fn undescribed(path: &str, schema: &Value, out: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            let text = field["description"].as_str().unwrap_or_default();
            if name != "metadata" && !text.ends_with('.') || text.contains('\n') {
                out.push(format!("{path}: {text:?}"));
            }
            undescribed(&path, field, out);
        }
        for nested in ["items", "additionalProperties"].iter().filter_map(|key| schema.get(key)) {
            undescribed(path, nested, out);
        }
    }
    let mut out = Vec::new();
    for crd in all() {
        undescribed(name(&crd), &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut out);
    }
    assert!(out.is_empty(), "{}", out.join("\n"));
}

/// A definition with all its texts is far below what the API server takes.
#[test]
fn definitions_are_small_and_always_the_same() {
    let text = |crds: &[Value]| serde_json::to_string(crds).unwrap();
    assert_eq!(text(&all()), text(&all()));
    for crd in all() {
        let size = crd.to_string().len();
        assert!(size < 64 * 1024, "{} has {size} bytes", name(&crd));
    }
}
