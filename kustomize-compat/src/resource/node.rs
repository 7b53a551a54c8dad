//! Fields of nodes, as kyaml finds and sets them.
//!
//! Owns the rules of `FieldSetter` and `LookupCreate`: which style and tag a value has after it was set.

use std::collections::BTreeMap;

use chart_compat::yaml::plain_meaning;
use chart_compat::yaml::tree::{Kind, Node, Style, Writer};

use super::{build_steps, growth};
use crate::error::Error;

/// Whether a node holds nothing: null, an empty map or an empty list.
#[must_use]
pub fn is_empty(node: &Node) -> bool {
    node.is_null() || matches!(node.kind, Kind::Map | Kind::List) && node.content.is_empty()
}

/// The value of a map's key, if it holds something.
#[must_use]
pub fn value<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    node.get(key).filter(|v| !is_empty(v))
}

/// A text field of `metadata`, empty if it is not set.
#[must_use]
pub fn metadata_text<'n>(node: &'n Node, key: &str) -> &'n str {
    value(node, "metadata").and_then(|m| value(m, key)).map_or("", |v| v.value.as_str())
}

/// A map of `metadata`: `labels` or `annotations`.
#[must_use]
pub fn metadata_map(node: &Node, key: &str) -> BTreeMap<String, String> {
    let map = value(node, "metadata").and_then(|m| m.get(key));
    let content = map.map(|m| m.content.as_slice()).unwrap_or_default();
    build_steps::note(content.len());
    let pairs = content.chunks_exact(2);
    let pair = |pair: &[Node]| match pair {
        [key, value] => (key.value.clone(), value.value.clone()),
        _ => (String::new(), String::new()),
    };
    pairs.map(pair).collect()
}

/// The name of a node's kind in Go.
#[must_use]
pub fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Document => "DocumentNode",
        Kind::Map => "MappingNode",
        Kind::List => "SequenceNode",
        Kind::Scalar => "ScalarNode",
        Kind::Alias => "AliasNode",
    }
}

/// Checks the kind of a node; a null is of every kind.
///
/// # Errors
/// It is of another kind.
pub fn check_kind(node: &Node, kind: Kind) -> Result<(), Error> {
    if node.is_null() || node.kind == kind {
        return Ok(());
    }
    let mut writer = Writer::new();
    writer.document(&super::shared::without_marks(node));
    Err(Error::Kind { expected: kind_name(kind), got: kind_name(node.kind), content: writer.finish() })
}

/// A scalar whose text says what it is.
#[must_use]
pub fn scalar(text: &str) -> Node {
    Node { value: text.to_owned(), ..Node::default() }
}

/// Quotes a text that YAML 1.1 would not read as one.
pub fn quote(node: &mut Node) {
    let text = node.kind == Kind::Scalar && matches!(node.tag.as_str(), "" | "!!str");
    if text && node.style == Style::Plain && is_no_text(&node.value) {
        node.style = Style::Double;
    }
}

fn is_no_text(value: &str) -> bool {
    !value.is_empty() && !value.contains('\n') && plain_meaning(value).is_some()
}

/// Sets a key of a map. A value that is replaced keeps its style; a null removes the key.
///
/// # Errors
/// The node is not a map.
pub fn set(map: &mut Node, key: &str, mut value: Node) -> Result<(), Error> {
    quote(&mut value);
    check_kind(map, Kind::Map)?;
    build_steps::count(map.content.len() / 16)?;
    if value.is_null() {
        map.remove(key);
        return Ok(());
    }
    match map.get_mut(key) {
        Some(place) => {
            growth::change(place.memory(), value.memory())?;
            let anchor = std::mem::take(&mut place.anchor);
            *place = Node { style: place.style, tagged: place.tagged, flow: place.flow, anchor, ..value };
        }
        None => push(map, key, value)?,
    }
    Ok(())
}

/// Adds a key to a map that does not have it.
///
/// # Errors
/// The build makes too much.
pub(crate) fn push(map: &mut Node, key: &str, value: Node) -> Result<(), Error> {
    growth::change(0, size_of::<Node>() + key.len() + value.memory())?;
    map.push(key, value);
    Ok(())
}

/// The map below a key of a map, made if it is missing or null.
///
/// # Errors
/// The node is not a map.
pub fn map_below<'n>(map: &'n mut Node, key: &str) -> Result<&'n mut Node, Error> {
    check_kind(map, Kind::Map)?;
    if map.place(key).is_none() {
        push(map, key, Node { tag: "!!map".to_owned(), ..Node::map() })?;
    }
    let at = map.place(key).unwrap_or_default() + 1;
    let below = &mut map.content[at];
    if below.is_null() {
        *below = Node { tag: "!!map".to_owned(), ..Node::map() };
    }
    Ok(below)
}

/// Sets a text field of `metadata`.
///
/// # Errors
/// The object or its metadata is not a map.
pub fn set_metadata_text(node: &mut Node, key: &str, text: &str) -> Result<(), Error> {
    set(map_below(node, "metadata")?, key, scalar(text))
}

/// Replaces `labels` or `annotations` of `metadata`, sorted by key; removes them if there are none.
///
/// # Errors
/// The object or its metadata is not a map.
pub fn set_metadata_map(node: &mut Node, key: &str, map: &BTreeMap<String, String>) -> Result<(), Error> {
    let metadata = map_below(node, "metadata")?;
    check_kind(metadata, Kind::Map)?;
    growth::change(metadata.get(key).map_or(0, Node::memory), 0)?;
    metadata.remove(key);
    if map.is_empty() {
        return Ok(());
    }
    let place = map_below(metadata, key)?;
    if place.kind != Kind::Map || !place.content.is_empty() {
        return map.iter().try_for_each(|(key, value)| set(place, key, Node::string(value)));
    }
    // No key is there yet.
    for (key, value) in map {
        let mut value = Node::string(value);
        quote(&mut value);
        push(place, key, value)?;
    }
    Ok(())
}

/// Sets the namespace of an object; an empty one is removed.
///
/// # Errors
/// The object or its metadata is not a map.
pub fn set_namespace(node: &mut Node, namespace: &str) -> Result<(), Error> {
    if !namespace.is_empty() {
        return set_metadata_text(node, "namespace", namespace);
    }
    if let Some(metadata) = node.get_mut("metadata") {
        metadata.remove("namespace");
    }
    Ok(())
}
