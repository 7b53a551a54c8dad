//! The install order of kinds (`releaseutil.InstallOrder`).

use crate::profile::Profile;

/// Kinds in install order (`InstallOrder`); Helm 3 lacks the last two.
pub const INSTALL_ORDER: [&str; 38] = [
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
    "ValidatingWebhookConfiguration",
];

/// A kind's position in install order; `None` for other kinds, which follow all known ones by name.
#[must_use]
pub fn kind_rank(kind: &str, profile: Profile) -> Option<usize> {
    let known = match profile {
        Profile::Helm4 => INSTALL_ORDER.len(),
        Profile::Helm3 => INSTALL_ORDER.len() - 2,
    };
    INSTALL_ORDER[..known].iter().position(|k| *k == kind)
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
