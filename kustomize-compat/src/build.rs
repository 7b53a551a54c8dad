//! The steps of one kustomization in their order.
//!
//! Owns the pipeline from a stream of objects to the printed stream: patches, images, then what is done at the root alone.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::format::to_yaml;
use crate::patch::Patch;
use crate::resource::node::{metadata_map, set_metadata_map};
use crate::resource::{Resource, check_identity, check_unique, read};
use crate::transform::images::{Image, set_images};
use crate::transform::metadata::{set_annotations, set_labels};

/// A kustomization of one stream of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kustomization {
    /// The name of the stream's file, for messages.
    pub file: String,
    /// Patches, in their order.
    pub patches: Vec<Patch>,
    /// Changes of images, in their order.
    pub images: Vec<Image>,
}

/// The annotation of objects that are not printed.
const LOCAL: &str = "config.kubernetes.io/local-config";

/// Annotations that kustomize uses itself and takes off at the end.
const OWN_ANNOTATIONS: [&str; 18] = [
    "internal.config.kubernetes.io/previousKinds",
    "internal.config.kubernetes.io/previousNames",
    "internal.config.kubernetes.io/prefixes",
    "internal.config.kubernetes.io/suffixes",
    "internal.config.kubernetes.io/previousNamespaces",
    "internal.config.kubernetes.io/allowNameChange",
    "internal.config.kubernetes.io/allowKindChange",
    "internal.config.kubernetes.io/refBy",
    "internal.config.kubernetes.io/generatorBehavior",
    "internal.config.kubernetes.io/needsHashSuffix",
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
    "config.kubernetes.io/origin",
];

impl Kustomization {
    /// Builds: reads objects, changes them, and prints them.
    ///
    /// # Errors
    /// A stream that cannot be read, a patch or an image that cannot be applied.
    pub fn build(&self, text: &str) -> Result<String, Error> {
        let mut objects = read_unique(text).map_err(|e| self.not_loaded(&e))?;
        for patch in &self.patches {
            patch.check()?;
        }
        for patch in &self.patches {
            patch.apply(&mut objects)?;
        }
        for image in &self.images {
            set_images(&mut objects, image)?;
        }
        let mut kept = Vec::with_capacity(objects.len());
        for object in objects {
            check_identity(&object.node)?;
            if metadata_map(&object.node, "annotations").get(LOCAL).is_none_or(|value| value == "false") {
                kept.push(object);
            }
        }
        check_unique(&kept)?;
        for object in &mut kept {
            let mut annotations = metadata_map(&object.node, "annotations");
            annotations.retain(|key, _| {
                !OWN_ANNOTATIONS.contains(&key.as_str())
                    && key != "alpha.config.kubernetes.io/transformations"
            });
            set_metadata_map(&mut object.node, "annotations", &annotations)?;
        }
        to_yaml(&kept)
    }

    /// Why the file is not one of objects. kustomize then takes its name for that of a directory.
    fn not_loaded(&self, reason: &Error) -> Error {
        let file = &self.file;
        let loading = format!("accumulating resources from '{file}': {reason}");
        Error::Yaml(if loading.contains("MalformedYAMLError") {
            format!("accumulating resources: {loading} in File: {file}")
        } else {
            format!(
                "accumulating resources: accumulation err='{loading}': must build at directory: '/{file}': file is not directory"
            )
        })
    }
}

/// Sets labels and annotations of all objects of a stream, whose order stays.
///
/// # Errors
/// A stream that cannot be read, or an object that cannot have them.
pub fn add_metadata(
    text: &str,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<String, Error> {
    let mut objects = read_unique(text)?;
    set_labels(&mut objects, labels)?;
    set_annotations(&mut objects, annotations)?;
    to_yaml(&objects)
}

/// Reads objects, each with an identity of its own.
fn read_unique(text: &str) -> Result<Vec<Resource>, Error> {
    let objects = read(text)?;
    check_unique(&objects)?;
    Ok(objects)
}
