//! Structures of a state file with their values.
//!
//! Owns the decoding of YAML nodes into typed fields (strict, as helmfile decodes), mergo's merge of structures, and their encoding
//! for `build`. The tables of fields are in `state_fields`; what fields mean is elsewhere.
//!
//! Fields that are pointers in Go are shared: mergo merges into the value behind a pointer, so that a merge into a release changes
//! every release that got the pointer from the same template. Files depend on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use chart_compat::yaml::Emitter;
use chart_compat::yaml::tree::{Kind, Node};

use super::schema::{Field, Key, Struct, Type};
use super::state_fields;
use super::value::{Value, write_entries};
use crate::key;

/// The value of a field.
#[derive(Clone, Debug)]
pub enum Slot {
    /// A text.
    Text(String),
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// Anything.
    Any(Value),
    /// A slice, or Go's nil slice.
    List(Option<Vec<Slot>>),
    /// A map.
    Map(BTreeMap<String, Slot>),
    /// A structure.
    Struct(Record),
    /// A pointer, or nil.
    Pointer(Option<Arc<Mutex<Slot>>>),
}

/// A structure with its values.
#[derive(Clone, Debug)]
pub struct Record {
    of: &'static Struct,
    slots: Vec<Slot>,
}

/// How two structures are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Values that are not empty replace (`mergo.WithOverride`).
    Override,
    /// As `Override`, but lists are appended (`mergo.WithAppendSlice`).
    Append,
    /// Only what is empty is filled (`mergo.Merge` without options).
    Fill,
}

fn empty(ty: Type) -> Slot {
    match ty {
        Type::Text => Slot::Text(String::new()),
        Type::Bool => Slot::Bool(false),
        Type::Int | Type::Duration => Slot::Int(0),
        Type::Float => Slot::Float(0.0),
        Type::Any => Slot::Any(Value::Null),
        Type::List(_) | Type::Inherits | Type::DefaultInherits => Slot::List(None),
        Type::Map(_) => Slot::Map(BTreeMap::new()),
        Type::Struct(of) => Slot::Struct(Record::new(of)),
        Type::SubHelmfile => Slot::Struct(Record::new(&state_fields::SUB_HELMFILE)),
        Type::Pointer(_) => Slot::Pointer(None),
    }
}

