//! One pass over one HelmChart.
//!
//! Owns the order of the steps: claim, inputs, release by the failure policy, readiness. What a step asks of the cluster is the
//! engine's and the runtime's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::chart_address;
use super::chart_inputs::InputReader;
use super::chart_status::{DeployedChart, ObjectReadiness, StatusOf, is_new_revision, note};
use super::chart_uninstall::{check_complete, foreign, uninstall_request};
use super::helm_charts::{HelmCharts, ReinstallMode};
use super::k3s_api::HelmChartConfigSpec;
use super::layered_values;
use super::managed_chart::{
    FailurePolicy, MANAGED_BY, ManagedChart, Management, failure_policy, release_options, timeout,
};
use super::record_marks::{OWNER_DIGEST, RecordMark};
use windlass_cluster::{ObjectMeta, PatchKind, has_omitted_values};
use windlass_controller::{
    Done, EventType, FrontEnd as _, ImageValues, ReconcileError, ReconcilePass, Reconciled, References,
    ReleaseRunner, ReleaseSpec, Report, Requeue, STATUS_MANAGER, crd_files, drift_policy_of,
};
use windlass_engine::record::ReleaseStatus;
use windlass_engine::{
    CheckedObjects, Disposition, EngineError, Immutable, Mode, ReleaseAction, ReleaseKey, ReleaseOptions,
    ReleaseRequest, Wait,
};

/// A release whose objects are not ready is looked at again after this time.
const RECHECK: Duration = Duration::from_secs(120);
/// How long a pass waits for objects that were not ready when the last one ended.
const SHORT_WAIT: Duration = Duration::from_secs(5);

/// A release as an object asks for it.
pub(crate) struct PreparedChart {
    pub(crate) spec: ReleaseSpec,
    pub(crate) policy: FailurePolicy,
    /// The images that the values name.
    images: ImageValues,
    /// Stands for chart and values: another one is another change.
    change: String,
}

impl HelmCharts {
    /// Reads all that an object refers to, and gets its chart. `config`: its HelmChartConfig, if there is one.
    ///
    /// # Errors
    /// A field is invalid, an object is missing, or the chart cannot be fetched or used.
    pub(crate) async fn prepare(
        &self,
        chart: &ManagedChart,
        config: Option<&Value>,
        runner: &ReleaseRunner,
        references: &mut References,
    ) -> Result<PreparedChart, ReconcileError> {
        let spec = chart.checked_spec()?;
        let config = read_config(config)?;
        let policy = failure_policy(spec, &config)?;
        let cluster = runner.engine().cluster();
        let address = chart_address::of(spec, &cluster.server(), &self.options.stable_repository)
            .map_err(ReconcileError::Config)?;
        let mut reader = InputReader { cluster, namespace: &chart.namespace, references };
        let layers = reader.values(spec, &config).await?;
        let mut values = layered_values::merged(&layers, &spec.set).map_err(ReconcileError::Values)?;
        let authorities = if address.is_of_api_server() { cluster.authorities() } else { None };
        let access = reader.access(spec, authorities).await?;
        let downloaded = self.clients.chart(address, access, runner.render_permits()).await?;
        let images = chart.images.apply(&mut values, &downloaded.chart)?;
        let annotations = downloaded.chart.chart().metadata.annotations.as_deref();
        let drift = drift_policy_of(&self.options.drift, annotations).map_err(ReconcileError::Config)?;
        let options = release_options(spec, &config, drift)?;
        let mut change = Sha256::new_with_prefix(&downloaded.digest);
        change.update(windlass_render::to_json(&chart_compat::data::Data::Map(values.clone())).to_string());
        let spec = ReleaseSpec {
            id: chart.release(),
            crds: crd_files(&downloaded.chart.chart().crds(), &[], &BTreeMap::new())?,
            chart: downloaded.chart,
            values: Arc::new(values),
            skip_schema_validation: false,
            owner: self.name().to_owned(),
            cause: format!("generation {} of HelmChart {}/{}", chart.generation, chart.namespace, chart.name),
            description: None,
            record_labels: BTreeMap::from([(
                OWNER_DIGEST.to_owned(),
                RecordMark::of(self.name(), chart).digest,
            )]),
            checksum_label: None,
            post_render: None,
            options,
        };
        let change = change.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(PreparedChart { spec, policy, images, change })
    }

