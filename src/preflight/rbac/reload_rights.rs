//! The rights that an operator needs to roll out workloads when their configuration changes.

use super::{Needs, OWN};
use windlass_cluster::Gvk;
use windlass_reload::{CONFIGURATION_KINDS, WORKLOAD_KINDS};

/// The needs for `--controllers=reload`: all namespaces are watched.
#[must_use]
pub fn reload_needs() -> Needs {
    let mut needs = Needs::default();
    let mut add = |(api_version, kind): &(&str, &str), verbs: &[&'static str]| {
        let Gvk { group, kind, .. } = Gvk::new(api_version, kind);
        needs.add(&group, &windlass_charts::plural(&kind.to_lowercase()), verbs);
    };
    CONFIGURATION_KINDS.iter().for_each(|kind| add(kind, &["list", "watch"]));
    WORKLOAD_KINDS.iter().for_each(|kind| add(kind, &["list", "watch", "patch"]));
    // A CronJob is run once; a Job is made anew.
    add(&("batch/v1", "CronJob"), &["get"]);
    add(&("batch/v1", "Job"), &["get", "create", "delete"]);
    add(&("v1", "Event"), &["create", "patch"]);
    needs.add("batch", "cronjobs/finalizers", &["update"]);
    // The lock of leader election.
    needs.add("coordination.k8s.io", "leases", &OWN);
    needs
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary;
    use super::*;

    #[test]
    fn each_kind_is_watched_and_workloads_are_patched() {
        let shown = summary(&reload_needs().rights, None);
        for expected in [
            "/configmaps 2",
            "/secrets 2",
            "secrets-store.csi.x-k8s.io/secretproviderclasses 2",
            "secrets-store.csi.x-k8s.io/secretproviderclasspodstatuses 2",
            "apps/deployments 3",
            "batch/cronjobs 4",
            "batch/jobs 6",
            "argoproj.io/rollouts 3",
            "/events 2",
            "coordination.k8s.io/leases 7",
        ] {
            assert!(shown.iter().any(|right| right == expected), "{expected}: {shown:?}");
        }
    }
}
