//! The object operations that a run writes: a stream of JSON or YAML documents. Pure.

use chart_compat::data::Data;
use chart_compat::yaml::{self, Room};
use serde_json::{Map, Value};

use super::jq::Filter;
use windlass_base::bounded_json::{self, JsonError};
use windlass_cluster::Propagation;
use windlass_render::to_json;

/// One operation.
#[derive(Clone, Debug)]
pub enum Operation {
    Create { object: Value, subresource: String, exists: Exists },
    Delete { target: OperationTarget, propagation: Propagation },
    Patch { target: OperationTarget, patch: Patch, ignore_missing: bool, ignore_hook_error: bool },
}

/// What to do about an object that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exists {
    Fail,
    Ignore,
    Replace,
}

/// The object that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationTarget {
    /// May be empty: any version that serves the kind.
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Without a slash; empty: the object itself.
    pub subresource: String,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub enum Patch {
    Merge(Value),
    Json(Value),
    Jq(Filter),
}

/// A file of operations that cannot be read: none of it is done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperationsError {
    #[error("operations file: neither JSON ({json}) nor YAML ({yaml})")]
    Syntax { json: String, yaml: String },
    #[error("operations file: {0}")]
    TooLarge(String),
    #[error("operations file, document {number}: {text}")]
    Document { number: usize, text: String },
}

const KEYS: [&str; 12] = [
    "operation",
    "namespace",
    "subresource",
    "apiVersion",
    "kind",
    "name",
    "object",
    "jsonPatch",
    "jqFilter",
    "mergePatch",
    "ignoreMissingObject",
    "ignoreHookError",
];

/// Reads a file of operations.
///
/// # Errors
/// A document is neither JSON nor YAML, or lacks what its operation needs; or they take too much once they are read.
pub fn parse(text: &str) -> Result<Vec<Operation>, OperationsError> {
    let mut operations = Vec::new();
    let room = Room::default();
    for (index, document) in documents(text, &room)?.iter().enumerate() {
        let fail = |text: String| OperationsError::Document { number: index + 1, text };
        operations.push(operation(document, &room).map_err(fail)?);
    }
    Ok(operations)
}

fn documents(text: &str, room: &Room) -> Result<Vec<Value>, OperationsError> {
    let json = bounded_json::documents::<Value>(text.as_bytes());
    let json: Result<Vec<Value>, JsonError> = json.and_then(|documents| documents.collect());
    let failed = match json {
        Ok(documents) => return Ok(documents),
        // Of YAML the signs of JSON tell nothing: its reader has a bound of its own.
        Err(e @ JsonError::TooLarge(_)) if text.trim_start().starts_with(['{', '[']) => {
            return Err(OperationsError::TooLarge(e.to_string()));
        }
        Err(e) => e.to_string(),
    };
    let mut documents = Vec::new();
    for part in split(text) {
        match yaml::from_slice_within(part.as_bytes(), room) {
            Ok(Data::Null) => {}
            Ok(data) => documents.push(to_json(&data)),
            Err(e) => return Err(OperationsError::Syntax { json: failed, yaml: e.to_string() }),
        }
    }
    Ok(documents)
}

/// The documents of a YAML stream.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in text.lines() {
        let rest = line.strip_prefix("---").filter(|r| r.is_empty() || r.starts_with([' ', '\t']));
        match (rest, parts.last_mut()) {
            (Some(rest), _) => parts.push(format!("{rest}\n")),
            (None, Some(part)) => {
                part.push_str(line);
                part.push('\n');
            }
            (None, None) => {}
        }
    }
    parts
}

