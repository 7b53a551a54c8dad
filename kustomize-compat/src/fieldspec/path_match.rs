//! Paths that may lead to many fields, as kyaml's `PathMatcher` follows them.
//!
//! Owns wildcards, `[name=pattern]` parts, and the making of missing fields.

use chart_compat::go::regexp::compile;
use chart_compat::yaml::tree::{self, Kind, Node, Writer};

use super::lookup::{is_item, split_item};
use crate::error::Error;
use crate::resource::build_steps;
use crate::resource::node::{check_kind, scalar, set};
use crate::resource::shared::without_marks;

/// A field that a path leads to.
#[derive(Clone, Debug)]
pub enum Found {
    /// Its places below each other.
    Place(Vec<usize>),
    /// It lies in a text that holds YAML; changing it changes nothing.
    Apart(Node),
}

/// The fields that a path leads to. Missing ones are made of a kind, if one is given.
///
/// # Errors
/// A part of the path is of another kind or is not valid, or the path is too long.
pub fn find(node: &mut Node, path: &[String], create: Option<Kind>) -> Result<Vec<Found>, Error> {
    super::check_length(path)?;
    let mut matcher = Matcher { create, found: Vec::new(), at: Vec::new() };
    matcher.walk(node, path)?;
    Ok(matcher.found)
}

struct Matcher {
    create: Option<Kind>,
    found: Vec<Found>,
    at: Vec<usize>,
}

fn index(part: &str) -> Option<usize> {
    part.parse::<i64>().ok().and_then(|n| usize::try_from(n).ok())
}

/// A node as YAML, without the white space around it.
fn node_text(node: &Node) -> String {
    let mut writer = Writer::new();
    writer.document(&without_marks(node));
    writer.finish().trim().to_owned()
}

impl Matcher {
    fn walk(&mut self, node: &mut Node, path: &[String]) -> Result<(), Error> {
        build_steps::count(1 + node.content.len() / 32)?;
        let [first, rest @ ..] = path else {
            self.found.push(Found::Place(self.at.clone()));
            return Ok(());
        };
        if let Some(index) = index(first) {
            return self.walk_index(node, index, rest);
        }
        if is_item(first) {
            return self.walk_items(node, first, rest, true);
        }
        if first == "*" {
            check_kind(node, Kind::List)?;
            for at in 0..node.content.len() {
                self.walk_child(node, at, rest)?;
            }
            return Ok(());
        }
        self.walk_field(node, first, rest)
    }

    fn walk_child(&mut self, node: &mut Node, at: usize, rest: &[String]) -> Result<(), Error> {
        let Some(child) = node.content.get_mut(at) else { return Ok(()) };
        self.at.push(at);
        let walked = self.walk(child, rest);
        self.at.pop();
        walked
    }

    /// The kind of a field that is made before the rest of a path.
    fn kind_before(kind: Kind, rest: &[String]) -> Kind {
        match rest.first() {
            None => kind,
            Some(part) if is_item(part) || index(part).is_some() => Kind::List,
            Some(part) if part.is_empty() => kind,
            Some(_) => Kind::Map,
        }
    }

    fn walk_field(&mut self, node: &mut Node, name: &str, rest: &[String]) -> Result<(), Error> {
        let place = if node.is_null() {
            None
        } else if name.is_empty() {
            check_kind(node, Kind::Scalar)?;
            return if node.value.is_empty() { self.walk(node, rest) } else { Ok(()) };
        } else {
            check_kind(node, Kind::Map)?;
            node.place(name)
        };
        let at = match (place, self.create) {
            (Some(at), _) => at + 1,
            (None, None) => return Ok(()),
            (None, Some(_)) if node.is_null() => {
                self.found.push(Found::Apart(scalar("")));
                return Ok(());
            }
            (None, Some(kind)) => {
                set(node, name, Node { kind: Self::kind_before(kind, rest), ..Node::default() })?;
                node.content.len() - 1
            }
        };
        if let Some(field) = node.content.get(at)
            && field.kind == Kind::Scalar
            && !rest.is_empty()
        {
            return self.walk_text(&field.value, rest);
        }
        self.walk_child(node, at, rest)
    }

    /// Follows a path into a text that holds YAML.
    fn walk_text(&mut self, text: &str, rest: &[String]) -> Result<(), Error> {
        build_steps::count(build_steps::of_text(text))?;
        let read = tree::read(text).map_err(|e| Error::text(e.to_string()))?;
        let Some(mut document) = read else {
            let content = String::new();
            return Err(Error::Kind { expected: "MappingNode", got: "", content });
        };
        let root = if document.kind == Kind::Document && !document.content.is_empty() {
            &mut document.content[0]
        } else {
            &mut document
        };
        for found in find(root, rest, self.create)? {
            let node = match found {
                Found::Place(places) => super::lookup::at(root, &places).cloned().unwrap_or_default(),
                Found::Apart(node) => node,
            };
            self.found.push(Found::Apart(node));
        }
        Ok(())
    }

    fn walk_index(&mut self, node: &mut Node, index: usize, rest: &[String]) -> Result<(), Error> {
        check_kind(node, Kind::List)?;
        if let Some(kind) = self.create
            && node.content.len() == index
        {
            node.content.push(Node { kind: Self::kind_before(kind, rest), ..Node::default() });
        }
        let count = node.content.len();
        if count <= index {
            return Err(Error::text(format!("index {index} specified but only {count} elements found")));
        }
        self.walk_child(node, index, rest)
    }

    fn walk_items(
        &mut self,
        node: &mut Node,
        part: &str,
        rest: &[String],
        may_create: bool,
    ) -> Result<(), Error> {
        let (name, pattern) = split_item(part)?;
        let before = self.found.len();
        check_kind(node, Kind::List)?;
        let mut compiled = None;
        for at in 0..node.content.len() {
            let compiled = match &compiled {
                Some(compiled) => compiled,
                None => {
                    let made = compile(pattern.as_bytes()).map_err(Error::Text)?;
                    build_steps::count(build_steps::of_memory(made.memory()))?;
                    compiled.insert(made)
                }
            };
            let Some(item) = node.content.get(at) else { continue };
            let shown = if name.is_empty() {
                node_text(item)
            } else {
                match item.get(name) {
                    Some(field) => node_text(field),
                    None => continue,
                }
            };
            build_steps::count(4 + build_steps::of_text(&shown))?;
            if !compiled.is_match(shown.as_bytes()) {
                continue;
            }
            // What follows an item that is found by its own value is ignored.
            let rest = if name.is_empty() { &[] } else { rest };
            self.walk_child(node, at, rest)?;
        }
        if self.found.len() > before || self.create.is_none() || !may_create {
            return Ok(());
        }
        node.content.push(if name.is_empty() {
            scalar(pattern)
        } else {
            let mut item = Node::map();
            item.push(name, scalar(pattern));
            item
        });
        // The new item is found now.
        self.walk_items(node, part, rest, false)
    }
}
