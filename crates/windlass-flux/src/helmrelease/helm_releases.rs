//! The front end of HelmReleases: what is watched, and one pass over one object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chart_compat::data::Map;
use serde_json::{Value, json};

use super::actions::{self, OWNER, ReleasePass};
use super::chart_artifact::{Artifact, ArtifactClient, LocalArtifacts, failed};
use super::release_conditions::{READY, RECONCILING, STALLED, Truth};
use super::remote_cluster::{OwnNamespace, RemoteClusters};
use super::{
    chart_object, dependency, digest, names, options, record_repair, remediation, unrecorded, values_lookup,
};
use crate::gotk_metrics;
use flux_api::api_names::{FINALIZER, FORCE_AT, REQUESTED_AT, RESET_AT, SOURCES};
use flux_api::common::failure_state;
use flux_api::helm_release::{HelmReleaseSpec, KubeConfigReference};
use flux_api::helm_release_status::HelmReleaseStatus;
use windlass_cluster::{Cluster, Gvk, ObjectRef};
use windlass_controller::{
    AccountName, DurationMetric, EventNote, EventType, FrontEnd, ReconcileError, ReconcilePass, Reconciled,
    References, ReleaseRunner, ReleaseTarget, Report, Requeue,
};
use windlass_engine::{Disposition, Engine, EngineError, ReleaseId};
use windlass_render::RenderBounds;

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
    options: HelmReleaseOptions,
    pub(super) artifacts: ArtifactClient,
    remotes: RemoteClusters,
    /// Releases whose records were checked in this process: cluster, namespace of the records, and release.
    checked: Mutex<BTreeSet<String>>,
}

impl HelmReleases {
    /// A front end without a release.
    #[must_use]
    pub fn new(options: HelmReleaseOptions) -> Self {
        Self {
            artifacts: ArtifactClient::new(options.no_local_addresses),
            options,
            remotes: RemoteClusters::default(),
            checked: Mutex::default(),
        }
    }

