//! Objects as kustomize prints them.
//!
//! Owns the stream: JSON to YAML with sorted keys, documents joined by `---`.

use chart_compat::json::Writer;
use chart_compat::yaml::tree::{Node, Number};
use chart_compat::yaml::{EmitError, Emitter, compare_keys, json_to_yaml, sort_by_key};

use crate::error::Error;
use crate::resource::{Resource, Value, value_of};

/// Prints objects as one stream.
///
/// # Errors
/// An object that has no form in JSON.
///
/// ```
/// use kustomize_compat::{format, resource};
///
/// let objects = resource::read("kind: A # a comment\nmetadata: {name: x}\napiVersion: v1\n")?;
/// assert_eq!(format::to_yaml(&objects)?, "apiVersion: v1\nkind: A\nmetadata:\n  name: x\n");
/// # Ok::<(), kustomize_compat::Error>(())
/// ```
pub fn to_yaml(objects: &[Resource]) -> Result<String, Error> {
    let mut out = String::new();
    for object in objects {
        if !out.is_empty() {
            out.push_str("---\n");
        }
        let value = value_of(&object.node).map_err(|e| match e {
            // An object that cannot be decoded is nil in Go.
            Error::DuplicateKeys(_) | Error::Yaml(_) => e.within("map[string]interface {}(nil)"),
            other => other,
        })?;
        let start = out.len();
        let mut emitter = Emitter::new(&mut out);
        emit(&mut emitter, &value);
        match emitter.finish() {
            Ok(()) => {}
            Err(EmitError::Detour) => {
                out.truncate(start);
                let mut json = String::new();
                value.write_json(&mut Writer::new(&mut json)).map_err(|e| Error::Json(e.0.to_owned()))?;
                out.push_str(&json_to_yaml(&json).map_err(|e| Error::Json(e.to_string()))?);
            }
            Err(e @ EmitError::Number(_)) => return Err(Error::Json(e.to_string())),
        }
    }
    Ok(out)
}

/// An object as compact JSON with Go's escapes.
///
/// # Errors
/// The object has no form in JSON.
pub fn to_json(object: &Resource) -> Result<String, Error> {
    value_to_json(&object.node)
}

/// A node as compact JSON.
pub(crate) fn value_to_json(node: &Node) -> Result<String, Error> {
    let mut json = String::new();
    value_of(node)?.write_json(&mut Writer::new(&mut json)).map_err(|e| Error::Json(e.0.to_owned()))?;
    Ok(json)
}

fn emit(emitter: &mut Emitter<'_>, value: &Value<'_>) {
    match value {
        Value::Null => emitter.null(),
        Value::Bool(value) => emitter.bool(*value),
        Value::Number(Number::Int(n)) => emitter.int(*n),
        Value::Number(Number::Uint(n)) => emitter.uint(*n),
        Value::Number(Number::Float(n)) => emitter.float(*n),
        Value::Text(text) => emitter.string(text),
        Value::List(items) => {
            emitter.begin_list();
            items.iter().for_each(|item| emit(emitter, item));
            emitter.end_list();
        }
        Value::Map(entries) => {
            let mut entries: Vec<_> = entries.iter().collect();
            sort_by_key(&mut entries, |(key, _)| key, compare_keys);
            emitter.begin_map();
            for (key, value) in entries {
                emitter.key(key);
                emit(emitter, value);
            }
            emitter.end_map();
        }
    }
}
