//! Rights for the watches of hooks, from their `--config`: kinds in any spelling, without access to a cluster.

use std::collections::BTreeMap;

use super::{Defined, LOOK, resource};
use windlass_cluster::Gvk;
use windlass_controller::RightSet;
use windlass_modules::shell_hooks::config::{Kubernetes, Namespaces};

/// Kinds of Kubernetes that hooks use without a group, each with its group and short names.
const KNOWN: [(&str, &str, &[&str]); 40] = [
    ("", "ConfigMap", &["cm"]),
    ("", "Endpoints", &["ep"]),
    ("", "Event", &["ev"]),
    ("", "LimitRange", &["limits"]),
    ("", "Namespace", &["ns"]),
    ("", "Node", &["no"]),
    ("", "PersistentVolume", &["pv"]),
    ("", "PersistentVolumeClaim", &["pvc"]),
    ("", "Pod", &["po"]),
    ("", "PodTemplate", &[]),
    ("", "ReplicationController", &["rc"]),
    ("", "ResourceQuota", &["quota"]),
    ("", "Secret", &[]),
    ("", "Service", &["svc"]),
    ("", "ServiceAccount", &["sa"]),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", &[]),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", &[]),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", &[]),
    ("apiextensions.k8s.io", "CustomResourceDefinition", &["crd", "crds"]),
    ("apiregistration.k8s.io", "APIService", &[]),
    ("apps", "ControllerRevision", &[]),
    ("apps", "DaemonSet", &["ds"]),
    ("apps", "Deployment", &["deploy"]),
    ("apps", "ReplicaSet", &["rs"]),
    ("apps", "StatefulSet", &["sts"]),
    ("autoscaling", "HorizontalPodAutoscaler", &["hpa"]),
    ("batch", "CronJob", &["cj"]),
    ("batch", "Job", &[]),
    ("certificates.k8s.io", "CertificateSigningRequest", &["csr"]),
    ("coordination.k8s.io", "Lease", &[]),
    ("discovery.k8s.io", "EndpointSlice", &[]),
    ("networking.k8s.io", "Ingress", &["ing"]),
    ("networking.k8s.io", "NetworkPolicy", &["netpol"]),
    ("policy", "PodDisruptionBudget", &["pdb"]),
    ("rbac.authorization.k8s.io", "ClusterRole", &[]),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", &[]),
    ("rbac.authorization.k8s.io", "Role", &[]),
    ("rbac.authorization.k8s.io", "RoleBinding", &[]),
    ("scheduling.k8s.io", "PriorityClass", &["pc"]),
    ("storage.k8s.io", "StorageClass", &["sc"]),
];

/// Adds the rights for a binding: in its namespaces or the cluster, for its objects or all.
///
/// # Errors
/// The group of the kind is unknown.
pub(super) fn add_rights(
    rights: &mut RightSet,
    binding: &Kubernetes,
    defined: &BTreeMap<(String, String), Defined>,
) -> Result<(), String> {
    let gvk = kind(&binding.api_version, &binding.kind, defined).ok_or_else(|| {
        let (name, kind) = (&binding.common.name, &binding.kind);
        format!(
            "binding {name}: the group of {kind} is not known; add an apiVersion to the binding, or a rule"
        )
    })?;
    let (group, mut resource, cluster_wide) = resource(&gvk, defined);
    if gvk.kind.ends_with('s') && gvk.kind == gvk.kind.to_lowercase() {
        // The kind is a plural, and no module defines it.
        resource.clone_from(&gvk.kind);
    }
    let scopes: Vec<Option<&str>> = match &binding.namespaces {
        Namespaces::Named(names) if !cluster_wide => names.iter().map(|n| Some(n.as_str())).collect(),
        Namespaces::Labelled(_) => {
            rights.add(None, "", "namespaces", &LOOK);
            vec![None]
        }
        _ => vec![None],
    };
    // Each name has its own watch.
    let names: Vec<Option<&str>> = match binding.names.as_slice() {
        [] => vec![None],
        names => names.iter().map(|n| Some(n.as_str())).collect(),
    };
    for scope in scopes {
        for name in &names {
            rights.add_to(scope, &group, &resource, *name, &LOOK);
        }
    }
    Ok(())
}

