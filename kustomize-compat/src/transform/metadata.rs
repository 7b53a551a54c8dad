//! Labels and annotations of all objects.
//!
//! Owns how they are set; which fields have them is the caller's.

use std::collections::BTreeMap;

use chart_compat::yaml::tree::Kind;

use crate::error::Error;
use crate::fieldspec::{Create, FieldSpec, set_entry, visit_all};
use crate::resource::Resource;
use crate::resource::shared::sync;

/// A missing field becomes a map.
const MAP: Create = Create { kind: Kind::Map, tag: "!!map" };

/// Sets entries of the maps in fields; they replace those of the same name.
///
/// # Errors
/// An object whose field is not a map.
pub fn set_pairs(
    objects: &mut [Resource],
    pairs: &BTreeMap<String, String>,
    fields: &[FieldSpec],
) -> Result<(), Error> {
    for object in objects {
        for (key, value) in pairs {
            let number = object.marked + 1;
            let mut places = 0;
            visit_all(fields, &mut object.node, Some(MAP), &mut |node| {
                places += usize::from(set_entry(node, key, value, number)?);
                Ok(())
            })?;
            object.marked = number;
            object.shares |= places > 1;
        }
        sync(object);
    }
    Ok(())
}

/// Sets labels of all objects; they replace those of the same name.
///
/// # Errors
/// An object whose labels are not a map.
pub fn set_labels(objects: &mut [Resource], labels: &BTreeMap<String, String>) -> Result<(), Error> {
    set_pairs(objects, labels, &[FieldSpec::of_all("metadata/labels", true)])
}

/// Sets annotations of all objects; they replace those of the same name.
///
/// # Errors
/// An object whose annotations are not a map.
pub fn set_annotations(
    objects: &mut [Resource],
    annotations: &BTreeMap<String, String>,
) -> Result<(), Error> {
    set_pairs(objects, annotations, &[FieldSpec::of_all("metadata/annotations", true)])
}
