//! Whose an object is: the marks that Helm sets, and the check before an existing object is taken over. Pure.

use super::request::ReleaseId;
use crate::cluster::Seen;
use serde_json::{Map, Value};

pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(crate) const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub(crate) const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";

/// Marks the object as the release's.
pub(crate) fn stamp(object: &mut Value, id: &ReleaseId) -> Result<(), String> {
    set(object, "labels", &[(MANAGED_BY, "Helm")])?;
    set(object, "annotations", &[(RELEASE_NAME, &id.name), (RELEASE_NAMESPACE, &id.namespace)])
}

fn set(object: &mut Value, map: &str, entries: &[(&str, &str)]) -> Result<(), String> {
    let metadata = &mut object["metadata"];
    let slot = &mut metadata[map];
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    let slot = slot.as_object_mut().ok_or_else(|| format!("metadata.{map} is not a map"))?;
    for (key, value) in entries {
        slot.insert((*key).to_owned(), Value::String((*value).to_owned()));
    }
    Ok(())
}

/// Whether a live object carries the release's marks; else Helm's account of what is wrong with them.
pub(crate) fn check(seen: &Seen, id: &ReleaseId) -> Result<(), String> {
    let wanted = [
        ("label", MANAGED_BY, &seen.managed_by, "Helm"),
        ("annotation", RELEASE_NAME, &seen.release_name, id.name.as_str()),
        ("annotation", RELEASE_NAMESPACE, &seen.release_namespace, id.namespace.as_str()),
    ];
    let wrong: Vec<String> = wanted
        .into_iter()
        .filter_map(|(place, key, actual, value)| match actual.as_deref() {
            None => Some(format!("{place} validation error: missing key {key:?}: must be set to {value:?}")),
            Some(actual) if actual != value => Some(format!(
                "{place} validation error: key {key:?} must equal {value:?}: current value is {actual:?}"
            )),
            Some(_) => None,
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("invalid ownership metadata; {}", wrong.join("; "))) }
}

/// Whether the live object's annotation says that it outlives the release.
pub(crate) fn is_kept(policy: Option<&str>) -> bool {
    policy.is_some_and(|p| p.trim().eq_ignore_ascii_case("keep"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn helms_words() {
        let id = ReleaseId::new("ns", "rel");
        let mark = |label: &str, name: &str, namespace: &str| {
            let text = |t: &str| (!t.is_empty()).then(|| t.to_owned());
            Seen {
                managed_by: text(label),
                release_name: text(name),
                release_namespace: text(namespace),
                ..Seen::default()
            }
        };
        assert_eq!(check(&mark("Helm", "rel", "ns"), &id), Ok(()));
        assert_eq!(
            check(&mark("", "other", "ns"), &id).unwrap_err(),
            "invalid ownership metadata; label validation error: missing key \"app.kubernetes.io/managed-by\": must be set \
             to \"Helm\"; annotation validation error: key \"meta.helm.sh/release-name\" must equal \"rel\": current value is \"other\""
        );
    }

    #[test]
    fn stamps_over_null_and_keeps_the_rest() {
        let id = ReleaseId::new("ns", "rel");
        let mut object = json!({"metadata": {"name": "x", "labels": {"a": "b"}, "annotations": null}});
        stamp(&mut object, &id).unwrap();
        assert_eq!(
            object["metadata"],
            json!({"name": "x", "labels": {"a": "b", MANAGED_BY: "Helm"},
                   "annotations": {RELEASE_NAME: "rel", RELEASE_NAMESPACE: "ns"}})
        );
        assert!(stamp(&mut json!({"metadata": {"labels": []}}), &id).is_err());
    }
}
