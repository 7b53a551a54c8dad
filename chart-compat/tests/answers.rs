//! What Go answered, recorded by `make fixtures`: its template engine on our probes, sigs.k8s.io/yaml on our documents.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use chart_compat::data::Data;
use chart_compat::go::{self, Arena};
use chart_compat::template::{BUILTINS, Exec, Funcs, Limits, Set, TemplateSet, parse};
use chart_compat::world::{KeyKind, Timestamp, World};
use chart_compat::{json, yaml};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

/// Recordings are not read by the code that they test.
fn read_json(path: &str) -> Value {
    let path = fixtures().join(path);
    let text =
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}: make fixtures records it", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// JSON as template data; a number with neither point nor exponent is an integer, as for the recorder.
fn data(value: &Value) -> Data {
    match value {
        Value::Null => Data::Null,
        Value::Bool(b) => Data::Bool(*b),
        Value::Number(n) => n.as_i64().map_or_else(|| Data::Float(n.as_f64().unwrap()), Data::Int),
        Value::String(s) => Data::String(s.clone()),
        Value::Array(items) => Data::List(items.iter().map(data).collect()),
        Value::Object(map) => Data::Map(map.iter().map(|(k, v)| (k.clone(), data(v))).collect()),
    }
}

/// No built-in function asks the outside anything.
struct Nothing;

impl World for Nothing {
    fn now(&self) -> Timestamp {
        panic!("a built-in function asked for the time")
    }

    fn local_zone(&self) -> String {
        panic!("a built-in function asked for the zone")
    }

    fn random(&self, _: &mut [u8]) {
        panic!("a built-in function asked for chance")
    }

    fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> {
        panic!("a built-in function asked for a key")
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        panic!("a built-in function asked for a signature")
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        panic!("a built-in function asked the cluster")
    }

    fn resolve(&self, _: &str) -> String {
        panic!("a built-in function asked DNS")
    }
}

fn execute(text: &str, data: &Data, funcs: &Funcs) -> Result<String, String> {
    let templates = parse("probe", &chart_compat::Bytes::copy_from_slice(text.as_bytes()), funcs)
        .map_err(|e| e.to_string())?;
    let (arena, store) = (Arena::new(), typed_arena::Arena::new());
    let mut set = TemplateSet::default();
    set.add(&templates);
    let mut exec = Exec::new(&arena, &store, Set::new(&set), funcs, &Nothing, Limits::default()).unwrap();
    let out = exec.execute("probe", go::Value::from_data(&arena, data)).map_err(|e| e.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn templates_answer_as_go_does() {
    let recorded = read_json("templates/answers.json");
    let funcs = Funcs::new(&[BUILTINS], |_, _| None, "common.Values");
    let data = data(&recorded["data"]);
    let answers = list(&recorded["answers"]);
    let mut wrong = String::new();
    for answer in answers {
        let template = text(&answer["template"]);
        let go = answer["output"].as_str().ok_or_else(|| text(&answer["error"]));
        let ours = execute(template, &data, &funcs);
        if ours.as_deref().map_err(String::as_str) != go {
            wrong += &format!("{template:?}\n  Go   {go:?}\n  ours {ours:?}\n");
        }
    }
    assert!(wrong.is_empty(), "of {}:\n{wrong}", answers.len());
}

#[test]
fn every_schema_is_judged() {
    let lines = |path: &str, wanted: &[&str]| -> Vec<String> {
        let text = fs::read_to_string(fixtures().join(path)).unwrap();
        let mut lines: Vec<String> =
            text.lines().filter(|l| wanted.iter().any(|w| l.starts_with(w))).map(str::to_owned).collect();
        // A schema is told with each of its values.
        let mut last = String::new();
        lines.retain(|l| !l.starts_with("schema ") || std::mem::replace(&mut last, l.clone()) != *l);
        lines
    };
    let wanted = ["schema ", "values "];
    let asked = lines("schema/questions.txt", &wanted);
    assert!(asked.len() > 900, "{}", asked.len());
    let judged = lines("../chart-compat/src/render/schema/cases.txt", &wanted);
    assert_eq!(asked, judged, "the questions changed: make fixtures records anew");
}

#[test]
fn every_probe_is_recorded() {
    let (probes, recorded) = (read_json("templates/probes.json"), read_json("templates/answers.json"));
    assert_eq!(probes["data"], recorded["data"], "the data changed: make fixtures records anew");
    let asked: Vec<&Value> = list(&probes["groups"]).iter().flat_map(|g| list(&g["templates"])).collect();
    let answered: Vec<&Value> = list(&recorded["answers"]).iter().map(|a| &a["template"]).collect();
    assert_eq!(asked, answered, "the probes changed: make fixtures records anew");
}

/// The document as Helm reads values, numbers as floats, and as `toYaml` writes it.
fn rewrite(input: &str) -> Result<(String, String), String> {
    let data = yaml::from_slice(input.as_bytes())
        .map_err(|e| format!("error converting YAML to JSON: {e}"))?
        .with_float_numbers();
    let as_json = json::to_string(&data).map_err(|e| e.to_string())?;
    Ok((as_json, yaml::to_string(&data).map_err(|e| e.to_string())?))
}

#[test]
fn yaml_is_read_and_written_as_go_does() {
    let recorded = read_json("yaml/answers.json");
    let documents = list(&recorded);
    let mut wrong = String::new();
    for document in documents {
        let go = match document["error"].as_str() {
            Some(error) => Err(error),
            None => Ok((text(&document["json"]), text(&document["output"]))),
        };
        let ours = rewrite(text(&document["input"]));
        if ours.as_ref().map(|(j, y)| (j.as_str(), y.as_str())).map_err(String::as_str) != go {
            wrong += &format!("{}\n  Go   {go:?}\n  ours {ours:?}\n", document["name"]);
        }
    }
    assert!(wrong.is_empty(), "of {}:\n{wrong}", documents.len());
}

#[test]
fn every_document_is_recorded() {
    let recorded = read_json("yaml/answers.json");
    let answered: BTreeMap<String, String> =
        list(&recorded).iter().map(|d| (text(&d["name"]).to_owned(), text(&d["input"]).to_owned())).collect();
    let found: BTreeMap<String, String> = fs::read_dir(fixtures().join("yaml/documents"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|p| (p.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&p).unwrap()))
        .collect();
    assert_eq!(found, answered, "the documents changed: make fixtures records anew");
}
