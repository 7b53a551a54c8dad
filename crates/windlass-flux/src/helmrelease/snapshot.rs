//! The history in a HelmRelease's status: snapshots of revisions. Pure.

use std::collections::BTreeMap;

use super::digest;
use flux_api::helm_release_status::{Snapshot, TestHook};
use windlass_cluster::api_time;
use windlass_engine::HookEvent;
use windlass_engine::record::Record;

/// Version of the digest's form.
const API_VERSION: &str = "v2";
/// Snapshots kept where no older success limits them.
const MAX_SNAPSHOTS: usize = 5;

/// The snapshot of a record. `config_digest`: of the values as they were given; `None` computes it from the record.
pub(super) fn observe(
    record: &Record,
    oci_digest: &str,
    action: &str,
    config_digest: Option<&str>,
) -> Snapshot {
    let config = || digest::config_digest(&digest::record_values(record));
    Snapshot {
        api_version: API_VERSION.to_owned(),
        digest: digest::release_digest(record, oci_digest),
        name: record.name.clone(),
        namespace: record.namespace.clone(),
        version: record.version,
        status: record.info.status.to_string(),
        action: action.to_owned(),
        chart_name: record.chart_text("name").to_owned(),
        chart_version: record.chart_text("version").to_owned(),
        app_version: record.chart_text("appVersion").to_owned(),
        config_digest: config_digest.map_or_else(config, str::to_owned),
        first_deployed: seconds(&record.info.first_deployed),
        last_deployed: seconds(&record.info.last_deployed),
        deleted: seconds(&record.info.deleted),
        test_hooks: None,
        oci_digest: oci_digest.to_owned(),
    }
}

/// A time of a record in whole seconds, as Kubernetes' API has it; empty if there is none.
fn seconds(time: &str) -> String {
    let read: Option<jiff::Timestamp> = time.parse().ok();
    read.map(api_time).unwrap_or_default()
}

/// The runs of the selected tests of a record. `filters`: names, and whether they are excluded.
pub(super) fn test_runs(record: &Record, filters: &[(&str, bool)]) -> BTreeMap<String, TestHook> {
    let included = |name: &str| filters.iter().any(|(filter, exclude)| !exclude && *filter == name);
    let excluded = |name: &str| filters.iter().any(|(filter, exclude)| *exclude && *filter == name);
    let all = filters.iter().all(|(_, exclude)| *exclude);
    let tests = record.hooks.iter().filter(|hook| hook.events.contains(&HookEvent::Test));
    let selected = tests.filter(|hook| !excluded(&hook.name) && (all || included(&hook.name)));
    let run = |hook: &windlass_engine::record::RecordedHook| TestHook {
        last_started: seconds(&hook.last_run.started_at),
        last_completed: seconds(&hook.last_run.completed_at),
        phase: hook.last_run.phase.clone(),
    };
    selected.map(|hook| (hook.name.clone(), run(hook))).collect()
}

/// Makes a snapshot show its revision as the record is now, written again by an action that made another one: helm-controller names that
/// action if it is a rollback, and none otherwise.
pub(super) fn rewrite(snapshot: &mut Snapshot, record: &Record, action: &str) {
    let fresh = observe(record, &snapshot.oci_digest, action, Some(&snapshot.config_digest));
    *snapshot = Snapshot { test_hooks: snapshot.test_hooks.take(), ..fresh };
}

/// Whether a snapshot shows this record, unchanged.
pub(super) fn shows(snapshot: &Snapshot, record: &Record) -> bool {
    snapshot.api_version != API_VERSION
        || snapshot.digest == digest::release_digest(record, &snapshot.oci_digest)
}

/// The snapshot of the revision that an upgrade replaces, and whose record it writes again whether it succeeds or fails: the deployed
/// one, else the newest.
pub(super) fn replaced(history: &mut [Snapshot]) -> Option<&mut Snapshot> {
    let deployed = history.iter().position(|snapshot| snapshot.status == "deployed");
    history.get_mut(deployed.unwrap_or_default())
}

/// The newest success before the newest snapshot; `history` has the newest first.
pub(super) fn previous(history: &[Snapshot], ignore_tests: bool) -> Option<&Snapshot> {
    history.iter().skip(1).find(|snapshot| snapshot.succeeded(ignore_tests))
}

/// Drops what is older than the newest success before the newest snapshot.
pub(super) fn truncate(history: &mut Vec<Snapshot>, ignore_tests: bool) {
    let older = history.iter().skip(1).position(|snapshot| snapshot.succeeded(ignore_tests));
    history.truncate(older.map_or(MAX_SNAPSHOTS, |at| at + 2));
}

/// Keeps the newest snapshots, whatever their status.
pub(super) fn truncate_newest(history: &mut Vec<Snapshot>) {
    history.truncate(MAX_SNAPSHOTS);
}
