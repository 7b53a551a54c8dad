//! The documents of a schema, and the identifiers of their parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::draft::Draft;
use super::external_documents::ExternalDocuments;
use super::json::Json;
use super::uri::{self, Lost};
use crate::go::strconv;

/// A schema resource: a document root, or a schema with an `$id`.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) id: String,
    pub(super) draft: Draft,
    /// Pointers of anchors, by name.
    anchors: BTreeMap<String, String>,
    /// The names of the dynamic anchors.
    dynamic: BTreeSet<String>,
}

impl Resource {
    /// Names and pointers of the dynamic anchors, which `$dynamicRef` may refer to.
    pub(super) fn dynamic_anchors(&self) -> impl Iterator<Item = (&String, &String)> {
        self.anchors.iter().filter(|(name, _)| self.dynamic.contains(*name))
    }
}

/// A loaded document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) url: String,
    pub(super) json: Arc<Json>,
    /// The resources in it, by pointer.
    pub(super) resources: BTreeMap<String, Resource>,
    /// The pointers of the resources, by id.
    places: HashMap<String, String>,
    /// Pointers of the schemas already searched for resources.
    seen: BTreeSet<String>,
}

fn quote(text: &str) -> String {
    strconv::quote(text.as_bytes())
}

impl Document {
    /// Creates a document with all its resources.
    pub(super) fn new(
        url: &str,
        json: &Arc<Json>,
        documents: &ExternalDocuments<'_>,
    ) -> Result<Self, String> {
        let mut document = Self {
            url: url.to_owned(),
            json: Arc::clone(json),
            resources: BTreeMap::new(),
            places: HashMap::new(),
            seen: BTreeSet::new(),
        };
        document.collect(json, url.to_owned(), String::new(), Draft::default(), documents)?;
        Ok(document)
    }

    /// The resource that contains a schema, and its pointer.
    pub(super) fn resource(&self, pointer: &str) -> (&str, &Resource) {
        let mut at = pointer;
        loop {
            if let Some((key, found)) = self.resources.get_key_value(at) {
                return (key, found);
            }
            // The document itself is one, under the empty pointer.
            at = at.rfind('/').map_or("", |slash| &at[..slash]);
        }
    }

    /// Searches a schema that is not below a keyword of the draft; `false` if it is already known.
    pub(super) fn add_subschema(
        &mut self,
        pointer: &str,
        documents: &ExternalDocuments<'_>,
    ) -> Result<bool, String> {
        if self.seen.contains(pointer) {
            return Ok(false);
        }
        let json = Arc::clone(&self.json);
        let schema = self.lookup(&json, pointer)?;
        let (_, around) = self.resource(pointer);
        let (base, draft) = (around.id.clone(), around.draft);
        self.collect(schema, base, pointer.to_owned(), draft, documents)?;
        Ok(true)
    }

    /// The value under a pointer.
    pub(super) fn lookup<'j>(&self, json: &'j Json, pointer: &str) -> Result<&'j Json, String> {
        let place = || quote(&uri::location(&self.url, pointer));
        uri::lookup(json, pointer).map_err(|lost| match lost {
            Lost::Invalid => format!("invalid json-pointer {}", place()),
            Lost::NotFound => format!("json-pointer in {} not found", place()),
        })
    }

    /// Resolves a reference to a pointer, if it refers to this document.
    pub(super) fn resolve(&self, url: &str, fragment: &str) -> Result<Option<String>, String> {
        let found = if url == self.url {
            Some(self.resource(""))
        } else {
            self.places
                .get(url)
                .and_then(|place| self.resources.get_key_value(place))
                .map(|(p, r)| (p.as_str(), r))
        };
        let Some((pointer, resource)) = found else { return Ok(None) };
        if fragment.is_empty() || fragment.starts_with('/') {
            return Ok(Some(format!("{pointer}{fragment}")));
        }
        match resource.anchors.get(fragment) {
            Some(pointer) => Ok(Some(pointer.clone())),
            None => Err(format!(
                "anchor in {} not found in schema {}",
                quote(&uri::location(&resource.id, fragment)),
                quote(&self.url)
            )),
        }
    }

    fn collect(
        &mut self,
        schema: &Json,
        mut base: String,
        pointer: String,
        around: Draft,
        documents: &ExternalDocuments<'_>,
    ) -> Result<(), String> {
        if self.seen.contains(&pointer) {
            return Ok(());
        }
        let (draft, id, declared) = if schema.as_map().is_some() {
            let own = own_draft(schema, around, &uri::location(&self.url, &pointer), documents)?;
            match own.id(schema) {
                // Within a document only a schema with an id may change the draft.
                "" if !pointer.is_empty() => (around, around.id(schema), false),
                id => (own, id, schema.get("$schema").is_some_and(|s| s.as_str().is_some())),
            }
        } else if pointer.is_empty() {
            (around, "", false)
        } else {
            self.seen.insert(pointer);
            return Ok(());
        };
        if !id.is_empty() {
            base = uri::split(id).and_then(|(url, _)| uri::join(&base, url)).map_err(|_| {
                format!("error in parsing id at {}", quote(&uri::location(&self.url, &pointer)))
            })?;
        }
        if !id.is_empty() || pointer.is_empty() {
            match self.places.get(&base) {
                Some(other) if *other != pointer => {
                    let (id, url) = (quote(&base), quote(&self.url));
                    let (a, b) = (quote(&pointer), quote(other));
                    return Err(format!("duplicate id {id} in {url} at {a} and {b}"));
                }
                Some(_) => {}
                None => {
                    let draft = if declared { draft } else { around };
                    let resource = Resource {
                        id: base.clone(),
                        draft,
                        anchors: BTreeMap::new(),
                        dynamic: BTreeSet::new(),
                    };
                    self.places.insert(base.clone(), pointer.clone());
                    self.resources.insert(pointer.clone(), resource);
                }
            }
        }
        let mut inner = draft;
        if let Some(resource) = self.places.get(&base).and_then(|place| self.resources.get_mut(place)) {
            collect_anchors(resource, schema, &pointer, &self.url)?;
            inner = resource.draft;
        }
        for (at, part) in draft.subschemas(schema, &pointer) {
            self.collect(part, base.clone(), at, inner, documents)?;
        }
        self.seen.insert(pointer);
        Ok(())
    }
}

