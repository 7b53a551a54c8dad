//! Values copied from one object into fields of others.
//!
//! Owns the source, the targets, and the parts of a field that are replaced.

use std::collections::BTreeSet;

use chart_compat::yaml::tree::{Kind, MAX_DEPTH, Node};

use super::structured::set_in_text;
use crate::error::Error;
use crate::fieldspec::lookup::{at_mut, lookup};
use crate::fieldspec::path_match::{Found, find};
use crate::fieldspec::split_dotted;
use crate::resource::build_steps;
use crate::resource::growth;
use crate::resource::node::is_empty;
use crate::resource::shared::{sync, without_marks};
use crate::resource::{Gvk, Id, Objects, Resource};
use crate::schema::Schemas;
use crate::selector::{CompiledSelector, Selector};

/// The field that is taken if none is given.
const DEFAULT_PATH: &str = "metadata.name";

/// Which part of a field counts.
#[derive(Clone, Debug, Default)]
pub struct FieldOptions {
    /// What the parts are separated by; empty: the whole field counts.
    pub delimiter: String,
    /// The part; in targets, one below 0 goes before all, and one beyond the last after all.
    pub index: i64,
    /// Whether missing fields are made.
    pub create: bool,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The object's kind; empty parts fit all.
    pub gvk: Gvk,
    /// The object's name, or empty.
    pub name: String,
    /// The object's namespace, or empty.
    pub namespace: String,
    /// The field.
    pub field_path: String,
    /// The part of the field.
    pub options: Option<FieldOptions>,
}

/// Where a value goes.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The objects.
    pub select: Option<Selector>,
    /// Objects that are left out.
    pub reject: Vec<Selector>,
    /// The fields.
    pub field_paths: Vec<String>,
    /// The part of the field.
    pub options: Option<FieldOptions>,
}

/// The most bytes and nodes of an object that replacements make: one may copy a field into itself.
const MAX_SIZE: usize = 64 << 20;

/// A text that is not longer does not make an object too large at once.
const LONG: usize = 4096;

/// How much an object holds, where a node counts as some bytes, and how deep it is.
fn extent(node: &Node) -> (usize, usize) {
    let (size, depth) = node.content.iter().map(extent).fold((0, 0), |a, b| (a.0 + b.0, a.1.max(b.1)));
    (64 + node.value.len() + size, depth + 1)
}

/// Refuses an object that has grown too large, or deeper than YAML may be.
fn check_extent(object: &Node) -> Result<(), Error> {
    match extent(object) {
        (size, _) if size > MAX_SIZE => {
            Err(Error::Text(format!("replacements make an object of more than {MAX_SIZE} bytes")))
        }
        (_, depth) if depth > MAX_DEPTH => {
            Err(Error::Text(format!("replacements make an object that is deeper than {MAX_DEPTH}")))
        }
        _ => Ok(()),
    }
}

/// A replacement.
#[derive(Clone, Debug, Default)]
pub struct Replacement {
    /// The source.
    pub source: Option<Source>,
    /// A value instead of a source.
    pub source_value: Option<String>,
    /// The targets; none at all is an error.
    pub targets: Option<Vec<Target>>,
    /// Where it is written, for hints.
    pub place: String,
    /// Its fields that mean nothing, a sentence each, for hints.
    pub unknown: Vec<String>,
}

impl Source {
    fn id(&self) -> Id {
        let Self { gvk, name, namespace, .. } = self.clone();
        Id { gvk, name, namespace, cluster_scoped: false }
    }

    /// The source as kustomize shows it.
    fn display(&self) -> String {
        let mut text = self.id().to_string();
        if !self.field_path.is_empty() {
            text.push(':');
            text.push_str(&self.field_path);
        }
        if let Some(FieldOptions { delimiter, index, create }) = &self.options
            && (!delimiter.is_empty() || *create)
        {
            text.push_str(&format!(":{delimiter}({index}), create={create}"));
        }
        text
    }

