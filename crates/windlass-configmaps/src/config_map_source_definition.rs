//! The CustomResourceDefinition of ConfigMapSources.

use serde_json::{Value, json};

use super::config_map_source_api::{ConfigMapSourceSpec, ConfigMapSourceStatus};
use api_types::{KindDefinition, openapi_schema};

/// API version and kind.
pub const KIND: (&str, &str) = ("windlass.dev/v1alpha1", "ConfigMapSource");
/// The revision of the definition: a later one replaces an earlier one.
const REVISION: &str = "2";

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let definition = KindDefinition {
        kind: KIND,
        plural: "configmapsources",
        scope: "Namespaced",
        revision: REVISION,
        columns: &[
            ("ConfigMaps", "integer", ".status.configMaps", 0),
            ("Revision", "string", ".status.lastAppliedRevision", 0),
            KindDefinition::READY,
            ("Status", "string", KindDefinition::MESSAGE, 1),
            KindDefinition::AGE,
        ],
    };
    let fields = [
        ("spec", openapi_schema::of::<ConfigMapSourceSpec>()),
        ("status", openapi_schema::of::<ConfigMapSourceStatus>()),
    ];
    let mut schema = openapi_schema::of_object("ConfigMaps of the files of a source.", fields);
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
