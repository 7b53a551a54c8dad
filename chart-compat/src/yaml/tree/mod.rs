//! YAML as a tree with its presentation: comments, order, quotes, anchors and tags, like go-yaml v3's `Node`.
//!
//! Owns the tree, its decoding, and its encoding with an indentation of 2 and lists at the indentation of their keys, which is
//! kyaml's style. Does not interpret the tree.

mod read;
mod scalar;
mod write;

pub use read::{read, read_all, read_all_within, read_within};
pub use write::Writer;

/// The maximal depth of a tree.
pub const MAX_DEPTH: usize = 500;

/// The kind of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A document, with one node.
    Document,
    /// Alternating keys and values.
    Map,
    /// A list of items.
    List,
    /// A scalar, interpreted by its tag.
    #[default]
    Scalar,
    /// A reference to an anchor.
    Alias,
}

/// The style of a scalar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Unquoted, if it can be read again that way.
    #[default]
    Plain,
    /// In single quotes.
    Single,
    /// In double quotes.
    Double,
    /// A literal block, `|`.
    Literal,
    /// A folded block, `>`.
    Folded,
}

/// A node with its presentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its kind.
    pub kind: Kind,
    /// Its tag in the short form, such as `!!str`; empty if it has none.
    pub tag: String,
    /// Whether the tag is explicit in the text.
    pub tagged: bool,
    /// The style of a scalar.
    pub style: Style,
    /// Whether a list or map is in flow style.
    pub flow: bool,
    /// A scalar's text, or an alias's name.
    pub value: String,
    /// The anchor that aliases refer to.
    pub anchor: String,
    /// The children: a document's node, a list's items, a map's alternating keys and values.
    pub content: Vec<Node>,
    /// The comment above it, with its `#`.
    pub head: String,
    /// The comment in its line.
    pub line: String,
    /// The comment below it.
    pub foot: String,
}

impl Node {
    /// A node with a string (`Node.SetString`).
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

    /// The memory that it takes with all that is below it, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.texts() + self.content.iter().map(Self::memory).sum::<usize>()
    }

    /// The bytes of its own texts.
    fn texts(&self) -> usize {
        [&self.tag, &self.value, &self.anchor, &self.head, &self.line, &self.foot]
            .map(String::len)
            .iter()
            .sum()
    }

    /// Whether it is null, explicitly or because it is empty.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.tag == "!!null"
    }

    /// The value of a key in a map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.place(key).and_then(|at| self.content.get(at + 1))
    }

    /// The mutable value of a key in a map.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.place(key).and_then(|at| self.content.get_mut(at + 1))
    }

    /// Removes a key from a map and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Self> {
        let at = self.place(key)?;
        self.content.drain(at..at + 2).nth(1)
    }

    /// Appends a key and its value to a map.
    pub fn push(&mut self, key: &str, value: Self) {
        self.content.push(Self { value: key.to_owned(), ..Self::default() });
        self.content.push(value);
    }

    /// The index of a key in a map's content.
    #[must_use]
    pub fn place(&self, key: &str) -> Option<usize> {
        if self.kind != Kind::Map {
            return None;
        }
        let at = self.content.chunks(2).position(|pair| pair.first().is_some_and(|k| k.value == key))?;
        Some(at * 2)
    }
}

/// The tag that go-yaml v3 resolves an untagged plain scalar to.
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

/// A number as go-yaml v3 decodes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A Go `int64`.
    Int(i64),
    /// An integer beyond `i64`, a Go `uint64`.
    Uint(u64),
    /// A Go `float64`.
    Float(f64),
}

/// The value of an untagged plain number in go-yaml v3, if [`meaning`] is `!!int` or `!!float`.
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
