//! `values.schema.json`: validates the values of a chart and its subcharts (`ValidateAgainstSchema`).
//!
//! Owns JSON Schema from draft 4 to 2020-12, and Helm's error texts. Does not fetch: documents outside the schema's own file
//! come from the `World`.

mod address;
mod check;
mod compile;
mod decimal;
mod draft;
mod external_documents;
mod failure;
mod fast_check;
mod format;
mod instance_location;
mod json;
mod members;
mod meta;
mod parts;
mod resources;
mod show;
mod uri;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use compile::Program;
use external_documents::ExternalDocuments;
use fast_check::FastCheck;
use json::Json;
use rustc_hash::FxHashMap;

use super::error::{Breach, Error};
use crate::chart::{Chart, Warn};
use crate::data::{Data, Map};
use crate::go::slog;
use crate::json::first_tree;
use crate::memory;
use crate::path::Path;
use crate::world::{World, refused};
use failure::Unmet;

/// The URL of the root schema, for references.
const URL: &str = "file:///values.schema.json";
/// How many bytes of memory a byte of a schema takes once it is parsed: most in short lists and maps.
const TREE: usize = 8;

/// The compiled schemas of a chart and its subcharts, by their texts.
#[derive(Default)]
pub(super) struct Schemas(Mutex<FxHashMap<Bytes, Result<Arc<Compiled>, String>>>);

impl Schemas {
    /// The schema of a text; an error if the text is not JSON.
    fn get(&self, text: &Bytes) -> Result<Arc<Compiled>, String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(text.clone()).or_insert_with(|| Compiled::read(text).map(Arc::new)).clone()
    }
}

/// Validates the values of a chart and of its subcharts, each against the chart's own schema.
///
/// # Errors
/// Helm's text, with each value that violates a schema.
pub(super) fn validate(
    chart: &Chart,
    values: &Map,
    schemas: &Schemas,
    world: &dyn World,
    warn: Warn<'_>,
) -> Result<(), Error> {
    let mut found = Found::default();
    check_chart(chart, values, schemas, world, &mut Vec::new(), &mut found);
    for name in &found.unresolved {
        let text = "unresolved URN reference ignored; using permissive schema";
        warn(slog::line("WARN", text, &[("urn", name)]));
    }
    if found.text.is_empty() {
        Ok(())
    } else {
        Err(Error::Schema { text: found.text, breaches: found.breaches })
    }
}

/// Validates values against one schema (`ValidateAgainstSingleSchema`).
///
/// # Errors
/// Helm's text.
pub(crate) fn check_schema(schema: &[u8], values: &Map, world: &dyn World) -> Result<(), String> {
    let value = Json::Map(values.iter().map(|(k, v)| (k.clone(), Json::from_data(v))).collect());
    let program = Compiled::read(schema)?.program(&|url| world.schema_document(url))?;
    check::value(&program, &value, &|| world.stopped()).map_err(|unmet| unmet.text)
}

/// The violations of all schemas.
#[derive(Default)]
struct Found {
    text: String,
    breaches: Vec<Breach>,
    /// URNs of unresolved references.
    unresolved: Vec<String>,
    /// Whether the check is to stop.
    stopped: bool,
}

fn check_chart<'c>(
    chart: &'c Chart,
    values: &Map,
    schemas: &Schemas,
    world: &dyn World,
    scope: &mut Vec<&'c str>,
    found: &mut Found,
) {
    if found.stopped {
        return;
    }
    if chart.schema.is_some()
        && let Some(why) = world.stopped()
    {
        found.stopped = true;
        found.text.push_str(&format!("{}:\nrender stopped: {why}\n", chart.name()));
        return;
    }
    if let Some(schema) = &chart.schema {
        let checked = schemas.get(schema).map_err(Unmet::from).and_then(|schema| {
            // Such a schema has no unresolved reference.
            if schema.accepts(&Data::Map(values.clone())) {
                return Ok(());
            }
            let program = schema.program(&|url| world.schema_document(url))?;
            for name in &program.unresolved {
                if !found.unresolved.contains(name) {
                    found.unresolved.push(name.clone());
                }
            }
            let value = Json::Map(values.iter().map(|(k, v)| (k.clone(), Json::from_data(v))).collect());
            check::value(&program, &value, &|| world.stopped())
        });
        if let Err(why) = checked {
            found.text.push_str(&format!("{}:\n{}", chart.name(), why.text));
            let breaches = why.breaches.into_iter();
            found.breaches.extend(breaches.map(|b| Breach { path: b.path.below(scope), ..b }));
        }
    }
    for sub in &chart.dependencies {
        match values.get(sub.name()) {
            None | Some(Data::Null) => {}
            Some(Data::Map(values)) => {
                scope.push(sub.name());
                check_chart(sub, values, schemas, world, scope, found);
                scope.pop();
            }
            Some(other) => found.not_a_map(sub.name(), other, scope),
        }
    }
}

