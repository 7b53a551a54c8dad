//! The CustomResourceDefinition of ChartResources.

use serde_json::{Value, json};

use super::chart_resource_api::{ChartResourceSpec, ChartResourceStatus};
use api_types::openapi_schema;

/// API version and kind.
pub const KIND: (&str, &str) = ("windlass.dev/v1alpha1", "ChartResource");
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
            "name": "chartresources.windlass.dev",
            "annotations": {"windlass.dev/crd-revision": REVISION},
        },
        "spec": {
            "group": "windlass.dev",
            "names": {
                "kind": "ChartResource",
                "listKind": "ChartResourceList",
                "plural": "chartresources",
                "singular": "chartresource",
            },
            "scope": "Cluster",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    {"name": "Kind", "type": "string", "jsonPath": ".status.kind.kind"},
                    {"name": "Chart", "type": "string", "jsonPath": ".status.chart"},
                    {"name": "Version", "type": "string", "jsonPath": ".status.version"},
                    {"name": "Objects", "type": "integer", "jsonPath": ".status.objects.total"},
                    {"name": "Ready", "type": "string", "jsonPath": ready("status")},
                    {"name": "Status", "type": "string", "jsonPath": ready("message"), "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": "A kind whose objects are releases of a chart.",
                    "required": ["spec"],
                    "properties": {
                        "apiVersion": {"type": "string", "description": "Group and version of the kind."},
                        "kind": {"type": "string", "description": "The kind of the object."},
                        "metadata": {"type": "object"},
                        "spec": openapi_schema::of::<ChartResourceSpec>(),
                        "status": openapi_schema::of::<ChartResourceStatus>(),
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
        assert_eq!(spec["overrideValues"]["x-kubernetes-preserve-unknown-fields"], true);
        assert_eq!(spec["chart"]["properties"]["secretRef"]["properties"]["namespace"]["type"], "string");
        assert_eq!(spec["rollout"]["properties"]["maxUnavailable"]["minimum"], 1);
        assert_eq!(schema["status"]["properties"]["objects"]["properties"]["updated"]["type"], "integer");
    }
}
