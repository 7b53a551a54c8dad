//! Managed fields: folds entries of Helm and of `kubectl apply` into our own apply entry. Pure.
//!
//! Helm 3, Helm 4 in client-side mode and older Flux own fields by `Update`, as `kubectl apply` does. While such an entry exists, a
//! field that leaves the manifest stays in the object, since the old entry still owns it. Mirrors client-go's `csaupgrade`.

use serde_json::{Map, Value};

/// Managers under which Helm and Flux wrote releases.
const HELM_MANAGERS: [&str; 3] = ["helm", "Helm", "helm-controller"];
/// Managers of `kubectl apply` and the operation of each: client-side and server-side.
const KUBECTL_MANAGERS: [(&str, &str); 2] = [("kubectl-client-side-apply", "Update"), ("kubectl", "Apply")];

/// Whose entries become ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folded {
    /// Those of Helm and Flux.
    Helm,
    /// Those of `kubectl apply`, too.
    HelmAndKubectl,
}

impl Folded {
    fn has(self, entry: &Value, manager: &str) -> bool {
        is_helm_update(entry, manager) || self == Self::HelmAndKubectl && is_kubectl_apply(entry, manager)
    }

    /// Whether entries of a manager become ours, by its name.
    #[must_use]
    pub fn has_manager(self, name: &str) -> bool {
        HELM_MANAGERS.contains(&name)
            || self == Self::HelmAndKubectl && KUBECTL_MANAGERS.iter().any(|(known, _)| *known == name)
    }
}

fn is_main(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or("").is_empty()
}

/// An entry of `manager`, by apply or by updates.
pub(super) fn is_of(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && is_main(entry)
}

/// The apply entry of `manager`.
pub(super) fn is_apply_of(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply" && is_main(entry)
}

/// An entry to fold into ours: Helm's by update, or Flux's by apply.
pub(super) fn is_helm_update(entry: &Value, manager: &str) -> bool {
    let Some(name) = entry["manager"].as_str() else { return false };
    let helms = HELM_MANAGERS.contains(&name) || name == manager;
    helms
        && is_main(entry)
        && !is_apply_of(entry, manager)
        && (entry["operation"] == "Update" || name == "helm-controller")
}

/// An entry of `kubectl apply`, unless `manager` applies under its name.
pub(super) fn is_kubectl_apply(entry: &Value, manager: &str) -> bool {
    let is_entry_of = |(name, operation): &(&str, &str)| {
        entry["manager"] == *name && entry["operation"] == *operation && is_main(entry)
    };
    !is_apply_of(entry, manager) && KUBECTL_MANAGERS.iter().any(is_entry_of)
}

/// Removes the fields from an object that would go once the folded entries were ours: fields that no apply of `body` sets and nobody
/// else owns. The server removes them only after the fold, which a dry run cannot show.
pub fn without_orphans(
    object: &mut Value,
    managed_fields: &[Value],
    body: &Value,
    manager: &str,
    folded: Folded,
) {
    let (ours, others): (Vec<&Value>, Vec<&Value>) =
        managed_fields.iter().partition(|e| is_apply_of(e, manager) || folded.has(e, manager));
    let others: Vec<&Value> = others.iter().map(|e| &e["fieldsV1"]).collect();
    for entry in ours.iter().filter(|e| folded.has(e, manager)) {
        let mut kept = others.clone();
        prune(object, &entry["fieldsV1"], Some(body), &mut kept);
    }
}

/// Removes `fields` from `object`, except what `body` has or `others` own.
fn prune(object: &mut Value, fields: &Value, body: Option<&Value>, others: &mut [&Value]) {
    let Some(fields) = fields.as_object() else { return };
    for (name, inner) in fields {
        let mut kept: Vec<&Value> = others.iter().filter_map(|o| o.get(name)).collect();
        let leaf = inner.as_object().is_none_or(|i| i.keys().all(|k| k == "."));
        if let Some(key) = name.strip_prefix("f:") {
            let child = body.and_then(|b| b.get(key));
            if leaf && child.is_none() && kept.is_empty() {
                if let Some(map) = object.as_object_mut() {
                    map.remove(key);
                }
            } else if let Some(slot) = object.get_mut(key) {
                prune(slot, inner, child, &mut kept);
                let emptied =
                    slot.as_object().is_some_and(Map::is_empty) && child.is_none() && kept.is_empty();
                if emptied && let Some(map) = object.as_object_mut() {
                    map.remove(key);
                }
            }
        } else if let Some(keys) = name.strip_prefix("k:") {
            let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { continue };
            let is_it = |item: &Value| keys.iter().all(|(k, v)| item[k] == *v);
            let child = body.and_then(Value::as_array).and_then(|list| list.iter().find(|item| is_it(item)));
            let Some(list) = object.as_array_mut() else { continue };
            let Some(place) = list.iter().position(is_it) else { continue };
            if child.is_none() && kept.is_empty() {
                list.remove(place);
            } else {
                prune(&mut list[place], inner, child, &mut kept);
            }
        }
    }
}

/// Whether any entry is to be folded into ours.
pub fn needs_folding(managed_fields: &[Value], manager: &str, folded: Folded) -> bool {
    managed_fields.iter().any(|e| folded.has(e, manager))
}

