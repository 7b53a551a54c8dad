//! The fields that transformers change: those that kustomize knows, and those of configuration files.
//!
//! Owns the lists by transformer, their order and their merge.

use std::sync::{Arc, LazyLock};

use chart_compat::data::{Data, Map};

use super::builtin;
use super::table::Row;
use super::{FieldSpec, merge_all};
use crate::decode::{Mode, Struct, Type, decode};
use crate::error::Error;
use crate::resource::Gvk;

/// A list of fields, by what changes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `namePrefix`
    NamePrefix,
    /// `nameSuffix`
    NameSuffix,
    /// `namespace`
    Namespace,
    /// `commonAnnotations`
    CommonAnnotations,
    /// `commonLabels`: labels and selectors
    CommonLabels,
    /// `labels`: further fields of each entry of `labels`
    Labels,
    /// `templateLabels`: labels without selectors
    TemplateLabels,
    /// `varReference`
    VarReference,
    /// `images`
    Images,
    /// `replicas`
    Replicas,
}

/// The key of each list, and its name in messages, in the order in which they are merged.
const LISTS: [(List, &str, &str); 10] = [
    (List::NamePrefix, "namePrefix", "NamePrefix"),
    (List::NameSuffix, "nameSuffix", "NameSuffix"),
    (List::Namespace, "namespace", "NameSpace"),
    (List::CommonAnnotations, "commonAnnotations", "CommonAnnotations"),
    (List::CommonLabels, "commonLabels", "CommonLabels"),
    (List::Labels, "labels", "Labels"),
    (List::TemplateLabels, "templateLabels", "TemplateLabels"),
    (List::VarReference, "varReference", "VarReference"),
    (List::Images, "images", "Images"),
    (List::Replicas, "replicas", "Replicas"),
];

/// Fields that hold names of objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackReference {
    /// The kind of what is named.
    pub target: Gvk,
    /// The fields.
    pub referrers: Vec<FieldSpec>,
}

/// The fields of all transformers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    lists: [Vec<FieldSpec>; 10],
    /// The fields that hold names.
    pub references: Vec<BackReference>,
}

pub(crate) static FIELD_SPEC: Struct = Struct {
    go: "types.FieldSpec",
    fields: &[
        ("group", Type::Text),
        ("version", Type::Text),
        ("kind", Type::Text),
        ("path", Type::Text),
        ("create", Type::Bool),
    ],
};
static FIELD_SPECS: Type = Type::Struct(&FIELD_SPEC);
static BACK_REFERENCE: Struct = Struct {
    go: "builtinconfig.NameBackReferences",
    fields: &[
        ("group", Type::Text),
        ("version", Type::Text),
        ("kind", Type::Text),
        ("fieldSpecs", Type::List(&FIELD_SPECS)),
    ],
};
static CONFIG: Struct = Struct {
    go: "builtinconfig.TransformerConfig",
    fields: &[
        ("namePrefix", Type::List(&FIELD_SPECS)),
        ("nameSuffix", Type::List(&FIELD_SPECS)),
        ("namespace", Type::List(&FIELD_SPECS)),
        ("commonLabels", Type::List(&FIELD_SPECS)),
        ("labels", Type::List(&FIELD_SPECS)),
        ("templateLabels", Type::List(&FIELD_SPECS)),
        ("commonAnnotations", Type::List(&FIELD_SPECS)),
        ("nameReference", Type::List(&Type::Struct(&BACK_REFERENCE))),
        ("varReference", Type::List(&FIELD_SPECS)),
        ("images", Type::List(&FIELD_SPECS)),
        ("replicas", Type::List(&FIELD_SPECS)),
    ],
};

static DEFAULT: LazyLock<Arc<Config>> = LazyLock::new(|| {
    let specs = |rows: &[Row]| rows.iter().map(spec).collect();
    let mut config = Config::default();
    for (list, rows) in [
        (List::NamePrefix, builtin::NAME_PREFIX),
        (List::NameSuffix, builtin::NAME_SUFFIX),
        (List::Namespace, builtin::NAMESPACE),
        (List::CommonLabels, builtin::COMMON_LABELS),
        (List::TemplateLabels, builtin::TEMPLATE_LABELS),
        (List::CommonAnnotations, builtin::COMMON_ANNOTATIONS),
        (List::VarReference, builtin::VAR_REFERENCE),
        (List::Images, builtin::IMAGES),
        (List::Replicas, builtin::REPLICAS),
    ] {
        config.lists[list as usize] = specs(rows);
    }
    let reference = |row: &super::table::Reference| BackReference {
        target: gvk(row.group, row.version, row.kind),
        referrers: specs(row.referrers),
    };
    config.references = builtin::NAME_REFERENCE.iter().map(reference).collect();
    config.sort();
    Arc::new(config)
});

/// What an empty configuration becomes when the default one is merged into it.
static MERGED: LazyLock<Arc<Config>> = LazyLock::new(|| {
    let merged = Config::default().merged(&DEFAULT);
    merged.map_or_else(|_| DEFAULT.clone(), Arc::new)
});

