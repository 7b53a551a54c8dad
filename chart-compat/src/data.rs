//! JSON-shaped data: decoded YAML, JSON and TOML documents, and values outside a render.
//!
//! Owns the tree type and its conversions; does not know text formats.

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

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
    /// Text; the decoder replaces invalid UTF-8 with U+FFFD, as Go's JSON encoder does.
    String(String),
    /// A sequence.
    List(Vec<Data>),
    /// A mapping with string keys, ordered by bytes.
    Map(Map),
}

/// A mapping with string keys, ordered by bytes as Go prints and ranges over maps.
///
/// Dereferences to a [`BTreeMap`]. A clone shares the entries until one of both is changed: defaults of a chart are part of
/// its values, of those of its parents and of every render's, and most are never overridden.
#[derive(Clone, Default, PartialEq)]
pub struct Map(Arc<BTreeMap<String, Data>>);

impl Map {
    /// A map without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether both share their entries, and so are equal.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether others share its entries, so that a change copies them.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl Deref for Map {
    type Target = BTreeMap<String, Data>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Map {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<BTreeMap<String, Data>> for Map {
    fn from(entries: BTreeMap<String, Data>) -> Self {
        Self(Arc::new(entries))
    }
}

impl<const N: usize> From<[(String, Data); N]> for Map {
    fn from(entries: [(String, Data); N]) -> Self {
        BTreeMap::from(entries).into()
    }
}

impl FromIterator<(String, Data)> for Map {
    fn from_iter<I: IntoIterator<Item = (String, Data)>>(entries: I) -> Self {
        BTreeMap::from_iter(entries).into()
    }
}

impl IntoIterator for Map {
    type Item = (String, Data);
    type IntoIter = btree_map::IntoIter<String, Data>;

    fn into_iter(self) -> Self::IntoIter {
        Arc::unwrap_or_clone(self.0).into_iter()
    }
}

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m String, &'m Data);
    type IntoIter = btree_map::Iter<'m, String, Data>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m String, &'m mut Data);
    type IntoIter = btree_map::IterMut<'m, String, Data>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

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

    /// Converts every integer to a float, as Go's `json.Unmarshal` into `interface{}` does; Helm decodes values this way.
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