/// The managed fields with all such entries folded into one apply entry of `manager`.
pub fn fold_managers(managed_fields: &[Value], manager: &str, folded: Folded) -> Value {
    let mut ours: Option<Value> = None;
    let mut others = Vec::new();
    for entry in managed_fields {
        if !is_apply_of(entry, manager) && !folded.has(entry, manager) {
            others.push(entry.clone());
            continue;
        }
        match &mut ours {
            None => ours = Some(entry.clone()),
            Some(merged) => {
                // The newest entry is kept: its API version is current.
                let fields = union(&merged["fieldsV1"], &entry["fieldsV1"]);
                if is_apply_of(entry, manager) {
                    *merged = entry.clone();
                }
                merged["fieldsV1"] = fields;
            }
        }
    }
    if let Some(mut merged) = ours {
        merged["manager"] = manager.into();
        merged["operation"] = "Apply".into();
        others.insert(0, merged);
    }
    Value::Array(others)
}

/// Union of two field sets: maps of maps, leaves empty.
fn union(a: &Value, b: &Value) -> Value {
    let empty = Map::new();
    let (a, b) = (a.as_object().unwrap_or(&empty), b.as_object().unwrap_or(&empty));
    let mut merged = a.clone();
    for (key, value) in b {
        let both = match merged.get(key) {
            Some(existing) => union(existing, value),
            None => value.clone(),
        };
        merged.insert(key.clone(), both);
    }
    Value::Object(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entries(list: &Value) -> &[Value] {
        list.as_array().map_or(&[], Vec::as_slice)
    }

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn orphans_are_what_nobody_else_has() {
        let fields = json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}, "f:gone": {"f:x": {}},
            "f:list": {"k:{\"name\":\"p\"}": {".": {}, "f:name": {}}, "k:{\"name\":\"q\"}": {".": {}, "f:name": {}, "f:v": {}}}});
        let all = json!([
            entry("helm", "Update", &fields),
            entry("kubectl", "Update", &json!({"f:data": {"f:c": {}}}))
        ]);
        let mut object = json!({"data": {"a": "1", "b": "2", "c": "3"}, "gone": {"x": 1},
            "list": [{"name": "p"}, {"name": "q", "v": 1}, {"name": "r"}]});
        let body = json!({"data": {"a": "1"}, "list": [{"name": "q"}]});
        without_orphans(&mut object, entries(&all), &body, "helm", Folded::Helm);
        assert_eq!(object, json!({"data": {"a": "1", "c": "3"}, "list": [{"name": "q"}, {"name": "r"}]}));
    }

    #[test]
    fn folds_helms_updates_and_nothing_else() {
        let status =
            json!({"manager": "helm", "operation": "Update", "subresource": "status", "fieldsV1": {}});
        let kubectl = entry("kubectl-edit", "Update", &json!({"f:data": {"f:x": {}}}));
        let cases = [
            ("nothing to do", json!([kubectl]), json!([kubectl])),
            (
                "helm's update becomes ours",
                json!([entry("Helm", "Update", &json!({"f:data": {"f:a": {}}})), kubectl]),
                json!([entry("helm", "Apply", &json!({"f:data": {"f:a": {}}})), kubectl]),
            ),
            (
                "two entries become one",
                json!([
                    entry("helm", "Update", &json!({"f:data": {"f:a": {}}})),
                    status,
                    entry("helm", "Apply", &json!({"f:data": {"f:b": {}}}))
                ]),
                json!([entry("helm", "Apply", &json!({"f:data": {"f:a": {}, "f:b": {}}})), status]),
            ),
            (
                "flux applies under its own name",
                json!([entry("helm-controller", "Apply", &json!({"f:spec": {}}))]),
                json!([entry("helm", "Apply", &json!({"f:spec": {}}))]),
            ),
        ];
        for (name, before, after) in cases {
            assert_eq!(needs_folding(entries(&before), "helm", Folded::Helm), before != after, "{name}");
            assert_eq!(fold_managers(entries(&before), "helm", Folded::Helm), after, "{name}");
        }
    }

    #[test]
    fn kubectls_entries_are_folded_where_that_is_asked_for() {
        let all = json!([
            entry("kubectl-client-side-apply", "Update", &json!({"f:data": {"f:a": {}}})),
            entry("kubectl", "Apply", &json!({"f:data": {"f:b": {}}})),
            entry("kubectl-edit", "Update", &json!({"f:data": {"f:c": {}}})),
        ]);
        assert!(!needs_folding(entries(&all), "helm", Folded::Helm));
        assert_eq!(
            fold_managers(entries(&all), "helm", Folded::HelmAndKubectl),
            json!([
                entry("helm", "Apply", &json!({"f:data": {"f:a": {}, "f:b": {}}})),
                entry("kubectl-edit", "Update", &json!({"f:data": {"f:c": {}}})),
            ])
        );
        let managers = ["helm", "kubectl-client-side-apply", "kubectl-edit"];
        assert_eq!(managers.map(|name| Folded::Helm.has_manager(name)), [true, false, false]);
        assert_eq!(managers.map(|name| Folded::HelmAndKubectl.has_manager(name)), [true, true, false]);
    }
}
