//! `openapi-case-tests.yaml`: values that schemas must take, and values that they must refuse, as public modules keep them.
//!
//! The form is that of Deckhouse's `testing/openapi_cases`: `positive` and `negative`, each with lists `configValues`, `values` and
//! `helmValues`. Cases with `x-test-focus` run alone. Values are held against a schema as they are; only what is required and has a
//! default may be missing, as with addon-operator's validator.

use std::path::Path;

use chart_compat::yaml;
use serde_json::Value;

use super::{MAX_BYTES, Schema, Schemas};
use windlass_base::bounded_read;
use windlass_render::to_json;

/// The file's name in a directory of schemas.
pub const FILE: &str = "openapi-case-tests.yaml";
/// The key that runs a case alone.
const FOCUS: &str = "x-test-focus";
/// Lists of cases by the schema that they are for.
const LISTS: [&str; 3] = ["configValues", "values", "helmValues"];

/// What became of the cases of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseResults {
    /// How many cases ran.
    pub ran: usize,
    /// How many did not, because others have the focus.
    pub skipped: usize,
    /// Cases that failed, each with its place in the file.
    pub failures: Vec<String>,
    /// Keys of the file that do not hold cases, or that there is no file.
    pub notes: Vec<String>,
}

/// Runs the cases of a directory of schemas, which may have none; `key` is the section that errors name.
///
/// # Errors
/// The file cannot be read, or is not of the form.
pub fn run(directory: &Path, schemas: &Schemas, key: &str) -> Result<CaseResults, String> {
    let path = directory.join(FILE);
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let bytes = match bounded_read::read_file(&path, MAX_BYTES) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let notes = vec![format!("{}: there is no such file, so there are no cases", path.display())];
            return Ok(CaseResults { notes, ..CaseResults::default() });
        }
        read => read.map_err(|e| failed(&e))?,
    };
    let data = yaml::from_slice(&bytes).map_err(|e| {
        let line = e.line().map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{line}: yaml: {}", path.display(), e.problem())
    })?;
    run_all(&to_json(&data), schemas, key).map_err(|e| failed(&e))
}

/// One case.
struct Case<'f> {
    /// Its place in the file.
    place: String,
    positive: bool,
    list: &'static str,
    values: &'f Value,
}

fn run_all(file: &Value, schemas: &Schemas, key: &str) -> Result<CaseResults, String> {
    let mut results = CaseResults::default();
    let mut cases = Vec::new();
    let Some(root) = file.as_object() else {
        return Err("a map with positive and negative is wanted".to_owned());
    };
    for (name, group) in root {
        let positive = match name.as_str() {
            "positive" => true,
            "negative" => false,
            other => {
                results.notes.push(format!("{other}: no such key; positive and negative are known"));
                continue;
            }
        };
        for (list, values) in group.as_object().into_iter().flatten() {
            let Some(list) = LISTS.iter().find(|known| known.eq_ignore_ascii_case(list)) else {
                results.notes.push(format!("{name}.{list}: no such key; {} are known", LISTS.join(", ")));
                continue;
            };
            match values {
                Value::Null => {}
                Value::Array(values) => cases.extend(values.iter().enumerate().map(|(index, values)| Case {
                    place: format!("{name}.{list}[{index}]"),
                    positive,
                    list,
                    values,
                })),
                other => return Err(format!("{name}.{list}: {other} where a list is wanted")),
            }
        }
    }
    let focused = cases.iter().any(|case| case.values.get(FOCUS).is_some());
    for case in cases {
        if focused && case.values.get(FOCUS).is_none() {
            results.skipped += 1;
            continue;
        }
        results.ran += 1;
        results.failures.extend(case.failure(schemas, key).map(|text| format!("{}: {text}", case.place)));
    }
    Ok(results)
}

impl Case<'_> {
    /// Why it fails, if it does.
    fn failure(&self, schemas: &Schemas, key: &str) -> Option<String> {
        let mut values = self.values.clone();
        match &mut values {
            Value::Object(map) => drop(map.remove(FOCUS)),
            Value::Null => values = Value::Object(serde_json::Map::new()),
            other => return Some(format!("{other} where a map of values is wanted")),
        }
        let (schema, file): (Option<&Schema>, _) = match self.list {
            "configValues" => (schemas.config.as_ref(), "config-values.yaml"),
            "values" => (schemas.values.as_ref(), "values.yaml"),
            _ => (schemas.helm.as_ref(), "values.yaml"),
        };
        let Some(schema) = schema else { return Some(format!("there is no {file} to hold it against")) };
        add_required(&mut values, &schema.tree);
        match (schema.check(key, &values, None), self.positive) {
            (Ok(()), true) | (Err(_), false) => None,
            (Err(text), true) => Some(text),
            (Ok(()), false) => Some(format!("{values} is taken, and should not be")),
        }
    }
}

