//! The identity of an object: group, version, kind, name, namespace.
//!
//! Owns kustomize's way of writing and comparing identities.

use std::fmt;

use chart_compat::go::quote;
use chart_compat::yaml::tree::Node;

use super::node::metadata_text;
use crate::schema::Schemas;

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// Whether objects of the kind have no namespace.
    pub cluster_scoped: bool,
}

/// The kinds that come first, in their order.
pub(crate) const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
/// The kinds that come last.
pub(crate) const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

impl Gvk {
    /// `GROUP/VERSION`, or the version of the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Group, version and kind of an object.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        let text = |key| node.get(key).map(|v| v.value.clone()).unwrap_or_default();
        let mut gvk = Self::of_api_version(&text("apiVersion"));
        gvk.kind = text("kind");
        gvk
    }

    /// Group and version of an `apiVersion`.
    #[must_use]
    pub fn of_api_version(api_version: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self { group: group.to_owned(), version: version.to_owned(), kind: String::new() }
    }

    /// Whether each part that a selector sets is equal.
    #[must_use]
    pub fn is_selected(&self, selector: &Self) -> bool {
        let fits = |ours: &str, theirs: &str| theirs.is_empty() || ours == theirs;
        fits(&self.group, &selector.group)
            && fits(&self.version, &selector.version)
            && fits(&self.kind, &selector.kind)
    }

    /// The text that orders kinds of one rank.
    #[must_use]
    pub fn sort_text(&self) -> String {
        let or = |text: &'_ str, none: &'static str| {
            if text.is_empty() { none.to_owned() } else { text.to_owned() }
        };
        format!("{}_{}_{}", or(&self.group, "~G"), or(&self.version, "~V"), or(&self.kind, "~K"))
    }

    /// The order of kinds in kustomize's configuration.
    #[must_use]
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        rank(&self.kind).cmp(&rank(&other.kind)).then_with(|| self.sort_text().cmp(&other.sort_text()))
    }
}

/// The rank of a kind: negative before all others, positive after them.
fn rank(kind: &str) -> isize {
    let place = |list: &[&str]| list.iter().position(|k| *k == kind).and_then(|at| isize::try_from(at).ok());
    let first = place(&FIRST).map(|at| at - 22);
    first.or_else(|| place(&LAST).map(|at| at + 1)).unwrap_or(0)
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
    pub fn of(node: &Node, schemas: &Schemas) -> Self {
        let text = |key| metadata_text(node, key).to_owned();
        Self::new(Gvk::of(node), text("name"), text("namespace"), schemas)
    }

    /// An identity.
    #[must_use]
    pub fn new(gvk: Gvk, name: String, namespace: String, schemas: &Schemas) -> Self {
        let cluster_scoped = schemas.is_cluster_scoped(&gvk.group, &gvk.version, &gvk.kind);
        Self { gvk, name, namespace, cluster_scoped }
    }

    /// The identity with the namespace for comparisons, as a key.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}.{}", self.gvk, self.name, self.effective_namespace())
    }

    /// The identity as Go prints the struct with all names.
    #[must_use]
    pub fn go_syntax(&self) -> String {
        let Self { gvk: Gvk { group, version, kind }, name, namespace, cluster_scoped } = self;
        let text = |text: &str| quote(text.as_bytes());
        format!(
            "resid.ResId{{Gvk:resid.Gvk{{Group:{}, Version:{}, Kind:{}, isClusterScoped:{cluster_scoped}}}, Name:{}, Namespace:{}}}",
            text(group),
            text(version),
            text(kind),
            text(name),
            text(namespace)
        )
    }

    /// The namespace for comparisons: `default` if there is none, and a name of its own for kinds without namespaces.
    #[must_use]
    pub fn effective_namespace(&self) -> &str {
        if self.cluster_scoped {
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
