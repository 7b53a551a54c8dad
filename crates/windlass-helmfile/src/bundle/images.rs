//! The images that manifests name. Pure.
//!
//! Owns which kinds have Pods and where; other kinds, and images in the fields of custom resources, are not known.

use std::collections::BTreeSet;

use chart_compat::data::Data;
use chart_compat::yaml;

use crate::error::HelmfileError;

/// Where a kind has the spec of its Pods.
const KINDS: [(&str, &[&str]); 9] = [
    ("CronJob", &["spec", "jobTemplate", "spec", "template", "spec"]),
    ("DaemonSet", &["spec", "template", "spec"]),
    ("Deployment", &["spec", "template", "spec"]),
    ("Job", &["spec", "template", "spec"]),
    ("Pod", &["spec"]),
    ("PodTemplate", &["template", "spec"]),
    ("ReplicaSet", &["spec", "template", "spec"]),
    ("ReplicationController", &["spec", "template", "spec"]),
    ("StatefulSet", &["spec", "template", "spec"]),
];
/// The fields of a Pod's spec with containers.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Adds the images of one manifest.
///
/// # Errors
/// The text is not YAML.
pub fn add_images(manifest: &str, images: &mut BTreeSet<String>) -> Result<(), HelmfileError> {
    let object = yaml::from_slice(manifest.as_bytes()).map_err(HelmfileError::cause)?;
    add(&object, images);
    Ok(())
}

fn add(object: &Data, images: &mut BTreeSet<String>) {
    let kind = object.get("kind").and_then(Data::as_str).unwrap_or_default();
    if kind == "List" {
        let items = object.get("items").and_then(Data::as_list).unwrap_or_default();
        items.iter().filter(|item| item.get("items").is_none()).for_each(|item| add(item, images));
        return;
    }
    let Some((_, path)) = KINDS.iter().find(|(known, _)| *known == kind) else { return };
    let spec = path.iter().try_fold(object, |at, key| at.get(key));
    for field in CONTAINERS {
        let containers = spec.and_then(|spec| spec.get(field)).and_then(Data::as_list).unwrap_or_default();
        let named = containers.iter().filter_map(|container| container.get("image")?.as_str());
        images.extend(named.filter(|image| !image.is_empty()).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_those_of_all_containers_of_workloads() {
        let spec = "{initContainers: [{image: a}], containers: [{image: c}, {image: b}, {name: x}], ephemeralContainers: [{image: d}]}";
        let table = [
            (format!("kind: Pod\nspec: {spec}"), "a b c d"),
            (format!("kind: Deployment\nspec: {{template: {{spec: {spec}}}}}"), "a b c d"),
            (
                format!("kind: CronJob\nspec: {{jobTemplate: {{spec: {{template: {{spec: {spec}}}}}}}}}"),
                "a b c d",
            ),
            (format!("kind: PodTemplate\ntemplate: {{spec: {spec}}}"), "a b c d"),
            ("kind: List\nitems: [{kind: Pod, spec: {containers: [{image: z}]}}]".to_owned(), "z"),
            ("kind: ConfigMap\nspec: {containers: [{image: z}]}".to_owned(), ""),
            ("kind: Pod\nspec: {containers: [{image: ''}]}".to_owned(), ""),
            ("# a comment".to_owned(), ""),
        ];
        for (text, expected) in table {
            let mut images = BTreeSet::new();
            add_images(&text, &mut images).unwrap();
            assert_eq!(images.into_iter().collect::<Vec<_>>().join(" "), expected, "{text}");
        }
        assert!(add_images("a: [", &mut BTreeSet::new()).is_err());
    }
}
