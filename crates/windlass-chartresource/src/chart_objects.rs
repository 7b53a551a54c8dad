//! The front end of the objects of a chart's kind: what is watched, and one pass over one object.
//!
//! Owns the order of a pass: which release, whether the digest of chart, values and capabilities asks for a revision, and whether what is
//! deployed is ready. Everything else is in the modules beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chart_compat::data::Map;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::chart_rollout::{ChartRollout, Turn};
use super::failed_attempts::FailedAttempts;
use super::kind_settings::KindSettings;
use super::loaded_chart::LoadedChart;
use super::object_deployment::{Deployment, Kept, input_digest};
use super::object_status::{CHART_UNAVAILABLE, DeployedRelease, ObjectState, ObjectStatus, Step};
use super::rechecks::Rechecks;
use super::release_choice::{ChosenRelease, Claimant};
use super::served_kind::{ObjectProgress, ServedKind};
use super::values_object::{ANNOTATIONS, ChartObject};
use windlass_base::redact::Masked;
use windlass_cluster::Gvk;
use windlass_controller::{
    AccountName, BusyReleases, EventNote, EventType, FrontEnd, ImageValues, ReconcileError, ReconcilePass,
    Reconciled, ReleaseRunner, ReleaseTarget, Report, Requeue, capabilities, jittered,
};
use windlass_engine::record::Record;
use windlass_engine::{
    CheckedObjects, Disposition, DriftMode, EngineError, ReconcileTrigger, ReleaseId, ReleaseKey,
    ReleaseOptions, Unready, Wait,
};

/// The finalizer of objects, as operator-sdk has it.
pub(crate) const FINALIZER: &str = "helm.sdk.operatorframework.io/uninstall-release";
/// That of its earlier versions.
const LEGACY_FINALIZERS: [&str; 1] = ["uninstall-helm-release"];
/// How long a pass waits for readiness before the status says what it waits for, and afterwards.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const NEXT_WAIT: Duration = Duration::from_secs(10);
/// How long objects may take to become ready before the release counts as failed, in seconds.
const READY_WITHIN: i64 = 300;
/// Pause between the passes that wait.
const PAUSE: Duration = Duration::from_millis(200);
/// Options of the objects of all kinds of a process.
#[derive(Clone, Debug, Default)]
pub struct ObjectOptions {
    /// The ServiceAccount of objects of kinds that name none.
    pub default_service_account: Option<AccountName>,
    /// Whether Events hide the values of overrides.
    pub suppress_override_values: bool,
    /// The releases that a pass works on, shared by all kinds.
    pub releases: BusyReleases,
}

/// The values of an object, or the step that they fail and why.
pub(crate) type ObjectValues = Result<Map, (Step, Box<ReconcileError>)>;

/// The front end of one kind.
pub struct ChartObjects {
    pub(crate) kind: Arc<ServedKind>,
    options: ObjectOptions,
    attempts: FailedAttempts,
    /// The step that each object's pass is at, or failed in.
    steps: Mutex<BTreeMap<String, Step>>,
    rechecks: Rechecks,
}

impl ChartObjects {
    /// The front end of a kind whose chart stays.
    #[must_use]
    pub fn new(settings: KindSettings, chart: LoadedChart, options: ObjectOptions) -> Self {
        Self::of_kind(ServedKind::new(settings, ChartRollout::new(chart, 1)), options)
    }

    /// The front end of a kind whose chart may be replaced.
    pub(crate) fn of_kind(kind: Arc<ServedKind>, options: ObjectOptions) -> Self {
        Self {
            kind,
            options,
            attempts: FailedAttempts::default(),
            steps: Mutex::default(),
            rechecks: Rechecks::default(),
        }
    }

