//! Ownership: the metadata that Helm sets, and the check before an existing object is taken over. Pure.

use crate::request::{Adoption, OwnershipOptions, ReleaseId};
use serde_json::{Map, Value};
use windlass_cluster::{Folded, ObservedMeta};

pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(crate) const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub(crate) const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// On a live object: the release, `NAMESPACE/NAME`, that may take it over.
const ADOPTED_BY: &str = "windlass.dev/adopted-by";

/// Sets the release's ownership metadata.
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

/// Whether a live object has the release's ownership metadata; else Helm's error text.
pub(crate) fn check(seen: &ObservedMeta, id: &ReleaseId) -> Result<(), String> {
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

/// The other release that a live object's metadata names, as `namespace/name`. Incomplete metadata names none.
pub(crate) fn other_release(seen: &ObservedMeta, id: &ReleaseId) -> Option<String> {
    let name = seen.release_name.as_deref()?;
    let namespace = seen.release_namespace.as_deref()?;
    (name != id.name || namespace != id.namespace).then(|| format!("{namespace}/{name}"))
}

/// Why a live object may not be taken over, if it may not.
pub(crate) fn refusal(seen: &ObservedMeta, id: &ReleaseId, adoption: Adoption) -> Option<String> {
    let agreed = seen.adopted_by.as_deref() == Some(format!("{}/{}", id.namespace, id.name).as_str());
    match adoption {
        _ if agreed => None,
        Adoption::Any => None,
        Adoption::Marked => check(seen, id).err(),
        Adoption::Unowned => other_release(seen, id).map(|owner| {
            format!(
                "it belongs to release {owner}; annotate it with {ADOPTED_BY}={}/{} to let this release take it over",
                id.namespace, id.name
            )
        }),
    }
}

/// Whose entries of managed fields become the release's when it writes an object.
pub(crate) fn folded(before: Option<&ObservedMeta>, id: &ReleaseId, options: &OwnershipOptions) -> Folded {
    let adopts = before.is_some_and(|seen| check(seen, id).is_err());
    if adopts && options.adopt_kubectl_fields { Folded::HelmAndKubectl } else { Folded::Helm }
}

/// Whether the resource policy keeps the object.
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
            ObservedMeta {
                managed_by: text(label),
                release_name: text(name),
                release_namespace: text(namespace),
                ..ObservedMeta::default()
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
    fn adoption_is_asked_for() {
        use Adoption::{Any, Marked, Unowned};
        let id = ReleaseId::new("ns", "rel");
        let seen = |name: &str, namespace: &str, adopted_by: &str| {
            let text = |t: &str| (!t.is_empty()).then(|| t.to_owned());
            ObservedMeta {
                managed_by: Some("Helm".to_owned()),
                release_name: text(name),
                release_namespace: text(namespace),
                adopted_by: text(adopted_by).map(Into::into),
                ..ObservedMeta::default()
            }
        };
        // The object, and whether each kind of adoption takes it: Marked, Unowned, Any.
        let table = [
            ("its own", seen("rel", "ns", ""), [true, true, true]),
            ("no marks", seen("", "", ""), [false, true, true]),
            ("half of the marks", seen("other", "", ""), [false, true, true]),
            ("another release's", seen("other", "ns", ""), [false, false, true]),
            ("a release's of the same name elsewhere", seen("rel", "elsewhere", ""), [false, false, true]),
            ("another's, which agrees", seen("other", "ns", "ns/rel"), [true, true, true]),
            ("another's, which agrees to a third", seen("other", "ns", "ns/third"), [false, false, true]),
        ];
        for (what, seen, expected) in table {
            let taken = [Marked, Unowned, Any].map(|adoption| refusal(&seen, &id, adoption).is_none());
            assert_eq!(taken, expected, "{what}");
        }
        assert_eq!(
            refusal(&seen("other", "ns", ""), &id, Unowned).unwrap(),
            "it belongs to release ns/other; annotate it with windlass.dev/adopted-by=ns/rel to let this release take it over"
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
