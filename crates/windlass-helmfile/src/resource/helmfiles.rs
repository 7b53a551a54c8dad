//! The front end of Helmfiles: what is watched, and one pass over one object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::api::{HelmfileSpec, HelmfileStatus, ReleaseStatus};
use super::custom_kinds::CustomKind;
use super::definition::KIND;
use super::deployment::{Deployed, Deployment, PENDING, id_of, status_text};
use super::evaluation::{self, Evaluation, EvaluationContext};
use super::object_inputs;
use crate::bundle::opened_bundle::OpenedBundle;
use windlass_base::redact;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef, api_now};
use windlass_controller::{
    AccountName, EventNote, EventType, FrontEnd, ImageAnnotations, Phase, ReadyState, ReconcileError,
    ReconcilePass, Reconciled, ReleaseRunner, ReleaseTarget, Report, Requeue, jittered, set_conditions,
};
use windlass_engine::{Disposition, ReleaseId, ReleaseKey};
use windlass_render::RenderBounds;

/// How often a source is read, unless the object says otherwise.
const INTERVAL: Duration = Duration::from_secs(60);
/// The shortest and the longest interval.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(365 * 86_400));
/// Labels of records: whose they are.
const OWNER_KIND: &str = "windlass.dev/owner-kind";
const OWNER_NAMESPACE: &str = "windlass.dev/owner-namespace";
const OWNER_NAME: &str = "windlass.dev/owner-name";

/// Options of all Helmfiles of a process.
#[derive(Clone, Debug, Default)]
pub struct HelmfileOptions {
    /// The ServiceAccount of Helmfiles that name none.
    pub default_service_account: Option<AccountName>,
    /// Whether sources may be at addresses of this machine and of its cloud's metadata service.
    pub allow_local_addresses: bool,
    /// Where charts are kept.
    pub cache: PathBuf,
    /// What Helmfiles without a source and a state stand for.
    pub bundle: Option<DefaultBundle>,
}

/// The bundle of an operator.
#[derive(Clone, Debug)]
pub struct DefaultBundle {
    /// Its files.
    pub opened: Arc<OpenedBundle>,
    /// Its digest: `sha256:` and hexadecimal digits.
    pub digest: String,
}

/// The front end of one kind.
pub struct Helmfiles {
    options: HelmfileOptions,
    /// A kind of users; `None`: Helmfiles themselves.
    custom: Option<(Arc<CustomKind>, RenderBounds)>,
}

/// Whose a record is: an object's kind, namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OwnerLabels {
    kind: String,
    namespace: String,
    name: String,
}

impl OwnerLabels {
    fn of_object(object: &ObjectRef) -> Self {
        Self {
            kind: object.gvk.kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
        }
    }

    /// Those of a record.
    pub(super) fn of(labels: &BTreeMap<String, String>) -> Self {
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        Self { kind: label(OWNER_KIND), namespace: label(OWNER_NAMESPACE), name: label(OWNER_NAME) }
    }

    /// The object, of the same API version as another one.
    pub(super) fn object(&self, like: &ObjectRef) -> ObjectRef {
        ObjectRef::new(like.gvk.clone(), Some(&self.namespace), &self.name)
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let all = [(OWNER_KIND, &self.kind), (OWNER_NAMESPACE, &self.namespace), (OWNER_NAME, &self.name)];
        all.into_iter().map(|(label, value)| (label.to_owned(), value.clone())).collect()
    }
}

impl fmt::Display for OwnerLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Helmfiles {
    /// The front end of Helmfiles.
    #[must_use]
    pub fn new(options: HelmfileOptions) -> Self {
        Self { options, custom: None }
    }

    /// The front end of a kind of users, whose objects stand for Helmfiles. `bounds`: those of the template of one.
    #[must_use]
    pub fn of_kind(options: HelmfileOptions, kind: CustomKind, bounds: RenderBounds) -> Self {
        Self { options, custom: Some((Arc::new(kind), bounds)) }
    }

