//! Filters of the jq language, as gojq answers them, which addon-operator uses.
//!
//! Owns the way from JSON into the interpreter and back. A filter sees its input and nothing else: no environment, no
//! further inputs, no files. Where the interpreter differs from gojq, `rewrite` and `DEFINITIONS` correct it.

mod differences;
mod lexer;
mod natives;
mod rewrite;

pub use differences::differences;

use std::fmt;
use std::sync::Arc;

use jaq_core::data::JustLut;
use jaq_core::load::parse::Def;
use jaq_core::load::{Arena, File, Loader, lex, parse};
use jaq_core::{Compiler, Ctx, Vars, load};
use jaq_json::{Map, Num, Val};
use serde_json::{Number, Value};

/// Results that one run may have: a filter that never ends must not eat the machine.
const MAX_RESULTS: usize = 1_000_000;

/// What jaq does not know, or does otherwise than gojq.
const DEFINITIONS: &str = include_str!("gojq.jq");

/// The name under which a rewritten filter stands among the definitions.
const MAIN: &str = "_main";

/// Stand-ins for `OUTSIDE`, before anything that uses them.
const INSIDE: &str = "def env: {}; def debug_empty: empty; def stderr_empty: empty;";

/// Functions of jaq that reach outside: the environment and the log.
const OUTSIDE: [&str; 3] = ["env", "debug_empty", "stderr_empty"];

/// A compiled filter; clones share it.
#[derive(Clone)]
pub struct Filter {
    text: Arc<str>,
    variables: Arc<[Val]>,
    compiled: Arc<jaq_core::Filter<JustLut<Val>>>,
}

/// A filter that cannot be compiled, or fails on an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// The text is not a filter.
    #[error("{0}")]
    Syntax(String),
    /// It raised an error; the text is the filter's.
    #[error("jq: {0}")]
    Run(String),
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({:?})", self.text)
    }
}

impl Filter {
    /// Compiles a filter.
    ///
    /// # Errors
    /// It is not of the language, or uses a function or variable that is not there.
    pub fn new(text: &str) -> Result<Self, JqError> {
        Self::with_variables(text, &serde_json::Map::new())
    }

    /// Compiles a filter that sees variables; `ENV` is what it sees of an environment.
    ///
    /// # Errors
    /// As for [`Filter::new`].
    pub fn with_variables(text: &str, variables: &serde_json::Map<String, Value>) -> Result<Self, JqError> {
        let own = |text| {
            load::parse(text, |p| p.defs())
                .ok_or_else(|| JqError::Syntax("the built-in definitions cannot be read".to_owned()))
        };
        let mended = own(DEFINITIONS)?.into_iter().map(rewrite::definition);
        let theirs = jaq_std::defs().chain(jaq_json::defs());
        let all = jaq_core::defs().chain(own(INSIDE)?).chain(theirs).chain(mended);
        // They live forever, and the filter's own does not.
        let mut defs: Vec<Def<&str>> = Vec::new();
        all.for_each(|def| defs.push(def));
        let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
        let functions = functions.filter(|(name, _, _)| !OUTSIDE.contains(name));
        let functions = functions.chain(natives::functions());
        let arena = Arena::default();
        // What cannot be read goes on as it is: the loader tells why.
        let main = load::parse(text, |p| p.term());
        let code = if main.is_some() { MAIN } else { text };
        defs.extend(main.map(|term| Def { name: MAIN, args: Vec::new(), body: rewrite::term(term) }));
        let modules = Loader::new(defs)
            .load(&arena, File { code, path: () })
            .map_err(|errors| JqError::Syntax(join_parts(errors.iter().map(|(_, e)| syntax(e)))))?;
        let mut names = vec!["$ENV".to_owned()];
        let mut values = vec![variables.get("ENV").map_or_else(|| Val::obj(Map::default()), value_in)];
        for (name, value) in variables.iter().filter(|(name, _)| *name != "ENV") {
            names.push(format!("${name}"));
            values.push(value_in(value));
        }
        let compiled = Compiler::default()
            .with_funs(functions)
            .with_global_vars(names.iter().map(String::as_str))
            .compile(modules)
            .map_err(|errors| {
                let all = errors.iter().flat_map(|(_, e)| e);
                JqError::Syntax(join_parts(all.map(|(name, what)| format!("no {} {name}", what.as_str()))))
            })?;
        Ok(Self { text: text.into(), variables: values.into(), compiled: Arc::new(compiled) })
    }

