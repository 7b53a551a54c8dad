//! The values of one render: Go's kinds, cheap to copy, allocated in an arena.
//!
//! Owns the value enum, its shared mutable map and its list. Knows nothing of templates, text formats or functions.

use std::cell::{Ref, RefCell};
use std::cmp::Ordering;

use bumpalo::collections::Vec as BumpVec;

use super::arena::Arena;
use super::object::Object;
use crate::data::Data;

/// A value of a Go template. Copying it copies a handle: maps are shared and mutable, as in Go.
//
// The tag is a word. With a byte as tag, a `bool` would be the next byte, and a copy would move bytes 1 to 8 in two overlapping
// pieces; a reader then waits for both writes. That was half the time of a loop.
#[derive(Clone, Copy, Default)]
#[repr(u64)]
pub enum Value<'a> {
    /// Go's invalid `reflect.Value` or untyped nil.
    #[default]
    Nil,
    /// A nil in an `interface{}` slot (missing map entry, nil list item). Unlike [`Value::Nil`] it makes a further field access
    /// fail. Only the engine uses it; functions get [`Value::Nil`].
    NilInterface,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `int64`
    Int64(i64),
    /// `uint64`
    Uint64(u64),
    /// `float64`
    Float(f64),
    /// `string`: bytes, not necessarily UTF-8
    Str(&'a [u8]),
    /// `[]byte`
    Bytes(&'a [u8]),
    /// A slice of any element type except bytes.
    List(&'a List<'a>),
    /// A map with string keys.
    Map(&'a Map<'a>),
    /// A struct, or a value with methods.
    Object(&'a Object<'a>),
}

/// The element type of a slice's static Go type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    /// `[]interface {}`
    Any,
    /// `[]string`
    String,
    /// `[]int`
    Int,
    /// `[]map[string]interface {}`
    Map,
    /// `[][]interface {}`
    List,
    /// A slice of pointers to a named type, e.g. `[]*chart.Maintainer`; holds the type as Go prints it.
    Named(&'static str),
}

/// A Go slice. It is immutable, because no template function changes one in place.
pub struct List<'a> {
    /// The element type.
    pub elem: Elem,
    /// Whether this is Go's nil slice: it has no items, and its JSON is null.
    pub nil: bool,
    /// The items.
    pub items: &'a [Value<'a>],
}

/// The static Go type of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// `map[string]interface {}`
    Any,
    /// `common.Values` (Helm 4) or `chartutil.Values` (Helm 3)
    Values,
    /// `map[string]string`
    Strings,
    /// A nil `map[string]interface {}`: it has no entries, accepts none, and its JSON is null.
    Nil,
    /// A nil `map[string]string`
    NilStrings,
}

/// One entry of a [`Map`].
pub type Entry<'a> = (&'a [u8], Value<'a>);

/// A Go map with string keys: a mutable map shared by handle. Entries are sorted by key bytes, the order in which Go prints and
/// ranges over maps.
pub struct Map<'a> {
    kind: MapKind,
    entries: &'a RefCell<Entries<'a>>,
}

/// The entries of a map, with the [`prefix`] of each key. A search compares keys only if their prefixes are equal.
struct Entries<'a> {
    arena: &'a Arena,
    number: usize,
    /// Keys whose reads are recorded.
    watched: &'static [&'static [u8]],
    prefixes: BumpVec<'a, u64>,
    entries: BumpVec<'a, Entry<'a>>,
}

/// The first eight bytes of a key, as a number with the same order.
#[must_use]
pub fn prefix(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    // The ends of a shorter key; where they overlap, they are equal.
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        let [first, last] = [first, last].map(|part| u64::from(u32::from_be_bytes(*part)));
        return first << 32 | last << (8 * (8 - key.len()));
    }
    key.iter().chain(&[0; 8]).take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Up to this many entries, a linear search over the prefixes is faster than a binary search.
const FEW: usize = 24;

