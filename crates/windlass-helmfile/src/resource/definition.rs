//! The CustomResourceDefinition of Helmfiles.

use serde_json::{Value, json};

use super::api::{HelmfileSpec, HelmfileStatus};
use api_types::{KindDefinition, openapi_schema};

/// API version and kind.
pub const KIND: (&str, &str) = ("apps.mumoshu.github.io/v1alpha1", "Helmfile");
/// The revision of the definition: a later one replaces an earlier one.
const REVISION: &str = "1";
/// The longest name of an object: it is a label of records.
pub(super) const MAX_NAME: usize = 63;

/// The definition.
#[must_use]
pub fn crd() -> Value {
    let definition = KindDefinition {
        kind: KIND,
        plural: "helmfiles",
        scope: "Namespaced",
        revision: REVISION,
        columns: &[
            KindDefinition::READY,
            ("Status", "string", KindDefinition::MESSAGE, 0),
            ("Revision", "string", ".status.resolvedRevision", 1),
            KindDefinition::AGE,
        ],
    };
    let fields =
        [("spec", openapi_schema::of::<HelmfileSpec>()), ("status", openapi_schema::of::<HelmfileStatus>())];
    let mut schema = openapi_schema::of_object("A helmfile that is kept deployed.", fields);
    schema["x-kubernetes-validations"] = json!([{
        "rule": format!("size(self.metadata.name) <= {MAX_NAME}"),
        "message": format!("the name of a Helmfile has at most {MAX_NAME} characters"),
    }]);
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
        assert_eq!(spec["values"]["x-kubernetes-preserve-unknown-fields"], true);
        assert_eq!(spec["envvars"]["additionalProperties"]["type"], "string");
        assert_eq!(spec["deletionPolicy"]["enum"], json!(["destroy", "orphan"]));
        assert_eq!(
            schema["status"]["properties"]["releases"]["items"]["required"],
            json!(["name", "namespace", "status"])
        );
    }
}
