//! The rights that an operator needs for HelmReleases.
//!
//! HelmReleases, their records and their values can be in every namespace, so the rights are those of the cluster. What a release
//! contains is applied by its ServiceAccount; for releases without one the operator needs the rights itself.

use super::{LOOK, Needs, of_tenants_releases, own_source_needs};

const HELM: &str = "helm.toolkit.fluxcd.io";
const SOURCES: &str = "source.toolkit.fluxcd.io";

/// The needs for HelmReleases. `controller_namespace`: that of helm-controller; `default_service_account`: whether each release has
/// a ServiceAccount; `own_sources`: whether the operator may have to reconcile the sources itself.
#[must_use]
pub fn helm_release_needs(
    controller_namespace: &str,
    default_service_account: bool,
    own_sources: bool,
) -> Needs {
    let mut needs = of_tenants_releases();
    // The finalizer is a patch of the object.
    needs.add(HELM, "helmreleases", &["get", "list", "watch", "patch"]);
    needs.add(HELM, "helmreleases/status", &["patch"]);
    needs.add(SOURCES, "helmcharts", &["get", "list", "watch", "create", "patch", "delete"]);
    needs.add(SOURCES, "ocirepositories", &LOOK);
    needs.add(SOURCES, "externalartifacts", &LOOK);
    if own_sources {
        needs = needs.and(own_source_needs());
    }
    needs.rights.add_to(None, "", "namespaces", Some(controller_namespace), &["get"]);
    needs.add_unknown(
        "objects of releases are watched with the operator's own rights, whoever applies them: without list and watch of their kinds \
         drift is found at the interval only; add rules for that with --add-rules FILE",
    );
    needs.add_unknown(
        "HelmReleases whose kubeConfig refers to a ConfigMap need a token of the ServiceAccount that it names: add a rule to create \
         serviceaccounts/token with --add-rules FILE",
    );
    if !default_service_account {
        needs.add_unknown(
            "HelmReleases without serviceAccountName are applied with the operator's own rights, which depend on their charts: add \
             rules for that with --add-rules FILE, bind the ServiceAccount to cluster-admin as Flux does, or run the operator with \
             --default-service-account",
        );
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_has, summary};
    use super::*;

    #[test]
    fn only_releases_without_an_account_need_unknown_rights() {
        assert_eq!(helm_release_needs("flux-system", true, false).unknown.len(), 2);
        let needs = helm_release_needs("flux-system", false, false);
        assert_eq!(needs.unknown.len(), 3);
        assert_eq!(
            summary(&needs.rights, None),
            [
                "/configmaps 3",
                "/events 2",
                "/namespaces flux-system 1",
                "/secrets 7",
                "/serviceaccounts 1",
                "apiextensions.k8s.io/customresourcedefinitions 2",
                "apiregistration.k8s.io/apiservices 2",
                "coordination.k8s.io/leases 7",
                "events.k8s.io/events 2",
                "helm.toolkit.fluxcd.io/helmreleases 4",
                "helm.toolkit.fluxcd.io/helmreleases/status 1",
                "source.toolkit.fluxcd.io/externalartifacts 3",
                "source.toolkit.fluxcd.io/helmcharts 6",
                "source.toolkit.fluxcd.io/ocirepositories 3",
            ]
        );
    }

    #[test]
    fn own_sources_are_written() {
        let needs = helm_release_needs("flux-system", true, true);
        assert_has(
            &needs,
            &[
                "/serviceaccounts 2",
                "apiextensions.k8s.io/customresourcedefinitions 4",
                "source.toolkit.fluxcd.io/gitrepositories 4",
                "source.toolkit.fluxcd.io/gitrepositories/status 1",
                "source.toolkit.fluxcd.io/helmcharts 6",
                "apps/deployments source-controller 1",
            ],
        );
    }
}
