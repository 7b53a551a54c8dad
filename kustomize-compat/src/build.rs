//! The steps of one kustomization in their order.
//!
//! Owns the pipeline from a stream of objects to the printed stream: patches, images, then what is done at the root alone.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::fieldspec::{Config, List};
use crate::format::to_yaml;
use crate::patch::Patch;
use crate::resource::{ORIGIN, Objects, Resource, TRANSFORMATIONS, check_identity, check_unique, read};
use crate::schema::Schemas;
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

impl Kustomization {
    /// Builds: reads objects, changes them, and prints them.
    ///
    /// # Errors
    /// A stream that cannot be read, a patch or an image that cannot be applied.
    pub fn build(&self, text: &str) -> Result<String, Error> {
        let schemas = Schemas::default();
        let objects = read_unique(text, &schemas).map_err(|e| self.not_loaded(&e))?;
        let mut objects = Objects::from(objects);
        let patches = self.patches.iter().map(Patch::load).collect::<Result<Vec<_>, _>>()?;
        for patch in &patches {
            patch.apply(&mut objects, &schemas)?;
            objects.drop_empty();
        }
        let config = Config::known();
        for image in &self.images {
            set_images(objects.contents_mut(), image, "", config.list(List::Images))?;
        }
        let mut kept = drop_local(objects.into_items())?;
        check_unique(&kept, &schemas)?;
        for object in &mut kept {
            object.remove_notes()?;
            object.remove_annotation(ORIGIN)?;
            object.remove_annotation(TRANSFORMATIONS)?;
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
    let mut objects = read_unique(text, &Schemas::default())?;
    set_labels(&mut objects, labels)?;
    set_annotations(&mut objects, annotations)?;
    to_yaml(&objects)
}

/// Reads objects, each with an identity of its own.
fn read_unique(text: &str, schemas: &Schemas) -> Result<Vec<Resource>, Error> {
    let objects = read(text)?;
    check_unique(&objects, schemas)?;
    Ok(objects)
}

/// Leaves out the objects that are not printed.
pub(crate) fn drop_local(objects: Vec<Resource>) -> Result<Vec<Resource>, Error> {
    let mut kept = Vec::with_capacity(objects.len());
    for object in objects {
        if object.is_empty() {
            continue;
        }
        check_identity(&object.node)?;
        if object.annotation("config.kubernetes.io/local-config").is_none_or(|value| value == "false") {
            kept.push(object);
        }
    }
    Ok(kept)
}
