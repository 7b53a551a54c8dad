//! Converts rendered text to the engine's data, and the chart to the format of release records.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::chart::{Chart, Crd, File};
use chart_compat::data::Data;
use chart_compat::render::{self, Rendered, manifest_text};
use chart_compat::yaml::{self, Room};
use serde_json::{Number, Value, json};

use super::bounds::RenderBounds;
use windlass_engine::{
    ChartHook, ChartRecord, CrdFile, HookDeletePolicy, HookEvent, HookOutputLogPolicy, Manifest,
    RenderedRelease,
};

/// The largest integer up to which every float is exact, and so prints as an integer in JSON.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// JSON-shaped data as JSON; whole floats become integers, as Go's encoder prints them.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub fn to_json(data: &Data) -> Value {
    match data {
        Data::Null => Value::Null,
        Data::Bool(b) => Value::Bool(*b),
        Data::Int(i) => Value::Number((*i).into()),
        Data::Float(f) if f.fract() == 0.0 && f.abs() < EXACT => Value::Number((*f as i64).into()),
        Data::Float(f) => Number::from_f64(*f).map_or(Value::Null, Value::Number),
        Data::String(s) => Value::String(s.clone()),
        Data::List(l) => Value::Array(l.iter().map(to_json).collect()),
        Data::Map(m) => Value::Object(m.iter().map(|(k, v)| (k.clone(), to_json(v))).collect()),
    }
}

/// Converts JSON as Helm decodes values: every number is a float.
#[must_use]
pub fn from_json(value: &Value) -> Data {
    match value {
        Value::Null => Data::Null,
        Value::Bool(b) => Data::Bool(*b),
        Value::Number(n) => Data::Float(n.as_f64().unwrap_or_default()),
        Value::String(s) => Data::String(s.clone()),
        Value::Array(l) => Data::List(l.iter().map(from_json).collect()),
        Value::Object(m) => Data::Map(m.iter().map(|(k, v)| (k.clone(), from_json(v))).collect()),
    }
}

/// Converts a live object, or values in one: integers stay integers, as Go's clients decode them.
#[must_use]
pub fn object_data(value: &Value) -> Data {
    match value {
        Value::Number(n) => n.as_i64().map_or_else(|| Data::Float(n.as_f64().unwrap_or_default()), Data::Int),
        Value::Array(l) => Data::List(l.iter().map(object_data).collect()),
        Value::Object(m) => Data::Map(m.iter().map(|(k, v)| (k.clone(), object_data(v))).collect()),
        other => from_json(other),
    }
}

/// Parses one document of a manifest. Adds a missing line feed at the end, as Kubernetes' `YAMLReader` does: a block scalar
/// at the end has its line break.
///
/// # Errors
/// The YAML error, with its line.
pub fn parse_manifest(text: &str) -> Result<Value, String> {
    parse_manifest_within(text, &Room::default())
}

/// Parses one of several documents that share room, as [`parse_manifest`].
fn parse_manifest_within(text: &str, room: &Room) -> Result<Value, String> {
    let ended = if text.ends_with('\n') { Cow::Borrowed(text) } else { Cow::Owned(format!("{text}\n")) };
    yaml::from_slice_within(ended.as_bytes(), room).map(|d| to_json(&d)).map_err(|e| e.to_string())
}

fn event(name: &str) -> Option<HookEvent> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

/// Converts a manifest of the release. Helm parses its object from the text of all manifests, in which another line break follows each.
fn manifest(m: &render::Manifest, room: &Room) -> Result<Manifest, render::Error> {
    let object =
        parse_manifest_within(&format!("{}\n", m.text), room).map_err(|reason| refused(m, reason))?;
    Ok(Manifest { source: m.source.clone(), text: m.text.clone(), object })
}

fn refused(m: &render::Manifest, reason: String) -> render::Error {
    render::Error::manifest(&m.source, &m.text, reason)
}

fn policies<T: serde::de::DeserializeOwned>(names: &[String]) -> Vec<T> {
    // Helm stores unknown policies but never acts on them.
    names.iter().filter_map(|n| serde_json::from_value(Value::String(n.clone())).ok()).collect()
}

