//! The values of a release: its files, maps and secrets, and its `set` entries as Helm's flags have them.
//!
//! Owns the order of values and how files are rendered. Does not merge them as charts do: a chart's own values come later.

use super::document;
use super::error::Error;
use super::host::{Host, read_text};
use super::load::{Loader, Settings, State, normalize};
use super::merge::{Lists, layered, override_map};
use super::paths;
use super::record::Record;
use super::release::release_root;
use super::schema::Key;
use super::secret_references;
use super::template::{Root, render};
use super::value::{self, Map, Value, text_keys};
use crate::key;

/// Values of one entry, in the order in which they apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A file's text, rendered.
    File {
        /// The file.
        path: String,
        /// Its text.
        text: String,
    },
    /// Values of the state file itself.
    Map(Map),
}

/// A `--set` flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetFlag {
    /// `--set`
    Set(String),
    /// `--set-string`
    SetString(String),
    /// `--set-file`: key and path.
    SetFile {
        /// The key, escaped.
        key: String,
        /// The path.
        path: String,
    },
}

/// Values, then secrets of a release (`generateValuesFiles`).
///
/// # Errors
/// A file is missing or cannot be rendered, or a secret cannot be resolved.
pub fn of_release(host: &dyn Host, state: &State, release: &Record) -> Result<Vec<Entry>, Error> {
    let root = release_root(state, release, state.values.clone());
    let mut entries = render_entries(host, state, release, value_entries(host, state, release)?, &root)?;
    for secret in release.values(key!("secrets")) {
        let texts = match secret {
            Value::String(path) => {
                let handler = release.optional_text(key!("missingFileHandler"));
                let path = format!("{}{path}", release.text(key!("valuesPathPrefix")));
                let found = resolve(host, state, handler.as_deref(), "secrets", &path)?;
                one(&found, "glob patterns in release secret file is not supported yet")?
                    .map(|path| host.decrypt(&paths::within(&state.cwd, &path)).map(|text| (path, text)))
                    .transpose()?
            }
            other => {
                return Err(Error::Invalid(format!(
                    "release {:?}: secrets in the state file itself ({}) are not supported; put them into an encrypted file",
                    release.text(key!("name")),
                    other.go_type()
                )));
            }
        };
        if let Some((path, text)) = texts {
            let text = String::from_utf8(text)
                .map_err(|_| Error::Invalid(format!("{path}: the decrypted file is not UTF-8 text")))?;
            entries.push(Entry::File { path, text });
        }
    }
    Ok(entries)
}

/// Patches and transformers of a release: files are templates that see the release's values, too.
///
/// # Errors
/// As [`of_release`].
pub fn patches(host: &dyn Host, state: &State, release: &Record, key: Key) -> Result<Vec<Entry>, Error> {
    let entries = release.values(key);
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let root = if entries.iter().any(|entry| entry.as_str().is_some()) {
        let own = resolved(host, state, release)
            .map_err(|error| error.within("failed to compute merged release values for patch rendering"))?;
        release_root(state, release, layered(&state.values, &own, Lists::Sparse))
    } else {
        release_root(state, release, Map::new())
    };
    render_entries(host, state, release, entries, &root)
}

/// The values of a release merged as `write-values` merges them.
///
/// # Errors
/// A file is not a YAML map.
pub fn merged(entries: &[Entry]) -> Result<Map, Error> {
    let mut out = Map::new();
    for entry in entries {
        let map = match entry {
            Entry::Map(map) => map.clone(),
            Entry::File { path, text } => document::map(text)
                .map_err(|error| Error::from(error).within(format!("unmarshalling yaml {path}")))?,
        };
        override_map(&mut out, map);
    }
    Ok(out)
}

