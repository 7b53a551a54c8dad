//! Patches: which kind a text is, which objects it changes, and the change.
//!
//! Owns detection and application; the two kinds of patches are [`strategic_merge`] and [`json6902`].

pub mod json6902;
pub mod strategic_merge;

use chart_compat::data::{Data, Map};
use chart_compat::go::quote;
use chart_compat::{kyaml, yaml};

use crate::error::Error;
use crate::resource::node::{metadata_map, scalar, set, set_metadata_map, set_metadata_text};
use crate::resource::{Id, Resource, check_unique, from_data, read, to_data};
use crate::selector::Selector;
use json6902::JsonPatch;

/// A patch as a kustomization has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Strategic merge patches or one JSON patch, in YAML or JSON.
    pub text: String,
    /// The objects to change; a strategic merge patch without one changes the object that it names.
    pub target: Option<Selector>,
}

enum Parsed {
    StrategicMerge(Vec<Resource>),
    Json(JsonPatch),
}

impl Patch {
    /// The patch for messages.
    fn source(&self) -> String {
        format!("[patch: {}]", quote(self.text.trim().as_bytes()))
    }

    /// The patch as kustomize configures its transformer with it.
    fn configuration(&self) -> Result<String, Error> {
        let mut map = Map::new();
        let put = |map: &mut Map, key: &str, text: &str| {
            if !text.is_empty() {
                map.insert(key.to_owned(), Data::String(text.to_owned()));
            }
        };
        put(&mut map, "patch", &self.text);
        if let Some(target) = &self.target {
            let mut fields = Map::new();
            let Selector { group, version, kind, name, namespace, label_selector, annotation_selector } =
                target;
            put(&mut fields, "group", group);
            put(&mut fields, "version", version);
            put(&mut fields, "kind", kind);
            put(&mut fields, "name", name);
            put(&mut fields, "namespace", namespace);
            put(&mut fields, "labelSelector", label_selector);
            put(&mut fields, "annotationSelector", annotation_selector);
            map.insert("target".to_owned(), Data::Map(fields));
        }
        yaml::to_string(&Data::Map(map)).map_err(|e| Error::Patch(e.to_string()))
    }

    /// Checks that the text is a patch, before any patch is applied.
    ///
    /// # Errors
    /// It is none.
    pub fn check(&self) -> Result<(), Error> {
        self.parse().map(|_| ())
    }

    fn parse(&self) -> Result<Parsed, Error> {
        let config = self.configuration()?;
        let parsed = self.parse_text(&config);
        parsed.map_err(|e| {
            e.within(format!("trouble configuring builtin PatchTransformer with config: `\n{config}`"))
        })
    }

    fn parse_text(&self, config: &str) -> Result<Parsed, Error> {
        let text = self.text.trim();
        if text.is_empty() {
            return Err(Error::Patch(format!("must specify one of patch and path in\n{config}")));
        }
        match (read(text), JsonPatch::parse(text)) {
            (Ok(objects), Some(operations)) if !objects.is_empty() && !operations.is_empty() => Err(
                Error::Patch(format!("illegally qualifies as both an SM and JSON patch: {}", self.source())),
            ),
            (Ok(objects), _) => Ok(Parsed::StrategicMerge(objects)),
            (Err(_), Some(operations)) => Ok(Parsed::Json(operations)),
            (Err(_), None) => {
                Err(Error::Patch(format!("unable to parse SM or JSON patch from {}", self.source())))
            }
        }
    }

    /// Applies the patch. Objects that it deletes are taken out of `objects`.
    ///
    /// # Errors
    /// A text that is no patch, a target that is not valid, an object to change that does not exist, or a patch that does not
    /// apply.
    pub fn apply(&self, objects: &mut Vec<Resource>) -> Result<(), Error> {
        match self.parse()? {
            Parsed::StrategicMerge(patches) => match (&self.target, patches.as_slice()) {
                (_, []) => Ok(()),
                (Some(target), [patch]) => merge_into_selected(objects, target, patch),
                (Some(_), _) => Err(Error::Patch(format!(
                    "Multiple Strategic-Merge Patches in one `patches` entry is not allowed to set `patches.target` field: {}",
                    self.source()
                ))),
                (None, patches) => patches.iter().try_for_each(|patch| merge_into_named(objects, patch)),
            },
            Parsed::Json(operations) if operations.is_empty() => Ok(()),
            Parsed::Json(operations) => {
                let Some(target) = &self.target else {
                    let source = self.source();
                    return Err(Error::Patch(format!("must specify a target for JSON patch {source}")));
                };
                let selector = target.compile()?;
                for object in objects.iter_mut().filter(|object| selector.matches(object)) {
                    apply_json(object, &operations)?;
                }
                Ok(())
            }
        }
    }
}

