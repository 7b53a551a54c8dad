//! Edits by hand of a chart's schema: YAML that is merged over it.

use chart_compat::yaml;
use serde_json::Value;

use crate::Object;
use crate::structural_rules::violations;
use crate::subchart_values::to_json;

/// A part of the schema of `spec`. Maps are merged, `null` removes, all else replaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Overlay {
    file: String,
    schema: Value,
}

/// An overlay that cannot be read or leads to a schema that the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverlayError {
    /// It is not YAML.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The reason.
        error: String,
    },
    /// The overlay is not a map.
    #[error(
        "{file}: it must be a map, such as `properties: {{image: {{properties: {{pullSecret: {{type: string}}}}}}}}`"
    )]
    NoMap {
        /// The file.
        file: String,
    },
    /// The API server would refuse the schema.
    #[error("{file}: {path}: {text}")]
    Rule {
        /// The file.
        file: String,
        /// The place in the schema.
        path: String,
        /// The rule.
        text: String,
    },
}

impl Overlay {
    /// Reads an overlay. `file`: its name in errors.
    ///
    /// # Errors
    /// It is not YAML, or no map.
    pub fn read(file: &str, text: &[u8]) -> Result<Self, OverlayError> {
        let data = yaml::from_slice_strict(text).map_err(|e| e.to_string()).and_then(|data| to_json(&data));
        match data.map_err(|error| OverlayError::Read { file: file.to_owned(), error })? {
            schema @ Value::Object(_) => Ok(Self { file: file.to_owned(), schema }),
            _ => Err(OverlayError::NoMap { file: file.to_owned() }),
        }
    }

    /// Merges it over the schema of `spec`.
    ///
    /// # Errors
    /// The first rule of the API server that the result breaks.
    pub(crate) fn apply(&self, spec: &mut Value) -> Result<(), OverlayError> {
        merge(spec, &self.schema);
        let mut broken = violations(spec);
        if spec.get("type") != Some(&Value::from("object")) {
            broken.insert(
                0,
                crate::Violation { path: "type".to_owned(), text: "spec must be an object".to_owned() },
            );
        }
        match broken.into_iter().next() {
            None => Ok(()),
            Some(rule) => {
                let path = if rule.path.is_empty() { "spec".to_owned() } else { rule.path };
                Err(OverlayError::Rule { file: self.file.clone(), path, text: rule.text })
            }
        }
    }
}

/// RFC 7396.
fn merge(base: &mut Value, over: &Value) {
    let Value::Object(over) = over else {
        *base = over.clone();
        return;
    };
    if !base.is_object() {
        *base = Value::Object(Object::new());
    }
    let Value::Object(base) = base else { return };
    for (key, value) in over {
        if value.is_null() {
            base.remove(key);
        } else {
            merge(base.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn overlays_are_merged_and_checked() {
        let base = json!({"type": "object", "required": ["a"], "properties": {"image": {"type": "object",
            "properties": {"tag": {"type": "string"}}}}});
        let apply = |text: &str| {
            let mut spec = base.clone();
            Overlay::read("edits.yaml", text.as_bytes())
                .unwrap()
                .apply(&mut spec)
                .map(|()| spec)
                .map_err(|e| e.to_string())
        };
        let good = "required: null\nproperties: {image: {properties: {pullSecret: {type: string}}}}";
        let expected = json!({"type": "object", "properties": {"image": {"type": "object",
            "properties": {"tag": {"type": "string"}, "pullSecret": {"type": "string"}}}}});
        assert_eq!(apply(good), Ok(expected));
        let error = apply("properties: {image: {properties: {pullSecret: {typ: string}}}}").unwrap_err();
        assert_eq!(
            error,
            "edits.yaml: properties.image.properties.pullSecret.typ: a CustomResourceDefinition has no such keyword"
        );
        assert_eq!(
            apply("type: array\nitems: {type: string}").unwrap_err(),
            "edits.yaml: type: spec must be an object"
        );
        for bad in ["- a", "a: [", "a: 1\na: 2"] {
            let error = Overlay::read("edits.yaml", bad.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("edits.yaml: "), "{error}");
        }
    }
}
