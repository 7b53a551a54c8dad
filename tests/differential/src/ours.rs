//! Our side, through the public API of `chart-compat`.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use chart_compat::chart::{Chart, File, load_files};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Hook, Options, Release, Rendered};
use chart_compat::template::Limits;
use chart_compat::values::strvals;
use chart_compat::world::{KeyKind, Timestamp, World};
use chart_compat::{json, kyaml, yaml};
use serde_json::Value;

use crate::family::FILES;
use crate::order::in_order;
use crate::{Answer, Case, Kind, Way};

/// No question needs more; one that Go does not finish, we do.
const LIMITS: Limits = Limits { depth: 100_000, memory: 256 << 20, steps: 2_000_000, output: 64 << 20 };

/// Our answer; a panic is one too.
#[must_use]
pub fn answer(case: &Case) -> Answer {
    catch_unwind(AssertUnwindSafe(|| answer_within(case, LIMITS))).unwrap_or_else(|_| failed("WE PANIC"))
}

/// Our answer within bounds.
///
/// # Panics
/// If the code under test does.
#[must_use]
pub fn answer_within(case: &Case, limits: Limits) -> Answer {
    match case.kind {
        Kind::Template => render(case, limits),
        Kind::Chart(profile) => chart(case, profile, limits),
        Kind::Yaml => rewrite(&case.text),
        Kind::Manifests => restream(&String::from_utf8_lossy(&case.text)),
        Kind::Schema => judged(case),
        Kind::Set(way) => set(case, way),
    }
}

/// Checks values against a schema; the text of what breaks it, or of what is wrong with the schema.
///
/// # Panics
/// If the code under test does.
#[must_use]
pub fn validate(schema: &[u8], values: &Value) -> Answer {
    let files = vec![
        File::new("Chart.yaml".to_owned(), b"apiVersion: v2\nname: probe\nversion: 0.1.0\n".to_vec()),
        File::new("values.schema.json".to_owned(), schema.to_vec()),
    ];
    match load_files(files, Profile::Helm4, &mut |_| {}) {
        Ok(chart) => notes(chart, values, LIMITS, false),
        Err(e) => failed(e),
    }
}

/// What is told of values under a schema, without the name of the chart.
fn judged(case: &Case) -> Answer {
    let Answer { output, error } = validate(&case.text, &case.values);
    let bare = |text: String| {
        let told = text.split_once(":\nprobe:\n").map_or(text.as_str(), |(_, told)| told);
        in_order(&told.split('\n').collect::<Vec<_>>()).join("\n")
    };
    Answer { output, error: error.map(bare) }
}

#[allow(clippy::needless_pass_by_value, reason = "errors are handed over as they come")]
fn failed(error: impl ToString) -> Answer {
    Answer { output: String::new(), error: Some(error.to_string()) }
}

/// Notes are the one kind of template whose text comes out as it is.
fn render(case: &Case, limits: Limits) -> Answer {
    let mut files = vec![
        File::new("Chart.yaml".to_owned(), b"apiVersion: v2\nname: probe\nversion: 0.1.0\n".to_vec()),
        File::new("templates/NOTES.txt".to_owned(), case.text.clone()),
    ];
    if case.wants_files() {
        files.extend(FILES.iter().map(|(name, data)| File::new((*name).to_owned(), data.to_vec())));
    }
    let chart = match load_files(files, Profile::Helm4, &mut |_| {}) {
        Ok(chart) => chart,
        Err(e) => return failed(e),
    };
    notes(chart, &case.values, limits, true)
}

fn notes(chart: Chart, values: &Value, limits: Limits, skip_schema_validation: bool) -> Answer {
    match rendered(chart, Profile::Helm4, values, limits, skip_schema_validation) {
        Ok(rendered) => Answer { output: rendered.notes, error: None },
        Err(e) => failed(e),
    }
}

