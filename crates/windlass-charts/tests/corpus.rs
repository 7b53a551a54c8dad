//! Every chart of the corpus, where it is at hand: its definition is one that the API server takes, and its own values and the example
//! are valid in it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail like the tests"
)]

use std::path::Path;

use chart_compat::chart::{load_files, read_archive};
use chart_compat::data::Data;
use chart_compat::profile::Profile;
use chart_compat::render::Schema;
use chart_compat::{json, yaml};
use serde_json::Value;
use windlass_charts::{DefinitionOptions, KindNames, define};

/// What a node of a structural schema may have, as the API server's documentation lists it.
const KEYWORDS: [&str; 25] = [
    "additionalProperties",
    "allOf",
    "anyOf",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "type",
];
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
const EITHER: &str = "x-kubernetes-int-or-string";

/// Checks a schema by rules of this test alone. `outside`: the structure, inside of an alternative.
fn check(node: &Value, outside: Option<&Value>, at: &str) -> usize {
    let map = node.as_object().unwrap_or_else(|| panic!("{at}: {node}"));
    for key in map.keys() {
        let structure =
            ["type", "description", "additionalProperties", "nullable", OPEN, EITHER].contains(&key.as_str());
        let known = KEYWORDS.contains(&key.as_str()) || [OPEN, EITHER].contains(&key.as_str());
        assert!(known && !(structure && outside.is_some()), "{at}: {key}");
    }
    if outside.is_none() {
        let typed = ["array", "boolean", "integer", "number", "object", "string"]
            .iter()
            .any(|name| node["type"] == *name);
        assert!(
            typed != (node[EITHER] == true || node["type"].is_null() && node[OPEN] == true),
            "{at}: {node}"
        );
        assert!(node["type"] != "array" || node["items"].is_object(), "{at}");
        assert!(
            map.get("additionalProperties")
                .is_none_or(|inside| inside.is_object() && node["properties"].is_null()),
            "{at}"
        );
    }
    let mut nodes = 1;
    for (name, inside) in node["properties"].as_object().into_iter().flatten() {
        let outside = outside.map(|outside| &outside["properties"][name]);
        assert!(outside.is_none_or(Value::is_object), "{at}.{name} is not declared outside");
        nodes += check(inside, outside, &format!("{at}.{name}"));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inside) = map.get(key) {
            nodes += check(inside, outside.map(|outside| &outside[key]), &format!("{at}.{key}"));
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for branch in node[key].as_array().into_iter().flatten() {
            check(branch, Some(outside.unwrap_or(node)), &format!("{at}.{key}"));
        }
    }
    if let Some(branch) = map.get("not") {
        check(branch, Some(outside.unwrap_or(node)), &format!("{at}.not"));
    }
    nodes
}

/// The schema in JSON Schema's terms, for our own validator of it.
fn as_json_schema(node: &mut Value) {
    match node {
        Value::Object(map) => {
            if map.remove("nullable") == Some(Value::Bool(true))
                && let Some(name) = map.get("type").cloned()
            {
                map.insert("type".to_owned(), serde_json::json!([name, "null"]));
            }
            map.values_mut().for_each(as_json_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(as_json_schema),
        _ => {}
    }
}

/// Gives the chart's values what the user has to give; nulls are no values.
fn lay_over(values: &mut Value, example: &Value) {
    if let Value::Object(values) = values {
        values.retain(|_, value| !value.is_null());
        values.values_mut().for_each(|value| lay_over(value, &Value::Null));
        for (key, value) in example.as_object().into_iter().flatten() {
            lay_over(values.entry(key).or_insert_with(|| value.clone()), value);
        }
    }
}

#[test]
fn every_chart_of_the_corpus_has_a_definition() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/charts");
    let Ok(entries) = std::fs::read_dir(&corpus) else {
        println!("no chart corpus at ../shared/corpus: skipped");
        return;
    };
    let mut paths: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "tgz"))
        .collect();
    paths.sort();
    let (mut declared, mut nodes, mut warnings) = (0, 0, 0);
    for path in &paths {
        let files = read_archive(&std::fs::read(path).unwrap(), Profile::Helm4).unwrap();
        let chart = load_files(files, Profile::Helm4, &mut |_| {}).unwrap();
        let names = KindNames::new(chart.name(), None, None, None, None).unwrap();
        let made = define(&chart, &DefinitionOptions { names, overlay: None })
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let schema = &made.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let count = check(schema, None, chart.name());
        let size = made.crd.to_string().len();
        assert!(size <= 1 << 20, "{}", path.display());
        let mut checked = schema.clone();
        checked["$schema"] = "http://json-schema.org/draft-04/schema#".into();
        as_json_schema(&mut checked["properties"]["spec"]);
        let checked = Schema::read(checked.to_string().as_bytes())
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let valid = |spec: Data, what: &str| {
            let object = Data::Map([("spec".to_owned(), spec)].into_iter().collect());
            if let Err(breaches) = checked.check(&object) {
                panic!("{}: {what}: {} {}", path.display(), breaches[0].path, breaches[0].text);
            }
        };
        valid(json::from_slice(made.example["spec"].to_string().as_bytes()).unwrap(), "example");
        let values = yaml::from_slice(chart.values_text.as_deref().unwrap_or_default()).unwrap();
        let mut values: Value = serde_json::from_str(&json::to_string(&values).unwrap()).unwrap();
        lay_over(&mut values, &made.example["spec"]);
        valid(json::from_slice(values.to_string().as_bytes()).unwrap(), "values.yaml");
        let from = if chart.schema.is_some() { "values.schema.json" } else { "values.yaml" };
        println!(
            "{:45} {from:18} {count:6} nodes {size:8} bytes {:4} warnings",
            chart.name(),
            made.warnings.len()
        );
        declared += usize::from(chart.schema.is_some());
        nodes += count;
        warnings += made.warnings.len();
    }
    println!("{} charts, {declared} with a schema: {nodes} nodes, {warnings} warnings", paths.len());
    assert!(paths.len() > 60 && declared > 5, "{} {declared}", paths.len());
}
