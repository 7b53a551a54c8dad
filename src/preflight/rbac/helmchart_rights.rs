//! The rights that an operator needs for k3s' HelmCharts.
//!
//! As k3s' helm-controller, an operator without a default ServiceAccount deploys charts with its own rights: who may write HelmCharts is
//! an administrator.

use super::{Needs, OWN, of_tenants_releases};

const HELM: &str = "helm.cattle.io";

/// The needs for HelmCharts. `default_service_account`: whether each release is deployed by a ServiceAccount of its object's namespace.
#[must_use]
pub fn helmchart_needs(default_service_account: bool) -> Needs {
    let mut needs = of_tenants_releases();
    // Finalizer and claim are patches of the object.
    needs.add(HELM, "helmcharts", &["get", "list", "watch", "patch"]);
    needs.add(HELM, "helmcharts/status", &["patch"]);
    needs.add(HELM, "helmchartconfigs", &["get", "list", "watch"]);
    // Records of the driver configmap.
    needs.add("", "configmaps", &OWN);
    // A namespace that is deleted takes its charts with it; createNamespace.
    needs.add("", "namespaces", &["get", "create"]);
    // Kinds that are absent are registered; those that exist are never written.
    needs.add("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create"]);
    needs.add_unknown(
        "objects of releases of HelmCharts are watched with the operator's own rights, whoever applies them: without list and watch of \
         their kinds drift is not found; add rules for that with --add-rules FILE",
    );
    if !default_service_account {
        needs.add_unknown(
            "HelmCharts are deployed with the operator's own rights, which depend on their charts: add rules for that with --add-rules \
             FILE, bind the ServiceAccount to cluster-admin as k3s does, or run the operator with --default-service-account",
        );
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_has;
    use super::*;

    #[test]
    fn helmcharts_need_their_kinds_and_records() {
        assert_eq!(helmchart_needs(true).unknown.len(), 1);
        let needs = helmchart_needs(false);
        assert_eq!(needs.unknown.len(), 2);
        assert_has(
            &needs,
            &[
                "/secrets 7",
                "/configmaps 7",
                "/namespaces 2",
                "helm.cattle.io/helmcharts 4",
                "helm.cattle.io/helmcharts/status 1",
                "helm.cattle.io/helmchartconfigs 3",
            ],
        );
    }
}
