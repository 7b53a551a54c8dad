//! Objects of past revisions whose API version, or kind, the cluster no longer serves. Pure.
//!
//! An old record must block nothing: its objects are reached in a version that is served, and what has none is passed over
//! and told.

use crate::cluster::{Gvk, ServedKinds};
use crate::release::{desired_objects, request::RenderedRelease};
use serde_json::Value;

/// Puts stored documents into versions that are served; answers with what is said of it.
pub(crate) fn to_served<'v>(
    documents: impl Iterator<Item = &'v mut Value>,
    kinds: &ServedKinds,
) -> Vec<String> {
    let mut told = Vec::new();
    for document in documents {
        for object in desired_objects::items_mut(document) {
            let Some(gvk) = Gvk::of(object) else { continue };
            let Some(successor) = kinds.successor(&gvk) else { continue };
            told.push(format!(
                "{} is no longer served: {} is used in its place",
                named(&gvk, object),
                successor.api_version()
            ));
            object["apiVersion"] = successor.api_version().into();
        }
    }
    told
}

/// Takes out documents of kinds that are not there; answers with what is said of it.
pub(crate) fn without_gone(rendered: &mut RenderedRelease, there: impl Fn(&Gvk) -> bool) -> Vec<String> {
    let mut told = Vec::new();
    rendered.manifests.retain(|manifest| {
        let gone: Vec<String> = desired_objects::items(&manifest.object)
            .filter_map(|object| Gvk::of(object).filter(|gvk| !there(gvk)).map(|gvk| named(&gvk, object)))
            .collect();
        told.extend(gone.iter().map(|one| format!("{one} is no longer served: it is passed over")));
        gone.is_empty()
    });
    told
}

/// An old revision as it can still be applied: in versions that are served, and without kinds that Kubernetes once had.
/// Kinds that CRDs bring are missing for other reasons, which whoever asks is to know.
pub(crate) fn to_last(rendered: &mut RenderedRelease, kinds: &ServedKinds) -> Vec<String> {
    let documents = rendered.manifests.iter_mut().map(|m| &mut m.object);
    let hooks = rendered.hooks.iter_mut().map(|h| &mut h.object);
    let mut told = to_served(documents.chain(hooks), kinds);
    told.extend(without_gone(rendered, |gvk| {
        kinds.get(gvk).is_some() || !is_built_in(&gvk.group) || kinds.stale.contains(&gvk.api_version())
    }));
    told
}

fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn named(gvk: &Gvk, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{} {name} of {}", gvk.kind, gvk.api_version())
}
