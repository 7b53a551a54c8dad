//! ConfigMaps and Secrets that a kustomization generates.
//!
//! Owns what is generated and its hash; the files come through a function.

pub mod hash;
mod sources;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::yaml::tree::{Kind, Node, Style};

use crate::error::Error;
use crate::kustomization::{GeneratorArgs, GeneratorOptions};
use crate::resource::node::{map_below, scalar, set};
use crate::resource::{Behavior, Resource};

/// Reads a file of the kustomization.
pub type Load<'l> = &'l dyn Fn(&str) -> Result<Vec<u8>, Error>;

/// How long a line of base64 is.
const LINE: usize = 70;

/// Generates a ConfigMap.
///
/// # Errors
/// There is no name, a source cannot be read, or a key stands twice.
pub fn config_map(args: &GeneratorArgs, load: Load<'_>) -> Result<Resource, Error> {
    let mut node = head("ConfigMap", args)?;
    for (key, value) in sources::read(args, load)? {
        let (field, text) = match String::from_utf8(value) {
            Ok(text) => ("data", text),
            Err(e) => ("binaryData", encode(e.as_bytes())),
        };
        set(map_below(&mut node, field)?, &key, text_node(text))?;
    }
    finish(node, args)
}

/// Generates a Secret.
///
/// # Errors
/// As [`config_map`].
pub fn secret(args: &GeneratorArgs, load: Load<'_>) -> Result<Resource, Error> {
    let mut node = head("Secret", args)?;
    let kind = if args.secret_type.is_empty() { "Opaque" } else { &args.secret_type };
    set(&mut node, "type", Node::string(kind))?;
    let data = sources::read(args, load)?;
    let map = map_below(&mut node, "data")?;
    for (key, value) in data {
        set(map, &key, text_node(encode(&value)))?;
    }
    finish(node, args)
}

fn text_node(text: String) -> Node {
    let style = if text.contains('\n') { Style::Literal } else { Style::Plain };
    Node { tag: "!!str".to_owned(), style, value: text, ..Node::default() }
}

/// Base64 in lines, if there is more than one.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    if text.len() < LINE {
        return text;
    }
    let mut out = String::with_capacity(text.len() + text.len() / LINE + 1);
    for (at, c) in text.char_indices() {
        if at > 0 && at % LINE == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    out.push('\n');
    out
}

fn head(kind: &str, args: &GeneratorArgs) -> Result<Node, Error> {
    let mut node = Node { tag: "!!map".to_owned(), ..Node::map() };
    node.push("apiVersion", Node { tag: "!!str".to_owned(), ..scalar("v1") });
    node.push("kind", Node { tag: "!!str".to_owned(), ..scalar(kind) });
    if args.name.is_empty() {
        return Err(Error::text("a configmap must have a name"));
    }
    let metadata = map_below(&mut node, "metadata")?;
    set(metadata, "name", Node::string(&args.name))?;
    if !args.namespace.is_empty() {
        set(metadata, "namespace", Node::string(&args.namespace))?;
    }
    Ok(node)
}

fn finish(mut node: Node, args: &GeneratorArgs) -> Result<Resource, Error> {
    let GeneratorOptions { labels, annotations, no_hash, immutable } = &args.options;
    for (field, pairs) in [("labels", labels), ("annotations", annotations)] {
        for (key, value) in pairs {
            let value = Node { style: Style::Single, ..Node::string(value) };
            set(map_below(map_below(&mut node, "metadata")?, field)?, key, value)?;
        }
    }
    if *immutable {
        set(&mut node, "immutable", Node { kind: Kind::Scalar, tag: "!!bool".to_owned(), ..scalar("true") })?;
    }
    let mut object = Resource::new(node);
    if !no_hash {
        object.ask_for_hash()?;
    }
    object.set_behavior(Behavior::parse(&args.behavior))?;
    Ok(object)
}

/// Adds the entries of an existing map to those of an object, whose own win, and writes them as a generator does.
pub(crate) fn merge_data(object: &mut Resource, old: &Resource) -> Result<(), Error> {
    for field in ["data", "binaryData"] {
        let mut map = std::collections::BTreeMap::new();
        for node in [&old.node, &object.node] {
            let Some(data) = node.get(field) else { continue };
            for (key, value) in data.content.chunks_exact(2).filter_map(|pair| pair.first().zip(pair.get(1)))
            {
                let value = if value.is_null() { String::new() } else { value.value.clone() };
                map.insert(key.value.clone(), value);
            }
        }
        object.node.remove(field);
        if map.is_empty() {
            continue;
        }
        let place = map_below(&mut object.node, field)?;
        for (key, value) in map {
            set(place, &key, text_node(value))?;
        }
    }
    Ok(())
}