impl Slot {
    /// The text inside, if this is one or points to one.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Any(Value::String(text)) => Some(text.clone()),
            Self::Pointer(Some(shared)) => read(shared).text(),
            _ => None,
        }
    }

    /// A list of texts.
    #[must_use]
    pub fn texts(items: impl IntoIterator<Item = String>) -> Self {
        Self::List(Some(items.into_iter().map(Self::Text).collect()))
    }

    /// A pointer to a value of its own.
    #[must_use]
    pub fn pointer(to: Self) -> Self {
        Self::Pointer(Some(Arc::new(Mutex::new(to))))
    }

    /// Whether YAML leaves it out.
    fn is_zero(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Bool(value) => !value,
            Self::Int(n) => *n == 0,
            Self::Float(n) => *n == 0.0,
            Self::Any(value) => *value == Value::Null,
            Self::List(items) => items.as_ref().is_none_or(Vec::is_empty),
            Self::Map(map) => map.is_empty(),
            Self::Struct(record) => record.slots.iter().all(Self::is_zero),
            Self::Pointer(to) => to.is_none(),
        }
    }

    /// Whether mergo takes it for empty.
    fn is_empty(&self) -> bool {
        match self {
            Self::Any(value) => value.is_empty(),
            Self::Pointer(Some(to)) => read(to).is_empty(),
            // mergo compares no structure with its zero value.
            Self::Struct(_) => false,
            other => other.is_zero(),
        }
    }

    /// Merges another value of the same type into this one.
    pub fn merge(&mut self, from: &Self, how: Merge) {
        let overwrite = how != Merge::Fill;
        let replaces = (overwrite || self.is_empty()) && !from.is_empty();
        match (&mut *self, from) {
            (Self::Struct(record), Self::Struct(from)) => record.merge(from, how),
            (Self::List(items), Self::List(Some(from))) => match how {
                Merge::Append => items.get_or_insert_default().extend(from.iter().cloned()),
                _ if !from.is_empty() && (overwrite || items.as_ref().is_none_or(Vec::is_empty)) => {
                    *items = Some(from.clone());
                }
                _ => {}
            },
            (Self::Map(map), Self::Map(from)) => {
                for (key, value) in from {
                    if overwrite || map.get(key).is_none_or(Self::is_empty) {
                        map.insert(key.clone(), value.clone());
                    }
                }
            }
            (Self::Pointer(to), Self::Pointer(Some(from))) => match to {
                None => *to = Some(Arc::clone(from)),
                Some(to) if Arc::ptr_eq(to, from) => {}
                Some(to) => {
                    let from = read(from).clone();
                    to.lock().unwrap_or_else(PoisonError::into_inner).merge(&from, how);
                }
            },
            (own @ (Self::Text(_) | Self::Bool(_) | Self::Int(_) | Self::Float(_) | Self::Any(_)), from)
                if replaces =>
            {
                *own = from.clone();
            }
            _ => {}
        }
    }

    /// A copy that shares nothing, with empty lists and maps as they are after a round trip through YAML.
    fn unshared(&self) -> Self {
        match self {
            Self::List(Some(items)) => Self::List(Some(items.iter().map(Self::unshared).collect())),
            Self::Map(map) => {
                Self::Map(map.iter().map(|(key, value)| (key.clone(), value.unshared())).collect())
            }
            Self::Struct(record) => Self::Struct(record.unshared()),
            Self::Pointer(Some(to)) => Self::pointer(read(to).unshared()),
            other => other.clone(),
        }
    }

    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Any(a), Self::Any(b)) => a == b,
            (Self::List(a), Self::List(b)) => {
                let (a, b) = (a.as_deref().unwrap_or_default(), b.as_deref().unwrap_or_default());
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((k, v), (l, w))| k == l && v.same(w))
            }
            (Self::Struct(a), Self::Struct(b)) => a.same(b),
            (Self::Pointer(None), Self::Pointer(None)) => true,
            (Self::Pointer(Some(a)), Self::Pointer(Some(b))) => {
                if Arc::ptr_eq(a, b) {
                    return true;
                }
                let b = read(b).clone();
                read(a).same(&b)
            }
            _ => false,
        }
    }

    fn write(&self, out: &mut Emitter<'_>) {
        match self {
            Self::Text(text) => out.string(text),
            Self::Bool(value) => out.bool(*value),
            Self::Int(n) => out.int(*n),
            Self::Float(n) => out.float(*n),
            Self::Any(value) => value.write(out),
            Self::List(items) => {
                out.begin_list();
                for item in items.as_deref().unwrap_or_default() {
                    item.write(out);
                }
                out.end_list();
            }
            Self::Map(map) => write_entries(map, out, Slot::write),
            Self::Struct(record) => {
                out.begin_map();
                record.write_fields(out);
                out.end_map();
            }
            Self::Pointer(None) => out.null(),
            Self::Pointer(Some(to)) => read(to).write(out),
        }
    }
}

