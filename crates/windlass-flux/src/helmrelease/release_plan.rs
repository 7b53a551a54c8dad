//! What a pass over a HelmRelease would do, object by object, without a write.
//!
//! Goes the way of a pass: source, chart, values, state, action. Where a pass writes, this asks the engine for its plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use chart_compat::render::CompiledChart;
use serde::Serialize;
use serde_json::Value;

use super::chart_artifact;
use super::helm_releases::HelmReleases;
use super::object::{HelmReleaseObject, status_of};
use super::pass_inputs::{PassInputs, decide, forget_release, note_attempt, preserved, target_changed};
use super::release_inputs::{ReleaseInputs, is_of_chart};
use super::release_state::{Action, DesiredRelease, ReleaseState};
use super::remediation::uninstall_request;
use super::{dependency, names, options, repository_chart, stored_release};
use flux_api::helm_release::HelmReleaseSpec;
use flux_api::helm_release_status::HelmReleaseStatus;
use windlass_artifacts::Artifact;
use windlass_cluster::{Cluster, ObjectMeta};
use windlass_controller::{FrontEnd as _, ReconcileError, ReleaseRunner, contains};
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{DriftMode, Mode, Preview, ReleaseId, RollbackRequest};
use windlass_fetch::location::Location;

pub use repository_chart::CHART_UNAVAILABLE;

/// What a pass would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PassAction {
    /// Nothing.
    None,
    Install,
    Upgrade,
    /// The release is uninstalled where it was, and installed where it shall be.
    Reinstall,
    /// Its tests run.
    Test,
    Rollback,
    Uninstall,
    /// Objects are corrected, without a new revision.
    CorrectDrift,
    /// Nothing, because retries are exhausted.
    Stall,
}

/// The plan of a pass.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleasePlan {
    /// `NAMESPACE/NAME` of the HelmRelease.
    pub object: String,
    /// `NAMESPACE/NAME` of the release.
    pub release: String,
    /// `NAME@VERSION` of the chart.
    pub chart: String,
    /// The chart of the newest revision; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_chart: Option<String>,
    pub action: PassAction,
    /// Why.
    pub reason: String,
    /// The engine's plans, in order.
    pub plans: Vec<Preview>,
    /// What else is to know.
    pub notes: Vec<String>,
}

impl ReleasePlan {
    /// Whether a pass would do something.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(self.action, PassAction::None | PassAction::Stall)
    }
}

/// What a plan is made of.
pub struct PlanInputs<'a> {
    pub runner: &'a ReleaseRunner,
    /// The HelmRelease with the spec to plan, and with the status and generation that a pass would see.
    pub object: &'a Value,
    /// A chart in place of the source's.
    pub chart: Option<Arc<CompiledChart>>,
    /// Whether the ServiceAccount of the HelmRelease is impersonated, as in a pass.
    pub impersonates: bool,
}

/// One plan on its way.
struct Planner<'a> {
    object: &'a HelmReleaseObject,
    spec: &'a HelmReleaseSpec,
    runner: ReleaseRunner,
    id: ReleaseId,
    status: HelmReleaseStatus,
    newest: Option<Record>,
    plan: ReleasePlan,
}

