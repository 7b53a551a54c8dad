//! JSON patches (RFC 6902) as the library of kustomize applies them: `-` and negative indices, its error texts.
//!
//! Owns operations on data; knows no object.

use chart_compat::data::{Data, Map};
use chart_compat::yaml::tree::MAX_DEPTH;
use chart_compat::{json, yaml};

use crate::error::Error;
use crate::resource::build_steps;

/// The most nodes that the `copy` operations of a patch may add: each can double the document.
const MAX_COPIED: usize = 1_000_000;
/// The most bytes of texts and keys in them.
const MAX_COPIED_TEXT: usize = 32 << 20;

/// A parsed patch.
#[derive(Clone, Debug, Default)]
pub struct JsonPatch(Vec<Map>);

impl JsonPatch {
    /// Whether it has no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Parses a patch: JSON if it begins with `[`, else YAML. `None` for anything but a list of maps.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let data = match text.as_bytes().first()? {
            b'[' => json::from_slice(text.as_bytes()).ok()?,
            // By way of JSON: all numbers are floats.
            _ => yaml::from_slice(text.as_bytes()).ok()?,
        };
        let items = match data.with_float_numbers() {
            Data::Null => Vec::new(),
            Data::List(items) => items,
            _ => return None,
        };
        let map = |item| match item {
            Data::Map(map) => Some(map),
            Data::Null => Some(Map::new()),
            _ => None,
        };
        items.into_iter().map(map).collect::<Option<_>>().map(Self)
    }

    /// Applies the operations in their order.
    ///
    /// # Errors
    /// An operation that does not apply, in the library's words, or a build that takes too many steps.
    pub fn apply(&self, document: &mut Data) -> Result<(), Error> {
        let mut room = Room { nodes: MAX_COPIED, bytes: MAX_COPIED_TEXT };
        self.0.iter().try_for_each(|operation| {
            build_steps::count(1)?;
            apply(document, operation, &mut room).map_err(Error::Patch)
        })
    }
}

/// A list or map of a document, and the key below it that an operation names.
type Place<'d> = (&'d mut Data, String);

fn text<'o>(operation: &'o Map, key: &str) -> Result<&'o str, String> {
    let missing = match key {
        "path" => "operation missing path field: missing value",
        _ => "operation, missing from field: missing value",
    };
    match operation.get(key) {
        None | Some(Data::Null) => Err(missing.to_owned()),
        Some(Data::String(text)) => Ok(text),
        Some(_) => Err(format!("the {key} field is not a string")),
    }
}

/// What the `copy` operations of a patch may still add.
struct Room {
    nodes: usize,
    bytes: usize,
}

impl Room {
    fn take(&mut self, copied: &Data) -> Result<(), String> {
        let (nodes, bytes) = size(copied);
        build_steps::note(nodes.saturating_add(bytes / 64));
        self.nodes = self
            .nodes
            .checked_sub(nodes)
            .ok_or_else(|| format!("copy operations add more than {MAX_COPIED} nodes"))?;
        let mib = MAX_COPIED_TEXT >> 20;
        self.bytes = self
            .bytes
            .checked_sub(bytes)
            .ok_or_else(|| format!("copy operations add more than {mib} MiB of text"))?;
        Ok(())
    }
}

