//! CustomResourceDefinitions of kinds that are written here.

use serde_json::{Value, json};

/// The revision of the definition: an operator replaces an earlier one by a later one.
const REVISION: &str = "windlass.dev/crd-revision";

/// What a CustomResourceDefinition says of a kind. Its objects have a status subresource.
#[derive(Debug)]
pub struct KindDefinition<'a> {
    /// API version and kind: `("windlass.dev/v1alpha1", "ChartResource")`.
    pub kind: (&'a str, &'a str),
    /// The name of the resource in addresses of the API.
    pub plural: &'a str,
    /// `Namespaced` or `Cluster`.
    pub scope: &'a str,
    /// The revision of the definition, a number.
    pub revision: &'a str,
    /// What `kubectl get` prints: name, type, JSONPath and priority. Columns with a priority above 0 are printed by `-o wide` only.
    pub columns: &'a [(&'a str, &'a str, &'a str, u8)],
}

impl KindDefinition<'_> {
    /// The column of the condition Ready.
    pub const READY: (&'static str, &'static str, &'static str, u8) =
        ("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0);
    /// The JSONPath of the message of the condition Ready.
    pub const MESSAGE: &'static str = r#".status.conditions[?(@.type=="Ready")].message"#;
    /// The column of the age.
    pub const AGE: (&'static str, &'static str, &'static str, u8) =
        ("Age", "date", ".metadata.creationTimestamp", 0);

    /// The definition, with the schema of a whole object.
    #[must_use]
    pub fn with_schema(&self, schema: &Value) -> Value {
        let (group, version) = self.kind.0.split_once('/').unwrap_or_default();
        let columns = self.columns.iter().map(|(name, kind, path, priority)| {
            let mut column = json!({"name": name, "type": kind, "jsonPath": path});
            if *priority > 0 {
                column["priority"] = json!(priority);
            }
            column
        });
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{}.{group}", self.plural),
                "annotations": {REVISION: self.revision},
            },
            "spec": {
                "group": group,
                "names": {
                    "kind": self.kind.1,
                    "listKind": format!("{}List", self.kind.1),
                    "plural": self.plural,
                    "singular": self.kind.1.to_lowercase(),
                },
                "scope": self.scope,
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": columns.collect::<Vec<_>>(),
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_kind() {
        let kind = KindDefinition {
            kind: ("example.com/v1beta2", "DiskImage"),
            plural: "diskimages",
            scope: "Namespaced",
            revision: "3",
            columns: &[KindDefinition::READY, ("Note", "string", ".spec.note", 1)],
        };
        let crd = kind.with_schema(&json!({"type": "object"}));
        assert_eq!(crd["metadata"]["name"], "diskimages.example.com");
        assert_eq!(crd["metadata"]["annotations"], json!({REVISION: "3"}));
        let names = json!({"kind": "DiskImage", "listKind": "DiskImageList", "plural": "diskimages", "singular": "diskimage"});
        assert_eq!((&crd["spec"]["group"], &crd["spec"]["names"]), (&json!("example.com"), &names));
        let version = &crd["spec"]["versions"][0];
        assert_eq!(
            (&version["name"], &version["schema"]["openAPIV3Schema"]["type"]),
            (&json!("v1beta2"), &json!("object"))
        );
        let note = json!({"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1});
        assert_eq!(version["additionalPrinterColumns"][1], note);
        assert!(version["additionalPrinterColumns"][0]["priority"].is_null());
    }
}
