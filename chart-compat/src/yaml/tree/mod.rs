//! YAML as a tree that remembers how it was written: comments, order, quotes, anchors and tags, as go-yaml v3's `Node`.
//!
//! Owns the tree, reading it, and writing it with an indentation of 2 and lists no further in than their keys, as kyaml
//! has go-yaml write. What a tree means is others' business.

mod read;
mod scalar;
mod write;

pub use read::read;
pub use write::Writer;

/// How deep a tree may be.
pub const MAX_DEPTH: usize = 500;

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A document, which holds one node.
    Document,
    /// Keys and values, in turns.
    Map,
    /// Items.
    List,
    /// A text, which its tag says the meaning of.
    #[default]
    Scalar,
    /// The name of an anchor.
    Alias,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As it is, where that can be read again.
    #[default]
    Plain,
    /// In `'`.
    Single,
    /// In `"`.
    Double,
    /// After `|`.
    Literal,
    /// After `>`.
    Folded,
}

/// A node with what was written around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its tag in the short form, such as `!!str`; empty for what has none.
    pub tag: String,
    /// Whether the tag is written.
    pub tagged: bool,
    /// How a scalar is written.
    pub style: Style,
    /// Whether a list or map is written in brackets.
    pub flow: bool,
    /// A scalar's text, an alias's name.
    pub value: String,
    /// The name by which aliases know it.
    pub anchor: String,
    /// What it holds: a document its node, a list its items, a map its keys and values in turns.
    pub content: Vec<Node>,
    /// The comment above it, with its `#`.
    pub head: String,
    /// The comment in its line.
    pub line: String,
    /// The comment below it.
    pub foot: String,
}

impl Node {
    /// A text that is meant as one (`Node.SetString`).
    #[must_use]
    pub fn string(value: &str) -> Self {
        let style = if value.contains('\n') { Style::Literal } else { Style::Plain };
        Self { tag: "!!str".to_owned(), style, value: value.to_owned(), ..Self::default() }
    }

    /// An empty map.
    #[must_use]
    pub fn map() -> Self {
        Self { kind: Kind::Map, ..Self::default() }
    }

    /// Whether it is a null, written or not.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.tag == "!!null"
    }

    /// The value of a map's key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.place(key).and_then(|at| self.content.get(at + 1))
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.place(key).and_then(|at| self.content.get_mut(at + 1))
    }

    /// Takes a key and its value out of a map.
    pub fn remove(&mut self, key: &str) -> Option<Self> {
        let at = self.place(key)?;
        self.content.drain(at..at + 2).nth(1)
    }

    /// Adds a key at a map's end.
    pub fn push(&mut self, key: &str, value: Self) {
        self.content.push(Self { value: key.to_owned(), ..Self::default() });
        self.content.push(value);
    }

    /// Where a key stands in a map.
    #[must_use]
    pub fn place(&self, key: &str) -> Option<usize> {
        if self.kind != Kind::Map {
            return None;
        }
        let at = self.content.chunks(2).position(|pair| pair.first().is_some_and(|k| k.value == key))?;
        Some(at * 2)
    }
}

/// What go-yaml v3 takes an untagged plain text for.
#[must_use]
pub fn meaning(text: &str) -> &'static str {
    use super::resolve::{Dialect, Resolved, dotted, number, word};
    let resolved = match text.as_bytes().first() {
        None => Resolved::Null,
        Some(b'+' | b'-' | b'0'..=b'9') => number(text, true, Dialect::V3),
        Some(b'.') => dotted(text),
        Some(b't' | b'T' | b'f' | b'F' | b'n' | b'N' | b'~') => match text {
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Resolved::Bool(true),
            "~" | "null" | "Null" | "NULL" => word(text),
            _ => Resolved::Str,
        },
        _ => Resolved::Str,
    };
    match resolved {
        Resolved::Null => "!!null",
        Resolved::Bool(_) => "!!bool",
        Resolved::Int(_) | Resolved::Uint(_) => "!!int",
        Resolved::Float(_) => "!!float",
        Resolved::Timestamp => "!!timestamp",
        Resolved::Str => "!!str",
    }
}

/// A number as go-yaml v3 reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A Go `int64`.
    Int(i64),
    /// An integer beyond `i64`, a Go `uint64`.
    Uint(u64),
    /// A Go `float64`.
    Float(f64),
}

/// The number that an untagged plain text is for go-yaml v3, if [`meaning`] is `!!int` or `!!float`.
#[must_use]
pub fn number(text: &str) -> Option<Number> {
    use super::resolve::{Dialect, Resolved, dotted, number};
    let resolved = match text.as_bytes().first()? {
        b'+' | b'-' | b'0'..=b'9' => number(text, true, Dialect::V3),
        b'.' => dotted(text),
        _ => return None,
    };
    match resolved {
        Resolved::Int(n) => Some(Number::Int(n)),
        Resolved::Uint(n) => Some(Number::Uint(n)),
        Resolved::Float(n) => Some(Number::Float(n)),
        Resolved::Null | Resolved::Bool(_) | Resolved::Timestamp | Resolved::Str => None,
    }
}
