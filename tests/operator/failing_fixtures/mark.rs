//! Markers in a copy of the fixtures: where secrets are, and how a failure comes to quote them.

use std::fs;
use std::path::Path;

use chart_compat::yaml;
use serde_json::{Value, json};

use super::cases::{Case, names};

/// In values under keys that a schema marks.
pub(super) const IN_VALUES: &str = "Marker-Of-Values";
/// In a Secret that templates look up.
pub(super) const IN_LOOKUP: &str = "Marker-Of-Lookup";
/// In Secrets that templates make.
pub(super) const IN_MANIFEST: &str = "Marker-Of-Manifest";
/// A number in values.
const NUMBER: u64 = 731_731_731_731;

/// What no output may have: the markers, and the number as Go prints integers, floats and numbers of schemas.
pub(super) const MARKERS: [&str; 6] =
    [IN_VALUES, IN_LOOKUP, IN_MANIFEST, "731731731731", "731,731,731,731", "7.31731731731e"];

/// Marks every value, and has a schema say that every value is secret.
pub(super) fn values(tree: &Path, cases: &[Case]) {
    each_chart(tree, &mut |chart| {
        rewrite(&chart.join("values.yaml"), marked_values);
        let schema = chart.join("values.schema.json");
        let text = fs::read_to_string(&schema).unwrap_or_else(|_| "{}".to_owned());
        // What is not a schema stays as it is: it is what fails.
        if let Ok(Value::Object(mut root)) = serde_json::from_str(&text) {
            if let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) {
                for property in properties.values_mut().filter_map(Value::as_object_mut) {
                    property.insert("x-sensitive".to_owned(), json!(true));
                }
            }
            root.entry("additionalProperties").or_insert_with(|| json!({"writeOnly": true}));
            write(&schema, &Value::Object(root).to_string());
        }
    });
    let mut done: Vec<&String> = Vec::new();
    for case in cases {
        for file in case.values.iter().filter(|word| !word.starts_with('-') && !done.contains(word)) {
            rewrite(&tree.join(file), marked_values);
        }
        done.extend(&case.values);
    }
}

/// Has every template look up a Secret and put it into the values that `markedKeys` names, and make a Secret of its own.
pub(super) fn objects(tree: &Path) {
    let lookup = "{{- $marker := (lookup \"v1\" \"Secret\" .Release.Namespace \"existing\").data.password | b64dec -}}\
                  {{- range $key := .Values.markedKeys }}{{ $old := get $.Values $key | toString -}}\
                  {{- if not (contains $marker $old) }}{{ $_ := set $.Values $key (print $old $marker) }}{{ end -}}\
                  {{- end -}}";
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: made}}\nstringData: {{password: {IN_MANIFEST}}}\n---\n"
    );
    each_chart(tree, &mut |chart| {
        each_file(&chart.join("templates"), &mut |file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with('_') || name == "NOTES.txt" {
                return;
            }
            rewrite(file, |text| format!("{lookup}\n{secret}{text}"));
        });
    });
}

/// The keys of texts in a chart's values, without those that the case sets: they choose how it fails.
pub(super) fn keys(tree: &Path, case: &Case) -> String {
    let read = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        yaml::from_slice(&bytes).map(|data| windlass_render::to_json(&data)).unwrap_or_default()
    };
    let files = case.values.iter().filter(|word| !word.starts_with('-'));
    let set: Vec<Value> = files.map(|file| read(&tree.join(file))).collect();
    let defaults = read(&tree.join(&case.chart).join("values.yaml"));
    let texts = defaults.as_object().into_iter().flatten().filter(|(_, value)| value.is_string());
    // What the case sets is marked too where it is the template that fails.
    let tries = set.iter().any(|values| values.get("try").is_some()).then_some("try");
    let own = texts.map(|(key, _)| key.as_str()).filter(|key| set.iter().all(|v| v.get(*key).is_none()));
    own.chain(tries).filter(|key| *key != "how").collect::<Vec<_>>().join(",")
}

/// A file of values with a marker in each text and number. One that is not a map has no keys that a schema could mark.
fn marked_values(text: &str) -> String {
    let Ok(data) = yaml::from_slice(text.as_bytes()) else { return text.to_owned() };
    let mut values = windlass_render::to_json(&data);
    mark(&mut values);
    let marked = values.to_string();
    // JSON has characters that YAML refuses.
    let is_readable = values.is_object() && yaml::from_slice(marked.as_bytes()).is_ok();
    if is_readable { marked } else { text.to_owned() }
}

fn mark(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(IN_VALUES),
        Value::Number(number) => *number = NUMBER.into(),
        Value::Array(list) => list.iter_mut().for_each(mark),
        Value::Object(map) => map.values_mut().for_each(mark),
        Value::Null | Value::Bool(_) => {}
    }
}

/// Each directory with a `Chart.yaml`.
fn each_chart(directory: &Path, work: &mut dyn FnMut(&Path)) {
    if directory.join("Chart.yaml").is_file() {
        work(directory);
    }
    for name in names(directory) {
        let path = directory.join(name);
        if path.is_dir() && !path.is_symlink() {
            each_chart(&path, work);
        }
    }
}

pub(super) fn each_file(directory: &Path, work: &mut dyn FnMut(&Path)) {
    if !directory.is_dir() || directory.is_symlink() {
        return;
    }
    for name in names(directory) {
        let path = directory.join(name);
        if path.is_dir() { each_file(&path, work) } else { work(&path) }
    }
}

/// Changes a file of text that is there and not a link.
pub(super) fn rewrite(path: &Path, change: impl FnOnce(&str) -> String) {
    if path.is_symlink() {
        return;
    }
    if let Ok(text) = fs::read_to_string(path) {
        write(path, &change(&text));
    }
}

pub(super) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}
