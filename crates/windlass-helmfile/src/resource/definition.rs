//! The CustomResourceDefinition of Helmfiles.

use serde_json::{Value, json};

use super::api::{HelmfileSpec, HelmfileStatus};
use api_types::openapi_schema;

/// API version and kind.
pub const KIND: (&str, &str) = ("apps.mumoshu.github.io/v1alpha1", "Helmfile");
/// The revision of the definition: a later one replaces an earlier one.
const REVISION: &str = "1";
/// The longest name of an object: it is a label of records.
pub(super) const MAX_NAME: usize = 63;

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let ready = |field: &str| format!(r#".status.conditions[?(@.type=="Ready")].{field}"#);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "helmfiles.apps.mumoshu.github.io",
            "annotations": {
                "windlass.dev/crd-revision": REVISION,
            },
        },
        "spec": {
            "group": "apps.mumoshu.github.io",
            "names": {
                "kind": "Helmfile",
                "listKind": "HelmfileList",
                "plural": "helmfiles",
                "singular": "helmfile",
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    {"name": "Ready", "type": "string", "jsonPath": ready("status")},
                    {"name": "Status", "type": "string", "jsonPath": ready("message")},
                    {"name": "Revision", "type": "string", "jsonPath": ".status.resolvedRevision", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A helmfile that is kept deployed.",
                    "properties": {
                        "apiVersion": {"type": "string", "description": "Group and version of the kind."},
                        "kind": {"type": "string", "description": "The kind of the object."},
                        "metadata": {"type": "object"},
                        "spec": openapi_schema::of::<HelmfileSpec>(),
                        "status": openapi_schema::of::<HelmfileStatus>(),
                    },
                    "x-kubernetes-validations": [{
                        "rule": format!("size(self.metadata.name) <= {MAX_NAME}"),
                        "message": format!("the name of a Helmfile has at most {MAX_NAME} characters"),
                    }],
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
        assert_eq!(spec["values"]["x-kubernetes-preserve-unknown-fields"], true);
        assert_eq!(spec["envvars"]["additionalProperties"]["type"], "string");
        assert_eq!(spec["deletionPolicy"]["enum"], json!(["destroy", "orphan"]));
        assert_eq!(
            schema["status"]["properties"]["releases"]["items"]["required"],
            json!(["name", "namespace", "status"])
        );
    }
}
