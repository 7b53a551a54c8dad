//! YAML as sigs.k8s.io/yaml (go-yaml v2, YAML 1.1) reads and writes it.
//!
//! Owns decoding and encoding as Helm's calls do it. Knows neither charts nor templates.
//!
//! Decoding: `input` (characters) → `scan` (tokens) → `parse` (events) → `read` (anchors, replay) → `decode` (values) → a `Sink`.
//! Encoding: values are pushed into an `Emitter`.

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
mod room;
mod scan;
mod sink;
mod spanned;
mod timestamp;
pub mod tree;

pub use count::count_nodes;
pub use emit::{EmitError, Emitter};
pub use error::Error;
pub use keys::{compare_keys, compare_keys_pretty, sort_by_key};
pub use metadata_head::{Head, head};
pub(crate) use metadata_head::{head_within, refuse_bytes};
pub use room::{OutOfRoom, Room};
pub use sink::{DataBuilder, Key, Sink};
pub use spanned::{Content, Entry, Node, plain_meaning, spanned};

use crate::data::{Data, Map};
use crate::json;

/// Decodes the first document as sigs' `YAMLToJSON` does. Integers stay integers.
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
/// If the text is not valid YAML or has no JSON form.
pub fn from_slice(text: &[u8]) -> Result<Data, Error> {
    from_slice_within(text, &Room::default())
}

/// Decodes the first document like `from_slice`, as one of several documents that share room.
///
/// # Errors
/// As [`from_slice`], or if there is not enough room.
pub fn from_slice_within(text: &[u8], room: &Room) -> Result<Data, Error> {
    build(text, DataBuilder::new(), false, room)
}

/// Decodes the first document like `from_slice`, but rejects duplicate keys, as `YAMLToJSONStrict` does.
///
/// # Errors
/// If the text is not valid YAML, has no JSON form, or a map has a duplicate key.
pub fn from_slice_strict(text: &[u8]) -> Result<Data, Error> {
    build(text, DataBuilder::new(), true, &Room::default())
}

/// Decodes the first document as sigs' `Unmarshal` does into a `map[string]interface{}`: all numbers are floats, and an empty
/// document is an empty map.
///
/// # Errors
/// If the text is not valid YAML, or is not a mapping with a JSON form.
pub fn from_slice_map(text: &[u8]) -> Result<Map, Error> {
    from_slice_map_within(text, &Room::default())
}

/// Decodes the first document like `from_slice_map`, as one of several documents that share room.
///
/// # Errors
/// As [`from_slice_map`], or if there is not enough room.
pub fn from_slice_map_within(text: &[u8], room: &Room) -> Result<Map, Error> {
    match build(text, DataBuilder::with_float_numbers(), false, room).map_err(Error::while_converting)? {
        Data::Null => Ok(Map::new()),
        Data::Map(map) => Ok(map),
        other => Err(Error::unmarshal(json::wrong_type(&other, "map[string]interface {}").to_string())),
    }
}

/// Decodes the first document as sigs' `Unmarshal` does into an `[]interface{}`: all numbers are floats, and an empty document is
/// an empty list.
///
/// # Errors
/// If the text is not valid YAML, or is not a sequence with a JSON form.
pub fn from_slice_list(text: &[u8]) -> Result<Vec<Data>, Error> {
    from_slice_list_within(text, &Room::default())
}

/// Decodes the first document like `from_slice_list`, as one of several documents that share room.
///
/// # Errors
/// As [`from_slice_list`], or if there is not enough room.
pub fn from_slice_list_within(text: &[u8], room: &Room) -> Result<Vec<Data>, Error> {
    match build(text, DataBuilder::with_float_numbers(), false, room).map_err(Error::while_converting)? {
        Data::Null => Ok(Vec::new()),
        Data::List(list) => Ok(list),
        other => Err(Error::unmarshal(json::wrong_type(&other, "[]interface {}").to_string())),
    }
}

/// Decodes the first document into a sink.
///
/// # Errors
/// If the text is not valid YAML or has no JSON form.
pub fn read_into(text: &[u8], sink: &mut impl Sink) -> Result<(), Error> {
    if read::read(text, sink, false, &Room::default())?.not_finite {
        // Later entries can replace a number that JSON does not support. Only the whole document shows that.
        from_slice(text)?;
    }
    Ok(())
}

fn build(text: &[u8], mut builder: DataBuilder, strict: bool, room: &Room) -> Result<Data, Error> {
    let outcome = read::read(text, &mut builder, strict, room)?;
    let data = builder.finish();
    if outcome.not_finite {
        check_finite(&data)?;
    }
    Ok(data)
}

/// Fails if the tree contains a number that JSON does not support.
fn check_finite(data: &Data) -> Result<(), Error> {
    not_finite(data).map_or(Ok(()), |name| Err(Error::shape(format!("json: unsupported value: {name}"))))
}

/// The first number that JSON does not support, in JSON's order.
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

/// Encodes a tree as sigs' `Marshal` does. Helm's `toYaml` strips the final line feed.
///
/// # Errors
/// If a number is infinite or NaN, or go-yaml's reader rejects a string's JSON form.
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

/// Encodes a tree with go-yaml v2 itself, without the conversion to JSON, and with keys in the order of their bytes: Flux digests values
/// in this form.
#[must_use]
pub fn to_string_by_bytes(data: &Data) -> String {
    let mut out = String::new();
    let mut emitter = Emitter::verbatim(&mut out);
    push(&mut emitter, data, str::cmp);
    // Numbers that JSON does not support, which fail here, come from no JSON.
    let finished = emitter.finish();
    debug_assert!(finished.is_ok());
    out
}

/// Encodes a tree with go-yaml v3 and an indentation of 2. Helm's `toYamlPretty` strips the final line feed.
#[must_use]
pub fn to_string_pretty(data: &Data) -> String {
    let mut out = String::new();
    let mut emitter = Emitter::pretty(&mut out);
    push(&mut emitter, data, compare_keys_pretty);
    // This layout can represent every value.
    let finished = emitter.finish();
    debug_assert!(finished.is_ok());
    out
}

/// Converts JSON to YAML by reading it as YAML, as sigs' `JSONToYAML` does.
///
/// # Errors
/// If go-yaml cannot read the JSON.
pub fn json_to_yaml(text: &str) -> Result<String, WriteError> {
    let mut builder = DataBuilder::new();
    read::read(text.as_bytes(), &mut builder, false, &Room::default())?;
    let mut out = String::new();
    let mut emitter = Emitter::verbatim(&mut out);
    push(&mut emitter, &builder.finish(), compare_keys);
    emitter.finish()?;
    Ok(out)
}

/// A YAML write error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A value has no representation.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// go-yaml cannot read the intermediate JSON.
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
