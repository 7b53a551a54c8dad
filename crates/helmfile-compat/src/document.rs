//! YAML documents of a state file as node trees, without aliases and merge keys.
//!
//! Owns the decoding rules of go-yaml v3 that come before types: duplicate keys, aliases, merge keys, and how much a text may
//! expand. Does not know types.

use std::collections::{HashMap, HashSet};

use chart_compat::yaml::tree::{self, Kind, Node};
use chart_compat::yaml::{Content, Node as Spanned, Room, spanned};

use super::value::{Map, Value};

/// The maximal number of nodes of a document before its aliases are resolved.
pub const MAX_NODES: usize = 1_000_000;

/// Why a text has no documents, in go-yaml v3's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("yaml: {}", self.problem())]
pub enum DocumentError {
    /// The text is not YAML: the message, without `yaml: `.
    Syntax(String),
    /// More than the room for values is needed.
    Room(String),
    /// A document has more than [`MAX_NODES`] nodes.
    TooManyNodes,
    /// An alias without its anchor.
    UnknownAnchor(String),
    /// A map has a key twice.
    DuplicateKey(String),
    /// Keys that are there twice, or values of wrong types: a line of text for each.
    Unmarshal(Vec<String>),
    /// The value of `<<` is not a map.
    Merge,
    /// The document is not a map; this is its value.
    NotMap(String),
}

impl DocumentError {
    /// The message without `yaml: `.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::Syntax(text) | Self::Room(text) => text.clone(),
            Self::TooManyNodes => format!("the document has more than {MAX_NODES} nodes"),
            Self::UnknownAnchor(name) => format!("unknown anchor '{name}' referenced"),
            Self::DuplicateKey(key) => format!("unmarshal errors: mapping key {key:?} already defined"),
            Self::Unmarshal(lines) => format!("unmarshal errors:\n  {}", lines.join("\n  ")),
            Self::Merge => "map merge requires map or sequence of maps as the value".to_owned(),
            Self::NotMap(found) => {
                format!("unmarshal errors: cannot unmarshal {found} into map[string]interface {{}}")
            }
        }
    }
}

/// The keys that maps of the first document have twice, with their lines; `None` if there are none.
fn keys_defined_twice(text: &str) -> Option<DocumentError> {
    let mut lines = Vec::new();
    find_twice(&spanned(text.as_bytes()).ok()?, &mut lines);
    (!lines.is_empty()).then_some(DocumentError::Unmarshal(lines))
}

fn find_twice(node: &Spanned, lines: &mut Vec<String>) {
    match &node.content {
        Content::List(items) => items.iter().for_each(|item| find_twice(item, lines)),
        Content::Map(entries) => {
            let mut first: HashMap<&str, u32> = HashMap::new();
            for entry in entries {
                match first.get(entry.written.as_str()) {
                    Some(line) => lines.push(format!(
                        "line {}: mapping key {:?} already defined at line {line}",
                        entry.line, entry.written
                    )),
                    None => {
                        first.insert(&entry.written, entry.line);
                    }
                }
            }
            entries.iter().for_each(|entry| find_twice(&entry.value, lines));
        }
        _ => {}
    }
}

/// Decodes every document of a text.
///
/// # Errors
/// The text is not YAML, a key is defined twice, or it expands to too many nodes.
pub fn documents(text: &str) -> Result<Vec<Node>, DocumentError> {
    documents_within(text, &Room::default())
}

fn documents_within(text: &str, room: &Room) -> Result<Vec<Node>, DocumentError> {
    let roots = tree::read_all_within(text, room).map_err(|error| {
        let message = error.in_v3();
        DocumentError::Syntax(message.strip_prefix("yaml: ").unwrap_or(&message).to_owned())
    })?;
    let mut out = Vec::with_capacity(roots.len());
    for mut document in roots {
        let root =
            if document.content.is_empty() { Node::default() } else { document.content.swap_remove(0) };
        let mut expander = Expander { anchors: HashMap::new(), nodes: 0, room };
        out.push(expander.node(root).map_err(|error| match error {
            DocumentError::DuplicateKey(_) => keys_defined_twice(text).unwrap_or(error),
            other => other,
        })?);
    }
    Ok(out)
}

/// Decodes the first document of a text into a value.
///
/// # Errors
/// As [`documents`].
pub fn value(text: &str) -> Result<Value, DocumentError> {
    value_within(text, &Room::default())
}

/// Decodes the first document of a text into a value, within room.
///
/// # Errors
/// As [`documents`], or there is not enough room.
pub fn value_within(text: &str, room: &Room) -> Result<Value, DocumentError> {
    Ok(documents_within(text, room)?.first().map_or(Value::Null, Value::from_node))
}

