//! Patches of long lists, and lists that are compared with the results of scans.

use super::super::merge_schema;
use super::*;
use std::time::{Duration, Instant};

/// Items of each list.
const MANY: usize = 20_000;

/// The scans that [`Places`] and the others stand for.
mod scans {
    use super::*;
    use crate::client_apply::list_places::identity;

    pub(super) fn place_in(order: &[Value], item: &Value, key: &str) -> Option<usize> {
        order.iter().position(|other| identity(other, key) == identity(item, key))
    }

    pub(super) fn without_repeats(mut items: Vec<Value>) -> Vec<Value> {
        let mut at = 0;
        while at < items.len() {
            let mut other = at + 1;
            while other < items.len() {
                if items[at] == items[other] {
                    items.swap_remove(other);
                } else {
                    other += 1;
                }
            }
            at += 1;
        }
        items
    }

    pub(super) fn in_order(items: Vec<Value>, order: &[Value], key: &str) -> Vec<Value> {
        let (deletions, mut items): (Vec<Value>, Vec<Value>) =
            items.into_iter().partition(|item| !key.is_empty() && is_deletion(item));
        items.sort_by_key(|item| place_in(order, item, key));
        items.extend(deletions);
        items
    }

    pub(super) fn interleaved(items: Vec<Value>, order: &[Value], before: &[Value], key: &str) -> Vec<Value> {
        let (named, others): (Vec<Value>, Vec<Value>) =
            items.into_iter().partition(|item| place_in(order, item, key).is_some());
        let (named, others) = (in_order(named, order, key), in_order(others, before, key));
        let mut joined = Vec::new();
        let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
        while let (Some(other), Some(item)) = (others.peek(), named.peek()) {
            let places = (place_in(before, other, key), place_in(before, item, key));
            let first = matches!(places, (Some(other), Some(item)) if other < item);
            joined.extend(if first { others.next() } else { named.next() });
        }
        joined.extend(named);
        joined.extend(others);
        joined
    }

    pub(super) fn combine_lists(old: &[Value], new: &[Value], field: Field) -> Result<Vec<Value>> {
        let mut merged = old.to_vec();
        for item in new {
            match place_in(&merged, item, field.key).map(|place| &mut merged[place]) {
                Some(Value::Object(slot)) => {
                    let Value::Object(change) = item.clone() else { continue };
                    combine(slot, change, field.inner)?;
                }
                _ => merged.push(item.clone()),
            }
        }
        Ok(interleaved(merged, new, old, field.key))
    }
}

/// All lists of at most so many of these items.
fn lists(items: &[Value], most: usize) -> Vec<Vec<Value>> {
    let mut found = vec![Vec::new()];
    let mut last = found.clone();
    for _ in 0..most {
        let longer = |list: &Vec<Value>| -> Vec<Vec<Value>> {
            items.iter().map(|item| list.iter().chain([item]).cloned().collect()).collect()
        };
        last = last.iter().flat_map(longer).collect();
        found.extend(last.iter().cloned());
    }
    found
}

/// `spec.ports` of Services.
fn ports() -> Field {
    let spec = merge_schema::of_kind("v1", "Service").unwrap().object("spec").unwrap();
    spec.inner.list("ports").unwrap()
}

#[test]
fn repeats_go_as_in_a_scan() {
    let items = [json!("a"), json!(1), json!("1"), json!(1.0)];
    for list in lists(&items, 6) {
        assert_eq!(without_repeats(list.clone()), scans::without_repeats(list.clone()), "{list:?}");
    }
}

#[test]
fn lists_are_ordered_as_in_a_scan() {
    let objects =
        [json!({"port": 1}), json!({"port": 1, "name": "a"}), json!({"port": "1", "$patch": "delete"})];
    for (items, key) in [(vec![json!("a"), json!("b"), json!(null)], ""), (objects.to_vec(), "port")] {
        let lists = lists(&items, 3);
        for list in &lists {
            for order in &lists {
                assert_eq!(
                    in_order(list.clone(), order, key),
                    scans::in_order(list.clone(), order, key),
                    "{list:?} {order:?}"
                );
                for before in lists.iter().filter(|before| before.len() < 3) {
                    assert_eq!(
                        interleaved(list.clone(), order, before, key),
                        scans::interleaved(list.clone(), order, before, key),
                        "{list:?} {order:?} {before:?}"
                    );
                }
            }
        }
    }
}

