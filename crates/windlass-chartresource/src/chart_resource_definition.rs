//! The CustomResourceDefinition of ChartResources.

use serde_json::{Value, json};

use super::chart_resource_api::{ChartResourceSpec, ChartResourceStatus};
use api_types::{KindDefinition, openapi_schema};

/// API version and kind.
pub const KIND: (&str, &str) = ("windlass.dev/v1alpha1", "ChartResource");
/// The revision of the definition: a later one replaces an earlier one.
const REVISION: &str = "1";

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let definition = KindDefinition {
        kind: KIND,
        plural: "chartresources",
        scope: "Cluster",
        revision: REVISION,
        columns: &[
            ("Kind", "string", ".status.kind.kind", 0),
            ("Chart", "string", ".status.chart", 0),
            ("Version", "string", ".status.version", 0),
            ("Objects", "integer", ".status.objects.total", 0),
            KindDefinition::READY,
            ("Status", "string", KindDefinition::MESSAGE, 1),
            KindDefinition::AGE,
        ],
    };
    let fields = [
        ("spec", openapi_schema::of::<ChartResourceSpec>()),
        ("status", openapi_schema::of::<ChartResourceStatus>()),
    ];
    let mut schema = openapi_schema::of_object("A kind whose objects are releases of a chart.", fields);
    schema["required"] = json!(["spec"]);
    definition.with_schema(&schema)
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
