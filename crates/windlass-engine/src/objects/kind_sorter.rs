//! The order in which kinds are applied and deleted. Pure.
//!
//! Two orders: Helm's own, which lists manifests (the renderer has the table), and our phases, within which objects
//! are written at the same time.

use chart_compat::render::INSTALL_ORDER as INSTALL;

/// The place of a kind in Helm's install order; unknown kinds come last, by name.
pub(crate) fn install_rank(kind: &str) -> (usize, &str) {
    match INSTALL.iter().position(|k| *k == kind) {
        Some(rank) => (rank, ""),
        None => (INSTALL.len(), kind),
    }
}

/// The place of a kind in Helm's uninstall order: the reverse, but Services go right after Ingress classes.
pub(crate) fn uninstall_rank(kind: &str) -> (usize, &str) {
    let turned = |rank: usize| (INSTALL.len() - 1 - rank) * 2;
    match INSTALL.iter().position(|k| *k == kind) {
        Some(_) if kind == "Service" => (turned(install_rank("IngressClass").0) + 1, ""),
        Some(rank) => (turned(rank), ""),
        None => (INSTALL.len() * 2, kind),
    }
}

/// Objects that may be applied at the same time. Phases run one after the other; a later one may need an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum KindPhase {
    /// Namespaces and priority classes: the server rejects objects that name a missing one.
    Prerequisites,
    /// Kinds, awaited before their objects.
    Kinds,
    /// Objects that Pods mount, run as, are limited by and are reached through; roles and bindings. References
    /// between them order them further, as between any objects.
    Config,
    /// Objects that create Pods.
    Workloads,
    /// Objects that act on workloads or route to them.
    Routing,
    /// Custom resources and all others.
    Custom,
    /// Webhooks and API services: once applied, they can reject our own objects.
    Gates,
}

/// The phase of a kind.
pub(crate) fn phase(group: &str, kind: &str) -> KindPhase {
    match (group, kind) {
        ("", "Namespace") | ("scheduling.k8s.io", "PriorityClass") => KindPhase::Prerequisites,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => KindPhase::Kinds,
        (
            "",
            "ResourceQuota"
            | "LimitRange"
            | "ServiceAccount"
            | "Secret"
            | "ConfigMap"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "Service",
        )
        | ("networking.k8s.io", "NetworkPolicy" | "IngressClass")
        | ("policy" | "storage.k8s.io" | "rbac.authorization.k8s.io", _) => KindPhase::Config,
        ("", "Pod" | "ReplicationController") | ("apps", _) => KindPhase::Workloads,
        ("batch" | "autoscaling", _) | ("networking.k8s.io", "Ingress") => KindPhase::Routing,
        ("apiregistration.k8s.io" | "admissionregistration.k8s.io", _) => KindPhase::Gates,
        _ => KindPhase::Custom,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helms_orders() {
        let mut kinds =
            ["Zebra", "Service", "Ingress", "CronJob", "IngressClass", "APIService", "Ant", "Namespace"];
        kinds.sort_by_key(|k| install_rank(k));
        assert_eq!(
            kinds,
            ["Namespace", "Service", "CronJob", "IngressClass", "Ingress", "APIService", "Ant", "Zebra"]
        );
        kinds.sort_by_key(|k| uninstall_rank(k));
        assert_eq!(
            kinds,
            ["APIService", "Ingress", "IngressClass", "Service", "CronJob", "Namespace", "Ant", "Zebra"]
        );
    }

    #[test]
    fn phases() {
        let cases = [
            ("", "Namespace", KindPhase::Prerequisites),
            ("apiextensions.k8s.io", "CustomResourceDefinition", KindPhase::Kinds),
            ("", "ConfigMap", KindPhase::Config),
            ("policy", "PodDisruptionBudget", KindPhase::Config),
            ("", "Service", KindPhase::Config),
            ("rbac.authorization.k8s.io", "RoleBinding", KindPhase::Config),
            ("apps", "Deployment", KindPhase::Workloads),
            ("autoscaling", "HorizontalPodAutoscaler", KindPhase::Routing),
            ("example.com", "Service", KindPhase::Custom),
            ("apiregistration.k8s.io", "APIService", KindPhase::Gates),
        ];
        for (group, kind, expected) in cases {
            assert_eq!(phase(group, kind), expected, "{group}/{kind}");
        }
    }
}