impl<'a> Entries<'a> {
    /// The index of a key, or its insertion index.
    fn find(&self, prefix: u64, key: &[u8]) -> Result<usize, usize> {
        let prefixes = &self.prefixes[..];
        if prefixes.len() > FEW {
            let from = prefixes.partition_point(|p| *p < prefix);
            let same = prefixes[from..].partition_point(|p| *p == prefix);
            let found = self.entries[from..from + same].binary_search_by(|e| e.0.cmp(key));
            return found.map(|i| from + i).map_err(|i| from + i);
        }
        let mut at = prefixes.iter().take_while(|p| **p < prefix).count();
        while prefixes.get(at) == Some(&prefix) {
            match self.entries[at].0.cmp(key) {
                Ordering::Less => at += 1,
                Ordering::Equal => return Ok(at),
                Ordering::Greater => return Err(at),
            }
        }
        Err(at)
    }
}

impl<'a> Map<'a> {
    /// An empty map of the given type.
    pub fn new(arena: &'a Arena, kind: MapKind) -> &'a Self {
        Self::with_capacity(arena, kind, 0)
    }

    /// An empty map with room for `n` entries.
    pub fn with_capacity(arena: &'a Arena, kind: MapKind, n: usize) -> &'a Self {
        let entries = Entries {
            arena,
            number: arena.number(),
            watched: &[],
            prefixes: BumpVec::with_capacity_in(n, arena),
            entries: BumpVec::with_capacity_in(n, arena),
        };
        arena.alloc(Self { kind, entries: arena.alloc(RefCell::new(entries)) })
    }

    /// A map of entries that are sorted by key, without duplicates.
    pub(crate) fn sorted(
        arena: &'a Arena,
        kind: MapKind,
        entries: impl ExactSizeIterator<Item = Entry<'a>>,
    ) -> &'a Self {
        let n = entries.len();
        let mut all = Entries {
            arena,
            number: arena.number(),
            watched: &[],
            prefixes: BumpVec::with_capacity_in(n, arena),
            entries: BumpVec::with_capacity_in(n, arena),
        };
        for entry in entries {
            all.prefixes.push(prefix(entry.0));
            all.entries.push(entry);
        }
        arena.alloc(Self { kind, entries: arena.alloc(RefCell::new(all)) })
    }

    /// The same map with another static type. Changes are visible through both handles.
    pub fn with_kind(&self, arena: &'a Arena, kind: MapKind) -> &'a Self {
        arena.alloc(Self { kind, entries: self.entries })
    }

    /// Whether both are handles of the same map.
    #[must_use]
    pub fn same(&self, other: &Map<'a>) -> bool {
        std::ptr::eq(self.entries, other.entries)
    }

    /// Like [`Map::same`], for any lifetimes.
    #[must_use]
    pub(crate) fn is(&self, other: &Map<'_>) -> bool {
        std::ptr::addr_eq(self.entries, other.entries)
    }

    /// The map's number in its arena.
    #[must_use]
    pub fn number(&self) -> usize {
        self.entries.borrow().number
    }

    /// Makes the arena record later reads of these keys, or of all entries.
    pub fn watch(&self, keys: &'static [&'static [u8]]) {
        self.entries.borrow_mut().watched = keys;
    }

    /// The entries, recorded as a read of `key`, or of all entries.
    fn read(&self, key: Option<&[u8]>) -> Ref<'_, Entries<'a>> {
        let all = self.entries.borrow();
        if !all.watched.is_empty() && key.is_none_or(|key| all.watched.contains(&key)) {
            all.arena.note_watched_read();
        }
        all
    }

    /// Whether this is Go's nil map.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        matches!(self.kind, MapKind::Nil | MapKind::NilStrings)
    }

    /// Whether its static type is `map[string]string`, nil or not: a missing entry is an empty string.
    #[must_use]
    pub fn holds_strings(&self) -> bool {
        matches!(self.kind, MapKind::Strings | MapKind::NilStrings)
    }

    /// The static type.
    #[must_use]
    pub fn kind(&self) -> MapKind {
        self.kind
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(None).entries.len()
    }

