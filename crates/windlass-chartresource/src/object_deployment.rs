//! The release of one object: deployed by its chart and values, or kept as it is.
//!
//! Owns the options of the engine for such releases. Each operation is the engine's.

use std::collections::BTreeMap;
use std::sync::Arc;

use chart_compat::data::{Data, Map};
use chart_compat::render::Capabilities;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::kind_settings::KindSettings;
use super::loaded_chart::{CAPABILITIES, LoadedChart};
use super::pull_secret;
use super::release_choice::{ChosenRelease, Ownership};
use super::values_object::{self, ChartObject};
use windlass_cluster::Validation;
use windlass_controller::{
    PostRender, ReconcileError, ReconcilePass, ReleaseRunner, ReleaseSpec, crd_files, drift_policy_of,
};
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{
    Disposition, DriftMode, DriftPolicy, Duplicates, EngineError, FailureOptions, Immutable, Mode,
    ObjectOptions, OnFailure, OwnershipOptions, ReleaseOptions, RevisionOptions,
};
use windlass_render::{ObjectOwner, add_owner};

/// Revisions of a release that are kept.
const MAX_REVISIONS: usize = 10;

/// Digest of what a release is rendered from. The capabilities are part of it where the chart or the values name them: each kind that
/// anybody registers changes them.
pub(crate) fn input_digest(
    chart: &LoadedChart,
    values: &Map,
    pull_secret: Option<&str>,
    capabilities: &Capabilities,
) -> String {
    let values = windlass_render::to_json(&Data::Map(values.clone())).to_string();
    let read = chart.reads_capabilities || values.contains(CAPABILITIES);
    let mut inputs = json!({
        "chart": chart.digest,
        "values": values,
        "kubeVersion": read.then_some(&capabilities.kube_version.version),
        "apiVersions": read.then_some(&capabilities.api_versions),
    });
    if let Some(secret) = pull_secret {
        inputs["pullSecret"] = secret.into();
    }
    let digits: String =
        Sha256::digest(inputs.to_string()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// An object's release.
pub(crate) struct Deployment<'d> {
    pub(crate) settings: &'d KindSettings,
    pub(crate) object: &'d ChartObject,
    pub(crate) runner: &'d ReleaseRunner,
    pub(crate) release: &'d ChosenRelease,
    /// Labels of its records.
    pub(crate) labels: BTreeMap<String, String>,
}

/// A release that is deployed.
pub(crate) struct Kept {
    /// Its revision.
    pub(crate) revision: u64,
    /// Its record, if one was written.
    pub(crate) record: Option<Record>,
    /// The notes of the chart, if the record was written.
    pub(crate) notes: Option<String>,
    /// Whether objects were written.
    pub(crate) wrote: bool,
    /// Whether a record was written.
    pub(crate) wrote_record: bool,
    /// When a certificate has to be renewed, in seconds since 1970.
    pub(crate) renew_at: Option<i64>,
}

impl Deployment<'_> {
    fn options(&self, drift: DriftPolicy) -> ReleaseOptions {
        let object = self.object;
        let installs = self.release.newest.is_none();
        let without_hooks = if installs {
            values_object::INSTALL_WITHOUT_HOOKS
        } else {
            values_object::UPGRADE_WITHOUT_HOOKS
        };
        let forces = object.switch(values_object::UPGRADE_FORCE, false);
        ReleaseOptions {
            // Another process may have taken the name since it was looked at.
            mode: if installs { Mode::Install } else { Mode::UpgradeInstall },
            revisions: RevisionOptions {
                // The next revision of a release that has no marks gets them.
                skip_unchanged: self.release.ownership != Ownership::Unmarked,
                max: MAX_REVISIONS,
                ..RevisionOptions::default()
            },
            run_hooks: !object.switch(without_hooks, false),
            ownership: OwnershipOptions { force_conflicts: true, ..OwnershipOptions::default() },
            objects: ObjectOptions {
                validation: Validation::Warn,
                duplicates: Duplicates::KeepLast,
                immutable: if forces { Immutable::Recreate } else { Immutable::Fail },
                ..ObjectOptions::default()
            },
            failure: FailureOptions {
                on_failure: OnFailure::Undo,
                recreate_on_rollback: Some(object.switch(values_object::ROLLBACK_FORCE, true)),
                ..FailureOptions::default()
            },
            drift,
            // For the condition Ready.
            watch_status: true,
            ..ReleaseOptions::default()
        }
    }

    /// What is asked of the engine.
    ///
    /// # Errors
    /// The chart has an invalid annotation or file of `crds/`, or discovery cannot be read.
    pub(crate) async fn spec(&self, chart: &LoadedChart, values: Map) -> Result<ReleaseSpec, ReconcileError> {
        let installs = self.release.newest.is_none();
        let annotation =
            if installs { values_object::INSTALL_DESCRIPTION } else { values_object::UPGRADE_DESCRIPTION };
        let annotations = chart.chart.chart().metadata.annotations.as_deref();
        let mut drift =
            drift_policy_of(&DriftPolicy::default(), annotations).map_err(ReconcileError::Chart)?;
        if !self.settings.watches_dependents {
            drift.mode = DriftMode::Off;
        }
        Ok(ReleaseSpec {
            id: self.release.id.clone(),
            chart: Arc::clone(&chart.chart),
            values: Arc::new(values),
            skip_schema_validation: false,
            crds: crd_files(&chart.chart.chart().crds(), &[], &BTreeMap::new())?,
            owner: self.settings.name.clone(),
            cause: format!(
                "generation {} of {} {}",
                self.object.generation,
                self.settings.gvk.kind,
                self.object.key()
            ),
            description: self.object.description(annotation),
            record_labels: self.labels.clone(),
            checksum_label: None,
            post_render: Some(self.owned().await?),
            options: self.options(drift),
        })
    }

    /// Renders the chart and reconciles the release with it.
    ///
    /// # Errors
    /// Any step from the render to the record fails; what was deployed before is deployed again.
    pub(crate) async fn deploy(
        &self,
        pass: &mut ReconcilePass,
        chart: &LoadedChart,
        values: Map,
    ) -> Result<Kept, ReconcileError> {
        let spec = self.spec(chart, values).await?;
        let done = self.runner.run(spec).await.map_err(taken)?;
        pass.note_outcome(&done.outcome);
        let wrote_record = done.outcome.record.is_some();
        let record = done.outcome.record.as_deref().cloned();
        Ok(Kept {
            revision: done.outcome.revision,
            notes: record.as_ref().map(|record| record.info.notes.clone()),
            wrote: done.outcome.wrote(),
            wrote_record,
            renew_at: done.inputs.and_then(|inputs| inputs.renew_at),
            record,
        })
    }

    /// Gives each object of the release the object as its owner, and ServiceAccounts its pull secret.
    async fn owned(&self) -> Result<PostRender, ReconcileError> {
        let kinds = self.runner.engine().cluster().kinds().await?;
        let owner = ObjectOwner {
            gvk: self.settings.gvk.clone(),
            namespace: self.release.id.namespace.clone(),
            name: self.object.name.clone(),
            uid: self.object.uid.clone(),
        };
        let pull_secret = self.object.status.pull_secret.clone();
        Ok(Arc::new(move |rendered, bounds| {
            let mut release = windlass_render::release(&rendered, bounds)?;
            let is_namespaced = |gvk: &_| kinds.get(gvk).map(|served| served.namespaced);
            if let Some(secret) = &pull_secret {
                pull_secret::add_to_release(&mut release, &owner.namespace, secret)
                    .map_err(ReconcileError::Chart)?;
            }
            add_owner(&mut release, &owner, is_namespaced).map_err(ReconcileError::Chart)?;
            Ok((release, String::new()))
        }))
    }

    /// Corrects drift of what is deployed, without a render. `None`: nothing is deployed, or another revision than this one.
    ///
    /// # Errors
    /// An object cannot be written.
    pub(crate) async fn keep(
        &self,
        pass: &ReconcilePass,
        revision: Option<u64>,
    ) -> Result<Option<Kept>, ReconcileError> {
        let newest =
            self.release.newest.as_ref().filter(|newest| newest.info.status == ReleaseStatus::Deployed);
        let newest = newest.filter(|newest| revision.is_none_or(|revision| revision == newest.version));
        let Some(newest) = newest.filter(|_| self.release.ownership == Ownership::Own) else {
            return Ok(None);
        };
        let kept = |wrote| Kept {
            revision: newest.version,
            record: None,
            notes: None,
            wrote,
            wrote_record: false,
            renew_at: None,
        };
        let engine = self.runner.engine();
        let unchanged = || engine.unchanged_revision(&self.release.id, DriftMode::Correct);
        if self.settings.watches_dependents
            && unchanged().is_some_and(|known| known.revision == newest.version)
        {
            return Ok(Some(kept(false)));
        }
        let owner = Some(self.settings.name.as_str());
        let outcome = engine.restore(&self.release.id, &self.options(DriftPolicy::default()), owner).await?;
        pass.note_outcome(&outcome);
        if !self.settings.watches_dependents {
            // Until the next pass nobody looks at the objects.
            let off = DriftPolicy { mode: DriftMode::Off, ..DriftPolicy::default() };
            engine.restore(&self.release.id, &self.options(off), owner).await?;
        }
        Ok(Some(kept(outcome.wrote())))
    }
}

/// A name that another process took since it was looked at is looked at again.
fn taken(error: ReconcileError) -> ReconcileError {
    match error {
        ReconcileError::Engine(EngineError::NameInUse) => ReconcileError::Reason {
            reason: "ErrorGettingReleaseState",
            text: "the release was made by somebody else at the same time".to_owned(),
            disposition: Disposition::Wait,
        },
        error => error,
    }
}