/// Decodes the first document of a text into a map with text keys at the top; an empty document is an empty map.
///
/// # Errors
/// As [`documents`]; also if the document is not a mapping.
pub fn map(text: &str) -> Result<Map, DocumentError> {
    match value(text)? {
        Value::Null => Ok(Map::new()),
        Value::Map(map) => Ok(map),
        // Go decodes the keys into the key type of the map.
        Value::AnyMap(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                map.insert(key.go_text(), value);
            }
            Ok(map)
        }
        other => Err(DocumentError::NotMap(tag(&other))),
    }
}

fn tag(value: &Value) -> String {
    match value {
        Value::List(_) => "!!seq".to_owned(),
        Value::Bool(_) => format!("!!bool `{}`", value.go_text()),
        Value::Int(_) | Value::Uint(_) => format!("!!int `{}`", value.go_text()),
        Value::Float(_) => format!("!!float `{}`", value.go_text()),
        _ => {
            let text = value.go_text();
            let short: String = text.chars().take(7).collect();
            if short.len() < text.len() { format!("!!str `{short}...`") } else { format!("!!str `{text}`") }
        }
    }
}

struct Expander<'r> {
    room: &'r Room,
    /// What anchors name. A later anchor of one name replaces an earlier one.
    anchors: HashMap<String, Node>,
    nodes: usize,
}

impl Expander<'_> {
    /// Copies a node within the room.
    fn copy(&self, node: &Node) -> Result<Node, DocumentError> {
        self.room.take(node.memory()).map_err(|error| DocumentError::Room(error.to_string()))?;
        Ok(node.clone())
    }

    fn count(&mut self) -> Result<(), DocumentError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(DocumentError::TooManyNodes);
        }
        Ok(())
    }

    fn node(&mut self, mut node: Node) -> Result<Node, DocumentError> {
        self.count()?;
        match node.kind {
            Kind::Alias => {
                let Some(target) = self.anchors.get(&node.value) else {
                    return Err(DocumentError::UnknownAnchor(node.value));
                };
                return self.copy(target);
            }
            Kind::Map => self.map(&mut node)?,
            _ => {
                let content = std::mem::take(&mut node.content);
                node.content = content.into_iter().map(|child| self.node(child)).collect::<Result<_, _>>()?;
            }
        }
        if !node.anchor.is_empty() {
            let name = std::mem::take(&mut node.anchor);
            // The copy counts: anchors within anchors would keep the square of a document.
            self.anchors.insert(name, self.copy(&node)?);
        }
        Ok(node)
    }

    /// Resolves the entries of a map: explicit keys win over merged ones, and earlier merged maps over later ones.
    fn map(&mut self, node: &mut Node) -> Result<(), DocumentError> {
        let mut merged: Vec<Node> = Vec::new();
        let mut content: Vec<Node> = Vec::with_capacity(node.content.len());
        let mut entries = std::mem::take(&mut node.content).into_iter();
        let mut seen = HashSet::new();
        while let (Some(key), Some(value)) = (entries.next(), entries.next()) {
            if !seen.insert((key.kind as u8, key.value.clone())) {
                return Err(DocumentError::DuplicateKey(key.value));
            }
            let is_merge = key.tag == "!!merge";
            let key = self.node(key)?;
            let value = self.node(value)?;
            if !is_merge {
                content.push(key);
                content.push(value);
                continue;
            }
            match value.kind {
                Kind::Map => merged.push(value),
                Kind::List if value.content.iter().all(|item| item.kind == Kind::Map) => {
                    merged.extend(value.content);
                }
                _ => return Err(DocumentError::Merge),
            }
        }
        if merged.is_empty() {
            node.content = content;
            return Ok(());
        }
        let identity = |key: &Node| (key.kind as u8, key.value.clone(), key.tag.clone());
        let mut known: HashSet<_> = content.iter().step_by(2).map(identity).collect();
        for map in merged {
            let mut entries = map.content.into_iter();
            while let (Some(key), Some(value)) = (entries.next(), entries.next()) {
                if known.insert(identity(&key)) {
                    content.extend([key, value]);
                }
            }
        }
        node.content = content;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_aliases_copy_is_bounded() {
        let text = "x".repeat(50_000);
        let part = |count: usize| format!("a: &a {text}\nb: [{}]\n", vec!["*a"; count].join(", "));
        assert!(documents(&part(400)).is_ok());
        // Documents of one text share what there is.
        for hostile in [part(2_000), format!("{}---\n{}", part(400), part(400))] {
            let told = documents(&hostile).unwrap_err();
            assert!(told.to_string().contains("the aliases add more than 32 MiB"), "{told}");
        }
        let merged = format!("a: &a {{k: {text}}}\nb: [{}]\n", vec!["{<<: *a}"; 2_000].join(", "));
        assert!(documents(&merged).is_err());
        let told = value_within(&part(1), &Room::whole(10_000)).unwrap_err();
        assert!(told.to_string().contains("the document takes more than 0 MiB"), "{told}");
    }
}