    fn context(&self, pass: &ReconcilePass, generation: i64, labels: &OwnerLabels) -> EvaluationContext {
        let namespace = pass.reference.namespace.clone().unwrap_or_default();
        EvaluationContext {
            cause: format!("generation {generation} of {} {labels}", pass.reference.gvk.kind),
            owner: self.name().to_owned(),
            labels: labels.labels(),
            bounds: pass.runner_of_operator().render_bounds(),
            renders: pass.runner_of_operator().render_permits(),
            // Charts of one tenant are not another's, even by digest.
            cache: self.options.cache.join(&namespace),
            allow_local_addresses: self.options.allow_local_addresses,
            bundle: self.options.bundle.clone(),
            namespace,
        }
    }

    /// Evaluates the state files beside the workers.
    async fn evaluate(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmfileObject,
        labels: &OwnerLabels,
    ) -> Result<Evaluation, ReconcileError> {
        let (spec, generation) = (object.spec()?, object.generation);
        // An author who may not read Secrets names them here: what they say would reach the servers of the state file.
        let reader = pass.runner(self, object)?.engine().cluster().clone();
        pass.set_reader(&reader);
        let inputs = object_inputs::read(pass, spec).await?;
        let context = self.context(pass, generation, labels);
        let spec = spec.clone();
        let work = redact::spawn_blocking(move || evaluation::evaluate(&spec, &inputs, &context));
        work.await.map_err(|error| ReconcileError::Task(error.to_string()))?.map_err(|error| {
            // The source may be there the next time.
            let (reason, text) = ("EvaluationFailed", error.to_string());
            ReconcileError::Reason { reason, text, disposition: Disposition::Retry }
        })
    }
}

/// A Helmfile, or an object that stands for one, as it is read.
pub struct HelmfileObject {
    namespace: Option<String>,
    generation: i64,
    /// Its releases, as its status says.
    releases: BTreeSet<ReleaseId>,
    source: SpecSource,
    /// Read when it is first asked for: the template of a kind takes time, and most events need no spec.
    spec: OnceLock<Result<HelmfileSpec, String>>,
}

/// What a spec is read from.
enum SpecSource {
    /// The spec of a Helmfile.
    Helmfile(Value),
    /// An object of users, its kind, and the bounds of the kind's template.
    Custom(Value, Arc<CustomKind>, RenderBounds),
}

impl HelmfileObject {
    /// The spec.
    ///
    /// # Errors
    /// A field has a value of the wrong type, or the template of the kind fails.
    fn spec(&self) -> Result<&HelmfileSpec, ReconcileError> {
        let read = || match &self.source {
            SpecSource::Helmfile(spec) => HelmfileSpec::deserialize(spec).map_err(|e| format!("spec: {e}")),
            SpecSource::Custom(object, kind, bounds) => {
                kind.spec(object, *bounds).map_err(|error| error.to_string())
            }
        };
        self.spec.get_or_init(read).as_ref().map_err(|text| ReconcileError::Config(text.clone()))
    }
}

fn read_status(status: &Value) -> HelmfileStatus {
    serde_json::from_value(status.clone()).unwrap_or_default()
}

/// How often an object is reconciled.
fn interval_of(spec: &HelmfileSpec) -> Duration {
    spec.interval.as_ref().map_or(INTERVAL, |own| own.get()).clamp(INTERVALS.0, INTERVALS.1)
}

/// The status with its conditions.
fn with_ready(
    (object, before): (&HelmfileObject, &Value),
    mut status: HelmfileStatus,
    state: ReadyState,
) -> Value {
    status.observed_generation = object.generation;
    let mut status = serde_json::to_value(status).unwrap_or_default();
    let (now, before) = (api_now(), &before["conditions"]);
    status["conditions"] = set_conditions(before, &state.conditions(), Some(object.generation), &now);
    status
}

impl FrontEnd for Helmfiles {
    type Object = HelmfileObject;

    fn read(&self, object: &Value) -> HelmfileObject {
        let meta = ObjectMeta::of(object);
        // A release that was never deployed, for lack of rights for instance, belongs to no object.
        let is_own = |release: &&ReleaseStatus| release.revision > 0 || release.status == PENDING;
        let releases = read_status(&object["status"]).releases;
        HelmfileObject {
            namespace: meta.namespace().map(str::to_owned),
            generation: meta.generation(),
            releases: releases.iter().filter(is_own).map(id_of).collect(),
            source: match &self.custom {
                None => SpecSource::Helmfile(object["spec"].clone()),
                Some((kind, bounds)) => SpecSource::Custom(object.clone(), Arc::clone(kind), *bounds),
            },
            spec: OnceLock::new(),
        }
    }

