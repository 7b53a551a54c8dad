//! A schema of a user: an OpenAPI document with its definitions.
//!
//! Owns references, properties, merge keys and scopes of the document.

use std::collections::HashMap;

use chart_compat::data::{Data, Map};
use chart_compat::{json, yaml};

use super::names::NAMES;
use super::{Field, Source};
use crate::error::Error;

/// How many references are followed from one place.
const MAX_REFERENCES: usize = 100;

/// The definitions of a document.
#[derive(Debug, Default)]
pub(super) struct Custom {
    definitions: Map,
    /// The definition of each kind, by `apiVersion kind`.
    kinds: HashMap<String, String>,
    /// Whether objects of a kind have a namespace, by `apiVersion kind`.
    namespaced: HashMap<String, bool>,
}

/// A definition or a part of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'s> {
    schema: &'s Custom,
    part: &'s Data,
    /// Whether definitions that the document lacks may be built-in ones.
    built_in: bool,
}

/// Kind and version of an `x-kubernetes-group-version-kind` entry.
fn kind_key(entry: &Data) -> Option<String> {
    let text = |key| entry.get(key).and_then(Data::as_str);
    let (version, kind) = (text("version")?, text("kind")?);
    Some(match text("group") {
        None | Some("") => format!("{version} {kind}"),
        Some(group) => format!("{group}/{version} {kind}"),
    })
}

impl Custom {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Error> {
        let failed = |e: String| Error::Text(format!("invalid schema file: {e}"));
        let data = match text.first() {
            Some(b'{') => json::from_slice(text).map_err(|e| failed(e.to_string()))?,
            _ => yaml::from_slice(text).map_err(|e| failed(e.to_string()))?,
        };
        let map = |key| data.get(key).and_then(Data::as_map).cloned().unwrap_or_default();
        let mut custom = Self { definitions: map("definitions"), ..Self::default() };
        for (name, definition) in &custom.definitions {
            let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Data::as_list);
            for key in kinds.unwrap_or_default().iter().filter_map(kind_key) {
                custom.kinds.insert(key, name.clone());
            }
        }
        for (path, item) in &map("paths") {
            let kind = item.get("get").and_then(|get| get.get("x-kubernetes-group-version-kind"));
            let Some(key) = kind.and_then(kind_key) else { continue };
            if path.contains("namespaces/{namespace}") {
                custom.namespaced.insert(key, true);
            } else {
                custom.namespaced.entry(key).or_insert(false);
            }
        }
        Ok(custom)
    }

    pub(super) fn is_cluster_scoped(&self, api_version: &str, kind: &str) -> bool {
        self.namespaced.get(&format!("{api_version} {kind}")) == Some(&false)
    }

    pub(super) fn of_kind(&self, api_version: &str, kind: &str, built_in: bool) -> Option<Place<'_>> {
        let name = self.kinds.get(&format!("{api_version} {kind}"))?;
        Some(Place { schema: self, part: self.definitions.get(name)?, built_in })
    }

    /// Follows references.
    fn resolve<'s>(&'s self, mut part: &'s Data, built_in: bool) -> Option<Source<'s>> {
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = part.get("$ref").and_then(Data::as_str) else {
                return Some(Source::Custom(Place { schema: self, part, built_in }));
            };
            let name = reference.strip_prefix("#/definitions/")?;
            let name = name.replace("~1", "/").replace("~0", "~");
            match self.definitions.get(&name) {
                Some(definition) => part = definition,
                None if built_in => {
                    let at = NAMES.binary_search_by_key(&name.as_str(), |(name, _)| name).ok()?;
                    return NAMES.get(at).map(|(_, number)| Source::BuiltIn(Field::Object(*number)));
                }
                None => return None,
            }
        }
        None
    }
}

impl<'s> Place<'s> {
    pub(super) fn field(self, name: &str) -> Option<Source<'s>> {
        let property = self.part.get("properties").and_then(|properties| properties.get(name));
        let other = || self.part.get("additionalProperties").filter(|other| other.as_map().is_some());
        self.schema.resolve(property.or_else(other)?, self.built_in)
    }

    pub(super) fn items(self) -> Option<Source<'s>> {
        let is_list = match self.part.get("type") {
            Some(Data::String(name)) => name == "array",
            Some(Data::List(names)) => matches!(names.as_slice(), [Data::String(name)] if name == "array"),
            _ => false,
        };
        self.part.get("items").filter(|_| is_list).and_then(|items| self.schema.resolve(items, self.built_in))
    }

    pub(super) fn merge_keys(self) -> Option<Vec<&'s str>> {
        let strategy = self.part.get("x-kubernetes-patch-strategy").and_then(Data::as_str)?;
        if !strategy.split(',').any(|part| part == "merge") {
            return None;
        }
        if let Some(keys) = self.part.get("x-kubernetes-list-map-keys").and_then(Data::as_list) {
            return Some(keys.iter().filter_map(Data::as_str).collect());
        }
        let key = self.part.get("x-kubernetes-patch-merge-key").and_then(Data::as_str);
        Some(key.into_iter().collect())
    }
}
