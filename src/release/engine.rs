//! Ties the steps together: what a front end holds.

use crate::cluster::{CacheEvent, CacheLookup, Cluster, ObjectRef, WatchScope, Watches};
use crate::redact;
use crate::release::{
    decide::{self, Decision, ReleaseAction, reason::ActionReason},
    desired_objects::{self, Digest},
    drift::{self, DriftVerdict, ExpectedObject, Tolerated, crd_tracker},
    engine_state::{EngineState, PendingEvents},
    error::{EngineError, Result},
    execute::{
        RevisionExecution, RevisionInput,
        apply::{Applier, TRIES},
        chart_hooks::HookRunner,
        crds::{CrdInstaller, require_crds},
    },
    lock::{lock_policy, release_lease::ReleaseLease},
    observe::History,
    operation::RevisionOperation,
    outcome::ReleaseOutcome,
    plan::dry_run::Preview,
    reconcile_trigger::ReconcileTrigger,
    record::{
        Record, RecordStore, RecordedHook, ReleaseStatus, SYSTEM_LABELS, Storage, StoredRecord, served_kinds,
        split_manifest,
    },
    report::operation_progress::{ProgressListener, ProgressReporter},
    request::{
        ChartHook, CrdFile, CrdPolicy, CrdRules, DriftMode, Manifest, ManifestParser, OnFailure, ReleaseId,
        ReleaseOptions, ReleaseRequest, RenderedRelease,
    },
};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};

/// How an engine works; the same for all its releases.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Name under which objects are applied.
    pub field_manager: String,
    /// Names this process in pending records; must differ between processes.
    pub holder: String,
    /// Watch owned objects and records: for those that stay. Otherwise the server is asked each time.
    pub watch: bool,
    /// Where records are kept.
    pub storage: Storage,
}

impl EngineOptions {
    /// Options of a process that does one thing and ends.
    pub fn once(holder: &str) -> Self {
        Self {
            field_manager: "helm".to_owned(),
            holder: holder.to_owned(),
            watch: false,
            storage: Storage::default(),
        }
    }

    /// Options of an operator.
    pub fn watching(holder: &str) -> Self {
        Self { watch: true, ..Self::once(holder) }
    }
}

/// The release engine. Cheap to clone; all clones share watches and caches.
#[derive(Clone)]
pub struct Engine {
    /// Objects of releases are read and written through it.
    pub(crate) cluster: Cluster,
    /// CRDs of `crds/` are.
    pub(crate) crd_client: Cluster,
    /// Records and Leases are.
    pub(crate) operator_client: Cluster,
    pub(crate) parse: ManifestParser,
    pub(crate) options: Arc<EngineOptions>,
    pub(crate) state: Arc<EngineState>,
    pub(crate) watches: Option<Watches>,
    records: Option<Watches>,
    /// All CRDs, once a release brings any.
    pub(crate) crds: Option<Watches>,
    progress: Option<ProgressListener>,
    diagnoses: bool,
    pub(crate) cancel: Option<watch::Receiver<bool>>,
    /// When the operation that is under way has to end, and how long it was given.
    pub(crate) until: Option<(Instant, Duration)>,
}

impl Engine {
    /// An engine on a cluster. `parse` reads the documents of stored manifests.
    pub fn new(cluster: Cluster, parse: ManifestParser, options: EngineOptions) -> Self {
        let state = Arc::new(EngineState::default());
        let cache = |labels: &str, listener: fn(&EngineState, &CacheEvent)| {
            if !options.watch {
                return None;
            }
            let scope = WatchScope { labels: labels.to_owned(), manager: options.field_manager.clone() };
            let state = Arc::clone(&state);
            Some(Watches::new(cluster.clone(), scope, move |change| listener(&state, change)))
        };
        let watches = cache("app.kubernetes.io/managed-by=Helm", EngineState::on_object_event);
        let records = cache("owner=helm", EngineState::on_record_event);
        let crds = cache("", EngineState::on_crd_event);
        Self {
            operator_client: cluster.clone(),
            crd_client: cluster.clone(),
            cluster,
            parse,
            options: Arc::new(options),
            state,
            watches,
            records,
            crds,
            progress: None,
            diagnoses: false,
            cancel: None,
            until: None,
        }
    }

