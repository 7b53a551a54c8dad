//! `values.schema.json`: whether values are what a chart and its subcharts demand (`ValidateAgainstSchema`).
//!
//! Owns JSON Schema from draft 4 to 2020-12, and the words in which Helm tells what is wrong. Nothing is fetched: a schema may
//! only refer to what is in its own file.

mod address;
mod check;
mod compile;
mod decimal;
mod draft;
mod failure;
mod format;
mod json;
mod meta;
mod parts;
mod resources;
mod show;
mod uri;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use compile::Program;
use json::Json;

use super::error::Error;
use crate::chart::{Chart, Warn};
use crate::data::{Data, Map};
use crate::go::slog;
use crate::json::first_tree;

/// The name of a schema among those that it refers to.
const URL: &str = "file:///values.schema.json";

/// How many compiled schemas are kept for the next render.
const KEPT: usize = 64;

/// Checks the values of a chart and of its subcharts, each against the chart's own schema.
pub(super) fn validate(chart: &Chart, values: &Map, warn: Warn<'_>) -> Result<(), Error> {
    let mut text = String::new();
    let mut unresolved = Vec::new();
    check_chart(chart, values, &mut text, &mut unresolved);
    for name in unresolved {
        let text = "unresolved URN reference ignored; using permissive schema";
        warn(slog::line("WARN", text, &[("urn", &name)]));
    }
    if text.is_empty() { Ok(()) } else { Err(Error::Schema(text)) }
}

fn check_chart(chart: &Chart, values: &Map, out: &mut String, unresolved: &mut Vec<String>) {
    if let Some(schema) = &chart.schema {
        let checked = program(schema).and_then(|program| {
            let news: Vec<_> =
                program.unresolved.iter().filter(|n| !unresolved.contains(n)).cloned().collect();
            unresolved.extend(news);
            let value = Json::Map(values.iter().map(|(k, v)| (k.clone(), Json::from_data(v))).collect());
            check::value(&program, &value)
        });
        if let Err(why) = checked {
            out.push_str(&format!("{}:\n{why}", chart.name()));
        }
    }
    for sub in &chart.dependencies {
        match values.get(sub.name()) {
            None | Some(Data::Null) => {}
            Some(Data::Map(values)) => check_chart(sub, values, out, unresolved),
            Some(other) => {
                let got = match other {
                    Data::Bool(_) => "bool",
                    Data::Int(_) => "int64",
                    Data::Float(_) => "float64",
                    Data::String(_) => "string",
                    Data::List(_) | Data::Map(_) | Data::Null => "[]interface {}",
                };
                let name = sub.name();
                out.push_str(&format!(
                    "{name}:\ninvalid type for values: expected object (map), got {got}\n"
                ));
            }
        }
    }
}

type Compiled = Result<Arc<Program>, String>;

/// The compiled form of a schema, kept for the next time.
fn program(schema: &Arc<[u8]>) -> Compiled {
    static CACHE: LazyLock<Mutex<HashMap<Arc<[u8]>, Compiled>>> = LazyLock::new(Mutex::default);
    if let Some(found) = CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(schema) {
        return found.clone();
    }
    let compiled = compile(schema).map(Arc::new);
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() >= KEPT {
        cache.clear();
    }
    cache.insert(Arc::clone(schema), compiled.clone());
    compiled
}

fn compile(schema: &[u8]) -> Result<Program, String> {
    let (json, end) = first_tree::<Json>(schema).map_err(|e| e.to_string())?;
    if !schema[end..].iter().all(u8::is_ascii_whitespace) {
        return Err("invalid character after top-level value".to_owned());
    }
    Program::new(URL, &Arc::new(json))
}

#[cfg(test)]
mod tests;