    /// Whether the map has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value under `key`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Value<'a>> {
        self.get_with(prefix(key), key)
    }

    /// The value under `key`, with its [`prefix`] computed before.
    #[must_use]
    pub fn get_with(&self, prefix: u64, key: &[u8]) -> Option<Value<'a>> {
        let all = self.read(Some(key));
        all.find(prefix, key).ok().map(|i| all.entries[i].1)
    }

    /// Sets `key`, replacing its value.
    pub fn insert(&self, key: &'a [u8], value: Value<'a>) {
        self.place(key, value);
        let all = self.entries.borrow();
        all.arena.note_change(all.number);
    }

    /// Like [`Map::insert`], for entries that the engine sets for each template. Not recorded as a change.
    pub fn place(&self, key: &'a [u8], value: Value<'a>) {
        let prefix = prefix(key);
        let all = &mut *self.entries.borrow_mut();
        if all.entries.last().is_none_or(|e| e.0 < key) {
            all.prefixes.push(prefix);
            all.entries.push((key, value));
            return;
        }
        match all.find(prefix, key) {
            Ok(i) => all.entries[i].1 = value,
            Err(i) => {
                all.prefixes.insert(i, prefix);
                all.entries.insert(i, (key, value));
            }
        }
    }

    /// Removes `key`.
    pub fn remove(&self, key: &[u8]) {
        let all = &mut *self.entries.borrow_mut();
        if let Ok(i) = all.find(prefix(key), key) {
            all.prefixes.remove(i);
            all.entries.remove(i);
            all.arena.note_change(all.number);
        }
    }

    /// The current entries, in key order. Do not hold them over a call that changes the map.
    pub fn entries(&self) -> Ref<'_, [Entry<'a>]> {
        Ref::map(self.read(None), |v| v.entries.as_slice())
    }

    /// A copy of the entries, for loops during which the map can change.
    pub fn snapshot(&self, arena: &'a Arena) -> &'a [Entry<'a>] {
        arena.alloc_slice_copy(&self.read(None).entries)
    }
}

impl<'a> Value<'a> {
    /// Whether this is one of the two nils.
    #[must_use]
    pub fn is_nil(self) -> bool {
        matches!(self, Self::Nil | Self::NilInterface)
    }

    /// The value that a function receives: [`Value::NilInterface`] becomes [`Value::Nil`].
    #[must_use]
    pub fn plain(self) -> Self {
        if matches!(self, Self::NilInterface) { Self::Nil } else { self }
    }

    /// A string copied into the arena.
    pub fn str(arena: &'a Arena, s: impl AsRef<[u8]>) -> Self {
        Self::Str(arena.alloc_slice_copy(s.as_ref()))
    }

