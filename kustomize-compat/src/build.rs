//! A kustomization of one stream of objects, as helm-controller builds it: patches and images in memory, without a directory.
//!
//! Owns the two files of that kustomization. All that follows is [`target`](crate::target)'s: names in references follow a patch
//! that renames an object, as with every kustomization.

use std::collections::BTreeMap;

use chart_compat::data::{Data, Map};
use chart_compat::yaml;

use crate::error::Error;
use crate::format::to_yaml;
use crate::load::{Place, World};
use crate::patch::Patch;
use crate::resource::build_steps::Steps;
use crate::resource::growth::Growth;
use crate::resource::{check_unique, read};
use crate::schema::Schemas;
use crate::target::{self, Options};
use crate::transform::images::Image;
use crate::transform::metadata::{set_annotations, set_labels};

/// The file of the kustomization.
const KUSTOMIZATION: &str = "kustomization.yaml";

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
    /// A stream that cannot be read, a patch or an image that cannot be applied; [`Error::hint`] has the hint about it, if there is one.
    pub fn build(&self, text: &str) -> Result<String, Error> {
        let world = OneStream { file: &self.file, text, kustomization: self.to_yaml()? };
        target::build(&world, "/", &Options { unrestricted: true, keep_order: true })
    }

    fn to_yaml(&self) -> Result<String, Error> {
        let text = |text: &str| Data::String(text.to_owned());
        let mut map = Map::from([
            ("apiVersion".to_owned(), text("kustomize.config.k8s.io/v1beta1")),
            ("kind".to_owned(), text("Kustomization")),
            ("resources".to_owned(), Data::List(vec![text(&self.file)])),
        ]);
        for (field, items) in [
            ("patches", self.patches.iter().map(patch_item).collect::<Vec<_>>()),
            ("images", self.images.iter().map(image_item).collect()),
        ] {
            if !items.is_empty() {
                map.insert(field.to_owned(), Data::List(items));
            }
        }
        yaml::to_string(&Data::Map(map)).map_err(|e| Error::text(e.to_string()))
    }
}

/// A patch as the file has it.
fn patch_item(Patch { text, target }: &Patch) -> Data {
    let mut item = text_fields(&[("patch", text)]);
    if let Some(target) = target {
        item.insert("target".to_owned(), Data::Map(text_fields(&target.fields())));
    }
    Data::Map(item)
}

/// A change of images as the file has it.
fn image_item(Image { name, new_name, new_tag, digest }: &Image) -> Data {
    Data::Map(text_fields(&[("name", name), ("newName", new_name), ("newTag", new_tag), ("digest", digest)]))
}

/// Fields whose texts are not empty.
fn text_fields(fields: &[(&str, &str)]) -> Map {
    let written = fields.iter().filter(|(_, text)| !text.is_empty());
    written.map(|(name, text)| ((*name).to_owned(), Data::String((*text).to_owned()))).collect()
}

/// The stream and its kustomization, in the root directory.
struct OneStream<'s> {
    file: &'s str,
    text: &'s str,
    kustomization: String,
}

impl World for OneStream<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        match path.strip_prefix('/') {
            Some(KUSTOMIZATION) => Ok(self.kustomization.clone().into_bytes()),
            Some(name) if name == self.file => Ok(self.text.as_bytes().to_vec()),
            _ => Err(format!("'{path}' doesn't exist")),
        }
    }

    fn resolve(&self, path: &str) -> Result<Place, String> {
        let directory = "/".to_owned();
        match path.strip_prefix('/') {
            Some("") => Ok(Place::Directory(directory)),
            Some(name) if name == self.file || name == KUSTOMIZATION => {
                Ok(Place::File { directory, name: name.to_owned() })
            }
            _ => Err(format!("'{path}' doesn't exist")),
        }
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
    let (_growth, _steps) = (Growth::begin(), Steps::begin());
    let mut objects = read(text)?;
    check_unique(&objects, &Schemas::default())?;
    set_labels(&mut objects, labels)?;
    set_annotations(&mut objects, annotations)?;
    to_yaml(&objects)
}
