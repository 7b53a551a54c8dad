//! From rendered documents to objects with an identity. Pure.

use crate::{
    objects::ownership,
    request::{CrdFile, ReleaseId},
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use windlass_cluster::{ClusterError, Gvk, ObjectKey, ObjectRef, ServedKinds};

pub(crate) type Digest = [u8; 32];

/// Why a document cannot be an object.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The document is not an object.
    #[error("{path}: {reason}")]
    Manifest { path: String, reason: String },
    /// The cluster serves no such kind.
    #[error(
        "resource mapping not found for name: {name:?} namespace: {namespace:?} from \"\": {source}\nensure CRDs are installed first"
    )]
    NoKind { name: String, namespace: String, source: ClusterError },
}

/// An object that the release is to have.
#[derive(Debug, Clone)]
pub(crate) struct DesiredObject {
    pub(crate) object: ObjectRef,
    pub(crate) key: ObjectKey,
    /// Path of its template.
    pub(crate) path: String,
    /// The object as it is applied: with its namespace and the release's ownership metadata.
    pub(crate) body: Value,
    /// Digest of the object as rendered.
    pub(crate) digest: Digest,
}

/// Whether kinds are namespaced: those that the cluster serves, and those that the request itself defines.
pub(crate) struct Scopes<'a> {
    served: &'a ServedKinds,
    from_crds: BTreeMap<Gvk, bool>,
}

impl<'a> Scopes<'a> {
    pub(crate) fn new<'v>(
        served: &'a ServedKinds,
        crds: &'v [CrdFile],
        documents: impl Iterator<Item = &'v Value>,
    ) -> Self {
        let mut from_crds = BTreeMap::new();
        for crd in crds.iter().flat_map(|file| &file.objects).chain(documents) {
            if crd["kind"] == "CustomResourceDefinition" {
                from_crds.extend(kinds_of_crd(crd));
            }
        }
        Self { served, from_crds }
    }

    pub(crate) fn namespaced(&self, gvk: &Gvk) -> Option<bool> {
        self.served.get(gvk).map(|r| r.namespaced).or_else(|| self.from_crds.get(gvk).copied())
    }
}

/// Whether an object defines a kind.
pub(crate) fn is_crd(object: &ObjectRef) -> bool {
    is_crd_kind(&object.gvk)
}

pub(crate) fn is_crd_kind(gvk: &Gvk) -> bool {
    gvk.group == "apiextensions.k8s.io" && gvk.kind == "CustomResourceDefinition"
}

/// The kinds that a CustomResourceDefinition defines.
pub(crate) fn kinds_of_crd(crd: &Value) -> Vec<(Gvk, bool)> {
    let spec = &crd["spec"];
    let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str()) else {
        return Vec::new();
    };
    let namespaced = spec["scope"] == "Namespaced";
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let served =
        versions.iter().filter(|v| v["served"] != Value::Bool(false)).filter_map(|v| v["name"].as_str());
    served.map(|version| (Gvk::new(&format!("{group}/{version}"), kind), namespaced)).collect()
}

/// The objects of documents: lists taken apart, namespaces filled in. A later document of the same object wins.
pub(crate) fn resolve<'v>(
    documents: impl Iterator<Item = (&'v str, &'v Value)>,
    id: &ReleaseId,
    scopes: &Scopes<'_>,
) -> Result<Vec<DesiredObject>, DocumentError> {
    let mut targets: Vec<DesiredObject> = Vec::new();
    let mut places: BTreeMap<ObjectKey, usize> = BTreeMap::new();
    for (path, document) in documents {
        for object in items(document) {
            let Some(target) = target(path, object, id, scopes)? else { continue };
            match places.get(&target.key) {
                Some(&place) => targets[place] = target,
                None => {
                    places.insert(target.key.clone(), targets.len());
                    targets.push(target);
                }
            }
        }
    }
    Ok(targets)
}

