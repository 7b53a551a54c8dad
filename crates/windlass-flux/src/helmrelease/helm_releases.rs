//! The front end of HelmReleases: what is watched, and one pass over one object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::actions::{self, OWNER, ReleasePass};
use super::chart_artifact::{self, failed};
use super::object::{HelmReleaseObject, read_status, status_of};
use super::pass_inputs::{PassInputs, forget_release, note_attempt, preserved, target_changed};
use super::release_conditions::{READY, RECONCILING, STALLED, Truth};
use super::release_ownership::ReleaseNames;
use super::remote_cluster::RemoteClusters;
use super::{chart_object, dependency, options, record_repair, remediation, unrecorded};
use crate::gotk_metrics;
use flux_api::api_names::{FINALIZER, REQUESTED_AT, SOURCES};
use flux_api::helm_release::HelmReleaseSpec;
use flux_api::helm_release_status::HelmReleaseStatus;
use windlass_artifacts::{Artifact, ArtifactClient, LocalArtifacts, source_state};
use windlass_cluster::{Gvk, ObjectRef};
use windlass_controller::{
    AccountName, Dependencies, DurationMetric, EventNote, EventType, FrontEnd, ReconcileError, ReconcilePass,
    Reconciled, ReleaseRunner, ReleaseTarget, Report, Requeue,
};
use windlass_engine::record::RecordHead;
use windlass_engine::{Disposition, Engine, EngineError, ReleaseId, ReleaseKey};

/// The kind.
pub const KIND: (&str, &str) = ("helm.toolkit.fluxcd.io/v2", "HelmRelease");

/// Options of all HelmReleases of a process, with helm-controller's names.
#[derive(Clone, Debug, Default)]
pub struct HelmReleaseOptions {
    /// The ServiceAccount of HelmReleases that name none.
    pub default_service_account: Option<AccountName>,
    /// The ServiceAccount whose token goes to other clusters where a ConfigMap of `kubeConfig` names none.
    pub default_kubeconfig_service_account: Option<AccountName>,
    /// References to sources in other namespaces are refused.
    pub no_cross_namespace_refs: bool,
    /// Whether artifacts may not be at addresses of this machine and of its cloud's metadata service: whoever may write the status of a
    /// source names them.
    pub no_local_addresses: bool,
}

/// The front end.
pub struct HelmReleases {
    pub(super) options: HelmReleaseOptions,
    pub(super) artifacts: ArtifactClient,
    pub(super) remotes: RemoteClusters,
    /// Releases whose records were checked in this process: cluster, namespace of the records, and release.
    checked: Mutex<BTreeSet<String>>,
    names: ReleaseNames,
}

impl HelmReleases {
    /// A front end without a release.
    #[must_use]
    pub fn new(options: HelmReleaseOptions) -> Self {
        Self {
            artifacts: ArtifactClient::new(options.no_local_addresses),
            remotes: RemoteClusters::new(!options.no_local_addresses),
            options,
            checked: Mutex::default(),
            names: ReleaseNames::default(),
        }
    }

    /// The same for a process that has its own sources: their artifacts are read from its disk.
    #[must_use]
    pub fn with_local_artifacts(mut self, local: LocalArtifacts) -> Self {
        self.artifacts.set_local(local);
        self
    }
}

impl FrontEnd for HelmReleases {
    type Object = HelmReleaseObject;

    fn read(&self, object: &Value) -> HelmReleaseObject {
        HelmReleaseObject::read(object)
    }

