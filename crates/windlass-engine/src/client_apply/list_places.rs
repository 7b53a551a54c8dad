//! Where the items of a list are, by what identifies them: found without a scan of the list. Pure.

use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// What identifies an item: its merge key, or the item itself without one.
pub(super) fn identity<'v>(item: &'v Value, key: &str) -> &'v Value {
    if key.is_empty() { item } else { &item[key] }
}

/// The places of the items of a list. Of equal items the first counts.
pub(super) struct Places<'v> {
    key: &'v str,
    first: HashMap<&'v Value, usize>,
}

impl<'v> Places<'v> {
    pub(super) fn of(list: &'v [Value], key: &'v str) -> Self {
        let mut first = HashMap::with_capacity(list.len());
        for (place, item) in list.iter().enumerate() {
            first.entry(identity(item, key)).or_insert(place);
        }
        Self { key, first }
    }

    pub(super) fn find(&self, item: &Value) -> Option<usize> {
        self.first.get(identity(item, self.key)).copied()
    }
}

/// The places of the items of a list that gets further items, and whose items change. Of equal items the first counts.
pub(super) struct GrowingPlaces<'k> {
    key: &'k str,
    all: HashMap<Value, BTreeSet<usize>>,
}

impl<'k> GrowingPlaces<'k> {
    pub(super) fn of(list: &[Value], key: &'k str) -> Self {
        let mut places = Self { key, all: HashMap::with_capacity(list.len()) };
        for (place, item) in list.iter().enumerate() {
            places.add(item, place);
        }
        places
    }

    pub(super) fn find(&self, item: &Value) -> Option<usize> {
        self.all.get(identity(item, self.key))?.first().copied()
    }

    pub(super) fn add(&mut self, item: &Value, place: usize) {
        self.all.entry(identity(item, self.key).clone()).or_default().insert(place);
    }

    /// The item at a place changed.
    pub(super) fn update(&mut self, before: &Value, after: &Value, place: usize) {
        let old = identity(before, self.key);
        if old == identity(after, self.key) {
            return;
        }
        if let Some(places) = self.all.get_mut(old) {
            places.remove(&place);
        }
        self.add(after, place);
    }
}

/// Without repeated items. The last item takes the place of each that goes.
pub(super) fn without_repeats(mut items: Vec<Value>) -> Vec<Value> {
    // For each item the place of the first that equals it.
    let mut firsts: Vec<usize> = {
        let places = Places::of(&items, "");
        items.iter().enumerate().map(|(place, item)| places.find(item).unwrap_or(place)).collect()
    };
    let mut places: BTreeSet<(usize, usize)> =
        firsts.iter().enumerate().map(|(place, first)| (*first, place)).collect();
    let mut at = 0;
    while at < items.len() {
        let first = firsts[at];
        while let Some((_, other)) = places.range((first, at + 1)..=(first, usize::MAX)).next().copied() {
            places.remove(&(first, other));
            items.swap_remove(other);
            firsts.swap_remove(other);
            if let Some(moved) = firsts.get(other) {
                places.remove(&(*moved, items.len()));
                places.insert((*moved, other));
            }
        }
        at += 1;
    }
    items
}
