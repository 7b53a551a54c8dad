//! The actions on a release in one pass: state → action → status, until nothing is left to do.
//!
//! As helm-controller's atomic release: each kind of action runs at most once in a pass, a remediation ends it, and the status is
//! written after each action, and before one that takes long. What the next action is, `release_state` decides; what an action does,
//! the engine. Remediations are `remediation`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chart_compat::chart::Metadata;
use chart_compat::data::Map;
use chart_compat::render::CompiledChart;
use serde_json::Value;

use super::object::HelmReleaseObject;
use super::pass_inputs::decide;
use super::release_conditions::{
    Conditions, DRIFTED, READY, RECONCILING, RELEASED, REMEDIATED, STALLED, TEST_SUCCESS, Truth,
};
use super::release_inputs::ReleaseInputs;
use super::release_state::{self as state, Action, DesiredRelease, ReleaseState};
use super::snapshot;
use super::{event_annotations, options, stored_release, unrecorded};
use flux_api::GoDuration;
use flux_api::helm_release::HelmReleaseSpec;
use flux_api::helm_release_status::{HelmReleaseStatus, Inventory, InventoryEntry, Snapshot, TestHook};
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_controller::{
    EventNote, EventType, ReconcileError, ReconcilePass, Reconciled, ReleaseRunner, ReleaseSpec, Requeue,
    crd_files,
};
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{Disposition, DriftMode, EngineError, History, ReleaseId, ReleaseOutcome, TestRequest};

/// The owner of the releases, and the front end's name.
pub(super) const OWNER: &str = "helmreleases";

/// A release action that takes longer is announced in the status.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(2);

/// The release of one HelmRelease in one pass.
pub(super) struct ReleasePass<'a> {
    pub(super) pass: &'a mut ReconcilePass,
    pub(super) object: &'a HelmReleaseObject,
    pub(super) runner: ReleaseRunner,
    pub(super) spec: &'a HelmReleaseSpec,
    pub(super) id: ReleaseId,
    /// The chart until the release action takes it: a release that waits for readiness must not hold it.
    pub(super) chart: Option<Arc<CompiledChart>>,
    /// Its metadata.
    pub(super) metadata: Metadata,
    /// The objects of its `crds/`.
    pub(super) crds: Vec<ObjectRef>,
    pub(super) values: Map,
    pub(super) config_digest: String,
    pub(super) oci_digest: String,
    pub(super) status: HelmReleaseStatus,
    pub(super) force: bool,
    /// The history, if the pass has just read it.
    pub(super) begun: Option<History>,
    /// The newest record, if this pass has just written it: the release is as applied.
    pub(super) written: Option<Arc<Record>>,
    /// Why an action of this pass failed.
    pub(super) failure: Option<ReconcileError>,
}

/// How an action ended.
#[allow(clippy::large_enum_variant, reason = "an answer that is matched at once")]
pub(super) enum ActionOutcome {
    /// The next state is determined.
    Continue,
    /// The pass ends.
    Stop(Reconciled),
}

