//! Lists that are merged by key.
//!
//! Owns how items find their counterpart and in which order they stand: those of the patch come first.

use std::collections::HashSet;

use chart_compat::yaml::tree::{Kind, Node, Style};

use super::keyed_items::{FirstItems, MadeList};
use super::{Merger, NodeId};
use crate::error::Error;
use crate::resource::build_steps;
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
        // Items of the patch come first.
        let mut values: Vec<Vec<String>> = Vec::new();
        for source in [patch, Some(list)].into_iter().flatten() {
            values.extend(self.key_values(source, keys));
        }
        let mut known = HashSet::with_capacity(values.len());
        values.retain(|value| known.insert(value.clone()));
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
            complete(&mut all)?;
        }
        let places = used_places(&all, keys);
        let used_keys: Vec<&str> = places.iter().filter_map(|at| keys.get(*at).copied()).collect();
        let item_keys = used_keys.as_slice();
        let mut made = MadeList::new(self, merged, item_keys);
        let mut seen = HashSet::new();
        // Two values of several keys may have become the same.
        let distinct = keys.len() == 1 || all.iter().all(|values| seen.insert(values));
        let mut first = sources
            .map(|list| list.filter(|_| distinct).and_then(|list| FirstItems::of(self, list, item_keys)));
        for values in &all {
            let item_values = picked(&places, values);
            let found = self.counterparts(sources, &first, item_keys, &item_values)?;
            let item = self.walk(found[0], found[1], schema)?;
            let item = item.filter(|id| {
                let node = self.arena.get(*id);
                !(node.is_null() || node.kind == Kind::Map && node.content.is_empty())
            });
            let Some(item) = item else {
                self.set_item(list, None, item_keys, &item_values)?;
                if item_values.iter().any(String::is_empty) {
                    // Items of other values went, too.
                    first = [None, None];
                }
                continue;
            };
            self.set_missing_keys(item, item_keys, &item_values)?;
            made.set(self, item, item_keys, &item_values)?;
        }
        if all.is_empty() {
            return Ok(Some(list));
        }
        self.append_items(made, list, item_keys)?;
        Ok(Some(merged))
    }

    /// The first items of two lists that have the values.
    fn counterparts(
        &self,
        lists: [Option<NodeId>; 2],
        first: &[Option<FirstItems>; 2],
        keys: &[&str],
        values: &[String],
    ) -> Result<[Option<NodeId>; 2], Error> {
        let mut found = [None; 2];
        for ((found, list), first) in found.iter_mut().zip(lists).zip(first) {
            *found = match (list, first, values) {
                (Some(_), Some(first), [value]) => first.get(value),
                (Some(list), ..) => self.item(list, keys, values)?,
                (None, ..) => None,
            };
        }
        Ok(found)
    }

    fn set_missing_keys(&mut self, item: NodeId, keys: &[&str], values: &[String]) -> Result<(), Error> {
        for (key, value) in keys.iter().zip(values) {
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
        Ok(())
    }

    /// Adds the items of a list to another one, in which they replace those with their keys.
    fn append_items(&mut self, mut to: MadeList, from: NodeId, keys: &[&str]) -> Result<(), Error> {
        for item in self.arena.get(from).content.clone() {
            if keys.first().is_none_or(|key| key.is_empty()) {
                let value = self.arena.get(item).value.clone();
                to.set(self, item, &[""], &[value])?;
                continue;
            }
            let mut values = Vec::new();
            for key in keys {
                self.check_kind(item, Kind::Map)?;
                match self.arena.field(item, key) {
                    Some(value) => values.push(self.arena.get(value).value.clone()),
                    None => to.push(self, item),
                }
            }
            if keys.len() > 1 {
                self.set_item(to.list, None, keys, &values)?;
            }
            to.set(self, item, keys, &values)?;
        }
        Ok(())
    }

    /// The first item of a list that has the values (`ElementMatcher`).
    fn item(&self, list: NodeId, keys: &[&str], values: &[String]) -> Result<Option<NodeId>, Error> {
        let list = self.arena.get(list);
        if list.kind != Kind::List {
            return Ok(None);
        }
        build_steps::count(list.content.len() / 2)?;
        let places = used_places(&[values.to_vec()], keys);
        let keys: Vec<&str> = places.iter().filter_map(|at| keys.get(*at).copied()).collect();
        let values = picked(&places, values);
        let first = values.first().map_or("", String::as_str);
        let mut items = list.content.iter().copied();
        if keys.first().is_none_or(|key| key.is_empty()) {
            return Ok(items.find(|id| self.arena.get(*id).value == first));
        }
        let has = |id: NodeId, key: &str, value: &str| {
            self.arena.field(id, key).is_some_and(|found| self.arena.get(found).value == value)
        };
        Ok(items.find(|id| {
            self.arena.get(*id).kind == Kind::Map
                && keys.len() == values.len()
                && keys.iter().zip(&values).all(|(key, value)| has(*id, key, value))
        }))
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
        build_steps::count(self.arena.get(list).content.len() / 2)?;
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

/// The places of the keys that any item has a value for; all of them if none has one.
fn used_places(all: &[Vec<String>], keys: &[&str]) -> Vec<usize> {
    let is_used = |at: usize| all.iter().any(|values| values.get(at).is_some_and(|value| !value.is_empty()));
    let places: Vec<usize> = (0..keys.len()).filter(|at| is_used(*at)).collect();
    if places.is_empty() { (0..keys.len()).collect() } else { places }
}

/// The values at places.
fn picked(places: &[usize], values: &[String]) -> Vec<String> {
    places.iter().map(|at| values.get(*at).cloned().unwrap_or_default()).collect()
}

/// Gives values that differ only in one that is missing the other's: a port without its protocol is the one with it.
fn complete(all: &mut [Vec<String>]) -> Result<(), Error> {
    if !all.iter().flatten().any(String::is_empty) {
        return Ok(());
    }
    for i in 0..all.len() {
        build_steps::count(all.len() / 2)?;
        let first = all[i].clone();
        for j in 0..all.len() {
            if let Some(both) = combine(&first, &all[j]) {
                all[i].clone_from(&both);
                all[j] = both;
            }
        }
    }
    Ok(())
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