    /// One pass.
    pub(crate) async fn run_pass(
        &self,
        pass: &mut ReconcilePass,
        chart: &ManagedChart,
    ) -> Result<Reconciled, ReconcileError> {
        if chart.management == Management::Unclaimed {
            claim(pass, &self.options.managed_by, self.finalizer()).await?;
            // The annotation triggers the pass over what is ours.
            return Ok(Reconciled::new(false, Requeue::Never));
        }
        self.announce(pass, chart).await?;
        let runner = self.release_runner(pass, chart, &chart.release())?;
        let reader = runner.engine().cluster().clone();
        pass.set_reader(&reader);
        let config = pass.related.get(&Self::config_of(chart)).cloned();
        if config.as_deref().is_some_and(has_omitted_values) {
            let text = "its HelmChartConfig has values that are nested too deeply: make them flatter";
            return Err(ReconcileError::Config(text.to_owned()));
        }
        let mut references = std::mem::take(&mut pass.references);
        let prepared = self.prepare(chart, config.as_deref(), &runner, &mut references).await;
        pass.references = references;
        let mut prepared = prepared?;
        pass.note_image_values(std::mem::take(&mut prepared.images));
        let deployed = {
            let metadata = &prepared.spec.chart.chart().metadata;
            (metadata.name.clone(), metadata.version.clone())
        };
        // From here on the release may be another one: no error may leave drift to be corrected to what was there before.
        let spec = prepared.spec.clone();
        let released = match self.check_rights(&pass.object, chart, &runner, &spec).await {
            Ok(()) => self.release(pass, chart, &runner, prepared).await,
            Err(error) => Err(error),
        };
        let concluded = match released {
            Ok(done) => self.conclude(pass, chart, &runner, (done, deployed)).await,
            Err(error) => Err(error),
        };
        match concluded {
            Ok(reconciled) => Ok(reconciled),
            Err(error) => {
                let error = self.with_missing_rights(chart, &runner, spec, error).await;
                Ok(self.fail(pass, chart, error).await)
            }
        }
    }

    /// Says once that a generation is being reconciled, and which of its fields have no effect.
    async fn announce(&self, pass: &mut ReconcilePass, chart: &ManagedChart) -> Result<(), ReconcileError> {
        let status = &pass.object["status"];
        let is_known = match (self.options.keeps_own_status, &pass.memo) {
            (true, _) => status["observedGeneration"] == chart.generation,
            (false, Some(memo)) => memo["generation"] == chart.generation,
            // The status does not say which generation it is about.
            (false, None) => {
                let mut conditions = status["conditions"].as_array().into_iter().flatten();
                conditions.any(|condition| condition["type"] == "Ready")
            }
        };
        if is_known {
            return Ok(());
        }
        let status = self.status_of(chart, &pass.object).progressing();
        pass.write_status(&status).await?;
        let ignored = chart.fields_without_effect();
        if !ignored.is_empty() {
            let text = format!("no effect, since there is no Job: {}", ignored.join(", "));
            pass.record_event(note(EventType::Normal, "FieldsIgnored", text));
        }
        Ok(())
    }

    fn status_of<'s>(&self, chart: &'s ManagedChart, object: &'s Value) -> StatusOf<'s> {
        StatusOf { chart, before: &object["status"], keeps_own: self.options.keeps_own_status }
    }

    /// Refuses a release of another owner, and one that the policy aborts. As k3s, uninstalls one that has failed. Returns whether the
    /// release has records.
    async fn follow_record(
        &self,
        pass: &ReconcilePass,
        chart: &ManagedChart,
        runner: &ReleaseRunner,
        (spec, policy): (&ReleaseSpec, FailurePolicy),
    ) -> Result<bool, ReconcileError> {
        let (id, drift) = (&spec.id, spec.options.drift.mode);
        // What this object has deployed in this process, and nobody has changed since, has neither failed nor another owner.
        if self.owners.has(id, &chart.key()) && runner.engine().unchanged_revision(id, drift).is_some() {
            return Ok(true);
        }
        let history = match runner.engine().history_of(id).await {
            // The operation reports it.
            Err(error) if error.is_unreadable_record() => return Ok(true),
            history => history?,
        };
        let Some(newest) = history.newest() else { return Ok(false) };
        let mark = RecordMark::of(self.name(), chart);
        if let Some(owner) = mark.other_owner(&newest.labels, newest.info.status) {
            return Err(self.owners.refuse(id, &chart.key(), &owner));
        }
        if newest.info.status != ReleaseStatus::Failed {
            return Ok(true);
        }
        let failed = format!("revision {} has failed ({})", newest.version, newest.info.description);
        if policy == FailurePolicy::Abort {
            return Err(aborted(&format!("release {id}: {failed}")));
        }
        if self.reinstalls_as_k3s(policy) {
            let text = format!("{failed}: the release is uninstalled, and installed again");
            pass.record_event(note(EventType::Warning, "Reinstalling", text));
            check_complete(&runner.uninstall(&uninstall_request(chart)).await?)?;
        }
        Ok(true)
    }