impl ReleasePass<'_> {
    pub(super) fn conditions(&mut self) -> Conditions<'_> {
        conditions(&mut self.status, self.object.generation)
    }

    async fn save(&mut self) -> Result<(), ReconcileError> {
        self.pass.replace_status(&self.status).await?;
        Ok(())
    }

    pub(super) fn summarize(&mut self) {
        let (tests, ignore) = (self.spec.test.enable, self.spec.test.ignore_failures);
        self.conditions().summarize(tests, ignore);
        self.status.observed_post_renderers_digest = options::post_renderers_digest(self.spec);
        self.status.observed_common_metadata_digest = options::common_metadata_digest(self.spec);
    }

    pub(super) fn event(
        &self,
        event_type: EventType,
        reason: &'static str,
        note: &str,
        about: BTreeMap<String, String>,
    ) {
        let (note, annotations) = (note.to_owned(), about);
        self.pass.record_event(EventNote { event_type, reason, action: "Reconcile", note, annotations });
    }

    /// Annotations of an Event about what this pass wants to release.
    fn about_chart(&self) -> BTreeMap<String, String> {
        let metadata = &self.metadata;
        event_annotations::of_chart(
            &metadata.version,
            &self.config_digest,
            &metadata.app_version,
            &self.oci_digest,
        )
    }

    pub(super) async fn history(&self) -> Result<History, ReconcileError> {
        Ok(self.runner.engine().history_of(&self.id).await?)
    }

    pub(super) fn failure_text(&self, verb: &str, why: &dyn std::fmt::Display) -> String {
        let chart = &self.metadata;
        format!(
            "Helm {verb} failed for release {} with chart {}@{}: {why}",
            self.id, chart.name, chart.version
        )
    }

    /// Runs actions until the release is as desired, or no more may be done in this pass.
    pub(super) async fn run(&mut self) -> Result<Reconciled, ReconcileError> {
        let mut done: BTreeSet<&str> = BTreeSet::new();
        loop {
            let (newest, two_deployed) = match &self.written {
                Some(record) => (Some(Arc::clone(record)), false),
                None => {
                    let history = match self.begun.take() {
                        Some(begun) => begun,
                        None => self.history().await?,
                    };
                    (history.newest().cloned().map(Arc::new), history.has_two_deployed())
                }
            };
            let unfinished = newest
                .as_deref()
                .and_then(|newest| unrecorded::unfinished_rollback(newest, two_deployed, &self.status));
            if let Some(record) = newest.as_deref().filter(|_| self.written.is_none() && unfinished.is_none())
            {
                self.take_unrecorded(record).await?;
            }
            let (state, action) = self.decide(newest.as_deref(), unfinished).await?;
            tracing::debug!(object = %self.pass.reference, ?state, ?action, "decided");
            // A process ended between its last two writes: the engine supersedes the older revision, and makes no new one.
            let settles = two_deployed && unfinished.is_none();
            let action = match action {
                Action::CheckDrift | Action::Test if settles => Action::Resume,
                action => action,
            };
            // The newest revision is this object's own if its rollback is to be finished.
            if state == ReleaseState::Unmanaged && unfinished.is_none() {
                self.status.history.clear();
            }
            let kind = match action {
                Action::Install | Action::Upgrade | Action::Resume => "release",
                Action::Test => "test",
                Action::Rollback(_) | Action::UninstallFailed | Action::Uninstall => "remediate",
                Action::CheckDrift => return self.check_drift().await,
                Action::Stall(reason) => return self.stall(reason),
                Action::StateError(found) => return self.state_error(found),
            };
            if !done.insert(kind) {
                return Ok(self.stop_for_now());
            }
            if kind != "release" {
                self.announce(action).await?;
            }
            // The snapshot of the older revision changes with its record.
            let began = newest.filter(|_| !settles).map(|record| (record.version, record.info.status));
            self.written = None;
            let ended = match action {
                Action::Install | Action::Upgrade | Action::Resume => self.release(action, began).await?,
                Action::Test => self.test().await?,
                Action::Rollback(to) => self.rollback(to).await?,
                _ => self.uninstall().await?,
            };
            if let ActionOutcome::Stop(reconciled) = ended {
                return Ok(reconciled);
            }
        }
    }

    /// The state, and the action that follows. `unfinished`: the revision that a rollback leads to which a process did not end.
    async fn decide(
        &self,
        newest: Option<&Record>,
        unfinished: Option<u64>,
    ) -> Result<(ReleaseState, Action), ReconcileError> {
        let desired = DesiredRelease::new(
            self.spec,
            self.object.generation,
            &self.metadata,
            &self.config_digest,
            self.force,
        );
        let (state, action) = decide(self.runner.engine(), &self.id, newest, &self.status, &desired).await?;
        Ok((state, unfinished.map_or(action, Action::Rollback)))
    }

    pub(super) fn ignores_tests(&self) -> bool {
        state::ignores_tests(&self.status, self.spec)
    }

    /// Says in the status that an action runs.
    async fn announce(&mut self, action: Action) -> Result<(), ReconcileError> {
        let (name, timeout) = match action {
            Action::Install => ("install", options::install_timeout(self.spec)),
            Action::Upgrade | Action::Resume => ("upgrade", options::upgrade_timeout(self.spec)),
            Action::Test => ("test", options::timeout_of(self.spec, self.spec.test.timeout.as_ref())),
            Action::Rollback(_) => {
                ("rollback", options::timeout_of(self.spec, self.spec.rollback.timeout.as_ref()))
            }
            _ => ("uninstall", options::timeout_of(self.spec, self.spec.uninstall.timeout.as_ref())),
        };
        let text = format!("Running '{name}' action with timeout of {}", GoDuration::from(timeout));
        let releases = matches!(action, Action::Install | Action::Upgrade | Action::Resume);
        let mut conditions = self.conditions();
        conditions.set(RECONCILING, Truth::True, "Progressing", &text);
        if releases {
            conditions.set(READY, Truth::Unknown, "Progressing", &text);
        }
        self.save().await
    }

    /// Does the work of an action, and says in the status that it runs unless it ends soon: readers then see how it ended.
    async fn announced<T>(&mut self, action: Action, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if let Ok(done) = tokio::time::timeout(ANNOUNCED_AFTER, &mut work).await {
            return done;
        }
        let announce = async {
            let result = self.announce(action).await;
            if let Err(error) = &result {
                tracing::warn!(object = %self.pass.reference, "cannot write that an action runs: {error}");
            }
        };
        futures::join!(announce, work).1
    }

    /// Installs or upgrades. `began`: the newest revision before, and its status.
    async fn release(
        &mut self,
        action: Action,
        began: Option<(u64, ReleaseStatus)>,
    ) -> Result<ActionOutcome, ReconcileError> {
        let installs = action == Action::Install || matches!(began, Some((_, ReleaseStatus::PendingInstall)));
        let (verb, failed) = match installs {
            true => ("install", "InstallFailed"),
            false => ("upgrade", "UpgradeFailed"),
        };
        verb.clone_into(&mut self.status.last_attempted_release_action);
        if installs {
            self.status.history.clear();
        }
        let mut conditions = self.conditions();
        conditions.delete(TEST_SUCCESS);
        conditions.delete(REMEDIATED);
        let spec = self.release_spec(action, installs)?;
        let runner = self.runner.clone();
        // Persist the target first: after a crash only the status says which remote cluster to clean up.
        let is_remote = self.spec.kube_config.is_some();
        if is_remote {
            self.announce(action).await?;
        }
        let start = Instant::now();
        // A release is a large future: it stays where it is.
        let work = Box::pin(async move { runner.run(spec).await });
        let result = if is_remote { work.await } else { self.announced(action, work).await };
        self.status.last_attempted_release_action_duration = Some(start.elapsed().into());
        self.written = result.as_ref().ok().and_then(|done| done.outcome.record.clone());
        let newest = match &self.written {
            Some(record) => Some(Arc::clone(record)),
            None => self.history().await?.newest().cloned().map(Arc::new),
        };
        let newest = newest.filter(|record| Some((record.version, record.info.status)) != began);
        let stored = newest.is_some();
        if let Some(record) = newest {
            let (oci_digest, config_digest) = (self.oci_digest.clone(), self.config_digest.clone());
            self.record_revision(snapshot::observe(&record, &oci_digest, verb, Some(&config_digest))).await?;
            // Also of a revision that failed.
            self.take_inventory(&record).await?;
        }
        match result {
            Ok(done) => {
                self.pass.note_outcome(&done.outcome);
                self.note_success(verb, true);
                Ok(ActionOutcome::Continue)
            }
            Err(ReconcileError::Engine(EngineError::Cancelled)) => {
                let text = "Health checks canceled due to a new generation";
                self.conditions().set(READY, Truth::False, "HealthCheckCanceled", text);
                self.save().await?;
                Ok(ActionOutcome::Stop(Reconciled::new(false, Requeue::Never)))
            }
            // Another operation is running: not a failure of this release.
            Err(error) if !stored && error.disposition() == Disposition::Wait => Err(error),
            Err(error) => {
                let text = self.failure_text(verb, &error);
                self.note_failure(verb, &text, stored);
                self.event(EventType::Warning, failed, &text, self.about_chart());
                self.failure = Some(error);
                if !stored {
                    self.conditions().set(RECONCILING, Truth::True, "ProgressingWithRetry", &text);
                    self.save().await?;
                    return Ok(ActionOutcome::Stop(self.failed_pass()));
                }
                Ok(ActionOutcome::Continue)
            }
        }
    }

    /// The status of a release action that succeeded. `current`: with the spec as it is now.
    pub(super) fn note_success(&mut self, verb: &str, current: bool) {
        let succeeded = if verb == "install" { "InstallSucceeded" } else { "UpgradeSucceeded" };
        let shot = self.status.history.first().cloned().unwrap_or_default();
        let (release, chart) = (shot.release(), shot.chart());
        let text = format!("Helm {verb} succeeded for release {release} with chart {chart}");
        let awaits_tests = self.spec.test.enable && !shot.was_tested();
        let retries = state::active_retry(&self.status, self.spec).is_some();
        let mut conditions = self.conditions();
        conditions.set(RELEASED, Truth::True, succeeded, &text);
        if awaits_tests {
            let text = format!("Helm release {release} with chart {chart} is awaiting tests");
            conditions.set(TEST_SUCCESS, Truth::Unknown, "AwaitingTests", &text);
        }
        if retries {
            self.clear_failures();
        }
        self.event(EventType::Normal, succeeded, &text, event_annotations::of_snapshot(&shot));
        if current {
            self.summarize();
        }
    }

    /// How a pass ends whose action wrote nothing: it is repeated as the failure asks for, or after the strategy's interval.
    fn failed_pass(&self) -> Reconciled {
        let interval = state::active_retry(&self.status, self.spec);
        Reconciled::new(false, interval.map_or(Requeue::Failure, Requeue::After))
    }

    fn release_spec(&mut self, action: Action, installs: bool) -> Result<ReleaseSpec, ReconcileError> {
        let taken = || ReconcileError::Task("the chart was released in this pass already".to_owned());
        let inputs = ReleaseInputs {
            chart: self.chart.take().ok_or_else(taken)?,
            object: self.object,
            spec: self.spec,
            id: &self.id,
            values: &self.values,
        };
        inputs.release_spec(action, installs)
    }

    /// Puts a revision that was written into the history, and the one that it replaces as it is now.
    pub(super) async fn record_revision(&mut self, shot: Snapshot) -> Result<(), ReconcileError> {
        self.status.history.retain(|known| known.version != shot.version);
        if let Some(known) = snapshot::replaced(&mut self.status.history)
            && let Some(record) = self.runner.engine().records().record(&self.id, known.version).await?
        {
            snapshot::rewrite(known, &record, "");
        }
        self.status.history.insert(0, shot);
        Ok(())
    }

    /// The objects of the release, for `flux tree` and dashboards.
    pub(super) async fn take_inventory(&mut self, record: &Record) -> Result<(), ReconcileError> {
        let objects = self.runner.engine().records().objects_of(record).await?;
        let entry = |object: ObjectRef| InventoryEntry {
            id: format!(
                "{}_{}_{}_{}",
                object.namespace.unwrap_or_default(),
                // Names of RBAC objects may have colons.
                object.name.replace(':', "__"),
                object.gvk.group,
                object.gvk.kind
            ),
            v: object.gvk.version,
        };
        self.status.inventory = Some(Inventory {
            entries: objects.into_iter().chain(self.crds.iter().cloned()).map(entry).collect(),
        });
        Ok(())
    }

    async fn test(&mut self) -> Result<ActionOutcome, ReconcileError> {
        let filters: Vec<(&str, bool)> =
            self.spec.test.filters.iter().map(|filter| (filter.name.as_str(), filter.exclude)).collect();
        let names = |excluded: bool| {
            let chosen = filters.iter().filter(|(_, exclude)| *exclude == excluded);
            chosen.map(|(name, _)| (*name).to_owned()).collect()
        };
        let request = TestRequest {
            id: self.id.clone(),
            only: names(false),
            not: names(true),
            timeout: options::timeout_of(self.spec, self.spec.test.timeout.as_ref()),
            ..TestRequest::default()
        };
        let tested = self.runner.engine().test(&request).await?;
        let Some(latest) = self.status.history.first_mut() else {
            return Err(super::chart_artifact::failed(
                "TestFailed",
                "no latest release: required for test".to_owned(),
            ));
        };
        let fresh = snapshot::observe(
            &tested.record,
            &latest.oci_digest,
            &latest.action,
            Some(&latest.config_digest),
        );
        let runs = snapshot::test_runs(&tested.record, &filters);
        let count = runs.len();
        *latest = snapshot_with_tests(fresh, Some(runs));
        let (release, chart, failed_test) = (latest.release(), latest.chart(), tested.failure);
        let about = event_annotations::of_snapshot(latest);
        if let Some(error) = failed_test {
            let text = format!("Helm test failed for release {release} with chart {chart}: {error}");
            self.failure = Some(super::chart_artifact::failed("TestFailed", text.clone()));
            self.status.failures += 1;
            self.conditions().set(TEST_SUCCESS, Truth::False, "TestFailed", &text);
            self.event(EventType::Warning, "TestFailed", &text, about);
            if !self.ignores_tests() {
                match self.status.last_attempted_release_action.as_str() {
                    "install" => self.status.install_failures += 1,
                    _ => self.status.upgrade_failures += 1,
                }
            }
        } else {
            let hooks = match count {
                0 => "no test hooks".to_owned(),
                1 => "1 test hook completed successfully".to_owned(),
                _ => format!("{count} test hooks completed successfully"),
            };
            let text = format!("Helm test succeeded for release {release} with chart {chart}: {hooks}");
            self.conditions().set(TEST_SUCCESS, Truth::True, "TestSucceeded", &text);
            self.event(EventType::Normal, "TestSucceeded", &text, about);
        }
        self.summarize();
        Ok(ActionOutcome::Continue)
    }

    /// An action of this kind has run already.
    fn stop_for_now(&mut self) -> Reconciled {
        let active = state::active(&self.status, self.spec);
        if active.is_none_or(|active| !active.is_exhausted())
            || state::active_retry(&self.status, self.spec).is_some()
        {
            return self.requeue_soon();
        }
        self.conditions().delete(RECONCILING);
        self.observed();
        Reconciled::new(false, Requeue::After(self.interval()))
    }

    /// More is to be done, in another pass.
    pub(super) fn requeue_soon(&mut self) -> Reconciled {
        let (text, requeue) = match state::active_retry(&self.status, self.spec) {
            Some(interval) => {
                self.observed();
                (format!("retrying after {}", GoDuration::from(interval)), Requeue::After(interval))
            }
            None => {
                let ready = self.conditions().get(READY).map(|ready| ready.message.clone());
                (ready.unwrap_or_default(), Requeue::Backoff)
            }
        };
        self.conditions().set(RECONCILING, Truth::True, "ProgressingWithRetry", &text);
        Reconciled::new(false, requeue)
    }

    /// Nothing more may be done for now. helm-controller waits for a change; here the state is determined again at the interval.
    pub(super) fn stall(&mut self, reason: &'static str) -> Result<Reconciled, ReconcileError> {
        let text = if reason == "MissingRollbackTarget" {
            "Failed to perform remediation: missing target release for rollback: cannot remediate failed release".to_owned()
        } else {
            let attempts =
                state::active(&self.status, self.spec).map_or(0, state::ActiveRemediation::failures);
            format!("Failed to {} after {attempts} attempt(s)", self.status.last_attempted_release_action)
        };
        self.conditions().set(STALLED, Truth::True, reason, &text);
        self.observed();
        Ok(Reconciled::new(false, Requeue::After(self.interval())))
    }

    fn state_error(&mut self, found: ReleaseStatus) -> Result<Reconciled, ReconcileError> {
        let text = format!(
            "Could not determine release state: unable to determine state for release with status '{found}'"
        );
        self.conditions().set(READY, Truth::False, "StateError", &text);
        Ok(Reconciled::new(false, Requeue::Backoff))
    }

    /// The record is as desired: compares the objects with it.
    async fn check_drift(&mut self) -> Result<Reconciled, ReconcileError> {
        if state::active_retry(&self.status, self.spec).is_some() {
            snapshot::truncate_newest(&mut self.status.history);
        } else {
            let ignore = self.ignores_tests();
            snapshot::truncate(&mut self.status.history, ignore);
        }
        let current = self.status.history.first().cloned().unwrap_or_default();
        let (release, chart) = (current.release(), current.chart());
        let upgraded = format!("Helm upgrade succeeded for release {release} with chart {chart}");
        let mut conditions = self.conditions();
        if conditions.is_true(REMEDIATED) {
            // What was rolled back to is desired now.
            conditions.delete(REMEDIATED);
            conditions.set(RELEASED, Truth::True, "UpgradeSucceeded", &upgraded);
        } else if !conditions.is_true(RELEASED) {
            match conditions.get(RELEASED).map(|released| released.reason.clone()).as_deref() {
                Some("InstallFailed") => {
                    let text = format!("Helm install succeeded for release {release} with chart {chart}");
                    conditions.set(RELEASED, Truth::True, "InstallSucceeded", &text);
                }
                Some("UpgradeFailed") => conditions.set(RELEASED, Truth::True, "UpgradeSucceeded", &upgraded),
                _ => {}
            }
        }
        let detects = options::drift_mode(self.spec) != DriftMode::Off;
        // What was just applied has no drift; its watch reports later one.
        if self.written.is_none() {
            let options = stored_release::drift_options(self.runner.engine(), &self.id, self.spec).await?;
            let outcome = self.runner.engine().restore(&self.id, &options, Some(OWNER)).await?;
            self.pass.note_outcome(&outcome);
            if detects {
                self.note_drift(&outcome, &current);
            }
        }
        self.conditions().delete(RECONCILING);
        self.summarize();
        self.observed();
        Ok(Reconciled::new(true, Requeue::After(self.interval())))
    }

    fn note_drift(&mut self, outcome: &ReleaseOutcome, current: &Snapshot) {
        let release = current.release();
        if outcome.drift.is_empty() {
            let text = "No drift detected against the cluster state";
            return self.conditions().set(DRIFTED, Truth::False, "NoDriftDetected", text);
        }
        let lines: Vec<String> = outcome.drift.iter().map(options::drift_line).collect();
        let text = format!(
            "Cluster state of release {release} has drifted from the desired state:\n{}",
            lines.join("\n")
        );
        self.event(EventType::Warning, "DriftDetected", &text, BTreeMap::new());
        self.conditions().set(DRIFTED, Truth::True, "DriftDetected", &text);
        if outcome.drift.iter().all(|drift| drift.corrected) {
            let text =
                format!("Cluster state of release {release} has been corrected:\n{}", lines.join("\n"));
            self.event(EventType::Normal, "DriftCorrected", &text, event_annotations::of_snapshot(current));
            let text = "No drift detected against the cluster state";
            self.conditions().set(DRIFTED, Truth::False, "NoDriftDetected", text);
        }
    }

    fn observed(&mut self) {
        self.status.observed_generation = Some(self.object.generation);
    }

    fn interval(&self) -> Duration {
        options::interval(self.spec)
    }

    fn clear_failures(&mut self) {
        (self.status.failures, self.status.install_failures, self.status.upgrade_failures) = (0, 0, 0);
    }
}

fn snapshot_with_tests(fresh: Snapshot, test_hooks: Option<BTreeMap<String, TestHook>>) -> Snapshot {
    Snapshot { test_hooks, ..fresh }
}

/// The objects of a chart's `crds/`.
///
/// # Errors
/// A file is not valid YAML.
pub(super) fn crds_of(chart: &CompiledChart) -> Result<Vec<ObjectRef>, ReconcileError> {
    let files = crd_files(&chart.chart().crds(), &[], &BTreeMap::new())?;
    let objects = files.iter().flat_map(|file| &file.objects);
    let reference = |object: &Value| {
        let name = Some(ObjectMeta::of(object).name()).filter(|name| !name.is_empty())?;
        Some(ObjectRef::new(Gvk::of(object)?, None, name))
    };
    Ok(objects.filter_map(reference).collect())
}

/// The conditions of a status, to be set now.
pub(super) fn conditions(status: &mut HelmReleaseStatus, generation: i64) -> Conditions<'_> {
    Conditions { status, generation }
}
