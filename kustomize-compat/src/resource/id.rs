//! The identity of an object: group, version, kind, name, namespace.
//!
//! Owns kustomize's way of writing and comparing identities.

use std::fmt;

use chart_compat::yaml::tree::Node;

use super::node::{metadata_text, value};
use crate::schema::is_cluster_scoped;

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gvk {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version in the group.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// The identity of an object.
#[derive(Clone, Debug, Default)]
pub struct Id {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`, empty if it is not set.
    pub namespace: String,
}

impl Gvk {
    /// `GROUP/VERSION`, or the version of the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    fn of(node: &Node) -> Self {
        let text = |key| value(node, key).map(|v| v.value.clone()).unwrap_or_default();
        let api_version = text("apiVersion");
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        Self { group: group.to_owned(), version: version.to_owned(), kind: text("kind") }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |text: &'_ str, none: &'static str| {
            if text.is_empty() { none.to_owned() } else { text.to_owned() }
        };
        let (kind, version) = (or(&self.kind, "[noKind]"), or(&self.version, "[noVer]"));
        write!(f, "{kind}.{version}.{}", or(&self.group, "[noGrp]"))
    }
}

impl Id {
    /// The identity of an object.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let text = |key| metadata_text(node, key).to_owned();
        Self { gvk: Gvk::of(node), name: text("name"), namespace: text("namespace") }
    }

    /// The namespace for comparisons: `default` if there is none, and a name of its own for kinds without namespaces.
    #[must_use]
    pub fn effective_namespace(&self) -> &str {
        if is_cluster_scoped(&self.gvk.api_version(), &self.gvk.kind) {
            return "_non_namespaceable_";
        }
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }

    /// Whether both name one object.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.name == other.name
            && self.gvk == other.gvk
            && self.effective_namespace() == other.effective_namespace()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "[noName]" } else { &self.name };
        let namespace = if self.namespace.is_empty() { "[noNs]" } else { &self.namespace };
        write!(f, "{}/{name}.{namespace}", self.gvk)
    }
}
