//! Records of HelmReleases that name the namespace that they are stored in, and not the one of their objects: whose they are, and
//! their repair before a pass.
//!
//! Earlier versions wrote such records where `targetNamespace` is another namespace. Owns what of the status goes with a repair.

use super::digest;
use super::object::{HelmReleaseObject, status_of};
use super::snapshot;
use flux_api::helm_release_status::HelmReleaseStatus;
use std::collections::BTreeMap;
use windlass_cluster::{Gvk, ObjectRef};
use windlass_controller::{EventNote, EventType, ReconcileError, ReconcilePass};
use windlass_engine::record::Record;
use windlass_engine::{Engine, MisnamedRecord, ReleaseId};

const ORIGIN: &str = "helm.toolkit.fluxcd.io/";

/// The HelmRelease that a record was made for, by the labels of its objects: its namespace and name.
#[must_use]
pub fn origin_of(record: &Record) -> Option<(String, String)> {
    let label = |field: &str| {
        let key = format!("{ORIGIN}{field}:");
        let value = record.manifest.lines().find_map(|line| line.trim_start().strip_prefix(&key))?;
        let value = value.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    Some((label("namespace")?, label("name")?))
}

/// Where the release acts whose newest record is this one: where its record says, if it is a HelmRelease's. The records of any other
/// release are where it acts, also those that were copied from another namespace.
///
/// # Errors
/// The HelmRelease cannot be read, where only it tells.
pub async fn acts_in(engine: &Engine, record: &Record, stored_in: &str) -> Result<String, ReconcileError> {
    let recorded = &record.namespace;
    let Some((namespace, name)) = origin_of(record).filter(|_| recorded != stored_in) else {
        return Ok(stored_in.to_owned());
    };
    if namespace == stored_in || namespace != *recorded {
        return Ok(recorded.clone());
    }
    // A storage namespace, or a copy.
    let object = engine.cluster().get(&reference(&namespace, &name)).await?;
    let stores = object.is_some_and(|object| status_of(&object).storage_namespace == stored_in);
    Ok(if stores { recorded.clone() } else { stored_in.to_owned() })
}

fn reference(namespace: &str, name: &str) -> ObjectRef {
    let (version, kind) = super::helm_releases::KIND;
    ObjectRef::new(Gvk::new(version, kind), Some(namespace), name)
}

/// Records of a release that name the wrong namespace. Those of releases that are no HelmRelease's are not looked at.
///
/// # Errors
/// Records, or the HelmRelease, cannot be read.
pub async fn misnamed_records(
    engine: &Engine,
    stored: &ReleaseId,
) -> Result<Vec<MisnamedRecord>, ReconcileError> {
    let own = engine.clone().with_storage_namespace(&stored.namespace, false);
    let Some(newest) = own.records().newest(stored).await? else { return Ok(Vec::new()) };
    let Some((namespace, name)) = origin_of(&newest) else { return Ok(Vec::new()) };
    let object = engine.cluster().get(&reference(&namespace, &name)).await?;
    let candidate = object.and_then(|object| {
        let object = HelmReleaseObject::read(&object);
        let id = object.release_id(object.spec().ok()?);
        (id.name == stored.name).then_some(id.namespace)
    });
    Ok(own.records().misnamed_records(&stored.namespace, &stored.name, candidate.as_deref()).await?)
}

/// Repairs the records of a release before a pass, and what the status has of them. Says so in an Event.
///
/// # Errors
/// Records cannot be read or written.
pub(super) async fn repair(
    pass: &ReconcilePass,
    engine: &Engine,
    id: &ReleaseId,
    storage: &str,
    status: &mut HelmReleaseStatus,
) -> Result<(), ReconcileError> {
    let found = engine.records().misnamed_records(storage, &id.name, Some(&id.namespace)).await?;
    let mut repaired = Vec::new();
    // The others belong to a former target, which is uninstalled in its turn.
    for wrong in found.into_iter().filter(|wrong| wrong.actual == id.namespace) {
        let (before, after) = engine.records().rename_namespace(&wrong).await?;
        follow(status, &before, &after);
        tracing::info!(object = %pass.reference, "repaired the release record {wrong}");
        repaired.push(wrong.to_string());
    }
    if !repaired.is_empty() {
        let note = format!("repaired {} release record(s): {}", repaired.len(), repaired.join("; "));
        let annotations = BTreeMap::new();
        let (event_type, action) = (EventType::Normal, "Repair");
        pass.record_event(EventNote { event_type, reason: "RecordsRepaired", action, note, annotations });
    }
    Ok(())
}

/// A snapshot that showed a record shows it repaired, too.
fn follow(status: &mut HelmReleaseStatus, before: &Record, after: &Record) {
    for shot in status.history.iter_mut().filter(|shot| shot.version == after.version) {
        if snapshot::shows(shot, before) {
            shot.digest = digest::release_digest(after, &shot.oci_digest);
            shot.namespace.clone_from(&after.namespace);
        } else if snapshot::shows(shot, after) {
            shot.namespace.clone_from(&after.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::helmrelease::snapshot;
    use serde_json::json;

    fn record(namespace: &str) -> Record {
        let manifest = "---\nkind: ConfigMap\nmetadata:\n  labels:\n    helm.toolkit.fluxcd.io/name: web\n    \
                        helm.toolkit.fluxcd.io/namespace: \"apps\"\n";
        serde_json::from_value(json!({
            "name": "prod-web", "namespace": namespace, "version": 2, "manifest": manifest, "info": {"status": "superseded"},
        }))
        .unwrap()
    }

    #[test]
    fn the_labels_of_the_objects_name_the_helm_release() {
        assert_eq!(origin_of(&record("apps")), Some(("apps".to_owned(), "web".to_owned())));
        assert_eq!(origin_of(&Record::default()), None);
    }

    #[test]
    fn a_snapshot_follows_the_repair_of_its_record() {
        let (wrong, right) = (record("apps"), record("prod"));
        for (what, shown, expected) in [
            ("it showed the wrong record", &wrong, "prod"),
            ("it showed the record before it was rewritten", &right, "prod"),
        ] {
            let mut status = HelmReleaseStatus::default();
            status.history.push(snapshot::observe(shown, "sha256:a", "", None));
            follow(&mut status, &wrong, &right);
            let shot = &status.history[0];
            assert!(snapshot::shows(shot, &right), "{what}");
            assert_eq!(shot.namespace, expected, "{what}");
        }
        // What somebody else changed stays changed.
        let mut other = record("apps");
        other.manifest.push_str("---\n");
        let mut status = HelmReleaseStatus::default();
        status.history.push(snapshot::observe(&other, "", "", None));
        follow(&mut status, &wrong, &right);
        assert!(!snapshot::shows(&status.history[0], &right));
    }
}