    /// Notes the step that an object's pass is at.
    pub(crate) fn enter(&self, key: &str, step: Step) {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), step);
    }

    fn step_of(&self, key: &str) -> Step {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.get(key).copied().unwrap_or(Step::Reconcile)
    }

    pub(crate) fn busy_releases(&self) -> BusyReleases {
        self.options.releases.clone()
    }

    pub(crate) fn settings(&self) -> &KindSettings {
        &self.kind.settings
    }

    pub(crate) fn claimant<'c>(&'c self, object: &'c ChartObject, chart: &'c str) -> Claimant<'c> {
        let KindSettings { name, gvk, .. } = self.settings();
        Claimant { owner: name, gvk, name: &object.name, chart }
    }

    /// The release that an object's status names, if it may be the object's: who writes the status cannot choose another one.
    pub(crate) fn known_release<'o>(&self, object: &'o ChartObject) -> Option<&'o str> {
        let known = object.status.deployed_release.as_ref().map(|known| known.name.as_str())?;
        let names = self.claimant(object, "").names();
        names.iter().any(|name| name == known).then_some(known)
    }

    /// The name of the kind's chart.
    pub(crate) fn chart_name(&self) -> String {
        self.kind.chart_name()
    }

    fn period(&self, object: &ChartObject) -> Duration {
        object.period().ok().flatten().unwrap_or(self.settings().reconcile_period)
    }
}

fn invalid(text: String) -> ReconcileError {
    ReconcileError::Config(text)
}

impl FrontEnd for ChartObjects {
    type Object = ChartObject;

    fn read(&self, object: &Value) -> ChartObject {
        ChartObject::read(object)
    }

    fn name(&self) -> &str {
        &self.settings().name
    }

