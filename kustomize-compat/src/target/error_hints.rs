//! What kustomize's errors leave out: which replacement, generator or patch of which file fails, and why.
//!
//! Owns the texts of these hints. They change no error.

use chart_compat::data::Data;
use chart_compat::{json, yaml};

use super::Kustomization;
use super::hints::{distance, name_of};
use crate::error::Error;
use crate::kustomization::PatchSource;
use crate::patch::json6902::JsonPatch;
use crate::resource::{Behavior, Id, Objects, Resource, read};
use crate::transform::replacements::Replacement;

/// The most objects whose names are compared for one hint.
const MOST_COMPARED: usize = 1000;

impl Kustomization<'_> {
    /// Applies replacements. Names the one that fails, and those whose options do not count.
    pub(super) fn apply_replacements(
        &self,
        list: &[Replacement],
        objects: &mut Objects,
    ) -> Result<(), Error> {
        for one in list {
            let place = &one.place;
            let failed = |error: &Error| {
                let unknown: String = one.unknown.iter().map(|text| format!("; {text}")).collect();
                self.hint(&format!("{place} is the replacement that fails: {error}{unknown}"));
            };
            for path in one.apply(objects, self.session.schemas).inspect_err(failed)? {
                self.hint(&format!(
                    "{place}: delimiter and index of options do not count for {path:?}, a field inside of a text: its whole value is \
                     replaced"
                ));
            }
        }
        Ok(())
    }

    /// A generated object that is to change one that does not exist.
    pub(super) fn hint_no_base(&self, generator: &str, object: &Resource, objects: &mut Objects) {
        let schemas = self.session.schemas;
        let behavior = object.behavior();
        let id = object.id(schemas);
        if !matches!(behavior, Behavior::Merge | Behavior::Replace)
            || !objects.places(&id, schemas).is_empty()
        {
            return;
        }
        let ids = objects.items().iter().filter(|object| !object.is_empty()).take(MOST_COMPARED);
        let ids = ids.map(|object| object.id(schemas)).filter(|other| other.gvk.kind == id.gvk.kind);
        let nearest = ids.min_by_key(|other| distance(&id.name, &other.name));
        let nearest = nearest.map_or_else(
            || format!("there is no {} among them", id.gvk.kind),
            |nearest| differences(&id, &nearest),
        );
        self.hint(&format!(
            "{generator} with behavior {} needs {} among the resources; {nearest}",
            behavior.name(),
            name_of(&id)
        ));
    }

    /// An error of a patch, with the hint about one that is neither a strategic merge patch nor a JSON patch.
    pub(super) fn with_patch_hint(&self, error: Error, field: &str, source: &PatchSource) -> Error {
        let inline = source.patch.trim();
        let (text, file) = match source.path.as_str() {
            "" => (Some(inline.to_owned()), String::new()),
            path => (self.read_file(path).ok(), format!(" ({path})")),
        };
        let Some(text) = text else { return error };
        if read(&text).is_err()
            && JsonPatch::parse(&text).is_none()
            && let Some(problem) = patch_problem(&text)
        {
            let hint = format!("{field}{file} is not a patch: {problem}");
            self.hint(&hint);
            return Error::Hinted { source: Box::new(error), hint };
        }
        error
    }
}

/// The nearest object, and what must change for it to be the wanted one.
fn differences(wanted: &Id, found: &Id) -> String {
    let mut different = Vec::new();
    if wanted.name != found.name {
        different.push("name");
    }
    if wanted.effective_namespace() != found.effective_namespace() {
        different.push("namespace");
    }
    let (nearest, but) = (name_of(found), different.join(" and "));
    match different.contains(&"namespace") {
        true => format!(
            "{nearest} is the nearest, but for its {but}; a generator gets its namespace by a field of its own, before that of the \
             kustomization counts"
        ),
        false => format!("{nearest} is the nearest, but for its {but}"),
    }
}

