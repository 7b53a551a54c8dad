//! The releases of one Helmfile: deployed in order, and pruned.
//!
//! Owns whose a release is, which releases wait for which, and what the status says of each. Each operation is the engine's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{StreamExt as _, stream};

use super::api::{ChangeCounts, ReleaseStatus};
use super::evaluation::{EvaluatedRelease, Evaluation, ReleaseAction};
use super::helmfiles::{HelmfileObject, Helmfiles, OwnerLabels};
use crate::release_spec;
use windlass_base::redact;
use windlass_cluster::ClusterError;
use windlass_controller::{Done, FrontEnd as _, ReconcileError, ReconcilePass, ReleaseSpec, RenderInputs};
use windlass_engine::record::{Record, RecordHead, ReleaseStatus as RecordStatus};
use windlass_engine::{ChangeVerb, Disposition, ReleaseId, ReleaseKey, ReleaseRequest, UninstallRequest};

/// Releases of one object that are deployed at a time.
const AT_ONCE: usize = 8;

/// Longest error of a release in a status, in characters.
const MAX_ERROR: usize = 1024;

/// Status of a release that is there.
pub(super) const DEPLOYED: &str = "deployed";
/// Status of a release that was not yet deployed, or is being.
pub(super) const PENDING: &str = "pending";
const FAILED: &str = "failed";
const WAITING: &str = "waiting";
const PRUNING: &str = "pruning";

/// What a pass did with the releases.
#[derive(Default)]
pub(super) struct Deployed {
    /// What the status says of each release, in the order in which they are deployed.
    pub(super) releases: Vec<ReleaseStatus>,
    /// What drift is corrected with.
    pub(super) requests: Vec<Arc<ReleaseRequest>>,
    /// What of the renders must be watched.
    pub(super) inputs: Option<RenderInputs>,
    /// Releases that are not there any more.
    uninstalled: BTreeSet<ReleaseId>,
    /// What was done, for Events.
    pub(super) notes: Vec<String>,
    /// What failed.
    pub(super) failures: Vec<(ReleaseId, ReconcileError)>,
}

impl Deployed {
    fn note_uninstalled(&mut self, id: &ReleaseId, was_there: bool) {
        if was_there {
            self.notes.push(format!("release {id}: uninstalled"));
        }
        self.uninstalled.insert(id.clone());
    }
}

/// One object's releases.
pub(super) struct Deployment<'d> {
    pub(super) front_end: &'d Helmfiles,
    pub(super) pass: &'d ReconcilePass,
    pub(super) object: &'d HelmfileObject,
    /// The releases that the status has.
    pub(super) known: &'d [ReleaseStatus],
    /// Labels of the object's records.
    pub(super) labels: &'d OwnerLabels,
}

/// Namespace and name of a release of the status.
pub(super) fn id_of(status: &ReleaseStatus) -> ReleaseId {
    ReleaseId::new(&status.namespace, &status.name)
}

/// What was done for a release and what the status says of it, or why it failed.
type DeployResult = Result<(Done, ReleaseStatus), (ReleaseStatus, ReconcileError)>;

/// Whose a record is.
enum Ownership {
    /// The object's.
    Own,
    /// Nobody's: made by another tool.
    Unmarked,
    /// Another object's, or another front end's; the text names it.
    Foreign(String),
}

