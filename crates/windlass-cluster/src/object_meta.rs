//! The metadata of an object, as readers need it: the only place that knows how `metadata` is laid out in JSON.

use serde_json::Value;

use super::object_ref::{Gvk, ObjectRef};

/// The metadata of an object. What is not there, or is of another type, is empty.
#[derive(Clone, Copy, Debug)]
pub struct ObjectMeta<'o>(&'o Value);

impl<'o> ObjectMeta<'o> {
    /// The metadata of an object of any kind, or of a `PartialObjectMetadata`.
    #[must_use]
    pub fn of(object: &'o Value) -> Self {
        Self(&object["metadata"])
    }

    fn text(self, field: &str) -> &'o str {
        self.0[field].as_str().unwrap_or_default()
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'o str {
        self.text("name")
    }

    /// The namespace; `None` of an object that is in none.
    #[must_use]
    pub fn namespace(self) -> Option<&'o str> {
        self.0["namespace"].as_str()
    }

    /// The UID.
    #[must_use]
    pub fn uid(self) -> &'o str {
        self.text("uid")
    }

    /// The generation of the spec; 0 if the kind has none.
    #[must_use]
    pub fn generation(self) -> i64 {
        self.0["generation"].as_i64().unwrap_or_default()
    }

    /// The resource version.
    #[must_use]
    pub fn resource_version(self) -> &'o str {
        self.text("resourceVersion")
    }

    /// The resource version as a number: versions of one kind grow.
    #[must_use]
    pub fn version_number(self) -> Option<u64> {
        self.resource_version().parse().ok()
    }

    /// An annotation.
    #[must_use]
    pub fn annotation(self, name: &str) -> Option<&'o str> {
        self.0["annotations"][name].as_str()
    }

    /// A label.
    #[must_use]
    pub fn label(self, name: &str) -> Option<&'o str> {
        self.0["labels"][name].as_str()
    }

    /// The annotations, by name.
    pub fn annotations(self) -> impl Iterator<Item = (&'o str, &'o str)> {
        texts(&self.0["annotations"])
    }

    /// The labels, by name.
    pub fn labels(self) -> impl Iterator<Item = (&'o str, &'o str)> {
        texts(&self.0["labels"])
    }

    /// The finalizers, in their order.
    pub fn finalizers(self) -> impl Iterator<Item = &'o str> {
        self.0["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// What each field manager has applied or updated.
    #[must_use]
    pub fn managed_fields(self) -> &'o [Value] {
        self.0["managedFields"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_deleting(self) -> bool {
        self.0["deletionTimestamp"].is_string()
    }

    /// When the object was created: RFC 3339.
    #[must_use]
    pub fn created_at(self) -> &'o str {
        self.text("creationTimestamp")
    }

    /// `NAMESPACE/NAME`, or the name of an object that is in no namespace.
    #[must_use]
    pub fn namespaced_name(self) -> String {
        match self.namespace().unwrap_or_default() {
            "" => self.name().to_owned(),
            namespace => format!("{namespace}/{}", self.name()),
        }
    }

    /// The object as one of a kind.
    #[must_use]
    pub fn reference(self, kind: Gvk) -> ObjectRef {
        ObjectRef::new(kind, self.namespace(), self.name())
    }
}

fn texts(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let all = map.as_object().into_iter().flatten();
    all.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_there_is_empty() {
        let object = json!({"metadata": {
            "name": "web", "namespace": "apps", "uid": "u", "generation": 3, "resourceVersion": "12", "finalizers": ["a", 1, "b"],
            "labels": {"l": "1", "n": 2}, "annotations": {"a": "2"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
        }});
        let meta = ObjectMeta::of(&object);
        assert_eq!((meta.namespaced_name().as_str(), meta.uid(), meta.generation()), ("apps/web", "u", 3));
        assert_eq!(
            (meta.version_number(), meta.label("l"), meta.annotation("a")),
            (Some(12), Some("1"), Some("2"))
        );
        assert_eq!(meta.labels().collect::<Vec<_>>(), [("l", "1")]);
        assert_eq!(meta.finalizers().collect::<Vec<_>>(), ["a", "b"]);
        assert!(meta.is_deleting());
        for object in [json!({}), json!(null), json!({"metadata": []}), json!({"metadata": {"name": 1}})] {
            let meta = ObjectMeta::of(&object);
            assert_eq!((meta.name(), meta.namespace(), meta.generation()), ("", None, 0));
            assert_eq!((meta.version_number(), meta.is_deleting()), (None, false));
        }
    }
}