/// Why a text is no patch of either kind.
fn patch_problem(text: &str) -> Option<String> {
    if text.starts_with('[') {
        return json_problem(text);
    }
    let indented_with_tab = |line: &str| {
        let indent = &line[..line.len() - line.trim_start().len()];
        indent.contains('\t') && !line.trim().is_empty()
    };
    if let Some(at) = text.lines().position(indented_with_tab) {
        return Some(format!("line {} is indented with a tab, which YAML does not allow", at + 1));
    }
    let documents: Vec<&str> = text.split("\n---").collect();
    let place = |at: usize| match documents.len() {
        1 => String::new(),
        _ => format!("document {}: ", at + 1),
    };
    let mut problems = documents.iter().enumerate().filter_map(|(at, document)| {
        document_problem(document).map(|problem| format!("{}{problem}", place(at)))
    });
    problems.next().or_else(|| read(text).err().map(|error| error.to_string()))
}

fn json_problem(text: &str) -> Option<String> {
    match json::from_slice(text.as_bytes()) {
        Ok(Data::List(items)) => operation_problem(&items),
        Ok(_) => None,
        Err(error) => {
            let remedy = match yaml::from_slice(text.as_bytes()) {
                Ok(_) => {
                    "quote its keys and texts, or write each operation as an item of a YAML list, which begins with -"
                }
                Err(_) => "see the text after that",
            };
            Some(format!("it begins with [ and so is read as JSON: {error}; {remedy}"))
        }
    }
}

fn document_problem(text: &str) -> Option<String> {
    let missing =
        |field: &str| Some(format!("{field} is missing; a strategic merge patch names kind and object"));
    match yaml::from_slice(text.as_bytes()) {
        Err(error) => Some(error.to_string()),
        Ok(Data::List(items)) => operation_problem(&items),
        Ok(Data::Map(map)) => {
            let filled =
                |value: Option<&Data>| value.and_then(Data::as_str).is_some_and(|text| !text.is_empty());
            let metadata = map.get("metadata");
            match () {
                () if !filled(map.get("kind")) => missing("kind"),
                () if !filled(metadata.and_then(|metadata| metadata.get("name"))) => missing("metadata.name"),
                () => None,
            }
        }
        Ok(Data::Null) => None,
        Ok(_) => Some("it is neither an object nor a list of operations".to_owned()),
    }
}

fn operation_problem(items: &[Data]) -> Option<String> {
    let wrong = items.iter().position(|item| !matches!(item, Data::Map(_) | Data::Null))?;
    Some(format!("item {wrong} of the list is not an operation, which is a map of op and path"))
}

#[cfg(test)]
mod tests {
    use super::patch_problem;

    #[test]
    fn patches_that_cannot_be_read_have_a_reason() {
        let object = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n";
        let table = [
            ("[{op: add, path: /a}]", "it begins with [ and so is read as JSON: "),
            ("[{\"op\": \"add\"}", "it begins with [ and so is read as JSON: "),
            ("[\"op\"]", "item 0 of the list is not an operation, which is a map of op and path"),
            ("- op: add\n- add", "item 1 of the list is not an operation, which is a map of op and path"),
            ("kind: A\nspec:\n\treplicas: 3\n", "line 3 is indented with a tab, which YAML does not allow"),
            (
                "kind: A\nspec: {}\n",
                "metadata.name is missing; a strategic merge patch names kind and object",
            ),
            ("metadata: {name: a}\n", "kind is missing; a strategic merge patch names kind and object"),
            ("kind: A\n b: c\n", "yaml: "),
            ("just a text", "it is neither an object nor a list of operations"),
        ];
        for (text, expected) in table {
            let found = patch_problem(text).unwrap_or_default();
            assert!(found.starts_with(expected), "{text}: {found}");
        }
        let found = patch_problem(&format!("{object}---\nkind: A\n")).unwrap_or_default();
        assert!(found.starts_with("document 2: metadata.name is missing"), "{found}");
    }
}
