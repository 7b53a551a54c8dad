//! Strategic merge patches of three documents, as Kubernetes' library makes them. Pure.
//!
//! A patch has what the live object lacks or has otherwise, and what left the manifest. It is made in two parts, [`Part::Changes`] between the
//! live object and the manifest and [`Part::Deletions`] between the two manifests, which [`combine`] joins. Lists of others are long: where
//! an item is in a list is looked up in [`Places`], never by a scan for each item.

use super::{
    MergeError,
    list_places::{GrowingPlaces, Places, without_repeats},
    merge_schema::{Field, Place, Strategy},
};
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;
type Result<T> = std::result::Result<T, MergeError>;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_SCALARS: &str = "$deleteFromPrimitiveList/";

/// The part of a patch that a comparison makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Changes,
    Deletions,
}

/// The patch that brings `current` to `modified`, without what others have added.
pub(super) fn three_way(original: &Value, modified: &Value, current: &Value, at: Place) -> Result<Value> {
    let empty = Object::new();
    let [original, modified, current] =
        [original, modified, current].map(|state| state.as_object().unwrap_or(&empty));
    let changes = difference(current, modified, at, Part::Changes, false)?;
    let mut patch = difference(original, modified, at, Part::Deletions, false)?;
    combine(&mut patch, changes, at)?;
    Ok(Value::Object(patch))
}

/// Texts by which scalars and merge keys are ordered.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// Whether two values have the same type; whole and other numbers differ.
fn same_type(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.is_f64() == b.is_f64(),
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

fn difference(from: &Object, to: &Object, at: Place, part: Part, retain: bool) -> Result<Object> {
    let mut patch = Object::new();
    for (key, new) in to {
        let Some(old) = from.get(key) else {
            if part == Part::Changes {
                patch.insert(key.clone(), new.clone());
            }
            continue;
        };
        if key == DIRECTIVE {
            let (Value::String(old), Value::String(text)) = (old, new) else {
                return Err(MergeError::Directive);
            };
            if old != text {
                patch.insert(key.clone(), new.clone());
            }
            continue;
        }
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                object_difference(key, old, new, at, part, &mut patch)?;
            }
            (Value::Array(old), Value::Array(new)) => list_difference(key, old, new, at, part, &mut patch)?,
            _ if part == Part::Changes && (!same_type(old, new) || old != new) => {
                patch.insert(key.clone(), new.clone());
            }
            _ => {}
        }
    }
    let gone: Vec<&String> = from.keys().filter(|key| !to.contains_key(*key)).collect();
    if part == Part::Deletions {
        patch.extend(gone.iter().map(|key| ((*key).clone(), Value::Null)));
    }
    if retain && (!patch.is_empty() || !gone.is_empty()) {
        let kept: Vec<&String> =
            to.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key).collect();
        if !kept.is_empty() {
            patch.insert(RETAIN.to_owned(), json!(kept));
        }
    }
    Ok(patch)
}

/// The field's part of the schema. Fields that the kind does not have matter only if they differ.
fn known(found: Result<Field>, equal: impl FnOnce() -> bool) -> Result<Option<Field>> {
    match found {
        Ok(field) => Ok(Some(field)),
        Err(_) if equal() => Ok(None),
        Err(error) => Err(error),
    }
}

fn object_difference(
    key: &str,
    old: &Object,
    new: &Object,
    at: Place,
    part: Part,
    patch: &mut Object,
) -> Result<()> {
    let Some(field) = known(at.object(key), || old == new)? else { return Ok(()) };
    if field.strategy == Strategy::Replace {
        if part == Part::Changes {
            patch.insert(key.to_owned(), Value::Object(new.clone()));
        }
        return Ok(());
    }
    let inner = difference(old, new, field.inner, part, field.retain_keys)?;
    if !inner.is_empty() {
        patch.insert(key.to_owned(), Value::Object(inner));
    }
    Ok(())
}

fn list_difference(
    key: &str,
    old: &[Value],
    new: &[Value],
    at: Place,
    part: Part,
    patch: &mut Object,
) -> Result<()> {
    let Some(field) = known(at.list(key), || old == new)? else { return Ok(()) };
    if field.strategy != Strategy::Merge {
        if part == Part::Changes && old != new {
            patch.insert(key.to_owned(), Value::Array(new.to_vec()));
        }
        return Ok(());
    }
    if old.is_empty() {
        if part == Part::Changes && !new.is_empty() {
            patch.insert(key.to_owned(), Value::Array(new.to_vec()));
        }
        return Ok(());
    }
    let (items, deleted, order) = if holds_objects(key, &[old, new])? {
        let (items, order) = objects_difference(key, old, new, field, part)?;
        (items, Vec::new(), order)
    } else {
        scalars_difference(old, new, part)
    };
    let mut put = |key: String, list: Vec<Value>| {
        if !list.is_empty() {
            patch.insert(key, Value::Array(list));
        }
    };
    put(key.to_owned(), items);
    put(format!("{DELETE_SCALARS}{key}"), deleted);
    put(format!("{ORDER}{key}"), order);
    Ok(())
}