/// The `set`, `setString` and `env` entries of a release as flags.
///
/// # Errors
/// A secret cannot be resolved, or an environment variable is not set.
pub fn set_flags(host: &dyn Host, state: &State, release: &Record) -> Result<Vec<SetFlag>, Error> {
    let mut out = Vec::new();
    let failed = |what: &str, error: Error| {
        let (file, name) = (&state.file, release.text(key!("name")));
        error.within(format!("Failed to render {what} value entry in {file} for release {name}"))
    };
    for set in release.records(key!("set")) {
        if let Some(expression) = expression(host, &state.cwd, set).map_err(|error| failed("set", error))? {
            out.push(SetFlag::Set(expression));
        } else if !set.text(key!("file")).is_empty() {
            let path = normalize(&state.base, &set.text(key!("file")));
            out.push(SetFlag::SetFile { key: escape(&set.text(key!("name"))), path });
        }
    }
    for set in release.records(key!("setString")) {
        if let Some(expression) =
            expression(host, &state.cwd, set).map_err(|error| failed("set string", error))?
        {
            out.push(SetFlag::SetString(expression));
        }
    }
    let mut variables = Vec::new();
    let mut missing = Vec::new();
    for entry in release.records(key!("env")) {
        let variable = entry.text(key!("value"));
        match host.variable(&variable) {
            Some(value) => {
                variables.push(format!("{}={}", escape(&entry.text(key!("name"))), escape(&value)));
            }
            None => missing.push(format!("\t{variable}")),
        }
    }
    if !missing.is_empty() {
        return Err(Error::Invalid(format!(
            "Environment Variables not found. Please make sure they are set and try again:\n{}",
            missing.join("\n")
        )));
    }
    if !variables.is_empty() {
        out.push(SetFlag::Set(variables.join(",")));
    }
    Ok(out)
}

/// `NAME=VALUE` or `NAME={A,B}`; `None` if the entry has neither.
fn expression(host: &dyn Host, dir: &str, set: &Record) -> Result<Option<String>, Error> {
    let name = escape(&set.text(key!("name")));
    let single = set.text(key!("value"));
    if !single.is_empty() {
        let value = secret_references::expand(host, dir, Value::String(single))?;
        return Ok(Some(format!("{name}={}", escape(&value.go_text()))));
    }
    if !set.text(key!("file")).is_empty() {
        return Ok(None);
    }
    let values = set.values(key!("values"));
    if values.is_empty() {
        return Ok(None);
    }
    let mut items = Vec::with_capacity(values.len());
    for value in values {
        let text = match value {
            Value::String(_) => secret_references::expand(host, dir, value)?.go_text(),
            other => chart_compat::json::to_string(&other.to_data())
                .map_err(|error| Error::Invalid(error.to_string()))?,
        };
        items.push(escape(&text));
    }
    Ok(Some(format!("{name}={{{}}}", items.join(","))))
}

fn escape(text: &str) -> String {
    text.replace('{', "\\{").replace('}', "\\}").replace(',', "\\,")
}

/// The values of a release in layers, for templates of patches (`resolveReleaseValues`).
fn resolved(host: &dyn Host, state: &State, release: &Record) -> Result<Map, Error> {
    let root = release_root(state, release, state.values.clone());
    let mut out = Map::new();
    for entry in render_entries(host, state, release, value_entries(host, state, release)?, &root)? {
        let map = match entry {
            Entry::Map(map) => map,
            Entry::File { path, text } => document::map(&text).map_err(|error| {
                Error::from(error).within(format!("failed to parse values file \"{path}\""))
            })?,
        };
        out = layered(&out, &text_keys(map)?, Lists::Sparse);
    }
    Ok(out)
}

/// The entries of `values` with normalized paths and resolved secrets.
fn value_entries(host: &dyn Host, state: &State, release: &Record) -> Result<Vec<Value>, Error> {
    let prefix = release.text(key!("valuesPathPrefix"));
    let mut out = Vec::new();
    for entry in release.values(key!("values")) {
        let entry = match entry {
            Value::String(path) => Value::String(normalize(&state.base, &format!("{prefix}{path}"))),
            other => other,
        };
        out.push(secret_references::expand(host, &state.cwd, entry)?);
    }
    Ok(out)
}

