//! What a pass over a HelmRelease works on, found the same way for a pass that writes and for its plan: source, values, release, and who
//! acts where. And what the status is before the first action.

use chart_compat::data::Map;
use chart_compat::render::CompiledChart;

use super::digest;
use super::helm_releases::HelmReleases;
use super::object::HelmReleaseObject;
use super::release_state::{self, Action, DesiredRelease, ReleaseState};
use super::remote_cluster::OwnNamespace;
use super::snapshot;
use super::values_lookup;
use flux_api::helm_release::HelmReleaseSpec;
use flux_api::helm_release_status::HelmReleaseStatus;
use windlass_artifacts::check_source_namespace;
use windlass_cluster::ObjectRef;
use windlass_controller::{FrontEnd as _, ImageValues, ReconcileError, References, ReleaseRunner};
use windlass_engine::record::Record;
use windlass_engine::{Engine, ReleaseId};

/// What a release is made of and where it acts, without its chart.
pub(super) struct PassInputs {
    pub(super) id: ReleaseId,
    /// Namespace of its records.
    pub(super) storage: String,
    pub(super) values: Map,
    pub(super) config_digest: String,
    /// Acts on the cluster of the release as its target says; the records are where the release is.
    runner: ReleaseRunner,
}

impl PassInputs {
    /// The runner of the release.
    pub(super) fn runner(&self, object: &HelmReleaseObject) -> ReleaseRunner {
        self.runner_of(object, &self.storage)
    }

    /// The runner with the records in `storage`. In the object's own namespace they are the operator's business; elsewhere they are
    /// read and written with the rights of the object's ServiceAccount.
    pub(super) fn runner_of(&self, object: &HelmReleaseObject, storage: &str) -> ReleaseRunner {
        self.runner.clone().with_storage_namespace(storage, storage != object.namespace)
    }

    /// Sets newer images over the values, as the object's annotations have them. Returns what the values say of images.
    ///
    /// # Errors
    /// The annotations cannot be read, or the values do not fit the chart.
    pub(super) fn set_images(
        &mut self,
        object: &HelmReleaseObject,
        spec: &HelmReleaseSpec,
        chart: &CompiledChart,
    ) -> Result<ImageValues, ReconcileError> {
        let mut images = object.images.apply(&mut self.values, chart)?;
        if !object.images.is_empty() {
            self.config_digest = digest::config_digest(&self.values);
        }
        if !images.is_empty() {
            images.errors.extend(image_values_refusal(spec).map(str::to_owned));
        }
        Ok(images)
    }
}

impl HelmReleases {
    /// The source that has the chart.
    ///
    /// # Errors
    /// There is none, or it is in another namespace and may not be.
    pub(super) fn source_for(
        &self,
        object: &HelmReleaseObject,
        spec: &HelmReleaseSpec,
    ) -> Result<ObjectRef, ReconcileError> {
        let source = object
            .source(spec)
            .ok_or_else(|| ReconcileError::Config("spec: neither chart nor chartRef is set".to_owned()))?;
        check_source_namespace(&source, &object.namespace, self.options.no_cross_namespace_refs)?;
        Ok(source)
    }

    /// Reads what `valuesFrom` refers to, and finds who acts where. `operator` acts as the operator of this cluster. `impersonates`: the
    /// ServiceAccount of the HelmRelease acts, as in a pass.
    ///
    /// # Errors
    /// Values are missing or wrong, the cluster cannot be reached, or the ServiceAccount is invalid.
    pub(super) async fn inputs(
        &self,
        (object, spec): (&HelmReleaseObject, &HelmReleaseSpec),
        operator: &ReleaseRunner,
        impersonates: bool,
        references: &mut References,
    ) -> Result<PassInputs, ReconcileError> {
        let client = operator.engine().operator_client();
        let values = values_lookup::resolve(client, &object.namespace, spec, references).await?;
        let id = object.release_id(spec);
        let runner = self.runner_on_cluster((object, spec), operator, references).await?;
        let target = self.target(object)?;
        let target = if impersonates { target } else { target.without_account() };
        Ok(PassInputs {
            runner: runner.acting_for(&target, &id.namespace)?,
            storage: object.storage_namespace(spec),
            config_digest: digest::config_digest(&values),
            values,
            id,
        })
    }

    /// The runner on the cluster of the release, as the operator of it.
    pub(super) async fn runner_on_cluster(
        &self,
        (object, spec): (&HelmReleaseObject, &HelmReleaseSpec),
        operator: &ReleaseRunner,
        references: &mut References,
    ) -> Result<ReleaseRunner, ReconcileError> {
        let Some(reference) = &spec.kube_config else { return Ok(operator.clone()) };
        let own = OwnNamespace {
            client: operator.engine().operator_client(),
            namespace: &object.namespace,
            references,
            operator,
            default_account: self.options.default_kubeconfig_service_account.as_ref(),
        };
        self.remotes.runner(own, reference).await
    }
}

