//! The CustomResourceDefinition of ImageBuilds.

use serde_json::{Value, json};

use super::image_build_api::{ImageBuildSpec, ImageBuildStatus};
use api_types::{KindDefinition, openapi_schema};

/// API version and kind.
pub const KIND: (&str, &str) = ("windlass.dev/v1alpha1", "ImageBuild");
/// The revision of the definition: a later one replaces an earlier one.
const REVISION: &str = "1";

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let definition = KindDefinition {
        kind: KIND,
        plural: "imagebuilds",
        scope: "Namespaced",
        revision: REVISION,
        columns: &[
            ("Version", "string", ".status.built.version", 0),
            ("Image", "string", ".status.image", 0),
            KindDefinition::READY,
            ("Status", "string", KindDefinition::MESSAGE, 1),
            ("Built", "date", ".status.lastBuilt", 0),
            KindDefinition::AGE,
        ],
    };
    let fields = [
        ("spec", openapi_schema::of::<ImageBuildSpec>()),
        ("status", openapi_schema::of::<ImageBuildStatus>()),
    ];
    let mut schema = openapi_schema::of_object("An image of a file of a Maven repository.", fields);
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
        assert_eq!(schema["spec"]["required"], json!(["artifact", "base", "image", "path", "repository"]));
        let repository = &schema["spec"]["properties"]["repository"];
        assert_eq!(repository["required"], json!(["url"]));
        assert_eq!(repository["properties"]["secretRef"]["required"], json!(["name"]));
        assert_eq!(schema["status"]["properties"]["built"]["properties"]["baseDigest"]["type"], "string");
    }
}