impl Found {
    /// The values of a subchart are no map.
    fn not_a_map(&mut self, name: &str, values: &Data, scope: &[&str]) {
        let got = match values {
            Data::Bool(_) => "bool",
            Data::Int(_) => "int64",
            Data::Float(_) => "float64",
            Data::String(_) => "string",
            Data::List(_) | Data::Map(_) | Data::Null => "[]interface {}",
        };
        let text = format!("expected object (map), got {got}");
        let path = Path::default().key(name).below(scope);
        self.breaches.push(Breach { path, text, properties: Vec::new() });
        self.text.push_str(&format!("{name}:\ninvalid type for values: expected object (map), got {got}\n"));
    }
}

/// Parses one JSON document without trailing data (`jsonschema.UnmarshalJSON`).
fn whole_document(text: &[u8]) -> Result<Json, String> {
    let (json, end) = first_tree::<Json>(text).map_err(|e| e.to_string())?;
    if !text[end..].iter().all(u8::is_ascii_whitespace) {
        return Err("invalid character after top-level value".to_owned());
    }
    Ok(json)
}

/// A parsed schema, compiled when first needed.
struct Compiled {
    json: Arc<Json>,
    fast: Option<FastCheck>,
    /// Cached unless it contains external documents.
    program: OnceLock<Result<Arc<Program>, String>>,
}

impl Compiled {
    fn read(text: &[u8]) -> Result<Self, String> {
        let most = memory::of_input() / TREE;
        if text.len() > most {
            return Err(format!("it has {} bytes, and there is memory for {most}", text.len()));
        }
        let json = Arc::new(whole_document(text)?);
        Ok(Self { fast: FastCheck::new(&json), json, program: OnceLock::new() })
    }

    /// Whether values certainly satisfy the schema; then the schema is well formed, too.
    fn accepts(&self, values: &Data) -> bool {
        self.fast.as_ref().is_some_and(|fast| fast.accepts(values))
    }

    fn program(&self, fetch: external_documents::Fetch<'_>) -> Result<Arc<Program>, String> {
        if let Some(known) = self.program.get() {
            return known.clone();
        }
        let documents = ExternalDocuments::new(fetch);
        let program = Program::new(URL, &self.json, &documents).map(Arc::new);
        match documents.has_requested() {
            true => program,
            false => self.program.get_or_init(|| program).clone(),
        }
    }
}

/// Refuses every external document.
fn nowhere(url: &str) -> Result<Bytes, String> {
    Err(refused(url).to_owned())
}

/// A stand-alone JSON Schema, from draft 4 to 2020-12, without references to external documents.
///
/// ```
/// use chart_compat::{chart::read_values, data::Data, profile::Profile, render::Schema};
/// let schema = Schema::read(br#"{"properties": {"replicas": {"type": "integer"}}}"#).unwrap();
/// let values = read_values(b"replicas: many", Profile::Helm4).unwrap();
/// let breaches = schema.check(&Data::Map(values)).unwrap_err();
/// assert_eq!(breaches[0].path.to_string(), "replicas");
/// assert_eq!(breaches[0].text, "got string, want integer");
/// ```
pub struct Schema(Compiled);

impl Schema {
    /// Parses and compiles a schema.
    ///
    /// # Errors
    /// Text that is not JSON or not a schema, with Helm's text.
    pub fn read(json: &[u8]) -> Result<Self, String> {
        let compiled = Compiled::read(json)?;
        compiled.program(&nowhere)?;
        Ok(Self(compiled))
    }

    /// Validates values.
    ///
    /// # Errors
    /// Each value that violates the schema.
    pub fn check(&self, values: &Data) -> Result<(), Vec<Breach>> {
        if self.0.accepts(values) {
            return Ok(());
        }
        let program = self.0.program(&nowhere).map_err(Unmet::from);
        let checked = program.and_then(|program| check::value(&program, &Json::from_data(values), &|| None));
        checked.map_err(|unmet| unmet.breaches)
    }
}

#[cfg(test)]
mod tests;
