//! Where an object comes from, and what changed it.
//!
//! Owns the annotations of `buildMetadata`.

use chart_compat::data::Data;
use chart_compat::yaml;
use chart_compat::yaml::tree::{Kind, Node, Writer};

use crate::error::Error;
use crate::load::{Repository, join};
use crate::resource::{Id, ORIGIN, Resource, TRANSFORMATIONS, build_steps, from_data};

/// The fields of an origin, as they are written: each a text that is left out if it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) path: String,
    pub(super) repository: String,
    pub(super) reference: String,
    pub(super) configured_in: String,
    /// apiVersion, kind, name and namespace of a generator or transformer.
    pub(super) configured_by: [String; 4],
}

const BY: [&str; 4] = ["apiVersion", "kind", "name", "namespace"];

impl Origin {
    /// The origin of what a kustomization names by a path.
    pub(super) fn append(&self, path: &str) -> Self {
        let mut origin = self.clone();
        let mut path = path.to_owned();
        if let Ok(repository) = Repository::parse(&path) {
            origin.repository = repository.clone_spec();
            origin.reference = repository.reference;
            origin.path = String::new();
            // kustomize takes the name of the place of a copy for the path of the root.
            path =
                if repository.directory.is_empty() { "notCloned".to_owned() } else { repository.directory };
        }
        origin.path = join(&origin.path, &path);
        origin
    }

    /// The origin of what a built-in generator or transformer of a kustomization makes.
    pub(super) fn built_in(&self, file_name: &str, kind: &str) -> Self {
        Self {
            path: String::new(),
            configured_in: join(&self.path, file_name),
            configured_by: ["builtin".to_owned(), kind.to_owned(), String::new(), String::new()],
            ..self.clone()
        }
    }

    /// The origin of what a generator or transformer makes that is configured by an object.
    pub(super) fn of_plugin(config: &Resource, id: &Id) -> Result<Option<Self>, Error> {
        let Some(origin) = Self::of(config)? else { return Ok(None) };
        Ok(Some(Self {
            path: String::new(),
            configured_in: origin.path,
            configured_by: [id.gvk.api_version(), id.gvk.kind.clone(), id.name.clone(), id.namespace.clone()],
            repository: origin.repository,
            reference: origin.reference,
        }))
    }

    /// The origin that an object has.
    fn of(object: &Resource) -> Result<Option<Self>, Error> {
        let Some(text) = object.annotation(ORIGIN) else { return Ok(None) };
        let data = yaml::from_slice(text.as_bytes()).map_err(|e| Error::text(e.to_string()))?;
        Ok(Some(Self::from_data(&data)))
    }

    fn from_data(data: &Data) -> Self {
        let text =
            |data: &Data, key: &str| data.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
        let by = data.get("configuredBy").cloned().unwrap_or_default();
        Self {
            path: text(data, "path"),
            repository: text(data, "repo"),
            reference: text(data, "ref"),
            configured_in: text(data, "configuredIn"),
            configured_by: BY.map(|key| text(&by, key)),
        }
    }

    fn node(&self) -> Node {
        let put = |map: &mut Node, key: &str, text: &String| {
            if !text.is_empty() {
                map.push(key, from_data(&Data::String(text.clone())));
            }
        };
        let mut map = Node::map();
        put(&mut map, "path", &self.path);
        put(&mut map, "repo", &self.repository);
        put(&mut map, "ref", &self.reference);
        put(&mut map, "configuredIn", &self.configured_in);
        let mut by = Node::map();
        for (key, text) in BY.iter().zip(&self.configured_by) {
            put(&mut by, key, text);
        }
        if !by.content.is_empty() {
            map.push("configuredBy", by);
        }
        map
    }

    pub(super) fn to_yaml(&self) -> String {
        let mut writer = Writer::new();
        writer.document(&self.node());
        writer.finish()
    }

    /// Writes the origin into a generated object that has none.
    pub(super) fn mark(&self, object: &mut Resource) -> Result<(), Error> {
        match Self::of(object) {
            Ok(None) => object.set_annotation(ORIGIN, &self.to_yaml()),
            Ok(Some(_)) | Err(_) => Ok(()),
        }
    }

    /// Writes the origin of a transformer into an object that it may have changed or made.
    pub(super) fn mark_transformed(&self, object: &mut Resource) -> Result<(), Error> {
        if Self::of(object)?.is_none() {
            return object.set_annotation(ORIGIN, &self.to_yaml());
        }
        let before = object.annotation(TRANSFORMATIONS).unwrap_or_default();
        build_steps::count(build_steps::of_text(before))?;
        let data = yaml::from_slice(before.as_bytes()).map_err(|e| Error::text(e.to_string()))?;
        let known = data.as_list().unwrap_or_default().iter().map(Self::from_data);
        let mut list = Node { kind: Kind::List, ..Node::default() };
        list.content = known.chain([self.clone()]).map(|origin| origin.node()).collect();
        let mut writer = Writer::new();
        writer.document(&list);
        object.set_annotation(TRANSFORMATIONS, &writer.finish())
    }
}
