//! Values of a state file: what go-yaml v3 decodes into `any`.
//!
//! Owns the value tree, its decoding from YAML nodes, its encoding, and its conversions to and from [`Data`]. Does not know which
//! fields a state file has.

use std::collections::BTreeMap;

use chart_compat::data::{Data, Map as DataMap};
use chart_compat::yaml::tree::{Kind, Node, Number, number};
use chart_compat::yaml::{Emitter, compare_keys_pretty, sort_by_key};

use super::error::Error;
use super::timestamp::Timestamp;

/// A map with text keys.
pub type Map = BTreeMap<String, Value>;

/// A decoded value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Go's nil.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A Go `int`.
    Int(i64),
    /// An integer beyond `i64`.
    Uint(u64),
    /// A Go `float64`.
    Float(f64),
    /// A date and time.
    Time(Timestamp),
    /// A text.
    String(String),
    /// A list.
    List(Vec<Value>),
    /// A map with text keys.
    Map(Map),
    /// A map with at least one key that is not a string, in the order of the text.
    AnyMap(Vec<(Value, Value)>),
}

impl Value {
    /// The value of a node without aliases and merge keys.
    #[must_use]
    pub fn from_node(node: &Node) -> Self {
        match node.kind {
            Kind::Document => node.content.first().map_or(Self::Null, Self::from_node),
            Kind::List => Self::List(node.content.iter().map(Self::from_node).collect()),
            Kind::Map => {
                let pairs =
                    || node.content.chunks_exact(2).filter_map(|pair| Some((pair.first()?, pair.get(1)?)));
                if pairs().all(|(key, _)| key.kind == Kind::Scalar && key.tag == "!!str") {
                    return Self::Map(pairs().map(|(k, v)| (k.value.clone(), Self::from_node(v))).collect());
                }
                Self::AnyMap(pairs().map(|(k, v)| (Self::from_node(k), Self::from_node(v))).collect())
            }
            Kind::Scalar => scalar(node),
            // Aliases were resolved before.
            Kind::Alias => Self::Null,
        }
    }

    /// The bytes of its texts and keys, and one for each other value: how much memory it takes, roughly.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::String(text) => text.len() + 1,
            Self::List(items) => items.iter().map(Self::size).sum::<usize>() + 1,
            Self::Map(map) => map.iter().map(|(key, value)| key.len() + value.size()).sum::<usize>() + 1,
            Self::AnyMap(pairs) => {
                pairs.iter().map(|(key, value)| key.size() + value.size()).sum::<usize>() + 1
            }
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Uint(_) | Self::Float(_) | Self::Time(_) => 1,
        }
    }

    /// The text inside, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The map inside, if this is one with text keys.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Whether mergo takes it for empty: nil, zero, and what has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(n) => *n == 0,
            Self::Uint(n) => *n == 0,
            Self::Float(n) => *n == 0.0,
            Self::Time(_) => false,
            Self::String(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::AnyMap(entries) => entries.is_empty(),
        }
    }

    /// The value with text keys alone (`maputil.RecursivelyStringifyMapKey`).
    ///
    /// # Errors
    /// A key that is not a string.
    pub fn with_text_keys(self) -> Result<Self, Error> {
        match self {
            Self::List(items) => {
                Ok(Self::List(items.into_iter().map(Self::with_text_keys).collect::<Result<_, _>>()?))
            }
            Self::Map(map) => Ok(Self::Map(text_keys(map)?)),
            Self::AnyMap(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    let Self::String(key) = key else {
                        let (kind, shown) = (key.go_type(), key.go_text());
                        return Err(Error::Invalid(format!(
                            "unexpected type of key in map: expected string, got {kind}: value={shown}; quote the key"
                        )));
                    };
                    map.insert(key, value.with_text_keys()?);
                }
                Ok(Self::Map(map))
            }
            other => Ok(other),
        }
    }

    /// The Go type, as `%T` prints it.
    #[must_use]
    pub fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Time(_) => "time.Time",
            Self::String(_) => "string",
            Self::List(_) => "[]interface {}",
            Self::Map(_) => "map[string]interface {}",
            Self::AnyMap(_) => "map[interface {}]interface {}",
        }
    }

    /// The value as `%v` prints it.
    #[must_use]
    pub fn go_text(&self) -> String {
        match self {
            Self::Null => "<nil>".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Int(n) => n.to_string(),
            Self::Uint(n) => n.to_string(),
            Self::Float(n) => chart_compat::go::format_float(*n),
            Self::Time(time) => time.go_text(),
            Self::String(text) => text.clone(),
            Self::List(items) => {
                format!("[{}]", items.iter().map(Self::go_text).collect::<Vec<_>>().join(" "))
            }
            Self::Map(map) => {
                let entries: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", v.go_text())).collect();
                format!("map[{}]", entries.join(" "))
            }
            Self::AnyMap(entries) => {
                let entries: Vec<String> =
                    entries.iter().map(|(k, v)| format!("{}:{}", k.go_text(), v.go_text())).collect();
                format!("map[{}]", entries.join(" "))
            }
        }
    }

    /// The value for the template engine and for charts: times become texts, keys become texts.
    #[must_use]
    pub fn to_data(&self) -> Data {
        match self {
            Self::Null => Data::Null,
            Self::Bool(value) => Data::Bool(*value),
            Self::Int(n) => Data::Int(*n),
            #[allow(clippy::cast_precision_loss, reason = "as Go's JSON decoder does")]
            Self::Uint(n) => Data::Float(*n as f64),
            Self::Float(n) => Data::Float(*n),
            Self::Time(time) => Data::String(time.text()),
            Self::String(text) => Data::String(text.clone()),
            Self::List(items) => Data::List(items.iter().map(Self::to_data).collect()),
            Self::Map(map) => Data::Map(to_data_map(map)),
            Self::AnyMap(entries) => {
                Data::Map(entries.iter().map(|(k, v)| (k.go_text(), v.to_data())).collect::<DataMap>())
            }
        }
    }

    /// The value of data, such as a function's result.
    #[must_use]
    pub fn from_data(data: &Data) -> Self {
        match data {
            Data::Null => Self::Null,
            Data::Bool(value) => Self::Bool(*value),
            Data::Int(n) => Self::Int(*n),
            Data::Float(n) => Self::Float(*n),
            Data::String(text) => Self::String(text.clone()),
            Data::List(items) => Self::List(items.iter().map(Self::from_data).collect()),
            Data::Map(map) => Self::Map(map.iter().map(|(k, v)| (k.clone(), Self::from_data(v))).collect()),
        }
    }

    /// Writes the value with go-yaml v3's layout.
    pub fn write(&self, out: &mut Emitter<'_>) {
        match self {
            Self::Null => out.null(),
            Self::Bool(value) => out.bool(*value),
            Self::Int(n) => out.int(*n),
            Self::Uint(n) => out.uint(*n),
            Self::Float(n) => out.float(*n),
            Self::Time(time) => out.timestamp(&time.text()),
            Self::String(text) => out.string(text),
            Self::List(items) => {
                out.begin_list();
                for item in items {
                    item.write(out);
                }
                out.end_list();
            }
            Self::Map(map) => write_map(map, out),
            Self::AnyMap(entries) => {
                // go-yaml sorts keys by kind first; a quoted text and a number never meet in one order that matters to a reader.
                let mut sorted: Vec<(String, &Value, &Value)> =
                    entries.iter().map(|(k, v)| (k.go_text(), k, v)).collect();
                sort_by_key(&mut sorted, |entry| &entry.0, compare_keys_pretty);
                out.begin_map();
                for (text, key, value) in &sorted {
                    match key {
                        Self::String(text) => out.key(text),
                        _ => out.plain_key(text),
                    }
                    value.write(out);
                }
                out.end_map();
            }
        }
    }
}