impl HelmReleases {
    /// Plans a pass over a HelmRelease. Writes nothing.
    ///
    /// # Errors
    /// As a pass: the source is not ready, values are missing, the chart does not render.
    pub async fn plan(&self, inputs: PlanInputs<'_>) -> Result<ReleasePlan, ReconcileError> {
        let PlanInputs { runner: operator, object, chart, impersonates } = inputs;
        let reference = ObjectMeta::of(object).reference(self.kind());
        let (status, object) = (status_of(object), &HelmReleaseObject::read(object));
        let spec = object.spec()?;
        let chart = match chart {
            Some(chart) => chart,
            None => self.chart_of(operator.engine().operator_client(), object, spec).await?,
        };
        let mut inputs = self.inputs((object, spec), operator, impersonates, &mut BTreeMap::new()).await?;
        inputs.set_images(object, spec, &chart)?;
        let metadata = &chart.chart().metadata;
        let mut planner = Planner {
            plan: ReleasePlan {
                object: format!("{}/{}", object.namespace, object.name),
                release: inputs.id.to_string(),
                chart: format!("{}@{}", metadata.name, metadata.version),
                current_chart: status.history.first().map(|latest| latest.chart()),
                action: PassAction::None,
                reason: String::new(),
                plans: Vec::new(),
                notes: Vec::new(),
            },
            runner: match spec.kube_config {
                None => inputs.runner(object).for_object(&reference),
                Some(_) => inputs.runner(object),
            },
            status,
            newest: None,
            object,
            spec,
            id: inputs.id.clone(),
        };
        planner.note_prerequisites();
        planner.newest = planner.runner.engine().history_of(&planner.id).await?.newest().cloned();
        if let Some(changed) = target_changed(&planner.status, spec, &inputs, &metadata.name) {
            let former = inputs.runner_of(object, &planner.status.storage_namespace);
            planner.uninstall_former(&former, changed).await?;
        }
        let PassInputs { id, values, config_digest, .. } = inputs;
        note_attempt(&mut planner.status, object.generation, &metadata.version, &config_digest, false);
        let values = preserved(spec, &planner.status, values, &planner.runner, &id).await?;
        let desired = DesiredRelease::new(spec, object.generation, metadata, &config_digest, false);
        let inputs = ReleaseInputs { object, spec, id: &id, chart: Arc::clone(&chart), values: &values };
        planner.run(&inputs, &desired).await
    }

    /// The chart that a pass would load once source-controller has done its part.
    async fn chart_of(
        &self,
        client: &Cluster,
        object: &HelmReleaseObject,
        spec: &HelmReleaseSpec,
    ) -> Result<Arc<CompiledChart>, ReconcileError> {
        let source = self.source_for(object, spec)?;
        let live = client.get(&source).await?;
        if let Some(template) = &spec.chart {
            let wanted = names::helm_chart(object, spec, template, &source);
            if !live.as_ref().is_some_and(|live| gives_same_chart(&live["spec"], &wanted["spec"])) {
                return repository_chart::fetch(client, &object.namespace, template).await;
            }
        }
        let artifact = Artifact::of(&source, live.as_ref())?;
        let bytes = match chart_artifact::fetch(&self.artifacts, &artifact).await {
            Ok(bytes) => bytes,
            // Outside the cluster its Services have no address.
            Err(error) => match service_of(&artifact.url) {
                Some((namespace, service, port, path)) => {
                    let through = client.get_from_service(&namespace, &service, port, &path).await;
                    through.map_err(|e| {
                        chart_artifact::failed(
                            "ArtifactFailed",
                            format!("{error}; through the API server: {e}"),
                        )
                    })?
                }
                None => return Err(error),
            },
        };
        chart_artifact::compile(&artifact, bytes).await
    }
}

/// Whether a HelmChart as it is gives the chart of a wanted one: how often it is reconciled does not count.
fn gives_same_chart(live: &Value, wanted: &Value) -> bool {
    let mut wanted = wanted.clone();
    if let Some(fields) = wanted.as_object_mut() {
        fields.remove("interval");
    }
    let files = |spec: &Value| spec["valuesFiles"].as_array().cloned().unwrap_or_default();
    files(live) == files(&wanted) && contains(live, &wanted)
}

/// Namespace, Service, port and path of a URL inside the cluster.
fn service_of(url: &str) -> Option<(String, String, u16, String)> {
    let location = Location::parse(url).ok()?;
    let host = location.hostname().trim_end_matches('.').to_owned();
    let mut labels = host.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    if location.scheme != "http" || labels.next() != Some("svc") {
        return None;
    }
    let port = location.host.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(80);
    Some((namespace.to_owned(), service.to_owned(), port, location.path))
}

