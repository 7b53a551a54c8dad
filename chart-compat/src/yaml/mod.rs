//! YAML as sigs.k8s.io/yaml (go-yaml v2, YAML 1.1) reads and writes it.
//!
//! Owns decoding and encoding, as Helm's calls do it; knows no chart and no template.
//!
//! Reading: `input` (characters) → `scan` (tokens) → `parse` (events) → `read` (anchors, replay) → `machine` (what nodes
//! mean) → a `Sink`. Writing: values pushed into an `Emitter`.

mod count;
mod decode;
mod emit;
mod error;
mod go_syntax;
mod input;
mod keys;
mod metadata_head;
mod parse;
mod read;
mod resolve;
mod scan;
mod sink;
mod spanned;
mod timestamp;
pub mod tree;

pub use count::count_nodes;
pub use emit::{EmitError, Emitter};
pub use error::Error;
pub use keys::{compare_keys, compare_keys_pretty, sort_by_key};
pub(crate) use metadata_head::refuse_bytes;
pub use metadata_head::{Head, head};
pub use sink::{DataBuilder, Key, Sink};
pub use spanned::{Content, Entry, Node, plain_meaning, spanned};

use crate::data::{Data, Map};
use crate::json;

/// Reads the first document, as sigs' `YAMLToJSON` does; integers stay integers.
///
/// ```
/// use chart_compat::{json, yaml};
///
/// let data = yaml::from_slice(b"on: yes\nmode: 010\nlist: [1, 2.0]\n")?; // YAML 1.1, as all of Helm reads
/// assert_eq!(json::to_string(&data).unwrap(), r#"{"list":[1,2],"mode":8,"true":true}"#);
/// assert_eq!(yaml::to_string(&data).unwrap(), "list:\n- 1\n- 2\nmode: 8\n\"true\": true\n");
/// # Ok::<(), yaml::Error>(())
/// ```
///
/// # Errors
/// If the text is no YAML, or has no JSON form.
pub fn from_slice(text: &[u8]) -> Result<Data, Error> {
    build(text, DataBuilder::new(), false)
}

/// Reads the first document as `from_slice` does, refusing keys that are set twice, as `YAMLToJSONStrict` does.
///
/// # Errors
/// If the text is no YAML, has no JSON form, or sets a key of a map twice.
pub fn from_slice_strict(text: &[u8]) -> Result<Data, Error> {
    build(text, DataBuilder::new(), true)
}

/// Reads the first document as sigs' `Unmarshal` does into a `map[string]interface{}`: all numbers are floats, and an
/// empty document leaves the map empty.
///
/// # Errors
/// If the text is no YAML, or no mapping that has a JSON form.
pub fn from_slice_map(text: &[u8]) -> Result<Map, Error> {
    match build(text, DataBuilder::with_float_numbers(), false).map_err(Error::while_converting)? {
        Data::Null => Ok(Map::new()),
        Data::Map(map) => Ok(map),
        other => Err(Error::unmarshal(json::wrong_type(&other, "map[string]interface {}").to_string())),
    }
}

/// Reads the first document as sigs' `Unmarshal` does into an `[]interface{}`: all numbers are floats, and an empty
/// document leaves the list empty.
///
/// # Errors
/// If the text is no YAML, or no sequence that has a JSON form.
pub fn from_slice_list(text: &[u8]) -> Result<Vec<Data>, Error> {
    match build(text, DataBuilder::with_float_numbers(), false).map_err(Error::while_converting)? {
        Data::Null => Ok(Vec::new()),
        Data::List(list) => Ok(list),
        other => Err(Error::unmarshal(json::wrong_type(&other, "[]interface {}").to_string())),
    }
}

/// Reads the first document into a sink.
///
/// # Errors
/// If the text is no YAML, or has no JSON form.
pub fn read_into(text: &[u8], sink: &mut impl Sink) -> Result<(), Error> {
    if read::read(text, sink, false)?.not_finite {
        // Whether a number without a JSON form stays in the document, only the whole document shows.
        from_slice(text)?;
    }
    Ok(())
}

