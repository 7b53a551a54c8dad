//! Strategic merge patches, as kyaml's `merge2` and `walk` merge them.
//!
//! Owns the merge of one patch into one object: maps by key, lists by the keys of the schema, directives, null. kyaml works on
//! nodes that a patch and an object may share while they are merged (what a patch adds is then merged with itself), and its
//! results depend on that: here nodes lie in an arena and share by number.

mod arena;
mod keyed_items;
mod lists;

use chart_compat::yaml::tree::{Kind, Node, Style};

use crate::error::Error;
use crate::resource::build_steps;
use crate::schema::{Schema, Schemas};
use arena::Arena;

/// The number of a node in the arena.
type NodeId = usize;

/// A `$patch` directive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

/// The key of a directive.
const DIRECTIVE: &str = "$patch";

/// Merges a patch into an object. `None` if the patch deletes the whole object.
///
/// # Errors
/// A directive that does not exist, a field that is of another kind in the patch than in the object, a result that is too large, or a
/// build that takes too many steps.
pub fn merge(object: &Node, patch: &Node, schemas: &Schemas) -> Result<Option<Node>, Error> {
    let mut arena = Arena::default();
    let object = arena.insert(object);
    let patch = arena.insert(patch);
    let merged = Merger { arena: &mut arena, schemas }.walk(Some(object), Some(patch), None)?;
    merged.map(|id| arena.extract(id)).transpose()
}

struct Merger<'a> {
    arena: &'a mut Arena,
    schemas: &'a Schemas,
}

impl<'a> Merger<'a> {
    fn is_null(&self, node: Option<NodeId>) -> bool {
        node.is_none_or(|id| self.arena.get(id).is_null())
    }

    /// Merges two nodes of one place. Returns the node that takes the place; `None` for none.
    fn walk(
        &mut self,
        object: Option<NodeId>,
        patch: Option<NodeId>,
        schema: Option<Schema<'a>>,
    ) -> Result<Option<NodeId>, Error> {
        build_steps::count(1)?;
        let schema = schema.or_else(|| self.schema(object)).or_else(|| self.schema(patch));
        let first = [object, patch].into_iter().flatten().find(|id| !self.arena.get(*id).is_null());
        let kind = first.map(|id| self.arena.get(id).kind);
        if let Some(kind) = kind {
            for id in [object, patch].into_iter().flatten() {
                self.check_kind(id, kind)?;
            }
        }
        match kind {
            Some(Kind::List) => match schema.and_then(Schema::merge_keys) {
                Some(keys) => self.walk_keyed_list(object, patch, schema.and_then(Schema::items), &keys),
                None => Ok(patch.or(object)),
            },
            Some(Kind::Scalar) => Ok(patch.or(object)),
            Some(Kind::Document | Kind::Alias) => Ok(None),
            Some(Kind::Map) | None => self.walk_map(object, patch, schema),
        }
    }

    fn check_kind(&self, id: NodeId, kind: Kind) -> Result<(), Error> {
        let node = self.arena.get(id);
        if node.is_null() || node.kind == kind {
            return Ok(());
        }
        crate::resource::node::check_kind(&self.arena.extract(id)?, kind)
    }

