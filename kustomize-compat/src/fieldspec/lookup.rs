//! Paths in objects, as kyaml's `PathGetter` follows them.
//!
//! Owns names, indices and `[name=value]` parts of a path.

use chart_compat::yaml::tree::{Kind, Node};

use crate::error::Error;
use crate::resource::build_steps;
use crate::resource::node::{check_kind, push};

/// One part of a path.
enum Part<'p> {
    Index(usize),
    Last,
    Item(&'p str, &'p str),
    Name(&'p str),
}

/// Whether a part is in brackets.
#[must_use]
pub fn is_item(part: &str) -> bool {
    part.starts_with('[') && part.ends_with(']')
}

/// Splits `[name=value]`.
///
/// # Errors
/// There is no `=`.
pub fn split_item(part: &str) -> Result<(&str, &str), Error> {
    let inner = part.strip_suffix(']').unwrap_or(part);
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    let text = "list path element must contain fieldName=fieldValue for element to match";
    inner.split_once('=').ok_or_else(|| Error::text(text))
}

fn parse(part: &str) -> Result<Part<'_>, Error> {
    if let Ok(index) = part.parse::<i64>() {
        let negative = |_| Error::text(format!("array index {index} cannot be negative"));
        return usize::try_from(index).map(Part::Index).map_err(negative);
    }
    match part {
        "-" => Ok(Part::Last),
        "*" => Err(Error::text("wildcard is not supported in PathGetter")),
        part if is_item(part) => split_item(part).map(|(name, value)| Part::Item(name, value)),
        part => Ok(Part::Name(part)),
    }
}

/// Where the node of a part lies in its parent.
fn place(node: &Node, part: &str) -> Result<Option<usize>, Error> {
    // Names are looked for in a map, items in a list.
    build_steps::count(1 + node.content.len() / 8)?;
    match parse(part)? {
        Part::Name(name) => {
            if node.is_null() {
                return Ok(None);
            }
            check_kind(node, Kind::Map)?;
            Ok(node.place(name).map(|at| at + 1).filter(|at| *at < node.content.len()))
        }
        Part::Index(index) => {
            check_kind(node, Kind::List)?;
            Ok(Some(index).filter(|at| *at < node.content.len()))
        }
        Part::Last => {
            check_kind(node, Kind::List)?;
            Ok(node.content.len().checked_sub(1))
        }
        Part::Item(name, value) => {
            check_kind(node, Kind::List)?;
            Ok(node.content.iter().position(|item| {
                if name.is_empty() {
                    return item.value == value;
                }
                !item.is_null() && item.get(name).is_some_and(|found| found.value == value)
            }))
        }
    }
}

/// The parts that count: trimmed ones that are not empty.
fn clean(path: &[String]) -> impl Iterator<Item = &str> {
    path.iter().map(|part| part.trim()).filter(|part| !part.is_empty())
}

/// The places below each other that a path leads to.
///
/// # Errors
/// A part of the path is not a map or list, or is not valid.
pub fn places(node: &Node, path: &[String]) -> Result<Option<Vec<usize>>, Error> {
    let mut at = node;
    let mut out = Vec::new();
    for part in clean(path) {
        let Some(place) = place(at, part)? else { return Ok(None) };
        let Some(next) = at.content.get(place) else { return Ok(None) };
        out.push(place);
        at = next;
    }
    Ok(Some(out))
}

/// The node that a path leads to.
///
/// # Errors
/// A part of the path is not a map or list, or is not valid.
pub fn lookup<'n>(node: &'n Node, path: &[String]) -> Result<Option<&'n Node>, Error> {
    Ok(places(node, path)?.and_then(|places| at(node, &places)))
}

/// The node at places below each other.
#[must_use]
pub fn at<'n>(node: &'n Node, places: &[usize]) -> Option<&'n Node> {
    places.iter().try_fold(node, |node, place| node.content.get(*place))
}

/// The node at places below each other, to be changed.
pub fn at_mut<'n>(node: &'n mut Node, places: &[usize]) -> Option<&'n mut Node> {
    places.iter().try_fold(node, |node, place| node.content.get_mut(*place))
}

/// The node of one part.
///
/// # Errors
/// As [`lookup`].
pub(super) fn get_part_mut<'n>(node: &'n mut Node, part: &str) -> Result<Option<&'n mut Node>, Error> {
    let part = part.trim();
    if part.is_empty() {
        return Ok(Some(node));
    }
    Ok(match place(node, part)? {
        Some(place) => node.content.get_mut(place),
        None => None,
    })
}

/// The node that names lead to; missing ones are made: maps, and at the end a scalar.
///
/// # Errors
/// A part of the path is not a map, or the path is too long.
pub fn lookup_create<'n>(
    node: &'n mut Node,
    path: &[String],
    kind: Kind,
) -> Result<Option<&'n mut Node>, Error> {
    super::check_length(path)?;
    let parts: Vec<&str> = clean(path).collect();
    let mut at = node;
    for (number, part) in parts.iter().enumerate() {
        if at.is_null() {
            return Ok(None);
        }
        if matches!(parse(part)?, Part::Name(_)) {
            check_kind(at, Kind::Map)?;
            if at.place(part).is_none() {
                let next = parts.get(number + 1);
                let kind = match next {
                    None => kind,
                    Some(next) if is_item(next) || next.parse::<usize>().is_ok() => Kind::List,
                    Some(_) => Kind::Map,
                };
                push(at, part, Node { kind, ..Node::default() })?;
            }
        } else if let Part::Item(name, value) = parse(part)?
            && place(at, part)?.is_none()
        {
            let text = |text: &str| Node { value: text.to_owned(), ..Node::default() };
            let item = if name.is_empty() {
                text(value)
            } else {
                let mut item = Node::map();
                item.push(name, text(value));
                item
            };
            at.content.push(item);
        }
        let Some(place) = place(at, part)? else { return Ok(None) };
        let Some(next) = at.content.get_mut(place) else { return Ok(None) };
        at = next;
    }
    Ok(Some(at))
}
