//! Manifests as kyaml decodes and encodes them: preserves comments, order and quotes where possible.
//!
//! Owns kustomize's processing of a stream of documents (`kio.ByteReader`, `kio.ByteWriter`) and the few changes
//! that Helm's and addon-operator's post-renderers make with it; does not know post-renderers.

use std::collections::BTreeMap;

use crate::yaml::tree::{self, Kind, Node, Style, Writer};
use crate::yaml::{Room, plain_meaning};

/// The annotations in which kyaml stores the order of documents.
const NUMBERS: [&str; 2] = ["config.kubernetes.io/index", "internal.config.kubernetes.io/index"];
/// The annotation in which kyaml stores the indentation of lists.
const LAYOUT: &str = "internal.config.kubernetes.io/seqindent";
/// Annotations with two names, the older first: kyaml sets both.
const TWINS: [(&str, &str); 2] = [
    ("config.kubernetes.io/path", "internal.config.kubernetes.io/path"),
    ("config.k8s.io/id", "internal.config.kubernetes.io/id"),
];

/// An error of kyaml, with its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A document is not YAML.
    #[error("MalformedYAMLError: {0}")]
    Malformed(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

fn fail<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Other(reason.into()))
}

/// Reads a stream of documents; omits empty ones and splits a list that is the only document into its items
/// (`kio.ByteReader.Read`).
///
/// # Errors
/// A document that is not valid YAML, or a separator followed by anything but a comment.
pub fn read(text: &str) -> Result<Vec<Node>, Error> {
    read_each(text, &Room::default(), |_| Ok(()))
}

/// Like [`read`], with each document's index in annotations, which [`write`] removes (`kio.ParseAll`), within the room of all streams
/// that are read together.
///
/// # Errors
/// As [`read`], and a document that is not an object, or whose metadata or annotations are not a map.
pub fn read_numbered(text: &str, room: &Room) -> Result<Vec<Node>, Error> {
    let mut number = 0;
    read_each(text, room, |node| {
        for (old, new) in TWINS {
            let value = |key| annotation(node, key).map(str::to_owned);
            match (value(old), value(new)) {
                (Some(value), None) => annotate(node, new, &value)?,
                (None, Some(value)) => annotate(node, old, &value)?,
                _ => {}
            }
        }
        for key in NUMBERS {
            annotate(node, key, &number.to_string())?;
        }
        number += 1;
        Ok(())
    })
}

/// Like [`read`], with resolved aliases and merge keys (`kio.FromBytes`), within the room of all streams that are read together.
/// The nodes are not documents.
///
/// # Errors
/// As [`read`], and aliases or merge keys that cannot be resolved.
pub fn read_resolved(text: &str, room: &Room) -> Result<Vec<Node>, Error> {
    let mut nodes = read_each(text, room, |_| Ok(()))?;
    for node in &mut nodes {
        replace_aliases(root_mut(node), &mut Vec::new(), room)?;
        if node.kind == Kind::Document && !node.content.is_empty() {
            *node = node.content.swap_remove(0);
        }
    }
    Ok(nodes)
}

fn read_each(
    text: &str,
    room: &Room,
    mut with: impl FnMut(&mut Node) -> Result<(), Error>,
) -> Result<Vec<Node>, Error> {
    let text = text.replace("\r\n", "\n");
    let parts = split(&text)?;
    let mut out = Vec::new();
    let only = parts.len() == 1;
    for part in parts {
        let document = tree::read_within(&part, room);
        let document = document.map_err(|e| Error::Malformed(e.in_v3()))?;
        let Some(mut document) = document.filter(|d| !root(d).is_null()) else { continue };
        with(&mut document)?;
        let object = root(&document);
        let kind = object.get("kind").filter(|k| !k.is_null()).map_or("", |k| k.value.as_str());
        let is_list = matches!(kind, "List" | "ResourceList")
            && (object.place("items").is_some() || object.place("functionConfig").is_some());
        if only && is_list {
            out.extend(object.get("items").map(|items| items.content.clone()).unwrap_or_default());
        } else {
            out.push(document);
        }
    }
    Ok(out)
}