    fn kind(&self) -> Gvk {
        self.settings().gvk.clone()
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn legacy_finalizers(&self) -> &[&'static str] {
        &LEGACY_FINALIZERS
    }

    fn trigger_annotations(&self) -> &[&str] {
        &ANNOTATIONS
    }

    fn releases(&self, object: &ChartObject) -> BTreeSet<ReleaseKey> {
        let id = object.namespace.as_deref().zip(self.known_release(object));
        id.map(|(namespace, name)| ReleaseKey::at_home(&ReleaseId::new(namespace, name)))
            .into_iter()
            .collect()
    }

    fn note_observed(&self, key: &str, object: &ChartObject) {
        let status = &object.status;
        let progress = ObjectProgress {
            ready: status.is_ready(),
            failed: status.is_stalled(),
            chart_digest: status.chart_digest.clone().unwrap_or_default(),
        };
        self.kind.note_observed(key, &progress);
    }

    fn note_gone(&self, key: &str) {
        self.attempts.clear(key);
        self.rechecks.take(key);
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.kind.note_gone(key);
    }

    fn note_trigger(&self, key: &str, trigger: &ReconcileTrigger) {
        if trigger.is_status() {
            self.rechecks.note(key);
        }
    }

    fn next_request(&self) -> impl Future<Output = String> + Send {
        self.kind.next_request()
    }

    fn target(&self, object: &ChartObject) -> Result<ReleaseTarget, ReconcileError> {
        let own = self.settings().service_account.as_deref();
        ReleaseTarget::of_tenant(
            object.namespace.as_deref(),
            own,
            self.options.default_service_account.as_ref(),
        )
    }

    fn interval(&self, object: &ChartObject) -> Option<Duration> {
        Some(self.period(object))
    }

    fn is_suspended(&self, object: &ChartObject) -> bool {
        self.settings().suspended || object.is_suspended()
    }

    /// What is deployed is known from the record, whatever a pass ends with.
    fn keeps_state_on_error(&self) -> bool {
        true
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartObject,
    ) -> Result<Reconciled, ReconcileError> {
        let result = match self.reconcile_object(pass, object).await {
            Err(error) => Err(self.with_missing_rights(pass, object, error).await),
            done => done,
        };
        result.inspect_err(|error| {
            if self.step_of(&object.key()).precedes_release() {
                self.kind.yield_turn(&object.key());
            }
            if error.disposition() == Disposition::Stall {
                self.kind.note_failed(&object.key(), Masked::for_objects(&error.to_string()));
            }
        })
    }

    async fn uninstall(&self, pass: &mut ReconcilePass, object: &ChartObject) -> Result<(), ReconcileError> {
        self.run_uninstall(pass, object).await
    }

    fn status(&self, object: &ChartObject, before: &Value, report: &Report<'_>) -> Value {
        let key = object.key();
        // As the pass has left it.
        let mut status = ObjectStatus::deserialize(before).unwrap_or_default();
        match report {
            Report::Suspended => {
                let why = if self.settings().suspended {
                    "the kind is suspended"
                } else {
                    "the annotation windlass.dev/suspend is true"
                };
                status.in_state(before, object.generation, ObjectState::Paused(why))
            }
            // Another operation runs, or a newer generation ended this pass.
            Report::Failed { error, .. } if error.is_wait() => {
                status.in_state(before, object.generation, ObjectState::Progressing(&error.to_string()))
            }
            Report::Failed { error, .. } => {
                let step = self.step_of(&key);
                status.failed_attempt = self.attempts.of(&key, status.failed_attempt.as_ref());
                let attempt = status.failed_attempt.as_ref().filter(|attempt| attempt.stalls());
                let ends = error.disposition() == Disposition::Stall || attempt.is_some();
                let stalled = ends.then_some(step.reason());
                let text = failure_text(error, &status, attempt.is_some());
                // A failed upgrade was rolled back: what the status names is still deployed.
                status.in_state(before, object.generation, ObjectState::Failed { step, text: &text, stalled })
            }
            // A pass writes the others itself; there are no dependencies.
            Report::Progressing | Report::Released(_) | Report::DependencyNotReady(_) => json!({}),
        }
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        match report {
            Report::Failed { error, .. } if !error.is_wait() => {
                Some(note(EventType::Warning, error.reason(), error.to_string()))
            }
            _ => None,
        }
    }
}

/// What failed, and what stays and what to do.
fn failure_text(error: &ReconcileError, status: &ObjectStatus, ended: bool) -> String {
    let stays = match status.revision {
        Some(_) => "; what was deployed before stays",
        None => "",
    };
    let next = if ended {
        "; change the spec, or annotate the object with windlass.dev/requested-at, for another try"
    } else {
        ""
    };
    format!("{error}{stays}{next}")
}

pub(crate) fn note(event_type: EventType, reason: &'static str, note: String) -> EventNote {
    EventNote { event_type, reason, action: "Reconcile", note, annotations: BTreeMap::new() }
}

impl ChartObjects {
    /// A pass over an object: its chart and values, its release, and what follows.
    async fn reconcile_object(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartObject,
    ) -> Result<Reconciled, ReconcileError> {
        let key = object.key();
        self.enter(&key, Step::Reconcile);
        let Some(namespace) = object.namespace.as_deref() else {
            let kind = &self.settings().gvk.kind;
            return Err(invalid(format!(
                "{kind} is cluster-scoped, and a release is in a namespace: use a namespaced kind"
            )));
        };
        self.enter(&key, Step::Client);
        let runner = pass.runner(self, object)?;
        let recheck = self.rechecks.take(&key);
        let (chart, upgrades, missing) = match self.kind.turn(&key, object.status.candidate()) {
            Turn::Deploy(chart) => (Some(chart), true, None),
            Turn::Wait(previous) => (previous, false, None),
            Turn::Stay(why) => (None, false, Some(why)),
        };
        let capabilities = capabilities(runner.engine().cluster()).await?;
        let mut values = self.values_of(object);
        if let Some(images) = self.set_images(object, chart.as_ref(), &mut values) {
            pass.note_image_values(images);
        }
        let (object, values) = self.with_pull_secret(pass, object, &runner, (chart.as_ref(), values)).await;
        let object = &*object;
        let inputs = match (&chart, &values) {
            (Some(chart), Ok(values)) => {
                Some(input_digest(chart, values, object.status.pull_secret.as_deref(), &capabilities))
            }
            _ => None,
        };
        let asked = (inputs.as_deref(), recheck);
        if let Some(done) = self.unchanged(pass, object, &runner, asked).await? {
            return Ok(done);
        }
        self.enter(&key, Step::ReleaseState);
        let name = chart.as_ref().map_or_else(|| self.kind.chart_name(), |chart| chart.name().to_owned());
        let claimant = self.claimant(object, &name);
        let release = claimant
            .choose(runner.engine(), namespace, self.known_release(object), &self.options.releases)
            .await?;
        pass.claim_release(&ReleaseKey::at_home(&release.id))?;
        self.enter(&key, Step::Reconcile);
        let work = ObjectPass { front_end: self, object, key, runner, release, upgrades, recheck };
        if let Some(why) = missing {
            return work.with_missing_chart(pass, why.as_str()).await;
        }
        match (chart, values, inputs) {
            (_, Err((step, error)), _) => {
                self.kind.yield_turn(&work.key);
                work.keep_beside_failure(pass).await;
                self.enter(&work.key, step);
                Err(*error)
            }
            (Some(chart), Ok(values), Some(digest)) => work.with_chart(pass, chart, values, digest).await,
            _ => work.without_chart(pass).await,
        }
    }