fn collect_anchors(resource: &mut Resource, schema: &Json, pointer: &str, url: &str) -> Result<(), String> {
    let draft = resource.draft;
    let text = |keyword: &str| schema.get(keyword).and_then(Json::as_str);
    let mut add = |name: &str| {
        match resource.anchors.get(name) {
            Some(other) if other != pointer => {
                let (name, url) = (quote(name), quote(url));
                let (a, b) = (quote(other), quote(pointer));
                return Err(format!("duplicate anchor {name} in {url} at {a} and {b}"));
            }
            Some(_) => {}
            None => {
                resource.anchors.insert(name.to_owned(), pointer.to_owned());
            }
        }
        Ok(())
    };
    if draft < Draft::D2019 {
        if schema.get("$ref").is_some() {
            return Ok(());
        }
        // Before `$anchor`, the fragment of the id was an anchor.
        if let Some(id) = text(draft.id_keyword()) {
            let parsed = uri::split(id);
            let (_, fragment) = parsed
                .map_err(|_| format!("error in parsing anchor at {}", quote(&uri::location(url, pointer))))?;
            if !fragment.is_empty() && !fragment.starts_with('/') {
                add(&fragment)?;
            }
        }
        return Ok(());
    }
    if let Some(name) = text("$anchor") {
        add(name)?;
    }
    if draft >= Draft::D2020
        && let Some(name) = text("$dynamicAnchor")
    {
        add(name)?;
        resource.dynamic.insert(name.to_owned());
    }
    Ok(())
}

/// The draft of a schema by its `$schema`. A custom metaschema has the draft of its own `$schema`, or the latest if
/// it has none.
fn own_draft(
    schema: &Json,
    around: Draft,
    place: &str,
    documents: &ExternalDocuments<'_>,
) -> Result<Draft, String> {
    let named = |schema: &Json| {
        let url = schema.get("$schema").and_then(Json::as_str)?;
        Some(url.split_once('#').map_or(url, |(url, _)| url).to_owned())
    };
    let Some(mut url) = named(schema) else { return Ok(around) };
    let mut places = vec![place.to_owned()];
    loop {
        if let Some(draft) = Draft::from_url(&url) {
            return Ok(draft);
        }
        let place = uri::location(&url, "");
        if places.contains(&place) {
            return Err(format!("draft {} is not supported", quote(&url)));
        }
        places.push(place);
        match named(&*documents.load(&url)?) {
            Some(next) => url = next,
            None => return Ok(Draft::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metaschemas_that_name_each_other_end() {
        let fetch = |url: &str| {
            let next = if url.ends_with('a') { "http://x.test/b#" } else { "http://x.test/a#" };
            Ok(format!("{{\"$schema\": \"{next}\"}}").into())
        };
        let documents = ExternalDocuments::new(&fetch);
        let schema = documents.load("http://x.test/a").unwrap();
        let error = own_draft(&schema, Draft::default(), "http://x.test/c#", &documents).err();
        assert_eq!(error.as_deref(), Some("draft \"http://x.test/b\" is not supported"));
    }
}