impl Planner<'_> {
    fn note_prerequisites(&mut self) {
        let notes = &mut self.plan.notes;
        if self.spec.suspend {
            notes.push("the HelmRelease is suspended: nothing happens until it is resumed".to_owned());
        }
        if !self.spec.depends_on.is_empty() {
            let name = |dependency| dependency::key_of(self.object, dependency);
            let names: Vec<String> = self.spec.depends_on.iter().map(name).collect();
            notes.push(format!("a pass begins when {} are ready", names.join(", ")));
        }
    }

    /// The release is uninstalled where it was.
    async fn uninstall_former(
        &mut self,
        former: &ReleaseRunner,
        changed: &str,
    ) -> Result<(), ReconcileError> {
        let Some(latest) = self.status.history.first() else { return Ok(()) };
        let id = ReleaseId::new(&latest.namespace, &latest.name);
        let request = uninstall_request(self.spec, id.clone());
        self.plan.plans.push(former.engine().plan_uninstall(&request).await?);
        self.plan.action = PassAction::Reinstall;
        self.plan.reason = format!("the {changed} has changed");
        if id == self.id {
            let note = "objects that both charts have are deleted and created again; the second plan compares them with what \
                        is live now";
            self.plan.notes.push(note.to_owned());
        }
        // As after the uninstall.
        self.newest = self.newest.take().filter(|_| id != self.id);
        forget_release(&mut self.status);
        Ok(())
    }

    async fn run(
        mut self,
        inputs: &ReleaseInputs<'_>,
        desired: &DesiredRelease<'_>,
    ) -> Result<ReleasePlan, ReconcileError> {
        let engine = self.runner.engine();
        let (state, action) = decide(engine, &self.id, self.newest.as_ref(), &self.status, desired).await?;
        if self.plan.reason.is_empty() {
            self.plan.reason = self.reason(state, desired);
        }
        match action {
            Action::Install | Action::Upgrade | Action::Resume => self.release(action, inputs).await?,
            Action::CheckDrift => self.drift().await?,
            Action::Test => {
                self.plan.action = PassAction::Test;
                self.plan.notes.push("its tests run".to_owned());
            }
            Action::Rollback(to) => {
                self.plan.action = PassAction::Rollback;
                let request = RollbackRequest {
                    id: self.id.clone(),
                    revision: to,
                    options: options::rollback_options(self.spec),
                    description: None,
                    cause: String::new(),
                };
                self.plan.plans.push(self.runner.engine().plan_rollback(&request).await?);
            }
            Action::UninstallFailed | Action::Uninstall => {
                self.plan.action = PassAction::Uninstall;
                let request = uninstall_request(self.spec, self.id.clone());
                self.plan.plans.push(self.runner.engine().plan_uninstall(&request).await?);
            }
            Action::Stall(reason) => {
                self.plan.action = PassAction::Stall;
                self.plan.notes.push(format!("it stays stalled: {reason}"));
            }
            Action::StateError(found) => {
                let text = format!("unable to determine state for release with status '{found}'");
                return Err(chart_artifact::failed("StateError", text));
            }
        }
        Ok(self.plan)
    }

    async fn release(&mut self, action: Action, inputs: &ReleaseInputs<'_>) -> Result<(), ReconcileError> {
        let pending = self.newest.as_ref().map(|record| record.info.status);
        let installs = action == Action::Install || pending == Some(ReleaseStatus::PendingInstall);
        let mut spec = inputs.release_spec(action, installs)?;
        let reinstalls = self.plan.action == PassAction::Reinstall;
        if reinstalls {
            // The former release is still stored.
            spec.options.mode = Mode::UpgradeInstall;
        } else {
            self.plan.action = if installs { PassAction::Install } else { PassAction::Upgrade };
        }
        let request = self.runner.preview(spec).await?;
        self.plan.plans.push(self.runner.engine().plan(&request).await?);
        Ok(())
    }

    async fn drift(&mut self) -> Result<(), ReconcileError> {
        let own = stored_release::drift_options(self.runner.engine(), &self.id, self.spec).await?;
        let mode = own.drift.mode;
        if mode == DriftMode::Off {
            return Ok(());
        }
        let preview = stored_release::drifted(self.runner.engine(), &self.id, own).await?;
        if preview.changes.is_empty() {
            return Ok(());
        }
        if mode == DriftMode::Correct {
            self.plan.action = PassAction::CorrectDrift;
            self.plan.reason.clone_from(&preview.reason);
        } else {
            self.plan.notes.push(format!("{}, which is only reported", preview.reason));
        }
        self.plan.plans.push(preview);
        Ok(())
    }

    fn reason(&self, state: ReleaseState, desired: &DesiredRelease<'_>) -> String {
        let revision = self.newest.as_ref().map_or(0, |record| record.version);
        match state {
            ReleaseState::Absent => "the release does not exist".to_owned(),
            ReleaseState::Locked => format!("revision {revision} is pending"),
            ReleaseState::Uninstalling => "its uninstall did not end".to_owned(),
            ReleaseState::Unmanaged => {
                format!("revision {revision} was not made by a HelmRelease controller")
            }
            ReleaseState::Failed => format!("revision {revision} failed"),
            ReleaseState::Untested => format!("revision {revision} was not tested"),
            ReleaseState::InSync => format!("revision {revision} is as desired"),
            ReleaseState::Unknown(status) => format!("revision {revision} has the status {status}"),
            ReleaseState::OutOfSync => {
                let is_other =
                    |record: &Record| !is_of_chart(record, desired.chart_name, desired.chart_version);
                let other_chart = self.newest.as_ref().is_some_and(is_other);
                let latest = self.status.history.first();
                let changes = [
                    ("chart", other_chart),
                    ("values", latest.is_some_and(|latest| latest.config_digest != desired.config_digest)),
                    (
                        "post-renderers",
                        self.status.observed_post_renderers_digest != desired.post_renderers_digest,
                    ),
                    (
                        "common metadata",
                        self.status.observed_common_metadata_digest != desired.common_metadata_digest,
                    ),
                ];
                let changed: Vec<&str> =
                    changes.iter().filter(|(_, changed)| *changed).map(|(what, _)| *what).collect();
                format!("changed: {}", changed.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn services_are_found_in_urls() {
        let found = |url: &str| service_of(url).map(|(n, s, port, path)| format!("{n} {s} {port} {path}"));
        let url = "http://source-controller.flux-system.svc.cluster.local./ocirepository/apps/demo/x.tar.gz";
        assert_eq!(found(url).unwrap(), "flux-system source-controller 80 /ocirepository/apps/demo/x.tar.gz");
        assert_eq!(found("http://a.b.svc:8080/x").unwrap(), "b a 8080 /x");
        for other in ["http://127.0.0.1:80/x", "https://a.b.svc/x", "http://a.b.example/x", "x"] {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn a_chart_is_fetched_anew_if_its_template_changes() {
        let live = json!({"chart": "web", "version": "1.x", "sourceRef": {"kind": "HelmRepository", "name": "r"}, "interval": "1m",
            "reconcileStrategy": "ChartVersion", "valuesFiles": ["a.yaml"]});
        let with = |field: &str, value: Value| {
            let mut spec = live.clone();
            spec[field] = value;
            gives_same_chart(&live, &spec)
        };
        assert!(with("interval", json!("1h")));
        assert!(!with("version", json!("2.x")));
        assert!(!with("valuesFiles", json!([])));
        assert!(!with("sourceRef", json!({"kind": "HelmRepository", "name": "other"})));
    }
}
