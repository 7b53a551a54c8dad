//! The rights that an operator needs for ConfigMapSources, and for sources where no source-controller reconciles them.

use super::{LOOK, Needs, OWN, of_tenants_releases};

const SOURCES: &str = "source.toolkit.fluxcd.io";
const OWN_GROUP: &str = "windlass.dev";

/// The needs for sources that the operator reconciles itself.
#[must_use]
pub(super) fn own_source_needs() -> Needs {
    let mut needs = Needs::default();
    for resource in ["buckets", "gitrepositories", "helmcharts", "helmrepositories", "ocirepositories"] {
        needs.add(SOURCES, resource, &["get", "list", "watch", "patch"]);
        needs.add(SOURCES, &format!("{resource}/status"), &["patch"]);
    }
    // Their pull Secrets.
    needs.add("", "serviceaccounts", &["get"]);
    // Kinds that are absent are registered; those that exist are never written.
    needs.add("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create"]);
    // Not in its namespace, which may not exist.
    needs.rights.add_to(None, "apps", "deployments", Some("source-controller"), &["get"]);
    needs
}

/// The needs for ConfigMapSources. `controller_namespace`: that of Flux's controllers; `default_service_account`: whether each object has a
/// ServiceAccount; `own_sources`: whether the operator may have to reconcile the sources itself.
#[must_use]
pub fn config_map_source_needs(
    controller_namespace: &str,
    default_service_account: bool,
    own_sources: bool,
) -> Needs {
    let mut needs = of_tenants_releases();
    // The finalizer is a patch of the object.
    needs.add(OWN_GROUP, "configmapsources", &["get", "list", "watch", "patch"]);
    needs.add(OWN_GROUP, "configmapsources/status", &["patch"]);
    for resource in ["buckets", "gitrepositories", "ocirepositories"] {
        needs.add(SOURCES, resource, &LOOK);
    }
    // The kind is registered where it is absent or older.
    needs.add("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create", "patch"]);
    needs.rights.add_to(None, "", "namespaces", Some(controller_namespace), &["get"]);
    if own_sources {
        needs = needs.and(own_source_needs());
    }
    if !default_service_account {
        // What objects without an account are applied with.
        needs.add("", "configmaps", &OWN);
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_has, summary};
    use super::*;

    #[test]
    fn config_maps_are_written_for_objects_without_an_account() {
        let needs = config_map_source_needs("flux-system", false, true);
        assert!(needs.unknown.is_empty(), "{:?}", needs.unknown);
        assert_has(
            &needs,
            &[
                "/configmaps 7",
                "/secrets 7",
                "/namespaces flux-system 1",
                "windlass.dev/configmapsources 4",
                "windlass.dev/configmapsources/status 1",
                "source.toolkit.fluxcd.io/gitrepositories 4",
                "source.toolkit.fluxcd.io/gitrepositories/status 1",
                "apps/deployments source-controller 1",
            ],
        );
        let shown = summary(&config_map_source_needs("flux-system", true, false).rights, None);
        for expected in ["/configmaps 3", "source.toolkit.fluxcd.io/buckets 3", "/serviceaccounts 1"] {
            assert!(shown.iter().any(|right| right == expected), "{expected}: {shown:?}");
        }
    }
}
