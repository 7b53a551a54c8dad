//! Removes fields that the server rejects from an object, where a request allows it. Pure.
//!
//! Client-side apply took the last of two environment variables with one name, and dropped unknown fields.
//! Server-side apply rejects the object and names the fields, which is enough to do the same.

use crate::request::SanitizeRules;
use serde_json::Value;
use windlass_cluster::ClusterError;

/// Follows the path of a list with duplicate keys; the key comes after it.
const DUPLICATE: &str = ": duplicate entries for key [";
/// Follows the path of an unknown field.
const UNKNOWN: &str = ": field not declared in schema";
/// Most fields in a warning.
const MOST_NAMED: usize = 20;

/// An object to try again, and the warning.
pub(crate) struct Sanitized {
    pub(crate) body: Value,
    pub(crate) warning: String,
}

/// The object without what the server rejected; `None` if the rules do not allow that.
pub(crate) fn sanitize(rules: SanitizeRules, body: &Value, error: &ClusterError) -> Option<Sanitized> {
    let complaint = error.to_string();
    if rules.duplicates
        && let Some(body) = keep_last(body, &complaint)
    {
        return Some(Sanitized { body, warning: format!("{complaint}: the last one is applied") });
    }
    if rules.unknown
        && let Some((body, fields)) = without_unknown(body, &complaint)
    {
        let named = fields.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        return Some(Sanitized {
            body,
            warning: format!("fields that the kind does not have are left out: {named}"),
        });
    }
    None
}

/// The object with only the last of the duplicates in the server's text: `.spec.containers[name="a"].env: duplicate
/// entries for key [name="X"]`.
fn keep_last(body: &Value, complaint: &str) -> Option<Value> {
    let mut body = body.clone();
    let mut dropped = false;
    for (at, _) in complaint.match_indices(DUPLICATE) {
        let path = path_before(complaint, at);
        let key = complaint[at + DUPLICATE.len()..].split_once(']')?.0;
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

/// The object without the unknown fields in the server's text, and their paths: `.spec.containers[name="a"].enw:
/// field not declared in schema`.
fn without_unknown(body: &Value, complaint: &str) -> Option<(Value, Vec<String>)> {
    let mut body = body.clone();
    let mut dropped = Vec::new();
    for (at, _) in complaint.match_indices(UNKNOWN) {
        let path = path_before(complaint, at);
        // Names of fields may contain dots: the first parent that has the rest as a field is meant.
        for (dot, _) in path.match_indices('.') {
            let Some(Value::Object(parent)) = find(&mut body, &path[..dot]) else { continue };
            if parent.remove(&path[dot + 1..]).is_some() {
                dropped.push(path.trim_start_matches('.').to_owned());
                break;
            }
        }
    }
    (!dropped.is_empty()).then_some((body, dropped))
}

/// The path that ends at a position of a text.
fn path_before(complaint: &str, end: usize) -> &str {
    let text = &complaint[..end];
    &text[text.rfind([' ', '\n', ';']).map_or(0, |space| space + 1)..]
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

/// Whether an item has the key. A field that the item lacks has the server's default.
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
            let ends = after.match_indices(['.', '[']).map(|(at, _)| at).chain([after.len()]);
            // Names of fields may have dots in them.
            let end = ends.into_iter().find(|end| value.get(&after[..*end]).is_some())?;
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

    #[test]
    fn leaves_out_what_the_kind_does_not_have() {
        let object = json!({"apiVersion": "apps/v1", "spec": {"unknown": 1, "replicas": 2, "template": {"spec": {
            "containers": [{"name": "x", "enw": []}, {"name": "a", "enw": [], "image": "i"}]}}},
            "x.y/z": {"b.c": 1, "d": 2}});
        let complaint = "failed to create typed patch object (ns/d; apps/v1, Kind=Deployment): errors:\n  .spec.unknown: \
            field not declared in schema\n  .spec.template.spec.containers[name=\"a\"].enw: field not declared in \
            schema\n  .x.y/z.b.c: field not declared in schema";
        let (known, fields) = without_unknown(&object, complaint).unwrap();
        assert_eq!(fields[1..], ["spec.template.spec.containers[name=\"a\"].enw", "x.y/z.b.c"]);
        assert_eq!(
            known,
            json!({"apiVersion": "apps/v1", "spec": {"replicas": 2, "template": {"spec": {
                "containers": [{"name": "x", "enw": []}, {"name": "a", "image": "i"}]}}}, "x.y/z": {"d": 2}})
        );
        assert_eq!(without_unknown(&known, complaint), None, "nothing left to leave out");
        assert_eq!(without_unknown(&object, ".metadata.name: something else"), None);
    }

    #[test]
    fn mends_only_what_it_may() {
        let refusal = |message: &str| {
            ClusterError::Api(Box::new(windlass_cluster::ApiStatus {
                message: message.into(),
                ..Default::default()
            }))
        };
        let unknown = refusal("(v1, Kind=Pod): .spec.no: field not declared in schema");
        let twice = refusal("(v1, Kind=Pod): .spec.l: duplicate entries for key [name=\"A\"]");
        let body = json!({"spec": {"no": 1, "l": [{"name": "A"}, {"name": "A"}]}});
        for (duplicates, unknown_too) in [(false, false), (false, true), (true, false), (true, true)] {
            let rules = SanitizeRules { duplicates, unknown: unknown_too };
            assert_eq!(sanitize(rules, &body, &unknown).is_some(), unknown_too);
            assert_eq!(sanitize(rules, &body, &twice).is_some(), duplicates);
        }
    }
}