/// Writes a map, with keys in go-yaml v3's order.
pub fn write_map(map: &Map, out: &mut Emitter<'_>) {
    write_entries(map, out, Value::write);
}

/// Writes the entries of a map, with keys in go-yaml v3's order.
pub(super) fn write_entries<'e, V>(
    map: &BTreeMap<String, V>,
    out: &mut Emitter<'e>,
    write: impl Fn(&V, &mut Emitter<'e>),
) {
    let mut entries: Vec<(&String, &V)> = map.iter().collect();
    sort_by_key(&mut entries, |(key, _)| key, compare_keys_pretty);
    out.begin_map();
    for (key, value) in entries {
        out.key(key);
        write(value, out);
    }
    out.end_map();
}

/// A map as go-yaml v3 writes it with an indentation of 2.
#[must_use]
pub fn map_to_yaml(map: &Map) -> String {
    let mut text = String::new();
    let mut out = Emitter::pretty(&mut text);
    write_map(map, &mut out);
    // This layout represents every value.
    let finished = out.finish();
    debug_assert!(finished.is_ok());
    text
}

/// A map for charts and functions.
#[must_use]
pub fn to_data_map(map: &Map) -> DataMap {
    map.iter().map(|(key, value)| (key.clone(), value.to_data())).collect()
}

/// A map with text keys alone, at every depth (`maputil.CastKeysToStrings`).
///
/// # Errors
/// A key that is not a string.
pub fn text_keys(map: Map) -> Result<Map, Error> {
    map.into_iter().map(|(key, value)| Ok((key, value.with_text_keys()?))).collect()
}

/// A scalar by its tag.
fn scalar(node: &Node) -> Value {
    let text = || Value::String(node.value.clone());
    match node.tag.as_str() {
        "!!null" => Value::Null,
        "!!bool" => Value::Bool(matches!(node.value.as_str(), "true" | "True" | "TRUE")),
        "!!int" => match number(&node.value) {
            Some(Number::Int(n)) => Value::Int(n),
            Some(Number::Uint(n)) => Value::Uint(n),
            Some(Number::Float(n)) => Value::Float(n),
            None => text(),
        },
        "!!float" => match number(&node.value) {
            Some(Number::Float(n)) => Value::Float(n),
            #[allow(clippy::cast_precision_loss, reason = "an explicit tag asks for a float")]
            Some(Number::Int(n)) => Value::Float(n as f64),
            #[allow(clippy::cast_precision_loss, reason = "an explicit tag asks for a float")]
            Some(Number::Uint(n)) => Value::Float(n as f64),
            None => match node.value.as_str() {
                ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
                _ => text(),
            },
        },
        "!!timestamp" => Timestamp::parse(&node.value).map_or_else(text, Value::Time),
        _ => text(),
    }
}