fn gvk(group: &str, version: &str, kind: &str) -> Gvk {
    Gvk { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
}

fn spec(row: &Row) -> FieldSpec {
    FieldSpec::new(gvk(row.group, row.version, row.kind), row.path, row.create)
}

fn decoded_gvk(data: &Data) -> Gvk {
    let text = |key| data.get(key).and_then(Data::as_str).unwrap_or_default();
    gvk(text("group"), text("version"), text("kind"))
}

/// The fields of a decoded list.
pub(crate) fn decode_specs(data: Option<&Data>) -> Vec<FieldSpec> {
    let spec = |data: &Data| {
        let path = data.get("path").and_then(Data::as_str).unwrap_or_default();
        let create = data.get("create").and_then(Data::as_bool).unwrap_or_default();
        FieldSpec::new(decoded_gvk(data), path, create)
    };
    data.and_then(Data::as_list).unwrap_or_default().iter().map(spec).collect()
}

impl Config {
    /// What kustomize knows by itself.
    #[must_use]
    pub fn known() -> Arc<Self> {
        DEFAULT.clone()
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// A field that does not exist, or one of another type.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let data = chart_compat::yaml::from_slice_strict(text)
            .map_err(|e| Error::text(format!("error converting YAML to JSON: {e}")))?;
        let failed = |e| Error::text(format!("error unmarshaling JSON: while decoding JSON: {e}"));
        let map = decode(&data, &CONFIG, Mode::Strict).map_err(failed)?;
        let mut config = Self::decoded(&map);
        config.sort();
        Ok(config)
    }

    fn decoded(map: &Map) -> Self {
        let mut config = Self::default();
        for (list, key, _) in LISTS {
            config.lists[list as usize] = decode_specs(map.get(key));
        }
        let reference = |data: &Data| BackReference {
            target: decoded_gvk(data),
            referrers: decode_specs(data.get("fieldSpecs")),
        };
        let references = map.get("nameReference").and_then(Data::as_list).unwrap_or_default();
        config.references = references.iter().map(reference).collect();
        config
    }

    /// The fields of a transformer.
    #[must_use]
    pub fn list(&self, list: List) -> &[FieldSpec] {
        &self.lists[list as usize]
    }

    /// Adds a field to a transformer.
    ///
    /// # Errors
    /// The transformer has the field, made otherwise.
    pub fn add(&mut self, list: List, spec: &FieldSpec) -> Result<(), Error> {
        super::merge_one(&mut self.lists[list as usize], spec)
    }

    /// Adds fields that hold names.
    ///
    /// # Errors
    /// A field is there, made otherwise.
    pub fn add_reference(&mut self, reference: &BackReference) -> Result<(), Error> {
        let mut known = false;
        for ours in self.references.iter_mut().filter(|ours| ours.target == reference.target) {
            merge_all(&mut ours.referrers, &reference.referrers)?;
            known = true;
        }
        if !known {
            self.references.push(reference.clone());
        }
        Ok(())
    }

    fn sort(&mut self) {
        for list in &mut self.lists {
            list.sort_by(|a, b| a.gvk.compare(&b.gvk));
        }
        self.references.sort_by(|a, b| a.target.compare(&b.target));
    }

    fn merged(&self, other: &Self) -> Result<Self, Error> {
        let mut merged = self.clone();
        for (list, _, name) in LISTS {
            merge_all(&mut merged.lists[list as usize], other.list(list))
                .map_err(|e| e.within(format!("failed to merge {name} fieldSpec")))?;
        }
        for reference in &other.references {
            merged
                .add_reference(reference)
                .map_err(|e| e.within("failed to merge NameReference fieldSpec"))?;
        }
        merged.sort();
        Ok(merged)
    }

    /// Adds the fields of another configuration.
    ///
    /// # Errors
    /// Fields differ in whether they are made.
    pub fn merge(self: &Arc<Self>, other: &Arc<Self>) -> Result<Arc<Self>, Error> {
        let is_known = |config: &Arc<Self>| Arc::ptr_eq(config, &DEFAULT) || Arc::ptr_eq(config, &MERGED);
        // Most kustomizations have no configuration of their own: the built-in one stays.
        if Arc::ptr_eq(self, other) || is_known(self) && is_known(other) || **other == Self::default() {
            return Ok(self.clone());
        }
        if is_known(other) && **self == Self::default() {
            return Ok(MERGED.clone());
        }
        self.merged(other).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_merges_with_itself() {
        assert_eq!(MERGED.merged(&DEFAULT).unwrap(), **MERGED);
        assert_eq!(MERGED.merged(&MERGED).unwrap(), **MERGED);
        assert!(MERGED.list(List::CommonLabels).len() > 30 && MERGED.references.len() > 15);
    }

    #[test]
    fn configuration_files_are_strict() {
        let parse = |text: &str| Config::parse(text.as_bytes()).map(|_| ()).map_err(|e| e.to_string());
        assert!(
            parse("nameReference:\n- kind: Secret\n  fieldSpecs:\n  - {kind: A, path: spec/a}\n").is_ok()
        );
        let failed = parse("namePrefixes: []").unwrap_err();
        assert!(failed.ends_with("unknown field \"namePrefixes\""), "{failed}");
    }
}
