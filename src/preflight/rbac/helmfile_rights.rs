//! The rights that an operator needs for Helmfiles.
//!
//! As for HelmReleases, they are those of the cluster; what a release contains is applied by the Helmfile's ServiceAccount.

use super::{Needs, of_tenants_releases};

const HELMFILE: &str = "apps.mumoshu.github.io";

/// The needs for Helmfiles. `default_service_account`: whether each Helmfile has a ServiceAccount.
#[must_use]
pub fn helmfile_needs(default_service_account: bool) -> Needs {
    let mut needs = of_tenants_releases();
    // The finalizer is a patch of the object.
    needs.add(HELMFILE, "helmfiles", &["get", "list", "watch", "patch"]);
    needs.add(HELMFILE, "helmfiles/status", &["patch"]);
    // The kind is registered where it is absent or older.
    needs.add("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create", "patch"]);
    needs.add_unknown(
        "objects of releases of Helmfiles are watched with the operator's own rights, whoever applies them: without list and watch of \
         their kinds drift is found at the interval only; add rules for that, and for the kinds of --config, with --add-rules FILE",
    );
    if !default_service_account {
        needs.add_unknown(
            "Helmfiles without serviceAccountName are deployed with the operator's own rights, which depend on their charts: add rules \
             for that with --add-rules FILE, or run the operator with --default-service-account",
        );
    }
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_has;
    use super::*;

    #[test]
    fn helmfiles_without_an_account_need_unknown_rights() {
        assert_eq!(helmfile_needs(true).unknown.len(), 1);
        let needs = helmfile_needs(false);
        assert_eq!(needs.unknown.len(), 2);
        assert_has(
            &needs,
            &[
                "/secrets 7",
                "apps.mumoshu.github.io/helmfiles 4",
                "apps.mumoshu.github.io/helmfiles/status 1",
            ],
        );
    }
}
