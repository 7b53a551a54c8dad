//! The rights that an operator needs for ChartResources and the objects of their kinds.
//!
//! As for HelmReleases, they are those of the cluster; what a release contains is applied by the ServiceAccount of the object.

use super::{Needs, of_tenants_releases};

const OWN: &str = "windlass.dev";

/// The needs for ChartResources. `default_service_account`: whether each object has a ServiceAccount.
#[must_use]
pub fn chart_kind_needs(default_service_account: bool) -> Needs {
    let mut needs = of_tenants_releases();
    // The finalizer is a patch of the object.
    needs.add(OWN, "chartresources", &["get", "list", "watch", "patch"]);
    needs.add(OWN, "chartresources/status", &["patch"]);
    // The kind itself, and those that ChartResources register and drop.
    needs.add(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        &["get", "list", "watch", "create", "patch", "delete"],
    );
    needs.add_unknown(
        "the kinds of ChartResources and of --watches-file are known in the cluster only: add rules with --add-rules FILE that let the \
         operator get, list, watch and patch their objects, patch their status, and list and watch what their charts contain",
    );
    if !default_service_account {
        needs.add_unknown(
            "objects of charts' kinds without an account are deployed with the operator's own rights, which depend on their charts: add \
             rules for that with --add-rules FILE, or run the operator with --default-service-account",
        );
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_has;
    use super::*;

    #[test]
    fn definitions_are_registered_and_dropped() {
        assert_eq!(chart_kind_needs(true).unknown.len(), 1);
        let needs = chart_kind_needs(false);
        assert_eq!(needs.unknown.len(), 2);
        assert_has(
            &needs,
            &[
                "apiextensions.k8s.io/customresourcedefinitions 6",
                "windlass.dev/chartresources 4",
                "windlass.dev/chartresources/status 1",
            ],
        );
    }
}
