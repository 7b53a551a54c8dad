//! Lists that are merged by key.
//!
//! Owns how items find their counterpart and in which order they stand: those of the patch come first.

use chart_compat::yaml::tree::{Kind, Node, Style};

use super::{Merger, NodeId};
use crate::error::Error;
use crate::schema::Schema;

impl<'a> Merger<'a> {
    pub(super) fn walk_keyed_list(
        &mut self,
        object: Option<NodeId>,
        patch: Option<NodeId>,
        items: Option<Schema<'a>>,
        keys: &[&str],
    ) -> Result<Option<NodeId>, Error> {
        let Some(list) = self.visit_keyed_list(object, patch)? else { return Ok(None) };
        let sources = [Some(list), patch];
        let mut values: Vec<Vec<String>> = Vec::new();
        // Items of the patch come first.
        for source in [patch, Some(list)].into_iter().flatten() {
            for value in self.key_values(source, keys) {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        let keys = if keys.is_empty() { &[""][..] } else { keys };
        self.merge_items(sources, values, items, keys, list)
    }

    fn visit_keyed_list(
        &mut self,
        object: Option<NodeId>,
        patch: Option<NodeId>,
    ) -> Result<Option<NodeId>, Error> {
        let Some(object) = object.filter(|id| !self.is_null(Some(*id))) else { return Ok(patch) };
        self.directed(object, patch)
    }

    /// The values of the keys of each item; the items themselves if there are no keys.
    fn key_values(&self, list: NodeId, keys: &[&str]) -> Vec<Vec<String>> {
        let list = self.arena.get(list);
        if list.kind != Kind::List {
            return Vec::new();
        }
        let text = |id: NodeId, key: &str| {
            let value = self.arena.field(id, key).map(|value| self.arena.get(value));
            let value = value.filter(|v| {
                !(v.is_null() || matches!(v.kind, Kind::Map | Kind::List) && v.content.is_empty())
            });
            value.map_or_else(String::new, |v| v.value.clone())
        };
        let item = |id: &NodeId| match keys {
            [] => vec![self.arena.get(*id).value.clone()],
            keys => keys.iter().map(|key| text(*id, key)).collect(),
        };
        list.content.iter().map(item).collect()
    }

    fn merge_items(
        &mut self,
        sources: [Option<NodeId>; 2],
        mut all: Vec<Vec<String>>,
        schema: Option<Schema<'a>>,
        keys: &[&str],
        list: NodeId,
    ) -> Result<Option<NodeId>, Error> {
        let merged = self.arena.push(Node { kind: Kind::List, tag: "!!seq".to_owned(), ..Node::default() });
        if keys.len() > 1 {
            complete(&mut all);
        }
        let mut used_keys: Vec<&str> = Vec::new();
        for values in &all {
            let (item_keys, item_values) = used(&all, values, keys);
            let found =
                sources.map(|source| source.and_then(|source| self.item(source, &item_keys, &item_values)));
            let item = self.walk(found[0], found[1], schema)?;
            used_keys.clone_from(&item_keys);
            let item = item.filter(|id| {
                let node = self.arena.get(*id);
                !(node.is_null() || node.kind == Kind::Map && node.content.is_empty())
            });
            let Some(item) = item else {
                self.set_item(list, None, &item_keys, &item_values)?;
                continue;
            };
            for (key, value) in item_keys.iter().zip(&item_values) {
                if value.is_empty() || self.arena.field(item, key).is_some() {
                    continue;
                }
                if key.is_empty() {
                    // A scalar is its own key.
                    let node = self.arena.get_mut(item);
                    node.tag.clear();
                    node.value.clone_from(value);
                } else {
                    let value = self.arena.push(crate::resource::node::scalar(value));
                    self.set(item, key, Some(value), Style::Plain)?;
                }
            }
            self.set_item(merged, Some(item), &item_keys, &item_values)?;
        }
        if all.is_empty() {
            return Ok(Some(list));
        }
        self.append_items(merged, list, &used_keys)?;
        Ok(Some(merged))
    }

    /// Adds the items of a list to another one, in which they replace those with their keys.
    fn append_items(&mut self, to: NodeId, from: NodeId, keys: &[&str]) -> Result<(), Error> {
        for item in self.arena.get(from).content.clone() {
            if keys.first().is_none_or(|key| key.is_empty()) {
                let value = self.arena.get(item).value.clone();
                self.set_item(to, Some(item), &[""], &[value])?;
                continue;
            }
            let mut values = Vec::new();
            for key in keys {
                self.check_kind(item, Kind::Map)?;
                match self.arena.field(item, key) {
                    Some(value) => values.push(self.arena.get(value).value.clone()),
                    None => self.arena.get_mut(to).content.push(item),
                }
            }
            if keys.len() > 1 {
                self.set_item(to, None, keys, &values)?;
            }
            self.set_item(to, Some(item), keys, &values)?;
        }
        Ok(())
    }

    /// The first item of a list that has the values (`ElementMatcher`).
    fn item(&self, list: NodeId, keys: &[&str], values: &[String]) -> Option<NodeId> {
        let list = self.arena.get(list);
        if list.kind != Kind::List {
            return None;
        }
        let (keys, values) = used(&[values.to_vec()], values, keys);
        let first = values.first().map_or("", String::as_str);
        let mut items = list.content.iter().copied();
        if keys.first().is_none_or(|key| key.is_empty()) {
            return items.find(|id| self.arena.get(*id).value == first);
        }
        let has = |id: NodeId, key: &str, value: &str| {
            self.arena.field(id, key).is_some_and(|found| self.arena.get(found).value == value)
        };
        items.find(|id| {
            self.arena.get(*id).kind == Kind::Map
                && keys.len() == values.len()
                && keys.iter().zip(&values).all(|(key, value)| has(*id, key, value))
        })
    }

    /// Replaces the items that have the values by `item`, which is added if there are none; without `item` they are removed
    /// (`ElementSetter`). Empty items are dropped.
    pub(super) fn set_item(
        &mut self,
        list: NodeId,
        item: Option<NodeId>,
        keys: &[&str],
        values: &[String],
    ) -> Result<(), Error> {
        let keys = if keys.is_empty() { &[""][..] } else { keys };
        let by_field = keys.first().is_some_and(|key| !key.is_empty())
            && values.first().is_some_and(|value| !value.is_empty());
        let mut kept = Vec::new();
        let mut replaced = false;
        for id in self.arena.get(list).content.clone() {
            let node = self.arena.get(id);
            if node.is_null() || node.kind == Kind::Map && node.content.is_empty() {
                continue;
            }
            if by_field && node.kind != Kind::Map {
                kept.push(id);
                continue;
            }
            if !self.has_values(id, keys, values)? {
                if !values.is_empty() {
                    kept.push(id);
                }
                continue;
            }
            replaced = true;
            kept.extend(item);
        }
        if let Some(item) = item.filter(|id| !self.arena.get(*id).is_null() && !replaced) {
            kept.push(item);
        }
        self.arena.get_mut(list).content = kept;
        Ok(())
    }

    /// Whether an item has a value for each key: an empty one stands for any.
    fn has_values(&self, item: NodeId, keys: &[&str], values: &[String]) -> Result<bool, Error> {
        let mut found = false;
        for (at, key) in keys.iter().enumerate() {
            if let Some(value) = values.get(at) {
                found = if key.is_empty() {
                    self.check_kind(item, Kind::Scalar)?;
                    self.arena.get(item).value == *value
                } else {
                    self.check_kind(item, Kind::Map)?;
                    let field = self.arena.field(item, key).map(|id| &self.arena.get(id).value);
                    field.is_some_and(|field| value.is_empty() || field == value)
                };
            }
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The keys that any item has a value for, and this item's values; all keys if none has one.
fn used<'k>(all: &[Vec<String>], values: &[String], keys: &[&'k str]) -> (Vec<&'k str>, Vec<String>) {
    let is_used = |at: usize| all.iter().any(|values| values.get(at).is_some_and(|value| !value.is_empty()));
    let places: Vec<usize> = (0..keys.len()).filter(|at| is_used(*at)).collect();
    if places.is_empty() {
        return (keys.to_vec(), values.to_vec());
    }
    let pick = |at: &usize| values.get(*at).cloned().unwrap_or_default();
    (places.iter().filter_map(|at| keys.get(*at).copied()).collect(), places.iter().map(pick).collect())
}

/// Gives values that differ only in one that is missing the other's: a port without its protocol is the one with it.
fn complete(all: &mut [Vec<String>]) {
    for i in 0..all.len() {
        let first = all[i].clone();
        for j in 0..all.len() {
            if let Some(both) = combine(&first, &all[j]) {
                all[i].clone_from(&both);
                all[j] = both;
            }
        }
    }
}

fn combine(a: &[String], b: &[String]) -> Option<Vec<String>> {
    if a.len() != b.len() {
        return None;
    }
    let pairs = || a.iter().zip(b);
    if !pairs().any(|(a, b)| a == b) || pairs().any(|(a, b)| a != b && !a.is_empty() && !b.is_empty()) {
        return None;
    }
    Some(pairs().map(|(a, b)| if a.is_empty() { b.clone() } else { a.clone() }).collect())
}
