//! Field conflicts: the owners of fields that we apply, and which fields are left to them. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_cluster::{ClusterError, Folded, ObjectMeta, ObjectRef};

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conflict {
    /// In the server's form, without the leading dot: `spec.template.spec.containers[name="main"].image`.
    pub field: String,
    pub manager: String,
}

/// The conflicts of a rejected apply. Conflicts with entries that are folded into ours first do not count.
pub(crate) fn of(error: &ClusterError, manager: &str, folded: Folded) -> Vec<Conflict> {
    let conflict = |cause: &windlass_cluster::StatusCause| {
        let owner = cause.message.split('"').nth(1)?;
        Some(Conflict { field: cause.field.trim_start_matches('.').to_owned(), manager: owner.to_owned() })
    };
    let all = error.causes().iter().filter(|c| c.reason == "FieldManagerConflict").filter_map(conflict);
    all.filter(|c| c.manager != manager && !folded.has_manager(&c.manager)).collect()
}

/// Whether a field is that of one of these paths, or below it.
pub(crate) fn is_covered(paths: &[&str], field: &str) -> bool {
    paths.iter().any(|path| {
        field.strip_prefix(path).is_some_and(|below| below.is_empty() || below.starts_with(['.', '[']))
    })
}

/// The paths of the rules for an object, which leave fields to their owners. A rule is a path, or `Kind:path`, or `Kind/name:path`, and
/// covers the field and everything below it.
pub(crate) fn paths_of<'r>(rules: &'r [String], object: &ObjectRef) -> impl Iterator<Item = &'r str> {
    rules.iter().filter_map(|rule| {
        let (whose, path) = rule.split_once(':').unwrap_or(("", rule));
        let (kind, name) = whose.split_once('/').unwrap_or((whose, ""));
        let whose = (kind.is_empty() || kind == object.gvk.kind) && (name.is_empty() || name == object.name);
        let path = path.trim_start_matches('.');
        (whose && !path.is_empty()).then_some(path)
    })
}

/// Removes fields from a body that are left to their owners and that an owner removed from the live object: the apply
/// does not set them again.
pub(crate) fn leave_away(body: &mut Value, live: &Value, rules: &[String], object: &ObjectRef) {
    for path in paths_of(rules, object) {
        if get(live, path).is_none() {
            remove(body, path);
        }
    }
}

/// Annotations that request the injection of a certificate authority's bundle.
const INJECTORS: [&str; 4] = [
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
    "service.beta.openshift.io/inject-cabundle",
];

/// Whether a field is an injected certificate bundle: the object requests the injection, or the chart has no value
/// there. Taking the field over would break the webhook after each apply.
pub(crate) fn is_injected(body: &Value, object: &ObjectRef, field: &str) -> bool {
    let kind = matches!(
        (object.gvk.group.as_str(), object.gvk.kind.as_str()),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("apiregistration.k8s.io", "APIService")
    );
    if !kind || !field.ends_with("caBundle") {
        return false;
    }
    let meta = ObjectMeta::of(body);
    // Charts write a base64 line break to satisfy the schema.
    let empty = |value: &Value| value.as_str().is_none_or(|text| matches!(text, "" | "Cg=="));
    INJECTORS.iter().any(|name| meta.annotation(name).is_some()) || get(body, field).is_none_or(empty)
}

/// Removes a field by its path in the server's form, and returns it.
pub(crate) fn remove(object: &mut Value, path: &str) -> Option<Value> {
    let (place, rest) = first_step(object, path)?;
    let below = match place {
        Place::Item(place) if rest.is_empty() => return Some(object.as_array_mut()?.remove(place)),
        Place::Key(key) if rest.is_empty() => return object.as_object_mut()?.remove(key),
        Place::Item(place) => object.get_mut(place),
        Place::Key(key) => object.get_mut(key),
    };
    remove(below?, rest)
}

/// A field by its path in the server's form.
pub(crate) fn get<'o>(object: &'o Value, path: &str) -> Option<&'o Value> {
    let (place, rest) = first_step(object, path)?;
    let below = match place {
        Place::Item(place) => object.get(place),
        Place::Key(key) => object.get(key),
    };
    if rest.is_empty() { below } else { get(below?, rest) }
}

/// Where the first step of a path leads.
enum Place<'p> {
    Item(usize),
    Key(&'p str),
}