    /// The filter as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// All results for an input.
    ///
    /// # Errors
    /// The filter raised an error, produced something that is not JSON, or does not end.
    pub fn run(&self, input: &Value) -> Result<Vec<Value>, JqError> {
        let vars = Vars::new(self.variables.iter().cloned());
        let context = Ctx::<JustLut<Val>>::new(&self.compiled.lut, vars);
        let mut results = Vec::new();
        for result in self.compiled.id.run((context, value_in(input))) {
            let value = match result {
                Ok(value) => value,
                Err(exception) => match exception.get_err() {
                    Ok(error) => return Err(JqError::Run(error.to_string())),
                    // `halt` ends the run; with a status (`halt_error`) it fails.
                    Err(other) => match other.get_halt() {
                        Ok(0) => return Ok(results),
                        _ => return Err(JqError::Run("halted".to_owned())),
                    },
                },
            };
            if results.len() == MAX_RESULTS {
                return Err(JqError::Run(format!("more than {MAX_RESULTS} results")));
            }
            results.push(value_out(&value)?);
        }
        Ok(results)
    }

    /// What a binding keeps of an object: null for no result, the result if there is one, else the list of them.
    ///
    /// # Errors
    /// As for [`Filter::run`].
    pub fn apply(&self, input: &Value) -> Result<Value, JqError> {
        let mut results = self.run(input)?;
        Ok(match results.len() {
            0 => Value::Null,
            1 => results.remove(0),
            _ => Value::Array(results),
        })
    }
}

fn join_parts(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

fn syntax(error: &load::Error<&str>) -> String {
    let near = |rest: &str| -> String { rest.chars().take(30).collect() };
    let lexed =
        |(expected, rest): &lex::Error<&str>| format!("expected {} at {:?}", expected.as_str(), near(rest));
    let parsed = |(expected, found): &parse::Error<&str>| match near(found) {
        rest if rest.is_empty() => format!("expected {} at the end", expected.as_str()),
        rest => format!("expected {} at {rest:?}", expected.as_str()),
    };
    match error {
        load::Error::Io(errors) => join_parts(errors.iter().map(|(path, e)| format!("{path}: {e}"))),
        load::Error::Lex(errors) => join_parts(errors.iter().map(lexed)),
        load::Error::Parse(errors) => join_parts(errors.iter().map(parsed)),
    }
}

fn value_in(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(b) => Val::Bool(*b),
        Value::Number(n) => Val::Num(match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Num::from_integral(i),
            (None, Some(u)) => Num::from_integral(u),
            (None, None) => Num::Float(n.as_f64().unwrap_or_default()),
        }),
        Value::String(s) => Val::from(s.clone()),
        Value::Array(items) => items.iter().map(value_in).collect(),
        Value::Object(map) => {
            Val::obj(map.iter().map(|(k, v)| (Val::from(k.clone()), value_in(v))).collect())
        }
    }
}

fn value_out(value: &Val) -> Result<Value, JqError> {
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(b) => Value::Bool(*b),
        Val::Num(number) => number_out(number)?,
        Val::TStr(bytes) | Val::BStr(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        Val::Arr(items) => Value::Array(items.iter().map(value_out).collect::<Result<_, _>>()?),
        Val::Obj(map) => {
            let entry = |(key, value): (&Val, &Val)| match key {
                Val::TStr(name) => Ok((String::from_utf8_lossy(name).into_owned(), value_out(value)?)),
                other => Err(JqError::Run(format!("expected a string for object key but got: {other}"))),
            };
            Value::Object(map.iter().map(entry).collect::<Result<_, _>>()?)
        }
    })
}

/// A number as Go writes it: whole ones without a point, NaN and infinities not at all.
fn number_out(number: &Num) -> Result<Value, JqError> {
    let float = |f: f64| {
        // All of these are exact, and Go writes them without an exponent.
        if f.fract() == 0.0 && f.abs() < 9e18 {
            return Ok(Value::Number((f as i64).into()));
        }
        let number = Number::from_f64(f).ok_or_else(|| JqError::Run(format!("{f} has no form in JSON")))?;
        Ok(Value::Number(number))
    };
    match number {
        Num::Int(i) => Ok(Value::Number((*i as i64).into())),
        Num::BigInt(i) => match i.to_string().parse::<Number>() {
            Ok(number) => Ok(Value::Number(number)),
            Err(_) => Err(JqError::Run("a number is too large".to_owned())),
        },
        Num::Float(f) => float(*f),
        Num::Dec(text) => float(text.parse().unwrap_or(f64::NAN)),
    }
}

#[cfg(test)]
mod tests;
