//! The order in which kinds are installed and removed (`releaseutil.InstallOrder`, `UninstallOrder`).

use crate::profile::Profile;

/// Kinds in install order; Helm 3 does not know the last two.
pub const INSTALL_ORDER: [&str; 37] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "SecretList",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleList",
    "ClusterRoleBinding",
    "ClusterRoleBindingList",
    "Role",
    "RoleList",
    "RoleBinding",
    "RoleBindingList",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
];

/// The kind after all of [`INSTALL_ORDER`] in Helm 4.
const LAST: &str = "ValidatingWebhookConfiguration";

/// Kinds in uninstall order: the reverse of install, but Services go right after the ingress classes.
pub const UNINSTALL_ORDER: [&str; 38] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
    "Ingress",
    "IngressClass",
    "Service",
    "CronJob",
    "Job",
    "StatefulSet",
    "HorizontalPodAutoscaler",
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Pod",
    "DaemonSet",
    "RoleBindingList",
    "RoleBinding",
    "RoleList",
    "Role",
    "ClusterRoleBindingList",
    "ClusterRoleBinding",
    "ClusterRoleList",
    "ClusterRole",
    "CustomResourceDefinition",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "SecretList",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "PodSecurityPolicy",
    "LimitRange",
    "ResourceQuota",
    "NetworkPolicy",
    "Namespace",
    "PriorityClass",
];

/// A kind's place in install order; `None` for kinds that come after all known ones, by name.
#[must_use]
pub fn kind_rank(kind: &str, profile: Profile) -> Option<usize> {
    let known = if profile == Profile::Helm4 { INSTALL_ORDER.len() } else { INSTALL_ORDER.len() - 1 };
    match INSTALL_ORDER[..known].iter().position(|k| *k == kind) {
        None if kind == LAST && profile == Profile::Helm4 => Some(INSTALL_ORDER.len()),
        found => found,
    }
}

/// The order of two kinds on install: known ones by rank, then unknown ones by name (`lessByKind`).
#[must_use]
pub(super) fn compare(a: &str, b: &str, profile: Profile) -> std::cmp::Ordering {
    match (kind_rank(a, profile), kind_rank(b, profile)) {
        (Some(x), Some(y)) => x.cmp(&y),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}