    fn name(&self) -> &'static str {
        OWNER
    }

    fn kind(&self) -> Gvk {
        Gvk::new(KIND.0, KIND.1)
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn duration_metric(&self) -> Option<DurationMetric> {
        Some(gotk_metrics::reconcile_duration())
    }

    fn trigger_annotations(&self) -> &[&str] {
        &[REQUESTED_AT]
    }

    fn releases(&self, object: &HelmReleaseObject) -> BTreeSet<ReleaseKey> {
        // Releases of other clusters have no watch, and share no names with those of this one.
        let spec = object.spec().ok().filter(|spec| spec.kube_config.is_none());
        spec.map(|spec| object.release_key(spec)).into_iter().collect()
    }

    fn note_observed(&self, key: &str, object: &HelmReleaseObject) {
        self.names.note(key, object);
    }

    fn note_gone(&self, key: &str) {
        self.names.forget(key);
    }

    fn target(&self, object: &HelmReleaseObject) -> Result<ReleaseTarget, ReconcileError> {
        let spec = object.spec()?;
        // The default account is one of this cluster: on a remote cluster only the object's own name counts, as helm-controller.
        let default = self.options.default_service_account.as_ref();
        let default = default.filter(|_| spec.kube_config.is_none());
        // An account of the object's own namespace, wherever the release is.
        let own = spec.service_account_name.as_deref();
        let target = ReleaseTarget::of_tenant(Some(&object.namespace), own, default)?;
        Ok(if spec.kube_config.is_some() { target.on_other_cluster() } else { target })
    }

    fn dependencies(&self, object: &HelmReleaseObject) -> Dependencies {
        dependency::declared(object)
    }

    fn check_dependencies(&self, object: &HelmReleaseObject) -> Result<(), ReconcileError> {
        dependency::check_number(object)?;
        if self.options.no_cross_namespace_refs { dependency::check_namespaces(object) } else { Ok(()) }
    }

    fn shows_ready(&self, object: &HelmReleaseObject) -> Option<bool> {
        Some(object.ready)
    }

    async fn fits_dependency_rule(
        &self,
        rule: &str,
        object: &Value,
        dependency: (&str, &Value),
    ) -> Result<bool, ReconcileError> {
        dependency::fits_expression(rule, object, dependency).await
    }

    fn related_kinds(&self) -> Vec<Gvk> {
        ["HelmChart", "OCIRepository", "ExternalArtifact"].map(|kind| Gvk::new(SOURCES, kind)).to_vec()
    }

    fn related(&self, object: &HelmReleaseObject) -> BTreeSet<ObjectRef> {
        object.spec().ok().and_then(|spec| object.source(spec)).into_iter().collect()
    }

    fn related_state(&self, source: &Value) -> Value {
        source_state(source)
    }

    fn interval(&self, object: &HelmReleaseObject) -> Option<Duration> {
        object.spec().ok().map(options::interval)
    }

    fn is_suspended(&self, object: &HelmReleaseObject) -> bool {
        object.suspended
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmReleaseObject,
    ) -> Result<Reconciled, ReconcileError> {
        let spec = object.spec()?;
        options::check_expressions(spec).await?;
        let source = self.source_for(object, spec)?;
        chart_object::apply(pass, object, spec, &source).await?;
        let artifact = Artifact::of(&source, pass.related.get(&source).map(|found| &**found))?;
        let operator = pass.runner_of_operator().clone();
        let mut inputs = self.inputs((object, spec), &operator, true, &mut pass.references).await?;
        let runner = pass.adopt_runner(inputs.runner(object));
        let drift = options::drift_mode(spec);
        let mut status = status_of(&pass.object);
        let (force, reset) = (object.requests.forces(&status), object.requests.resets(&status));
        let generation = object.generation;
        // An unchanged release costs one request, the write of the status, instead of five.
        let of_images = object.images.memo();
        let memo = Arc::new(json!([
            generation,
            artifact.digest,
            artifact.revision,
            inputs.config_digest,
            of_images
        ]));
        // The pass before may have failed for an annotation that is gone: its conditions are not to stay.
        if pass.memo.as_ref() == Some(&memo)
            && object.ready
            && !force
            && !reset
            && runner.engine().unchanged_revision(&inputs.id, drift).is_some()
        {
            object.requests.note(&mut status);
            pass.replace_status(&status).await?;
            let requeue = Requeue::After(options::interval(spec));
            return Ok(Reconciled { memo: Some(memo), ..Reconciled::new(true, requeue) });
        }
        let chart = chart_artifact::load(&self.artifacts, &artifact).await?;
        pass.note_image_values(inputs.set_images(object, spec, &chart)?);
        self.check_records(pass, runner.engine(), (&inputs.id, &inputs.storage), &mut status).await?;
        let mut begun = self.names.claim(pass, &runner, (object, spec), &self.target(object)?).await?;
        if let Some(changed) = target_changed(&status, spec, &inputs, chart.chart().name()) {
            tracing::info!(object = %pass.reference, "the {changed} has changed: uninstalling the current release");
            self.uninstall_current(pass, object, spec, &status).await?;
            begun = None;
            forget_release(&mut status);
            pass.replace_status(&status).await?;
        }
        let PassInputs { id, storage, values, config_digest, .. } = inputs;
        status.storage_namespace = storage;
        note_attempt(&mut status, generation, &chart.chart().metadata.version, &config_digest, reset);
        chart_artifact::oci_digest(&artifact).clone_into(&mut status.last_attempted_revision_digest);
        object.requests.note(&mut status);
        if actions::conditions(&mut status, generation)
            .get(READY)
            .is_some_and(|ready| PREREQUISITES.contains(&ready.reason.as_str()))
        {
            let text = "reconciliation in progress";
            actions::conditions(&mut status, generation).set(READY, Truth::Unknown, "Progressing", text);
        }
        let values = preserved(spec, &status, values, &runner, &id).await?;
        let mut release = ReleasePass {
            oci_digest: chart_artifact::oci_digest(&artifact).to_owned(),
            pass,
            object,
            runner,
            spec,
            id,
            metadata: chart.chart().metadata.clone(),
            crds: actions::crds_of(&chart)?,
            chart: Some(chart),
            values,
            config_digest,
            status,
            force,
            begun,
            written: None,
            failure: None,
        };
        let result = release.run().await;
        let (status, failure) = (release.status, release.failure);
        pass.replace_status(&status).await?;
        let reconciled = result?;
        let memo = reconciled.ready.then_some(memo);
        // A failed test that is ignored leaves the release ready.
        let failure = failure.filter(|_| !reconciled.ready);
        Ok(Reconciled { memo, failure, ..reconciled })
    }

    async fn uninstall(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmReleaseObject,
    ) -> Result<(), ReconcileError> {
        if object.suspended {
            return Ok(());
        }
        let spec = object.spec()?;
        let mut status = status_of(&pass.object);
        if status.history.is_empty() && self.target(object).is_err() {
            // Nothing was released with an account that is no name.
            return chart_object::delete_all(pass, object, spec).await;
        }
        let (id, storage) = (object.release_id(spec), object.storage_namespace(spec));
        if status.storage_namespace == storage && id.namespace != storage {
            let runner = self.runner_for(pass, object, spec, &storage).await?;
            self.check_records(pass, runner.engine(), (&id, &storage), &mut status).await?;
        }
        self.uninstall_current(pass, object, spec, &status).await?;
        chart_object::delete_all(pass, object, spec).await
    }

    fn status(&self, object: &HelmReleaseObject, before: &Value, report: &Report<'_>) -> Value {
        let mut status = read_status(before);
        let generation = object.generation;
        object.requests.note(&mut status);
        let mut conditions = actions::conditions(&mut status, generation);
        match report {
            Report::Suspended => return json!({"lastHandledReconcileAt": status.last_handled_reconcile_at}),
            Report::Progressing | Report::Released(_) => {
                conditions.set(RECONCILING, Truth::True, "Progressing", "Fulfilling prerequisites");
            }
            Report::DependencyNotReady(names) => {
                let names: Vec<String> =
                    names.iter().map(|name| format!("dependency '{name}' is not ready")).collect();
                conditions.set(RECONCILING, Truth::True, "Progressing", "Fulfilling prerequisites");
                conditions.set(READY, Truth::False, "DependencyNotReady", &names.join(", "));
            }
            Report::Failed { error, .. } => {
                let (reason, stalls) = match error {
                    ReconcileError::Reason { reason, disposition, .. } => {
                        (*reason, *disposition == Disposition::Stall)
                    }
                    ReconcileError::Config(_) => ("ReconcileError", true),
                    _ => ("ReconcileError", false),
                };
                conditions.set(READY, Truth::False, reason, &error.to_string());
                match stalls {
                    true => conditions.set(STALLED, Truth::True, reason, &error.to_string()),
                    false => {
                        conditions.set(RECONCILING, Truth::True, "ProgressingWithRetry", &error.to_string());
                    }
                }
                if stalls {
                    status.observed_generation = Some(generation);
                }
            }
        }
        json!({
            "conditions": status.conditions,
            "observedGeneration": status.observed_generation,
            "lastHandledReconcileAt": status.last_handled_reconcile_at,
        })
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        let (event_type, reason, note) = match report {
            Report::DependencyNotReady(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                (
                    EventType::Normal,
                    "DependencyNotReady",
                    format!("dependencies are not ready: {}", names.join(", ")),
                )
            }
            // A source that is not ready yet will be.
            Report::Failed { error, .. } if error.is_wait() => return None,
            Report::Failed { error, .. } => (EventType::Warning, error.reason(), error.to_string()),
            Report::Progressing | Report::Released(_) | Report::Suspended => return None,
        };
        Some(EventNote { event_type, reason, action: "Reconcile", note, annotations: BTreeMap::new() })
    }
}