/// Splits a stream at the lines that begin with `---` (`splitDocuments`), except for the first line.
fn split(text: &str) -> Result<Vec<String>, Error> {
    let mut parts = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find("\n---")).map(|n| from + n) {
        let Some(end) = text.get(at + 1..).and_then(|rest| rest.find('\n')).map(|n| at + 1 + n) else {
            break;
        };
        let border = text.get(at + 4..end).unwrap_or_default().trim();
        if !border.is_empty() && !border.starts_with('#') {
            let shown = text.get(at..end).unwrap_or_default().trim();
            return fail(format!("invalid document separator: {shown}"));
        }
        // The line break before the separator belongs to the document before it.
        parts.push(format!("{}\n", text.get(from..at).unwrap_or_default()));
        from = end + 1;
    }
    parts.push(text.get(from..).unwrap_or_default().to_owned());
    Ok(parts)
}

/// Writes documents as a stream (`kio.StringAll`).
///
/// # Errors
/// A document that is not an object, or whose metadata or annotations are not a map.
pub fn write(nodes: &[Node]) -> Result<String, Error> {
    let mut writer = Writer::new();
    for node in nodes {
        let mut node = node.clone();
        for key in NUMBERS.into_iter().chain([LAYOUT]) {
            clear_annotation(&mut node, key)?;
        }
        clear_empty(root_mut(&mut node));
        writer.document(&node);
    }
    Ok(writer.finish())
}

/// The root node of a document, or the node itself.
fn root(node: &Node) -> &Node {
    match node.kind {
        Kind::Document => node.content.first().unwrap_or(node),
        _ => node,
    }
}

fn root_mut(node: &mut Node) -> &mut Node {
    if node.kind == Kind::Document && !node.content.is_empty() { &mut node.content[0] } else { node }
}

/// An annotation of an object (`ResourceMeta.Annotations`).
#[must_use]
pub fn annotation<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    let annotations = root(node).get("metadata")?.get("annotations")?;
    annotations.get(key).filter(|v| !v.is_null()).map(|v| v.value.as_str())
}

/// Whether an object has a kind, an API version or any metadata (`RNode.GetMeta`). A null needs none.
#[must_use]
pub fn has_head(node: &Node) -> bool {
    if root(node).is_null() {
        return true;
    }
    let said = |of: &Node, key: &str| {
        of.get(key).is_some_and(|v| {
            !(v.is_null() || matches!(v.kind, Kind::Map | Kind::List) && v.content.is_empty())
        })
    };
    let object = root(node);
    said(object, "apiVersion")
        || said(object, "kind")
        || object
            .get("metadata")
            .is_some_and(|m| ["name", "namespace", "labels", "annotations"].iter().any(|key| said(m, key)))
}

/// Sets an annotation; a new one is in single quotes (`yaml.SetAnnotation`).
///
/// # Errors
/// A document that is not an object, or whose metadata or annotations are not a map.
pub fn annotate(node: &mut Node, key: &str, value: &str) -> Result<(), Error> {
    let object = root_mut(node);
    check_map(object)?;
    if let Some(metadata) = object.get("metadata") {
        check_map(metadata)?;
    }
    clear_empty(object);
    if let Some(metadata) = map_below(object, "metadata")?
        && let Some(annotations) = map_below(metadata, "annotations")?
    {
        check_map(annotations)?;
        set(annotations, key, Node { style: Style::Single, ..Node::string(value) });
    }
    Ok(())
}

/// Removes an annotation if present (`yaml.ClearAnnotation`).
///
/// # Errors
/// A document that is not an object, or whose metadata or annotations are not a map.
pub fn clear_annotation(node: &mut Node, key: &str) -> Result<(), Error> {
    let object = root_mut(node);
    check_map(object)?;
    let Some(metadata) = object.get_mut("metadata") else { return Ok(()) };
    check_map(metadata)?;
    let Some(annotations) = metadata.get_mut("annotations") else { return Ok(()) };
    check_map(annotations)?;
    annotations.remove(key);
    Ok(())
}

