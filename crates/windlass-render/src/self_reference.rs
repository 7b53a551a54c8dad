//! Releases that have the very object that they are deployed for.
//!
//! Owns their refusal. Such a release would change its object with each revision, and be made again for that; its uninstall would wait
//! for an object that waits for the uninstall. Does not know the kind of the object.

use serde_json::Value;

use windlass_cluster::{Gvk, ObjectRef};
use windlass_engine::RenderedRelease;

/// How many lists may be within each other; the engine knows of one.
const MAX_LISTS: usize = 8;

/// Refuses a release that has the object that it is deployed for, in whatever version of its kind. `namespace`: that of the release, in
/// which objects are that name none.
///
/// # Errors
/// The text names the template, and says what to do.
pub fn refuse_itself(release: &RenderedRelease, of: &ObjectRef, namespace: &str) -> Result<(), String> {
    let manifests = release.manifests.iter().map(|manifest| (&manifest.source, &manifest.object));
    let hooks = release.hooks.iter().map(|hook| (&hook.path, &hook.object));
    match manifests.chain(hooks).find(|(_, object)| has(object, of, namespace, MAX_LISTS)) {
        None => Ok(()),
        Some((source, _)) => Err(format!(
            "{source} has the object that the release is deployed for, {of}: each revision would change it, and none could be \
             uninstalled: remove it from the chart, or give it another name"
        )),
    }
}

/// Whether an object is this one, or a list with it.
fn has(object: &Value, of: &ObjectRef, namespace: &str, lists: usize) -> bool {
    let items = || object["items"].as_array().into_iter().flatten();
    is_same(object, of, namespace) || lists > 0 && items().any(|item| has(item, of, namespace, lists - 1))
}

fn is_same(object: &Value, of: &ObjectRef, namespace: &str) -> bool {
    let metadata = &object["metadata"];
    let within = metadata["namespace"].as_str().filter(|own| !own.is_empty()).unwrap_or(namespace);
    let kind = Gvk::of(object).is_some_and(|gvk| gvk.kind == of.gvk.kind && gvk.group == of.gvk.group);
    kind && metadata["name"] == of.name.as_str() && Some(within) == of.namespace.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_engine::{ChartHook, Manifest};

    #[test]
    fn a_release_may_not_have_its_own_object() {
        let of = ObjectRef::new(Gvk::new("g.example.com/v1", "Web"), Some("shop"), "a");
        let web = |version: &str, metadata: Value| json!({"apiVersion": version, "kind": "Web", "metadata": metadata});
        let own = web("g.example.com/v1", json!({"name": "a"}));
        for (object, namespace, refused) in [
            (own.clone(), "shop", true),
            (own.clone(), "elsewhere", false),
            (web("g.example.com/v2", json!({"name": "a", "namespace": "shop"})), "elsewhere", true),
            (web("g.example.com/v1", json!({"name": "a", "namespace": ""})), "shop", true),
            (web("g.example.com/v1", json!({"name": "b"})), "shop", false),
            (web("other.example.com/v1", json!({"name": "a"})), "shop", false),
            (web("g.example.com/v1", json!({"generateName": "a"})), "shop", false),
            (json!({"apiVersion": "v1", "kind": "List", "items": [null, own]}), "shop", true),
            (json!({"kind": "List", "items": [{"kind": "List", "items": [own]}]}), "shop", true),
            (Value::Null, "shop", false),
        ] {
            let manifest = Manifest {
                source: "c/templates/a.yaml".to_owned(),
                text: String::new(),
                object: object.clone(),
            };
            let release = RenderedRelease { manifests: vec![manifest], ..RenderedRelease::default() };
            let found = refuse_itself(&release, &of, namespace);
            assert_eq!(found.is_err(), refused, "{object} in {namespace}: {found:?}");
            if let Err(text) = found {
                assert!(
                    text.starts_with("c/templates/a.yaml has the object ") && text.contains("Web"),
                    "{text}"
                );
            }
        }
        let hook =
            ChartHook { path: "c/templates/hook.yaml".to_owned(), object: own, ..ChartHook::default() };
        let release = RenderedRelease { hooks: vec![hook], ..RenderedRelease::default() };
        assert!(refuse_itself(&release, &of, "shop").unwrap_err().starts_with("c/templates/hook.yaml has "));
    }
}
