//! Lists that name the same thing twice. Pure.
//!
//! Client-side apply took the last of two environment variables of one name; server-side apply refuses the object and
//! says where. What it says is enough to do as before.

use serde_json::Value;

/// The object with only the last of the duplicates that the server complains of; `None` if it complains of something
/// else. The server's text: `.spec.containers[name="a"].env: duplicate entries for key [name="X"]`.
pub(crate) fn keep_last(body: &Value, complaint: &str) -> Option<Value> {
    const WORDS: &str = ": duplicate entries for key [";
    let mut body = body.clone();
    let mut dropped = false;
    for (at, _) in complaint.match_indices(WORDS) {
        let path = &complaint[..at];
        let path = &path[path.rfind([' ', '\n', ';']).map_or(0, |space| space + 1)..];
        let key = complaint[at + WORDS.len()..].split_once(']')?.0;
        let list = find(&mut body, path)?.as_array_mut()?;
        let fields = key_fields(key)?;
        let same: Vec<usize> = (0..list.len()).filter(|i| matches(&list[*i], &fields)).collect();
        for index in same.iter().rev().skip(1) {
            list.remove(*index);
            dropped = true;
        }
    }
    dropped.then_some(body)
}

/// Fields of a key, `name="a",port=80`.
fn key_fields(key: &str) -> Option<Vec<(String, Value)>> {
    key.split(',')
        .map(|field| {
            let (name, value) = field.split_once('=')?;
            Some((name.to_owned(), serde_json::from_str(value).ok()?))
        })
        .collect()
}

/// Whether an item has the key. A field that the item leaves out is the default that the server filled in.
fn matches(item: &Value, key: &[(String, Value)]) -> bool {
    key.iter().all(|(name, value)| item.get(name).is_none_or(|own| own == value))
}

/// The value at a path like `.spec.containers[name="a"].env`.
fn find<'v>(mut value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (key, after) = after.split_once(']')?;
            let list = value.as_array_mut()?;
            let index = match key.parse::<usize>() {
                Ok(index) => index,
                Err(_) => {
                    let fields = key_fields(key)?;
                    list.iter().position(|item| matches(item, &fields))?
                }
            };
            value = list.get_mut(index)?;
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            value = value.get_mut(&after[..end])?;
            rest = &after[end..];
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keeps_the_last() {
        let pod = json!({"spec": {"containers": [
            {"name": "x", "env": [{"name": "A", "value": "0"}]},
            {"name": "a", "env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}],
             "ports": [{"containerPort": 80, "name": "one"}, {"containerPort": 80, "protocol": "TCP", "name": "two"}]}]}});
        let complaint = "failed to create typed patch object (ns/p; v1, Kind=Pod): errors:\n  .spec.containers[name=\"a\"].env: \
            duplicate entries for key [name=\"A\"]\n  .spec.containers[name=\"a\"].ports: duplicate entries for key \
            [containerPort=80,protocol=\"TCP\"]";
        let single = keep_last(&pod, complaint).unwrap();
        assert_eq!(single["spec"]["containers"][0], pod["spec"]["containers"][0]);
        assert_eq!(
            single["spec"]["containers"][1],
            json!({"name": "a", "env": [{"name": "B"}, {"name": "A", "value": "2"}],
                "ports": [{"containerPort": 80, "protocol": "TCP", "name": "two"}]})
        );
        assert_eq!(keep_last(&pod, "something else"), None);
        assert_eq!(keep_last(&pod, ".spec.nothing: duplicate entries for key [name=\"A\"]"), None);
        assert_eq!(keep_last(&single, complaint), None, "nothing left to drop");
    }
}