/// Whether lists hold objects; all items must be of one type.
fn holds_objects(key: &str, lists: &[&[Value]]) -> Result<bool> {
    let mut items = lists.iter().flat_map(|list| list.iter());
    let Some(first) = items.next() else { return Ok(false) };
    if first.is_array() || first.is_null() || !items.all(|item| same_type(first, item)) {
        return Err(MergeError::MixedItems(key.to_owned()));
    }
    Ok(first.is_object())
}

/// The value of an item's merge key.
fn merge_key<'v>(list: &str, item: &'v Value, key: &str) -> Result<&'v Value> {
    let found = item.as_object().and_then(|map| map.get(key));
    found.ok_or_else(|| MergeError::NoMergeKey {
        list: list.to_owned(),
        key: key.to_owned(),
        item: item.to_string(),
    })
}

/// Items in the order of their texts; of equal ones the later comes first.
fn by_text(items: &[Value], text: impl Fn(&Value) -> String) -> Vec<(String, &Value)> {
    let mut sorted: Vec<(String, &Value)> = items.iter().rev().map(|item| (text(item), item)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted
}

/// The changed and deleted items of a list of objects, and the order of the new list if it matters.
fn objects_difference(
    list: &str,
    old: &[Value],
    new: &[Value],
    field: Field,
    part: Part,
) -> Result<(Vec<Value>, Vec<Value>)> {
    for item in old.iter().chain(new) {
        merge_key(list, item, field.key)?;
    }
    let text = |item: &Value| text_of(&item[field.key]);
    let (olds, news) = (by_text(old, text), by_text(new, text));
    let (mut changed, mut deleted) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (0, 0);
    while left < olds.len() || right < news.len() {
        let (before, after) = (olds.get(left), news.get(right));
        let order = match (before, after) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        if let (Some((_, Value::Object(a))), Some((_, Value::Object(b)))) = (before, after)
            && order.is_eq()
        {
            let mut inner = difference(a, b, field.inner, part, field.retain_keys)?;
            if !inner.is_empty() {
                inner.insert(field.key.to_owned(), b[field.key].clone());
                changed.push(Value::Object(inner));
            }
        }
        if let Some((_, item)) = before
            && order.is_lt()
            && part == Part::Deletions
        {
            deleted.push(json!({field.key: item[field.key], DIRECTIVE: "delete"}));
        }
        if let Some((_, item)) = after
            && order.is_gt()
            && part == Part::Changes
        {
            changed.push((*item).clone());
        }
        left += usize::from(order.is_le());
        right += usize::from(order.is_ge());
    }
    let mut items = in_order(changed, new, field.key);
    items.extend(deleted);
    let keys = |items: &[Value]| items.iter().map(|item| item[field.key].clone()).collect::<Vec<_>>();
    let ordered = !items.is_empty() || part == Part::Changes && keys(old) != keys(new);
    let order =
        if ordered { keys(new).into_iter().map(|key| json!({field.key: key})).collect() } else { Vec::new() };
    Ok((items, order))
}

/// The added and deleted items of a list of scalars, and the order of the new list if it matters.
fn scalars_difference(old: &[Value], new: &[Value], part: Part) -> (Vec<Value>, Vec<Value>, Vec<Value>) {
    let (olds, news) = (by_text(old, text_of), by_text(new, text_of));
    let (mut added, mut deleted) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (0, 0);
    while left < olds.len() || right < news.len() {
        let order = match (olds.get(left), news.get(right)) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        if order.is_lt() && part == Part::Deletions {
            deleted.extend(olds.get(left).map(|(_, item)| (*item).clone()));
        }
        if order.is_gt() && part == Part::Changes {
            added.extend(news.get(right).map(|(_, item)| (*item).clone()));
        }
        left += usize::from(order.is_le());
        right += usize::from(order.is_ge());
    }
    let added = in_order(added, new, "");
    let deleted = without_repeats(deleted);
    // The library has sorted the old list by now, and compares it with the new one as written.
    let sorted_differs = !olds.iter().map(|(_, item)| *item).eq(new);
    let ordered = match part {
        Part::Changes => sorted_differs,
        Part::Deletions => !deleted.is_empty(),
    };
    (added, deleted, if ordered { new.to_vec() } else { Vec::new() })
}

fn is_deletion(item: &Value) -> bool {
    item[DIRECTIVE] == "delete"
}

/// Items in the order of another list, deletions last.
fn in_order(items: Vec<Value>, order: &[Value], key: &str) -> Vec<Value> {
    let (deletions, mut items): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| !key.is_empty() && is_deletion(item));
    let places = Places::of(order, key);
    items.sort_by_cached_key(|item| places.find(item));
    items.extend(deletions);
    items
}