/// Reasons of Ready that end when the prerequisites are there.
const PREREQUISITES: [&str; 6] = [
    "DependencyNotReady",
    "SourceNotReady",
    "ArtifactFailed",
    "ValuesError",
    "AccessDenied",
    "ReconcileError",
];

impl HelmReleases {
    /// Repairs the records of a release that are stored in another namespace, once in a process.
    async fn check_records(
        &self,
        pass: &ReconcilePass,
        engine: &Engine,
        (id, storage): (&ReleaseId, &str),
        status: &mut HelmReleaseStatus,
    ) -> Result<(), ReconcileError> {
        let key = format!("{} {storage} {id}", engine.cluster().server());
        let checked = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if storage != id.namespace && !checked().contains(&key) {
            record_repair::repair(pass, engine, id, storage, status).await?;
            checked().insert(key);
        }
        Ok(())
    }

    /// The runner of a release whose records are in `storage`.
    async fn runner_for(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmReleaseObject,
        spec: &HelmReleaseSpec,
        storage: &str,
    ) -> Result<ReleaseRunner, ReconcileError> {
        let operator = pass.runner_of_operator().clone();
        let runner = self.runner_on_cluster((object, spec), &operator, &mut pass.references).await?;
        let runner = runner.acting_for(&self.target(object)?, &object.namespace)?;
        Ok(pass.adopt_runner(runner.with_storage_namespace(storage, storage != object.namespace)))
    }

