//! The template engines behind one form: data in, text parsed, run.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use chart_compat::data::Data;
use chart_compat::go::{self, Arena};
use chart_compat::template::{BUILTINS, Exec, Funcs, Limits, Set, Template, TemplateSet, parse};
use chart_compat::world::{KeyKind, Timestamp, World};
use serde_json::{Number, Value};

/// A template engine.
pub(crate) trait Engine {
    /// As the table names it.
    const NAME: &'static str;
    /// What templates are run on.
    type Data;
    /// A parsed template.
    type Parsed;

    fn data(value: &Value) -> Self::Data;
    fn parse(text: &str) -> Result<Self::Parsed, String>;
    /// Runs the template so many times and gives the last output.
    fn run(parsed: &Self::Parsed, data: &Self::Data, turns: u32) -> Result<String, String>;
}

/// Runs at least once, and ends at the first error.
fn repeat(turns: u32, mut run: impl FnMut() -> Result<String, String>) -> Result<String, String> {
    for _ in 1..turns {
        run()?;
    }
    run()
}

/// A number with neither point nor exponent is an integer.
fn integer(n: &Number) -> Option<i64> {
    n.as_i64()
}

fn float(n: &Number) -> f64 {
    n.as_f64().unwrap_or(f64::NAN)
}

pub(crate) struct Gtmpl;

impl Engine for Gtmpl {
    const NAME: &'static str = "gtmpl 0.7.1";
    type Data = gtmpl::Context;
    type Parsed = gtmpl::Template;

    fn data(value: &Value) -> Self::Data {
        gtmpl::Context::from(gtmpl_value(value))
    }

    fn parse(text: &str) -> Result<Self::Parsed, String> {
        let mut template = gtmpl::Template::with_name("probe");
        template.parse(text).map_err(|e| e.to_string())?;
        Ok(template)
    }

    fn run(parsed: &Self::Parsed, data: &Self::Data, turns: u32) -> Result<String, String> {
        repeat(turns, || parsed.render(data).map_err(|e| e.to_string()))
    }
}

fn gtmpl_value(value: &Value) -> gtmpl::Value {
    match value {
        Value::Null => gtmpl::Value::Nil,
        Value::Bool(b) => gtmpl::Value::Bool(*b),
        Value::Number(n) => integer(n).map_or_else(|| float(n).into(), gtmpl::Value::from),
        Value::String(s) => gtmpl::Value::String(s.clone()),
        Value::Array(items) => gtmpl::Value::Array(items.iter().map(gtmpl_value).collect()),
        // Its other kind, Object, fails on absent keys.
        Value::Object(map) => {
            let entries = map.iter().map(|(k, v)| (k.clone(), gtmpl_value(v)));
            gtmpl::Value::Map(entries.collect::<HashMap<_, _>>())
        }
    }
}

pub(crate) struct Gotmpl;

impl Engine for Gotmpl {
    const NAME: &'static str = "gotmpl 0.6.1";
    type Data = gotmpl::Value;
    type Parsed = gotmpl::Template;

    fn data(value: &Value) -> Self::Data {
        match value {
            Value::Null => gotmpl::Value::Nil,
            Value::Bool(b) => gotmpl::Value::Bool(*b),
            Value::Number(n) => integer(n).map_or_else(|| gotmpl::Value::Float(float(n)), gotmpl::Value::Int),
            Value::String(s) => s.clone().into(),
            Value::Array(items) => items.iter().map(Self::data).collect::<Vec<_>>().into(),
            Value::Object(map) => {
                let entries = map.iter().map(|(k, v)| (k.clone(), Self::data(v)));
                entries.collect::<BTreeMap<_, _>>().into()
            }
        }
    }

    fn parse(text: &str) -> Result<Self::Parsed, String> {
        // As Helm sets it, and the recorder.
        let template = gotmpl::Template::new("probe").missing_key(gotmpl::MissingKey::ZeroValue);
        template.parse(text).map_err(|e| e.to_string())
    }

    fn run(parsed: &Self::Parsed, data: &Self::Data, turns: u32) -> Result<String, String> {
        repeat(turns, || parsed.execute_to_string(data).map_err(|e| e.to_string()))
    }
}

pub(crate) struct Ours;

/// The functions of Go's engine, built once as in a chart.
static FUNCS: LazyLock<Funcs> = LazyLock::new(|| Funcs::new(&[BUILTINS], |_, _| None, "common.Values"));

impl Engine for Ours {
    const NAME: &'static str = "chart-compat";
    type Data = Data;
    type Parsed = Vec<Template>;

    fn data(value: &Value) -> Self::Data {
        match value {
            Value::Null => Data::Null,
            Value::Bool(b) => Data::Bool(*b),
            Value::Number(n) => integer(n).map_or_else(|| Data::Float(float(n)), Data::Int),
            Value::String(s) => Data::String(s.clone()),
            Value::Array(items) => Data::List(items.iter().map(Self::data).collect()),
            Value::Object(map) => Data::Map(map.iter().map(|(k, v)| (k.clone(), Self::data(v))).collect()),
        }
    }

    fn parse(text: &str) -> Result<Self::Parsed, String> {
        parse("probe", &chart_compat::Bytes::copy_from_slice(text.as_bytes()), &FUNCS)
            .map_err(|e| e.to_string())
    }

    /// As in a render: values are placed in the arena once for all runs, and freed with it.
    fn run(parsed: &Self::Parsed, data: &Self::Data, turns: u32) -> Result<String, String> {
        let (arena, store) = (Arena::new(), typed_arena::Arena::new());
        let mut set = TemplateSet::default();
        set.add(parsed);
        let dot = go::Value::from_data(&arena, data);
        let (set, limits) = (Set::new(&set), Limits::default());
        let mut exec = Exec::new(&arena, &store, set, &FUNCS, &Nothing, limits).ok_or("no engine")?;
        repeat(turns, || {
            let out = exec.execute("probe", dot).map_err(|e| e.to_string())?;
            String::from_utf8(out).map_err(|e| e.to_string())
        })
    }
}

/// The built-in functions ask the outside nothing; whoever does, gets nothing.
pub(crate) struct Nothing;

impl World for Nothing {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 0, nanos: 0 }
    }

    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn random(&self, _: &mut [u8]) {}

    fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Err("no cluster here".to_owned())
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }
}