    fn reinstalls_as_k3s(&self, policy: FailurePolicy) -> bool {
        policy == FailurePolicy::Reinstall && self.options.reinstall == ReinstallMode::AsK3s
    }

    /// Makes the release by the failure policy.
    async fn release(
        &self,
        pass: &ReconcilePass,
        chart: &ManagedChart,
        runner: &ReleaseRunner,
        prepared: PreparedChart,
    ) -> Result<Done, ReconcileError> {
        let PreparedChart { spec, policy, change, .. } = prepared;
        let _busy = self.owners.begin(&spec.id)?;
        let exists = self.follow_record(pass, chart, runner, (&spec, policy)).await?;
        let done = run_as(runner, &spec, if exists { Mode::UpgradeInstall } else { Mode::Install }).await;
        let Err(ReconcileError::Engine(error)) = &done else { return done };
        if policy == FailurePolicy::Abort && error.failed_a_revision() {
            return Err(aborted(&format!("release {}: {error}", spec.id)));
        }
        if self.reinstalls_as_k3s(policy) && error.failed_a_revision() {
            // The next try is another one: it uninstalls the release first.
            let (reason, disposition) = ("ReleaseFailed", Disposition::Retry);
            return Err(ReconcileError::Reason { reason, text: error.to_string(), disposition });
        }
        let is_curable = error.is_immutable_field() || error.is_unreadable_record();
        let reinstalls = policy == FailurePolicy::Reinstall && !self.reinstalls_as_k3s(policy);
        if !(reinstalls && is_curable && self.may_reinstall(chart, &change)) {
            return done;
        }
        if error.is_unreadable_record() {
            let mark = RecordMark::of(self.name(), chart);
            let records = runner.engine().records();
            let deleted = records.delete_unreadable(&spec.id, |head| mark.is_on(&head.labels)).await?;
            if deleted.is_empty() {
                let (reason, text) = ("RecordUnreadable", foreign(error));
                return Err(ReconcileError::Reason { reason, text, disposition: Disposition::Retry });
            }
            let text =
                format!("records that cannot be read are deleted, and the release is made again: {error}");
            pass.record_event(note(EventType::Warning, "DeletingRecords", text));
            // The one before may be another owner's.
            self.follow_record(pass, chart, runner, (&spec, policy)).await?;
            return runner.run(spec).await;
        }
        let text = format!("objects that cannot be changed are deleted and created again: {error}");
        pass.record_event(note(EventType::Warning, "Recreating", text));
        let mut recreated = spec.clone();
        recreated.options.objects.immutable = Immutable::Recreate;
        // Drift is corrected later, and deletes nothing.
        Ok(with_options(runner.run(recreated).await?, spec.options))
    }

    /// Reports a release that was deployed, and waits until its objects are ready.
    async fn conclude(
        &self,
        pass: &mut ReconcilePass,
        chart: &ManagedChart,
        runner: &ReleaseRunner,
        (done, (name, version)): (Done, (String, String)),
    ) -> Result<Reconciled, ReconcileError> {
        self.owners.note_deployed(&done.request.id, &chart.key());
        // Its triggers are for this object. One that had the release before loses it with its next event.
        drop(pass.claim_release(&ReleaseKey::at_home(&done.request.id)));
        let outcome = &done.outcome;
        pass.note_outcome(outcome);
        let revision = outcome.revision;
        let deployed = DeployedChart { id: chart.release(), revision, chart: name, version };
        let waited = pass.memo.as_ref().is_some_and(|memo| memo["waited"] == revision);
        if is_new_revision(outcome.action) {
            let text = format!("release {}: revision {revision} is deployed", deployed.id);
            pass.record_event(note(EventType::Normal, "Deployed", text));
        }
        let was_ready = outcome.action == ReleaseAction::Unchanged && chart.shows_ready;
        let readiness = if was_ready {
            ObjectReadiness::Ready
        } else {
            let status = self.status_of(chart, &pass.object).deployed(&deployed, &ObjectReadiness::Waiting);
            if !waited {
                pass.write_status(&status).await?;
            }
            let limit = if waited { SHORT_WAIT } else { timeout(chart.spec()?) };
            readiness_of(runner, &done, limit).await?
        };
        let status = self.status_of(chart, &pass.object).deployed(&deployed, &readiness);
        pass.write_status(&status).await?;
        let ready = matches!(readiness, ObjectReadiness::Ready);
        if let ObjectReadiness::NotReady(why) = &readiness
            && !waited
        {
            pass.record_event(note(EventType::Warning, "NotReady", format!("revision {revision}: {why}")));
        }
        let memo = json!({"generation": chart.generation, "waited": revision});
        Ok(Reconciled {
            requests: vec![done.request],
            inputs: done.inputs,
            memo: Some(Arc::new(memo)),
            ..Reconciled::new(ready, if ready { Requeue::Never } else { Requeue::After(RECHECK) })
        })
    }

