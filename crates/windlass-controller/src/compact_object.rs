//! An object as it is kept between passes: as text, since a tree of it is five to ten times as large.
//!
//! Owns what of an object must be at hand without parsing it.

use serde_json::Value;

use windlass_cluster::ObjectMeta;

/// An object without its managed fields, which are most of it and which nobody asks for.
pub(super) struct CompactObject {
    text: Box<[u8]>,
    uid: String,
    generation: i64,
    /// Versions of one kind are numbers that grow.
    version: Option<u64>,
}

impl CompactObject {
    /// Keeps an object.
    pub(super) fn of(object: &Value) -> Self {
        let meta = ObjectMeta::of(object);
        Self {
            // A JSON value can always be written.
            text: serde_json::to_vec(object).unwrap_or_default().into_boxed_slice(),
            uid: meta.uid().to_owned(),
            generation: meta.generation(),
            version: meta.version_number(),
        }
    }

    /// The object.
    pub(super) fn value(&self) -> Value {
        #[expect(clippy::disallowed_methods, reason = "written from a value")]
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    /// Whether another state is of the same object and older.
    pub(super) fn is_newer_than(&self, object: &Value) -> bool {
        let meta = ObjectMeta::of(object);
        meta.uid() == self.uid
            && self.version.zip(meta.version_number()).is_some_and(|(own, other)| other < own)
    }

    /// Whether another state is of the same object and generation, and newer.
    pub(super) fn is_status_older_than(&self, object: &Value) -> bool {
        let meta = ObjectMeta::of(object);
        meta.uid() == self.uid
            && self.version.zip(meta.version_number()).is_some_and(|(own, other)| own < other)
            && meta.generation() == self.generation
    }
}

/// An object to keep, without its managed fields.
pub(super) fn without_managed_fields(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn states_of_one_object_are_ordered() {
        let object = |uid: &str, version: &str, generation: i64| json!({"metadata": {"uid": uid, "resourceVersion": version, "generation": generation}});
        for (known, other, newer, older) in [
            (object("a", "10", 1), object("a", "9", 1), true, false),
            (object("a", "10", 1), object("a", "10", 1), false, false),
            (object("a", "10", 1), object("a", "11", 1), false, true),
            (object("a", "10", 1), object("a", "11", 2), false, false),
            (object("a", "10", 1), object("b", "9", 1), false, false),
            (object("a", "10", 1), object("a", "x", 1), false, false),
            (object("a", "10", 1), Value::Null, false, false),
        ] {
            let kept = CompactObject::of(&known);
            assert_eq!(kept.value(), known);
            assert_eq!(
                (kept.is_newer_than(&other), kept.is_status_older_than(&other)),
                (newer, older),
                "{known} {other}"
            );
        }
    }

    #[test]
    fn kept_objects_are_without_their_managers() {
        let object = json!({"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}, "spec": {}});
        assert_eq!(without_managed_fields(object), json!({"metadata": {"name": "a"}, "spec": {}}));
        assert_eq!(without_managed_fields(json!({})), json!({}));
    }
}
