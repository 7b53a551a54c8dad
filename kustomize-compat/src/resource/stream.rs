//! Streams of YAML documents to objects.
//!
//! Owns which documents are objects: lists are replaced by their items, empty documents are left out.

use std::collections::{HashSet, VecDeque};

use chart_compat::data::Data;
use chart_compat::kyaml;
use chart_compat::yaml::Room;
use chart_compat::yaml::tree::{Kind, Node};

use super::node::{is_empty, metadata_map, metadata_text, value};
use super::{Resource, from_data, to_data};
use crate::error::Error;
use crate::schema::Schemas;

/// Reads a stream of objects. The items of lists come last.
///
/// # Errors
/// A document that is not YAML, or an object without kind or name.
pub fn read(text: &str) -> Result<Vec<Resource>, Error> {
    read_within(text, &Room::default())
}

/// Reads one of several streams that share room, as [`read`].
pub(crate) fn read_within(text: &str, room: &Room) -> Result<Vec<Resource>, Error> {
    let nodes = kyaml::read_resolved(text, room).map_err(|e| match e {
        kyaml::Error::Malformed(_) => Error::Malformed(e.to_string()),
        kyaml::Error::Other(text) => Error::Stream(text),
    })?;
    let mut queue: VecDeque<Node> = checked(nodes)?.into();
    let mut out = Vec::new();
    while let Some(node) = queue.pop_front() {
        let kind = node.get("kind").map(|k| k.value.clone()).unwrap_or_default();
        if !kind.ends_with("List") || node.get("items").is_none() {
            out.push(Resource::new(node));
            continue;
        }
        let data = to_data(&node).map_err(|e| e.within(format!("trouble expanding list of {kind}; ")))?;
        let items = match data.get("items") {
            None | Some(Data::Null) => Vec::new(),
            Some(Data::List(items)) => items.clone(),
            Some(other) => {
                let found = go_type(other);
                return Err(Error::Stream(format!("expected array in {kind}/items, but found {found}")));
            }
        };
        queue.extend(checked(items.iter().map(from_data).collect())?);
    }
    Ok(out)
}

/// The name of a value's type in Go.
fn go_type(data: &Data) -> &'static str {
    match data {
        Data::Null => "<nil>",
        Data::Bool(_) => "bool",
        Data::Int(_) => "int",
        Data::Float(_) => "float64",
        Data::String(_) => "string",
        Data::List(_) => "[]interface {}",
        Data::Map(_) => "map[string]interface {}",
    }
}

/// Leaves out what is empty, and refuses what has no kind or name.
fn checked(nodes: Vec<Node>) -> Result<Vec<Node>, Error> {
    let mut out = Vec::with_capacity(nodes.len());
    for node in nodes {
        if is_empty(&node) {
            continue;
        }
        check_identity(&node)?;
        out.push(node);
    }
    Ok(out)
}

/// Refuses an object without kind or name; lists need no name.
pub(crate) fn check_identity(node: &Node) -> Result<(), Error> {
    if !kyaml::has_head(node) {
        return Err(Error::Stream("missing Resource metadata".to_owned()));
    }
    let kind = value(node, "kind").filter(|k| k.kind == Kind::Scalar).map_or("", |k| k.value.as_str());
    let field = match kind {
        "" => "kind",
        kind if kind.ends_with("List") => return Ok(()),
        _ if metadata_text(node, "name").is_empty() => "metadata.name",
        _ => return Ok(()),
    };
    Err(Error::Identity { field, object: format_metadata(node, kind) })
}

/// The metadata of an object as Go prints the struct.
fn format_metadata(node: &Node, kind: &str) -> String {
    let map = |key| {
        let pairs: Vec<String> = metadata_map(node, key).iter().map(|(k, v)| format!("{k}:{v}")).collect();
        format!("map[{}]", pairs.join(" "))
    };
    let api_version = value(node, "apiVersion").map_or("", |v| v.value.as_str());
    let (name, namespace) = (metadata_text(node, "name"), metadata_text(node, "namespace"));
    format!(
        "{{{{{api_version} {kind}}} {{{{{name} {namespace}}} {} {}}}}}",
        map("labels"),
        map("annotations")
    )
}

/// Checks that each object has an identity of its own.
///
/// # Errors
/// Two objects have the same identity.
pub fn check_unique(objects: &[Resource], schemas: &Schemas) -> Result<(), Error> {
    let mut known = HashSet::with_capacity(objects.len());
    for id in objects.iter().map(|object| object.id(schemas)) {
        if !known.insert(id.key()) {
            return Err(Error::Duplicate(id.to_string()));
        }
    }
    Ok(())
}
