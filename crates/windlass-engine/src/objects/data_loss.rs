//! Data that a changed CustomResourceDefinition would drop from existing objects. Pure.

use crate::objects::crd_schema::{self, OF_ALL_OBJECTS};
use serde_json::Value;
use std::collections::BTreeSet;
use windlass_cluster::ObjectMeta;

/// Annotation of an object, in the chart or in the cluster, that allows the loss of data by a changed schema or a
/// deletion.
pub(crate) const ALLOW: &str = "windlass.dev/allow-data-loss";
/// Most losses in a text.
const MOST: usize = 5;
/// Maximum number of losses that are kept. Beyond it, only the first loss of each version is added, and the first without a version.
const MOST_TOLD: usize = 1_000;
/// Most bytes of a field's name in a text.
const LONGEST_NAME: usize = 256;
/// Deepest schema that is compared.
const DEEPEST: usize = 40;
/// The identity of a kind: after a change its objects are not accessible.
const IDENTITY: [(&str, &str); 4] = [
    ("scope", "/spec/scope"),
    ("group", "/spec/group"),
    ("kind", "/spec/names/kind"),
    ("plural name", "/spec/names/plural"),
];

/// A possible loss of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    /// As text.
    pub(crate) what: String,
    /// The version whose schema drops fields: its objects show whether they have any. Other losses cannot be checked
    /// by objects.
    pub(crate) dropped_in: Option<String>,
}