fn operation(document: &Value, room: &Room) -> Result<Operation, String> {
    let map = document.as_object().ok_or("it is not a map")?;
    if let Some(key) = map.keys().find(|k| !KEYS.contains(&k.as_str())) {
        return Err(format!("there is no key {key:?}"));
    }
    let name = text(map, "operation")?;
    let target = || target(map);
    let patch = |patch: Patch| -> Result<Operation, String> {
        Ok(Operation::Patch {
            target: target()?,
            patch,
            ignore_missing: flag(map, "ignoreMissingObject")?,
            ignore_hook_error: flag(map, "ignoreHookError")?,
        })
    };
    let create = |exists: Exists| -> Result<Operation, String> {
        let object = structure(map, "object", room)?;
        match object.as_object() {
            Some(fields) if !fields.is_empty() => {}
            _ => return Err("object: no map with fields".to_owned()),
        }
        let has = |field: &str| object.pointer(field).and_then(Value::as_str).is_some_and(|t| !t.is_empty());
        for field in ["/apiVersion", "/kind", "/metadata/name"] {
            // The server makes a name that begins so.
            let made = field == "/metadata/name" && has("/metadata/generateName");
            if !has(field) && !made {
                return Err(format!("object: {} is missing", &field[1..].replace('/', ".")));
            }
        }
        Ok(Operation::Create { object, subresource: subresource(map)?, exists })
    };
    let delete = |propagation| Ok(Operation::Delete { target: target()?, propagation });
    match name.as_str() {
        "Create" => create(Exists::Fail),
        "CreateIfNotExists" => create(Exists::Ignore),
        "CreateOrUpdate" => create(Exists::Replace),
        "Delete" => delete(Propagation::Foreground),
        "DeleteInBackground" => delete(Propagation::Background),
        "DeleteNonCascading" => delete(Propagation::Orphan),
        "MergePatch" => match structure(map, "mergePatch", room)? {
            changes @ Value::Object(_) => patch(Patch::Merge(changes)),
            other => Err(format!("mergePatch: {other} is not a map")),
        },
        "JSONPatch" => match structure(map, "jsonPatch", room)? {
            Value::Array(steps) if !steps.is_empty() => {
                steps.iter().try_for_each(step)?;
                patch(Patch::Json(Value::Array(steps)))
            }
            other => Err(format!("jsonPatch: {other} is not a list of operations")),
        },
        "JQPatch" => match text(map, "jqFilter")? {
            filter if filter.is_empty() => Err("jqFilter: it is missing".to_owned()),
            filter => patch(Patch::Jq(Filter::new(&filter).map_err(|e| format!("jqFilter: {e}"))?)),
        },
        "" => Err("operation: it is missing".to_owned()),
        other => Err(format!(
            "there is no operation {other:?}, but Create, CreateIfNotExists, CreateOrUpdate, Delete, DeleteInBackground, \
             DeleteNonCascading, MergePatch, JSONPatch and JQPatch"
        )),
    }
}

/// A step of a JSON patch. The peer wants a value even for `remove`; here it may be left out where it means nothing.
fn step(step: &Value) -> Result<(), String> {
    let word = |key: &str| step[key].as_str().filter(|t| !t.is_empty());
    let Some(op) = word("op") else { return Err(format!("jsonPatch: {step}: op is missing")) };
    if step["path"].as_str().is_none() {
        return Err(format!("jsonPatch: {step}: path is missing"));
    }
    if matches!(op, "add" | "replace" | "test") && step.get("value").is_none() {
        return Err(format!("jsonPatch: {step}: value is missing"));
    }
    Ok(())
}

fn target(map: &Map<String, Value>) -> Result<OperationTarget, String> {
    let wanted = |key: &str| match text(map, key)? {
        found if found.is_empty() => Err(format!("{key}: it is missing")),
        found => Ok(found),
    };
    Ok(OperationTarget {
        api_version: text(map, "apiVersion")?,
        kind: wanted("kind")?,
        namespace: text(map, "namespace")?,
        name: wanted("name")?,
        subresource: subresource(map)?,
    })
}

fn subresource(map: &Map<String, Value>) -> Result<String, String> {
    Ok(text(map, "subresource")?.trim_start_matches('/').to_owned())
}

fn text(map: &Map<String, Value>, key: &str) -> Result<String, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("{key}: {other} is not a string")),
    }
}

fn flag(map: &Map<String, Value>, key: &str) -> Result<bool, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(format!("{key}: {other} is neither true nor false")),
    }
}

/// A value that may be written as text that holds JSON or YAML, within the room of the whole file.
fn structure(map: &Map<String, Value>, key: &str, room: &Room) -> Result<Value, String> {
    match map.get(key) {
        None | Some(Value::Null) => Err(format!("{key}: it is missing")),
        Some(Value::String(text)) => {
            let data = yaml::from_slice_within(text.as_bytes(), room).map_err(|e| format!("{key}: {e}"))?;
            Ok(to_json(&data))
        }
        Some(other) => Ok(other.clone()),
    }
}

#[cfg(test)]
mod tests;