/// Checks that labels and annotations are maps of texts, which Helm's client needs to read an object at all.
///
/// # Errors
/// They are not, in Go's words.
pub(crate) fn check_metadata<'v>(documents: impl Iterator<Item = &'v Value>) -> Result<(), String> {
    for object in documents.flat_map(items) {
        for field in ["labels", "annotations"] {
            let wrong = |found: &Value, wanted: &str| {
                let found = match found {
                    Value::Null => return Ok(()),
                    Value::Bool(_) => "bool",
                    Value::Number(_) => "number",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                Err(format!(
                    "unable to decode \"\": json: cannot unmarshal {found} into Go struct field ObjectMeta.metadata.{field} of type \
                     {wanted}"
                ))
            };
            match &object["metadata"][field] {
                Value::Object(all) => {
                    all.values().filter(|v| !v.is_string()).try_for_each(|v| wrong(v, "string"))?;
                }
                other => wrong(other, "map[string]string")?,
            }
        }
    }
    Ok(())
}

/// The objects of a document: the items of a list kind, else the document itself.
pub(crate) fn items(document: &Value) -> impl Iterator<Item = &Value> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    let items = document["items"].as_array().filter(|_| is_list);
    let own = if items.is_some() { None } else { Some(document) };
    items.into_iter().flatten().chain(own)
}

/// The kinds of the objects of documents that neither the documents nor the CRDs of the request define themselves.
pub(crate) fn needed_kinds<'v>(
    documents: impl Iterator<Item = &'v Value> + Clone,
    crds: &'v [CrdFile],
) -> BTreeSet<Gvk> {
    let scopes = Scopes::new(&ServedKinds::default(), crds, documents.clone()).from_crds;
    documents.flat_map(items).filter_map(Gvk::of).filter(|gvk| !scopes.contains_key(gvk)).collect()
}

/// As [`items`], mutable.
pub(crate) fn items_mut(document: &mut Value) -> Vec<&mut Value> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if is_list && document["items"].is_array() {
        return document["items"].as_array_mut().into_iter().flatten().collect();
    }
    vec![document]
}

/// A document without content.
pub(crate) fn is_empty(object: &Value) -> bool {
    object.is_null() || object.as_object().is_some_and(serde_json::Map::is_empty)
}

fn target(
    path: &str,
    object: &Value,
    id: &ReleaseId,
    scopes: &Scopes<'_>,
) -> Result<Option<DesiredObject>, DocumentError> {
    if is_empty(object) {
        return Ok(None);
    }
    let wrong = |reason: String| DocumentError::Manifest { path: path.to_owned(), reason };
    let reference = reference(path, object, &id.namespace, |gvk| scopes.namespaced(gvk))?;
    let mut body = object.clone();
    if let Some(namespace) = &reference.namespace {
        body["metadata"]["namespace"] = namespace.as_str().into();
    }
    ownership::stamp(&mut body, id).map_err(wrong)?;
    let digest = Sha256::digest(object.to_string().as_bytes()).into();
    Ok(Some(DesiredObject { key: reference.key(), object: reference, path: path.to_owned(), body, digest }))
}

/// The reference of the object in a document.
pub(crate) fn reference(
    path: &str,
    object: &Value,
    default_namespace: &str,
    namespaced: impl Fn(&Gvk) -> Option<bool>,
) -> Result<ObjectRef, DocumentError> {
    let wrong = |reason: &str| DocumentError::Manifest { path: path.to_owned(), reason: reason.to_owned() };
    if !object.is_object() {
        return Err(wrong("the document is not an object"));
    }
    let gvk = Gvk::of(object).ok_or_else(|| wrong("apiVersion or kind is missing"))?;
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().filter(|n| !n.is_empty());
    let namespace = metadata["namespace"].as_str().filter(|n| !n.is_empty());
    let Some(name) = name else {
        let generated = metadata["generateName"].is_string();
        return Err(wrong(if generated {
            "metadata.generateName: only hooks may leave their name to the server; give the object a metadata.name"
        } else {
            "metadata.name is missing"
        }));
    };
    for (field, text) in [("name", Some(name)), ("namespace", namespace)] {
        if let Some(text) = text.filter(|text| matches!(*text, "." | "..")) {
            return Err(wrong(&format!(
                "metadata.{field}: {text:?} is not a name of an object or namespace"
            )));
        }
    }
    let Some(namespaced) = namespaced(&gvk) else {
        return Err(DocumentError::NoKind {
            name: name.to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            source: ClusterError::NoKind(Box::new(gvk)),
        });
    };
    let namespace = namespaced.then(|| namespace.unwrap_or(default_namespace));
    Ok(ObjectRef::new(gvk, namespace, name))
}