fn render_entries(
    host: &dyn Host,
    state: &State,
    release: &Record,
    entries: Vec<Value>,
    root: &Root,
) -> Result<Vec<Entry>, Error> {
    let handler = release
        .optional_text(key!("missingFileHandler"))
        .or_else(|| state.fields.optional_text(key!("missingFileHandler")));
    let mut out = Vec::with_capacity(entries.len());
    for entry in entries {
        match entry {
            Value::String(path) => {
                let found = resolve(host, state, handler.as_deref(), "values", &path)?;
                let Some(file) =
                    one(&found, "glob patterns in release values and secrets is not supported yet")?
                else {
                    continue;
                };
                let text = render_file(host, state, &file, root)
                    .map_err(|error| error.within(format!("failed to render values files \"{file}\"")))?;
                out.push(Entry::File { path: file, text });
            }
            Value::Map(map) => out.push(Entry::Map(map)),
            Value::AnyMap(_) => match entry.with_text_keys()? {
                Value::Map(map) => out.push(Entry::Map(map)),
                _ => return Err(Error::Invalid("values are not a map".to_owned())),
            },
            other => {
                return Err(Error::Invalid(format!(
                    "release {:?}: unexpected type of value: type={}",
                    release.text(key!("name")),
                    other.go_type()
                )));
            }
        }
    }
    Ok(out)
}

/// A values file's text: rendered if it is a template, with its secrets resolved.
///
/// # Errors
/// The file cannot be read or rendered, or a secret cannot be resolved.
pub fn render_file(host: &dyn Host, state: &State, path: &str, root: &Root) -> Result<String, Error> {
    let absolute = paths::within(&state.cwd, path);
    let mut text =
        read_text(host, &absolute).map_err(|error| error.within(format!("failed to load [{path}]")))?;
    if path.ends_with(".gotmpl") {
        text = render(host, &paths::dir(&absolute), &text, root)
            .map_err(|error| Error::Template(format!("failed to render [{path}], because of {error}")))?;
    }
    if !secret_references::has_reference(&text) {
        return Ok(text);
    }
    let map = document::map(&text)?;
    match secret_references::expand(host, &state.cwd, Value::Map(map))? {
        Value::Map(map) => Ok(value::map_to_yaml(&map)),
        _ => Ok(text),
    }
}

fn resolve(
    host: &dyn Host,
    state: &State,
    handler: Option<&str>,
    what: &str,
    path: &str,
) -> Result<Vec<String>, Error> {
    let settings = Settings::default();
    let loader = Loader { host, settings: &settings, cwd: state.cwd.clone() };
    loader.resolve_file(&state.base, &state.file, handler, what, path)
}

/// The only file, or none.
fn one(found: &[String], several: &str) -> Result<Option<String>, Error> {
    match found {
        [] => Ok(None),
        [file] => Ok(Some(file.clone())),
        _ => Err(Error::Invalid(format!("{several}. please submit a feature request if necessary"))),
    }
}

/// The text that `build --embed-values` puts in place of a values file.
///
/// # Errors
/// As [`of_release`].
pub fn embedded(host: &dyn Host, state: &State, release: &Record, key: Key) -> Result<Vec<Value>, Error> {
    let root = release_root(state, release, state.values.clone());
    let handler = release.optional_text(key!("missingFileHandler"));
    let mut out = Vec::new();
    for entry in release.values(key) {
        let Value::String(path) = entry else {
            out.push(entry);
            continue;
        };
        let prefixed = format!("{}{path}", release.text(key!("valuesPathPrefix")));
        let found = resolve(host, state, handler.as_deref(), "values", &prefixed)?;
        if let Some(file) = one(&found, "glob patterns in release values and secrets is not supported yet")? {
            let text = render_file(host, state, &file, &root)
                .map_err(|error| error.within(format!("failed to render values files \"{file}\"")))?;
            out.push(Value::Map(document::map(&text)?));
        }
    }
    Ok(out)
}
