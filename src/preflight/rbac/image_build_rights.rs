//! The rights that an operator needs for ImageBuilds.

use super::{LOOK, Needs, OWN};

const OWN_GROUP: &str = "windlass.dev";

/// The needs for ImageBuilds. `default_service_account`: whether the Secrets of each are read with a ServiceAccount of its namespace.
#[must_use]
pub fn image_build_needs(default_service_account: bool) -> Needs {
    let mut needs = Needs::default();
    needs.watch_definitions();
    needs.add(OWN_GROUP, "imagebuilds", &LOOK);
    needs.add(OWN_GROUP, "imagebuilds/status", &["patch"]);
    // The kind is registered where it is absent or older.
    needs.add("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create", "patch"]);
    needs.add("", "serviceaccounts", &["impersonate"]);
    if !default_service_account {
        needs.add("", "secrets", &LOOK);
    }
    for group in ["", "events.k8s.io"] {
        needs.add(group, "events", &["create", "patch"]);
    }
    // The lock of leader election.
    needs.add("coordination.k8s.io", "leases", &OWN);
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary;
    use super::*;

    #[test]
    fn secrets_are_read_for_objects_without_an_account() {
        let shown = |account| summary(&image_build_needs(account).rights, None);
        let own = shown(false);
        for expected in
            ["/secrets 3", "windlass.dev/imagebuilds 3", "windlass.dev/imagebuilds/status 1", "/events 2"]
        {
            assert!(own.iter().any(|right| right == expected), "{expected}: {own:?}");
        }
        assert!(!shown(true).iter().any(|right| right.starts_with("/secrets")));
    }
}