/// Digest of a release's objects and hooks, independent of their order: what "unchanged" compares.
pub(crate) fn state_digest<'v>(
    objects: impl Iterator<Item = &'v Value>,
    hooks: impl Iterator<Item = &'v Value>,
) -> Digest {
    let digests = |values: &mut dyn Iterator<Item = &'v Value>| {
        let own = values.filter(|v| !v.is_null()).map(|v| Sha256::digest(v.to_string().as_bytes()).into());
        let mut all: Vec<Digest> = own.collect();
        all.sort_unstable();
        all
    };
    let (mut objects, mut hooks) = (objects, hooks);
    let mut hasher = Sha256::new();
    for digest in digests(&mut objects) {
        hasher.update(digest);
    }
    hasher.update(b"hooks");
    for digest in digests(&mut hooks) {
        hasher.update(digest);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resolve_all(documents: &[Value]) -> Result<Vec<String>, String> {
        let served = ServedKinds::default();
        let crds = [
            json!({"kind": "CustomResourceDefinition", "spec": {"group": "e.x", "scope": "Namespaced",
                "names": {"kind": "Thing"}, "versions": [{"name": "v1", "served": true}]}}),
            json!({"kind": "CustomResourceDefinition", "spec": {"group": "e.x", "scope": "Cluster",
                "names": {"kind": "Wide"}, "versions": [{"name": "v1"}, {"name": "v0", "served": false}]}}),
        ];
        let scopes = Scopes::new(&served, &[], crds.iter());
        let id = ReleaseId::new("home", "r");
        resolve(documents.iter().map(|d| ("t.yaml", d)), &id, &scopes)
            .map(|targets| targets.iter().map(|t| t.object.to_string()).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn labels_and_annotations_are_texts() {
        let told = |metadata: Value| {
            let document = json!({"kind": "Pod", "metadata": metadata});
            check_metadata(std::iter::once(&document)).err().unwrap_or_default()
        };
        let wrong = |found: &str, field: &str, wanted: &str| {
            format!(
                "unable to decode \"\": json: cannot unmarshal {found} into Go struct field ObjectMeta.metadata.{field} of type {wanted}"
            )
        };
        for (metadata, wanted) in [
            (json!({"labels": {"a": "1", "b": null}}), String::new()),
            (json!({"labels": null}), String::new()),
            (json!({"labels": {"a": 1}}), wrong("number", "labels", "string")),
            (json!({"annotations": {"a": true}}), wrong("bool", "annotations", "string")),
            (json!({"annotations": ["a"]}), wrong("array", "annotations", "map[string]string")),
        ] {
            assert_eq!(told(metadata), wanted);
        }
    }

    #[test]
    fn gives_documents_an_identity() {
        let thing = |name: &str| json!({"apiVersion": "e.x/v1", "kind": "Thing", "metadata": {"name": name}});
        let away =
            json!({"apiVersion": "e.x/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "away"}});
        let wide = json!({"apiVersion": "e.x/v1", "kind": "Wide", "metadata": {"name": "w", "namespace": "ignored"}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [thing("l1"), thing("l2")]});
        let found = resolve_all(&[thing("a"), Value::Null, away, wide, list, thing("a")]).unwrap();
        assert_eq!(found, ["Thing home/a", "Thing away/a", "Wide w", "Thing home/l1", "Thing home/l2"]);
    }

    #[test]
    fn says_what_is_wrong_with_a_document() {
        let cases = [
            (json!("text"), "t.yaml: the document is not an object"),
            (json!({"kind": "Thing"}), "t.yaml: apiVersion or kind is missing"),
            (
                json!({"apiVersion": "e.x/v1", "kind": "Thing", "metadata": {}}),
                "t.yaml: metadata.name is missing",
            ),
            (
                json!({"apiVersion": "e.x/v0", "kind": "Wide", "metadata": {"name": "w"}}),
                "resource mapping not found for name: \"w\" namespace: \"\" from \"\": no matches for kind \"Wide\" in version \
                 \"e.x/v0\"\nensure CRDs are installed first",
            ),
        ];
        for (document, expected) in cases {
            assert_eq!(resolve_all(std::slice::from_ref(&document)).unwrap_err(), expected, "{document}");
        }
    }

    #[test]
    fn the_state_digest_ignores_order_and_comments() {
        let (a, b) = (json!({"a": 1}), json!({"b": 2}));
        let digest = |objects: &[Value], hooks: &[Value]| state_digest(objects.iter(), hooks.iter());
        assert_eq!(digest(&[a.clone(), Value::Null, b.clone()], &[]), digest(&[b.clone(), a.clone()], &[]));
        assert_ne!(digest(std::slice::from_ref(&a), std::slice::from_ref(&b)), digest(&[a, b], &[]));
    }
}