    /// The values of an object, or the step that they fail and why.
    pub(crate) fn values_of(&self, object: &ChartObject) -> ObjectValues {
        object.check_annotations().map_err(|error| (Step::Reconcile, Box::new(invalid(error))))?;
        let values = object.values().map_err(|error| (Step::Values, Box::new(invalid(error))))?;
        let over = self.settings().overrides.over(values);
        over.map_err(|error| (Step::Values, Box::new(invalid(format!("overrideValues: {error}")))))
    }

    /// Sets newer images over the values of an object, as its annotations have them. Returns what the values say of images; `None`
    /// without a chart. What the administrator of the kind sets stays: who writes objects may write their annotations, too.
    pub(crate) fn set_images(
        &self,
        object: &ChartObject,
        chart: Option<&LoadedChart>,
        values: &mut ObjectValues,
    ) -> Option<ImageValues> {
        let (chart, composed) = (chart?, values.as_mut().ok()?);
        match object.images.apply(composed, &chart.chart) {
            Ok(images) => {
                match self.settings().overrides.over(composed.clone()) {
                    Ok(fixed) if fixed == *composed => Some(images),
                    Ok(fixed) => {
                        *composed = fixed;
                        let error = "overrideValues of the kind set one of these images: it stays, and none is followed".to_owned();
                        Some(ImageValues { errors: vec![error], ..ImageValues::default() })
                    }
                    Err(error) => {
                        *values = Err((Step::Values, Box::new(invalid(format!("overrideValues: {error}")))));
                        None
                    }
                }
            }
            Err(error) => {
                *values = Err((Step::Values, Box::new(error)));
                None
            }
        }
    }

