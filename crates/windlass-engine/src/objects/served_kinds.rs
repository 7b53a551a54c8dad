//! Objects of recorded revisions whose API version or kind is no longer served. Pure.
//!
//! Old records must not block an operation: objects are converted to a served version, and those without one are
//! skipped with a warning.

use crate::{objects::desired_objects, request::RenderedRelease};
use serde_json::Value;
use windlass_cluster::{Gvk, ObjectMeta, ServedKinds};

/// Converts stored documents to served versions; returns the warnings.
pub(crate) fn to_served<'v>(
    documents: impl Iterator<Item = &'v mut Value>,
    kinds: &ServedKinds,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for document in documents {
        for object in desired_objects::items_mut(document) {
            let Some(gvk) = Gvk::of(object) else { continue };
            let Some(successor) = kinds.successor(&gvk) else { continue };
            warnings.push(format!(
                "{} is no longer served: {} is used in its place",
                named(&gvk, object),
                successor.api_version()
            ));
            object["apiVersion"] = successor.api_version().into();
        }
    }
    warnings
}

/// Removes documents of kinds that are not served; returns the warnings.
pub(crate) fn without_gone(rendered: &mut RenderedRelease, is_served: impl Fn(&Gvk) -> bool) -> Vec<String> {
    let mut warnings = Vec::new();
    rendered.manifests.retain(|manifest| {
        let gone: Vec<String> = desired_objects::items(&manifest.object)
            .filter_map(|object| Gvk::of(object).filter(|gvk| !is_served(gvk)).map(|gvk| named(&gvk, object)))
            .collect();
        warnings.extend(gone.iter().map(|one| format!("{one} is no longer served: it is skipped")));
        gone.is_empty()
    });
    warnings
}

/// Prepares an old revision for an apply: in served versions, without removed built-in kinds. Kinds of CRDs may be
/// missing for other reasons, which the caller must see.
pub(crate) fn to_applicable(rendered: &mut RenderedRelease, kinds: &ServedKinds) -> Vec<String> {
    let documents = rendered.manifests.iter_mut().map(|m| &mut m.object);
    let hooks = rendered.hooks.iter_mut().map(|h| &mut h.object);
    let mut warnings = to_served(documents.chain(hooks), kinds);
    warnings.extend(without_gone(rendered, |gvk| {
        kinds.get(gvk).is_some() || !is_built_in(&gvk.group) || kinds.stale.contains(&gvk.api_version())
    }));
    warnings
}

fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn named(gvk: &Gvk, object: &Value) -> String {
    let name = ObjectMeta::of(object).name();
    format!("{} {name} of {}", gvk.kind, gvk.api_version())
}
