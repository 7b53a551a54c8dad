//! What a newer CustomResourceDefinition would take away from the objects that there are. Pure.

use serde_json::{Map, Value};

/// Annotation of a CRD, in the chart or in the cluster, that lets it be changed all the same.
pub(crate) const ALLOW: &str = "windlass.dev/allow-data-loss";
/// Losses that are told.
const MOST: usize = 5;
/// Nesting of schemas that is looked into.
const DEEPEST: usize = 40;

/// What becomes unreachable or is dropped when `new` replaces `live`, in words; empty if nothing.
pub(crate) fn losses(live: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let stored: Vec<&str> =
        live["status"]["storedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_served = |version: &Value| version["served"] != Value::Bool(false);
    for old in versions(live) {
        let name = old["name"].as_str().unwrap_or_default();
        let next = versions(new).iter().find(|version| version["name"] == name);
        match next {
            None if stored.contains(&name) => {
                found.push(format!("objects may be stored in version {name}, which is gone"));
            }
            None if is_served(old) => found.push(format!("version {name} is no longer served")),
            None => {}
            Some(next) => {
                if is_served(old) && !is_served(next) {
                    found.push(format!("version {name} is no longer served"));
                }
                let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
                compare(name, &schema(old), &schema(next), 0, &mut found);
            }
        }
    }
    if found.len() > MOST {
        let more = found.len() - MOST;
        found.truncate(MOST);
        found.push(format!("{more} more"));
    }
    found
}

/// Versions that objects were stored in at some time and that `new` does not have any more: the server refuses it until nobody
/// says so any more.
pub(crate) fn retired(live: &Value, new: &Value) -> Vec<Value> {
    let stored = live["status"]["storedVersions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_in = |crd: &Value, name: &Value| versions(crd).iter().any(|version| version["name"] == *name);
    let gone = versions(live).iter().filter(|v| stored.contains(&v["name"]) && !is_in(new, &v["name"]));
    gone.cloned().collect()
}

/// Whether losses are allowed by either side.
pub(crate) fn allows(crd: &Value) -> bool {
    crd["metadata"]["annotations"][ALLOW] == "true"
}

fn versions(crd: &Value) -> &[Value] {
    crd["spec"]["versions"].as_array().map_or(&[], Vec::as_slice)
}

/// Fields that the old schema has and the new one would prune, and those whose type differs.
fn compare(path: &str, old: &Value, new: &Value, depth: usize, found: &mut Vec<String>) {
    if old == new || depth > DEEPEST {
        return;
    }
    if let (Some(was), Some(is)) = (old["type"].as_str(), new["type"].as_str())
        && was != is
    {
        found.push(format!("{path} is of type {is} and was of type {was}"));
        return;
    }
    let keeps_unknown = new["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true)
        || new["additionalProperties"].is_object()
        || new["additionalProperties"] == Value::Bool(true);
    let empty = Map::new();
    let fields = |schema: &Value| schema["properties"].as_object().unwrap_or(&empty).clone();
    let next = fields(new);
    for (name, field) in fields(old) {
        // The version comes first: `v1: spec.size`.
        let path = format!("{path}{}{name}", if path.contains(": ") { "." } else { ": " });
        match next.get(&name) {
            Some(other) => compare(&path, &field, other, depth + 1, found),
            None if keeps_unknown => {}
            None => found.push(format!("{path} is gone, and its values would be dropped")),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if old[inner].is_object() && new[inner].is_object() {
            compare(&format!("{path}[]"), &old[inner], &new[inner], depth + 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn crd(versions: &[(&str, bool, Value)], stored: &[&str]) -> Value {
        let versions: Vec<Value> = versions
            .iter()
            .map(|(name, served, schema)| {
                json!({"name": name, "served": served, "schema": {"openAPIV3Schema": schema}})
            })
            .collect();
        json!({"spec": {"versions": versions}, "status": {"storedVersions": stored}})
    }

    #[test]
    fn tells_what_would_be_lost() {
        let schema = |properties: Value| json!({"type": "object", "properties": properties});
        let spec = |properties: Value| schema(json!({"spec": schema(properties)}));
        let old = spec(
            json!({"a": {"type": "string"}, "list": {"type": "array", "items": schema(json!({"x": {}}))}}),
        );
        let live = crd(&[("v1", true, old.clone()), ("v1alpha1", true, json!({}))], &["v1"]);
        let v1 = |schema: Value| crd(&[("v1", true, schema), ("v1alpha1", true, json!({}))], &[]);
        let list = json!({"type": "array", "items": schema(json!({"x": {}}))});
        let mut open = spec(json!({"list": list}));
        open["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
        let cases: [(&str, Value, &[&str]); 7] = [
            ("the same", v1(old.clone()), &[]),
            ("more", v1(spec(json!({"a": {"type": "string"}, "b": {"type": "string"}, "list": list}))), &[]),
            (
                "a field less",
                v1(spec(json!({"list": list}))),
                &["v1: spec.a is gone, and its values would be dropped"],
            ),
            ("a field less, but unknown ones are kept", v1(open), &[]),
            (
                "another type, and less in a list",
                v1(spec(
                    json!({"a": {"type": "integer"}, "list": {"type": "array", "items": schema(json!({}))}}),
                )),
                &[
                    "v1: spec.a is of type integer and was of type string",
                    "v1: spec.list[].x is gone, and its values would be dropped",
                ],
            ),
            (
                "versions that are not served",
                crd(&[("v1", false, old.clone())], &[]),
                &["v1 is no longer served", "version v1alpha1 is no longer served"],
            ),
            (
                "the stored version gone",
                crd(&[("v2", true, old), ("v1alpha1", true, json!({}))], &[]),
                &["objects may be stored in version v1, which is gone"],
            ),
        ];
        for (what, new, expected) in cases {
            let found = losses(&live, &new);
            assert_eq!(found.len(), expected.len(), "{what}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.ends_with(expected), "{what}: {found}");
            }
        }
    }

    #[test]
    fn versions_that_were_stored_and_are_gone() {
        let any = || json!({});
        let live = crd(&[("v1", true, any()), ("v2", false, any()), ("v3", true, any())], &["v1", "v3"]);
        let names = |new: &[&str]| {
            let new: Vec<_> = new.iter().map(|name| (*name, true, any())).collect();
            let gone = retired(&live, &crd(&new, &[]));
            gone.iter().map(|v| v["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&["v1", "v3"]), [""; 0]);
        assert_eq!(names(&["v3", "v4"]), ["v1"]);
        assert_eq!(names(&["v2"]), ["v1", "v3"]);
    }

    #[test]
    fn only_a_clear_word_allows_it() {
        assert!(allows(&json!({"metadata": {"annotations": {ALLOW: "true"}}})));
        assert!(!allows(&json!({"metadata": {"annotations": {ALLOW: "yes"}}})));
        assert!(!allows(&json!({})));
    }
}