fn apply(document: &mut Data, operation: &Map, room: &mut Room) -> Result<(), String> {
    let kind = operation.get("op").and_then(Data::as_str).unwrap_or("unknown");
    let value = || operation.get("value").cloned();
    let path = text(operation, "path");
    match kind {
        "add" => {
            let path = path.map_err(|_| "add operation failed to decode path: missing value")?;
            let (parent, key) = find(document, path).ok_or_else(|| {
                format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
            })?;
            let value = value().unwrap_or_default();
            check_depth(path, &value)?;
            add(parent, &key, value).map_err(|e| format!("error in add for path: '{path}': {e}"))
        }
        "remove" => {
            let path = path.map_err(|_| "remove operation failed to decode path: missing value")?;
            let (parent, key) = find(document, path).ok_or_else(|| {
                format!("remove operation does not apply: doc is missing path: \"{path}\": missing value")
            })?;
            remove(parent, &key).map_err(|e| format!("error in remove for path: '{path}': {e}"))
        }
        "replace" => {
            let path = path.map_err(|e| format!("replace operation failed to decode path: {e}"))?;
            replace(document, path, value().unwrap_or_default())
        }
        "move" => {
            let from =
                text(operation, "from").map_err(|e| format!("move operation failed to decode from: {e}"))?;
            let (parent, key) = find(document, from).ok_or_else(|| {
                format!("move operation does not apply: doc is missing from path: {from}: missing value")
            })?;
            let failed = |e: String| format!("error in move for path: '{key}': {e}");
            let moved = get(parent, &key).map_err(failed)?.cloned();
            remove(parent, &key).map_err(failed)?;
            let path = path.map_err(|e| format!("move operation failed to decode path: {e}"))?;
            let (parent, key) = find(document, path).ok_or_else(|| {
                format!(
                    "move operation does not apply: doc is missing destination path: {path}: missing value"
                )
            })?;
            let moved = moved.unwrap_or_default();
            check_depth(path, &moved)?;
            add(parent, &key, moved).map_err(|e| format!("error in move for path: '{path}': {e}"))
        }
        "copy" => {
            let from =
                text(operation, "from").map_err(|e| format!("copy operation failed to decode from: {e}"))?;
            let (parent, key) = find(document, from).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {from}: missing value")
            })?;
            let copied = get(parent, &key).map_err(|e| format!("error in copy for from: '{from}': {e}"))?;
            copied.map_or(Ok(()), |copied| room.take(copied))?;
            let copied = copied.cloned();
            let path = path.map_err(|_| "copy operation failed to decode path: missing value")?;
            let (parent, key) = find(document, path).ok_or_else(|| {
                format!(
                    "copy operation does not apply: doc is missing destination path: {path}: missing value"
                )
            })?;
            let copied = copied.unwrap_or_default();
            check_depth(path, &copied)?;
            add(parent, &key, copied).map_err(|e| format!("error while adding value during copy: {e}"))
        }
        "test" => {
            let path = path.map_err(|e| format!("test operation failed to decode path: {e}"))?;
            test(document, path, operation.get("value").unwrap_or(&Data::Null))
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// Nodes of a value, and bytes of its texts and keys.
fn size(data: &Data) -> (usize, usize) {
    let add = |(nodes, bytes): (usize, usize), more: (usize, usize)| (nodes + more.0, bytes + more.1);
    match data {
        Data::List(items) => items.iter().map(size).fold((1, 0), add),
        Data::Map(map) => map.iter().map(|(key, value)| add((0, key.len()), size(value))).fold((1, 0), add),
        Data::String(text) => (1, text.len()),
        _ => (1, 0),
    }
}

fn depth(data: &Data) -> usize {
    build_steps::note(1);
    1 + match data {
        Data::List(items) => items.iter().map(depth).max().unwrap_or(0),
        Data::Map(map) => map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Refuses a value that makes the document deeper than YAML may be.
fn check_depth(path: &str, value: &Data) -> Result<(), String> {
    if path.matches('/').count() + depth(value) > MAX_DEPTH {
        return Err(format!("the document would be deeper than {MAX_DEPTH}"));
    }
    Ok(())
}

fn replace(document: &mut Data, path: &str, value: Data) -> Result<(), String> {
    check_depth(path, &value)?;
    if path.is_empty() {
        if !matches!(value, Data::List(_) | Data::Map(_)) {
            return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
        }
        *document = value;
        return Ok(());
    }
    let (parent, key) = find(document, path).ok_or_else(|| {
        format!("replace operation does not apply: doc is missing path: {path}: missing value")
    })?;
    let missing = |_| format!("replace operation does not apply: doc is missing key: {path}: missing value");
    get(parent, &key).map_err(missing)?;
    match parent {
        Data::Map(map) => drop(map.insert(key, value)),
        Data::List(items) => {
            let at = index(&key, items.len())?;
            if let Some(place) = items.get_mut(at) {
                *place = value;
            }
        }
        _ => {}
    }
    Ok(())
}

fn test(document: &mut Data, path: &str, value: &Data) -> Result<(), String> {
    let failed = || Err(format!("testing value {path} failed: test failed"));
    if path.is_empty() {
        return if document == value { Ok(()) } else { failed() };
    }
    let (parent, key) = find(document, path)
        .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: missing value"))?;
    let found = get(parent, &key).map_err(|e| format!("error in test for path: '{path}': {e}"))?;
    if found.unwrap_or(&Data::Null) == value { Ok(()) } else { failed() }
}

fn decode(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// The list or map in which a path ends.
fn find<'d>(document: &'d mut Data, path: &str) -> Option<Place<'d>> {
    build_steps::note(build_steps::of_text(path));
    let mut parts: Vec<&str> = path.split('/').skip(1).collect();
    let key = decode(parts.pop()?);
    let mut at = document;
    for part in parts {
        let part = decode(part);
        at = match at {
            Data::Map(map) => map.get_mut(&part)?,
            Data::List(items) => {
                let at = index(&part, items.len()).ok()?;
                items.get_mut(at)?
            }
            _ => return None,
        };
        if !matches!(at, Data::Map(_) | Data::List(_)) {
            return None;
        }
    }
    Some((at, key))
}

fn number(key: &str) -> Result<i64, String> {
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {key:?}: invalid syntax"))
}

/// An index below `len`; negative ones count from the end.
fn index(key: &str, len: usize) -> Result<usize, String> {
    let n = number(key)?;
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let at = if n < 0 { n + len } else { n };
    usize::try_from(at)
        .ok()
        .filter(|_| at < len)
        .ok_or_else(|| format!("Unable to access invalid index: {n}: invalid index referenced"))
}

fn get<'d>(parent: &'d Data, key: &str) -> Result<Option<&'d Data>, String> {
    match parent {
        Data::Map(map) => Ok(map.get(key)),
        Data::List(items) => index(key, items.len()).map(|at| items.get(at)),
        _ => Ok(None),
    }
}