    /// A `[]interface {}` copied into the arena.
    pub fn list(arena: &'a Arena, items: &[Value<'a>]) -> Self {
        Self::typed_list(arena, Elem::Any, items)
    }

    /// A slice of the given element type, copied into the arena.
    pub fn typed_list(arena: &'a Arena, elem: Elem, items: &[Value<'a>]) -> Self {
        Self::List(arena.alloc(List { elem, nil: false, items: arena.alloc_slice_copy(items) }))
    }

    /// A slice of items in the arena.
    pub fn list_of(arena: &'a Arena, elem: Elem, items: &'a [Value<'a>]) -> Self {
        Self::List(arena.alloc(List { elem, nil: false, items }))
    }

    /// Go's nil slice of the given element type.
    pub fn nil_list(arena: &'a Arena, elem: Elem) -> Self {
        Self::List(arena.alloc(List { elem, nil: true, items: &[] }))
    }

    /// A `[]string`.
    pub fn strings<S: AsRef<[u8]>>(arena: &'a Arena, items: impl IntoIterator<Item = S>) -> Self {
        let items: Vec<Value<'a>> = items.into_iter().map(|s| Self::str(arena, s)).collect();
        Self::typed_list(arena, Elem::String, &items)
    }

    /// An object, moved to the arena.
    pub fn object(arena: &'a Arena, object: Object<'a>) -> Self {
        Self::Object(arena.alloc(object))
    }

    /// A copy of JSON data in the arena: maps become `map[string]interface {}`, lists `[]interface {}`.
    pub fn from_data(arena: &'a Arena, data: &Data) -> Self {
        Self::from_data_within(arena, data, usize::MAX).unwrap_or_default()
    }

    /// As [`Self::from_data`], or nothing if the arena then has more than so many bytes. Data that shares maps is a tree here.
    #[must_use]
    pub fn from_data_within(arena: &'a Arena, data: &Data, most: usize) -> Option<Self> {
        Some(match data {
            Data::Null => Self::Nil,
            Data::Bool(b) => Self::Bool(*b),
            Data::Int(i) => Self::Int64(*i),
            Data::Float(f) => Self::Float(*f),
            Data::String(s) => Self::str(arena, s),
            Data::List(l) => {
                if arena.taken_bytes() > most {
                    return None;
                }
                let mut whole = true;
                let items = arena.alloc_slice_fill_iter(l.iter().map(|d| {
                    let item = if whole { Self::from_data_within(arena, d, most) } else { None };
                    whole = item.is_some();
                    item.unwrap_or_default()
                }));
                if !whole {
                    return None;
                }
                Self::list_of(arena, Elem::Any, items)
            }
            Data::Map(m) => {
                if arena.taken_bytes() > most {
                    return None;
                }
                let mut whole = true;
                let entry = |(k, v): (&String, &Data)| {
                    let key: &'a [u8] = arena.alloc_slice_copy(k.as_bytes());
                    let value = if whole { Self::from_data_within(arena, v, most) } else { None };
                    whole = value.is_some();
                    (key, value.unwrap_or_default())
                };
                let map = Map::sorted(arena, MapKind::Any, m.iter().map(entry));
                if !whole {
                    return None;
                }
                Self::Map(map)
            }
        })
    }

    /// Go's truth of the value (`template.IsTrue`): zero numbers, empty strings, lists and maps, and nil are false.
    #[must_use]
    pub fn truth(self) -> bool {
        match self {
            Self::Nil | Self::NilInterface => false,
            Self::Bool(b) => b,
            Self::Int(i) | Self::Int64(i) => i != 0,
            Self::Uint64(u) => u != 0,
            Self::Float(f) => f != 0.0,
            Self::Str(s) | Self::Bytes(s) => !s.is_empty(),
            Self::List(l) => !l.items.is_empty(),
            Self::Map(m) => !m.is_empty(),
            Self::Object(o) => o.truth(),
        }
    }

    /// `reflect.Kind.String()`
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Nil | Self::NilInterface => "invalid",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Uint64(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::Bytes(_) | Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Object(o) => o.kind(),
        }
    }

    /// The Go type as `%T` prints it. `values_type` is the type of `.Values`, which differs between Helm versions.
    #[must_use]
    pub fn type_name(self, values_type: &'static str) -> &'a str {
        match self {
            // It is in the same package as the type of `.Values`.
            Self::Object(super::Object::ApiVersions(_)) if values_type.starts_with("chartutil.") => {
                "chartutil.VersionSet"
            }
            Self::Nil => "<nil>",
            Self::NilInterface => "interface {}",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Uint64(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Str(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::List(l) => match l.elem {
                Elem::Any => "[]interface {}",
                Elem::String => "[]string",
                Elem::Int => "[]int",
                Elem::Map => "[]map[string]interface {}",
                Elem::List => "[][]interface {}",
                Elem::Named(name) => name,
            },
            Self::Map(m) => match m.kind {
                MapKind::Any | MapKind::Nil => "map[string]interface {}",
                MapKind::Values => values_type,
                MapKind::Strings | MapKind::NilStrings => "map[string]string",
            },
            Self::Object(o) => o.type_name(),
        }
    }

    /// The bytes, if this is a string.
    #[must_use]
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The map, if this is one.
    #[must_use]
    pub fn as_map(self) -> Option<&'a Map<'a>> {
        match self {
            Self::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The items, if this is a slice other than `[]byte`.
    #[must_use]
    pub fn as_items(self) -> Option<&'a [Value<'a>]> {
        match self {
            Self::List(l) => Some(l.items),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::prefix;

    #[test]
    fn prefixes_order_as_keys_do() {
        let whole = b"\x01abcdef\xffgh";
        for length in 0..=whole.len() {
            let key = &whole[..length];
            let mut bytes = [0; 8];
            let shared = length.min(8);
            bytes[..shared].copy_from_slice(&key[..shared]);
            assert_eq!(prefix(key), u64::from_be_bytes(bytes), "{key:?}");
        }
    }
}