/// Adds changes to deletions.
fn combine(patch: &mut Object, mut changes: Object, at: Place) -> Result<()> {
    match changes.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            changes.remove(DIRECTIVE);
            *patch = changes;
            return Ok(());
        }
        Some("delete") => {
            patch.clear();
            return Ok(());
        }
        Some(_) => return Err(MergeError::Directive),
        None => {}
    }
    if let Some(kept) = changes.remove(RETAIN) {
        patch.entry(RETAIN).or_insert(kept);
    }
    combine_ordered(patch, &mut changes, at)?;
    for (key, change) in changes {
        match (patch.get_mut(&key), change) {
            (Some(Value::Object(old)), Value::Object(new)) if !key.starts_with(DELETE_SCALARS) => {
                let field = at.object(&key)?;
                if field.strategy == Strategy::Replace {
                    *old = new;
                } else {
                    combine(old, new, field.inner)?;
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) if !key.starts_with(DELETE_SCALARS) => {
                let field = at.list(&key)?;
                *old = if field.strategy == Strategy::Merge {
                    combine_lists(&key, std::mem::take(old), &new, field)?
                } else {
                    new
                };
            }
            (_, change) => {
                patch.insert(key.clone(), Value::Null);
                match without_directives(change) {
                    Some(change) => patch.insert(key, change),
                    None => patch.remove(&key),
                };
            }
        }
    }
    Ok(())
}

/// Adds the changes of lists whose order matters.
fn combine_ordered(patch: &mut Object, changes: &mut Object, at: Place) -> Result<()> {
    let ordered: Vec<String> = changes.keys().filter(|key| key.starts_with(ORDER)).cloned().collect();
    for directive in ordered {
        let Some(Value::Array(order)) = changes.remove(&directive) else { continue };
        let key = directive[ORDER.len()..].to_owned();
        patch.insert(directive, Value::Array(order.clone()));
        let field = at.list(&key)?;
        let array = |value: Option<Value>| match value {
            Some(Value::Array(items)) => Some(items),
            _ => None,
        };
        let old = array(patch.get(&key).cloned());
        let before = old.clone().unwrap_or_default();
        let merged = match (old, array(changes.remove(&key))) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) => combine_lists(&key, old, &new, field)?,
        };
        patch.insert(key, Value::Array(interleaved(merged, &order, &before, field.key)));
    }
    Ok(())
}

/// Joins two lists of a patch; items of the same key are joined.
fn combine_lists(list: &str, old: Vec<Value>, new: &[Value], field: Field) -> Result<Vec<Value>> {
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    let mut merged = old.clone();
    if !holds_objects(list, &[&old, new])? {
        merged.extend(new.iter().cloned());
        return Ok(interleaved(without_repeats(merged), new, &old, field.key));
    }
    let mut places = GrowingPlaces::of(&merged, field.key);
    for item in new {
        merge_key(list, item, field.key)?;
        let Some(place) = places.find(item) else {
            places.add(item, merged.len());
            merged.push(item.clone());
            continue;
        };
        if let (Value::Object(slot), Value::Object(change)) = (&mut merged[place], item.clone()) {
            combine(slot, change, field.inner)?;
        }
        // A directive may have emptied the item, which has no key then.
        places.update(item, &merged[place], place);
    }
    Ok(interleaved(merged, new, &old, field.key))
}

/// Items that `order` has in its order; the others where the list before had them.
fn interleaved(items: Vec<Value>, order: &[Value], before: &[Value], key: &str) -> Vec<Value> {
    let places = Places::of(order, key);
    let (named, others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| places.find(item).is_some());
    let places = Places::of(before, key);
    let with_places = |items: Vec<Value>| items.into_iter().map(|item| (places.find(&item), item));
    let (named, others) = (in_order(named, order, key), in_order(others, before, key));
    let mut joined = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (with_places(named).peekable(), with_places(others).peekable());
    while let (Some((other, _)), Some((item, _))) = (others.peek(), named.peek()) {
        let first = matches!((other, item), (Some(other), Some(item)) if other < item);
        joined.extend(if first { others.next() } else { named.next() });
    }
    joined.extend(named);
    joined.extend(others);
    joined.into_iter().map(|(_, item)| item).collect()
}

/// A value without objects that are directives; `None` if it is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests;
