//! The rights that an operator needs to send Flux's notifications itself.

use super::{LOOK, Needs, OWN};

const NOTIFICATION: &str = "notification.toolkit.fluxcd.io";
const SOURCES: &str = "source.toolkit.fluxcd.io";

/// The needs for Alerts, Providers and Receivers.
#[must_use]
pub fn notification_needs() -> Needs {
    let mut needs = Needs::default();
    let mut add = |group: &str, resource: &str, verbs: &[&'static str]| {
        needs.rights.add(None, group, resource, verbs);
    };
    add(NOTIFICATION, "alerts", &LOOK);
    add(NOTIFICATION, "providers", &LOOK);
    add(NOTIFICATION, "receivers", &["get", "list", "watch", "patch"]);
    add(NOTIFICATION, "receivers/status", &["patch"]);
    add("", "secrets", &LOOK);
    // What Receivers request a reconcile of.
    add("helm.toolkit.fluxcd.io", "helmreleases", &["list", "patch"]);
    for resource in [
        "buckets",
        "externalartifacts",
        "gitrepositories",
        "helmcharts",
        "helmrepositories",
        "ocirepositories",
    ] {
        add(SOURCES, resource, &["list", "patch"]);
    }
    add("coordination.k8s.io", "leases", &OWN);
    // Kinds that are absent are registered; those that exist are never written.
    add("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create"]);
    let name = Some("notification-controller");
    // Not in its namespace, which may not exist.
    needs.rights.add_to(None, "apps", "deployments", name, &["get"]);
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary;
    use super::*;

    #[test]
    fn receivers_are_written_and_the_others_read() {
        let needs = notification_needs();
        let shown = summary(&needs.rights, None);
        for expected in [
            "/secrets 3",
            "notification.toolkit.fluxcd.io/alerts 3",
            "notification.toolkit.fluxcd.io/receivers 4",
            "notification.toolkit.fluxcd.io/receivers/status 1",
            "source.toolkit.fluxcd.io/gitrepositories 2",
            "apps/deployments notification-controller 1",
        ] {
            assert!(shown.iter().any(|right| right == expected), "{expected}: {shown:?}");
        }
    }
}
