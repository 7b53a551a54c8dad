//! The rights that an operator needs to roll out newer images.

use super::{Needs, OWN};
use windlass_cluster::Gvk;
use windlass_images::IMAGE_WORKLOAD_KINDS;

/// The needs for `--controllers=images`: all namespaces are watched.
#[must_use]
pub fn image_needs() -> Needs {
    let mut needs = Needs::default();
    for (api_version, kind) in IMAGE_WORKLOAD_KINDS {
        let Gvk { group, kind, .. } = Gvk::new(api_version, kind);
        let resource = windlass_charts::plural(&kind.to_lowercase());
        needs.add(&group, &resource, &["get", "list", "watch", "patch"]);
    }
    // What runs, and the logins for registries.
    needs.add("", "pods", &["list"]);
    needs.add("", "secrets", &["get"]);
    needs.add("", "serviceaccounts", &["get"]);
    needs.add("", "events", &["create", "patch"]);
    // Policies of Flux, where a workload names one.
    for resource in ["imagepolicies", "imagerepositories"] {
        needs.add("image.toolkit.fluxcd.io", resource, &["get"]);
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
    fn workloads_are_patched_and_logins_are_read() {
        let shown = summary(&image_needs().rights, None);
        for expected in [
            "apps/deployments 4",
            "batch/cronjobs 4",
            "/pods 1",
            "/secrets 1",
            "/serviceaccounts 1",
            "/events 2",
            "image.toolkit.fluxcd.io/imagepolicies 1",
            "image.toolkit.fluxcd.io/imagerepositories 1",
            "coordination.k8s.io/leases 7",
        ] {
            assert!(shown.iter().any(|right| right == expected), "{expected}: {shown:?}");
        }
    }
}