fn build(text: &[u8], mut builder: DataBuilder, strict: bool) -> Result<Data, Error> {
    let outcome = read::read(text, &mut builder, strict)?;
    let data = builder.finish();
    if outcome.not_finite {
        check_finite(&data)?;
    }
    Ok(data)
}

/// Fails if the tree holds a number that JSON cannot.
fn check_finite(data: &Data) -> Result<(), Error> {
    not_finite(data).map_or(Ok(()), |name| Err(Error::shape(format!("json: unsupported value: {name}"))))
}

/// The first number, in the order of JSON, that JSON cannot hold.
fn not_finite(data: &Data) -> Option<&'static str> {
    match data {
        Data::Float(value) if value.is_nan() => Some("NaN"),
        Data::Float(f64::INFINITY) => Some("+Inf"),
        Data::Float(f64::NEG_INFINITY) => Some("-Inf"),
        Data::List(items) => items.iter().find_map(not_finite),
        Data::Map(map) => map.values().find_map(not_finite),
        _ => None,
    }
}

/// Writes a tree as sigs' `Marshal` does, which is Helm's `toYaml` before it drops the last line feed.
///
/// # Errors
/// If a number is infinite or none, or a text has no way through JSON and go-yaml's reader.
pub fn to_string(data: &Data) -> Result<String, WriteError> {
    let mut out = String::new();
    let mut emitter = Emitter::new(&mut out);
    push(&mut emitter, data, compare_keys);
    match emitter.finish() {
        Ok(()) => Ok(out),
        Err(EmitError::Detour) => json_to_yaml(&json::to_string(data).map_err(EmitError::from)?),
        Err(error) => Err(error.into()),
    }
}

/// Writes a tree as Helm's `toYamlPretty` does before it drops the last line feed: go-yaml v3 with an indentation of 2.
#[must_use]
pub fn to_string_pretty(data: &Data) -> String {
    let mut out = String::new();
    let mut emitter = Emitter::pretty(&mut out);
    push(&mut emitter, data, compare_keys_pretty);
    // This layout has a form for every value.
    let finished = emitter.finish();
    debug_assert!(finished.is_ok());
    out
}

/// Rewrites JSON as YAML by reading it as YAML, as sigs' `JSONToYAML` does.
///
/// # Errors
/// If go-yaml cannot read the JSON.
pub fn json_to_yaml(text: &str) -> Result<String, WriteError> {
    let mut builder = DataBuilder::new();
    read::read(text.as_bytes(), &mut builder, false)?;
    let mut out = String::new();
    let mut emitter = Emitter::verbatim(&mut out);
    push(&mut emitter, &builder.finish(), compare_keys);
    emitter.finish()?;
    Ok(out)
}

/// Why a tree could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A value has no form.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The detour through JSON ended in a text that go-yaml cannot read.
    #[error(transparent)]
    Read(#[from] Error),
}

impl From<json::Unsupported> for EmitError {
    fn from(error: json::Unsupported) -> Self {
        Self::Number(error.0)
    }
}

fn push(emitter: &mut Emitter<'_>, data: &Data, compare: fn(&str, &str) -> std::cmp::Ordering) {
    match data {
        Data::Null => emitter.null(),
        Data::Bool(value) => emitter.bool(*value),
        Data::Int(value) => emitter.int(*value),
        Data::Float(value) => emitter.float(*value),
        Data::String(text) => emitter.string(text),
        Data::List(items) => {
            emitter.begin_list();
            for item in items {
                push(emitter, item, compare);
            }
            emitter.end_list();
        }
        Data::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            sort_by_key(&mut entries, |(key, _)| key, compare);
            emitter.begin_map();
            for (key, value) in entries {
                emitter.key(key);
                push(emitter, value, compare);
            }
            emitter.end_map();
        }
    }
}

#[cfg(test)]
mod tests;