fn add(parent: &mut Data, key: &str, value: Data) -> Result<(), String> {
    match parent {
        Data::Map(map) => drop(map.insert(key.to_owned(), value)),
        Data::List(items) if key == "-" => items.push(value),
        Data::List(items) => {
            let e = |e| format!("value was not a proper array index: '{key}': {e}");
            number(key).map_err(e)?;
            let at = index(key, items.len() + 1)?;
            // Those behind it move.
            build_steps::note((items.len() - at) / 16);
            items.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(parent: &mut Data, key: &str) -> Result<(), String> {
    match parent {
        Data::Map(map) => match map.remove(key) {
            Some(_) => Ok(()),
            None => Err(format!("Unable to remove nonexistent key: {key}: missing value")),
        },
        Data::List(items) => {
            let at = index(key, items.len())?;
            build_steps::note((items.len() - at) / 16);
            items.remove(at);
            Ok(())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_bounded() {
        let mut document = json::from_slice(br#"{"a":{"b":[1,2,3,4,5,6,7,8,9,10]}}"#).unwrap();
        let copy = r#"{"op":"copy","from":"/a","path":"/a/NAME"}"#;
        let copies: Vec<String> = (0..40).map(|n| copy.replace("NAME", &format!("n{n}"))).collect();
        let patch = JsonPatch::parse(&format!("[{}]", copies.join(","))).unwrap();
        let failed = patch.apply(&mut document).unwrap_err().to_string();
        assert_eq!(failed, "copy operations add more than 1000000 nodes");
        let deep = format!("{}{}", "[".repeat(400), "]".repeat(400));
        let path = "/0".repeat(399);
        let text = format!(
            r#"[{{"op":"add","path":"/d","value":{deep}}},{{"op":"add","path":"/d{path}/-","value":{deep}}}]"#
        );
        let failed = JsonPatch::parse(&text).unwrap().apply(&mut document).unwrap_err().to_string();
        assert_eq!(failed, "the document would be deeper than 500");
    }
}