/// Why newer images cannot be set over the values of a release, and what to do; `None`: they can.
fn image_values_refusal(spec: &HelmReleaseSpec) -> Option<&'static str> {
    if spec.kube_config.is_some() {
        return Some(
            "spec.kubeConfig: images in the values of a release on another cluster are not followed: remove the annotation \
             windlass.dev/image-values or the block keel, and follow images there",
        );
    }
    spec.upgrade.preserve_values.then_some(
        "spec.upgrade.preserveValues keeps the image of the last revision: images in values are not followed",
    )
}

/// What of the target is not what the current release has; `None` if it is the same, or there is no release.
pub(super) fn target_changed(
    status: &HelmReleaseStatus,
    spec: &HelmReleaseSpec,
    inputs: &PassInputs,
    chart: &str,
) -> Option<&'static str> {
    let current = status.history.first().filter(|_| !status.storage_namespace.is_empty())?;
    let in_place = spec.upgrade.chart_name_change_strategy.as_deref() == Some("InPlaceUpdate");
    [
        ("storage namespace", inputs.storage != status.storage_namespace),
        ("release namespace", inputs.id.namespace != current.namespace),
        ("release name", inputs.id.name != current.name),
        ("chart name", chart != current.chart_name && !in_place),
    ]
    .into_iter()
    .find_map(|(what, changed)| changed.then_some(what))
}

/// The status after the release was uninstalled where it was.
pub(super) fn forget_release(status: &mut HelmReleaseStatus) {
    status.history.clear();
    (status.failures, status.install_failures, status.upgrade_failures) = (0, 0, 0);
    status.storage_namespace.clear();
}

/// The state of the release, and the action that follows.
///
/// # Errors
/// The record that a rollback would go back to cannot be read.
pub(super) async fn decide(
    engine: &Engine,
    id: &ReleaseId,
    newest: Option<&Record>,
    status: &HelmReleaseStatus,
    desired: &DesiredRelease<'_>,
) -> Result<(ReleaseState, Action), ReconcileError> {
    let state = release_state::determine(newest, status, desired);
    let mut verified = None;
    if state == ReleaseState::Failed
        && let Some(target) =
            snapshot::previous(&status.history, release_state::ignores_tests(status, desired.spec))
    {
        let record = engine.records().record(id, target.version).await?;
        verified = record.filter(|record| snapshot::shows(target, record)).map(|record| record.version);
    }
    let action = release_state::next_action(state, status, desired, |version| verified == Some(version));
    Ok((state, action))
}

/// Notes what is tried: failures of something else do not count.
pub(super) fn note_attempt(
    status: &mut HelmReleaseStatus,
    generation: i64,
    chart_version: &str,
    config_digest: &str,
    reset: bool,
) {
    let changed = status.last_attempted_generation != generation
        || status.last_attempted_revision != chart_version
        || status.last_attempted_config_digest != config_digest;
    if changed || reset {
        (status.failures, status.install_failures, status.upgrade_failures) = (0, 0, 0);
    }
    status.last_attempted_generation = generation;
    chart_version.clone_into(&mut status.last_attempted_revision);
    config_digest.clone_into(&mut status.last_attempted_config_digest);
}

/// The values, over those of the last release if the spec asks for it.
pub(super) async fn preserved(
    spec: &HelmReleaseSpec,
    status: &HelmReleaseStatus,
    values: Map,
    runner: &ReleaseRunner,
    id: &ReleaseId,
) -> Result<Map, ReconcileError> {
    let Some(last) = status.history.first().filter(|_| spec.upgrade.preserve_values) else {
        return Ok(values);
    };
    let Some(record) = runner.engine().records().record(id, last.version).await? else { return Ok(values) };
    let mut merged = digest::record_values(&record);
    chart_compat::chart::merge_maps(&mut merged, values);
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_in_values_that_stay_or_are_elsewhere_are_refused() {
        let far = json!({"secretRef": {"name": "far"}});
        for (spec, expected) in [
            (json!({}), None),
            (json!({"kubeConfig": far}), Some("spec.kubeConfig: ")),
            (json!({"upgrade": {"preserveValues": true}}), Some("spec.upgrade.preserveValues keeps ")),
        ] {
            let refusal = image_values_refusal(&serde_json::from_value(spec.clone()).unwrap());
            assert_eq!(refusal.is_some(), expected.is_some(), "{spec}");
            assert!(refusal.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{spec}");
        }
    }
}
