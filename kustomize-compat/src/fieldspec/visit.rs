//! The visit of a field in an object.
//!
//! Owns how lists on the way are walked and how missing fields are made (kustomize's `fieldspec.Filter`).

use chart_compat::yaml::tree::{Kind, Node};

use super::FieldSpec;
use super::lookup::get_part_mut;
use crate::error::Error;
use crate::resource::Gvk;
use crate::resource::node::{check_kind, metadata_text, push, set};
use crate::resource::shared::set_number;
use crate::resource::{build_steps, growth};

/// What a missing field becomes.
#[derive(Clone, Copy, Debug)]
pub struct Create {
    /// The node kind.
    pub kind: Kind,
    /// The tag of a null that takes the kind.
    pub tag: &'static str,
}

/// A function that changes a field.
type Setter<'s> = &'s mut dyn FnMut(&mut Node) -> Result<(), Error>;

/// Changes a field of an object, if the object is of the field's kind and has the field, or the field may be made.
///
/// # Errors
/// A part of the path is not a map or list, the path is too long, the change fails, or the build takes too many steps.
pub fn visit(
    spec: &FieldSpec,
    object: &mut Node,
    create: Option<Create>,
    setter: Setter<'_>,
) -> Result<(), Error> {
    build_steps::count(1)?;
    if !applies(spec, object) {
        return Ok(());
    }
    super::check_length(&spec.parts)?;
    let create = create.filter(|_| spec.create);
    walk(object, &spec.parts, create, setter).map_err(|e| {
        let (gvk, name, namespace) =
            (Gvk::of(object), metadata_text(object, "name"), metadata_text(object, "namespace"));
        let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
        let (name, namespace) = (or(name, "[noName]"), or(namespace, "[noNs]"));
        e.within(format!("considering field '{}' of object {gvk}/{name}.{namespace}", spec.path))
    })
}

/// Changes fields of an object in their order.
///
/// # Errors
/// As [`visit`].
pub fn visit_all(
    specs: &[FieldSpec],
    object: &mut Node,
    create: Option<Create>,
    setter: Setter<'_>,
) -> Result<(), Error> {
    specs.iter().try_for_each(|spec| visit(spec, object, create, setter))
}

fn applies(spec: &FieldSpec, object: &Node) -> bool {
    let text = |key| object.get(key).map_or("", |v| v.value.as_str());
    if !spec.gvk.kind.is_empty() && spec.gvk.kind != text("kind") {
        return false;
    }
    if spec.gvk.group.is_empty() && spec.gvk.version.is_empty() {
        return true;
    }
    let api_version = text("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    (spec.gvk.group.is_empty() || spec.gvk.group == group)
        && (spec.gvk.version.is_empty() || spec.gvk.version == version)
}

fn walk(node: &mut Node, path: &[String], create: Option<Create>, setter: Setter<'_>) -> Result<(), Error> {
    build_steps::count(1)?;
    if path.is_empty() {
        return setter(node);
    }
    if node.is_null() {
        return Ok(());
    }
    match node.kind {
        Kind::List => {
            let items = &mut node.content;
            items
                .iter_mut()
                .try_for_each(|item| walk(item, path, create, setter))
                .map_err(|e| e.within(format!("visit traversal on path: [{}]", path.join(" "))))
        }
        Kind::Map => walk_map(node, path, create, setter),
        Kind::Document | Kind::Scalar | Kind::Alias => Err(Error::text("expected sequence or mapping node")),
    }
}

fn walk_map(
    node: &mut Node,
    path: &[String],
    create: Option<Create>,
    setter: Setter<'_>,
) -> Result<(), Error> {
    let [first, rest @ ..] = path else { return Ok(()) };
    let name = first.strip_suffix("[]").unwrap_or(first);
    if name.is_empty() {
        return Err(Error::text("cannot set or create an empty field name"));
    }
    let is_list = name.len() != first.len();
    let made = match create.filter(|_| !is_list) {
        None if is_list => Some((Kind::List, "", false)),
        None => None,
        Some(create) if rest.is_empty() => Some((create.kind, create.tag, true)),
        Some(_) => Some((Kind::Map, "!!map", true)),
    };
    if let Some((kind, _, true)) = made
        && node.place(name).is_none()
    {
        push(node, name, Node { kind, ..Node::default() })?;
    }
    let found = get_part_mut(node, name).map_err(|e| e.within(format!("fieldName: {name}")))?;
    let Some(field) = found else { return Ok(()) };
    if let Some((kind, tag, _)) = made
        && field.is_null()
    {
        field.kind = kind;
        tag.clone_into(&mut field.tag);
    }
    walk(field, rest, create, setter)
}

/// Sets a scalar, which keeps its style (`FieldSetter` without a name).
///
/// # Errors
/// The node is not a scalar, or the build makes too much.
pub fn set_scalar(node: &mut Node, text: &str, tag: &str) -> Result<(), Error> {
    check_kind(node, Kind::Scalar)?;
    growth::change(node.value.len(), text.len())?;
    *node = Node {
        tag: tag.to_owned(),
        value: text.to_owned(),
        style: node.style,
        tagged: node.tagged,
        flow: node.flow,
        anchor: std::mem::take(&mut node.anchor),
        ..Node::default()
    };
    Ok(())
}

/// Sets a text of a map. Returns whether the key is new: its node is then marked with a number, since one node stands at all places
/// where it is new.
///
/// # Errors
/// The node is not a map.
pub(crate) fn set_entry(node: &mut Node, key: &str, text: &str, number: usize) -> Result<bool, Error> {
    build_steps::count(node.content.len() / 16)?;
    let new = node.place(key).is_none();
    set(node, key, Node { tag: "!!str".to_owned(), value: text.to_owned(), ..Node::default() })?;
    if new && let Some(entry) = node.get_mut(key) {
        set_number(entry, number);
    }
    Ok(new)
}
