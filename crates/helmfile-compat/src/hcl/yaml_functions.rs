//! `yamldecode` and `yamlencode`.
//!
//! Owns which plain scalars are numbers, booleans and times, and how values are laid out, as go-cty-yaml has it. The syntax is
//! `chart-compat`'s.

use chart_compat::yaml::Emitter;
use chart_compat::yaml::tree::{Kind, Node, Style};
use hcl::{Map, Number, Value};

use super::functions::{self, sorted};
use crate::document;
use crate::timestamp::Timestamp;

/// The value of the one document of a text.
///
/// # Errors
/// The text is not YAML or has not one document, a key is there twice, or a value has an unknown tag or is no finite number.
pub(super) fn decode(text: &str) -> Result<Value, String> {
    // A byte of a list may be a value.
    functions::count_made(text.len().saturating_mul(size_of::<Value>()))?;
    let documents = document::documents(text).map_err(|error| error.problem())?;
    match documents.as_slice() {
        [root] => {
            let value = value(root)?;
            // What aliases add counts, too.
            functions::count_made(super::size(&value))?;
            Ok(value)
        }
        [] => Err("the text has no document".to_owned()),
        several => Err(format!("the text has {} documents in place of one", several.len())),
    }
}

fn value(node: &Node) -> Result<Value, String> {
    match node.kind {
        Kind::List => node.content.iter().map(value).collect(),
        Kind::Map => {
            let mut out = Map::new();
            for pair in node.content.chunks_exact(2) {
                if let [key, item] = pair {
                    let key = match value(key)? {
                        Value::String(key) => key,
                        key @ (Value::Bool(_) | Value::Number(_)) => key.to_string(),
                        key => return Err(format!("{key} is no key of a map")),
                    };
                    out.insert(key, value(item)?);
                }
            }
            Ok(Value::Object(out))
        }
        // Aliases were resolved before.
        Kind::Document | Kind::Scalar | Kind::Alias => scalar(node),
    }
}

fn scalar(node: &Node) -> Result<Value, String> {
    let text = node.value.as_str();
    let tag = if node.tagged { node.tag.as_str() } else { "" };
    match (tag, node.style) {
        ("!!str" | "!!binary", _) => return Ok(Value::from(text)),
        ("" | "!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp", Style::Plain) => {}
        ("", _) => return Ok(Value::from(text)),
        _ => return Err(format!("a value with the tag {tag} is not supported")),
    }
    let found = match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan"
        | ".NaN" | ".NAN" => return Err(format!("{text} is not a finite number")),
        _ => match (time(text), number(text)?) {
            (Some(time), _) => Value::from(time),
            (None, Some(number)) => Value::Number(number),
            (None, None) => Value::from(text),
        },
    };
    let fits = match tag {
        "!!bool" => matches!(found, Value::Bool(_)),
        "!!int" | "!!float" => matches!(found, Value::Number(_)),
        "!!null" => matches!(found, Value::Null),
        "!!timestamp" => time(text).is_some(),
        _ => true,
    };
    if fits { Ok(found) } else { Err(format!("{text:?} is no {tag}")) }
}

/// A date, or a date and time, in RFC 3339 without fractions of seconds.
fn time(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 4 || text.as_bytes().get(4) != Some(&b'-') {
        return None;
    }
    Timestamp::parse(text).map(|time| time.whole_seconds().text())
}

/// A decimal number; or a whole one in base 8 or 16.
fn number(text: &str) -> Result<Option<Number>, String> {
    for (prefix, radix) in [("0o", 8), ("0x", 16)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return Ok(u64::from_str_radix(digits, radix).ok().map(Number::from));
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Rust also reads `inf`, `nan`, and more.
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !unsigned.contains(|c: char| c.is_ascii_digit())
    {
        return Ok(None);
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Ok(Some(Number::from(whole)));
    }
    let Ok(float) = text.parse::<f64>() else { return Ok(None) };
    Number::from_f64(float).map(Some).ok_or_else(|| format!("{text} is too large"))
}

/// A value as a document: texts in double quotes or, with line breaks, as literal blocks.
///
/// # Errors
/// A value has no representation.
pub(super) fn encode(value: Value) -> Result<String, String> {
    let mut text = String::new();
    let mut out = Emitter::quoted(&mut text);
    write(&sorted(value), &mut out);
    out.finish().map_err(|error| error.to_string())?;
    Ok(text)
}

fn write(value: &Value, out: &mut Emitter<'_>) {
    match value {
        Value::Null => out.null(),
        Value::Bool(value) => out.bool(*value),
        Value::Number(number) => match number.as_f64() {
            // Without an exponent.
            Some(float) if number.is_f64() => out.plain(&float.to_string()),
            _ => out.plain(&number.to_string()),
        },
        Value::String(text) => out.string(text),
        Value::Array(items) => {
            out.begin_list();
            items.iter().for_each(|item| write(item, out));
            out.end_list();
        }
        Value::Object(map) => {
            out.begin_map();
            for (key, value) in map {
                out.key(key);
                write(value, out);
            }
            out.end_map();
        }
    }
}