/// Items with equal keys, and those whose directives empty what they are joined with.
#[test]
fn lists_are_joined_as_in_a_scan() {
    let olds = [json!({"port": 1, "name": "a"}), json!({"port": 2}), json!({"port": null, "nodePort": 3})];
    let news = [
        json!({"port": 1, "name": "b"}),
        json!({"port": 1, "$patch": "delete"}),
        json!({"port": 2, "$patch": "replace", "nodePort": 4}),
        json!({"port": null}),
        json!({"port": 3}),
    ];
    let news = lists(&news, 3);
    for old in lists(&olds, 4) {
        for new in news.iter().filter(|new| !(new.is_empty() && old.is_empty())) {
            assert_eq!(
                combine_lists("ports", old.clone(), new, ports()),
                scans::combine_lists(&old, new, ports()),
                "{old:?} {new:?}"
            );
        }
    }
}

/// The patch of a Service.
fn patch_of(original: &Value, modified: &Value, current: &Value) -> Value {
    let service = merge_schema::of_kind("v1", "Service").unwrap();
    three_way(original, modified, current, service).unwrap()
}

#[test]
fn long_lists_of_objects_take_little_time() {
    let service = |ports: Vec<Value>| json!({"spec": {"ports": ports}});
    let original = service((0..MANY).map(|i| json!({"port": i, "name": "old"})).collect());
    let current = original.clone();
    // The lower half goes, the upper half changes, as many are new; in the opposite order.
    let wanted = (MANY / 2..MANY * 3 / 2).rev();
    let modified = service(wanted.clone().map(|i| json!({"port": i, "name": "new"})).collect());
    let started = Instant::now();
    let patch = patch_of(&original, &modified, &current);
    // Minutes if each item is looked for among the others.
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    let items: Vec<Value> = patch["spec"]["ports"].as_array().unwrap().clone();
    let order: Vec<Value> = wanted.clone().map(|i| json!({"port": i})).collect();
    assert_eq!(patch["spec"]["$setElementOrder/ports"], json!(order));
    let (deletions, items): (Vec<Value>, Vec<Value>) = items.into_iter().partition(is_deletion);
    assert_eq!(items, wanted.map(|i| json!({"port": i, "name": "new"})).collect::<Vec<_>>());
    let gone: std::collections::BTreeSet<u64> =
        deletions.iter().filter_map(|item| item["port"].as_u64()).collect();
    assert_eq!((deletions.len(), gone.len()), (MANY / 2, MANY / 2));
    assert_eq!(gone.last().copied(), u64::try_from(MANY / 2 - 1).ok());
}

#[test]
fn long_lists_of_scalars_are_patched() {
    let object = |names: Vec<String>| json!({"metadata": {"finalizers": names}});
    let name = |i: usize| format!("e.x/{i:05}");
    // Each twice.
    let original = object((0..MANY).map(|i| name(i / 2)).collect());
    let modified = object((MANY / 4..MANY * 5 / 4).rev().map(name).collect());
    let patch = patch_of(&original, &modified, &original);
    let found = &patch["metadata"];
    let listed =
        |key: &str| found[key].as_array().unwrap().iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let mut deleted = listed("$deleteFromPrimitiveList/finalizers");
    deleted.sort_unstable();
    assert_eq!(deleted, (0..MANY / 2).map(name).collect::<Vec<_>>());
    assert_eq!(found["$setElementOrder/finalizers"], modified["metadata"]["finalizers"]);
    assert_eq!(listed("finalizers"), (MANY / 2..MANY * 5 / 4).rev().map(name).collect::<Vec<_>>());
}

#[test]
fn long_lists_are_joined() {
    let deletions: Vec<Value> = (0..MANY).map(|i| json!({"port": i, "$patch": "delete"})).collect();
    let named = (MANY / 2..MANY * 3 / 2).rev().map(|i| json!({"port": i, "name": "n"}));
    let named: Vec<Value> = named.collect();
    let joined = combine_lists("ports", deletions.clone(), &named, ports()).unwrap();
    let emptied = combine_lists("ports", deletions.clone(), &deletions, ports()).unwrap();
    let (left, added): (Vec<Value>, Vec<Value>) = joined.into_iter().partition(is_deletion);
    assert_eq!(added, named[..MANY / 2]);
    assert_eq!(left.len(), MANY);
    assert_eq!(emptied, vec![json!({}); MANY]);
}