impl Deployment<'_> {
    /// What the status says before anything is deployed: what is deployed now must not be forgotten if the process ends.
    /// Releases that the object may not have are left out.
    pub(super) async fn planned(&self, evaluation: &Evaluation) -> Vec<ReleaseStatus> {
        let mut all: Vec<ReleaseStatus> = self.known.to_vec();
        for release in &evaluation.releases {
            let is_new = !all.iter().any(|known| id_of(known) == release.id);
            let deploys = matches!(release.action, Ok(ReleaseAction::Deploy(_)));
            if is_new && deploys && self.claim(&release.id).await.is_ok() {
                all.push(ReleaseStatus {
                    name: release.id.name.clone(),
                    namespace: release.id.namespace.clone(),
                    status: PENDING.to_owned(),
                    ..ReleaseStatus::default()
                });
            }
        }
        all
    }

    /// Uninstalls what is to go, deploys the rest in order, and prunes. A release whose needs failed waits; the others go on.
    pub(super) async fn run(&self, evaluation: Evaluation, prune: bool) -> Deployed {
        let mut done = Deployed::default();
        let Evaluation { releases, steps, ignored, .. } = evaluation;
        let wanted: BTreeSet<ReleaseId> =
            releases.iter().map(|release| release.id.clone()).chain(ignored).collect();
        let mut by_index: BTreeMap<usize, EvaluatedRelease> = releases.into_iter().enumerate().collect();
        let order: Vec<usize> = steps.iter().flatten().copied().collect();
        for at in order.iter().rev() {
            if !matches!(
                by_index.get(at),
                Some(EvaluatedRelease { action: Ok(ReleaseAction::Uninstall(_)), .. })
            ) {
                continue;
            }
            if let Some(EvaluatedRelease { id, action: Ok(ReleaseAction::Uninstall(request)), .. }) =
                by_index.remove(at)
            {
                self.uninstall_unwanted(&id, *request, &mut done).await;
            }
        }
        let mut unready: BTreeSet<String> = BTreeSet::new();
        for step in steps {
            let ready: Vec<EvaluatedRelease> = step.iter().filter_map(|at| by_index.remove(at)).collect();
            let (waiting, ready): (Vec<_>, Vec<_>) = ready
                .into_iter()
                .partition(|release| release.needs.iter().any(|need| unready.contains(need)));
            for release in waiting {
                let missing: Vec<&str> =
                    release.needs.iter().filter(|need| unready.contains(*need)).map(String::as_str).collect();
                let text = format!("waits for {}", missing.join(", "));
                done.releases.push(ReleaseStatus { error: text, ..self.status(&release.id, WAITING) });
                unready.insert(release.key);
            }
            // In their order.
            let results: Vec<(String, DeployResult)> = stream::iter(ready)
                .map(|release| async move { (release.key.clone(), self.deploy(release).await) })
                .buffered(AT_ONCE)
                .collect()
                .await;
            for (key, result) in results {
                match result {
                    Ok((outcome, status)) => self.take(outcome, status, &mut done),
                    Err((status, error)) => {
                        unready.insert(key);
                        done.failures.push((id_of(&status), error));
                        done.releases.push(status);
                    }
                }
            }
        }
        let dropped: Vec<&ReleaseStatus> =
            self.known.iter().filter(|known| !wanted.contains(&id_of(known))).collect();
        for known in &dropped {
            // Nothing is pruned while something fails: it may be what replaces it.
            if prune && done.failures.is_empty() {
                continue;
            }
            done.releases.push((*known).clone());
        }
        if prune && done.failures.is_empty() {
            for known in dropped.iter().rev() {
                self.prune(known, &mut done).await;
            }
        }
        // Those whose condition does not hold are left alone.
        let is_left = |known: &&ReleaseStatus| {
            let id = id_of(known);
            wanted.contains(&id)
                && !done.uninstalled.contains(&id)
                && !done.releases.iter().any(|one| id_of(one) == id)
        };
        let left: Vec<ReleaseStatus> = self.known.iter().filter(is_left).cloned().collect();
        done.releases.extend(left);
        done
    }

    /// Status of a release from its last record.
    fn status(&self, id: &ReleaseId, status: &str) -> ReleaseStatus {
        let known = self.known.iter().find(|known| id_of(known) == *id).cloned();
        ReleaseStatus {
            name: id.name.clone(),
            namespace: id.namespace.clone(),
            status: status.to_owned(),
            error: String::new(),
            ..known.unwrap_or_default()
        }
    }

    fn failed(&self, id: &ReleaseId, error: &str) -> ReleaseStatus {
        ReleaseStatus { error: status_text(error), ..self.status(id, FAILED) }
    }

    async fn deploy(&self, release: EvaluatedRelease) -> DeployResult {
        let id = release.id;
        let failed = |error: ReconcileError| (self.failed(&id, &error.to_string()), error);
        let mut spec = match release.action {
            Ok(ReleaseAction::Deploy(spec)) => spec,
            Ok(ReleaseAction::Uninstall(_)) => {
                let text = "installed is false: it is uninstalled".to_owned();
                return Err(failed(ReconcileError::Config(text)));
            }
            // The chart may be there the next time.
            Err(error) => {
                let (reason, text, disposition) = ("ChartUnavailable", error.to_string(), Disposition::Retry);
                return Err(failed(ReconcileError::Reason { reason, text, disposition }));
            }
        };
        self.adopt(&id, &mut spec).await.map_err(failed)?;
        if release.reuses_values {
            self.reuse_values(&id, &mut spec).await.map_err(failed)?;
        }
        let (chart, version) = {
            let chart = spec.chart.chart();
            (chart.name().to_owned(), chart.metadata.version.clone())
        };
        let runner = self.front_end.release_runner(self.pass, self.object, &id).map_err(failed)?;
        let done = runner.run(*spec).await.map_err(failed)?;
        let status =
            ReleaseStatus { revision: done.outcome.revision, chart, version, ..self.status(&id, DEPLOYED) };
        Ok((done, status))
    }

    fn take(&self, outcome: Done, status: ReleaseStatus, done: &mut Deployed) {
        self.pass.note_outcome(&outcome.outcome);
        if outcome.outcome.record.is_some() {
            done.notes.push(format!("release {}: revision {} is deployed", id_of(&status), status.revision));
        }
        done.requests.push(outcome.request);
        done.inputs = done.inputs.take().into_iter().chain(outcome.inputs).reduce(RenderInputs::merged);
        done.releases.push(status);
    }

    /// Makes sure that a release may be the object's. The record of one that another tool made gets the object's labels with a new
    /// revision.
    async fn adopt(&self, id: &ReleaseId, spec: &mut ReleaseSpec) -> Result<(), ReconcileError> {
        let runner = self.front_end.release_runner(self.pass, self.object, id)?;
        let is_unchanged = runner.engine().unchanged_revision(id, spec.options.drift.mode).is_some();
        if is_unchanged && self.known.iter().any(|known| id_of(known) == *id) {
            // This process has deployed it, and nobody has written its record since.
            return self.pass.claim_release(&ReleaseKey::at_home(id));
        }
        if let Ownership::Unmarked = self.claim(id).await? {
            spec.options.revisions.skip_unchanged = false;
        }
        Ok(())
    }

    /// Claims a release, if its record may be read and is not somebody else's: who has no rights in its namespace cannot keep others
    /// from it. A release that does not exist counts as the object's.
    async fn claim(&self, id: &ReleaseId) -> Result<Ownership, ReconcileError> {
        let ownership = self.ownership_of(id).await?;
        self.pass.claim_release(&ReleaseKey::at_home(id))?;
        Ok(ownership)
    }

    async fn ownership_of(&self, id: &ReleaseId) -> Result<Ownership, ReconcileError> {
        let Some(newest) = self.newest(id).await? else { return Ok(Ownership::Own) };
        match self.ownership(&newest).await? {
            Ownership::Foreign(owner) => Err(ReconcileError::Config(format!(
                "release {id} belongs to {owner} already: choose another name"
            ))),
            ownership => Ok(ownership),
        }
    }

    async fn reuse_values(&self, id: &ReleaseId, spec: &mut ReleaseSpec) -> Result<(), ReconcileError> {
        let past = self.front_end.release_runner(self.pass, self.object, id)?.engine().history_of(id).await?;
        let Some(base) = past.upgrade_base() else { return Ok(()) };
        release_spec::reuse_values(spec, base).map_err(|error| ReconcileError::Chart(error.to_string()))
    }

    async fn newest(&self, id: &ReleaseId) -> Result<Option<Record>, ReconcileError> {
        let newest =
            self.front_end.release_runner(self.pass, self.object, id)?.engine().records().newest(id).await?;
        Ok(newest.filter(|newest| newest.info.status != RecordStatus::Uninstalled))
    }

    async fn ownership(&self, record: &Record) -> Result<Ownership, ReconcileError> {
        let Some(owner) = record.owner() else { return Ok(Ownership::Unmarked) };
        if owner != self.front_end.name() {
            return Ok(Ownership::Foreign(format!("the operator's {owner}")));
        }
        let other = OwnerLabels::of(&record.labels);
        if other == *self.labels {
            return Ok(Ownership::Own);
        }
        // A release of an object that does not exist any more is anybody's. Labels may be forged: an account learns nothing of another
        // namespace that it may not read itself.
        let other_object = other.object(&self.pass.reference);
        let runner = self.pass.runner(self.front_end, self.object)?;
        let reader = match other_object.namespace == self.pass.reference.namespace {
            true => self.pass.client(),
            false => runner.engine().cluster(),
        };
        let foreign = || Ownership::Foreign(format!("{} {other}", self.pass.reference.gvk.kind));
        match reader.get(&other_object).await {
            Ok(Some(_)) => Ok(foreign()),
            Ok(None) => Ok(Ownership::Unmarked),
            Err(error) if error.is_forbidden() => Ok(foreign()),
            Err(error) => Err(error.into()),
        }
    }

    /// Uninstalls a release that the state files do not want any more, unless it belongs to somebody else.
    async fn uninstall_unwanted(&self, id: &ReleaseId, request: UninstallRequest, done: &mut Deployed) {
        let result = async {
            self.claim(id).await?;
            if self.newest(id).await?.is_none() {
                return Ok(false);
            }
            self.uninstall(id, request).await.map(|()| true)
        };
        match result.await {
            Ok(was_there) => done.note_uninstalled(id, was_there),
            Err(error) => {
                done.releases.push(self.failed(id, &error.to_string()));
                done.failures.push((id.clone(), error));
            }
        }
    }

    async fn prune(&self, known: &ReleaseStatus, done: &mut Deployed) {
        let id = id_of(known);
        match self.uninstall_own(&id).await {
            Ok(was_there) => done.note_uninstalled(&id, was_there),
            Err(error) if was_never_there(known, &error) => done.note_uninstalled(&id, false),
            Err(error) => {
                done.releases.push(ReleaseStatus {
                    error: status_text(&error.to_string()),
                    ..self.status(&id, PRUNING)
                });
                done.failures.push((id, error));
            }
        }
    }

    /// Uninstalls the releases of the status, in reverse order. An error of one does not keep the others.
    ///
    /// # Errors
    /// The first error.
    pub(super) async fn uninstall_all(&self) -> Result<(), ReconcileError> {
        let mut failed = None;
        for known in self.known.iter().rev() {
            match self.uninstall_own(&id_of(known)).await {
                Err(error) if !was_never_there(known, &error) => failed = failed.or(Some(error)),
                _ => {}
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Uninstalls a release if its record has the object's labels. The status, which others may write, is not a proof.
    /// Returns whether it was there.
    ///
    /// # Errors
    /// Its record cannot be read, or an object cannot be deleted.
    async fn uninstall_own(&self, id: &ReleaseId) -> Result<bool, ReconcileError> {
        let is_own = match self.newest(id).await {
            Ok(None) => return Ok(false),
            Ok(Some(newest)) => matches!(self.ownership(&newest).await?, Ownership::Own),
            Err(ReconcileError::Engine(error)) if error.is_unreadable_record() => {
                let runner = self.front_end.release_runner(self.pass, self.object, id)?;
                let newest = runner.engine().records().heads_of(id).await?.pop();
                newest.is_some_and(|newest| self.is_own_record(&newest))
            }
            Err(error) => return Err(error),
        };
        if !is_own {
            tracing::warn!(object = %self.pass.reference, release = %id, "the release is not this object's: it stays");
            return Ok(false);
        }
        let request = UninstallRequest { ignore_not_found: true, ..UninstallRequest::new(id.clone()) };
        self.uninstall(id, request).await.map(|()| true)
    }

    /// Whether a record is the object's, by its labels.
    fn is_own_record(&self, head: &RecordHead) -> bool {
        head.owner() == Some(self.front_end.name()) && OwnerLabels::of(&head.labels) == *self.labels
    }

    async fn uninstall(&self, id: &ReleaseId, request: UninstallRequest) -> Result<(), ReconcileError> {
        let runner = self.front_end.release_runner(self.pass, self.object, id)?;
        let is_own = |head: &RecordHead| self.is_own_record(head);
        let done = self.pass.uninstall_readable(&runner, &request, is_own).await?;
        match done.errors.is_empty() {
            true => Ok(()),
            false => Err(ReconcileError::Config(done.errors.join("; "))),
        }
    }

    /// What would change. Writes nothing.
    ///
    /// # Errors
    /// A release cannot be rendered or compared.
    pub(super) async fn preview(
        &self,
        evaluation: Evaluation,
        prune: bool,
    ) -> Result<ChangeCounts, ReconcileError> {
        let mut counts = ChangeCounts::default();
        let wanted: BTreeSet<ReleaseId> =
            evaluation.releases.iter().map(|one| one.id.clone()).chain(evaluation.ignored).collect();
        for release in evaluation.releases {
            let (id, reuses_values) = (release.id, release.reuses_values);
            let place =
                |error: helmfile_compat::Error| ReconcileError::Chart(format!("release {id}: {error}"));
            let action = release.action.map_err(place)?;
            self.ownership_of(&id).await?;
            match action {
                ReleaseAction::Uninstall(_) => {
                    counts.releases += usize::from(self.newest(&id).await?.is_some());
                }
                ReleaseAction::Deploy(mut spec) => {
                    if reuses_values {
                        self.reuse_values(&id, &mut spec).await?;
                    }
                    let runner = self.front_end.release_runner(self.pass, self.object, &id)?;
                    let request = runner.preview(*spec).await?;
                    let preview = runner.engine().plan(&request).await?;
                    counts.releases += usize::from(!preview.keeps());
                    counts.create += preview.count(ChangeVerb::Create);
                    counts.update += preview.count(ChangeVerb::Update) + preview.count(ChangeVerb::Recreate);
                    counts.delete += preview.count(ChangeVerb::Delete);
                }
            }
        }
        if prune {
            counts.releases += self.known.iter().filter(|known| !wanted.contains(&id_of(known))).count();
        }
        Ok(counts)
    }
}

/// Whether an error says that the object may not read releases of the namespace, of one that it never deployed there.
fn was_never_there(known: &ReleaseStatus, error: &ReconcileError) -> bool {
    let refusal = match error {
        ReconcileError::Cluster(refusal) => Some(refusal),
        ReconcileError::Engine(error) => error.refused_records(),
        _ => None,
    };
    known.revision == 0 && refusal.is_some_and(ClusterError::is_forbidden)
}

/// An error as a status shows it: without secrets, and not too long for an object.
pub(super) fn status_text(error: &str) -> String {
    redact::mask(error).chars().take(MAX_ERROR).collect()
}