    fn name(&self) -> &str {
        self.custom.as_ref().map_or("helmfiles", |(kind, _)| &kind.name)
    }

    fn kind(&self) -> Gvk {
        self.custom.as_ref().map_or_else(|| Gvk::new(KIND.0, KIND.1), |(kind, _)| kind.gvk.clone())
    }

    fn finalizer(&self) -> &'static str {
        "windlass.dev/helmfile"
    }

    fn releases(&self, object: &HelmfileObject) -> BTreeSet<ReleaseKey> {
        object.releases.iter().map(ReleaseKey::at_home).collect()
    }

    fn target(&self, object: &HelmfileObject) -> Result<ReleaseTarget, ReconcileError> {
        ReleaseTarget::of_tenant(
            object.namespace.as_deref(),
            object.spec()?.service_account_name.as_deref(),
            self.options.default_service_account.as_ref(),
        )
    }

    /// The records of releases in other namespaces are read and written with the rights of the object's ServiceAccount.
    fn release_runner(
        &self,
        pass: &ReconcilePass,
        object: &HelmfileObject,
        release: &ReleaseId,
    ) -> Result<ReleaseRunner, ReconcileError> {
        let own = pass.reference.namespace.as_deref() == Some(release.namespace.as_str());
        Ok(pass.runner(self, object)?.with_storage_namespace(&release.namespace, !own))
    }

    fn interval(&self, object: &HelmfileObject) -> Option<Duration> {
        object.spec().ok().map(interval_of)
    }

    fn is_suspended(&self, object: &HelmfileObject) -> bool {
        object.spec().is_ok_and(|spec| spec.suspend)
    }

    /// An evaluation that fails has changed nothing.
    fn keeps_state_on_error(&self) -> bool {
        true
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmfileObject,
    ) -> Result<Reconciled, ReconcileError> {
        pass.report_progress(self, object).await?;
        if pass.reference.namespace.is_none() {
            return Err(ReconcileError::Config(format!(
                "{} is cluster-scoped, and a Helmfile acts within a namespace: use a namespaced kind",
                pass.reference.gvk.kind
            )));
        }
        let spec = object.spec()?;
        let images = ImageAnnotations::of(ObjectMeta::of(&pass.object));
        pass.note_image_values(images.refused(
            "images in the values of Helmfiles are not followed: remove it, and those of the workloads are",
        ));
        let labels = OwnerLabels::of_object(&pass.reference);
        let interval = Requeue::After(jittered(interval_of(spec)));
        let evaluation = self.evaluate(pass, object, &labels).await?;
        let mut status = read_status(&pass.object["status"]);
        evaluation.revision.clone_into(&mut status.resolved_revision);
        evaluation.digest.clone_into(&mut status.last_attempted_digest);
        let known = status.releases.clone();
        let prune = spec.prune.unwrap_or(true);
        if spec.dry_run {
            let deployment = Deployment { front_end: self, pass, object, known: &known, labels: &labels };
            let counts = deployment.preview(evaluation, prune).await?;
            let message = format!(
                "dry run: {} releases would change: {} objects created, {} changed, {} deleted",
                counts.releases, counts.create, counts.update, counts.delete
            );
            status.changes = Some(counts);
            let ready = ReadyState::ready("DryRun", message);
            let status = with_ready((object, &pass.object["status"]), status, ready);
            pass.replace_status(&status).await?;
            return Ok(Reconciled::new(true, interval));
        }
        status.changes = None;
        if evaluation.releases.is_empty()
            && evaluation.ignored.is_empty()
            && !known.is_empty()
            && prune
            && !spec.allow_empty
        {
            return Err(ReconcileError::Reason {
                reason: "PruneBlocked",
                text: format!(
                    "the state files have no release, and {} are deployed: they stay; set spec.allowEmpty to uninstall them",
                    known.len()
                ),
                disposition: Disposition::Stall,
            });
        }
        let digest = evaluation.digest.clone();
        let deployment = Deployment { front_end: self, pass, object, known: &known, labels: &labels };
        status.releases = deployment.planned(&evaluation).await;
        if status.releases != known {
            pass.replace_status(&status).await?;
        }
        let known = status.releases.clone();
        let deployment = Deployment { front_end: self, pass, object, known: &known, labels: &labels };
        let done = deployment.run(evaluation, prune).await;
        self.conclude(pass, object, status, done, (&digest, interval)).await
    }

    async fn uninstall(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmfileObject,
    ) -> Result<(), ReconcileError> {
        let known = read_status(&pass.object["status"]).releases;
        // Where nothing was deployed, neither spec nor account need be right for the object to go.
        let unusable = || self.target(object).is_err();
        if known.iter().all(|release| release.revision == 0) && unusable() {
            return Ok(());
        }
        let spec = object.spec()?;
        if spec.deletion_policy.as_deref() == Some("orphan") {
            return Ok(());
        }
        let labels = OwnerLabels::of_object(&pass.reference);
        let deployment = Deployment { front_end: self, pass, object, known: &known, labels: &labels };
        deployment.uninstall_all().await
    }

    fn status(&self, object: &HelmfileObject, before: &Value, report: &Report<'_>) -> Value {
        // Drift was corrected; there are no dependencies.
        match ReadyState::of_report(report, "the state files are being evaluated") {
            Some(state) => with_ready((object, before), read_status(before), state),
            None => json!({}),
        }
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        match report {
            Report::Failed { error, .. } => Some(note(EventType::Warning, error.reason(), error.to_string())),
            _ => None,
        }
    }
}