    /// The end of a pass over an object of which nothing has changed since the last one: it makes no request. `recheck`: the status of a
    /// workload has changed, which the last pass may have seen.
    async fn unchanged(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartObject,
        runner: &ReleaseRunner,
        (digest, recheck): (Option<&str>, bool),
    ) -> Result<Option<Reconciled>, ReconcileError> {
        let status = &object.status;
        let memo = pass.memo.clone();
        let same = memo.as_ref().is_some_and(|memo| digest.is_some_and(|digest| memo["digest"] == digest));
        let (Some(ReleaseKey { id, .. }), true, true) =
            (self.releases(object).into_iter().next(), same, status.is_ready())
        else {
            return Ok(None);
        };
        let due = status.renew_at.is_some_and(|at| at <= seconds_now());
        if due || !self.settings().watches_dependents {
            return Ok(None);
        }
        let known = runner.engine().unchanged_revision(&id, DriftMode::Correct);
        let same = known
            .is_some_and(|known| Some(known.revision) == status.revision && (known.seen_ready || !recheck));
        if !same {
            return Ok(None);
        }
        let state = ObjectState::Deployed { notes: None, ready: true };
        pass.replace_status(&status.in_state(&pass.object["status"], object.generation, state)).await?;
        let requeue = Requeue::After(jittered(self.period(object)));
        Ok(Some(Reconciled { memo, ..Reconciled::new(true, requeue) }))
    }
}

/// A pass over an object whose release is known.
struct ObjectPass<'o> {
    front_end: &'o ChartObjects,
    object: &'o ChartObject,
    key: String,
    runner: ReleaseRunner,
    release: ChosenRelease,
    /// Whether the object may have the chart of the kind; else it keeps the one before.
    upgrades: bool,
    /// Whether what was ready may not be so any more.
    recheck: bool,
}

