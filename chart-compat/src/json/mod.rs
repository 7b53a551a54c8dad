//! JSON as Go's `encoding/json` decodes and encodes it.
//!
//! Owns Go's escapes, number formats and error texts. Knows no value type except `Data`.

mod parsed_size;
mod read;
mod write;

use std::borrow::Cow;

pub use parsed_size::ParsedSize;
pub use read::{Error, first_value, from_slice, from_slice_list, from_slice_map};
pub(crate) use read::{Tree, first_tree, type_name, wrong_type};
pub use write::{Unsupported, Writer};

use crate::data::Data;

/// Go's `json.Marshal`: compact, with `<`, `>` and `&` escaped.
///
/// # Errors
/// If a number is infinite or NaN.
pub fn to_string(data: &Data) -> Result<String, Unsupported> {
    let mut out = String::new();
    written(Writer::new(&mut out), data)?;
    Ok(out)
}

/// Go's `json.Marshal` without HTML escapes, which is Helm's `toRawJson`.
///
/// # Errors
/// If a number is infinite or NaN.
pub fn to_string_raw(data: &Data) -> Result<String, Unsupported> {
    let mut out = String::new();
    written(Writer::new(&mut out).raw(), data)?;
    Ok(out)
}

/// Go's `json.MarshalIndent` with two spaces, which is Helm's `toPrettyJson`.
///
/// # Errors
/// If a number is infinite or NaN.
pub fn to_string_pretty(data: &Data) -> Result<String, Unsupported> {
    let mut out = String::new();
    written(Writer::new(&mut out).indented(), data)?;
    Ok(out)
}

fn written(mut writer: Writer<'_>, data: &Data) -> Result<(), Unsupported> {
    write_data(&mut writer, data)?;
    Ok(())
}

/// Writes a tree to a writer.
///
/// # Errors
/// If a number is infinite or NaN.
pub fn write_data(writer: &mut Writer<'_>, data: &Data) -> Result<(), Unsupported> {
    match data {
        Data::Null => writer.null(),
        Data::Bool(value) => writer.bool(*value),
        Data::Int(value) => writer.int(*value),
        Data::Float(value) => writer.float(*value)?,
        Data::String(text) => writer.string(text),
        Data::List(items) => {
            writer.begin_list();
            for item in items {
                write_data(writer, item)?;
            }
            writer.end_list();
        }
        Data::Map(map) => {
            writer.begin_map();
            for (key, value) in map {
                writer.key(key);
                write_data(writer, value)?;
            }
            writer.end_map();
        }
    }
    Ok(())
}

/// Bytes as UTF-8. As in Go's JSON encoder, each invalid byte becomes U+FFFD.
#[must_use]
pub fn replace_invalid(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 2);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests;
