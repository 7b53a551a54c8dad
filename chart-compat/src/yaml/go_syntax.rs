//! Values as Go's `%#v` prints them, for error messages.
//!
//! Owns only this notation.

use std::borrow::Cow;

use super::sink::{Key, Sink};
use crate::go::strconv::{format_float, quote};

/// A sink that prints its values.
#[derive(Default)]
pub(super) struct GoSyntax {
    root: String,
    open: Vec<Open>,
}

/// An open container.
enum Open {
    List(Vec<String>),
    Map { entries: Vec<(Key<'static>, String)>, key: Option<Key<'static>> },
}

impl GoSyntax {
    pub(super) fn finish(self) -> String {
        self.root
    }

    fn put(&mut self, text: String) {
        match self.open.last_mut() {
            Some(Open::List(items)) => items.push(text),
            Some(Open::Map { entries, key }) => {
                if let Some(key) = key.take() {
                    entries.retain(|(known, _)| *known != key);
                    entries.push((key, text));
                }
            }
            None => self.root = text,
        }
    }
}

/// The order in which Go prints the keys of a map: nil first, then by type, then by value. Types are in the order of their
/// descriptors in Helm's binary.
fn rank(key: &Key<'_>) -> u8 {
    match key {
        Key::Null => 0,
        Key::Str(_) => 1,
        Key::Int(_) => 2,
        Key::Uint(_) => 3,
        Key::Float(_) => 4,
        Key::Bool(_) => 5,
    }
}

fn before(a: &Key<'_>, b: &Key<'_>) -> std::cmp::Ordering {
    match (a, b) {
        (Key::Str(a), Key::Str(b)) => a.cmp(b),
        (Key::Int(a), Key::Int(b)) => a.cmp(b),
        (Key::Uint(a), Key::Uint(b)) => a.cmp(b),
        (Key::Float(a), Key::Float(b)) => a.total_cmp(b),
        (Key::Bool(a), Key::Bool(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

impl Sink for GoSyntax {
    fn null(&mut self) {
        let text = if self.open.is_empty() { "<nil>" } else { "interface {}(nil)" };
        self.put(text.to_owned());
    }

    fn bool(&mut self, value: bool) {
        self.put(value.to_string());
    }

    fn int(&mut self, value: i64) {
        self.put(value.to_string());
    }

    fn uint(&mut self, value: u64) {
        self.put(format!("0x{value:x}"));
    }

    fn float(&mut self, value: f64) {
        self.put(format_float(value));
    }

    fn string(&mut self, text: Cow<'_, str>) {
        self.put(quote(text.as_bytes()));
    }

    fn begin_list(&mut self) {
        self.open.push(Open::List(Vec::new()));
    }

    fn end_list(&mut self) {
        if let Some(Open::List(items)) = self.open.pop() {
            self.put(format!("[]interface {{}}{{{}}}", items.join(", ")));
        }
    }

    fn begin_map(&mut self) {
        self.open.push(Open::Map { entries: Vec::new(), key: None });
    }

    fn key(&mut self, key: Key<'_>) {
        if let Some(Open::Map { key: pending, .. }) = self.open.last_mut() {
            *pending = Some(match key {
                Key::Str(text) => Key::Str(Cow::Owned(text.into_owned())),
                Key::Int(value) => Key::Int(value),
                Key::Uint(value) => Key::Uint(value),
                Key::Float(value) => Key::Float(value),
                Key::Bool(value) => Key::Bool(value),
                Key::Null => Key::Null,
            });
        }
    }

    fn end_map(&mut self) {
        if let Some(Open::Map { mut entries, .. }) = self.open.pop() {
            entries.sort_by(|(a, _), (b, _)| before(a, b));
            let shown: Vec<_> =
                entries.iter().map(|(key, text)| format!("{}:{text}", key.go_syntax())).collect();
            self.put(format!("map[interface {{}}]interface {{}}{{{}}}", shown.join(", ")));
        }
    }
}
