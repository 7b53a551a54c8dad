//! JSON-shaped data: what YAML, JSON and TOML documents decode to, and what values are made of outside a render.
//!
//! Owns the tree type and its conversions; knows no text format.

use std::collections::BTreeMap;

/// A tree of JSON-shaped data with Go's two number kinds, owned, `Send` and `Sync`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Data {
    /// JSON null, Go's untyped nil.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A Go `int64`.
    Int(i64),
    /// A Go `float64`.
    Float(f64),
    /// Text; invalid UTF-8 was replaced by U+FFFD where it was read, as Go's JSON encoder does.
    String(String),
    /// A sequence.
    List(Vec<Data>),
    /// A mapping with string keys, ordered by bytes.
    Map(Map),
}

/// A mapping with string keys, ordered by bytes as Go prints and ranges over maps.
pub type Map = BTreeMap<String, Data>;

impl Data {
    /// The map inside, if this is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The map inside, mutable, if this is one.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The text inside, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    /// The list inside, if this is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Data]> {
        match self {
            Self::List(l) => Some(l),
            _ => None,
        }
    }

    /// The boolean inside, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The entry under `key`, if this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Data> {
        self.as_map().and_then(|m| m.get(key))
    }

    /// Turns every integer into a float, as Go's `json.Unmarshal` into `interface{}` does; Helm's values are read so.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn with_float_numbers(self) -> Self {
        match self {
            Self::Int(i) => Self::Float(i as f64),
            Self::List(l) => Self::List(l.into_iter().map(Self::with_float_numbers).collect()),
            Self::Map(m) => Self::Map(m.into_iter().map(|(k, v)| (k, v.with_float_numbers())).collect()),
            other => other,
        }
    }
}

impl From<&str> for Data {
    fn from(s: &str) -> Self {
        Self::String(s.to_owned())
    }
}

impl From<String> for Data {
    fn from(s: String) -> Self {
        Self::String(s)
    }
}

impl From<bool> for Data {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<Map> for Data {
    fn from(m: Map) -> Self {
        Self::Map(m)
    }
}