    /// The same engine, telling its steps to a listener; `diagnoses`: also why something is not ready yet, which costs
    /// requests.
    #[must_use]
    pub fn with_progress(mut self, listener: ProgressListener, diagnoses: bool) -> Self {
        self.progress = Some(listener);
        self.diagnoses = diagnoses;
        self
    }

    /// The same engine, reading and writing objects of releases, `crds/` included, as another user. Records and Leases stay
    /// with the engine's own client.
    #[must_use]
    pub fn acting_as(mut self, actor: Cluster) -> Self {
        self.crd_client = actor.clone();
        self.cluster = actor;
        self
    }

    /// The same engine, applying `crds/` with its own rights whoever applies the release's objects.
    #[must_use]
    pub fn with_crds_as_operator(mut self) -> Self {
        self.crd_client = self.operator_client.clone();
        self
    }

    /// The same engine, giving up what it is doing when the flag is raised: what it was making is marked as failed.
    #[must_use]
    pub fn with_cancel(mut self, flag: watch::Receiver<bool>) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// The same engine, for one operation that is given so long from now on, unless it is under way already.
    #[must_use]
    pub fn bounded(&self, deadline: Option<Duration>) -> Self {
        let from_now = || deadline.map(|deadline| (Instant::now() + deadline, deadline));
        Self { until: self.until.or_else(from_now), ..self.clone() }
    }

    /// Ends when the operation is to be given up; tells why.
    pub(crate) async fn given_up(&self) -> EngineError {
        let passed = async {
            match self.until {
                Some((end, deadline)) => {
                    tokio::time::sleep_until(end).await;
                    deadline.as_secs()
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.cancelled() => EngineError::Cancelled,
            seconds = passed => EngineError::Deadline { seconds },
        }
    }

    /// Ends when the operations of this engine are to be given up.
    pub(crate) async fn cancelled(&self) {
        if let Some(flag) = &self.cancel
            && flag.clone().wait_for(|raised| *raised).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Where records are kept.
    pub fn storage(&self) -> &Storage {
        &self.options.storage
    }

    /// Where objects of releases are read and written.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where CRDs of `crds/` are read and written.
    pub fn crd_client(&self) -> &Cluster {
        &self.crd_client
    }

    /// Where records are.
    pub fn operator_client(&self) -> &Cluster {
        &self.operator_client
    }

    pub(crate) fn progress_of<'a>(&'a self, id: &'a ReleaseId) -> ProgressReporter<'a> {
        ProgressReporter { id, listener: self.progress.as_ref(), diagnoses: self.diagnoses }
    }

    pub(crate) fn applier<'a>(&'a self, id: &'a ReleaseId, options: &'a ReleaseOptions) -> Applier<'a> {
        Applier {
            cluster: &self.cluster,
            manager: &self.options.field_manager,
            options,
            id,
            progress: self.progress_of(id),
        }
    }

    pub(crate) fn hook_runner<'a>(&'a self, id: &'a ReleaseId, options: &ReleaseOptions) -> HookRunner<'a> {
        HookRunner {
            cluster: &self.cluster,
            store: self.store(),
            id,
            timeout: options.timeout,
            rules: options.sanitize_rules(),
            progress: self.progress_of(id),
        }
    }

    pub(crate) fn store(&self) -> RecordStore<'_> {
        RecordStore::new(&self.operator_client, &self.options.storage, &self.state.horizon)
    }

    /// Brings a release to what the request says.
    pub async fn reconcile(&self, request: &ReleaseRequest) -> Result<ReleaseOutcome> {
        self.reconcile_as(request, None, None).await
    }