    /// The schema of an object by its own kind.
    fn schema(&self, node: Option<NodeId>) -> Option<Schema<'a>> {
        let text = |key| {
            let value = self.arena.get(self.arena.field(node?, key)?);
            (!value.is_null()).then_some(value.value.as_str())
        };
        self.schemas.of_kind(text("apiVersion")?, text("kind")?)
    }

    fn walk_map(
        &mut self,
        object: Option<NodeId>,
        patch: Option<NodeId>,
        schema: Option<Schema<'a>>,
    ) -> Result<Option<NodeId>, Error> {
        let Some(merged) = self.visit_map(object, patch)? else { return Ok(None) };
        let mut keys = self.arena.keys(merged);
        keys.extend(patch.map(|patch| self.arena.keys(patch)).unwrap_or_default());
        keys.sort();
        keys.dedup();
        for key in keys {
            // Each access to a field looks through its map.
            let fields = |id| self.arena.get(id).content.len();
            build_steps::count((fields(merged) + patch.map_or(0, fields)) / 4)?;
            let ours = self.arena.field(merged, &key);
            let theirs = patch.and_then(|patch| self.arena.field(patch, &key));
            let value = self.walk(ours, theirs, schema.and_then(|s| s.field(&key)))?;
            let holder = if value == theirs { patch } else { Some(merged).filter(|_| value == ours) };
            let style = holder.map_or(Style::Plain, |map| self.arena.key_style(map, &key));
            self.set(merged, &key, value, style)?;
        }
        Ok(Some(merged))
    }

    /// The map that the fields are merged into.
    fn visit_map(&mut self, object: Option<NodeId>, patch: Option<NodeId>) -> Result<Option<NodeId>, Error> {
        let Some(object) = object.filter(|id| !self.is_null(Some(*id))) else {
            // A directive that does not exist is let through where there is nothing to merge with.
            if matches!(patch.map(|patch| self.directive(patch)), Some(Ok(Directive::Delete))) {
                return Ok(None);
            }
            let written = object.map(|id| self.arena.get(id).value.clone()).filter(|text| !text.is_empty());
            return Ok(match (patch, written) {
                (None, Some(text)) => {
                    // A null that is written in the object stays.
                    let id =
                        self.arena.push(Node { tag: "!!null".to_owned(), value: text, ..Node::default() });
                    self.arena.persist(id);
                    Some(id)
                }
                (patch, _) => patch,
            });
        };
        self.directed(object, patch)
    }

    /// What the directive of a patch of an existing map or list leaves: the patch, the object, or nothing.
    fn directed(&mut self, object: NodeId, patch: Option<NodeId>) -> Result<Option<NodeId>, Error> {
        let Some(patch) = patch else { return Ok(Some(object)) };
        if self.is_null(Some(patch)) {
            return Ok(None);
        }
        Ok(match self.directive(patch)? {
            Directive::Delete => None,
            Directive::Replace => Some(patch),
            Directive::Merge => Some(object),
        })
    }

    /// The directive of a map or list of the patch, which is taken out of it.
    fn directive(&mut self, patch: NodeId) -> Result<Directive, Error> {
        let node = self.arena.get(patch);
        let kind = node.kind;
        let holder = match kind {
            Kind::Map => Some(patch),
            Kind::List => {
                let items = node.content.clone();
                let holds = |id: &NodeId| {
                    self.arena.get(*id).kind == Kind::Map && self.arena.field(*id, DIRECTIVE).is_some()
                };
                // An item with further fields has a directive of its own.
                items.into_iter().find(holds).filter(|id| self.arena.get(*id).content.len() <= 2)
            }
            Kind::Document | Kind::Scalar | Kind::Alias => {
                let tag = if node.tag.is_empty() { "!!str" } else { &node.tag };
                return Err(Error::Patch(format!(
                    "no implemented strategic merge patch strategy for '{tag}' ('{}')",
                    node.value
                )));
            }
        };
        let Some(value) = holder.and_then(|id| self.arena.field(id, DIRECTIVE)) else {
            return Ok(Directive::Merge);
        };
        let text = self.arena.get(value).value.clone();
        let directive = match text.as_str() {
            "delete" => Directive::Delete,
            "replace" => Directive::Replace,
            "merge" => Directive::Merge,
            other => return Err(Error::Patch(format!("unknown patch strategy '{other}'"))),
        };
        if kind == Kind::Map {
            self.arena.remove(patch, DIRECTIVE);
        } else {
            self.set_item(patch, None, &[DIRECTIVE], &[text])?;
        }
        Ok(directive)
    }

    /// Sets a field of a map. A value that is replaced keeps its style, a new key has `style`; none and a null remove the field.
    fn set(&mut self, map: NodeId, key: &str, value: Option<NodeId>, style: Style) -> Result<(), Error> {
        if let Some(value) = value {
            self.arena.quote(value);
        }
        self.check_kind(map, Kind::Map)?;
        let Some(value) = value.filter(|id| !self.arena.get(*id).is_null() || self.arena.persists(*id))
        else {
            self.arena.remove(map, key);
            return Ok(());
        };
        match self.arena.field(map, key) {
            Some(place) => {
                let (style, tagged) = (self.arena.get(place).style, self.arena.get(place).tagged);
                let written = self.arena.get_mut(value);
                (written.style, written.tagged) = (style, tagged);
                self.arena.replace(place, value);
            }
            None => self.arena.append(map, key, value, style),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use chart_compat::kyaml;
    use chart_compat::yaml::Room;

    use super::*;

    fn read(text: &str) -> Node {
        kyaml::read_resolved(text, &Room::default()).unwrap().swap_remove(0)
    }

    #[test]
    fn depth_that_yaml_allows_is_merged() {
        let deep = |value: &str| format!("{}{value}{}", "{a: ".repeat(490), "}".repeat(490));
        let merged = merge(&read(&deep("1")), &read(&deep("2")), &Schemas::default()).unwrap().unwrap();
        assert_eq!(merged, read(&deep("2")));
    }

    /// An item without the first of two keys stands twice in its list.
    #[test]
    fn growth_is_bounded() {
        let level = "{apiVersion: v1, kind: Service, spec: {ports: [{port: 1}, {protocol: UDP, x: ";
        let nested = format!("{}1{}", level.repeat(60), "}]}}".repeat(60));
        let object = read(&format!("{{kind: A, a: {nested}}}"));
        let failed = merge(&object, &read("{kind: A, b: 1}"), &Schemas::default()).unwrap_err().to_string();
        assert_eq!(failed, "the patched object has more than 1000000 nodes");
    }
}
