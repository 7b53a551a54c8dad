//! A JSON Schema document, and what references in it point to.

use std::collections::BTreeMap;

use chart_compat::go::url;
use serde_json::Value;

/// The document that references point into.
pub(crate) struct Document<'a> {
    root: &'a Value,
    /// Schemas by their identifier: `$id` and `id`, and `#name` of anchors.
    identified: BTreeMap<String, &'a Value>,
    /// Whether what stands beside a reference counts: not before draft 2019-09.
    pub(crate) siblings_count: bool,
}

impl<'a> Document<'a> {
    /// Collects the identifiers of a schema.
    pub(crate) fn new(root: &'a Value) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let siblings_count =
            !["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|d| draft.contains(d));
        let mut document = Self { root, identified: BTreeMap::new(), siblings_count };
        document.collect(root);
        document
    }

    fn collect(&mut self, value: &'a Value) {
        match value {
            Value::Object(map) => {
                for key in ["$id", "id"] {
                    if let Some(Value::String(id)) = map.get(key) {
                        self.identified.entry(id.trim_end_matches('#').to_owned()).or_insert(value);
                    }
                }
                if let Some(Value::String(name)) = map.get("$anchor") {
                    self.identified.entry(format!("#{name}")).or_insert(value);
                }
                map.values().for_each(|value| self.collect(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    /// The schema that a reference points to, if it is in this document.
    pub(crate) fn resolve(&self, reference: &str) -> Option<&'a Value> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let start = if base.is_empty() { self.root } else { self.identified(base)? };
        if fragment.is_empty() {
            return Some(start);
        }
        let fragment = String::from_utf8(url::path_unescape(fragment.as_bytes()).ok()?).ok()?;
        if fragment.starts_with('/') {
            return start.pointer(&fragment);
        }
        self.identified.get(&format!("#{fragment}")).copied()
    }

    /// The schema with an identifier, which may be written relative to the one of the document.
    fn identified(&self, base: &str) -> Option<&'a Value> {
        let found = self.identified.get(base).or_else(|| {
            let root = self.root.get("$id").and_then(Value::as_str)?;
            let (folder, _) = root.trim_end_matches('#').rsplit_once('/')?;
            self.identified.get(&format!("{folder}/{}", base.trim_start_matches("./")))
        });
        found.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_are_found_in_the_document() {
        let root = json!({"$id": "https://example.com/schemas/values.json", "definitions": {"a b": {"title": "x"},
            "c": {"$id": "https://example.com/schemas/c.json", "$anchor": "see", "$defs": {"d": {"title": "d"}}}}});
        let document = Document::new(&root);
        let title = |reference: &str| document.resolve(reference).map(|v| v["title"].clone());
        assert_eq!(document.resolve("#"), Some(&root));
        assert_eq!(title("#/definitions/a%20b"), Some(json!("x")));
        assert_eq!(title("https://example.com/schemas/values.json#/definitions/a%20b"), Some(json!("x")));
        assert_eq!(title("values.json#/definitions/a%20b"), Some(json!("x")));
        assert_eq!(title("c.json#/$defs/d"), Some(json!("d")));
        assert_eq!(document.resolve("#see"), document.resolve("#/definitions/c"));
        for absent in
            ["#/definitions/none", "https://example.com/other.json", "#none", "other.json#/a", "#/%zz"]
        {
            assert_eq!(document.resolve(absent), None, "{absent}");
        }
    }
}