    /// The same for a release whose past was just read. It is read again where it has moved since.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn reconcile_with_history(
        &self,
        request: &ReleaseRequest,
        past: History,
    ) -> Result<ReleaseOutcome> {
        self.reconcile_as(request, None, Some(past)).await
    }

    /// The same, only as it was planned.
    pub(crate) async fn reconcile_as(
        &self,
        request: &ReleaseRequest,
        planned: Option<&Preview>,
        past: Option<History>,
    ) -> Result<ReleaseOutcome> {
        match self.bounded(request.options.deadline).reconcile_once(request, planned, past).await {
            Err(error) if request.options.on_failure == OnFailure::Undo => {
                Err(self.undo(&request.id, &request.options, error).await)
            }
            result => result,
        }
    }

    /// What the request asks for, in the light of past revisions.
    pub(crate) fn decide<'a>(
        &self,
        request: &'a ReleaseRequest,
        past: &History,
    ) -> Result<(Decision, RevisionInput<'a>)> {
        // An API server may quote what it refuses.
        let rendered = &request.rendered;
        let objects = rendered.manifests.iter().map(|m| &m.object);
        for object in objects.chain(rendered.hooks.iter().map(|h| &h.object)) {
            redact::process().add_secret(object);
        }
        let state = state_of(&request.rendered);
        let rows = self.rows(past, state, request.owner.as_deref());
        let decision =
            decide::decide(&request.id.name, &request.options, &rows).map_err(|e| past.explained(e))?;
        tracing::debug!(release = %request.id, action = ?decision.action, reason = %decision.reason, "decided");
        if request.options.crds.is_due(decision.installing) {
            require_crds(&request.rendered.crds)?;
        }
        let work = RevisionInput {
            id: &request.id,
            rendered: &request.rendered,
            chart: &request.chart.0,
            config: &request.config,
            owner: request.owner.as_deref(),
            description: request.description.as_deref(),
            labels: &request.labels,
            old_hooks: &[],
            cause: &request.cause,
            options: &request.options,
            operation: if decision.installing {
                RevisionOperation::Install
            } else {
                RevisionOperation::Upgrade
            },
            state,
        };
        Ok((decision, work))
    }

    async fn reconcile_once(
        &self,
        request: &ReleaseRequest,
        planned: Option<&Preview>,
        read: Option<History>,
    ) -> Result<ReleaseOutcome> {
        validate(request)?;
        let busy = self.state.begin_operation(&request.id).await;
        if let Some(owner) = &request.owner {
            self.state.set_owner(&request.id, owner);
        }
        if let Some(records) = &self.records {
            records.watch([(self.options.storage.gvk(), Some(request.id.namespace.clone()))]).await;
            if matches!(request.options.crds, CrdPolicy::CreateMissing | CrdPolicy::Apply) {
                self.watch_crds(&request.id, &request.rendered.crds).await;
            }
            if let Some(outcome) = self.unchanged_by_memory(request) {
                return Ok(outcome);
            }
        }
        let (mut past, mut lease) = tokio::select! {
            past = self.locked_history(&request.id, &request.options, read) => past?,
            error = self.given_up() => return Err(error),
        };
        let mut tries = 0;
        let result = loop {
            tries += 1;
            match self.reconcile_locked(request, planned, past, &mut lease).await {
                Err(EngineError::Overtaken) if tries < TRIES => {}
                result => break result,
            }
            past = match self.reread_history(&request.id, &lease).await {
                Ok(past) => past,
                Err(error) => break Err(error),
            };
        };
        self.release_lease(lease, busy).await;
        result
    }

    async fn reconcile_locked(
        &self,
        request: &ReleaseRequest,
        planned: Option<&Preview>,
        past: History,
        lease: &mut Option<ReleaseLease>,
    ) -> Result<ReleaseOutcome> {
        let (decision, work) = self.decide(request, &past)?;
        if let Some(planned) = planned {
            self.still_holds(planned, &work, &decision, &past).await?;
        }
        if decision.action == ReleaseAction::Unchanged {
            return self.correct_drift(&work, decision, past, lease).await;
        }
        RevisionExecution { engine: self, work: &work }.run(decision, past, lease).await
    }

    /// Puts objects right that were changed or deleted, as the deployed revision has them. Makes no revision.
    pub async fn restore(&self, id: &ReleaseId, options: &ReleaseOptions) -> Result<ReleaseOutcome> {
        let busy = self.state.begin_operation(id).await;
        let past = self.history_of(id).await?;
        let newest = past.records.last().ok_or(EngineError::NotFound)?;
        if newest.record.info.status != ReleaseStatus::Deployed {
            return Err(EngineError::NoDeployed(id.name.clone()));
        }
        let record = newest.record.clone();
        let mut rendered = self.rendered_of(&record)?;
        let state = state_of(&rendered);
        for told in served_kinds::to_last(&mut rendered, &*self.cluster.kinds().await?) {
            tracing::info!(release = %id, "{told}");
        }
        let work = RevisionInput {
            id,
            rendered: &rendered,
            chart: &record.chart,
            config: &record.config,
            owner: record.owner(),
            description: None,
            labels: &record.labels,
            old_hooks: &[],
            cause: "",
            options,
            operation: RevisionOperation::Upgrade,
            state,
        };
        let revision = record.version;
        let decision = Decision {
            action: ReleaseAction::Unchanged,
            reason: ActionReason::Deployed { revision },
            revision,
            installing: false,
            base: vec![revision],
            abandon: Vec::new(),
            supersede: Vec::new(),
        };
        let mut lease = None;
        let result = self.correct_drift(&work, decision, past, &mut lease).await;
        self.release_lease(lease, busy).await;
        result
    }

    /// Creates (or, by policy, updates) the CRDs of a chart ahead of rendering it, which may look for their kinds.
    ///
    /// # Errors
    /// A file holds something else than CRDs, a CRD belongs to another release, or a write fails.
    pub async fn install_crds(
        &self,
        id: &ReleaseId,
        crds: &[CrdFile],
        rules: CrdRules,
    ) -> Result<Vec<ObjectRef>> {
        let (cluster, manager) = (&self.crd_client, self.options.field_manager.as_str());
        let installer = CrdInstaller { cluster, manager, id, rules };
        tokio::select! {
            biased;
            error = self.given_up() => Err(error),
            done = installer.install(crds) => {
                if done.is_ok() && rules.policy != CrdPolicy::Skip {
                    self.state.mark_crds_present(&crd_tracker::names(crds));
                }
                done
            }
        }
    }

    /// Whether a CRD that is there may be made another one.
    ///
    /// # Errors
    /// Objects of its kind would lose something, or cannot be looked at.
    pub async fn check_crd(&self, live: &Value, new: &Value, crd: &ObjectRef) -> Result<()> {
        crate::release::execute::crds::check_losses(&self.crd_client, live, new, crd).await
    }

    /// Waits until a release wants a look: an object of it was changed or deleted, or someone wrote its record. Only
    /// with watches, and only for releases that this engine reconciled.
    pub async fn next_trigger(&self) -> (ReleaseId, ReconcileTrigger) {
        self.trigger_from(None).await
    }

    /// The same for releases of these owners only (`ReleaseRequest::owner`): several front ends share one engine.
    pub async fn next_trigger_for(&self, owners: &BTreeSet<String>) -> (ReleaseId, ReconcileTrigger) {
        self.trigger_from(Some(owners)).await
    }

    async fn trigger_from(&self, owners: Option<&BTreeSet<String>>) -> (ReleaseId, ReconcileTrigger) {
        loop {
            let (id, pending) = self.state.next_pending(owners).await;
            if let Some(trigger) = self.trigger_of(&id, &pending) {
                tracing::info!(release = %id, reason = %trigger, "reconcile triggered");
                return (id, trigger);
            }
        }
    }

    fn trigger_of(&self, id: &ReleaseId, pending: &PendingEvents) -> Option<ReconcileTrigger> {
        let watches = self.watches.as_ref()?;
        let mut missing = if pending.crds { self.missing_crds(id) } else { BTreeSet::new() };
        let missing = missing.pop_first().map(ReconcileTrigger::Crd);
        let judged = self.state.with(id, |known| {
            if pending.has_foreign_write(known) {
                return Some(ReconcileTrigger::Record);
            }
            // A change comes first: it is nobody's right to leave it, and the look at it finds what is deleted, too.
            let mut worst = None;
            let looked_at = pending.objects.iter().filter(|_| known.drift != DriftMode::Off);
            for (key, flags) in looked_at {
                let Some(expected) = known.expected.get_mut(key) else { continue };
                expected.finished |= flags.finished && expected.object.gvk.kind == "Job";
                expected.owned |= flags.owned;
                let lookup = watches.lookup(&expected.object, expected.written);
                match drift::judge(expected, &lookup, id) {
                    DriftVerdict::Missing => {
                        worst = worst
                            .or(Some(ReconcileTrigger::Deleted(format!("{} was deleted", expected.object))));
                    }
                    DriftVerdict::Suspect(why) => {
                        let text = format!("{}: {why}", expected.object);
                        worst = worst
                            .filter(ReconcileTrigger::is_change)
                            .or(Some(ReconcileTrigger::Changed(text)));
                    }
                    DriftVerdict::Fine => {
                        if let CacheLookup::Present(seen) = &lookup {
                            expected.note(seen);
                        }
                    }
                    DriftVerdict::GoneRightly(_) | DriftVerdict::Later | DriftVerdict::Unknown => {}
                }
            }
            worst
        });
        match judged.flatten() {
            // Its objects go with a kind.
            None | Some(ReconcileTrigger::Deleted(_)) if missing.is_some() => missing,
            judged => judged,
        }
    }

    /// The CRDs of a release that were deleted and are to be re-created.
    pub(crate) fn missing_crds(&self, id: &ReleaseId) -> BTreeSet<String> {
        let corrects = self.state.with(id, |known| known.drift == DriftMode::Correct);
        if corrects == Some(false) { BTreeSet::new() } else { self.state.missing_crds(id) }
    }

    /// Number of cached objects and of watches.
    pub fn cache_size(&self) -> (usize, usize) {
        let all = [&self.watches, &self.records, &self.crds];
        let sizes = all.into_iter().flatten().map(Watches::size);
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    /// The answer without a request: the same was asked before, and the caches say that nothing moved since.
    fn unchanged_by_memory(&self, request: &ReleaseRequest) -> Option<ReleaseOutcome> {
        let (watches, records) = (self.watches.as_ref()?, self.records.as_ref()?);
        let checksum = &request.rendered.checksum;
        if !request.options.skip_unchanged || request.options.dry_run || checksum.is_empty() {
            return None;
        }
        if !self.missing_crds(&request.id).is_empty() {
            return None;
        }
        let crds = crate::release::execute::crds::kept_digest(request.options.crds, &request.rendered.crds);
        self.state.with(&request.id, |known| {
            let record = |revision: u64| self.options.storage.reference(&request.id, revision);
            let current = match records.lookup(&record(known.revision), None) {
                CacheLookup::Present(seen) => seen.resource_version == known.record_version,
                _ => false,
            };
            let last = matches!(records.lookup(&record(known.revision + 1), None), CacheLookup::Absent);
            let told = |e: &ExpectedObject| e.tolerated == Some(Tolerated::Reported);
            let as_asked = *checksum == known.checksum
                && crds == known.crds
                && request.options.drift == known.drift
                && !known.expected.values().any(told);
            if !as_asked || !current || !last {
                return None;
            }
            let fine = known.drift == DriftMode::Off
                || known.expected.values().all(|expected| {
                    let lookup = watches.lookup(&expected.object, expected.written);
                    matches!(
                        drift::judge(expected, &lookup, &request.id),
                        DriftVerdict::Fine | DriftVerdict::GoneRightly(_) | DriftVerdict::Later
                    )
                });
            fine.then(|| {
                let reason = ActionReason::Quiet { revision: known.revision };
                let mut outcome = ReleaseOutcome::new(ReleaseAction::Unchanged, reason, known.revision);
                outcome.unchanged = known.expected.len();
                outcome
            })
        })?
    }

    /// The past revisions as `decide` sees them.
    pub(crate) fn rows(&self, past: &History, state: Digest, owner: Option<&str>) -> Vec<decide::History> {
        self.rows_where(past, past.free, owner, |record| {
            let comparable =
                !matches!(record.info.status, ReleaseStatus::Superseded | ReleaseStatus::Uninstalled);
            // A stored manifest that cannot be read is not the same as anything.
            comparable && self.has_state(record, state)
        })
    }

    /// The same where something else tells whether a revision has the same objects and hooks.
    pub(crate) fn rows_where(
        &self,
        past: &History,
        free: bool,
        owner: Option<&str>,
        same: impl Fn(&Record) -> bool,
    ) -> Vec<decide::History> {
        let now = jiff::Timestamp::now();
        let unsettled = free && past.has_two_deployed();
        let newest = past.newest().map(|newest| newest.version);
        let row = |stored: &StoredRecord| decide::History {
            revision: stored.record.version,
            status: stored.record.info.status,
            same: same(&stored.record),
            hold: lock_policy::judge(&stored.record, &self.options.holder, owner, free, now),
            unsettled: unsettled && newest == Some(stored.record.version),
            undeployed: stored.record.extension.undeployed
                && stored.record.info.status != ReleaseStatus::Uninstalled,
        };
        past.records.iter().map(row).collect()
    }

    /// Whether a revision has the objects and hooks of a state.
    pub(crate) fn has_state(&self, record: &Record, state: Digest) -> bool {
        self.rendered_of(record).is_ok_and(|rendered| state_of(&rendered) == state)
    }

    /// What a record was rendered as.
    pub(crate) fn rendered_of(&self, record: &Record) -> Result<RenderedRelease> {
        Ok(RenderedRelease {
            manifests: self.manifests_of(record).collect::<Result<_>>()?,
            hooks: self.hooks_of(record)?,
            crds: Vec::new(),
            notes: record.info.notes.clone(),
            checksum: String::new(),
            manifest_text: record.manifest.clone(),
        })
    }

    /// The manifests of a record, each read when it is asked for: all of them together are large.
    pub(crate) fn manifests_of(&self, record: &Record) -> impl Iterator<Item = Result<Manifest>> {
        let parse = self.parse;
        split_manifest(&record.manifest).into_iter().map(move |(path, text)| {
            let object = parsed(parse, record, path, text)?;
            Ok(Manifest { source: path.to_owned(), text: text.to_owned(), object })
        })
    }

    /// The hooks of a record.
    pub(crate) fn hooks_of(&self, record: &Record) -> Result<Vec<ChartHook>> {
        let hook = |hook: &RecordedHook| {
            Ok(ChartHook {
                name: hook.name.clone(),
                kind: hook.kind.clone(),
                path: hook.path.clone(),
                text: hook.manifest.clone(),
                object: parsed(self.parse, record, &hook.path, &hook.manifest)?,
                events: hook.events.clone(),
                weight: hook.weight,
                delete_policies: hook.delete_policies.clone(),
                output_log_policies: hook.output_log_policies.clone(),
            })
        };
        record.hooks.iter().map(hook).collect()
    }
}

