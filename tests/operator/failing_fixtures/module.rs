//! A case as a module of the operator: its values below the module's key.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::cases::Case;
use super::copy;
use super::mark::{each_file, keys, rewrite, write};

/// Writes the module; gives its key of the ConfigMap, if the case has values of its own.
pub(super) fn write_module(tree: &Path, case: &Case, name: &str, modules: &Path) -> Option<String> {
    let directory = modules.join(format!("001-{name}"));
    copy(&tree.join(&case.chart), &directory);
    let values = format!(".Values.{name}");
    each_file(&directory.join("templates"), &mut |file| {
        rewrite(file, |text| text.replace(".Values", &values));
    });
    let marked = keys(tree, case);
    let marked: Vec<&str> = marked.split(',').filter(|key| !key.is_empty()).collect();
    rewrite(&directory.join("values.yaml"), |text| match serde_json::from_str(text) {
        Ok(Value::Object(mut map)) => {
            map.insert("markedKeys".to_owned(), json!(marked));
            json!({name: map}).to_string()
        }
        // What is not a map fails, wherever it stands.
        _ => format!("{name}:\n{}", text.lines().map(|line| format!("  {line}\n")).collect::<String>()),
    });
    let schema = directory.join("values.schema.json");
    if let Some(own) =
        fs::read_to_string(&schema).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok())
    {
        fs::create_dir_all(directory.join("openapi")).unwrap();
        write(&directory.join("openapi/values.yaml"), &own.to_string());
        write(&schema, &json!({"properties": {name: own}}).to_string());
    }
    let file = case.values.iter().find(|word| !word.starts_with('-'))?;
    fs::read_to_string(tree.join(file)).ok()
}