fn rendered(
    chart: Chart,
    profile: Profile,
    values: &Value,
    limits: Limits,
    skip_schema_validation: bool,
) -> Result<Rendered, String> {
    let options = Options {
        release: Release {
            name: "probe".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities {
            helm_version: profile.helm_version().to_owned(),
            ..Capabilities::default()
        },
        skip_schema_validation,
        subchart_notes: false,
        limits,
    };
    let Data::Map(user) = data(values).with_float_numbers() else {
        return Err("values are no map".to_owned());
    };
    let compiled = CompiledChart::new(chart, profile);
    compiled.render(&user, &options, &Nothing, &mut |_| {}).map_err(|e| e.to_string())
}

/// The values that templates see, definitions of resources, manifests, hooks with what is read of them, and notes.
fn chart(case: &Case, profile: Profile, limits: Limits) -> Answer {
    let files: BTreeMap<String, String> = match serde_json::from_slice(&case.text) {
        Ok(files) => files,
        Err(e) => return failed(e),
    };
    let files = files.into_iter().map(|(name, text)| File::new(name, text.into_bytes())).collect();
    let told = load_files(files, profile, &mut |_| {}).map_err(|e| e.to_string()).and_then(|chart| {
        let rendered = rendered(chart, profile, &case.values, limits, false)?;
        let seen = Data::Map(rendered.values).with_float_numbers();
        let mut out = json::to_string(&seen).map_err(|e| e.to_string())? + "\n";
        for crd in &rendered.crds {
            out += &format!("---\n# Source: {}\n{}\n", crd.path, String::from_utf8_lossy(&crd.data));
        }
        for manifest in &rendered.manifests {
            out += &format!("---\n# Source: {}\n{}\n", manifest.source, manifest.text);
        }
        for hook in &rendered.hooks {
            let Hook { manifest, events, weight, delete_policies, output_log_policies } = hook;
            let quoted = |all: &[String]| {
                format!("[{}]", all.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(" "))
            };
            let (events, delete, log) =
                (quoted(events), quoted(delete_policies), quoted(output_log_policies));
            out += &format!(
                "--- {events} {weight} {delete} {log} {} {}\n",
                manifest.head.kind, manifest.head.name
            );
            out += &format!("# Source: {}\n{}\n", manifest.source, manifest.text);
        }
        Ok(out + "NOTES:\n" + &rendered.notes)
    });
    match told {
        Ok(output) => Answer { output, error: None },
        Err(e) => failed(e),
    }
}

/// A document as JSON, strictly, and as YAML again.
fn rewrite(text: &[u8]) -> Answer {
    let read = match yaml::from_slice(text) {
        Ok(read) => read,
        Err(e) => return failed(e),
    };
    let as_json = match json::to_string(&read) {
        Ok(text) => text,
        Err(e) => return failed(e),
    };
    let strict = yaml::from_slice_strict(text).err().map_or("<nil>".to_owned(), |e| e.to_string());
    match yaml::to_string(&read.with_float_numbers()) {
        Ok(written) => Answer { output: format!("{as_json}\n{strict}\n{written}"), error: None },
        Err(e) => Answer { output: format!("{as_json}\n{strict}\n"), error: Some(e.to_string()) },
    }
}

/// A stream of manifests written anew, and with labels.
fn restream(text: &str) -> Answer {
    let again =
        match kyaml::read_numbered(text, &yaml::Room::default()).and_then(|nodes| kyaml::write(&nodes)) {
            Ok(again) => again,
            Err(e) => return failed(e),
        };
    let labels = [("heritage", "windlass"), ("on", "yes")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    match kyaml::with_labels(text, &labels.into(), &yaml::Room::default()) {
        Ok(labelled) => Answer { output: format!("{again}\n{labelled}"), error: None },
        Err(e) => Answer { output: again, error: Some(e.to_string()) },
    }
}

fn set(case: &Case, way: Way) -> Answer {
    let Data::Map(mut values) = data(&case.values) else { return failed("values are no map") };
    let line = String::from_utf8_lossy(&case.text);
    let done = match way {
        Way::Set => strvals::parse_into(&mut values, &line),
        Way::String => strvals::parse_into_string(&mut values, &line),
        Way::Json => strvals::parse_json(&mut values, &line),
        Way::Literal => strvals::parse_literal(&mut values, &line),
    };
    match json::to_string(&typed(&Data::Map(values))) {
        Ok(output) => Answer { output, error: done.err().map(|e| e.to_string()) },
        Err(e) => failed(e),
    }
}

/// Integers told from floats, as the Go side does.
fn typed(data: &Data) -> Data {
    match data {
        Data::Int(i) => Data::String(format!("int64 {i}")),
        Data::List(items) => Data::List(items.iter().map(typed).collect()),
        Data::Map(map) => Data::Map(map.iter().map(|(k, v)| (k.clone(), typed(v))).collect()),
        other => other.clone(),
    }
}

/// JSON as data; a number with neither point nor exponent is an integer.
fn data(value: &Value) -> Data {
    match value {
        Value::Null => Data::Null,
        Value::Bool(b) => Data::Bool(*b),
        Value::Number(n) => n.as_i64().map_or_else(|| Data::Float(n.as_f64().unwrap_or(f64::NAN)), Data::Int),
        Value::String(s) => Data::String(s.clone()),
        Value::Array(items) => Data::List(items.iter().map(data).collect()),
        Value::Object(map) => Data::Map(map.iter().map(|(k, v)| (k.clone(), data(v))).collect::<Map>()),
    }
}

/// A world that gives away nothing; the questions are made so that none asks for what would differ.
struct Nothing;

impl World for Nothing {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 0, nanos: 0 }
    }

    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }

    fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Ok(Data::Map(Map::new()))
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}
