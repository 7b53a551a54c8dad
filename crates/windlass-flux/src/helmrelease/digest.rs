//! Digests that helm-controller writes into a HelmRelease's status, equal to the byte: switching either way changes nothing.
//!
//! Pure.

use chart_compat::chart::Metadata;
use chart_compat::data::{Data, Map};
use chart_compat::{json, yaml};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use windlass_base::hex::hex;
use windlass_engine::HookEvent;
use windlass_engine::record::Record;
use windlass_render::from_json;

/// Fields of what is in the metadata's lists, in the order of Helm's types.
const MAINTAINER: [&str; 3] = ["name", "email", "url"];
const DEPENDENCY: [&str; 8] =
    ["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"];

/// `sha256:` and the digest of a text.
#[must_use]
pub(super) fn sha256(text: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(text)))
}

/// Digest of values: of their text in YAML, with keys in the order of their bytes; of nothing if there are none.
#[must_use]
pub(super) fn config_digest(values: &Map) -> String {
    let text =
        if values.is_empty() { String::new() } else { yaml::to_string_by_bytes(&Data::Map(values.clone())) };
    sha256(text.as_bytes())
}

/// Digest of a part of a spec as Go encodes it: its type has Go's order of fields and leaves empty ones away.
#[must_use]
pub(super) fn of_spec(part: &impl serde::Serialize) -> String {
    // Texts, lists and maps with text keys always have a form.
    let json = serde_json::to_string(part).unwrap_or_default();
    sha256(format!("{}\n", escaped(&json)).as_bytes())
}

/// The values of a record, with Go's numbers.
#[must_use]
pub(super) fn record_values(record: &Record) -> Map {
    match from_json(&record.config) {
        Data::Map(map) => map,
        _ => Map::new(),
    }
}

/// Digest of a release as it was observed in its record: everything but the chart's files, and without its test hooks.
#[must_use]
pub(super) fn release_digest(record: &Record, oci_digest: &str) -> String {
    let mut out = String::from("{");
    let mut field = |name: &str, value: String| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&quoted(name));
        out.push(':');
        out.push_str(&value);
    };
    field("name", quoted(&record.name));
    field("version", record.version.to_string());
    field("info", info(record));
    field("chartMetadata", ordered(record.chart_metadata(), &Metadata::KEYS));
    let config = record_values(record);
    field("config", if config.is_empty() { "null".to_owned() } else { go_json(&Data::Map(config)) });
    field("manifest", quoted(&record.manifest));
    field("hooks", hooks(record));
    field("namespace", quoted(&record.namespace));
    if !oci_digest.is_empty() {
        field("ociDigest", quoted(oci_digest));
    }
    out.push_str("}\n");
    sha256(out.as_bytes())
}

fn info(record: &Record) -> String {
    let info = &record.info;
    let mut fields = Vec::new();
    let times = [
        ("first_deployed", &info.first_deployed),
        ("last_deployed", &info.last_deployed),
        ("deleted", &info.deleted),
    ];
    fields
        .extend(times.iter().filter(|(_, time)| !time.is_empty()).map(|(name, time)| (*name, quoted(time))));
    if !info.description.is_empty() {
        fields.push(("description", quoted(&info.description)));
    }
    fields.push(("status", quoted(info.status.as_str())));
    if info.rollback_revision > 0 {
        fields.push(("rollback_revision", info.rollback_revision.to_string()));
    }
    if !info.notes.is_empty() {
        fields.push(("notes", quoted(&info.notes)));
    }
    if let Some(resources) = info.rest.get("resources").filter(|resources| !is_empty(resources)) {
        fields.push(("resources", go_json(&from_json(resources))));
    }
    object(fields)
}

fn hooks(record: &Record) -> String {
    let kept: Vec<String> = record
        .hooks
        .iter()
        .filter(|hook| !hook.events.contains(&HookEvent::Test))
        // The type's fields are in the order of Helm's.
        .filter_map(|hook| serde_json::to_string(hook).ok())
        .map(|text| escaped(&text))
        .collect();
    if kept.is_empty() { "null".to_owned() } else { format!("[{}]", kept.join(",")) }
}

/// An object with its fields in this order, empty ones left away.
fn ordered(value: &Value, order: &[&str]) -> String {
    let text = |name: &str, value: &Value| match (name, value) {
        ("maintainers", Value::Array(list)) => entries(list, &MAINTAINER),
        ("dependencies", Value::Array(list)) => entries(list, &DEPENDENCY),
        (_, value) => go_json(&from_json(value)),
    };
    let present = order.iter().filter(|name| !is_empty(&value[**name]));
    object(present.map(|name| (*name, text(name, &value[*name]))).collect())
}

fn entries(list: &[Value], order: &[&str]) -> String {
    let entries: Vec<String> = list.iter().map(|entry| ordered(entry, order)).collect();
    format!("[{}]", entries.join(","))
}

fn object(fields: Vec<(&str, String)>) -> String {
    let fields: Vec<String> =
        fields.into_iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", fields.join(","))
}

/// Go's `omitempty`.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) => false,
    }
}

fn go_json(data: &Data) -> String {
    // Records hold no number that JSON cannot.
    json::to_string(data).unwrap_or_default()
}

fn quoted(text: &str) -> String {
    go_json(&Data::String(text.to_owned()))
}

/// JSON of serde with Go's escapes.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What Flux's own code digests (`tests/tools/flux-values`, `digests`): keys of every class of characters, texts that stand for
    /// something else, long ones, numbers, lists in lists.
    #[test]
    fn values_are_digested_as_flux_does() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/flux-values/digests.jsonl");
        let text = std::fs::read_to_string(path).unwrap();
        let mut wrong = Vec::new();
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let Data::Map(values) = from_json(&row["values"]) else { panic!("{line}") };
            let expected = row["text"].as_str().unwrap();
            let made = yaml::to_string_by_bytes(&Data::Map(values.clone()));
            if (made != expected && !values.is_empty()) || config_digest(&values) != row["digest"] {
                wrong.push(format!("{}\nflux: {expected:?}\nhere: {made:?}", row["values"]));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {} differ:\n{}",
            wrong.len(),
            text.lines().count(),
            wrong.join("\n")
        );
        assert!(text.lines().count() > 800);
    }
}