/// The value behind a pointer.
fn read(shared: &Arc<Mutex<Slot>>) -> std::sync::MutexGuard<'_, Slot> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Record {
    /// A structure with empty fields.
    #[must_use]
    pub fn new(of: &'static Struct) -> Self {
        Self { of, slots: of.fields.iter().map(|field| empty(field.ty)).collect() }
    }

    /// The value of a field. A key of another structure is a bug of the caller, and reads as an empty list.
    #[must_use]
    pub fn get(&self, key: Key) -> &Slot {
        static NONE: Slot = Slot::List(None);
        debug_assert!(self.of.index(key.name()).is_some(), "{} has no {key}", self.of.go);
        self.of.index(key.name()).and_then(|at| self.slots.get(at)).unwrap_or(&NONE)
    }

    /// Whether the structure has a field of this name.
    #[must_use]
    pub fn has_field(&self, key: Key) -> bool {
        self.of.index(key.name()).is_some()
    }

    /// Sets a field.
    pub fn set(&mut self, key: Key, value: Slot) {
        if let Some(slot) = self.slot(key) {
            *slot = value;
        }
    }

    /// A field, to change it.
    pub fn slot(&mut self, key: Key) -> Option<&mut Slot> {
        self.of.index(key.name()).and_then(|at| self.slots.get_mut(at))
    }

    /// A text field; empty if a pointer is nil.
    #[must_use]
    pub fn text(&self, key: Key) -> String {
        self.get(key).text().unwrap_or_default()
    }

    /// An optional text.
    #[must_use]
    pub fn optional_text(&self, key: Key) -> Option<String> {
        self.get(key).text()
    }

    /// A boolean; `None` if it is a nil pointer.
    #[must_use]
    pub fn flag(&self, key: Key) -> Option<bool> {
        match self.get(key) {
            Slot::Bool(value) => Some(*value),
            Slot::Pointer(Some(to)) => match *read(to) {
                Slot::Bool(value) => Some(value),
                _ => None,
            },
            _ => None,
        }
    }

    /// An integer; `None` if it is a nil pointer.
    #[must_use]
    pub fn int(&self, key: Key) -> Option<i64> {
        match self.get(key) {
            Slot::Int(n) => Some(*n),
            Slot::Pointer(Some(to)) => match *read(to) {
                Slot::Int(n) => Some(n),
                _ => None,
            },
            _ => None,
        }
    }

    /// The items of a list.
    #[must_use]
    pub fn list(&self, key: Key) -> &[Slot] {
        match self.get(key) {
            Slot::List(Some(items)) => items,
            _ => &[],
        }
    }

    /// Whether a list is present, even if it is empty.
    #[must_use]
    pub fn has_list(&self, key: Key) -> bool {
        matches!(self.get(key), Slot::List(Some(_)))
    }

    /// The texts of a list.
    #[must_use]
    pub fn texts(&self, key: Key) -> Vec<String> {
        self.list(key).iter().filter_map(Slot::text).collect()
    }

    /// The values of a list of anything.
    #[must_use]
    pub fn values(&self, key: Key) -> Vec<Value> {
        let any = |slot: &Slot| match slot {
            Slot::Any(value) => Some(value.clone()),
            _ => None,
        };
        self.list(key).iter().filter_map(any).collect()
    }

    /// Sets a list of anything.
    pub fn set_values(&mut self, key: Key, values: Vec<Value>) {
        self.set(key, Slot::List(Some(values.into_iter().map(Slot::Any).collect())));
    }

    /// The structures of a list.
    pub fn records(&self, key: Key) -> impl Iterator<Item = &Record> {
        self.list(key).iter().filter_map(|slot| match slot {
            Slot::Struct(record) => Some(record),
            _ => None,
        })
    }

    /// Sets a list of structures.
    pub fn set_records(&mut self, key: Key, records: Vec<Record>) {
        self.set(key, Slot::List(Some(records.into_iter().map(Slot::Struct).collect())));
    }

    /// A structure in a field, or behind a pointer.
    #[must_use]
    pub fn record(&self, key: Key) -> Option<Record> {
        match self.get(key) {
            Slot::Struct(record) => Some(record.clone()),
            Slot::Pointer(Some(to)) => match &*read(to) {
                Slot::Struct(record) => Some(record.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The entries of a map.
    #[must_use]
    pub fn map(&self, key: Key) -> &BTreeMap<String, Slot> {
        static NONE: BTreeMap<String, Slot> = BTreeMap::new();
        match self.get(key) {
            Slot::Map(map) => map,
            _ => &NONE,
        }
    }

    /// The texts of a map.
    #[must_use]
    pub fn text_map(&self, key: Key) -> BTreeMap<String, String> {
        self.map(key).iter().map(|(key, value)| (key.clone(), value.text().unwrap_or_default())).collect()
    }

    /// Sets a map of texts.
    pub fn set_text_map(&mut self, key: Key, map: BTreeMap<String, String>) {
        self.set(key, Slot::Map(map.into_iter().map(|(key, value)| (key, Slot::Text(value))).collect()));
    }

    /// Merges a structure of the same type into this one.
    pub fn merge(&mut self, from: &Self, how: Merge) {
        for (slot, from) in self.slots.iter_mut().zip(&from.slots) {
            slot.merge(from, how);
        }
    }

    /// A copy that shares nothing with this one (`ReleaseSpec.Clone`).
    #[must_use]
    pub fn unshared(&self) -> Self {
        Self { of: self.of, slots: self.slots.iter().map(Slot::unshared).collect() }
    }

    /// Whether both have the same values.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.slots.len() == other.slots.len() && self.slots.iter().zip(&other.slots).all(|(a, b)| a.same(b))
    }

    /// Writes the fields into the current map.
    pub fn write_fields(&self, out: &mut Emitter<'_>) {
        for (field, slot) in self.of.fields.iter().zip(&self.slots) {
            if field.omit_empty && slot.is_zero() {
                continue;
            }
            out.key(field.key);
            slot.write(out);
        }
    }

    /// Decodes a structure. Unknown keys are errors.
    ///
    /// # Errors
    /// Every problem, a line each.
    pub fn decode(of: &'static Struct, node: &Node) -> Result<Self, Vec<String>> {
        let mut decoder = Decoder { problems: Vec::new(), path: Vec::new() };
        let record = decoder.structure(of, node);
        if decoder.problems.is_empty() { Ok(record) } else { Err(decoder.problems) }
    }
}

/// Decodes nodes into slots, collecting problems as go-yaml does.
struct Decoder {
    problems: Vec<String>,
    /// Keys and indexes to the current node.
    path: Vec<String>,
}

impl Decoder {
    fn problem(&mut self, text: &str) {
        let path = self.path.join(".");
        self.problems.push(if path.is_empty() { text.to_owned() } else { format!("{path}: {text}") });
    }

    fn mismatch(&mut self, node: &Node, wanted: &str) {
        let found = match node.kind {
            Kind::Scalar => format!("{} `{}`", node.tag, node.value.chars().take(40).collect::<String>()),
            _ => node.tag.clone(),
        };
        self.problem(&format!("cannot unmarshal {found} into {wanted}"));
    }

    fn structure(&mut self, of: &'static Struct, node: &Node) -> Record {
        let mut record = Record::new(of);
        if node.is_null() {
            return record;
        }
        if node.kind != Kind::Map {
            self.mismatch(node, of.go);
            return record;
        }
        for pair in node.content.chunks_exact(2) {
            let [key, value] = pair else { continue };
            let Some(at) = of.index(&key.value) else {
                let hint = of
                    .nearest(&key.value)
                    .map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
                self.problem(&format!("field {} not found in type {}{hint}", key.value, of.go));
                continue;
            };
            let Some(field): Option<&'static Field> = of.fields.get(at) else { continue };
            self.path.push(field.key.to_owned());
            let decoded = self.slot(field.ty, value);
            self.path.pop();
            if let Some(slot) = record.slots.get_mut(at) {
                *slot = decoded;
            }
        }
        record
    }

    fn slot(&mut self, ty: Type, node: &Node) -> Slot {
        if node.is_null() && !matches!(ty, Type::Any) {
            return empty(ty);
        }
        match ty {
            Type::Any => Slot::Any(Value::from_node(node)),
            Type::Text => match node.kind {
                Kind::Scalar => Slot::Text(node.value.clone()),
                _ => self.wrong(ty, node, "string"),
            },
            Type::Bool => self.bool(node),
            Type::Int => match Value::from_node(node) {
                Value::Int(n) => Slot::Int(n),
                #[allow(clippy::cast_possible_truncation, reason = "whole and in range")]
                Value::Float(n) if n.fract() == 0.0 && n.abs() < 9e15 => Slot::Int(n as i64),
                _ => self.wrong(ty, node, "int"),
            },
            Type::Duration => match Value::from_node(node) {
                Value::Int(n) => Slot::Int(n),
                Value::String(text) => match chart_compat::go::duration::parse(&text) {
                    Ok(nanos) => Slot::Int(nanos),
                    Err(_) => self.wrong(ty, node, "time.Duration"),
                },
                _ => self.wrong(ty, node, "time.Duration"),
            },
            Type::Float => match Value::from_node(node) {
                Value::Float(n) => Slot::Float(n),
                #[allow(clippy::cast_precision_loss, reason = "as Go converts")]
                Value::Int(n) => Slot::Float(n as f64),
                _ => self.wrong(ty, node, "float64"),
            },
            Type::List(item) => match node.kind {
                Kind::List => Slot::List(Some(self.items(*item, node))),
                _ => self.wrong(ty, node, "a list"),
            },
            Type::Map(value) => match node.kind {
                Kind::Map => {
                    let mut map = BTreeMap::new();
                    for pair in node.content.chunks_exact(2) {
                        let [key, of] = pair else { continue };
                        self.path.push(key.value.clone());
                        map.insert(key.value.clone(), self.slot(*value, of));
                        self.path.pop();
                    }
                    Slot::Map(map)
                }
                _ => self.wrong(ty, node, "a map"),
            },
            Type::Struct(of) => Slot::Struct(self.structure(of, node)),
            Type::Pointer(to) => Slot::pointer(self.slot(*to, node)),
            Type::Inherits if node.kind == Kind::Map => {
                Slot::List(Some(vec![Slot::Struct(self.structure(&state_fields::INHERIT, node))]))
            }
            Type::Inherits => match node.kind {
                Kind::List => Slot::List(Some(self.items(Type::Struct(&state_fields::INHERIT), node))),
                _ => self.wrong(ty, node, "[]state.Inherit"),
            },
            Type::DefaultInherits => self.default_inherits(node),
            Type::SubHelmfile => Slot::Struct(self.sub_helmfile(node)),
        }
    }

    fn wrong(&mut self, ty: Type, node: &Node, wanted: &str) -> Slot {
        self.mismatch(node, wanted);
        empty(ty)
    }

    /// The booleans of YAML 1.1 count where a boolean is wanted.
    fn bool(&mut self, node: &Node) -> Slot {
        let plain = node.kind == Kind::Scalar;
        match (node.tag.as_str(), node.value.as_str()) {
            ("!!bool", value) if plain => Slot::Bool(matches!(value, "true" | "True" | "TRUE")),
            ("!!str", "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON") if plain => Slot::Bool(true),
            ("!!str", "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF") if plain => Slot::Bool(false),
            _ => self.wrong(Type::Bool, node, "bool"),
        }
    }

    fn items(&mut self, ty: Type, node: &Node) -> Vec<Slot> {
        let mut items = Vec::with_capacity(node.content.len());
        for (at, item) in node.content.iter().enumerate() {
            self.path.push(at.to_string());
            items.push(self.slot(ty, item));
            self.path.pop();
        }
        items
    }

    fn default_inherits(&mut self, node: &Node) -> Slot {
        let names: Vec<String> = match node.kind {
            Kind::List => self.items(Type::Text, node).iter().filter_map(Slot::text).collect(),
            Kind::Scalar => vec![node.value.clone()],
            _ => return self.wrong(Type::DefaultInherits, node, "string"),
        };
        let names: Vec<String> =
            names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        if names.is_empty() { Slot::List(None) } else { Slot::texts(names) }
    }

    fn sub_helmfile(&mut self, node: &Node) -> Record {
        let record = match node.kind {
            Kind::Map => self.structure(&state_fields::SUB_HELMFILE, node),
            Kind::Scalar if node.tag == "!!str" => {
                let mut record = Record::new(&state_fields::SUB_HELMFILE);
                record.set(key!("path"), Slot::Text(node.value.clone()));
                record
            }
            _ => Record::new(&state_fields::SUB_HELMFILE),
        };
        let path = record.text(key!("path"));
        if record.has_list(key!("selectors")) && path.is_empty() {
            self.problem(&format!(
                "found 'selectors' definition without path: {:?}",
                record.texts(key!("selectors"))
            ));
        }
        if record.flag(key!("selectorsInherited")) == Some(true) && !record.list(key!("selectors")).is_empty()
        {
            self.problem(&format!(
                "you cannot use 'SelectorsInherited: true' along with and explicit selector for path: {path}"
            ));
        }
        let inherits = record.texts(key!("inherits"));
        if !inherits.is_empty() && path.is_empty() {
            self.problem(&format!("found 'inherits' definition without path: {inherits:?}"));
        }
        for key in inherits.iter().filter(|key| !INHERITABLE.contains(&key.as_str())) {
            self.problem(&format!(
                "invalid inherits entry {key:?} for path {path:?}: allowed values are {}",
                INHERITABLE.join(", ")
            ));
        }
        record
    }
}

/// What a nested helmfile can inherit.
pub const INHERITABLE: &[&str] = &[
    "repositories",
    "helmDefaults",
    "commonLabels",
    "apiVersions",
    "kubeVersion",
    "templates",
    "environments",
];