    /// Reports a pass that may have changed the release.
    async fn fail(
        &self,
        pass: &mut ReconcilePass,
        chart: &ManagedChart,
        error: ReconcileError,
    ) -> Reconciled {
        let failures = pass.failures + 1;
        let report = Report::Failed { error: &error, retry_in: error.retry_delay(failures, None), failures };
        let status = self.status_of(chart, &pass.object).of(&report);
        match pass.write_status(&status).await {
            Ok(true) => self.event(&report).into_iter().for_each(|event| pass.record_event(event)),
            Ok(false) => {}
            Err(failure) => {
                tracing::warn!(object = %pass.reference, "the status cannot be written: {failure}");
            }
        }
        Reconciled::failed(error)
    }
}

/// The spec of a HelmChartConfig.
fn read_config(config: Option<&Value>) -> Result<HelmChartConfigSpec, ReconcileError> {
    match config.map(|config| &config["spec"]).filter(|spec| !spec.is_null()) {
        Some(spec) => HelmChartConfigSpec::deserialize(spec)
            .map_err(|error| ReconcileError::Config(format!("HelmChartConfig: spec: {error}"))),
        None => Ok(HelmChartConfigSpec::default()),
    }
}

/// Writes whose the object is, with the finalizer. Who claims it at the same time makes the write fail.
async fn claim(pass: &mut ReconcilePass, manager: &str, finalizer: &str) -> Result<(), ReconcileError> {
    let meta = ObjectMeta::of(&pass.object);
    let others = meta.finalizers().filter(|other| *other != finalizer);
    let finalizers: Vec<&str> = others.chain([finalizer]).collect();
    let annotations = json!({MANAGED_BY: manager});
    let patch = json!({"metadata": {
        "annotations": annotations, "finalizers": finalizers, "resourceVersion": meta.resource_version(),
    }});
    let client = pass.client();
    client.patch_subresource(&pass.reference, "", PatchKind::Merge, &patch, STATUS_MANAGER).await?;
    Ok(())
}

/// Runs a release in a mode. A release that another one made since its records were read is looked at again.
async fn run_as(runner: &ReleaseRunner, spec: &ReleaseSpec, mode: Mode) -> Result<Done, ReconcileError> {
    let mut own = spec.clone();
    own.options.mode = mode;
    match runner.run(own).await {
        Ok(done) => Ok(with_options(done, spec.options.clone())),
        Err(ReconcileError::Engine(EngineError::NameInUse)) => Err(ReconcileError::Reason {
            reason: "ReleaseBusy",
            text: format!("release {} was made by somebody else at the same time", spec.id),
            disposition: Disposition::Wait,
        }),
        Err(error) => Err(error),
    }
}

/// What was done, with the options that later corrections of drift have.
fn with_options(done: Done, options: ReleaseOptions) -> Done {
    let request = Arc::new(ReleaseRequest { options, ..(*done.request).clone() });
    Done { request, ..done }
}

fn aborted(why: &str) -> ReconcileError {
    ReconcileError::Reason {
        reason: "Aborted",
        text: format!(
            "{why}, and failurePolicy is abort: roll the release back or uninstall it, or change the policy"
        ),
        disposition: Disposition::Stall,
    }
}

/// Whether the objects of a release are ready within a time.
async fn readiness_of(
    runner: &ReleaseRunner,
    done: &Done,
    limit: Duration,
) -> Result<ObjectReadiness, ReconcileError> {
    let request = &done.request;
    let options = ReleaseOptions { wait: Wait::Ready, timeout: limit, ..request.options.clone() };
    match runner
        .engine()
        .await_ready(&request.id, CheckedObjects::Rendered(&request.rendered), &options)
        .await
    {
        Ok(()) => Ok(ObjectReadiness::Ready),
        Err(error @ EngineError::NotReady { .. }) => Ok(ObjectReadiness::NotReady(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
