//! The CustomResourceDefinition of ConfigMapSources.

use serde_json::{Value, json};

use super::config_map_source_api::{ConfigMapSourceSpec, ConfigMapSourceStatus};
use api_types::openapi_schema;

/// API version and kind.
pub const KIND: (&str, &str) = ("windlass.dev/v1alpha1", "ConfigMapSource");
/// The revision of the definition: a later one replaces an earlier one.
const REVISION: &str = "2";

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let ready = |field: &str| format!(r#".status.conditions[?(@.type=="Ready")].{field}"#);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "configmapsources.windlass.dev",
            "annotations": {"windlass.dev/crd-revision": REVISION},
        },
        "spec": {
            "group": "windlass.dev",
            "names": {
                "kind": "ConfigMapSource",
                "listKind": "ConfigMapSourceList",
                "plural": "configmapsources",
                "singular": "configmapsource",
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    {"name": "ConfigMaps", "type": "integer", "jsonPath": ".status.configMaps"},
                    {"name": "Revision", "type": "string", "jsonPath": ".status.lastAppliedRevision"},
                    {"name": "Ready", "type": "string", "jsonPath": ready("status")},
                    {"name": "Status", "type": "string", "jsonPath": ready("message"), "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "ConfigMaps of the files of a source.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string", "description": "Group and version of the kind."},
                        "kind": {"type": "string", "description": "The kind of the object."},
                        "metadata": {"type": "object"},
                        "spec": openapi_schema::of::<ConfigMapSourceSpec>(),
                        "status": openapi_schema::of::<ConfigMapSourceStatus>(),
                    },
                }},
                "subresources": {"status": {}},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_has_the_fields_of_the_types() {
        let crd = crd();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        let spec = &schema["spec"]["properties"];
        assert_eq!(
            spec["sourceRef"]["properties"]["kind"]["enum"],
            json!(["GitRepository", "OCIRepository", "Bucket"])
        );
        assert_eq!(schema["spec"]["required"], json!(["sourceRef"]));
        assert_eq!(spec["sourceRef"]["required"], json!(["kind", "name"]));
        assert_eq!(spec["configMaps"]["properties"]["per"]["enum"], json!(["Directory", "File", "All"]));
        assert_eq!(spec["configMaps"]["properties"]["labels"]["additionalProperties"]["type"], "string");
        assert_eq!(spec["include"]["items"]["type"], "string");
        assert_eq!(schema["status"]["properties"]["configMaps"]["type"], "integer");
    }
}