/// Converts a chart hook, which Helm parses by itself.
fn hook(h: &render::Hook, room: &Room) -> Result<ChartHook, render::Error> {
    let m = &h.manifest;
    Ok(ChartHook {
        name: m.head.name.clone(),
        kind: m.head.kind.clone(),
        path: m.source.clone(),
        text: m.text.clone(),
        object: parse_manifest_within(&m.text, room).map_err(|reason| refused(m, reason))?,
        events: h.events.iter().filter_map(|e| event(e)).collect(),
        weight: h.weight,
        delete_policies: policies::<HookDeletePolicy>(&h.delete_policies),
        output_log_policies: policies::<HookOutputLogPolicy>(&h.output_log_policies),
    })
}

/// Converts CRD files for the engine.
///
/// # Errors
/// A file that is not YAML.
pub fn crds(files: &[Crd]) -> Result<Vec<CrdFile>, render::Error> {
    crds_within(files, &Room::default())
}

fn crds_within(files: &[Crd], room: &Room) -> Result<Vec<CrdFile>, render::Error> {
    let mut out = Vec::with_capacity(files.len());
    for crd in files {
        let text = String::from_utf8_lossy(&crd.data).into_owned();
        let mut objects = Vec::new();
        for doc in render::split_documents(&text) {
            let object = parse_manifest_within(doc, room)
                .map_err(|reason| render::Error::manifest(&crd.path, doc, reason))?;
            if !object.is_null() {
                objects.push(object);
            }
        }
        out.push(CrdFile { name: crd.path.clone(), text, objects });
    }
    Ok(out)
}

/// The memory of a node of a document as a parsed object, in bytes.
const NODE: usize = 64;

/// Refuses manifests whose objects exceed the render's memory limit: a text of a few bytes can become an object of a hundred. Whoever
/// parses the manifests of a chart before [`release`] does asks this first.
///
/// # Errors
/// The objects exceed it.
pub fn check_size(rendered: &Rendered, bounds: &RenderBounds) -> Result<(), render::Error> {
    let memory = bounds.memory;
    let all = || rendered.manifests.iter().chain(rendered.hooks.iter().map(|hook| &hook.manifest));
    let text: usize = all().map(|m| m.text.len()).sum();
    if text < memory / NODE {
        return Ok(());
    }
    let sizes = || all().map(|m| (yaml::count_nodes(m.text.as_bytes()).saturating_mul(NODE), &m.source));
    if text.saturating_add(sizes().map(|(size, _)| size).sum()) <= memory {
        return Ok(());
    }
    let path = sizes().max().map_or_else(String::new, |(_, source)| source.clone());
    Err(render::Error::Objects { path, mib: memory >> 20 })
}

/// Converts a render to the engine's form.
///
/// # Errors
/// A CRD file or manifest that is not YAML, or objects that exceed the render's memory limit.
pub fn release(rendered: &Rendered, bounds: &RenderBounds) -> Result<RenderedRelease, render::Error> {
    check_size(rendered, bounds)?;
    let room = Room::default();
    let crds = crds_within(&rendered.crds, &room)?;
    Ok(RenderedRelease {
        manifests: rendered.manifests.iter().map(|m| manifest(m, &room)).collect::<Result<_, _>>()?,
        hooks: rendered.hooks.iter().map(|h| hook(h, &room)).collect::<Result<_, _>>()?,
        crds,
        notes: rendered.notes.clone(),
        checksum: rendered.checksum()?,
        manifest_text: String::from_utf8_lossy(&manifest_text(rendered, false)).into_owned(),
    })
}

/// Helm encodes an empty list as null.
fn files(files: &[File]) -> Value {
    if files.is_empty() {
        return Value::Null;
    }
    files.iter().map(|f| json!({ "name": f.name, "data": STANDARD.encode(&f.data) })).collect()
}

/// The chart as in Helm's release records: without its subcharts, which Helm does not store.
#[must_use]
pub fn chart_record(chart: &Chart) -> ChartRecord {
    let schema = chart.schema.as_ref().map(|s| STANDARD.encode(s));
    ChartRecord(json!({
        "metadata": to_json(&chart.metadata.data()),
        "lock": chart.lock.as_ref().map(to_json),
        "templates": files(&chart.templates),
        "values": to_json(&Data::Map((*chart.values).clone())),
        "schema": schema,
        "files": files(&chart.files),
    }))
}
