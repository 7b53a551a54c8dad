//! What a build notes in annotations of an object, as kustomize does: former identities, prefixes, suffixes.
//!
//! Owns the names of the annotations. They are in the object itself, since patches may see and remove them.

use chart_compat::kyaml;

use super::node::{metadata_map, set_metadata_map, value};
use super::{Gvk, Id, Resource, build_steps};
use crate::error::Error;
use crate::schema::Schemas;

const KINDS: &str = "internal.config.kubernetes.io/previousKinds";
const NAMES: &str = "internal.config.kubernetes.io/previousNames";
const NAMESPACES: &str = "internal.config.kubernetes.io/previousNamespaces";
const PREFIXES: &str = "internal.config.kubernetes.io/prefixes";
const SUFFIXES: &str = "internal.config.kubernetes.io/suffixes";
const REFERRERS: &str = "internal.config.kubernetes.io/refBy";
const NAME_CHANGE: &str = "internal.config.kubernetes.io/allowNameChange";
const KIND_CHANGE: &str = "internal.config.kubernetes.io/allowKindChange";
const BEHAVIOR: &str = "internal.config.kubernetes.io/generatorBehavior";
const HASH: &str = "internal.config.kubernetes.io/needsHashSuffix";
const FROM_CHART: &str = "internal.config.kubernetes.io/helm-generated";
const ENABLED: &str = "enabled";

/// The annotation with the place that an object comes from.
pub(crate) const ORIGIN: &str = "config.kubernetes.io/origin";
/// The annotation with the transformers that changed an object.
pub(crate) const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";

/// Annotations that a build takes off at its end.
const OWN: [&str; 19] = [
    KINDS,
    NAMES,
    PREFIXES,
    SUFFIXES,
    NAMESPACES,
    NAME_CHANGE,
    KIND_CHANGE,
    REFERRERS,
    BEHAVIOR,
    HASH,
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/id",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
    FROM_CHART,
];

/// Whether an annotation is restored after a JSON patch.
pub(crate) fn is_internal(key: &str) -> bool {
    key.starts_with("internal.config.kubernetes.io")
        || matches!(key, "config.kubernetes.io/path" | "config.kubernetes.io/index" | "config.k8s.io/id")
}

/// What a generated object does to an existing one of its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Unspecified,
    Create,
    Replace,
    Merge,
}

impl Behavior {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "create" => Self::Create,
            "replace" => Self::Replace,
            "merge" => Self::Merge,
            _ => Self::Unspecified,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Merge => "merge",
        }
    }
}