/// What becomes inaccessible or is dropped when `new` replaces `live`; empty if nothing.
pub(crate) fn losses(live: &Value, new: &Value) -> Vec<Loss> {
    let stored: Vec<&str> =
        live["status"]["storedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_served = |version: &Value| version["served"] != Value::Bool(false);
    let mut found: Vec<Loss> = Vec::new();
    let mut dropping = BTreeSet::new();
    let mut lose = |what, dropped_in: Option<String>| {
        // One of each version, and one that objects do not show, decide as many do.
        let is_first = dropping.insert(dropped_in.clone());
        if is_first || found.len() < MOST_TOLD {
            found.push(Loss { what, dropped_in });
        }
    };
    for (name, place) in IDENTITY {
        let text = |crd: &'_ Value| crd.pointer(place).and_then(Value::as_str).map(str::to_owned);
        if let (Some(was), Some(is)) = (text(live), text(new))
            && was != is
        {
            lose(format!("its {name} is {is} and was {was}"), None);
        }
    }
    for old in versions(live) {
        let name = old["name"].as_str().unwrap_or_default();
        let next = versions(new).iter().find(|version| version["name"] == name);
        match next {
            None if stored.contains(&name) => {
                lose(format!("objects may be stored in version {name}, which is gone"), None);
            }
            None if is_served(old) => lose(format!("version {name} is no longer served"), None),
            None => {}
            Some(next) => {
                if is_served(old) && !is_served(next) {
                    lose(format!("version {name} is no longer served"), None);
                }
                let (old, next) = (crd_schema::of_version(live, old), crd_schema::of_version(new, next));
                compare(name, &old, &next, 0, &mut |what, dropped| {
                    lose(what, dropped.then(|| name.to_owned()));
                });
            }
        }
    }
    found
}

/// Losses as text: the first ones of many.
pub(crate) fn summary(losses: &[Loss]) -> String {
    let mut words: Vec<String> = losses.iter().take(MOST).map(|loss| loss.what.clone()).collect();
    if losses.len() > MOST {
        words.push(format!("{} more", losses.len() - MOST));
    }
    words.join("; ")
}

/// Whether an object, as read in a version, has fields that the version's schema drops.
pub(crate) fn drops(crd: &Value, version: &str, object: &Value) -> bool {
    let version = versions(crd).iter().find(|v| v["name"] == version);
    version.is_some_and(|version| crd_schema::drops(&crd_schema::of_version(crd, version), object))
}

/// Versions that objects were stored in and that `new` lacks: the server rejects `new` while they are listed as
/// stored.
pub(crate) fn retired(live: &Value, new: &Value) -> Vec<Value> {
    let stored = live["status"]["storedVersions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_in = |crd: &Value, name: &Value| versions(crd).iter().any(|version| version["name"] == *name);
    let gone = versions(live).iter().filter(|v| stored.contains(&v["name"]) && !is_in(new, &v["name"]));
    gone.cloned().collect()
}

/// Whether either side allows losses.
pub(crate) fn allows(crd: &Value) -> bool {
    ObjectMeta::of(crd).annotation(ALLOW) == Some("true")
}

fn versions(crd: &Value) -> &[Value] {
    crd["spec"]["versions"].as_array().map_or(&[], Vec::as_slice)
}

/// Fields that the old schema keeps and the new one would drop (`true`), and those whose type differs.
fn compare(path: &str, old: &Value, new: &Value, depth: usize, lose: &mut dyn FnMut(String, bool)) {
    if old == new || depth > DEEPEST {
        return;
    }
    if let (Some(was), Some(is)) = (old["type"].as_str(), new["type"].as_str())
        && was != is
    {
        lose(format!("{path} is of type {is} and was of type {was}"), false);
        return;
    }
    if crd_schema::is_scalar(old) || crd_schema::is_scalar(new) {
        return;
    }
    let named = [old, new].into_iter().filter_map(|schema| schema["properties"].as_object());
    let mut names: BTreeSet<&str> = named.flat_map(|fields| fields.keys().map(String::as_str)).collect();
    if crd_schema::is_object(old) && !crd_schema::is_object(new) {
        names.extend(OF_ALL_OBJECTS);
    }
    for name in names {
        // The version comes first: `v1: spec.size`. Each field below repeats the name.
        let short = &name[..name.floor_char_boundary(LONGEST_NAME)];
        let path = format!("{path}{}{short}", if path.contains(": ") { "." } else { ": " });
        match (crd_schema::field(old, name), crd_schema::field(new, name)) {
            (Some(old), Some(new)) => compare(&path, old, new, depth + 1, lose),
            (Some(_), None) => lose(format!("{path} is gone, and its values would be dropped"), true),
            (None, _) => {}
        }
    }
    let within = format!("{path}[]");
    match (crd_schema::others(old), crd_schema::others(new)) {
        (Some(old), Some(new)) => compare(&within, old, new, depth + 1, lose),
        // The items of a list are compared.
        (Some(_), None) if new["type"] != "array" => {
            lose(format!("{path} keeps only fields that it names, and others would be dropped"), true);
        }
        _ => {}
    }
    if let (Some(old), Some(new)) = (crd_schema::items(old), crd_schema::items(new)) {
        compare(&within, old, new, depth + 1, lose);
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
                assert!(found.what.ends_with(expected), "{what}: {found:?}");
            }
        }
    }

    #[test]
    fn tells_what_was_kept_without_being_named() {
        let schema = |fields: Value| json!({"type": "object", "properties": {"spec": fields}});
        let open = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let closed = || json!({"type": "object", "properties": {"b": {"type": "string"}}});
        let map = |of: Value| json!({"type": "object", "additionalProperties": of});
        let text = || json!({"type": "string"});
        let half = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"b": closed()}});
        let embedded =
            || json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"b": text()}});
        let list = |of: Value| json!({"type": "array", "items": of});
        let only =
            |path: &str| format!("v1: {path} keeps only fields that it names, and others would be dropped");
        let gone = |path: &str| format!("v1: {path} is gone, and its values would be dropped");
        let table = [
            ("the marker went", open(), closed(), vec![only("spec")]),
            ("the marker stays", open(), half.clone(), vec![only("spec.b")]),
            ("a field that was named already", half.clone(), half, vec![]),
            ("the marker is now a map", open(), map(json!(true)), vec![only("spec[]")]),
            ("a map is now a marker", map(text()), open(), vec![]),
            ("a map went", map(text()), closed(), vec![only("spec")]),
            ("a map of anything went", map(json!(true)), closed(), vec![only("spec")]),
            ("a map of less", map(open()), map(closed()), vec![only("spec[]")]),
            (
                "a field that is in the map now",
                json!({"properties": {"b": closed()}}),
                map(json!({"type": "object"})),
                vec![gone("spec.b.b")],
            ),
            ("a scalar has no fields", json!({"x-kubernetes-preserve-unknown-fields": true}), text(), vec![]),
            ("a list of anything", list(open()), list(closed()), vec![only("spec[]")]),
            (
                "no object of its own kind",
                embedded(),
                closed(),
                vec![gone("spec.apiVersion"), gone("spec.kind"), gone("spec.metadata")],
            ),
            ("an object of its own kind", closed(), embedded(), vec![]),
        ];
        for (what, old, new, expected) in table {
            let (live, new) =
                (crd(&[("v1", true, schema(old))], &["v1"]), crd(&[("v1", true, schema(new))], &[]));
            let found = losses(&live, &new);
            assert!(found.iter().all(|loss| loss.dropped_in.as_deref() == Some("v1")), "{what}: {found:?}");
            assert_eq!(found.into_iter().map(|loss| loss.what).collect::<Vec<_>>(), expected, "{what}");
        }
        let mut live = crd(&[("v1", true, schema(closed()))], &["v1"]);
        let new = live.clone();
        live["spec"]["preserveUnknownFields"] = true.into();
        assert_eq!(losses(&live, &new).len(), 2, "of the whole object, and of its spec");
        assert_eq!(losses(&new, &live), []);
    }

    #[test]
    fn another_kind_has_none_of_the_objects() {
        let spec = |group: &str, scope: &str, kind: &str, plural: &str| json!({"spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural}}});
        let live = spec("g", "Namespaced", "Thing", "things");
        let table = [
            (spec("g", "Namespaced", "Thing", "things"), ""),
            (spec("g", "Cluster", "Thing", "things"), "its scope is Cluster and was Namespaced"),
            (spec("h", "Namespaced", "Thing", "things"), "its group is h and was g"),
            (
                spec("g", "Namespaced", "Thong", "thongs"),
                "its kind is Thong and was Thing; its plural name is thongs and was things",
            ),
        ];
        for (new, expected) in table {
            assert_eq!(summary(&losses(&live, &new)), expected);
        }
    }

    #[test]
    fn of_many_losses_some_are_told() {
        let loss = |n: usize| Loss { what: n.to_string(), dropped_in: None };
        assert_eq!(summary(&(0..5).map(loss).collect::<Vec<_>>()), "0; 1; 2; 3; 4");
        assert_eq!(summary(&(0..7).map(loss).collect::<Vec<_>>()), "0; 1; 2; 3; 4; 2 more");
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

    #[test]
    fn many_losses_below_long_names_are_bounded() {
        let fields: serde_json::Map<String, Value> =
            (0..20_000).map(|i| (format!("k{i}"), json!({}))).collect();
        let schema = |below: Value| json!({"type": "object", "properties": {"x".repeat(500_000): below}});
        let old = schema(json!({"type": "object", "properties": fields}));
        let live = crd(&[("v1", true, old.clone()), ("v2", true, old.clone()), ("v3", true, old)], &["v1"]);
        let empty = schema(json!({"type": "object"}));
        let new = crd(
            &[("v1", true, empty.clone()), ("v2", true, empty), ("v3", true, json!({"type": "string"}))],
            &["v1"],
        );
        let found = losses(&live, &new);
        assert!(found.iter().map(|loss| loss.what.len()).sum::<usize>() < 1 << 20);
        let versions: BTreeSet<_> = found.iter().map(|loss| loss.dropped_in.as_deref()).collect();
        assert_eq!((found.len(), versions), (MOST_TOLD + 2, BTreeSet::from([None, Some("v1"), Some("v2")])));
    }
}
