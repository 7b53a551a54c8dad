//! What nodes mean to go-yaml v3, and nodes for data.
//!
//! Owns tags, styles and number forms; knows no field.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::data::Data;
use chart_compat::go::{format_float, quote};
use chart_compat::json::{self, Writer};
use chart_compat::yaml::tree::{self, Kind, Node, Number, Style, meaning, number};
use chart_compat::yaml::{Content, Node as Spanned, plain_meaning, spanned};

use super::node::kind_name;
use crate::error::Error;

/// What a scalar is.
enum Scalar<'n> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'n, str>),
}

/// A node as go-yaml v3 reads its own output of it.
fn resolve(node: &Node) -> Scalar<'_> {
    let text = node.value.as_str();
    let plain = node.style == Style::Plain;
    let implied = meaning(text);
    let tag = match node.tag.as_str() {
        tag if node.tagged && !tag.is_empty() => tag,
        "" if plain && !text.contains('\n') => implied,
        "" | "!!str" => "!!str",
        // A quoted scalar loses a tag that its text implies.
        tag if !plain && tag == implied => "!!str",
        tag => tag,
    };
    let as_text = || match node.style {
        Style::Folded => Scalar::Text(refolded(node)),
        _ => Scalar::Text(Cow::Borrowed(text)),
    };
    match tag {
        "!!null" => Scalar::Null,
        "!!bool" => Scalar::Bool(matches!(text, "true" | "True" | "TRUE")),
        "!!int" => number(text).map_or_else(as_text, Scalar::Number),
        "!!float" => number(text).map_or_else(as_text, |n| Scalar::Number(Number::Float(float(n)))),
        "!!timestamp" => time(text).map_or_else(as_text, |time| Scalar::Text(Cow::Owned(time))),
        "!!binary" => binary(text).map_or_else(as_text, |text| Scalar::Text(Cow::Owned(text))),
        _ => as_text(),
    }
}

/// Whether a text took the place of a number, a boolean or a null, whose tag it has.
fn is_mistagged(node: &Node) -> bool {
    let implied = || meaning(&node.value);
    match node.tag.as_str() {
        tag @ ("!!int" | "!!bool" | "!!null") if node.style == Style::Plain => implied() != tag,
        "!!float" if node.style == Style::Plain => !matches!(implied(), "!!int" | "!!float"),
        _ => false,
    }
}

/// A folded text as it is after go-yaml has written and read it: not always what it was.
fn refolded(node: &Node) -> Cow<'_, str> {
    let mut map = Node::map();
    map.push("a", Node { content: Vec::new(), ..node.clone() });
    let mut writer = tree::Writer::new();
    writer.document(&map);
    let read = tree::read(&writer.finish()).ok().flatten();
    let root = read.and_then(|mut document| document.content.pop());
    let text = root.and_then(|root| root.get("a").map(|a| a.value.clone()));
    text.map_or(Cow::Borrowed(node.value.as_str()), Cow::Owned)
}

#[allow(clippy::cast_precision_loss, reason = "as Go converts")]
fn float(number: Number) -> f64 {
    match number {
        Number::Int(n) => n as f64,
        Number::Uint(n) => n as f64,
        Number::Float(n) => n,
    }
}