    fn selects(&self, id: &Id) -> bool {
        let namespace =
            self.namespace.is_empty() || self.id().effective_namespace() == id.effective_namespace();
        (self.name.is_empty() || self.name == id.name) && namespace && id.gvk.is_selected(&self.gvk)
    }

    fn value(&self, objects: &Objects, schemas: &Schemas) -> Result<Node, Error> {
        let ids = |object: &Resource| {
            let mut ids = vec![object.id(schemas)];
            ids.extend(object.former_ids(schemas));
            ids
        };
        let mut found = None;
        for object in objects.items() {
            build_steps::count(1)?;
            object.check_former_ids().map_err(|e| e.within("error getting node IDs"))?;
            if ids(object).iter().any(|id| self.selects(id)) && found.replace(object).is_some() {
                return Err(Error::text(format!("multiple matches for selector {}", self.display())));
            }
        }
        let Some(object) = found else {
            return Err(Error::text(format!("nothing selected by {}", self.display())));
        };
        let path = if self.field_path.is_empty() { DEFAULT_PATH } else { &self.field_path };
        let field = lookup(&object.node, &split_dotted(path))
            .map_err(|e| e.within("error looking up replacement source"))?;
        let Some(field) = field.filter(|field| !is_empty(field)) else {
            let id = self.id();
            return Err(Error::text(format!("fieldPath `{path}` is missing for replacement source {id}")));
        };
        self.part(field)
    }

    fn part(&self, field: &Node) -> Result<Node, Error> {
        let Some(options) = self.options.as_ref().filter(|options| !options.delimiter.is_empty()) else {
            return Ok(field.clone());
        };
        if field.kind != Kind::Scalar {
            return Err(only_scalars());
        }
        build_steps::count(build_steps::of_text(&field.value))?;
        let parts = || field.value.split(&options.delimiter);
        let index = usize::try_from(options.index).ok();
        let part = index.and_then(|index| parts().nth(index)).ok_or_else(|| {
            let (index, value) = (options.index, &field.value);
            Error::text(format!("options.index {index} is out of bounds for value {value}"))
        })?;
        Ok(Node { value: part.to_owned(), ..field.clone() })
    }
}

fn only_scalars() -> Error {
    Error::text("delimiter option can only be used with scalar nodes")
}

impl Replacement {
    /// Copies the value. Returns the field paths for which delimiter and index of the options did not count.
    ///
    /// # Errors
    /// The source is not one field, a target has no such field, or the build takes too many steps.
    pub fn apply(&self, objects: &mut Objects, schemas: &Schemas) -> Result<BTreeSet<String>, Error> {
        let Some(targets) =
            self.targets.as_ref().filter(|_| self.source.is_some() || self.source_value.is_some())
        else {
            return Err(Error::text("replacements must specify a source and at least one target"));
        };
        let value = match (&self.source, &self.source_value) {
            (Some(_), Some(_)) => {
                return Err(Error::text("value and resource selectors are mutually exclusive"));
            }
            (_, Some(text)) => Node { value: text.clone(), ..Node::default() },
            (Some(source), None) => without_marks(&source.value(objects, schemas)?),
            (None, None) => return Ok(BTreeSet::new()),
        };
        let mut whole = BTreeSet::new();
        for target in targets {
            target.apply(objects, &value, schemas, &mut whole)?;
        }
        Ok(whole)
    }
}