/// Removes empty annotations and metadata (`yaml.ClearEmptyAnnotations`).
fn clear_empty(object: &mut Node) {
    let clear = |map: &mut Node, key: &str| {
        let empty = |pair: &[Node]| matches!(pair, [k, value] if k.value == key && value.content.is_empty());
        let at = map.content.chunks_exact(2).position(empty).filter(|_| map.kind == Kind::Map);
        map.content.drain(at.map_or(0..0, |at| 2 * at..2 * at + 2)).for_each(drop);
    };
    if let Some(metadata) = object.get_mut("metadata") {
        clear(metadata, "annotations");
    }
    clear(object, "metadata");
}

/// Adds labels to all objects of a stream, as addon-operator's post-renderer does: resolves aliases
/// and rewrites an object's labels in order of name (`PostRenderer.Run`).
///
/// # Errors
/// As [`read`], and aliases or merge keys that cannot be resolved.
///
/// ```
/// use chart_compat::kyaml;
/// use chart_compat::yaml::Room;
///
/// let labels = [("on".to_owned(), "yes".to_owned())].into();
/// let text = kyaml::with_labels("kind: A # kept\nmetadata:\n    name: a\n", &labels, &Room::default())?;
/// assert_eq!(text, "kind: A # kept\nmetadata:\n  name: a\n  labels:\n    on: \"yes\"\n");
/// # Ok::<(), kyaml::Error>(())
/// ```
pub fn with_labels(text: &str, labels: &BTreeMap<String, String>, room: &Room) -> Result<String, Error> {
    let mut nodes = read(text)?;
    for node in &mut nodes {
        replace_aliases(root_mut(node), &mut Vec::new(), room)?;
        label(root_mut(node), labels);
    }
    write(&nodes)
}

/// Sets labels; an object that cannot have labels stays unchanged, as in kyaml.
fn label(object: &mut Node, labels: &BTreeMap<String, String>) {
    let mut all = BTreeMap::new();
    let own = object.get("metadata").and_then(|m| m.get("labels"));
    for pair in own.map(|l| l.content.as_slice()).unwrap_or_default().chunks_exact(2) {
        if let [key, value] = pair {
            all.insert(key.value.clone(), value.value.clone());
        }
    }
    all.extend(labels.iter().map(|(k, v)| (k.clone(), v.clone())));
    let Ok(Some(metadata)) = map_below(object, "metadata") else { return };
    metadata.remove("labels");
    let Ok(Some(place)) = map_below(metadata, "labels") else { return };
    for (key, value) in all {
        let mut value = Node::string(&value);
        if value.style == Style::Plain && plain_meaning(&value.value).is_some() {
            value.style = Style::Double;
        }
        set(place, &key, value);
    }
}

/// The map below a key, created if missing; `None` below a null (`yaml.LookupCreate`).
fn map_below<'n>(node: &'n mut Node, key: &str) -> Result<Option<&'n mut Node>, Error> {
    check_map(node)?;
    if node.kind == Kind::Map && node.place(key).is_none() {
        node.push(key, Node::map());
    }
    Ok(node.get_mut(key))
}

/// Sets a key of a map; an existing value keeps its style (`yaml.FieldSetter`).
fn set(map: &mut Node, key: &str, value: Node) {
    match map.get_mut(key) {
        Some(place) => *place = Node { style: place.style, flow: place.flow, ..value },
        None => map.push(key, value),
    }
}

fn check_map(node: &Node) -> Result<(), Error> {
    if node.kind == Kind::Map || node.is_null() {
        return Ok(());
    }
    let kind = match node.kind {
        Kind::Document => "DocumentNode",
        Kind::Map => "MappingNode",
        Kind::List => "SequenceNode",
        Kind::Scalar => "ScalarNode",
        Kind::Alias => "AliasNode",
    };
    let mut writer = Writer::new();
    writer.document(node);
    let shown = writer.finish();
    fail(format!("wrong node kind: expected MappingNode but got {kind}: node contents:\n{shown}"))
}