/// The bytes of a base64 text, as a text.
fn binary(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text.replace(['\n', '\r'], "")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A timestamp in the form of RFC 3339 with as few decimals as needed, as Go's JSON encoder writes it.
fn time(text: &str) -> Option<String> {
    let split = text.find(['T', 't', ' ']);
    let (date, rest) = split.map_or((text, ""), |at| text.split_at(at));
    let mut date = date.splitn(3, '-');
    let (year, month, day) = (date.next()?, date.next()?, date.next()?);
    let rest = rest.trim_start_matches(['T', 't', ' ']);
    let (clock, zone) = match rest.find(['Z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => (rest, "Z"),
    };
    let mut clock = clock.splitn(3, ':');
    let mut next = || clock.next().filter(|part| !part.is_empty()).unwrap_or("0");
    let (hour, minute, second) = (next(), next(), next());
    let (second, decimals) = second.split_once(['.', ',']).unwrap_or((second, ""));
    let decimals = decimals.trim_end_matches('0');
    let dot = if decimals.is_empty() { "" } else { "." };
    let zone = if matches!(zone, "+00:00" | "-00:00") { "Z" } else { zone };
    Some(format!("{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:{second:0>2}{dot}{decimals}{zone}"))
}

/// What a node means, with the entries of maps sorted by the bytes of their keys.
pub(crate) enum Value<'n> {
    /// A null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number that JSON has.
    Number(Number),
    /// A text.
    Text(Cow<'n, str>),
    /// Items.
    List(Vec<Value<'n>>),
    /// Entries.
    Map(Vec<(&'n str, Value<'n>)>),
}

/// What an object means.
///
/// # Errors
/// A map with a key that is not a text or that is set twice, or a number that JSON does not have.
pub(crate) fn value_of(node: &Node) -> Result<Value<'_>, Error> {
    value_below(node, true).map_err(|e| match e {
        Error::DuplicateKeys(_) => duplicate_keys(node),
        other => other,
    })
}

/// The keys that are set twice, with their lines in the object's text.
fn duplicate_keys(node: &Node) -> Error {
    let mut writer = tree::Writer::new();
    writer.document(node);
    match spanned(writer.finish().as_bytes()) {
        Ok(document) => {
            let mut lines = String::new();
            list_duplicates(&document, &mut lines);
            Error::DuplicateKeys(lines)
        }
        Err(e) => Error::Yaml(e.to_string()),
    }
}

fn list_duplicates(node: &Spanned, out: &mut String) {
    match &node.content {
        Content::List(items) => items.iter().for_each(|item| list_duplicates(item, out)),
        Content::Map(entries) => {
            let before = out.len();
            for (at, first) in entries.iter().enumerate() {
                for again in entries.iter().skip(at + 1).filter(|again| again.written == first.written) {
                    let key = quote(again.written.as_bytes());
                    let text = format!("mapping key {key} already defined at line {}", first.line);
                    out.push_str(&format!("\n  line {}: {text}", again.line));
                }
            }
            // What such a map holds is not read.
            if out.len() == before {
                entries.iter().for_each(|entry| list_duplicates(&entry.value, out));
            }
        }
        Content::Nothing | Content::Scalar { .. } | Content::Alias(_) => {}
    }
}

fn value_below(node: &Node, root: bool) -> Result<Value<'_>, Error> {
    let below = |child| value_below(child, false);
    Ok(match node.kind {
        Kind::List => Value::List(node.content.iter().map(below).collect::<Result<_, _>>()?),
        Kind::Map => {
            let entry = |(key, value)| Ok((key, below(value)?));
            Value::Map(entries(node, root)?.into_iter().map(entry).collect::<Result<_, Error>>()?)
        }
        Kind::Scalar if is_mistagged(node) => {
            let (implied, tag, text) = (meaning(&node.value), &node.tag, &node.value);
            return Err(Error::Yaml(format!("yaml: cannot decode {implied} `{text}` as a {tag}")));
        }
        Kind::Scalar => match resolve(node) {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Number(Number::Float(n)) if !n.is_finite() => {
                let name = match n {
                    n if n.is_nan() => "NaN",
                    n if n > 0.0 => "+Inf",
                    _ => "-Inf",
                };
                return Err(Error::Json(format!("json: unsupported value: {name}")));
            }
            Scalar::Number(number) => Value::Number(number),
            Scalar::Text(text) => Value::Text(text),
        },
        Kind::Document | Kind::Alias => {
            return Err(Error::Json(format!("a {} has no form in JSON", kind_name(node.kind))));
        }
    })
}

/// The entries of a map, sorted by key.
fn entries(node: &Node, root: bool) -> Result<Vec<(&str, &Node)>, Error> {
    let mut out = Vec::with_capacity(node.content.len() / 2);
    for pair in node.content.chunks_exact(2) {
        let [key, value] = pair else { continue };
        // The root is decoded into a map of texts, which takes any scalar as a key.
        if !root && !matches!(resolve(key), Scalar::Text(_)) {
            return Err(Error::Json("json: unsupported type: map[interface {}]interface {}".to_owned()));
        }
        out.push((key.value.as_str(), value));
    }
    out.sort_by(|a, b| a.0.cmp(b.0));
    if out.array_windows().any(|[a, b]| a.0 == b.0) {
        return Err(Error::DuplicateKeys(String::new()));
    }
    Ok(out)
}

impl Value<'_> {
    /// The value as compact JSON.
    pub(crate) fn write_json(&self, writer: &mut Writer<'_>) -> Result<(), json::Unsupported> {
        match self {
            Self::Null => writer.null(),
            Self::Bool(value) => writer.bool(*value),
            Self::Number(Number::Int(n)) => writer.int(*n),
            Self::Number(Number::Uint(n)) => writer.uint(*n),
            Self::Number(Number::Float(n)) => writer.float(*n)?,
            Self::Text(text) => writer.string(text),
            Self::List(items) => {
                writer.begin_list();
                items.iter().try_for_each(|item| item.write_json(writer))?;
                writer.end_list();
            }
            Self::Map(entries) => {
                writer.begin_map();
                for (key, value) in entries {
                    writer.key(key);
                    value.write_json(writer)?;
                }
                writer.end_map();
            }
        }
        Ok(())
    }

    fn into_data(self) -> Data {
        match self {
            Self::Null => Data::Null,
            Self::Bool(value) => Data::Bool(value),
            Self::Number(number) => Data::Float(float(number)),
            Self::Text(text) => Data::String(text.into_owned()),
            Self::List(items) => Data::List(items.into_iter().map(Self::into_data).collect()),
            Self::Map(entries) => Data::Map(
                entries.into_iter().map(|(key, value)| (key.to_owned(), value.into_data())).collect(),
            ),
        }
    }
}

