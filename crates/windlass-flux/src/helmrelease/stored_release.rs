//! The stored release of a HelmRelease, and how its live objects differ from it. For readers of a cluster: writes nothing.

use serde_json::Value;

use super::drift_rules::rules_for;
use super::object::{HelmReleaseObject, status_of};
use super::options;
use flux_api::helm_release::HelmReleaseSpec;
use windlass_controller::ReconcileError;
use windlass_engine::record::split_manifest;
use windlass_engine::{
    ChangeVerb, DriftMode, Engine, EngineError, PlannedChange, Preview, ReleaseAction, ReleaseId,
    ReleaseOptions,
};
use windlass_render::parse_manifest;

/// Where the release of a HelmRelease is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRelease {
    /// Namespace and name of the release.
    pub id: ReleaseId,
    /// Namespace of its records.
    pub storage_namespace: String,
    /// The newest revision that the status shows; 0 if it shows none.
    pub revision: u64,
}

impl StoredRelease {
    /// The release that the status shows, else the one that the spec names.
    ///
    /// # Errors
    /// The spec cannot be read.
    pub fn of(object: &Value) -> Result<Self, ReconcileError> {
        let (read, status) = (HelmReleaseObject::read(object), status_of(object));
        let spec = read.spec()?;
        let latest = status.history.first();
        let id = latest
            .map_or_else(|| read.release_id(spec), |latest| ReleaseId::new(&latest.namespace, &latest.name));
        let storage_namespace = match status.storage_namespace.as_str() {
            "" => read.storage_namespace(spec),
            stored => stored.to_owned(),
        };
        Ok(Self { id, storage_namespace, revision: latest.map_or(0, |latest| latest.version) })
    }
}

/// How the live objects of a HelmRelease's release differ from its newest revision, without the fields that its drift detection
/// ignores.
///
/// # Errors
/// The spec cannot be read, the newest revision is not deployed, or an object cannot be compared.
pub async fn drift_plan(engine: &Engine, object: &Value) -> Result<Preview, ReconcileError> {
    let release = StoredRelease::of(object)?;
    let engine = engine.clone().with_storage_namespace(&release.storage_namespace, false);
    let own = drift_options(&engine, &release.id, HelmReleaseObject::read(object).spec()?).await?;
    Ok(drifted(&engine, &release.id, own).await?)
}

/// Options of a drift detection: what is ignored follows from the objects of the newest revision.
pub(super) async fn drift_options(
    engine: &Engine,
    id: &ReleaseId,
    spec: &HelmReleaseSpec,
) -> Result<ReleaseOptions, ReconcileError> {
    let rules = &spec.drift_detection.ignore;
    if rules.is_empty() || options::drift_mode(spec) == DriftMode::Off {
        return Ok(options::drift_options(spec, Vec::new()));
    }
    let history = engine.history_of(id).await?;
    let manifest = history.newest().map(|record| record.manifest.clone()).unwrap_or_default();
    // What is no object has no drift.
    let objects: Vec<Value> =
        split_manifest(&manifest).into_iter().filter_map(|(_, text)| parse_manifest(text).ok()).collect();
    Ok(options::drift_options(spec, rules_for(rules, &objects, &id.namespace)?))
}

/// The drift of a release as a plan of its correction.
pub(super) async fn drifted(
    engine: &Engine,
    id: &ReleaseId,
    mut options: ReleaseOptions,
) -> Result<Preview, EngineError> {
    options.dry_run = true;
    options.drift.mode = DriftMode::Report;
    let outcome = engine.restore(id, &options, None).await?;
    let changes = outcome.drift.iter().map(|drift| {
        let (verb, reason) = match drift.deleted {
            true => (ChangeVerb::Create, "it was deleted"),
            false => (ChangeVerb::Update, "it differs from the stored revision"),
        };
        let managers: Vec<&str> = drift.fields.iter().filter_map(|field| field.manager.as_deref()).collect();
        let reason = match managers.first() {
            Some(manager) if managers.iter().all(|other| other == manager) => {
                format!("{reason}: changed by {manager:?}")
            }
            _ => reason.to_owned(),
        };
        let fields = drift.fields.iter().map(|field| field.change.clone()).collect();
        PlannedChange { fields, ..PlannedChange::new(verb, &drift.object, "", &reason) }
    });
    Ok(Preview {
        release: id.name.clone(),
        namespace: id.namespace.clone(),
        action: if outcome.drift.is_empty() { ReleaseAction::Unchanged } else { ReleaseAction::Restore },
        reason: match outcome.drift.len() {
            0 => "all objects are as stored".to_owned(),
            1 => "1 object has drifted".to_owned(),
            count => format!("{count} objects have drifted"),
        },
        revision: outcome.revision,
        changes: changes.collect(),
        hooks: Vec::new(),
        hooks_differ: false,
        warnings: outcome.warnings,
        digest: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_status_goes_before_the_spec() {
        let mut object = json!({
            "metadata": {"name": "web", "namespace": "apps"}, "spec": {"targetNamespace": "prod"}, "status": {},
        });
        let found = StoredRelease::of(&object).unwrap();
        assert_eq!(
            (found.id.to_string().as_str(), found.storage_namespace.as_str(), found.revision),
            ("prod/prod-web", "apps", 0)
        );
        object["status"] = json!({"storageNamespace": "store", "history": [{"name": "old", "namespace": "ns", "version": 3}]});
        let found = StoredRelease::of(&object).unwrap();
        assert_eq!(
            (found.id.to_string().as_str(), found.storage_namespace.as_str(), found.revision),
            ("ns/old", "store", 3)
        );
    }
}
