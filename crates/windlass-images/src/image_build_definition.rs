//! The CustomResourceDefinition of ImageBuilds.

use serde_json::{Value, json};

use super::image_build_api::{ImageBuildSpec, ImageBuildStatus};
use api_types::openapi_schema;

/// API version and kind.
pub const KIND: (&str, &str) = ("windlass.dev/v1alpha1", "ImageBuild");
/// The revision of the definition: a later one replaces an earlier one.
const REVISION: &str = "1";

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let ready = |field: &str| format!(r#".status.conditions[?(@.type=="Ready")].{field}"#);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "imagebuilds.windlass.dev",
            "annotations": {"windlass.dev/crd-revision": REVISION},
        },
        "spec": {
            "group": "windlass.dev",
            "names": {
                "kind": "ImageBuild",
                "listKind": "ImageBuildList",
                "plural": "imagebuilds",
                "singular": "imagebuild",
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    {"name": "Version", "type": "string", "jsonPath": ".status.built.version"},
                    {"name": "Image", "type": "string", "jsonPath": ".status.image"},
                    {"name": "Ready", "type": "string", "jsonPath": ready("status")},
                    {"name": "Status", "type": "string", "jsonPath": ready("message"), "priority": 1},
                    {"name": "Built", "type": "date", "jsonPath": ".status.lastBuilt"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "An image of a file of a Maven repository.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string", "description": "Group and version of the kind."},
                        "kind": {"type": "string", "description": "The kind of the object."},
                        "metadata": {"type": "object"},
                        "spec": openapi_schema::of::<ImageBuildSpec>(),
                        "status": openapi_schema::of::<ImageBuildStatus>(),
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
        assert_eq!(schema["spec"]["required"], json!(["artifact", "base", "image", "path", "repository"]));
        let repository = &schema["spec"]["properties"]["repository"];
        assert_eq!(repository["required"], json!(["url"]));
        assert_eq!(repository["properties"]["secretRef"]["required"], json!(["name"]));
        assert_eq!(schema["status"]["properties"]["built"]["properties"]["baseDigest"]["type"], "string");
    }
}
