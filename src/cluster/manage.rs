//! Field managers: folding what Helm wrote by updates into our own apply entry. Pure.
//!
//! Helm 3, Helm 4 in client-side mode and older Flux own fields by `Update`. As long as such an entry stands, a field
//! that leaves the chart stays in the object, since the old entry still claims it. Mirrors what client-go's
//! `csaupgrade` does.

use serde_json::{Map, Value};

/// Managers under which Helm and Flux wrote releases.
const HELM_MANAGERS: [&str; 3] = ["helm", "Helm", "helm-controller"];

fn is_main(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or("").is_empty()
}

/// The apply entry of `manager`.
pub(super) fn is_apply_of(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply" && is_main(entry)
}

/// An entry that has to be folded into ours: Helm's by update, or Flux's by apply.
pub(super) fn is_helm_update(entry: &Value, manager: &str) -> bool {
    let Some(name) = entry["manager"].as_str() else { return false };
    let helms = HELM_MANAGERS.contains(&name) || name == manager;
    helms
        && is_main(entry)
        && !is_apply_of(entry, manager)
        && (entry["operation"] == "Update" || name == "helm-controller")
}

/// Whether any entry stands for writes of Helm that are not ours.
pub fn needs_folding(managed_fields: &Value, manager: &str) -> bool {
    managed_fields.as_array().is_some_and(|entries| entries.iter().any(|e| is_helm_update(e, manager)))
}

/// The managed fields with all of Helm's entries folded into one apply entry of `manager`.
pub fn fold_managers(managed_fields: &Value, manager: &str) -> Value {
    let entries = managed_fields.as_array().map_or(&[][..], Vec::as_slice);
    let mut ours: Option<Value> = None;
    let mut others = Vec::new();
    for entry in entries {
        if !is_apply_of(entry, manager) && !is_helm_update(entry, manager) {
            others.push(entry.clone());
            continue;
        }
        match &mut ours {
            None => ours = Some(entry.clone()),
            Some(folded) => {
                // The entry that we keep is the newest one: its API version is the one in use.
                let fields = union(&folded["fieldsV1"], &entry["fieldsV1"]);
                if is_apply_of(entry, manager) {
                    *folded = entry.clone();
                }
                folded["fieldsV1"] = fields;
            }
        }
    }
    if let Some(mut folded) = ours {
        folded["manager"] = manager.into();
        folded["operation"] = "Apply".into();
        others.insert(0, folded);
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

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
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
            assert_eq!(needs_folding(&before, "helm"), before != after, "{name}");
            assert_eq!(fold_managers(&before, "helm"), after, "{name}");
        }
    }
}
