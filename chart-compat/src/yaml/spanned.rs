//! A document with the line of each node, for messages.
//!
//! Owns a second, slower decoder that stores lines and spellings. The main decoder defines the meaning of the document.

use std::collections::HashMap;
use std::sync::Arc;

use super::decode::MAX_DEPTH;
use super::error::Error;
use super::input::Input;
use super::parse::{Event, Parser, Style};
use super::resolve::{self, Resolved};
use crate::path::Step;

/// A node of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its line, from 1.
    pub line: u32,
    /// Its content.
    pub content: Content,
}

/// The content of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// An empty node, or one that is nested too deeply.
    #[default]
    Nothing,
    /// A scalar without its quotes. `plain`: it has neither quotes nor a tag, so it can be a number or boolean.
    Scalar {
        /// The text.
        text: String,
        /// Whether it is unquoted.
        plain: bool,
    },
    /// A sequence.
    List(Vec<Arc<Node>>),
    /// A mapping, duplicates included.
    Map(Vec<Entry>),
    /// A reference to an anchored node.
    Alias(Arc<Node>),
}

/// An entry of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key as the main decoder returns it: `true` for `yes`, `1` for `1.0`.
    pub key: String,
    /// The key as written.
    pub written: String,
    /// Whether the key is unquoted.
    pub plain: bool,
    /// Its line, from 1.
    pub line: u32,
    /// The value.
    pub value: Arc<Node>,
}

/// Decodes the first document with its lines.
///
/// # Errors
/// If the text is not valid YAML.
pub fn spanned(text: &[u8]) -> Result<Node, Error> {
    let input = Input::new(text);
    let mut parser = Parser::new(&input);
    let mut builder = Builder::default();
    loop {
        match parser.next().map_err(|e| e.within(text))? {
            Event::DocumentStart => {}
            Event::DocumentEnd | Event::StreamEnd => return Ok(builder.root.unwrap_or_default()),
            Event::Scalar { value, style, props } => {
                let anchor = props.anchor.map(std::borrow::Cow::into_owned);
                let plain = style.implicit && style.tag == super::parse::Tag::None;
                builder.scalar(value.into_owned(), plain, style, props.line + 1, anchor);
            }
            Event::Alias { name, line } => {
                let content =
                    builder.anchors.get(&*name).map_or(Content::Nothing, |n| Content::Alias(Arc::clone(n)));
                builder.put(Node { line: line + 1, content }, None);
            }
            Event::ListStart(props) => {
                builder.open(Content::List(Vec::new()), props.line + 1, props.anchor.map(Into::into));
            }
            Event::MapStart(props) => {
                builder.open(Content::Map(Vec::new()), props.line + 1, props.anchor.map(Into::into));
            }
            Event::ListEnd | Event::MapEnd => builder.close(),
        }
    }
}

/// An open collection.
struct Open {
    node: Node,
    anchor: Option<String>,
    /// The key of the next value: key, spelling, whether it is unquoted, line.
    key: Option<(String, String, bool, u32)>,
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    /// The number of open collections beyond the maximal depth; they are skipped.
    too_deep: usize,
    anchors: HashMap<String, Arc<Node>>,
}

impl Builder {
    fn scalar(&mut self, text: String, plain: bool, style: Style, line: u32, anchor: Option<String>) {
        if self.too_deep > 0 {
            return;
        }
        if let Some(Open { node: Node { content: Content::Map(_), .. }, key: key @ None, .. }) =
            self.open.last_mut()
        {
            *key = Some((key_text(&text, plain), text, style.implicit, line));
            return;
        }
        self.put(Node { line, content: Content::Scalar { text, plain } }, anchor);
    }

    fn open(&mut self, content: Content, line: u32, anchor: Option<String>) {
        if self.too_deep > 0 || self.open.len() >= MAX_DEPTH {
            self.too_deep += 1;
            return;
        }
        self.open.push(Open { node: Node { line, content }, anchor, key: None });
    }

    fn close(&mut self) {
        if self.too_deep > 0 {
            self.too_deep -= 1;
            if self.too_deep == 0 {
                self.put(Node::default(), None);
            }
            return;
        }
        if let Some(Open { node, anchor, .. }) = self.open.pop() {
            self.put(node, anchor);
        }
    }