impl Resource {
    /// An annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = value(&self.node, "metadata")?.get("annotations")?;
        build_steps::note(1 + annotations.content.len() / 16);
        // As a map of Go: the last one of a key counts.
        let mut pairs = annotations.content.chunks_exact(2).rev();
        pairs
            .find(|pair| pair.first().is_some_and(|k| k.value == key))
            .and_then(|pair| pair.get(1))
            .map(|v| v.value.as_str())
    }

    /// Sets an annotation in place, in quotes.
    pub(crate) fn annotate(&mut self, key: &str, text: &str) -> Result<(), Error> {
        kyaml::annotate(&mut self.node, key, text).map_err(|e| Error::Patch(e.to_string()))
    }

    /// Sets an annotation; all of them are sorted anew.
    pub(crate) fn set_annotation(&mut self, key: &str, text: &str) -> Result<(), Error> {
        let mut map = metadata_map(&self.node, "annotations");
        map.insert(key.to_owned(), text.to_owned());
        set_metadata_map(&mut self.node, "annotations", &map)
    }

    fn csv(&self, key: &str) -> Vec<&str> {
        self.annotation(key).map(|text| text.split(',').collect()).unwrap_or_default()
    }

    fn append_csv(&mut self, key: &str, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let joined = match self.annotation(key) {
            Some(before) => format!("{before},{text}"),
            None => text.to_owned(),
        };
        self.annotate(key, &joined)
    }

    /// The identities that it had before, oldest first.
    #[must_use]
    pub fn former_ids(&self, schemas: &Schemas) -> Vec<Id> {
        let names = self.csv(NAMES);
        if names.is_empty() {
            return Vec::new();
        }
        build_steps::note(4 * names.len());
        let api_version = self.node.get("apiVersion").map_or("", |v| v.value.as_str());
        let gvk = Gvk::of_api_version(api_version);
        let namespaces = self.csv(NAMESPACES);
        let kinds = self.csv(KINDS);
        let id = |((name, namespace), kind): ((&str, &str), &str)| {
            let gvk = Gvk { kind: kind.to_owned(), ..gvk.clone() };
            Id::new(gvk, name.to_owned(), namespace.to_owned(), schemas)
        };
        names.into_iter().zip(namespaces).zip(kinds).map(id).collect()
    }

    /// Checks that each former identity has a name, a namespace and a kind.
    pub(crate) fn check_former_ids(&self) -> Result<(), Error> {
        let names = self.csv(NAMES).len();
        if names == 0 || self.csv(NAMESPACES).len() == names && self.csv(KINDS).len() == names {
            return Ok(());
        }
        Err(Error::text(
            "number of previous names, number of previous namespaces, number of previous kinds not equal",
        ))
    }

    /// Adds the present identity to the former ones.
    pub(crate) fn store_id(&mut self, schemas: &Schemas) -> Result<(), Error> {
        let id = self.id(schemas);
        self.append_csv(NAMES, &id.name)?;
        self.append_csv(NAMESPACES, id.effective_namespace())?;
        self.append_csv(KINDS, &id.gvk.kind)
    }

    pub(crate) fn add_prefix(&mut self, prefix: &str) -> Result<(), Error> {
        self.append_csv(PREFIXES, prefix)
    }

    pub(crate) fn add_suffix(&mut self, suffix: &str) -> Result<(), Error> {
        self.append_csv(SUFFIXES, suffix)
    }

    /// Whether prefixes and suffixes end alike; with `lenient`, none fits any.
    pub(crate) fn same_affixes(&self, other: &Self, lenient: bool) -> bool {
        [PREFIXES, SUFFIXES].iter().all(|key| {
            let (ours, theirs) = (self.csv(key), other.csv(key));
            lenient && (ours.is_empty() || theirs.is_empty()) || same_end(&ours, &theirs)
        })
    }

    fn is_enabled(&self, key: &str) -> bool {
        self.annotation(key) == Some(ENABLED)
    }

    pub(crate) fn allow_name_change(&mut self) -> Result<(), Error> {
        self.set_annotation(NAME_CHANGE, ENABLED)
    }

    pub(crate) fn allow_kind_change(&mut self) -> Result<(), Error> {
        self.set_annotation(KIND_CHANGE, ENABLED)
    }

    pub(crate) fn may_change_name(&self) -> bool {
        self.is_enabled(NAME_CHANGE)
    }

    pub(crate) fn may_change_kind(&self) -> bool {
        self.is_enabled(KIND_CHANGE)
    }

    pub(crate) fn needs_hash(&self) -> bool {
        self.is_enabled(HASH)
    }

    pub(crate) fn ask_for_hash(&mut self) -> Result<(), Error> {
        self.set_annotation(HASH, ENABLED)
    }

    pub(crate) fn behavior(&self) -> Behavior {
        Behavior::parse(self.annotation(BEHAVIOR).unwrap_or_default())
    }

    pub(crate) fn set_behavior(&mut self, behavior: Behavior) -> Result<(), Error> {
        self.set_annotation(BEHAVIOR, behavior.name())
    }

    pub(crate) fn is_from_chart(&self) -> bool {
        self.annotation(FROM_CHART) == Some("true")
    }

    pub(crate) fn mark_from_chart(&mut self) -> Result<(), Error> {
        self.annotate(FROM_CHART, "true")
    }

    /// Takes name, namespace, labels and annotations of an object that this one replaces; its own labels and annotations win.
    pub(crate) fn take_metadata(&mut self, old: &Self) -> Result<(), Error> {
        let mut labels = metadata_map(&old.node, "labels");
        labels.extend(metadata_map(&self.node, "labels"));
        set_metadata_map(&mut self.node, "labels", &labels)?;
        let hash = self.annotation(HASH).is_some();
        let before = metadata_map(&old.node, "annotations");
        let mut merged = before.clone();
        merged.extend(metadata_map(&self.node, "annotations"));
        for key in OWN {
            match before.get(key) {
                Some(text) => drop(merged.insert(key.to_owned(), text.clone())),
                None => drop(merged.remove(key)),
            }
        }
        if !hash {
            merged.remove(HASH);
        }
        set_metadata_map(&mut self.node, "annotations", &merged)?;
        let name = super::node::metadata_text(&old.node, "name");
        super::node::set_metadata_text(&mut self.node, "name", name)?;
        super::node::set_namespace(&mut self.node, super::node::metadata_text(&old.node, "namespace"))?;
        self.vars.clone_from(&old.vars);
        Ok(())
    }

    /// Takes off what a build has noted.
    pub(crate) fn remove_notes(&mut self) -> Result<(), Error> {
        let mut map = metadata_map(&self.node, "annotations");
        if map.is_empty() {
            return Ok(());
        }
        map.retain(|key, _| !OWN.contains(&key.as_str()));
        set_metadata_map(&mut self.node, "annotations", &map)
    }

    /// Takes off an annotation; all others are sorted anew.
    pub(crate) fn remove_annotation(&mut self, key: &str) -> Result<(), Error> {
        let mut map = metadata_map(&self.node, "annotations");
        map.remove(key);
        set_metadata_map(&mut self.node, "annotations", &map)
    }
}

/// Whether the shorter list is the end of the longer one; an empty one only that of an empty one.
fn same_end(a: &[&str], b: &[&str]) -> bool {
    let (short, long) = if a.len() > b.len() { (b, a) } else { (a, b) };
    if short.is_empty() { long.is_empty() } else { long.ends_with(short) }
}
