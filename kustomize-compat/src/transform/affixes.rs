//! Prefixes and suffixes of names.
//!
//! Owns which objects have them, and that their former names are noted.

use chart_compat::yaml::tree::Kind;

use crate::error::Error;
use crate::fieldspec::{Create, FieldSpec, set_scalar, visit};
use crate::resource::{Gvk, Objects, build_steps};
use crate::schema::Schemas;

/// Adds a prefix or a suffix.
#[derive(Clone, Debug)]
pub struct Affix {
    /// What is added.
    pub text: String,
    /// Whether it is a suffix.
    pub is_suffix: bool,
    /// The fields that get it.
    pub fields: Vec<FieldSpec>,
}

/// Whether the names of a kind stay.
fn stays(gvk: &Gvk) -> bool {
    matches!(gvk.kind.as_str(), "CustomResourceDefinition" | "Namespace")
        || gvk.kind == "APIService" && gvk.group == "apiregistration.k8s.io"
}

impl Affix {
    /// Changes the names of all objects but those that the whole cluster knows by name.
    ///
    /// # Errors
    /// A field is not a text.
    pub fn apply(&self, objects: &mut Objects, schemas: &Schemas) -> Result<(), Error> {
        for object in objects.items_mut() {
            let gvk = object.original_id(schemas).gvk;
            build_steps::count(self.fields.len() / 4)?;
            if stays(&gvk) {
                continue;
            }
            for spec in self.fields.iter().filter(|spec| gvk.is_selected(&spec.gvk)) {
                if spec.path == "metadata/name" {
                    if self.is_suffix {
                        object.add_suffix(&self.text)?;
                    } else {
                        object.add_prefix(&self.text)?;
                    }
                    if !self.text.is_empty() {
                        object.store_id(schemas)?;
                    }
                }
                let create = Create { kind: Kind::Scalar, tag: "!!str" };
                visit(spec, &mut object.node, Some(create), &mut |node| {
                    let (before, after) =
                        if self.is_suffix { ("", self.text.as_str()) } else { (self.text.as_str(), "") };
                    let text = format!("{before}{}{after}", node.value);
                    set_scalar(node, &text, "")
                })?;
            }
        }
        Ok(())
    }
}