impl ObjectPass<'_> {
    /// Deploys a chart if its digest with values and capabilities is another one, else corrects drift.
    async fn with_chart(
        self,
        pass: &mut ReconcilePass,
        chart: LoadedChart,
        values: Map,
        digest: String,
    ) -> Result<Reconciled, ReconcileError> {
        let status = &self.object.status;
        let due = status.renew_at.is_some_and(|at| at <= seconds_now());
        if status.digest.as_ref() == Some(&digest) && !due {
            if let Some(kept) = self.deployment().keep(pass, status.revision).await? {
                self.front_end.attempts.clear(&self.key);
                let kept_status = ObjectStatus { failed_attempt: None, ..status.clone() };
                return self.conclude(pass, kept_status, kept).await;
            }
        } else if let Some(attempt) = self.front_end.attempts.of(&self.key, status.failed_attempt.as_ref())
            && attempt.blocks(&digest, self.object.requested_at())
        {
            self.front_end.kind.note_failed(&self.key, Masked::for_objects("its upgrade failed"));
            return self.stay(pass).await;
        }
        self.check_rights(pass, &digest).await?;
        let requested_at = self.object.requested_at();
        if status.deployed_release.as_ref().is_none_or(|known| known.name != self.release.id.name) {
            // What is deployed now must not be forgotten if the process ends.
            let named = ObjectStatus {
                deployed_release: Some(DeployedRelease { name: self.release.id.name.clone() }),
                chart: Some(chart.name().to_owned()),
                ..status.clone()
            };
            let named = named.in_state(
                &pass.object["status"],
                self.object.generation,
                ObjectState::Progressing("the release is being deployed"),
            );
            pass.replace_status(&named).await?;
        }
        let step = if self.release.newest.is_none() { Step::Install } else { Step::Upgrade };
        self.front_end.enter(&self.key, step);
        self.note_overrides(pass);
        let done = self.deployment().deploy(pass, &chart, values).await;
        if done.as_ref().is_err_and(|error| !matches!(error, ReconcileError::Engine(_))) {
            self.keep_beside_failure(pass).await;
        }
        let done = match done {
            Err(error) => Err(self.front_end.with_missing_rights(pass, self.object, error).await),
            done => done,
        };
        let done = done.inspect_err(|error| {
            let recorded = status.failed_attempt.as_ref();
            let attempt = self.front_end.attempts.note(&self.key, recorded, (&digest, requested_at), error);
            if attempt.is_some_and(|attempt| attempt.stalls()) {
                let why = Masked::for_objects(&error.to_string());
                self.front_end.kind.note_failed(&self.key, why);
            }
        })?;
        self.front_end.enter(&self.key, Step::Reconcile);
        self.front_end.attempts.clear(&self.key);
        let deployed = ObjectStatus {
            deployed_release: Some(DeployedRelease { name: self.release.id.name.clone() }),
            revision: Some(done.revision),
            chart: Some(chart.name().to_owned()),
            version: Some(chart.version().to_owned()),
            digest: Some(digest),
            chart_digest: Some(chart.digest.clone()),
            renew_at: done.renew_at,
            failed_attempt: None,
            ..status.clone()
        };
        if !self.upgrades {
            tracing::info!(object = %pass.reference, "deployed with the chart before the rollout");
        }
        if done.wrote_record {
            let reason = if done.revision == 1 { "InstallSuccessful" } else { "UpgradeSuccessful" };
            pass.record_event(note(
                EventType::Normal,
                reason,
                format!("revision {} of release {} is deployed", done.revision, self.release.id),
            ));
        }
        self.conclude(pass, deployed, done).await
    }

    /// Where the last attempt failed for missing rights, there is another one, and so another revision, once they are there.
    async fn check_rights(&self, pass: &ReconcilePass, digest: &str) -> Result<(), ReconcileError> {
        let attempt = self.front_end.attempts.of(&self.key, self.object.status.failed_attempt.as_ref());
        if attempt.is_none_or(|attempt| !attempt.lacks_rights || attempt.digest != digest) {
            return Ok(());
        }
        match self.front_end.missing_rights(pass, self.object).await? {
            None => Ok(()),
            Some(error) => {
                self.keep_beside_failure(pass).await;
                Err(error)
            }
        }
    }

    /// Corrects drift of what is deployed where something else fails: that is what is reported.
    async fn keep_beside_failure(&self, pass: &ReconcilePass) {
        if let Err(error) = self.deployment().keep(pass, None).await {
            tracing::warn!(object = %pass.reference, "drift cannot be corrected: {error}");
        }
    }

    /// The object waits for its turn in a rollout, and this process does not have its chart: drift is corrected.
    async fn without_chart(self, pass: &mut ReconcilePass) -> Result<Reconciled, ReconcileError> {
        let status = &self.object.status;
        if self.object.generation != status.observed_generation {
            let text = "the spec has changed while a rollout of another chart has not reached the object: it is applied then";
            let waits = status.in_state(
                &pass.object["status"],
                status.observed_generation,
                ObjectState::WaitsForRollout(text),
            );
            pass.replace_status(&waits).await?;
        }
        self.deployment().keep(pass, None).await?;
        Ok(Reconciled::new(false, Requeue::After(jittered(self.front_end.period(self.object)))))
    }

    /// The chart of the kind cannot be fetched: drift of what is deployed is corrected, and the conditions say why that is all.
    async fn with_missing_chart(
        self,
        pass: &mut ReconcilePass,
        why: &str,
    ) -> Result<Reconciled, ReconcileError> {
        self.keep_beside_failure(pass).await;
        let mut status = self.object.status.clone();
        let mut ready = status.is_ready() && self.object.generation == status.observed_generation;
        if ready
            && self.recheck
            && let Some(record) = &self.release.newest
        {
            let unready = self.unready(record, FIRST_WAIT).await?;
            ready = unready.is_empty();
            status.note_unready(&unready);
        }
        let state = ObjectState::ChartMissing { text: why, ready };
        let written = status.in_state(&pass.object["status"], self.object.generation, state);
        if pass.replace_status(&written).await? {
            pass.record_event(note(EventType::Warning, CHART_UNAVAILABLE, why.to_owned()));
        }
        Ok(Reconciled::new(ready, Requeue::After(jittered(self.front_end.period(self.object)))))
    }

    /// The retries of this digest have ended: what is deployed stays, and its drift is corrected.
    async fn stay(self, pass: &mut ReconcilePass) -> Result<Reconciled, ReconcileError> {
        let kept = self.deployment().keep(pass, None).await?;
        let revision = kept.map(|kept| kept.revision);
        let status = json!({"observedGeneration": self.object.generation, "revision": revision});
        pass.write_status(&status).await?;
        Ok(Reconciled::new(false, Requeue::After(jittered(self.front_end.period(self.object)))))
    }

    fn deployment(&self) -> Deployment<'_> {
        let claimant = self.front_end.claimant(self.object, "");
        Deployment {
            settings: self.front_end.settings(),
            object: self.object,
            runner: &self.runner,
            release: &self.release,
            labels: claimant.labels(),
        }
    }

    /// An Event for each value that beats the object's.
    fn note_overrides(&self, pass: &ReconcilePass) {
        for (key, value) in self.front_end.settings().overrides.shown() {
            let value = if self.front_end.options.suppress_override_values { "(hidden)" } else { &value };
            let text = format!(
                "the operator sets the value {key:?} of the chart to {value:?}, whatever the spec says"
            );
            pass.record_event(note(EventType::Warning, "OverrideValuesInUse", text));
        }
    }

    /// Writes the status of what is deployed, once it is known whether it is ready.
    async fn conclude(
        &self,
        pass: &mut ReconcilePass,
        mut status: ObjectStatus,
        kept: Kept,
    ) -> Result<Reconciled, ReconcileError> {
        let period = Requeue::After(jittered(self.front_end.period(self.object)));
        let notes = kept.notes.as_deref();
        // The first pass of a process does not know what became of it meanwhile.
        let was_ready = self.object.status.is_ready() && !kept.wrote && !self.recheck && pass.memo.is_some();
        let record = kept.record.as_ref().or(self.release.newest.as_ref());
        let mut unready = match record {
            Some(record) if !was_ready => self.unready(record, FIRST_WAIT).await?,
            _ => Vec::new(),
        };
        let since =
            pass.memo.as_ref().and_then(|memo| memo["waitsSince"].as_i64()).unwrap_or_else(seconds_now);
        let late = seconds_now() - since >= READY_WITHIN;
        if let Some(record) = record.filter(|_| !unready.is_empty()) {
            self.write(pass, &mut status, &unready, notes).await?;
            if !late {
                unready = self.unready(record, NEXT_WAIT).await?;
            }
        }
        self.write(pass, &mut status, &unready, notes).await?;
        if unready.is_empty() {
            self.front_end.kind.note_ready(&self.key, status.chart_digest.as_deref().unwrap_or_default());
            let memo = Some(Arc::new(json!({"digest": status.digest})));
            return Ok(Reconciled { memo, ..Reconciled::new(true, period) });
        }
        let failed = unready.iter().any(|one| one.failed);
        if late || failed {
            let text = status.not_ready.as_deref().unwrap_or_default().join("; ");
            self.front_end.kind.note_failed(&self.key, Masked::for_objects(&text));
        }
        // A wait for what has failed ends at once.
        let requeue = if late || failed { period } else { Requeue::After(PAUSE) };
        let memo = Some(Arc::new(json!({"waitsSince": since})));
        Ok(Reconciled { memo, ..Reconciled::new(false, requeue) })
    }

    async fn write(
        &self,
        pass: &mut ReconcilePass,
        status: &mut ObjectStatus,
        unready: &[Unready],
        notes: Option<&str>,
    ) -> Result<(), ReconcileError> {
        status.note_unready(unready);
        let state = ObjectState::Deployed { notes, ready: unready.is_empty() };
        let written = status.in_state(&pass.object["status"], self.object.generation, state);
        pass.replace_status(&written).await?;
        Ok(())
    }

    /// The objects of a revision that are not ready after this time.
    async fn unready(&self, record: &Record, timeout: Duration) -> Result<Vec<Unready>, ReconcileError> {
        let options = ReleaseOptions { wait: Wait::ReadyAndJobs, timeout, ..ReleaseOptions::default() };
        match self
            .runner
            .engine()
            .await_ready(&self.release.id, CheckedObjects::Recorded(record), &options)
            .await
        {
            Ok(()) => Ok(Vec::new()),
            Err(EngineError::NotReady { objects, .. }) => Ok(objects),
            Err(error) => Err(error.into()),
        }
    }
}

/// Seconds since 1970.
fn seconds_now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
