//! Which objects a patch changes: patterns of identities, label and annotation selectors.
//!
//! Owns matching; knows no patch.

pub mod labels;

use std::fmt;
use std::sync::Arc;

use chart_compat::go::regexp::{Regexp, compile};

use crate::error::Error;
use crate::resource::build_steps::{count, note};
use crate::resource::node::metadata_map;
use crate::resource::{Gvk, Id, Resource};
use crate::schema::Schemas;
use labels::LabelSelector;

/// Conditions on an object; an empty one always holds. The patterns are Go's regular expressions and match whole texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Pattern of the API group.
    pub group: String,
    /// Pattern of the version.
    pub version: String,
    /// Pattern of the kind.
    pub kind: String,
    /// Pattern of the name, present or original.
    pub name: String,
    /// Pattern of the namespace, present or original; an object without one is in `default`.
    pub namespace: String,
    /// Kubernetes label selector.
    pub label_selector: String,
    /// The same for annotations.
    pub annotation_selector: String,
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, version, kind, name, namespace, .. } = self.clone();
        let id = Id { gvk: Gvk { group, version, kind }, name, namespace, cluster_scoped: false };
        write!(f, "{id}:a={}:l={}", self.annotation_selector, self.label_selector)
    }
}

/// Memory of a compiled pattern, in bytes, that takes a step to make.
const MEMORY_OF_A_STEP: usize = 64;

/// Memory of a compiled pattern, in bytes, beyond which its states may be followed one by one.
const LARGE_AUTOMATON: usize = 1 << 20;
/// Memory of the states that are followed in a step for each byte of a text.
const MEMORY_OF_STATES: usize = 512;

/// A selector whose patterns are compiled.
pub struct CompiledSelector {
    patterns: [Option<Arc<Regexp>>; 5],
    labels: LabelSelector,
    annotations: LabelSelector,
}

impl Selector {
    /// Names and values of the fields, as a kustomization has them.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, &str); 7] {
        let Self { group, version, kind, name, namespace, label_selector, annotation_selector } = self;
        [
            ("group", group),
            ("version", version),
            ("kind", kind),
            ("name", name),
            ("namespace", namespace),
            ("labelSelector", label_selector),
            ("annotationSelector", annotation_selector),
        ]
    }

    /// Compiles the patterns and parses the selectors.
    ///
    /// # Errors
    /// A pattern or selector that is not valid, in Go's words, or a build that takes too many steps.
    pub fn compile(&self) -> Result<CompiledSelector, Error> {
        let pattern = |text: &String| match text.as_str() {
            "" => Ok(None),
            text => {
                let pattern = compile(format!("^(?:{text})$").as_bytes()).map_err(Error::Selector)?;
                count(pattern.memory() / MEMORY_OF_A_STEP)?;
                Ok(Some(pattern))
            }
        };
        let Self { group, version, kind, name, namespace, .. } = self;
        let patterns =
            [pattern(group)?, pattern(version)?, pattern(kind)?, pattern(name)?, pattern(namespace)?];
        let labels = LabelSelector::parse(&self.label_selector)?;
        Ok(CompiledSelector {
            patterns,
            labels,
            annotations: LabelSelector::parse(&self.annotation_selector)?,
        })
    }
}

impl CompiledSelector {
    /// Whether an object fulfils all conditions.
    #[must_use]
    pub fn matches(&self, object: &Resource, schemas: &Schemas) -> bool {
        let (id, original) = (object.id(schemas), object.original_id(schemas));
        let [group, version, kind, name, namespace] = &self.patterns;
        let either = |pattern, a: &str, b: &str| matches(pattern, a) || matches(pattern, b);
        either(namespace, original.effective_namespace(), id.effective_namespace())
            && either(name, &original.name, &id.name)
            && matches(group, &id.gvk.group)
            && matches(version, &id.gvk.version)
            && matches(kind, &id.gvk.kind)
            && self.matches_metadata(object)
    }

    /// The conditions that an object does not fulfil.
    #[must_use]
    pub fn mismatches(&self, object: &Resource, schemas: &Schemas) -> Vec<&'static str> {
        let (id, original) = (object.id(schemas), object.original_id(schemas));
        let [group, version, kind, name, namespace] = &self.patterns;
        let either = |pattern, a: &str, b: &str| matches(pattern, a) || matches(pattern, b);
        let map = |key| metadata_map(&object.node, key);
        let conditions = [
            ("kind", matches(kind, &id.gvk.kind)),
            ("group", matches(group, &id.gvk.group)),
            ("version", matches(version, &id.gvk.version)),
            ("name", either(name, &original.name, &id.name)),
            ("namespace", either(namespace, original.effective_namespace(), id.effective_namespace())),
            ("labels", self.labels.is_empty() || self.labels.matches(&map("labels"))),
            ("annotations", self.annotations.is_empty() || self.annotations.matches(&map("annotations"))),
        ];
        conditions.into_iter().filter(|(_, holds)| !holds).map(|(name, _)| name).collect()
    }

    /// Whether labels and annotations fulfil their conditions.
    #[must_use]
    pub fn matches_metadata(&self, object: &Resource) -> bool {
        (self.labels.is_empty() || self.labels.matches(&metadata_map(&object.node, "labels")))
            && (self.annotations.is_empty()
                || self.annotations.matches(&metadata_map(&object.node, "annotations")))
    }

    /// Whether an identity fulfils the conditions on group, version, kind, name and namespace, as it is written.
    #[must_use]
    pub fn matches_id(&self, id: &Id) -> bool {
        let [group, version, kind, name, namespace] = &self.patterns;
        matches(group, &id.gvk.group)
            && matches(version, &id.gvk.version)
            && matches(kind, &id.gvk.kind)
            && matches(name, &id.name)
            && matches(namespace, &id.namespace)
    }
}

fn matches(pattern: &Option<Arc<Regexp>>, text: &str) -> bool {
    pattern.as_ref().is_none_or(|pattern| {
        let states =
            pattern.memory().checked_sub(LARGE_AUTOMATON).map_or(0, |memory| memory / MEMORY_OF_STATES);
        note(4 + text.len() / 16 + text.len().saturating_mul(states));
        pattern.is_match(text.as_bytes())
    })
}
