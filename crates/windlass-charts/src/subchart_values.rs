//! What a chart and its subcharts bring: their values, and the schema of all of them.

use std::collections::{BTreeMap, BTreeSet};

use chart_compat::chart::Chart;
use chart_compat::data::Data;
use chart_compat::json::ParsedSize;
use chart_compat::{json, memory};
use serde_json::{Value, json};

use crate::chart_definition::DefinitionError;
use crate::inferred_schema::inferred;
use crate::structural_schema::{INT_OR_STRING, PRESERVE, anything, object_of, permit_null, structural};
use crate::{Object, Warning};

/// How deep subcharts may be.
const MAX_SUBCHARTS: usize = 8;

/// Lays a value over another one as Helm does: maps are merged, all else is replaced.
pub(crate) fn overlay(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(key) {
                    Some(own) => overlay(own, value),
                    None => drop(base.insert(key.clone(), value.clone())),
                }
            }
        }
        (base, over) => *base = over.clone(),
    }
}

/// Values as JSON. Whole numbers are integers, as in Go.
pub(crate) fn to_json(data: &Data) -> Result<Value, String> {
    let text = json::to_string(data).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// The subcharts of a chart, by the key of their values: alias or name. Those of one chart under several aliases are several.
fn subcharts(chart: &Chart) -> Vec<(&str, &Chart)> {
    let mut entries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in chart.metadata.dependencies.iter().flatten() {
        let key = if entry.alias.is_empty() { &entry.name } else { &entry.alias };
        entries.entry(&entry.name).or_default().push(key);
    }
    let (mut found, mut known) = (Vec::new(), BTreeSet::new());
    for sub in &chart.dependencies {
        let before = found.len();
        for key in entries.get(sub.name()).into_iter().flatten() {
            if known.insert(*key) {
                found.push((*key, sub));
            }
        }
        if found.len() == before {
            known.insert(sub.name());
            found.push((sub.name(), sub));
        }
    }
    found
}

/// The most charts whose values are read: ten aliases of one chart in each of eight levels are 100,000,000.
const MAX_CHARTS: usize = 10_000;

/// What is left for the values of all charts of a tree.
struct ValuesRoom {
    charts: usize,
    bytes: usize,
}

/// The values of a chart with those of its subcharts below.
pub(crate) fn defaults(chart: &Chart, depth: usize) -> Result<Value, String> {
    defaults_within(chart, depth, &mut ValuesRoom { charts: MAX_CHARTS, bytes: memory::of_input() })
}

fn defaults_within(chart: &Chart, depth: usize, room: &mut ValuesRoom) -> Result<Value, String> {
    let name = chart.name();
    let left = room.charts.checked_sub(1);
    room.charts =
        left.ok_or_else(|| format!("{name}: with their aliases there are more than {MAX_CHARTS} subcharts"))?;
    let mut all = json!({});
    for (key, sub) in subcharts(chart).into_iter().filter(|_| depth < MAX_SUBCHARTS) {
        all[key] = defaults_within(sub, depth + 1, room)?;
    }
    let text = json::to_string(&Data::Map((*chart.values).clone())).map_err(|error| error.to_string())?;
    // A value takes several times its text.
    room.bytes = room.bytes.checked_sub(8 * text.len()).ok_or_else(|| {
        format!("{name}: the values of all subcharts take more than {} MiB", memory::of_input() >> 20)
    })?;
    let own = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    overlay(&mut all, &own);
    Ok(all)
}

/// The structural schema of a chart's values. `defaults`: the values of the chart, with what a parent sets of them.
pub(crate) fn spec_schema(
    chart: &Chart,
    defaults: &Value,
    at: &str,
    depth: usize,
    warnings: &mut Vec<Warning>,
) -> Result<Object, DefinitionError> {
    let (root, from_values) = match &chart.schema {
        Some(text) => (declared(chart, text)?, false),
        None => (inferred(chart, defaults, at, warnings)?, true),
    };
    let mut spec = structural(&root, Some(defaults), at, warnings);
    let typed = spec.contains_key("type") || spec.contains_key(INT_OR_STRING);
    if typed && spec.get("type") != Some(&json!("object")) {
        let text = "the schema is of no map, and values are one: not checked".to_owned();
        warnings.push(Warning { path: at.to_owned(), text });
        spec = anything();
    }
    spec.insert("type".to_owned(), json!("object"));
    spec.remove("nullable");
    let subs = subcharts(chart);
    if spec.contains_key("additionalProperties") || subs.is_empty() || depth >= MAX_SUBCHARTS {
        return Ok(spec);
    }
    let mut properties = match spec.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Object::new(),
    };
    if !properties.contains_key("global") {
        let text = "Values that the chart and all its subcharts read.";
        let global =
            object_of([("type", json!("object")), ("description", json!(text)), (PRESERVE, json!(true))]);
        properties.insert("global".to_owned(), Value::Object(global));
    }
    for (key, sub) in subs {
        if properties.contains_key(key) && !from_values {
            continue;
        }
        let at = format!("{at}.{key}");
        let mut schema = spec_schema(sub, &defaults[key], &at, depth + 1, warnings)?;
        without_requirements(&mut schema);
        permit_null(&mut schema);
        if !schema.contains_key("description") {
            let text = format!("Values of the subchart {} {}.", sub.name(), sub.metadata.version);
            schema.insert("description".to_owned(), json!(text));
        }
        match properties.get_mut(key) {
            Some(Value::Object(own)) => complete(own, &schema),
            _ => drop(properties.insert(key.to_owned(), Value::Object(schema))),
        }
    }
    spec.insert("properties".to_owned(), Value::Object(properties));
    Ok(spec)
}

/// What a schema may take once it is read, in bytes.
const SCHEMA: u64 = 128 << 20;

fn declared(chart: &Chart, text: &[u8]) -> Result<Value, DefinitionError> {
    if ParsedSize::of(text).parsed > SCHEMA {
        let error =
            serde::de::Error::custom(format_args!("it takes more than {} MiB once it is read", SCHEMA >> 20));
        return Err(DefinitionError::Schema { chart: chart.name().to_owned(), error });
    }
    #[expect(clippy::disallowed_methods, reason = "within the limit")]
    serde_json::from_slice(text)
        .map_err(|error| DefinitionError::Schema { chart: chart.name().to_owned(), error })
}

/// A subchart that is turned off requires nothing.
fn without_requirements(schema: &mut Object) {
    for key in ["required", "oneOf", "anyOf", "allOf", "not", "minProperties"] {
        schema.remove(key);
    }
    for node in schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|map| map.values_mut())
    {
        if let Value::Object(node) = node {
            without_requirements(node);
        }
    }
}

/// Adds the fields of a subchart to those that are inferred from its parent's values.
fn complete(own: &mut Object, sub: &Object) {
    let Some(Value::Object(fields)) = sub.get("properties") else { return };
    if own.get("type") != Some(&json!("object")) || own.contains_key("additionalProperties") {
        return;
    }
    let Value::Object(properties) = own.entry("properties").or_insert_with(|| json!({})) else { return };
    for (name, field) in fields {
        match (properties.get_mut(name), field) {
            (Some(Value::Object(own)), Value::Object(field)) => complete(own, field),
            (Some(_), _) => {}
            (None, _) => drop(properties.insert(name.clone(), field.clone())),
        }
    }
}