/// Adds what a schema requires and has a default for.
fn add_required(value: &mut Value, schema: &Value) {
    let Value::Object(map) = value else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let default = &schema["properties"][name]["default"];
        if !map.contains_key(name) && !default.is_null() {
            map.insert(name.to_owned(), default.clone());
        }
    }
    for (key, value) in map {
        add_required(value, &schema["properties"][key.as_str()]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn results(cases: &str) -> Result<CaseResults, String> {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        put("config-values.yaml", "properties: {size: {type: integer, maximum: 5, default: 1}}\n");
        put(
            "values.yaml",
            "x-extend: {schema: config-values.yaml}\nx-required-for-helm: token\nproperties: {token: {type: string}}\n",
        );
        put(FILE, cases);
        let schemas = Schemas::read(dir.path()).unwrap();
        run(dir.path(), &schemas, "web").map_err(|e| e.replace(&format!("{}/", dir.path().display()), ""))
    }

    #[test]
    fn cases_are_taken_and_refused() {
        let good = results(
            "positive:\n  configValues: [{}, {size: 5}]\n  values: [{token: t}]\n  helmValues: [{token: t}]\n\
             negative:\n  configValues: [{size: 6}, {nope: 1}]\n  values: [{token: 1}]\n  helmValues: [{}]\n",
        );
        assert_eq!(good, Ok(CaseResults { ran: 8, ..CaseResults::default() }));
        let bad =
            results("positive: {configValues: [{size: 9}, 7]}\nnegative: {values: [{size: 2}, null]}\n")
                .unwrap();
        assert_eq!(bad.ran, 4);
        let starts = [
            "positive.configValues[0]: web.size: maximum: got 9, want 5",
            "positive.configValues[1]: 7 where a map",
            "negative.values[0]: {\"size\":2} is taken, and should not be",
            "negative.values[1]: {} is taken",
        ];
        let mut failures = bad.failures;
        failures.sort_by_key(|text| starts.iter().position(|start| text.starts_with(start)));
        assert!(failures.iter().zip(starts).all(|(text, start)| text.starts_with(start)), "{failures:#?}");
        assert_eq!(failures.len(), 4);
    }

    #[test]
    fn what_is_required_may_be_missing_where_it_has_a_default() {
        let schema = json!({
            "required": ["a", "b"], "properties": {"a": {"default": 1}, "b": {}, "c": {"default": 2},
                "d": {"required": ["e"], "properties": {"e": {"default": true}}}},
        });
        let mut value = json!({"d": {}});
        add_required(&mut value, &schema);
        assert_eq!(value, json!({"a": 1, "d": {"e": true}}));
    }

    #[test]
    fn cases_with_the_focus_run_alone_and_odd_files_are_told() {
        let focused =
            results("positive: {configValues: [{size: 9}, {size: 1, x-test-focus: true}]}\n").unwrap();
        assert_eq!((focused.ran, focused.skipped, focused.failures.len()), (1, 1, 0));
        let odd = results("positiv: {}\nnegative: {config: [{}]}\n").unwrap();
        assert_eq!(odd.notes.len(), 2, "{odd:?}");
        assert!(
            odd.notes.iter().any(|note| note.starts_with("negative.config: no such key; configValues, "))
        );
        assert_eq!(results("- a\n"), Err(format!("{FILE}: a map with positive and negative is wanted")));
        assert!(
            results("positive: {values: {}}\n").unwrap_err().contains("positive.values: {} where a list")
        );
        assert!(results("a: b: c\n").unwrap_err().starts_with(&format!("{FILE}:1: yaml: ")));
    }

    #[test]
    fn a_module_may_have_no_cases() {
        let dir = tempfile::tempdir().unwrap();
        let found = run(dir.path(), &Schemas::read(dir.path()).unwrap(), "web").unwrap();
        assert_eq!((found.ran, found.failures.len(), found.notes.len()), (0, 0, 1));
        assert!(found.notes[0].ends_with(&format!("{FILE}: there is no such file, so there are no cases")));
    }
}