/// A document of a record.
fn parsed(parse: ManifestParser, record: &Record, path: &str, text: &str) -> Result<Value> {
    let object = parse(text).map_err(|reason| {
        let name = crate::release::record::secret_name(&record.name, record.version);
        let reason = if path.is_empty() { reason } else { format!("{path}: {reason}") };
        EngineError::Record(crate::release::record::RecordError::Manifest { name, reason })
    })?;
    redact::process().add_secret(&object);
    Ok(object)
}

/// Digest of what a release consists of.
pub(crate) fn state_of(rendered: &RenderedRelease) -> Digest {
    desired_objects::state_digest(
        rendered.manifests.iter().map(|m| &m.object),
        rendered.hooks.iter().map(|h| &h.object),
    )
}

/// Objects of a release as its record remembers them.
pub(crate) fn remembered(targets: &[desired_objects::DesiredObject], record: &Record) -> Vec<ExpectedObject> {
    let applied = |target: &desired_objects::DesiredObject| {
        record.extension.applied.get(&target.key.to_string()).copied()
    };
    targets.iter().map(|t| ExpectedObject::remembered(t.object.clone(), &t.body, applied(t))).collect()
}

fn validate(request: &ReleaseRequest) -> Result<()> {
    let name = &request.id.name;
    let part = |part: &str| {
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    if name.len() > 53 || !name.split('.').all(part) {
        return Err(EngineError::Name(name.clone()));
    }
    if request.labels.keys().any(|label| SYSTEM_LABELS.contains(&label.as_str())) {
        return Err(EngineError::SystemLabel);
    }
    Ok(())
}
