//! The table of YAML readers and writers.

use std::error::Error;
use std::fmt::Write as _;
use std::hint::black_box;

use chart_compat::data::Data;
use chart_compat::yaml;
use serde_json::Value;

use crate::clock::{per_turn, rate};
use crate::engines::{Engine as _, Ours};
use crate::golang;

/// How often the measured document repeats a Deployment and some configuration files.
const COPIES: usize = 300;

/// One of Go's answers.
struct Document<'r> {
    input: &'r str,
    /// What it means and how it is written again; `None` where Go refuses it.
    go: Option<(Value, &'r str)>,
}

/// A crate that reads and writes YAML.
struct Row {
    name: &'static str,
    read: fn(&str) -> Result<Value, String>,
    write: fn(&Value) -> Result<String, String>,
    reading: String,
    writing: String,
}

/// The measured document, and its text.
pub(crate) fn large(recorded: &Value) -> Result<(Value, String), Box<dyn Error>> {
    let list = recorded.as_array().ok_or("yaml/answers.json is no list")?;
    let copied = |name: &str| list.iter().find(|d| d["name"] == name).and_then(|d| d["json"].as_str());
    let unit: [Value; 2] = [
        serde_json::from_str(copied("deployment.yaml").ok_or("no document deployment.yaml")?)?,
        serde_json::from_str(copied("config-files.yaml").ok_or("no document config-files.yaml")?)?,
    ];
    let large = Value::Array(unit.iter().cycle().take(unit.len() * COPIES).cloned().collect());
    let text = our_write(&large)?;
    Ok((large, text))
}

pub(crate) fn table(
    recorded: &Value,
    large: &Value,
    text: &str,
    go: &golang::Times,
) -> Result<String, Box<dyn Error>> {
    let list = recorded.as_array().ok_or("yaml/answers.json is no list")?;
    let mut documents = Vec::new();
    for d in list {
        let go = match d["output"].as_str() {
            Some(output) => Some((serde_json::from_str(d["json"].as_str().unwrap_or_default())?, output)),
            None => None,
        };
        documents.push(Document { input: d["input"].as_str().unwrap_or_default(), go });
    }

    let data = Ours::data(large);
    let reading = |read: &dyn Fn()| rate(text.len(), per_turn(|turns| (0..turns).for_each(|_| read())));
    let writing = |write: &dyn Fn() -> usize| {
        rate(write(), per_turn(|turns| (0..turns).for_each(|_| _ = black_box(write()))))
    };
    let rows = [
        Row {
            name: "serde_yaml_ng 0.10",
            read: peer_read,
            write: peer_write,
            reading: reading(&|| drop(black_box(serde_yaml_ng::from_str::<serde_yaml_ng::Value>(text)))),
            writing: writing(&|| serde_yaml_ng::to_string(large).map_or(0, |t| t.len())),
        },
        Row {
            name: "chart-compat",
            read: our_read,
            write: our_write,
            reading: reading(&|| drop(black_box(yaml::from_slice(text.as_bytes())))),
            writing: writing(&|| yaml::to_string(&data).map_or(0, |t| t.len())),
        },
    ];

    let valid = documents.iter().filter(|d| d.go.is_some()).count();
    let refused = documents.len() - valid;
    let mut out = format!(
        "| YAML | reads what Go reads (of {valid}) | refuses what Go refuses (of {refused}) | writes Go's bytes \
         (of {valid}) | reading | writing |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
    );
    let [reading, writing] = [go.read, go.write].map(|time| rate(text.len(), time));
    writeln!(
        out,
        "| sigs.k8s.io/yaml, {} | {valid} | {refused} | {valid} | {reading} | {writing} |",
        go.version
    )?;
    for row in rows {
        let (mut read, mut refused, mut written) = (0, 0, 0);
        for document in &documents {
            let given = (row.read)(document.input);
            match &document.go {
                Some((value, output)) => {
                    read += usize::from(given.is_ok_and(|given| same(&given, value)));
                    written += usize::from((row.write)(value).as_deref() == Ok(*output));
                }
                // Some texts are read, but have no form when written again.
                None => refused += usize::from(given.and_then(|given| (row.write)(&given)).is_err()),
            }
        }
        writeln!(
            out,
            "| {} | {read} | {refused} | {written} | {} | {} |",
            row.name, row.reading, row.writing
        )?;
    }
    let kilobytes = text.len() / 1000;
    writeln!(out, "\nSpeed: a document of {kilobytes} kB, Deployments and configuration files.")?;
    Ok(out)
}

fn peer_read(text: &str) -> Result<Value, String> {
    let mut value: serde_yaml_ng::Value = serde_yaml_ng::from_str(text).map_err(|e| e.to_string())?;
    value.apply_merge().map_err(|e| e.to_string())?;
    serde_json::to_value(value).map_err(|e| e.to_string())
}

fn peer_write(value: &Value) -> Result<String, String> {
    serde_yaml_ng::to_string(value).map_err(|e| e.to_string())
}

fn our_read(text: &str) -> Result<Value, String> {
    Ok(json(&yaml::from_slice(text.as_bytes()).map_err(|e| e.to_string())?))
}

fn our_write(value: &Value) -> Result<String, String> {
    yaml::to_string(&Ours::data(value)).map_err(|e| e.to_string())
}

fn json(data: &Data) -> Value {
    match data {
        Data::Null => Value::Null,
        Data::Bool(b) => (*b).into(),
        Data::Int(i) => (*i).into(),
        Data::Float(f) => (*f).into(),
        Data::String(s) => s.as_str().into(),
        Data::List(items) => items.iter().map(json).collect(),
        Data::Map(map) => map.iter().map(|(k, v)| (k.clone(), json(v))).collect(),
    }
}

/// Whether two values are the same in Helm, which knows no integers in values.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}