    /// Uninstalls the release that the status shows. One that it does not show was made by a process that ended before it wrote the
    /// status; without a storage namespace there, only what was made for this very object counts.
    async fn uninstall_current(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmReleaseObject,
        spec: &HelmReleaseSpec,
        status: &HelmReleaseStatus,
    ) -> Result<(), ReconcileError> {
        let fallback = object.release_id(spec);
        let id =
            status.history.first().map_or(fallback, |known| ReleaseId::new(&known.namespace, &known.name));
        let (storage, only_own) = match status.storage_namespace.as_str() {
            // In another cluster nothing is made before the status says so.
            "" if spec.kube_config.is_some() => return Ok(()),
            "" => (object.storage_namespace(spec), true),
            storage => (storage.to_owned(), false),
        };
        let runner = self.runner_for(pass, object, spec, &storage).await?;
        let shown = !only_own && !status.history.is_empty();
        if !shown && !unrecorded::is_released(&runner, &id, (object, status), only_own).await? {
            return Ok(());
        }
        if spec.kube_config.is_none()
            && self.names.is_of_another(&runner, &ReleaseKey::new(&id, &storage), object).await
        {
            tracing::info!(object = %pass.reference, release = %id, "not uninstalled: the release is another object's");
            return Ok(());
        }
        let is_own = |head: &RecordHead| unrecorded::is_own_record(head, (object, status), only_own);
        let request = remediation::uninstall_request(spec, id);
        match pass.uninstall_readable(&runner, &request, is_own).await {
            Ok(_) | Err(ReconcileError::Engine(EngineError::NotFound | EngineError::AlreadyDeleted(_))) => {
                Ok(())
            }
            Err(error) => Err(failed("UninstallFailed", format!("Helm uninstall failed: {error}"))),
        }
    }
}
