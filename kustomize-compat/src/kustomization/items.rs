//! Items of a kustomization file's lists, typed.
//!
//! Owns the conversion from decoded data, in which keys and types are checked already.

use std::collections::BTreeMap;

use chart_compat::data::Data;

use crate::fieldspec::{FieldSpec, decode_specs};
use crate::resource::Gvk;
use crate::selector::Selector;
use crate::transform::images::Image;

pub(crate) fn text(data: &Data, key: &str) -> String {
    data.get(key).and_then(Data::as_str).unwrap_or_default().to_owned()
}

fn flag(data: &Data, key: &str) -> bool {
    data.get(key).and_then(Data::as_bool).unwrap_or_default()
}

/// The texts of a list.
pub(crate) fn texts(data: Option<&Data>) -> Vec<String> {
    let items = data.and_then(Data::as_list).unwrap_or_default();
    items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
}

/// The texts of a map.
pub(crate) fn map_text(data: Option<&Data>) -> BTreeMap<String, String> {
    let text = |(key, value): (&String, &Data)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
    data.and_then(Data::as_map).map(|map| map.iter().map(text).collect()).unwrap_or_default()
}

/// An item of `labels`.
#[derive(Clone, Debug)]
pub struct LabelItem {
    /// The labels.
    pub pairs: BTreeMap<String, String>,
    /// Whether selectors get them.
    pub selectors: bool,
    /// Whether templates get them.
    pub templates: bool,
    /// Further fields that get them.
    pub fields: Vec<FieldSpec>,
}

impl From<&Data> for LabelItem {
    fn from(data: &Data) -> Self {
        Self {
            pairs: map_text(data.get("pairs")),
            selectors: flag(data, "includeSelectors"),
            templates: flag(data, "includeTemplates"),
            fields: decode_specs(data.get("fields")),
        }
    }
}

/// An item of `patches`.
#[derive(Clone, Debug, Default)]
pub struct PatchSource {
    /// A file.
    pub path: String,
    /// The patch itself.
    pub patch: String,
    /// What it changes.
    pub target: Option<Selector>,
    /// Whether it may change names.
    pub allow_name_change: bool,
    /// Whether it may change kinds.
    pub allow_kind_change: bool,
}

pub(crate) fn selector(data: &Data) -> Selector {
    Selector {
        group: text(data, "group"),
        version: text(data, "version"),
        kind: text(data, "kind"),
        name: text(data, "name"),
        namespace: text(data, "namespace"),
        label_selector: text(data, "labelSelector"),
        annotation_selector: text(data, "annotationSelector"),
    }
}

pub(crate) fn patch_source(data: &Data) -> PatchSource {
    let option = |key| data.get("options").is_some_and(|options| flag(options, key));
    PatchSource {
        path: text(data, "path"),
        patch: text(data, "patch"),
        target: data.get("target").map(selector),
        allow_name_change: option("allowNameChange"),
        allow_kind_change: option("allowKindChange"),
    }
}

/// An image and the suffix of its tag.
pub(crate) fn image(data: &Data) -> (Image, String) {
    let image = Image {
        name: text(data, "name"),
        new_name: text(data, "newName"),
        new_tag: text(data, "newTag"),
        digest: text(data, "digest"),
    };
    (image, text(data, "tagSuffix"))
}

/// `generatorOptions`, and `options` of a generator.
#[derive(Clone, Debug, Default)]
pub struct GeneratorOptions {
    /// Labels of what is generated.
    pub labels: BTreeMap<String, String>,
    /// Annotations of what is generated.
    pub annotations: BTreeMap<String, String>,
    /// Whether names stay without a hash.
    pub no_hash: bool,
    /// Whether what is generated is immutable.
    pub immutable: bool,
}

pub(crate) fn generator_options(data: &Data) -> GeneratorOptions {
    GeneratorOptions {
        labels: map_text(data.get("labels")),
        annotations: map_text(data.get("annotations")),
        no_hash: flag(data, "disableNameSuffixHash"),
        immutable: flag(data, "immutable"),
    }
}

impl GeneratorOptions {
    /// Fills gaps with the options of all generators.
    #[must_use]
    pub fn with(mut self, all: &Self) -> Self {
        for (ours, theirs) in [(&mut self.labels, &all.labels), (&mut self.annotations, &all.annotations)] {
            for (key, value) in theirs {
                ours.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        self.no_hash |= all.no_hash;
        self.immutable |= all.immutable;
        self
    }
}

/// An item of `configMapGenerator` or `secretGenerator`.
#[derive(Clone, Debug, Default)]
pub struct GeneratorArgs {
    /// The name, before prefix, suffix and hash.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// `create`, `merge` or `replace`.
    pub behavior: String,
    /// `key=value` texts.
    pub literals: Vec<String>,
    /// `[key=]path` texts.
    pub files: Vec<String>,
    /// Files with a `key=value` in each line.
    pub envs: Vec<String>,
    /// Options.
    pub options: GeneratorOptions,
    /// The type of a Secret.
    pub secret_type: String,
}

pub(crate) fn generator_args(data: &Data) -> GeneratorArgs {
    GeneratorArgs {
        name: text(data, "name"),
        namespace: text(data, "namespace"),
        behavior: text(data, "behavior"),
        literals: texts(data.get("literals")),
        files: texts(data.get("files")),
        envs: texts(data.get("envs")),
        options: data.get("options").map(generator_options).unwrap_or_default(),
        secret_type: text(data, "type"),
    }
}

/// The object of a var.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub gvk: Gvk,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

/// An item of `vars`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Var {
    /// Its name.
    pub name: String,
    /// The object that has the value.
    pub target: Target,
    /// Where the value is.
    pub field_path: String,
    /// The var as Go prints what the file has.
    pub(crate) written: String,
    /// The path as the file has it.
    pub(crate) written_path: String,
}

pub(crate) fn var(data: &Data) -> Var {
    let object = data.get("objref").cloned().unwrap_or_default();
    let mut gvk =
        Gvk { group: text(&object, "group"), version: text(&object, "version"), kind: text(&object, "kind") };
    let written_gvk = gvk.to_string();
    let api_version = text(&object, "apiVersion");
    let parts: Vec<&str> = api_version.split('/').collect();
    match parts.as_slice() {
        [version] if !version.is_empty() => (*version).clone_into(&mut gvk.version),
        [group, version] => {
            (*group).clone_into(&mut gvk.group);
            (*version).clone_into(&mut gvk.version);
        }
        _ => {}
    }
    let field_path = data.get("fieldref").map(|field| text(field, "fieldPath")).unwrap_or_default();
    Var {
        name: text(data, "name"),
        written: format!("{{{} {written_gvk} {{{field_path}}}}}", text(data, "name")),
        target: Target { gvk, name: text(&object, "name"), namespace: text(&object, "namespace") },
        written_path: field_path.clone(),
        field_path: if field_path.is_empty() { "metadata.name".to_owned() } else { field_path },
    }
}

/// `sortOptions`.
#[derive(Clone, Debug, Default)]
pub struct SortOptions {
    /// `fifo` or `legacy`.
    pub order: String,
    /// Kinds that come first, and kinds that come last.
    pub legacy: Option<(Vec<String>, Vec<String>)>,
}

pub(crate) fn sort_options(data: &Data) -> SortOptions {
    let legacy = data.get("legacySortOptions");
    SortOptions {
        order: text(data, "order"),
        legacy: legacy.map(|l| (texts(l.get("orderFirst")), texts(l.get("orderLast")))),
    }
}
