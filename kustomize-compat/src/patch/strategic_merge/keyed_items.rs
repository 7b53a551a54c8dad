//! Items of a list by the value of their one key.
//!
//! Owns the indexes that make a merge of two long lists take a time in proportion to their length. They hold where each value of the key is
//! looked up or set once: what happens to an item then changes the key of no other one. Where that is not so, there is no index, and the
//! list is looked through.

use std::collections::HashMap;

use chart_compat::yaml::tree::Kind;

use super::{Merger, NodeId};
use crate::error::Error;

/// The first item of each value of a key.
pub(super) struct FirstItems(HashMap<String, NodeId>);

impl FirstItems {
    /// Indexes a list. `None` for more than one key, a list of scalars, and nodes that stand at several places of an object: a change of one
    /// item may then be one of the key of another.
    pub(super) fn of(merger: &Merger<'_>, list: NodeId, keys: &[&str]) -> Option<Self> {
        let [key] = keys else { return None };
        if key.is_empty() || merger.arena.has_marked() {
            return None;
        }
        let mut first = HashMap::new();
        let list = merger.arena.get(list);
        let items = if list.kind == Kind::List { list.content.as_slice() } else { &[] };
        for id in items.iter().copied().filter(|id| merger.arena.get(*id).kind == Kind::Map) {
            if let Some(field) = merger.arena.field(id, key) {
                first.entry(merger.arena.get(field).value.clone()).or_insert(id);
            }
        }
        Some(Self(first))
    }

    pub(super) fn get(&self, value: &str) -> Option<NodeId> {
        self.0.get(value).copied()
    }
}

/// A list that is made of items by the value of one key.
pub(super) struct MadeList {
    pub(super) list: NodeId,
    /// The place of each value; `None` if it has to be found in the list.
    places: Option<HashMap<String, usize>>,
}

impl MadeList {
    /// A list that is still empty.
    pub(super) fn new(merger: &Merger<'_>, list: NodeId, keys: &[&str]) -> Self {
        let indexed = matches!(keys, [key] if !key.is_empty()) && !merger.arena.has_marked();
        Self { list, places: indexed.then(HashMap::new) }
    }

    /// Adds an item without the key.
    pub(super) fn push(&mut self, merger: &mut Merger<'_>, item: NodeId) {
        self.places = None;
        merger.arena.get_mut(self.list).content.push(item);
    }

    /// As [`Merger::set_item`] with an item that has fields.
    pub(super) fn set(
        &mut self,
        merger: &mut Merger<'_>,
        item: NodeId,
        keys: &[&str],
        values: &[String],
    ) -> Result<(), Error> {
        let is_map = merger.arena.get(item).kind == Kind::Map;
        let ([_], [value], true, Some(places)) = (keys, values, is_map, &mut self.places) else {
            self.places = None;
            return merger.set_item(self.list, Some(item), keys, values);
        };
        if value.is_empty() {
            // It replaces the items of all values.
            self.places = None;
            return merger.set_item(self.list, Some(item), keys, values);
        }
        let content = &mut merger.arena.get_mut(self.list).content;
        match places.get(value).and_then(|at| content.get_mut(*at)) {
            Some(place) => *place = item,
            None => {
                places.insert(value.clone(), content.len());
                content.push(item);
            }
        }
        Ok(())
    }
}
