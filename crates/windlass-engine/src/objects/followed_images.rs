//! Images that were rolled out after the release, for new digests or tags of a registry. Pure.
//!
//! Who rolls out an image writes it with [`IMAGE_MANAGER`], and notes in [`REQUESTED_IMAGES`] which image the release asked for then. As long
//! as the release asks for the same one, neither an upgrade nor drift correction brings it back; another image of the release wins.

use super::field_conflicts::{self, Conflict};
use serde_json::Value;
use windlass_cluster::ObjectMeta;

/// Field manager of images that were rolled out after the release.
pub const IMAGE_MANAGER: &str = "windlass-images";
/// Annotation of a workload: the images of its release that others stand in for, as JSON: container to image.
pub const REQUESTED_IMAGES: &str = "windlass.dev/requested-images";

/// Where Pod templates are, in the server's form and as fields.
const TEMPLATES: [&[&str]; 2] =
    [&["spec", "template", "spec"], &["spec", "jobTemplate", "spec", "template", "spec"]];
/// Fields with containers whose images are followed.
const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

/// The fields with images that stay although the body has others, in the form of the server's conflicts.
pub(crate) fn kept(live: &Value, body: &Value) -> Vec<String> {
    let requested = ObjectMeta::of(live).annotation(REQUESTED_IMAGES);
    let Some(Value::Object(requested)) = requested.and_then(|text| serde_json::from_str(text).ok()) else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    for template in TEMPLATES {
        let Some(pod) = template.iter().try_fold(body, |node, key| node.get(*key)) else { continue };
        for list in CONTAINERS {
            for container in pod[list].as_array().into_iter().flatten() {
                let Some(name) = container["name"].as_str() else { continue };
                let asked = requested.get(name).is_some_and(|image| *image == container["image"]);
                if asked && is_owned(live, template, list, name) {
                    let path = template.join(".");
                    kept.push(format!("{path}.{list}[name=\"{name}\"].image"));
                }
            }
        }
    }
    kept
}

/// Whether [`IMAGE_MANAGER`] owns the image of a container.
fn is_owned(live: &Value, template: &[&str], list: &str, name: &str) -> bool {
    let item = format!("k:{{\"name\":{}}}", Value::from(name));
    ObjectMeta::of(live).managed_fields().iter().any(|entry| {
        let fields = template.iter().copied().chain([list]).map(|key| format!("f:{key}"));
        let mut path = fields.chain([item.clone(), "f:image".to_owned()]);
        entry["manager"] == IMAGE_MANAGER
            && path.try_fold(&entry["fieldsV1"], |node, key| node.get(key.as_str())).is_some()
    })
}

/// Removes fields that stay from a body that is made into a patch.
pub(crate) fn without_kept(body: &mut Value, kept: &[String]) {
    for field in kept {
        field_conflicts::remove(body, field);
    }
}

/// Whether all of these conflicts are with images that were rolled out after the release: another image of the release takes their place,
/// whatever the policy for conflicts is.
pub(crate) fn are_all(conflicts: &[&Conflict]) -> bool {
    conflicts.iter().all(|conflict| conflict.manager == IMAGE_MANAGER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(image: &str) -> Value {
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}, {"name": "side", "image": "s:1"}]}}}})
    }

    fn live(requested: &str, manager: &str) -> Value {
        let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}}}}});
        json!({"metadata": {"annotations": {REQUESTED_IMAGES: requested},
            "managedFields": [{"manager": manager, "operation": "Update", "fieldsV1": fields}]}})
    }

    #[test]
    fn an_image_stays_while_the_release_asks_for_the_one_before() {
        let field = r#"spec.template.spec.containers[name="main"].image"#;
        let requested = r#"{"main":"web:1","side":"s:1"}"#;
        for (requested, manager, image, expected) in [
            (requested, IMAGE_MANAGER, "web:1", vec![field]),
            (requested, IMAGE_MANAGER, "web:2", vec![]),
            (requested, "kubectl", "web:1", vec![]),
            ("[]", IMAGE_MANAGER, "web:1", vec![]),
            ("{", IMAGE_MANAGER, "web:1", vec![]),
        ] {
            let mut body = body(image);
            let kept = kept(&live(requested, manager), &body);
            assert_eq!(kept, expected, "{requested} {manager} {image}");
            without_kept(&mut body, &kept);
            assert_eq!(
                body["spec"]["template"]["spec"]["containers"][0]["image"].is_null(),
                !kept.is_empty()
            );
        }
        let cron = json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "web:1"}]}}}}}});
        assert_eq!(
            kept(&live(requested, IMAGE_MANAGER), &cron),
            Vec::<String>::new(),
            "its owner is of another field"
        );
    }
}
