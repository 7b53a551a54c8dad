//! The owner that a front end gives to the objects of a release.
//!
//! Owns which form it has: an owner reference where Kubernetes permits one, annotations elsewhere. Leaves hooks unchanged, and adds no
//! label. Does not know the kind of the owner.

use std::fmt::Write as _;

use chart_compat::yaml;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use windlass_base::hex::hex;
use windlass_cluster::{Gvk, ObjectMeta};
use windlass_engine::{RenderedRelease, record::Record};

/// Annotation of an object without an owner reference: `NAMESPACE/NAME` of its owner.
const PRIMARY: &str = "operator-sdk/primary-resource";
/// Annotation beside it: `KIND.GROUP` of the owner.
const PRIMARY_TYPE: &str = "operator-sdk/primary-resource-type";

/// An object that owns those of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectOwner {
    /// Its kind.
    pub gvk: Gvk,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl ObjectOwner {
    fn reference(&self) -> Value {
        json!({
            "apiVersion": self.gvk.api_version(),
            "kind": self.gvk.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        })
    }

    /// The annotations of an object without an owner reference, with their values.
    fn annotations(&self) -> [(&'static str, String); 2] {
        let kind = match self.gvk.group.as_str() {
            "" => self.gvk.kind.clone(),
            group => format!("{}.{group}", self.gvk.kind),
        };
        [(PRIMARY, format!("{}/{}", self.namespace, self.name)), (PRIMARY_TYPE, kind)]
    }
}

/// Gives the objects of a release an owner. `is_namespaced`: the scope of a kind, if the server serves it.
///
/// # Errors
/// An object whose metadata is not a map, named by its template.
pub fn add_owner(
    release: &mut RenderedRelease,
    owner: &ObjectOwner,
    is_namespaced: impl Fn(&Gvk) -> Option<bool>,
) -> Result<(), String> {
    for manifest in &mut release.manifests {
        if manifest.object.is_null() {
            continue;
        }
        let failed = |reason: String| format!("{}: owner: {reason}", manifest.source);
        let is_list = manifest.object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match manifest.object.get_mut("items").and_then(Value::as_array_mut).filter(|_| is_list) {
            Some(items) => {
                for object in items {
                    own(object, owner, &is_namespaced).map_err(failed)?;
                }
            }
            None => own(&mut manifest.object, owner, &is_namespaced).map_err(failed)?,
        }
        let text = yaml::json_to_yaml(&manifest.object.to_string()).map_err(|e| failed(e.to_string()))?;
        text.trim_end().clone_into(&mut manifest.text);
    }
    let mut digest = Sha256::default();
    digest.update(&release.checksum);
    digest.update(format!("\n{owner:?}"));
    release.checksum = hex(&digest.finalize());
    release.manifest_text.clear();
    for manifest in &release.manifests {
        let (source, text) = (&manifest.source, &manifest.text);
        write!(release.manifest_text, "---\n# Source: {source}\n{text}\n").map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Sets the reference, or the annotations.
fn own(
    object: &mut Value,
    owner: &ObjectOwner,
    is_namespaced: &impl Fn(&Gvk) -> Option<bool>,
) -> Result<(), String> {
    let gvk = Gvk::of(object);
    let elsewhere = ObjectMeta::of(object).namespace().is_some_and(|own| own != owner.namespace);
    let namespaced = gvk.as_ref().and_then(is_namespaced).unwrap_or(false);
    // An owner in another namespace, or a namespaced one of a cluster-scoped object, would have it collected as garbage. An object that
    // is to outlive its release must not go with its owner either.
    let refers = namespaced && !elsewhere && !Record::keeps(object);
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or_else(|| "its metadata is not a map".to_owned())?;
    if refers {
        let own = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
        if own.is_null() {
            *own = json!([]);
        }
        let own =
            own.as_array_mut().ok_or_else(|| "its metadata.ownerReferences is not a list".to_owned())?;
        if !own.iter().any(|known| known["uid"] == owner.uid.as_str()) {
            own.push(owner.reference());
        }
        return Ok(());
    }
    let own = metadata.entry("annotations").or_insert_with(|| json!({}));
    if own.is_null() {
        *own = json!({});
    }
    let own = own.as_object_mut().ok_or_else(|| "its metadata.annotations is not a map".to_owned())?;
    own.extend(owner.annotations().map(|(name, value)| (name.to_owned(), value.into())));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::Manifest;

    fn owned(object: Value) -> Result<RenderedRelease, String> {
        let manifest = Manifest { source: "c/templates/a.yaml".to_owned(), text: String::new(), object };
        let mut release = RenderedRelease { manifests: vec![manifest], ..RenderedRelease::default() };
        let owner = ObjectOwner {
            gvk: Gvk::new("cache.example.com/v1", "Cache"),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u1".to_owned(),
        };
        add_owner(&mut release, &owner, |gvk| (gvk.kind != "Absent").then_some(gvk.kind != "ClusterRole"))?;
        Ok(release)
    }

    #[test]
    fn an_object_gets_a_reference_where_one_is_permitted() {
        let object =
            |kind: &str, metadata: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        for (object, refers) in [
            (object("Service", json!({"name": "a"})), true),
            (object("Service", json!({"name": "a", "namespace": "shop"})), true),
            (object("Service", json!({"name": "a", "namespace": "other"})), false),
            (object("ClusterRole", json!({"name": "a"})), false),
            (object("Absent", json!({"name": "a"})), false),
            (
                object("Service", json!({"name": "a", "annotations": {"helm.sh/resource-policy": "keep"}})),
                false,
            ),
        ] {
            let release = owned(object.clone()).unwrap();
            let metadata = &release.manifests[0].object["metadata"];
            assert_eq!(metadata["ownerReferences"][0]["uid"] == "u1", refers, "{object}");
            assert_eq!(metadata["annotations"][PRIMARY] == "shop/web", !refers, "{object}");
            assert_eq!(
                metadata["annotations"][PRIMARY_TYPE] == "Cache.cache.example.com",
                !refers,
                "{object}"
            );
            assert!(metadata["labels"].is_null(), "{object}");
            let text = &release.manifests[0].text;
            assert_eq!(crate::parse_manifest(text).unwrap(), release.manifests[0].object, "{text}");
            assert!(release.manifest_text.starts_with("---\n# Source: c/templates/a.yaml\n"));
        }
    }

    #[test]
    fn items_of_lists_are_owned_and_bad_metadata_is_an_error() {
        let items = json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]);
        let list = owned(json!({"apiVersion": "v1", "kind": "List", "items": items})).unwrap();
        assert_eq!(list.manifests[0].object["items"][0]["metadata"]["ownerReferences"][0]["name"], "web");
        let error = owned(json!({"apiVersion": "v1", "kind": "Service", "metadata": []})).unwrap_err();
        assert_eq!(error, "c/templates/a.yaml: owner: its metadata is not a map");
        let wrong = json!({"name": "a", "ownerReferences": "x"});
        let error = owned(json!({"apiVersion": "v1", "kind": "Service", "metadata": wrong})).unwrap_err();
        assert!(error.ends_with("its metadata.ownerReferences is not a list"), "{error}");
    }
}