impl Target {
    fn apply(
        &self,
        objects: &mut Objects,
        value: &Node,
        schemas: &Schemas,
        whole: &mut BTreeSet<String>,
    ) -> Result<(), Error> {
        let Some(select) = &self.select else {
            return Err(Error::text("target must specify resources to select"));
        };
        let failed = |e: Error| e.within("error creating target selector");
        let selector = select.compile().map_err(failed)?;
        let reject: Vec<(&Selector, CompiledSelector)> = (self.reject.iter())
            .map(|one| Ok((one, one.compile().map_err(failed)?)))
            .collect::<Result<_, Error>>()?;
        for at in 0..objects.items().len() {
            let Some(object) = objects.items().get(at) else { continue };
            build_steps::count(1)?;
            let mut ids = vec![object.id(schemas)];
            ids.extend(object.former_ids(schemas));
            if !selector.matches_metadata(object)
                || reject.iter().any(|(one, compiled)| rejects_metadata(one, compiled, object))
                || reject
                    .iter()
                    .any(|(one, compiled)| has_id(one) && ids.iter().any(|id| compiled.matches_id(id)))
            {
                continue;
            }
            if ids.iter().any(|id| selector.matches_id(id)) {
                objects.change(at, schemas, |object| {
                    self.copy(&mut object.node, value, whole)?;
                    let grows =
                        value.kind != Kind::Scalar || self.options.is_some() || value.value.len() > LONG;
                    if grows {
                        check_extent(&object.node)?;
                    }
                    sync(object);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    fn copy(&self, object: &mut Node, value: &Node, whole: &mut BTreeSet<String>) -> Result<(), Error> {
        let create = self.options.as_ref().is_some_and(|options| options.create).then_some(value.kind);
        let default = [DEFAULT_PATH.to_owned()];
        let paths = if self.field_paths.is_empty() { &default[..] } else { &self.field_paths };
        for path in paths {
            let parts = split_dotted(path);
            if set_in_text(object, value, &parts, create).is_ok() {
                if self.options.as_ref().is_some_and(|options| !options.delimiter.is_empty()) {
                    whole.insert(path.clone());
                }
                continue;
            }
            let missing = || {
                let or_create = if create.is_some() { " or create" } else { "" };
                format!("unable to find{or_create} field {path:?} in replacement target")
            };
            let found = find(object, &parts, create).map_err(|e| e.within(missing()))?;
            if found.is_empty() {
                return Err(Error::text(missing()));
            }
            for field in found {
                match field {
                    Found::Place(places) => {
                        if let Some(field) = at_mut(object, &places) {
                            self.set(field, value)?;
                        }
                    }
                    Found::Apart(mut node) => self.set(&mut node, value)?,
                }
            }
        }
        Ok(())
    }

    fn set(&self, field: &mut Node, value: &Node) -> Result<(), Error> {
        let is_joined = self.options.as_ref().is_some_and(|options| !options.delimiter.is_empty());
        let kept = if is_joined { field.memory() } else { 0 };
        build_steps::count(1 + build_steps::of_text(&field.value))?;
        growth::change(field.memory(), kept.saturating_add(value.memory()))?;
        let mut value = value.clone();
        if let Some(FieldOptions { delimiter, index, .. }) =
            self.options.as_ref().filter(|options| !options.delimiter.is_empty())
        {
            if field.kind != Kind::Scalar {
                return Err(only_scalars());
            }
            let text = if value.is_null() { "" } else { &value.value };
            let mut parts: Vec<&str> = field.value.split(delimiter).collect();
            match usize::try_from(*index) {
                Err(_) => parts.insert(0, text),
                Ok(index) => match parts.get_mut(index) {
                    Some(part) => *part = text,
                    None => parts.push(text),
                },
            }
            value.value = parts.join(delimiter);
        }
        if field.kind == Kind::Scalar {
            field.value = value.value;
        } else {
            *field = Node { anchor: std::mem::take(&mut field.anchor), ..value };
        }
        Ok(())
    }
}

fn rejects_metadata(selector: &Selector, compiled: &CompiledSelector, object: &Resource) -> bool {
    (!selector.label_selector.is_empty() || !selector.annotation_selector.is_empty())
        && compiled.matches_metadata(object)
}

fn has_id(selector: &Selector) -> bool {
    let Selector { group, version, kind, name, namespace, .. } = selector;
    [group, version, kind, name, namespace].iter().any(|text| !text.is_empty())
}
