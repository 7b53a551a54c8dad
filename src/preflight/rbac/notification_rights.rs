//! The rights that an operator needs to send Flux's notifications itself.

use super::{LOOK, Needs, OWN};

const NOTIFICATION: &str = "notification.toolkit.fluxcd.io";
const SOURCES: &str = "source.toolkit.fluxcd.io";

/// The needs for Alerts, Providers and Receivers.
#[must_use]
pub fn notification_needs() -> Needs {
    let mut needs = Needs::default();
    needs.add(NOTIFICATION, "alerts", &LOOK);
    needs.add(NOTIFICATION, "providers", &LOOK);
    needs.add(NOTIFICATION, "receivers", &["get", "list", "watch", "patch"]);
    needs.add(NOTIFICATION, "receivers/status", &["patch"]);
    needs.add("", "secrets", &LOOK);
    // What Receivers request a reconcile of.
    needs.add("helm.toolkit.fluxcd.io", "helmreleases", &["list", "patch"]);
    for resource in [
        "buckets",
        "externalartifacts",
        "gitrepositories",
        "helmcharts",
        "helmrepositories",
        "ocirepositories",
    ] {
        needs.add(SOURCES, resource, &["list", "patch"]);
    }
    needs.add("coordination.k8s.io", "leases", &OWN);
    // Kinds that are absent are registered; those that exist are never written.
    needs.add("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create"]);
    let name = Some("notification-controller");
    // Not in its namespace, which may not exist.
    needs.rights.add_to(None, "apps", "deployments", name, &["get"]);
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_has;
    use super::*;

    #[test]
    fn receivers_are_written_and_the_others_read() {
        let needs = notification_needs();
        assert_has(
            &needs,
            &[
                "/secrets 3",
                "notification.toolkit.fluxcd.io/alerts 3",
                "notification.toolkit.fluxcd.io/receivers 4",
                "notification.toolkit.fluxcd.io/receivers/status 1",
                "source.toolkit.fluxcd.io/gitrepositories 2",
                "apps/deployments notification-controller 1",
            ],
        );
    }
}
