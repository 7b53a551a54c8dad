//! What a patch does to one object.
//!
//! Owns which parts of an object's identity stay, and the annotations that a JSON patch may not remove.

use chart_compat::go::quote;

use super::json6902::JsonPatch;
use super::strategic_merge;
use crate::error::Error;
use crate::resource::node::{metadata_map, scalar, set, set_metadata_map, set_metadata_text, set_namespace};
use crate::resource::shared::sync;
use crate::resource::{Id, Objects, Resource, build_steps, from_data, is_internal, to_data};
use crate::schema::Schemas;
use crate::selector::Selector;

/// Merges a patch into each object that a target selects; returns how many those are.
pub(crate) fn merge_into_selected(
    objects: &mut Objects,
    target: &Selector,
    patch: &Resource,
    schemas: &Schemas,
) -> Result<usize, Error> {
    let failed = |e: Error| {
        let target = quote(target.to_string().as_bytes());
        e.within(format!("unable to find patch target {target} in `resources`"))
    };
    let selector = target.compile().map_err(failed)?;
    let mut selected = Vec::new();
    for (at, object) in objects.items().iter().enumerate() {
        build_steps::count(1)?;
        if selector.matches(object, schemas) {
            selected.push(at);
        }
    }
    for at in &selected {
        objects.change(*at, schemas, |object| {
            let patch = adapted(patch, object, schemas)?;
            merge_into(object, &patch, schemas)
        })?;
    }
    objects.drop_empty();
    // Identities change with the name or the kind alone.
    if patch.may_change_name() || patch.may_change_kind() {
        objects.check_unique(schemas)?;
    }
    Ok(selected.len())
}

/// The patch in the form in which it is merged into an object that it does not name: of the object's version, its labels and
/// annotations written as texts.
pub(super) fn adapted(patch: &Resource, object: &Resource, schemas: &Schemas) -> Result<Resource, Error> {
    let mut adapted = patch.clone();
    let node = &mut adapted.node;
    for key in ["labels", "annotations"] {
        let map = metadata_map(node, key);
        set_metadata_map(node, key, &map)?;
    }
    let id = patch.id(schemas);
    set_metadata_text(node, "name", &id.name)?;
    set_namespace(node, &id.namespace)?;
    set(node, "apiVersion", scalar(&object.id(schemas).gvk.api_version()))?;
    Ok(adapted)
}

/// The place of the one object that a patch names.
pub(super) fn named(objects: &mut Objects, patch: &Resource, schemas: &Schemas) -> Result<usize, Error> {
    let id = patch.original_id(schemas);
    let number = match objects.places(&id, schemas).as_slice() {
        [at] => return Ok(*at),
        [] => "no",
        _ => "multiple",
    };
    Err(Error::Patch(format!("{number} matches for Id {id}; failed to find unique target for patch {id}")))
}

/// Merges a patch into an object, whose kind, name and namespace stay where the patch may not change them.
pub(crate) fn merge_into(object: &mut Resource, patch: &Resource, schemas: &Schemas) -> Result<(), Error> {
    let Id { gvk, name, namespace, .. } = object.id(schemas);
    let (may_name, may_kind) = (patch.may_change_name(), patch.may_change_kind());
    if may_name || may_kind {
        object.store_id(schemas)?;
    }
    object.node = strategic_merge::merge(&object.node, &patch.node, schemas)?.unwrap_or_else(|| {
        // The whole object is deleted.
        from_data(&chart_compat::data::Data::Null)
    });
    sync(object);
    if object.is_empty() {
        return Ok(());
    }
    if !may_kind {
        set(&mut object.node, "kind", scalar(&gvk.kind))?;
    }
    if !may_name {
        set_metadata_text(&mut object.node, "name", &name)?;
    }
    set_namespace(&mut object.node, &namespace)
}

/// Applies a JSON patch. What the build has noted in annotations stays.
pub(crate) fn apply_json(object: &mut Resource, operations: &JsonPatch) -> Result<(), Error> {
    let mut noted = metadata_map(&object.node, "annotations");
    noted.retain(|key, _| is_internal(key));
    let mut data = to_data(&object.node)?;
    operations.apply(&mut data)?;
    object.node = from_data(&data);
    let mut annotations = metadata_map(&object.node, "annotations");
    annotations.extend(noted);
    // Metadata that is not a map is refused when the patches are through.
    drop(set_metadata_map(&mut object.node, "annotations", &annotations));
    Ok(())
}