    /// The same for a process that has its own sources: their artifacts are read from its disk.
    #[must_use]
    pub fn with_local_artifacts(mut self, local: LocalArtifacts) -> Self {
        self.artifacts.local = Some(local);
        self
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn spec_of(object: &Value) -> Result<HelmReleaseSpec, ReconcileError> {
    HelmReleaseSpec::read(&object["spec"]).map_err(|e| ReconcileError::Config(format!("spec: {e}")))
}

pub(super) fn status_of(object: &Value) -> HelmReleaseStatus {
    // What cannot be read was not written by a helm-controller of this version: it is written anew.
    serde_json::from_value(object["status"].clone()).unwrap_or_default()
}

/// The source that has the chart: its kind and name.
pub(super) fn source_of(object: &Value, spec: &HelmReleaseSpec) -> Option<ObjectRef> {
    let own = text(&object["metadata"]["namespace"]);
    if let Some(reference) = &spec.chart_ref {
        let version = reference.api_version.as_deref().unwrap_or(SOURCES);
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        return Some(ObjectRef::new(Gvk::new(version, &reference.kind), Some(namespace), &reference.name));
    }
    let template = spec.chart.as_ref()?;
    let namespace = template.spec.source_ref.namespace.as_deref().unwrap_or(own);
    let name = format!("{own}-{}", text(&object["metadata"]["name"]));
    Some(ObjectRef::new(Gvk::new(SOURCES, "HelmChart"), Some(namespace), &name))
}

impl FrontEnd for HelmReleases {
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

    fn releases(&self, object: &Value) -> BTreeSet<ReleaseId> {
        // Releases of other clusters have no watch, and share no names with those of this one.
        let spec = HelmReleaseSpec::read(&object["spec"]).ok().filter(|spec| spec.kube_config.is_none());
        spec.map(|spec| names::release_id(&object["metadata"], &spec)).into_iter().collect()
    }

    fn target(&self, object: &Value) -> Result<ReleaseTarget, ReconcileError> {
        // The default account is one of this cluster: on a remote cluster only the object's own name counts, as helm-controller.
        let default = self.options.default_service_account.as_ref();
        let default = default.filter(|_| object["spec"]["kubeConfig"].is_null());
        // An account of the object's own namespace, wherever the release is.
        let namespace = object["metadata"]["namespace"].as_str();
        ReleaseTarget::of_tenant(namespace, object["spec"]["serviceAccountName"].as_str(), default)
    }

    fn dependencies(&self, object: &Value) -> BTreeSet<String> {
        dependency::keys(object)
    }

    fn check_dependencies(&self, object: &Value) -> Result<(), ReconcileError> {
        if self.options.no_cross_namespace_refs { dependency::check_namespaces(object) } else { Ok(()) }
    }

    fn is_dependency_ready(&self, object: &Value, other: &Value, _: bool) -> Option<bool> {
        dependency::expression_for(object, other).is_none().then(|| dependency::is_ready(other))
    }

    async fn fits_dependency_rule(&self, object: &Value, other: &Value) -> Result<bool, ReconcileError> {
        dependency::fits_expression(object, other).await
    }

    fn related_kinds(&self) -> Vec<Gvk> {
        ["HelmChart", "OCIRepository", "ExternalArtifact"].map(|kind| Gvk::new(SOURCES, kind)).to_vec()
    }

    fn related(&self, object: &Value) -> BTreeSet<ObjectRef> {
        let spec = HelmReleaseSpec::read(&object["spec"]);
        spec.ok().and_then(|spec| source_of(object, &spec)).into_iter().collect()
    }

    fn related_state(&self, source: &Value) -> Value {
        let status = &source["status"];
        json!([
            status["artifact"]["digest"],
            status["artifact"]["revision"],
            status["observedGeneration"] == source["metadata"]["generation"],
            status["artifact"]["digest"].is_null().then(|| failure_state(source)),
        ])
    }

    fn interval(&self, object: &Value) -> Option<Duration> {
        spec_of(object).ok().map(|spec| options::interval(&spec))
    }

    fn is_suspended(&self, object: &Value) -> bool {
        object["spec"]["suspend"] == true
    }

    async fn reconcile(&self, pass: &mut ReconcilePass) -> Result<Reconciled, ReconcileError> {
        let spec = spec_of(&pass.object)?;
        options::check_expressions(&spec).await?;
        let source = source_of(&pass.object, &spec)
            .ok_or_else(|| ReconcileError::Config("spec: neither chart nor chartRef is set".to_owned()))?;
        self.check_namespace(pass.reference.namespace.as_deref(), &source)?;
        chart_object::apply(pass, &spec, &source).await?;
        let found = pass.related.get(&source).cloned();
        let name = format!("{}/{}", source.namespace.as_deref().unwrap_or_default(), source.name);
        let not_found = || ReconcileError::Reason {
            reason: "SourceNotReady",
            text: format!("{} '{name}' is not ready: it does not exist yet", source.gvk.kind),
            disposition: Disposition::Dependency { failed: false },
        };
        let artifact = Artifact::of(&*found.ok_or_else(not_found)?, &source.gvk.kind, &name)?;
        let (client, namespace) =
            (pass.client().clone(), pass.reference.namespace.clone().unwrap_or_default());
        let values = values_lookup::resolve(&client, &namespace, &spec, &mut pass.references).await?;
        let config_digest = digest::config_digest(&values);
        let id = names::release_id(&pass.object["metadata"], &spec);
        let storage = names::storage_namespace(&pass.object["metadata"], &spec);
        let runner = self.runner_for(pass, &spec, &storage).await?;
        let annotations = pass.object.clone();
        let requests = Requests::of(&annotations);
        let drift = options::drift_mode(&spec);
        let mut status = status_of(&pass.object);
        let force = requests.is_new(FORCE_AT, &status.last_handled_force_at);
        let reset = requests.is_new(RESET_AT, &status.last_handled_reset_at);
        let generation = pass.object["metadata"]["generation"].as_i64().unwrap_or_default();
        // An unchanged release costs one request, the write of the status, instead of five.
        let memo = Arc::new(json!([generation, artifact.digest, artifact.revision, config_digest]));
        if pass.memo.as_ref() == Some(&memo)
            && !force
            && !reset
            && runner.engine().unchanged_revision(&id, drift).is_some()
        {
            requests.note(&mut status);
            pass.replace_status(&status).await?;
            let requeue = Requeue::After(options::interval(&spec));
            return Ok(Reconciled { memo: Some(memo), ..Reconciled::new(true, requeue) });
        }
        let chart = self.artifacts.load(&artifact).await?;
        self.check_records(pass, runner.engine(), (&id, &storage), &mut status).await?;
        if let Some(changed) = target_changed(&status, &spec, &id, &storage, chart.chart().name()) {
            tracing::info!(object = %pass.reference, "the {changed} has changed: uninstalling the current release");
            self.uninstall_current(pass, &spec, &status).await?;
            status.history.clear();
            (status.failures, status.install_failures, status.upgrade_failures) = (0, 0, 0);
            status.storage_namespace.clear();
            pass.replace_status(&status).await?;
        }
        status.storage_namespace = storage;
        note_attempt(&mut status, generation, &chart.chart().metadata.version, &config_digest, reset);
        artifact.oci_digest().clone_into(&mut status.last_attempted_revision_digest);
        requests.note(&mut status);
        if actions::conditions(&mut status, generation)
            .get(READY)
            .is_some_and(|ready| PREREQUISITES.contains(&ready.reason.as_str()))
        {
            let text = "reconciliation in progress";
            actions::conditions(&mut status, generation).set(READY, Truth::Unknown, "Progressing", text);
        }
        let values = preserved(&spec, &status, values, &runner, &id).await?;
        let mut release = ReleasePass {
            oci_digest: artifact.oci_digest().to_owned(),
            pass,
            runner,
            spec: &spec,
            id,
            metadata: chart.chart().metadata.clone(),
            crds: actions::crds_of(&chart)?,
            chart: Some(chart),
            values,
            config_digest,
            status,
            force,
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

    async fn uninstall(&self, pass: &mut ReconcilePass) -> Result<(), ReconcileError> {
        if self.is_suspended(&pass.object) {
            return Ok(());
        }
        let spec = spec_of(&pass.object)?;
        let mut status = status_of(&pass.object);
        if status.history.is_empty() && self.target(&pass.object).is_err() {
            // Nothing was released with an account that is no name.
            return chart_object::delete_all(pass, &spec).await;
        }
        let id = names::release_id(&pass.object["metadata"], &spec);
        let storage = names::storage_namespace(&pass.object["metadata"], &spec);
        if status.storage_namespace == storage && id.namespace != storage {
            let runner = self.runner_for(pass, &spec, &storage).await?;
            self.check_records(pass, runner.engine(), (&id, &storage), &mut status).await?;
        }
        self.uninstall_current(pass, &spec, &status).await?;
        chart_object::delete_all(pass, &spec).await
    }

    fn status(&self, object: &Value, report: &Report<'_>) -> Value {
        let mut status = status_of(object);
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        Requests::of(object).note(&mut status);
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

    fn event(&self, _: &Value, report: &Report<'_>) -> Option<EventNote> {
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

    pub(super) fn check_namespace(
        &self,
        own: Option<&str>,
        source: &ObjectRef,
    ) -> Result<(), ReconcileError> {
        if !self.options.no_cross_namespace_refs || source.namespace.as_deref() == own {
            return Ok(());
        }
        let namespace = source.namespace.as_deref().unwrap_or_default();
        Err(ReconcileError::Reason {
            reason: "AccessDenied",
            text: format!(
                "can't access '{}/{namespace}/{}', cross-namespace references have been blocked",
                source.gvk.kind, source.name
            ),
            disposition: Disposition::Stall,
        })
    }

    /// The runner of a release whose records are in `storage`. In the object's own namespace they are the operator's business;
    /// elsewhere they are read and written with the rights of the object's ServiceAccount.
    async fn runner_for(
        &self,
        pass: &mut ReconcilePass,
        spec: &HelmReleaseSpec,
        storage: &str,
    ) -> Result<ReleaseRunner, ReconcileError> {
        let own = pass.reference.namespace.as_deref() == Some(storage);
        let runner = match &spec.kube_config {
            Some(reference) => {
                let namespace = pass.reference.namespace.clone().unwrap_or_default();
                let (client, bounds) = (pass.client().clone(), pass.runner_of_operator().render_bounds());
                let runner = self
                    .remote_runner((&client, bounds), &namespace, reference, &mut pass.references)
                    .await?;
                pass.adopt_runner(self, &runner, &namespace)?
            }
            None => pass.runner(self)?,
        };
        Ok(runner.with_storage_namespace(storage, !own))
    }

    /// The runner on another cluster, as the operator of it.
    pub(super) async fn remote_runner(
        &self,
        (client, bounds): (&Cluster, RenderBounds),
        namespace: &str,
        reference: &KubeConfigReference,
        references: &mut References,
    ) -> Result<ReleaseRunner, ReconcileError> {
        let default_account = self.options.default_kubeconfig_service_account.as_ref();
        let own = OwnNamespace { client, namespace, references, bounds, default_account };
        self.remotes.runner(own, reference).await
    }

    /// Uninstalls the release that the status shows. One that it does not show was made by a process that ended before it wrote the
    /// status; without a storage namespace there, only what was made for this very object counts.
    async fn uninstall_current(
        &self,
        pass: &mut ReconcilePass,
        spec: &HelmReleaseSpec,
        status: &HelmReleaseStatus,
    ) -> Result<(), ReconcileError> {
        let fallback = names::release_id(&pass.object["metadata"], spec);
        let id =
            status.history.first().map_or(fallback, |known| ReleaseId::new(&known.namespace, &known.name));
        let (storage, only_own) = match status.storage_namespace.as_str() {
            // In another cluster nothing is made before the status says so.
            "" if spec.kube_config.is_some() => return Ok(()),
            "" => (names::storage_namespace(&pass.object["metadata"], spec), true),
            storage => (storage.to_owned(), false),
        };
        let runner = self.runner_for(pass, spec, &storage).await?;
        let shown = !only_own && !status.history.is_empty();
        if !shown && !unrecorded::is_released(&runner, &id, &pass.object, only_own).await? {
            return Ok(());
        }
        match runner.uninstall(&remediation::uninstall_request(spec, id)).await {
            Ok(_) | Err(ReconcileError::Engine(EngineError::NotFound | EngineError::AlreadyDeleted(_))) => {
                Ok(())
            }
            Err(error) => Err(failed("UninstallFailed", format!("Helm uninstall failed: {error}"))),
        }
    }
}

/// What of the target is not what the current release has; `None` if it is the same, or there is no release.
pub(super) fn target_changed(
    status: &HelmReleaseStatus,
    spec: &HelmReleaseSpec,
    id: &ReleaseId,
    storage: &str,
    chart: &str,
) -> Option<&'static str> {
    let current = status.history.first().filter(|_| !status.storage_namespace.is_empty())?;
    let in_place = spec.upgrade.chart_name_change_strategy.as_deref() == Some("InPlaceUpdate");
    [
        ("storage namespace", storage != status.storage_namespace),
        ("release namespace", id.namespace != current.namespace),
        ("release name", id.name != current.name),
        ("chart name", chart != current.chart_name && !in_place),
    ]
    .into_iter()
    .find_map(|(what, changed)| changed.then_some(what))
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

/// Annotations that ask for something once.
struct Requests<'a>(&'a Value);

impl<'a> Requests<'a> {
    fn of(object: &'a Value) -> Self {
        Self(&object["metadata"]["annotations"])
    }

    fn get(&self, name: &str) -> &'a str {
        text(&self.0[name])
    }

    /// Whether an annotation goes with the request to reconcile, and was not handled before.
    fn is_new(&self, name: &str, handled: &str) -> bool {
        let asked = self.get(name);
        !asked.is_empty() && asked == self.get(REQUESTED_AT) && asked != handled
    }

    fn note(&self, status: &mut HelmReleaseStatus) {
        let fields = [
            (REQUESTED_AT, &mut status.last_handled_reconcile_at),
            (FORCE_AT, &mut status.last_handled_force_at),
            (RESET_AT, &mut status.last_handled_reset_at),
        ];
        for (name, field) in fields {
            if !self.get(name).is_empty() {
                self.get(name).clone_into(field);
            }
        }
    }
}
