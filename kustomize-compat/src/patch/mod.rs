//! Patches: which kind a text is, which objects it changes, and the change.
//!
//! Owns detection and application; the two kinds of patches are [`strategic_merge`] and [`json6902`].

mod apply;
pub mod json6902;
pub mod strategic_merge;

use chart_compat::go::quote;
use chart_compat::yaml::Room;

use crate::error::Error;
use crate::resource::{Objects, Resource, build_steps, read_within};
use crate::schema::Schemas;
use crate::selector::Selector;
pub(crate) use apply::{apply_json, merge_into, merge_into_selected};
use json6902::JsonPatch;

/// A patch as a kustomization has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Strategic merge patches or one JSON patch, in YAML or JSON.
    pub text: String,
    /// The objects to change; a strategic merge patch without one changes the object that it names.
    pub target: Option<Selector>,
}

/// A patch that is read.
#[derive(Clone, Debug)]
pub struct LoadedPatch {
    /// The patch for messages.
    source: String,
    target: Option<Selector>,
    parsed: Parsed,
}

#[derive(Clone, Debug)]
enum Parsed {
    StrategicMerge(Vec<Resource>),
    Json(JsonPatch),
}

/// What a strategic merge patch may change beside the contents of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// The name.
    pub name: bool,
    /// The kind.
    pub kind: bool,
}

impl LoadedPatch {
    /// Reads a text that is a patch of either kind.
    pub(crate) fn read(
        text: &str,
        source: String,
        target: Option<Selector>,
        allowed: Allowed,
        room: &Room,
    ) -> Result<Self, Error> {
        build_steps::count(build_steps::of_text(text))?;
        let parsed = match (read_within(text, room), JsonPatch::parse(text)) {
            (Ok(objects), Some(operations)) if !objects.is_empty() && !operations.is_empty() => {
                let text = format!("illegally qualifies as both an SM and JSON patch: {source}");
                return Err(Error::Patch(text));
            }
            (Ok(mut objects), _) => {
                for object in &mut objects {
                    if allowed.name {
                        object.allow_name_change()?;
                    }
                    if allowed.kind {
                        object.allow_kind_change()?;
                    }
                }
                Parsed::StrategicMerge(objects)
            }
            (Err(_), Some(operations)) => Parsed::Json(operations),
            (Err(_), None) => {
                if let Some(why) = room.exceeded() {
                    return Err(Error::Patch(format!("{source}: {why}")));
                }
                return Err(Error::Patch(format!("unable to parse SM or JSON patch from {source}")));
            }
        };
        Ok(Self { source, target, parsed })
    }

    /// What the patch changes; `None`: the object that it names.
    #[must_use]
    pub fn target(&self) -> Option<&Selector> {
        self.target.as_ref()
    }

    /// Applies the patch, and returns how many objects it has. Objects that it deletes become empty.
    ///
    /// # Errors
    /// A target that is not valid, an object to change that does not exist, or a patch that does not apply.
    pub fn apply(&self, objects: &mut Objects, schemas: &Schemas) -> Result<usize, Error> {
        match &self.parsed {
            Parsed::StrategicMerge(patches) => match (&self.target, patches.as_slice()) {
                (_, []) => Ok(0),
                (Some(target), [patch]) => merge_into_selected(objects, target, patch, schemas),
                (Some(_), _) => Err(Error::Patch(format!(
                    "Multiple Strategic-Merge Patches in one `patches` entry is not allowed to set `patches.target` field: {}",
                    self.source
                ))),
                (None, patches) => {
                    patches.iter().try_for_each(|patch| merge_into_named(objects, patch, schemas))?;
                    Ok(patches.len())
                }
            },
            Parsed::Json(operations) if operations.is_empty() => Ok(0),
            Parsed::Json(operations) => {
                let Some(target) = &self.target else {
                    let source = &self.source;
                    return Err(Error::Patch(format!("must specify a target for JSON patch {source}")));
                };
                let selector = target.compile()?;
                let mut count = 0;
                for at in 0..objects.items().len() {
                    build_steps::count(1)?;
                    if objects.items().get(at).is_some_and(|object| selector.matches(object, schemas)) {
                        count += 1;
                        objects.change(at, schemas, |object| {
                            object.store_id(schemas)?;
                            apply_json(object, operations)
                        })?;
                    }
                }
                Ok(count)
            }
        }
    }
}

/// Merges a patch into the one object that it names.
fn merge_into_named(objects: &mut Objects, patch: &Resource, schemas: &Schemas) -> Result<(), Error> {
    let id = patch.original_id(schemas);
    let at = apply::named(objects, patch, schemas).map_err(|e| {
        let quoted = quote(id.to_string().as_bytes());
        e.within(format!("no resource matches strategic merge patch {quoted}"))
    })?;
    objects.change(at, schemas, |object| merge_into(object, patch, schemas))
}

/// A strategic merge patch of `patchesStrategicMerge`: merges it into the one object that it names.
pub(crate) fn merge_adapted(objects: &mut Objects, patch: &Resource, schemas: &Schemas) -> Result<(), Error> {
    let at = apply::named(objects, patch, schemas)?;
    objects.change(at, schemas, |object| {
        let patch = apply::adapted(patch, object, schemas)?;
        merge_into(object, &patch, schemas)
    })
}
