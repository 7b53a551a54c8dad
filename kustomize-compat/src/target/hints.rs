//! What kustomize says nothing of: patches that change nothing, generated names that a field does not follow, deprecated fields.
//!
//! Owns the texts of these hints. They change no output.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use chart_compat::yaml::tree::{Kind, Node};

use super::Kustomization;
use crate::load::World;
use crate::resource::{Id, Objects, Resource};
use crate::schema::Schemas;
use crate::selector::Selector;

/// The most hints of a build.
const MOST: usize = 100;
/// The most objects whose names are compared for one hint.
const MOST_COMPARED: usize = 1000;
/// The longest name that is compared with others: that of Kubernetes.
const LONGEST_NAME: usize = 253;

/// The hints of a build so far, each told once.
#[derive(Default)]
pub(super) struct Hints(RefCell<BTreeSet<String>>);

impl Hints {
    pub(super) fn tell(&self, world: &dyn World, hint: String) {
        let mut told = self.0.borrow_mut();
        if told.len() < MOST && !told.contains(&hint) {
            world.hint(&hint);
            told.insert(hint);
        }
    }

    fn is_full(&self) -> bool {
        self.0.borrow().len() >= MOST
    }
}

impl Kustomization<'_> {
    pub(super) fn hint(&self, text: &str) {
        let file = format!("{}/{}", self.loader.directory(), self.file_name);
        self.session.hints.tell(self.session.world, format!("{file}: {text}"));
    }

    pub(super) fn hint_rewrites(&self) {
        self.file.hints.iter().for_each(|hint| self.hint(hint));
    }

    /// A patch that no object matches.
    pub(super) fn hint_no_match(&self, patch: &str, target: &Selector, objects: &Objects) {
        if self.session.hints.is_full() {
            return;
        }
        let selector = target.compile();
        let matches =
            |object: &Resource| selector.as_ref().is_ok_and(|s| s.matches(object, self.session.schemas));
        if objects.items().iter().any(matches) {
            // A patch without an operation.
            return;
        }
        let nearest = nearest(target, objects.items(), self.session.schemas);
        let nearest = nearest.map(|text| format!("; {text}")).unwrap_or_default();
        self.hint(&format!("{patch} changes nothing: no object matches {}{nearest}", format_target(target)));
    }
}

/// A target as a kustomization has it.
fn format_target(target: &Selector) -> String {
    let fields = target.fields().into_iter().filter(|(_, text)| !text.is_empty());
    format!("{{{}}}", fields.map(|(key, text)| format!("{key}: {text}")).collect::<Vec<_>>().join(", "))
}

/// The object that fails the fewest conditions, and among those the one with the most similar kind and name.
fn nearest(target: &Selector, objects: &[Resource], schemas: &Schemas) -> Option<String> {
    let selector = target.compile().ok()?;
    let all = objects.iter().filter(|object| !object.is_empty());
    let all: Vec<_> = all.map(|object| (selector.mismatches(object, schemas), object)).collect();
    let fewest = all.iter().map(|(failed, _)| failed.len()).min()?;
    let near = all.iter().filter(|(failed, _)| failed.len() == fewest).take(MOST_COMPARED);
    let near = near.map(|(failed, object)| (failed, object.id(schemas)));
    let (failed, id) =
        near.min_by_key(|(_, id)| distance(&target.kind, &id.gvk.kind) + distance(&target.name, &id.name))?;
    Some(format!("{} is the nearest, but for its {}", name_of(&id), failed.join(" and ")))
}

pub(super) fn name_of(id: &Id) -> String {
    let namespace =
        if id.namespace.is_empty() { String::new() } else { format!(" of namespace {:?}", id.namespace) };
    format!("{} {:?}{namespace}", id.gvk.kind, id.name)
}

