//! Labels and annotations of all objects.
//!
//! Owns `metadata.labels` and `metadata.annotations`; selectors and Pod templates stay as they are.

use std::collections::BTreeMap;

use chart_compat::yaml::tree::{Kind, Node};

use crate::error::Error;
use crate::resource::Resource;
use crate::resource::node::{check_kind, map_below, set};

/// Sets labels of all objects; they replace those of the same name.
///
/// # Errors
/// An object whose labels are not a map.
pub fn set_labels(objects: &mut [Resource], labels: &BTreeMap<String, String>) -> Result<(), Error> {
    set_all(objects, "labels", labels)
}

/// Sets annotations of all objects; they replace those of the same name.
///
/// # Errors
/// An object whose annotations are not a map.
pub fn set_annotations(
    objects: &mut [Resource],
    annotations: &BTreeMap<String, String>,
) -> Result<(), Error> {
    set_all(objects, "annotations", annotations)
}

fn set_all(objects: &mut [Resource], field: &str, pairs: &BTreeMap<String, String>) -> Result<(), Error> {
    for object in objects {
        for (key, value) in pairs {
            let id = object.id();
            set_one(&mut object.node, field, key, value)
                .map_err(|e| e.within(format!("considering field 'metadata/{field}' of object {id}")))?;
        }
    }
    Ok(())
}

fn set_one(node: &mut Node, field: &str, key: &str, value: &str) -> Result<(), Error> {
    let metadata = map_below(node, "metadata")?;
    if !matches!(metadata.kind, Kind::Map | Kind::List) {
        return Err(Error::Yaml("expected sequence or mapping node".to_owned()));
    }
    let map = map_below(metadata, field).map_err(|e| e.within(format!("fieldName: {field}")))?;
    check_kind(map, Kind::Map)?;
    set(map, key, Node { tag: "!!str".to_owned(), value: value.to_owned(), ..Node::default() })
}