    fn put(&mut self, node: Node, anchor: Option<String>) {
        if self.too_deep > 0 {
            return;
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        let node = Arc::new(node);
        if let Some(name) = anchor {
            self.anchors.insert(name, Arc::clone(&node));
        }
        match &mut open.node.content {
            Content::List(items) => items.push(node),
            Content::Map(entries) => match open.key.take() {
                Some((key, written, plain, line)) => {
                    entries.push(Entry { key, written, plain, line, value: node });
                }
                // A collection or an alias as a key. The main decoder reports an error if necessary.
                None => {
                    let text = match &node.content {
                        Content::Alias(target) => match &target.content {
                            Content::Scalar { text, .. } => text.clone(),
                            _ => String::new(),
                        },
                        _ => String::new(),
                    };
                    open.key = Some((text.clone(), text, false, node.line));
                }
            },
            _ => {}
        }
    }
}

/// A key as sigs' conversion to JSON prints it.
fn key_text(text: &str, plain: bool) -> String {
    use super::sink::Key;
    if !plain || text == "<<" {
        return text.to_owned();
    }
    let key = match resolve::resolve(text) {
        Resolved::Bool(b) => Key::Bool(b),
        Resolved::Int(i) => Key::Int(i),
        Resolved::Uint(u) => Key::Uint(u),
        Resolved::Float(f) => Key::Float(f),
        Resolved::Null => Key::Null,
        Resolved::Str | Resolved::Timestamp => return text.to_owned(),
    };
    key.into_text().into_owned()
}

/// The maximal number of aliases that one lookup follows.
const MAX_ALIASES: usize = 32;

impl Node {
    /// The line that sets the value at a path: the line of its key, or of its list item.
    #[must_use]
    pub fn line_of(&self, way: &[Step]) -> Option<u32> {
        self.search(way, MAX_ALIASES)
    }

    fn search(&self, way: &[Step], aliases: usize) -> Option<u32> {
        let Some((step, rest)) = way.split_first() else { return Some(self.line) };
        match (&self.content, step) {
            (Content::Alias(target), _) => target.search(way, aliases.checked_sub(1)?),
            (Content::List(items), Step::Index(index)) => items.get(*index)?.search(rest, aliases),
            (Content::Map(entries), Step::Key(key)) => {
                if let Some(entry) = entries.iter().rev().find(|e| e.key == *key) {
                    return if rest.is_empty() {
                        Some(entry.line)
                    } else {
                        entry.value.search(rest, aliases)
                    };
                }
                let merges = entries.iter().filter(|e| e.plain && e.written == "<<");
                merges.rev().find_map(|e| e.value.search_merged(way, aliases.checked_sub(1)?))
            }
            _ => None,
        }
    }

    /// Searches the value of a merge key: a map, or a list of maps, of which the first match wins.
    fn search_merged(&self, way: &[Step], aliases: usize) -> Option<u32> {
        match &self.content {
            Content::List(items) => items.iter().find_map(|item| item.search(way, aliases)),
            _ => self.search(way, aliases),
        }
    }
}

/// The type that the main decoder gives an unquoted scalar that is not a string: `bool`, `number`, `null` or `date`.
#[must_use]
pub fn plain_meaning(text: &str) -> Option<&'static str> {
    Some(match resolve::resolve(text) {
        Resolved::Bool(_) => "bool",
        Resolved::Int(_) | Resolved::Uint(_) | Resolved::Float(_) => "number",
        Resolved::Null => "null",
        Resolved::Timestamp => "date",
        Resolved::Str => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Node, spanned};
    use crate::path::Path;

    fn line(doc: &Node, path: &str) -> Option<u32> {
        doc.line_of(&Path::parse(path).unwrap().0)
    }

    #[test]
    fn lines_are_those_of_the_keys() {
        let text = "# head\na:\n  b: 1\n  c:\n    - x\n    - z: |\n        long\n\nyes: 2\nbase: &base\n  d: 3\n\
                    over:\n  <<: *base\n  e: 4\nsame: *base\nb: 1\nb: 2\n";
        let doc = spanned(text.as_bytes()).unwrap();
        let table = [
            ("a", Some(2)),
            ("a.b", Some(3)),
            ("a.c", Some(4)),
            ("a.c[0]", Some(5)),
            ("a.c[1].z", Some(6)),
            ("true", Some(9)),
            ("over.d", Some(11)),
            ("over.e", Some(14)),
            ("same", Some(15)),
            ("same.d", Some(11)),
            ("b", Some(17)),
            ("a.x", None),
            ("a.c[2]", None),
        ];
        for (path, want) in table {
            assert_eq!(line(&doc, path), want, "{path}");
        }
    }

    #[test]
    fn what_is_too_deep_is_passed_over() {
        let text = format!("a: {}1{}\nb: 2\n", "[".repeat(3000), "]".repeat(3000));
        let doc = spanned(text.as_bytes()).unwrap();
        assert_eq!(line(&doc, "b"), Some(2));
    }
}