/// Levenshtein's distance, in any case; 0 where nothing is asked for.
pub(super) fn distance(wanted: &str, found: &str) -> usize {
    if wanted.is_empty() {
        return 0;
    }
    let chars =
        |text: &str| text.chars().take(LONGEST_NAME).map(|c| c.to_ascii_lowercase()).collect::<Vec<_>>();
    let (wanted, found) = (chars(wanted), chars(found));
    let mut row: Vec<usize> = (0..=found.len()).collect();
    for (line, a) in wanted.iter().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (place, b) in row.iter_mut().skip(1).zip(&found) {
            let above = *place;
            *place = (diagonal + usize::from(a != b)).min(above + 1).min(left + 1);
            (diagonal, left) = (above, *place);
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Generated names: kind and former name, and the present name.
pub(super) type Renamed = HashMap<(String, String), String>;

/// Notes the names that an object had before its hash.
pub(super) fn note_renamed(object: &Resource, schemas: &Schemas, renamed: &mut Renamed) {
    let id = object.id(schemas);
    for former in object.former_ids(schemas) {
        if former.name != id.name {
            renamed.insert((former.gvk.kind, former.name), id.name.clone());
        }
    }
}

/// Fields that still hold a name without its hash.
pub(super) fn not_followed(
    objects: &[Resource],
    renamed: &Renamed,
    schemas: &Schemas,
    tell: &mut dyn FnMut(String),
) {
    if renamed.is_empty() {
        return;
    }
    for object in objects {
        let mut path = Vec::new();
        visit(&object.node, &mut path, &mut |path, node, sibling_kind| {
            let Some(kind) = named_kind(path, sibling_kind) else { return };
            let Some(name) = renamed.get(&(kind.to_owned(), node.value.clone())) else { return };
            let id = object.id(schemas);
            let fields = path.join("/");
            tell(format!(
                "{}: {fields} names {kind} {:?}, which is {name:?} in the output; a file of 'configurations' makes it follow: nameReference: \
                 [{{kind: {kind}, version: v1, fieldSpecs: [{{kind: {}, path: {fields}}}]}}]",
                name_of(&id),
                node.value,
                id.gvk.kind
            ));
        });
    }
}

/// The kind that a field names, by the words of its path or by `kind` beside it.
fn named_kind(path: &[&str], sibling: Option<&str>) -> Option<&'static str> {
    let last = path.last()?.to_ascii_lowercase();
    let above = path.iter().rev().nth(1).map(|key| key.to_ascii_lowercase()).unwrap_or_default();
    let of = |text: &str| match text {
        _ if text.contains("configmap") => Some("ConfigMap"),
        _ if text.contains("secret") => Some("Secret"),
        _ => None,
    };
    match sibling {
        Some("ConfigMap") if last == "name" => Some("ConfigMap"),
        Some("Secret") if last == "name" => Some("Secret"),
        Some(_) if last == "name" => None,
        _ if last == "name" => of(&above),
        _ => of(&last).filter(|_| {
            last.ends_with("name")
                || last.ends_with("ref")
                || of(&last).is_some_and(|kind| kind.eq_ignore_ascii_case(&last))
        }),
    }
}

/// Takes the keys that lead to a text, the text, and the `kind` beside it.
type Each<'e> = &'e mut dyn FnMut(&[&str], &Node, Option<&str>);

/// Goes through all texts below a node but its metadata, with the keys that lead to each and the `kind` beside it.
fn visit<'n>(node: &'n Node, path: &mut Vec<&'n str>, each: Each<'_>) {
    match node.kind {
        Kind::Map => {
            let sibling = node.get("kind").map(|kind| kind.value.as_str());
            for (key, value) in node.content.chunks_exact(2).filter_map(|pair| pair.first().zip(pair.get(1)))
            {
                if path.is_empty() && key.value == "metadata" {
                    continue;
                }
                path.push(&key.value);
                match value.kind {
                    Kind::Scalar => each(path, value, sibling),
                    _ => visit(value, path, each),
                }
                path.pop();
            }
        }
        Kind::List => node.content.iter().for_each(|item| match item.kind {
            Kind::Scalar => each(path, item, None),
            _ => visit(item, path, each),
        }),
        Kind::Scalar | Kind::Document | Kind::Alias => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::read;

    #[test]
    fn distances_are_those_of_edits() {
        let table = [
            ("web", "web", 0),
            ("wbe", "web", 2),
            ("", "web", 0),
            ("kitten", "sitting", 3),
            ("Web", "web", 0),
        ];
        for (a, b, expected) in table {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_object_fails_the_fewest_conditions() {
        let objects = read(
            "kind: Deployment\nmetadata: {name: web, namespace: x}\n---\nkind: Deployment\nmetadata: {name: database}\n---\nkind: Service\nmetadata: {name: web}\n",
        )
        .unwrap();
        let schemas = Schemas::default();
        let target = |kind: &str, name: &str, namespace: &str| Selector {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            ..Selector::default()
        };
        let table = [
            (
                target("Deployment", "wbe", ""),
                "Deployment \"web\" of namespace \"x\" is the nearest, but for its name",
            ),
            (
                target("Deployment", "web", "y"),
                "Deployment \"web\" of namespace \"x\" is the nearest, but for its namespace",
            ),
            (target("deployment", "data.*", ""), "Deployment \"database\" is the nearest, but for its kind"),
        ];
        for (target, expected) in table {
            assert_eq!(nearest(&target, &objects, &schemas).as_deref(), Some(expected));
        }
        assert_eq!(nearest(&target("A", "", ""), &[], &schemas), None);
    }

    #[test]
    fn fields_name_kinds_by_their_words() {
        let table: [(&[&str], Option<&str>, Option<&str>); 9] = [
            (&["spec", "secretName"], None, Some("Secret")),
            (&["spec", "configMapRef", "name"], None, Some("ConfigMap")),
            (&["spec", "secretRef", "key"], None, None),
            (&["spec", "ref", "name"], Some("Secret"), Some("Secret")),
            (&["spec", "secretRef", "name"], Some("Role"), None),
            (&["spec", "existingSecret"], None, None),
            (&["spec", "secret"], None, Some("Secret")),
            (&["spec", "configMaps"], None, None),
            (&["spec", "name"], None, None),
        ];
        for (path, sibling, expected) in table {
            assert_eq!(named_kind(path, sibling), expected, "{path:?}");
        }
    }
}