/// The first step of a path into an object, and the rest of the path. Such paths do not escape names: of several possible keys the
/// longest is meant.
fn first_step<'p>(object: &Value, path: &'p str) -> Option<(Place<'p>, &'p str)> {
    let path = path.trim_start_matches('.');
    if let Some(selector) = path.strip_prefix('[') {
        let end = end_of(selector)?;
        let (selector, rest) = (Selector::parse(&selector[..end])?, &selector[end + 1..]);
        let place = object.as_array()?.iter().position(|item| selector.matches(item))?;
        return Some((Place::Item(place), rest.trim_start_matches('.')));
    }
    let continues = |key: &&String| {
        path.strip_prefix(key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let length = object.as_object()?.keys().filter(continues).map(String::len).max()?;
    Some((Place::Key(&path[..length]), &path[length..]))
}

/// The bracket that closes a selector, outside of quotes.
fn end_of(selector: &str) -> Option<usize> {
    let mut quoted = false;
    selector.char_indices().find_map(|(i, c)| {
        quoted ^= c == '"';
        (c == ']' && !quoted).then_some(i)
    })
}

/// A selector of items of a list: `name="main"`, `="value"`, or several keys separated by commas.
enum Selector<'p> {
    Value(Value),
    Keys(Vec<(&'p str, Value)>),
}

impl<'p> Selector<'p> {
    /// `None`: it selects nothing.
    fn parse(text: &'p str) -> Option<Self> {
        let value = |text: &str| serde_json::from_str::<Value>(text).ok();
        if let Some(text) = text.strip_prefix('=') {
            return value(text).map(Self::Value);
        }
        let pair = |pair: &'p str| {
            let (key, text) = pair.split_once('=')?;
            Some((key, value(text)?))
        };
        text.split(',').map(pair).collect::<Option<_>>().map(Self::Keys)
    }

    fn matches(&self, item: &Value) -> bool {
        match self {
            Self::Value(value) => value == item,
            Self::Keys(pairs) => pairs.iter().all(|(key, value)| item[*key] == *value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_cluster::Gvk;

    #[test]
    fn rules_name_fields_of_objects() {
        let object = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("ns"), "web");
        let cases = [
            ("spec.replicas", "spec.replicas", true),
            (".spec.replicas", "spec.replicas", true),
            ("spec", "spec.replicas", true),
            ("spec.rep", "spec.replicas", false),
            ("spec.a", "spec.a[name=\"x\"].b", true),
            ("Deployment:spec.replicas", "spec.replicas", true),
            ("Deployment/web:spec.replicas", "spec.replicas", true),
            ("Deployment/api:spec.replicas", "spec.replicas", false),
            ("StatefulSet:spec.replicas", "spec.replicas", false),
            ("", "spec", false),
        ];
        for (rule, field, expected) in cases {
            let rules = [rule.to_owned()];
            let paths: Vec<&str> = paths_of(&rules, &object).collect();
            assert_eq!(is_covered(&paths, field), expected, "{rule} {field}");
        }
    }

    #[test]
    fn bundles_that_others_fill_in_are_theirs() {
        let field = "webhooks[name=\"w\"].clientConfig.caBundle";
        let hook = |bundle: Value, annotations: Value| json!({"metadata": {"annotations": annotations}, "webhooks": [{"name": "w", "clientConfig": {"caBundle": bundle}}]});
        let of = |group: &str, kind: &str| ObjectRef::new(Gvk::new(&format!("{group}/v1"), kind), None, "w");
        let webhook = of("admissionregistration.k8s.io", "ValidatingWebhookConfiguration");
        let asks = json!({"cert-manager.io/inject-ca-from": "ns/ca"});
        let cases = [
            ("nothing of the chart's", hook(Value::Null, json!({})), &webhook, field, true),
            ("a placeholder", hook(json!("Cg=="), json!({})), &webhook, field, true),
            ("the chart's own", hook(json!("QUJD"), json!({})), &webhook, field, false),
            ("asked for", hook(json!("QUJD"), asks), &webhook, field, true),
            (
                "another field",
                hook(Value::Null, json!({})),
                &webhook,
                "webhooks[name=\"w\"].clientConfig.url",
                false,
            ),
            ("another kind", hook(Value::Null, json!({})), &of("example.com", "Thing"), field, false),
        ];
        for (what, body, object, field, expected) in cases {
            assert_eq!(is_injected(&body, object, field), expected, "{what}");
        }
    }

    #[test]
    fn fields_are_found_by_the_servers_paths() {
        let body = json!({"metadata": {"annotations": {"a.b/c": "1", "a": "2"}},
            "spec": {"replicas": 1, "ports": [{"port": 80, "protocol": "TCP", "x": 1}],
            "containers": [{"name": "a,b]", "image": "i"}, {"name": "main", "image": "j"}], "finalizers": ["f", "g"]}});
        let cases = [
            (".spec.replicas", "/spec/replicas"),
            (".metadata.annotations.a.b/c", "/metadata/annotations/a.b~1c"),
            (".metadata.annotations.a", "/metadata/annotations/a"),
            (".spec.containers[name=\"main\"].image", "/spec/containers/1/image"),
            (".spec.ports[port=80,protocol=\"TCP\"].x", "/spec/ports/0/x"),
        ];
        for (path, pointer) in cases {
            let mut changed = body.clone();
            assert!(changed.pointer(pointer).is_some(), "{pointer}");
            assert_eq!(get(&changed, path), changed.pointer(pointer), "{path}");
            assert!(remove(&mut changed, path).is_some(), "{path}");
            assert!(changed.pointer(pointer).is_none(), "{path}: {changed}");
        }
        let mut changed = body;
        remove(&mut changed, ".spec.finalizers[=\"f\"]");
        assert_eq!(changed["spec"]["finalizers"], json!(["g"]));
        remove(&mut changed, ".spec.nothing[name=\"x\"].y");
        remove(&mut changed, ".spec.containers[name=\"zzz");
    }
}