/// Resolves aliases and merge keys (`deAnchor`).
fn replace_aliases(
    node: &mut Node,
    known: &mut Vec<(String, Option<Node>)>,
    room: &Room,
) -> Result<(), Error> {
    if node.kind == Kind::Alias {
        let Some(named) = named(known, &node.value) else {
            return fail(format!("anchor '{}' value contains itself", node.value));
        };
        *node = copy(named, room)?;
        return Ok(());
    }
    let name = std::mem::take(&mut node.anchor);
    // An anchor is defined only when its node is complete.
    let (place, anchored) = (known.len(), !name.is_empty());
    if anchored {
        known.push((name, None));
    }
    if node.kind == Kind::Map {
        check_merge(node, known)?;
    }
    for child in &mut node.content {
        replace_aliases(child, known, room)?;
    }
    if node.kind == Kind::Map {
        merge(node);
    }
    if let Some((_, whole)) = known.get_mut(place).filter(|_| anchored) {
        *whole = Some(copy(node, room)?);
    }
    Ok(())
}

fn named<'k>(known: &'k [(String, Option<Node>)], name: &str) -> Option<&'k Node> {
    known.iter().rev().find(|(known, _)| known == name).and_then(|(_, node)| node.as_ref())
}

/// Copies a node within the room: an anchored node may contain aliases, and aliases of aliases grow exponentially.
fn copy(node: &Node, room: &Room) -> Result<Node, Error> {
    room.take(node.memory()).map_err(|error| Error::Other(error.to_string()))?;
    Ok(node.clone())
}

fn is_merge(key: &Node) -> bool {
    key.tag == "!!merge"
}

/// Checks that the values of a merge key are maps (`findMergeValues`).
fn check_merge(map: &Node, known: &[(String, Option<Node>)]) -> Result<(), Error> {
    let mut merges = map.content.chunks_exact(2).filter(|pair| pair.first().is_some_and(is_merge));
    let Some(value) = merges.next().and_then(|pair| pair.get(1)) else { return Ok(()) };
    if merges.next().is_some() {
        return fail("duplicate merge key");
    }
    let check = |source: &Node| match source.kind {
        Kind::Map => Ok(()),
        Kind::Alias if named(known, &source.value).is_none_or(|n| n.kind == Kind::Map) => Ok(()),
        Kind::Alias => fail("invalid map merge: received alias for a non-map value"),
        _ => fail("map merge requires map or sequence of maps as the value"),
    };
    if value.kind != Kind::List {
        return check(value);
    }
    value.content.iter().try_for_each(|item| match item.kind {
        Kind::List => fail("invalid map merge: received a nested sequence"),
        _ => check(item),
    })
}

/// Merges the values of a map's merge key into the map: its own keys win, and new keys come last.
fn merge(map: &mut Node) {
    if !map.content.chunks_exact(2).any(|pair| pair.first().is_some_and(is_merge)) {
        return;
    }
    let sources = match map.remove("<<") {
        // The first one has the highest precedence, so it is merged last.
        Some(Node { kind: Kind::List, content, .. }) => content.into_iter().rev().collect(),
        Some(value) => vec![value],
        None => Vec::new(),
    };
    let own = map.clone();
    for source in sources.into_iter().chain([own]) {
        for pair in source.content.chunks_exact(2) {
            let Some(name) = pair.first().map(|key| key.value.as_str()) else { continue };
            let Some(at) = source.place(name) else { continue };
            let entry: Vec<Node> = source.content.iter().skip(at).take(2).cloned().collect();
            match map.place(name) {
                Some(at) => map.content.splice(at..at + 2, entry).for_each(drop),
                None => map.content.extend(entry),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_again_and_again_has_an_end() {
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            laughs += &format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "));
        }
        let opened: String = (0..400).map(|n| format!("&n{n} [")).collect();
        let nested = format!("- {opened}{}{}\n", vec!["x"; 250].join(", "), "]".repeat(400)).repeat(3);
        for text in [laughs, nested] {
            let error = with_labels(&text, &BTreeMap::new(), &Room::default()).unwrap_err();
            assert!(error.to_string().contains("the aliases add more than 32 MiB"), "{error}");
        }
    }
}
