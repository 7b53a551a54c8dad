//! The values that a chart imports from its subcharts: a tree that shares tables with the values it comes from.
//!
//! In Go, an imported table *is* the subchart's table until another table is merged into it, and that merge then shows in
//! the subchart, too. Owns this sharing, and no other part of dependency processing.

use std::collections::BTreeMap;

use super::Warn;
use super::coalesce::merge_tables;
use crate::data::{Data, Map};

/// An imported value.
enum Node {
    /// A table created by the import.
    Own(Tree),
    /// The table at a path of the values.
    Shared(Vec<String>),
    /// A value that is not a table.
    Leaf(Data),
}

type Tree = BTreeMap<String, Node>;

/// The imported values so far.
#[derive(Default)]
pub(super) struct Imports {
    tree: Tree,
}

impl Imports {
    /// Merges the table at `child` of the values into `parent`; existing entries have precedence.
    pub(super) fn add(&mut self, values: &mut Map, child: &str, parent: &str, warn: Warn<'_>) {
        let path: Vec<String> = child.split('.').map(str::to_owned).collect();
        let tree = match parent {
            "." => children(values, &path),
            _ => {
                let mut parts = parent.rsplit('.');
                let last = parts.next().unwrap_or_default().to_owned();
                // Helm creates a new table for an empty one (`Values.AsMap`).
                let table = match at(values, &path) {
                    Some(table) if !table.is_empty() => Node::Shared(path),
                    _ => Node::Own(Tree::new()),
                };
                let leaf = Tree::from([(last, table)]);
                parts.fold(leaf, |tree, part| Tree::from([(part.to_owned(), Node::Own(tree))]))
            }
        };
        merge(&mut self.tree, tree, values, "", warn);
    }

    /// Returns the imported values as an independent map.
    pub(super) fn resolve(self, values: &Map) -> Map {
        resolve(self.tree, values)
    }
}

fn resolve(tree: Tree, values: &Map) -> Map {
    let data = |node| match node {
        Node::Own(tree) => Data::Map(resolve(tree, values)),
        Node::Shared(path) => Data::Map(at(values, &path).cloned().unwrap_or_default()),
        Node::Leaf(data) => data,
    };
    tree.into_iter().map(|(key, node)| (key, data(node))).collect()
}

fn at<'v>(values: &'v Map, path: &[String]) -> Option<&'v Map> {
    path.iter().try_fold(values, |map, key| map.get(key).and_then(Data::as_map))
}

fn at_mut<'v>(values: &'v mut Map, path: &[String]) -> Option<&'v mut Map> {
    path.iter().try_fold(values, |map, key| map.get_mut(key).and_then(Data::as_map_mut))
}

/// The entries of a table of the values; tables among them are shared.
fn children(values: &Map, path: &[String]) -> Tree {
    let node = |key: &String, value: &Data| match value {
        Data::Map(_) => Node::Shared(path.iter().chain([key]).cloned().collect()),
        other => Node::Leaf(other.clone()),
    };
    at(values, path).into_iter().flatten().map(|(key, value)| (key.clone(), node(key, value))).collect()
}

/// Copies the nulls of a table into the table that it is merged with: that one is shared with other values, too.
fn hand_nulls(values: &mut Map, into: &[String], from: &Node) {
    let table = |values: &Map, path: &[String]| at(values, path).is_some();
    let below = |path: &[String], key: &String| [path, std::slice::from_ref(key)].concat();
    match from {
        Node::Leaf(_) => {}
        Node::Own(tree) => {
            for (key, node) in tree {
                let into = below(into, key);
                if table(values, &into) {
                    hand_nulls(values, &into, node);
                }
            }
        }
        Node::Shared(path) => {
            let held = at(values, into).into_iter().flatten();
            set_null(values, path, held.filter(|(_, v)| **v == Data::Null).map(|(k, _)| k.clone()).collect());
            let tables = at(values, path).into_iter().flatten().filter(|(_, v)| v.as_map().is_some());
            for key in tables.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                let (into, path) = (below(into, &key), below(path, &key));
                // A table merged into itself adds no nulls.
                if into != path && table(values, &into) {
                    hand_nulls(values, &into, &Node::Shared(path));
                }
            }
        }
    }
}

fn set_null(values: &mut Map, path: &[String], keys: Vec<String>) {
    if let Some(map) = at_mut(values, path) {
        map.extend(keys.into_iter().map(|key| (key, Data::Null)));
    }
}

/// `MergeTables` of imported values.
fn merge(into: &mut Tree, from: Tree, values: &mut Map, prefix: &str, warn: Warn<'_>) {
    for (key, new) in from {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (into.get_mut(&key), new) {
            (None, new) => {
                into.insert(key, new);
            }
            (Some(Node::Own(old)), Node::Own(new)) => merge(old, new, values, &path, warn),
            (Some(Node::Own(old)), Node::Shared(new)) => {
                let nulls = old.iter().filter(|(_, node)| matches!(node, Node::Leaf(Data::Null)));
                set_null(values, &new, nulls.map(|(key, _)| key.clone()).collect());
                merge(old, children(values, &new), values, &path, warn);
            }
            (Some(Node::Shared(old)), new @ (Node::Own(_) | Node::Shared(_))) => {
                hand_nulls(values, old, &new);
                let new = resolve(Tree::from([(key, new)]), values).into_iter().next();
                if let (Some(old), Some((_, Data::Map(new)))) = (at_mut(values, old), new) {
                    merge_tables(old, &new, warn);
                }
            }
            (Some(old), new) => {
                // One side is not a table: the plain merge has the warning.
                let data = |node, values: &Map| match node {
                    Node::Leaf(data) => data,
                    other => Data::Map(resolve(Tree::from([(String::new(), other)]), values)),
                };
                let held = match old {
                    Node::Leaf(held) => held.clone(),
                    Node::Own(_) | Node::Shared(_) => Data::Map(Map::new()),
                };
                let mut scratch = Map::from([(path.clone(), held)]);
                merge_tables(&mut scratch, &Map::from([(path, data(new, values))]), warn);
            }
        }
    }
}