fn note(event_type: EventType, reason: &'static str, note: String) -> EventNote {
    EventNote { event_type, reason, action: "Reconcile", note, annotations: BTreeMap::new() }
}

impl Helmfiles {
    /// Writes the status of what was done.
    async fn conclude(
        &self,
        pass: &mut ReconcilePass,
        object: &HelmfileObject,
        mut status: HelmfileStatus,
        done: Deployed,
        (digest, interval): (&str, Requeue),
    ) -> Result<Reconciled, ReconcileError> {
        let Deployed { releases, requests, inputs, notes, failures, .. } = done;
        status.releases = releases;
        for text in notes {
            pass.record_event(note(EventType::Normal, "Deployed", text));
        }
        let succeeded = failures.is_empty();
        let text =
            failures.iter().map(|(id, error)| format!("release {id}: {}", status_text(&error.to_string())));
        let text = text.collect::<Vec<_>>().join("; ");
        if succeeded {
            digest.clone_into(&mut status.last_applied_digest);
        }
        let state = match succeeded {
            true => ReadyState::ready("Deployed", format!("{} releases are deployed", status.releases.len())),
            false => ReadyState {
                ready: Some(false),
                reason: "ReleaseFailed",
                message: text.clone(),
                phase: Phase::Reconciling,
            },
        };
        let written = with_ready((object, &pass.object["status"]), status, state);
        if pass.replace_status(&written).await? && !succeeded {
            pass.record_event(note(EventType::Warning, "ReleaseFailed", text));
        }
        let failure = (!succeeded).then_some(ReconcileError::Releases(failures));
        let requeue = if succeeded { interval } else { Requeue::Failure };
        Ok(Reconciled { requests, inputs, failure, ..Reconciled::new(succeeded, requeue) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object that an older definition of the kind let in.
    #[test]
    fn an_empty_account_is_the_default_account() {
        let options = HelmfileOptions {
            default_service_account: AccountName::parse("tenant"),
            allow_local_addresses: false,
            cache: PathBuf::new(),
            bundle: None,
        };
        let front_end = Helmfiles::new(options);
        for account in [json!(""), json!(null)] {
            let spec = json!({"state": "releases: []", "serviceAccountName": account});
            let object = json!({"metadata": {"name": "x", "namespace": "apps"}, "spec": spec});
            let target = front_end.target(&front_end.read(&object)).unwrap();
            assert_eq!(target.service_account("other"), Some(("apps", "tenant")), "{account}");
        }
    }
}
