//! The values that a chart imports from its subcharts: a tree that shares tables with the values it comes from.
//!
//! In Go, an imported table *is* the subchart's table until another table is merged into it, and that merge then shows in
//! the subchart, too. Owns this sharing, and no other part of dependency processing.

use std::collections::BTreeMap;

use super::Warn;
use super::coalesce::merge_tables;
use super::error::Error;
use super::preparation::{ENTRY, Preparation};
use crate::data::{Data, Map};
use crate::path;

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

/// The deepest values that imports may make.
const MAX_DEPTH: usize = 1_000;

/// The imported values so far.
pub(super) struct Imports<'p, 's> {
    tree: Tree,
    preparation: &'p Preparation<'s>,
}

impl<'p, 's> Imports<'p, 's> {
    pub(super) fn new(preparation: &'p Preparation<'s>) -> Self {
        Self { tree: Tree::new(), preparation }
    }

    /// Merges the table at `child` of the values into `parent`; existing entries have precedence.
    ///
    /// # Errors
    /// A path has too many parts, or copies take more memory than they may.
    pub(super) fn add(
        &mut self,
        values: &mut Map,
        child: &str,
        parent: &str,
        warn: Warn<'_>,
    ) -> Result<(), Error> {
        let dotted = |text| path::dotted(text).map_err(|bound| Error::bound("import-values", bound));
        let path: Vec<String> = dotted(child)?.into_iter().map(str::to_owned).collect();
        let p = self.preparation;
        p.take(child.len() + parent.len() + ENTRY * path.len(), "import-values")?;
        let tree = match parent {
            "." => children(values, &path, p)?,
            _ => {
                let mut parts = dotted(parent)?.into_iter().rev();
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
        merge(&mut self.tree, tree, values, "", p, warn)
    }

    /// Returns the imported values as an independent map.
    ///
    /// # Errors
    /// They would be too deep: what is imported may be imported again, each time below a path.
    pub(super) fn resolve(self, values: &Map) -> Result<Map, Error> {
        let imported = resolve(self.tree, values);
        if is_deeper(&imported, MAX_DEPTH, self.preparation)? {
            let bound = format!("the imported values are nested deeper than {MAX_DEPTH}");
            return Err(Error::bound("import-values", bound));
        }
        Ok(imported)
    }
}

/// Whether maps nest deeper than so many levels.
fn is_deeper(map: &Map, levels: usize, preparation: &Preparation<'_>) -> Result<bool, Error> {
    preparation.step(map.len())?;
    if levels == 0 {
        return Ok(true);
    }
    for inner in map.values().filter_map(Data::as_map) {
        if is_deeper(inner, levels - 1, preparation)? {
            return Ok(true);
        }
    }
    Ok(false)
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

fn at_mut<'v>(
    values: &'v mut Map,
    path: &[String],
    preparation: &Preparation<'_>,
) -> Result<Option<&'v mut Map>, Error> {
    let mut at = values;
    for key in path {
        match preparation.own(at, key)?.get_mut(key).and_then(Data::as_map_mut) {
            Some(inner) => at = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// The entries of a table of the values; tables among them are shared.
fn children(values: &Map, path: &[String], preparation: &Preparation<'_>) -> Result<Tree, Error> {
    let way: usize = path.iter().map(|part| size_of::<String>() + part.len()).sum();
    let mut tree = Tree::new();
    for (key, value) in at(values, path).into_iter().flatten() {
        preparation.take(ENTRY + 2 * key.len(), key)?;
        let node = match value {
            Data::Map(_) => {
                preparation.take(way, key)?;
                Node::Shared(path.iter().chain([key]).cloned().collect())
            }
            other => {
                preparation.take_copy(other, key)?;
                Node::Leaf(other.clone())
            }
        };
        tree.insert(key.clone(), node);
    }
    Ok(tree)
}

/// Copies the nulls of a table into the table that it is merged with: that one is shared with other values, too.
fn hand_nulls(
    values: &mut Map,
    into: &[String],
    from: &Node,
    preparation: &Preparation<'_>,
) -> Result<(), Error> {
    let table = |values: &Map, path: &[String]| at(values, path).is_some();
    let below = |path: &[String], key: &String| [path, std::slice::from_ref(key)].concat();
    match from {
        Node::Leaf(_) => {}
        Node::Own(tree) => {
            for (key, node) in tree {
                preparation.step(1 + into.len())?;
                let into = below(into, key);
                if table(values, &into) {
                    hand_nulls(values, &into, node, preparation)?;
                }
            }
        }
        Node::Shared(path) => {
            let held = at(values, into).into_iter().flatten();
            let held = held.filter(|(_, v)| **v == Data::Null).map(|(k, _)| k.clone()).collect();
            set_null(values, path, held, preparation)?;
            let tables = at(values, path).into_iter().flatten().filter(|(_, v)| v.as_map().is_some());
            for key in tables.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                preparation.step(1 + into.len() + path.len())?;
                let (into, path) = (below(into, &key), below(path, &key));
                // A table merged into itself adds no nulls.
                if into != path && table(values, &into) {
                    hand_nulls(values, &into, &Node::Shared(path), preparation)?;
                }
            }
        }
    }
    Ok(())
}

fn set_null(
    values: &mut Map,
    path: &[String],
    keys: Vec<String>,
    preparation: &Preparation<'_>,
) -> Result<(), Error> {
    preparation.step(keys.len() + path.len())?;
    if let Some(map) = at_mut(values, path, preparation)? {
        let map = preparation.own(map, "import-values")?;
        map.extend(keys.into_iter().map(|key| (key, Data::Null)));
    }
    Ok(())
}

/// `MergeTables` of imported values.
fn merge(
    into: &mut Tree,
    from: Tree,
    values: &mut Map,
    prefix: &str,
    p: &Preparation<'_>,
    warn: Warn<'_>,
) -> Result<(), Error> {
    for (key, new) in from {
        p.step(1 + prefix.len() / 16)?;
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match (into.get_mut(&key), new) {
            (None, new) => {
                into.insert(key, new);
            }
            (Some(Node::Own(old)), Node::Own(new)) => merge(old, new, values, &path, p, warn)?,
            (Some(Node::Own(old)), Node::Shared(new)) => {
                let nulls = old.iter().filter(|(_, node)| matches!(node, Node::Leaf(Data::Null)));
                set_null(values, &new, nulls.map(|(key, _)| key.clone()).collect(), p)?;
                merge(old, children(values, &new, p)?, values, &path, p, warn)?;
            }
            (Some(Node::Shared(old)), new @ (Node::Own(_) | Node::Shared(_))) => {
                hand_nulls(values, old, &new, p)?;
                let new = resolve(Tree::from([(key, new)]), values).into_iter().next();
                if let (Some(old), Some((_, Data::Map(new)))) = (at_mut(values, old, p)?, new) {
                    merge_tables(old, &new, p, warn)?;
                }
            }
            (Some(old), new) => {
                // One side is not a table: the plain merge has the warning.
                let data = |node, values: &Map| match node {
                    Node::Leaf(data) => data,
                    other => Data::Map(resolve(Tree::from([(String::new(), other)]), values)),
                };
                let held = match old {
                    Node::Leaf(held) => {
                        p.take_copy(held, &path)?;
                        held.clone()
                    }
                    Node::Own(_) | Node::Shared(_) => Data::Map(Map::new()),
                };
                let mut scratch = Map::from([(path.clone(), held)]);
                merge_tables(&mut scratch, &Map::from([(path, data(new, values))]), p, warn)?;
            }
        }
    }
    Ok(())
}