/// An object as data whose numbers are all floats, as JSON patches see it.
///
/// # Errors
/// A map with a key that is not a text or that is set twice, or a number that JSON does not have.
pub fn to_data(node: &Node) -> Result<Data, Error> {
    value_of(node).map(Value::into_data)
}

/// Data as nodes in the styles that go-yaml v3 chooses.
#[must_use]
pub fn from_data(data: &Data) -> Node {
    let plain = |tag: &str, text: String| Node { tag: tag.to_owned(), value: text, ..Node::default() };
    match data {
        Data::Null => plain("!!null", "null".to_owned()),
        Data::Bool(value) => plain("!!bool", value.to_string()),
        Data::Int(n) => plain("!!int", n.to_string()),
        Data::Float(n) => {
            let text = format_float(*n);
            plain(meaning(&text), text)
        }
        Data::String(text) => {
            let style = match () {
                () if text.contains('\n') => Style::Literal,
                () if text.is_empty() || plain_meaning(text).is_some() => Style::Double,
                () => Style::Plain,
            };
            Node { style, ..plain("!!str", text.clone()) }
        }
        Data::List(items) => Node {
            kind: Kind::List,
            tag: "!!seq".to_owned(),
            content: items.iter().map(from_data).collect(),
            ..Node::default()
        },
        Data::Map(map) => {
            let pair = |(key, value): (&String, &Data)| {
                [Node { tag: "!!str".to_owned(), ..super::node::scalar(key) }, from_data(value)]
            };
            Node { tag: "!!map".to_owned(), content: map.iter().flat_map(pair).collect(), ..Node::map() }
        }
    }
}