/// Merges a patch into each object that a target selects.
fn merge_into_selected(
    objects: &mut Vec<Resource>,
    target: &Selector,
    patch: &Resource,
) -> Result<(), Error> {
    let failed = |e: Error| {
        let target = quote(target.to_string().as_bytes());
        e.within(format!("unable to find patch target {target} in `resources`"))
    };
    let selector = target.compile().map_err(failed)?;
    let selected: Vec<bool> = objects.iter().map(|object| selector.matches(object)).collect();
    let mut out = Vec::with_capacity(objects.len());
    for (mut object, selected) in std::mem::take(objects).into_iter().zip(selected) {
        if selected {
            let patch = adapted(patch, &object)?;
            if !merge(&mut object, &patch)? {
                continue;
            }
        }
        out.push(object);
    }
    *objects = out;
    check_unique(objects)
}

/// The patch in the form in which it is merged into an object that it does not name: of the object's version, its labels and
/// annotations written as texts.
fn adapted(patch: &Resource, object: &Resource) -> Result<Resource, Error> {
    let mut adapted = patch.clone();
    let node = &mut adapted.node;
    for key in ["labels", "annotations"] {
        let map = metadata_map(node, key);
        set_metadata_map(node, key, &map)?;
    }
    let id = patch.id();
    set_metadata_text(node, "name", &id.name)?;
    set_namespace(node, &id.namespace)?;
    set(node, "apiVersion", scalar(&object.id().gvk.api_version()))?;
    Ok(adapted)
}

/// Merges a patch into the one object that it names.
fn merge_into_named(objects: &mut Vec<Resource>, patch: &Resource) -> Result<(), Error> {
    let id = patch.original_id();
    let has_id = |object: &Resource| object.former.iter().chain([&object.id()]).any(|known| known.same(&id));
    let found: Vec<usize> = objects.iter().enumerate().filter(|(_, o)| has_id(o)).map(|(at, _)| at).collect();
    let number = match found.as_slice() {
        [at] => {
            if let Some(object) = objects.get_mut(*at)
                && !merge(object, patch)?
            {
                objects.remove(*at);
            }
            return Ok(());
        }
        [] => "no",
        _ => "multiple",
    };
    let (shown, quoted) = (id.to_string(), quote(id.to_string().as_bytes()));
    Err(Error::Patch(format!(
        "no resource matches strategic merge patch {quoted}: {number} matches for Id {shown}; failed to find unique target for patch {shown}"
    )))
}

/// Merges a patch into an object, whose kind, name and namespace stay. Returns whether there is still an object.
fn merge(object: &mut Resource, patch: &Resource) -> Result<bool, Error> {
    let Id { gvk, name, namespace } = object.id();
    let Some(node) = strategic_merge::merge(&object.node, &patch.node)? else { return Ok(false) };
    object.node = node;
    if crate::resource::node::is_empty(&object.node) {
        return Ok(false);
    }
    set(&mut object.node, "kind", scalar(&gvk.kind))?;
    set_metadata_text(&mut object.node, "name", &name)?;
    set_namespace(&mut object.node, &namespace)?;
    Ok(true)
}

fn set_namespace(node: &mut chart_compat::yaml::tree::Node, namespace: &str) -> Result<(), Error> {
    if !namespace.is_empty() {
        return set_metadata_text(node, "namespace", namespace);
    }
    if let Some(metadata) = node.get_mut("metadata") {
        metadata.remove("namespace");
    }
    Ok(())
}

/// The annotations in which kustomize keeps former identities until the end: a JSON patch sees them, and so finds annotations in
/// every object.
const FORMER: [&str; 3] = [
    "internal.config.kubernetes.io/previousKinds",
    "internal.config.kubernetes.io/previousNames",
    "internal.config.kubernetes.io/previousNamespaces",
];

fn apply_json(object: &mut Resource, operations: &JsonPatch) -> Result<(), Error> {
    object.push_former_id();
    let join = |text: fn(&Id) -> &str| object.former.iter().map(text).collect::<Vec<_>>().join(",");
    let former = [join(|id| &id.gvk.kind), join(|id| &id.name), join(|id| &id.namespace)];
    let former = FORMER.map(str::to_owned).into_iter().zip(former);
    for (key, value) in former.clone() {
        kyaml::annotate(&mut object.node, &key, &value).map_err(|e| Error::Patch(e.to_string()))?;
    }
    let mut data = to_data(&object.node)?;
    operations.apply(&mut data)?;
    object.node = from_data(&data);
    let mut annotations = metadata_map(&object.node, "annotations");
    annotations.extend(former);
    if set_metadata_map(&mut object.node, "annotations", &annotations).is_err() {
        // Metadata that is not a map is refused when the patches are through; kustomize forgets identities with it.
        object.former.clear();
    }
    Ok(())
}