/// The kind of a binding, which can be a plural or a short name in any case.
fn kind(api_version: &str, word: &str, defined: &BTreeMap<(String, String), Defined>) -> Option<Gvk> {
    let lower = word.to_lowercase();
    let own = Gvk::new(api_version, word);
    let is = |group: &str| api_version.is_empty() || own.group == group;
    let of_crd = defined.iter().find(|((group, kind), defined)| {
        is(group) && (kind.to_lowercase() == lower || defined.plural == lower)
    });
    if let Some(((group, kind), _)) = of_crd {
        return Some(Gvk { group: group.clone(), kind: kind.clone(), ..own });
    }
    let known = KNOWN.iter().find(|(group, kind, short)| {
        is(group)
            && (kind.to_lowercase() == lower
                || windlass_charts::plural(kind) == lower
                || short.contains(&&*lower))
    });
    match known {
        Some((group, kind, _)) => Some(Gvk { group: (*group).to_owned(), kind: (*kind).to_owned(), ..own }),
        None => (!api_version.is_empty()).then_some(own),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary;
    use super::*;
    use windlass_modules::shell_hooks::Scope;
    use windlass_modules::shell_hooks::config::HookConfig;

    #[test]
    fn what_bindings_need() {
        let of = |binding: &str| -> String {
            let text = format!("{{configVersion: v1, kubernetes: [{{{binding}}}]}}");
            let config = HookConfig::parse(text.as_bytes(), Scope::Module).unwrap();
            let quota = Defined { plural: "quotas".to_owned(), everywhere: true };
            let defined = BTreeMap::from([(("t.test".to_owned(), "Quota".to_owned()), quota)]);
            let mut rights = RightSet::default();
            if let Err(text) = add_rights(&mut rights, &config.kubernetes[0], &defined) {
                return text;
            }
            let scopes = rights.namespaces().map(Some).chain([None]);
            let shown = |scope: Option<&str>| -> Vec<String> {
                let place = scope.unwrap_or("everywhere");
                summary(&rights, scope).into_iter().map(|right| format!("{place} {right}")).collect()
            };
            scopes.flat_map(shown).collect::<Vec<_>>().join(", ")
        };
        let home = "namespace: {nameSelector: {matchNames: [home]}}";
        let other = "namespace: {nameSelector: {matchNames: [home, other]}}";
        let labels = "namespace: {labelSelector: {matchLabels: {a: b}}}";
        let table = [
            (format!("apiVersion: v1, kind: Pod, {home}"), "home /pods 3"),
            ("kind: po".to_owned(), "everywhere /pods 3"),
            (format!("kind: deployments, {other}"), "home apps/deployments 3, other apps/deployments 3"),
            (format!("kind: Node, {home}"), "everywhere /nodes 3"),
            (format!("kind: cm, {labels}"), "everywhere /configmaps 3, everywhere /namespaces 3"),
            (format!("apiVersion: x.test/v1, kind: Policy, {home}"), "home x.test/policies 3"),
            (
                format!("kind: Secret, nameSelector: {{matchNames: [a, b]}}, {home}"),
                "home /secrets a 3, home /secrets b 3",
            ),
            ("apiVersion: x.test/v1, kind: things".to_owned(), "everywhere x.test/things 3"),
            (format!("kind: quotas, {home}"), "everywhere t.test/quotas 3"),
        ];
        for (binding, expected) in table {
            assert_eq!(of(&binding), expected, "{binding}");
        }
        assert!(of("name: odd, kind: Policy").starts_with("binding odd: the group of Policy is not known"));
    }
}
