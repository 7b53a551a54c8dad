//! The engine that a front end holds: its clients, caches and options, and the entry points of a reconcile.

use crate::{
    decide::{self, Decision, ReleaseAction, reason::ActionReason},
    drift::crd_tracker,
    engine_state::{EngineState, OperationGuard},
    error::{EngineError, Result},
    execute::{
        RevisionExecution, RevisionInput,
        apply::{Applier, TRIES},
        autoscaler::Autoscalers,
        chart_hooks::HookRunner,
        crds::{CrdInstaller, require_crds},
    },
    lock::release_lease::ReleaseLease,
    operation::RevisionOperation,
    outcome::ReleaseOutcome,
    plan::dry_run::Preview,
    record::{
        RecordStore, ReleaseStatus, SYSTEM_LABELS, Storage, recorded_manifests::state_of,
        release_history::History, served_kinds,
    },
    report::operation_progress::{ProgressListener, ProgressReporter, WaitListener},
    request::{
        ApplyMethod, CrdFile, CrdPolicy, CrdRules, Immutable, ManifestParser, OnFailure, ReleaseId,
        ReleaseKey, ReleaseOptions, ReleaseRequest,
    },
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};
use windlass_base::redact;
use windlass_cluster::{CacheEvent, Cluster, KindWatch, ObjectRef, WatchScope, Watches};

/// How an engine works; the same for all its releases.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Field manager of the release's objects.
    pub field_manager: String,
    /// Identifies this process in pending records; differs between processes.
    pub holder: String,
    /// Watches owned objects and records, for long-running processes. Otherwise each read goes to the server.
    pub watch: bool,
    /// Where records are stored.
    pub storage: Storage,
}

impl EngineOptions {
    /// Options of a process that runs one operation and exits.
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
    /// Client for the objects of releases.
    pub(crate) cluster: Cluster,
    /// Client for the CRDs of `crds/`.
    pub(crate) crd_client: Cluster,
    /// The operator's own client: for records and Leases.
    pub(crate) operator_client: Cluster,
    pub(crate) parse: ManifestParser,
    pub(crate) options: Arc<EngineOptions>,
    pub(crate) state: Arc<EngineState>,
    pub(crate) watches: Option<Watches>,
    pub(crate) records: Option<Watches>,
    /// Watch of all CRDs and APIServices.
    pub(crate) crds: Option<Watches>,
    /// Client for records; `None`: the operator's own.
    record_client: Option<Cluster>,
    /// Namespace of the records; `None`: of each release.
    storage_namespace: Option<Arc<str>>,
    progress: Option<ProgressListener>,
    diagnoses: bool,
    /// Objects are read and written with other rights than the caches'.
    pub(crate) acts_for_another: bool,
    waits: Option<Arc<dyn WaitListener>>,
    pub(crate) cancel: Option<watch::Receiver<bool>>,
    /// The deadline of the current operation, and its duration.
    pub(crate) until: Option<(Instant, Duration)>,
}

impl Engine {
    /// Creates an engine for a cluster. `parse` parses the documents of stored manifests.
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
        let crds = options.watch.then(|| {
            let scope = WatchScope { labels: String::new(), manager: options.field_manager.clone() };
            let (state, client) = (Arc::clone(&state), cluster.clone());
            Watches::new(cluster.clone(), scope, move |change| {
                state.on_crd_event(change);
                client.note_definition_change();
            })
        });
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
            record_client: None,
            storage_namespace: None,
            progress: None,
            diagnoses: false,
            acts_for_another: false,
            waits: None,
            cancel: None,
            until: None,
        }
    }

    /// Keeps the engine's knowledge of served kinds current until the result is dropped. `None` for an engine that does not watch.
    #[must_use]
    pub fn watch_kind_definitions(&self) -> Option<KindWatch> {
        Some(KindWatch::start(self.operator_client.clone(), self.crds.clone()?))
    }

    /// The same engine, with a listener for progress. `diagnoses`: also reports why objects are not ready, which
    /// costs requests.
    #[must_use]
    pub fn with_progress(mut self, listener: ProgressListener, diagnoses: bool) -> Self {
        self.progress = Some(listener);
        self.diagnoses = diagnoses;
        self
    }

    /// The same engine, acting as another user on objects of releases, `crds/` included. Records and Leases stay with
    /// the operator's own client.
    #[must_use]
    pub fn acting_as(mut self, actor: Cluster) -> Self {
        self.crd_client = actor.clone();
        self.cluster = actor;
        self.acts_for_another = true;
        self
    }

    /// The same engine, applying `crds/` with the operator's own client.
    #[must_use]
    pub fn with_crds_as_operator(mut self) -> Self {
        self.crd_client = self.operator_client.clone();
        self
    }

    /// The same engine, with the records of its releases in another namespace. `as_actor`: they are read and written with the
    /// rights of the actor, who chose the namespace.
    #[must_use]
    pub fn with_storage_namespace(mut self, namespace: &str, as_actor: bool) -> Self {
        self.storage_namespace = Some(namespace.into());
        self.record_client = as_actor.then(|| self.cluster.clone());
        self
    }

    /// The same engine, cancelled when the flag becomes true: the current revision is then recorded as failed.
    #[must_use]
    pub fn with_cancel(mut self, flag: watch::Receiver<bool>) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// The same engine, with a listener for waits.
    #[must_use]
    pub fn with_wait_listener(mut self, listener: Arc<dyn WaitListener>) -> Self {
        self.waits = Some(listener);
        self
    }

    /// The same engine with a deadline for one operation, unless a deadline is set already.
    #[must_use]
    pub fn bounded(&self, deadline: Option<Duration>) -> Self {
        let from_now = || deadline.map(|deadline| (Instant::now() + deadline, deadline));
        Self { until: self.until.or_else(from_now), ..self.clone() }
    }

    /// Ends when the operation is cancelled or passes its deadline, with the error.
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

    /// Ends when the engine is cancelled.
    pub(crate) async fn cancelled(&self) {
        if let Some(flag) = &self.cancel
            && flag.clone().wait_for(|raised| *raised).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Where records are stored.
    pub fn storage(&self) -> &Storage {
        &self.options.storage
    }

    /// The client for the objects of releases.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The client for CRDs of `crds/`.
    pub fn crd_client(&self) -> &Cluster {
        &self.crd_client
    }

    /// The operator's own client, which reads and writes records.
    pub fn operator_client(&self) -> &Cluster {
        &self.operator_client
    }

    pub(crate) fn progress_of<'a>(&'a self, id: &'a ReleaseId) -> ProgressReporter<'a> {
        ProgressReporter {
            id,
            listener: self.progress.as_ref(),
            diagnoses: self.diagnoses,
            waits: self.waits.as_ref(),
        }
    }

    pub(crate) fn applier<'a>(&'a self, id: &'a ReleaseId, options: &'a ReleaseOptions) -> Applier<'a> {
        Applier {
            cluster: &self.cluster,
            manager: &self.options.field_manager,
            options,
            id,
            progress: self.progress_of(id),
            client: None,
            state: &self.state,
            autoscalers: Autoscalers::new(&self.cluster),
        }
    }

    pub(crate) fn hook_runner<'a>(
        &'a self,
        id: &'a ReleaseId,
        options: &ReleaseOptions,
        method: ApplyMethod,
    ) -> HookRunner<'a> {
        HookRunner {
            cluster: &self.cluster,
            store: self.store(),
            id,
            timeout: options.timeout,
            rules: options.sanitize_rules(),
            method,
            progress: self.progress_of(id),
        }
    }

    /// The client for records, Leases and generated values: the operator's own, unless the actor chose where they are.
    pub fn record_client(&self) -> &Cluster {
        self.record_client.as_ref().unwrap_or(&self.operator_client)
    }

    /// The namespace of a release's records, Lease and generated values.
    pub fn storage_namespace_of<'a>(&'a self, id: &'a ReleaseId) -> &'a str {
        self.storage_namespace.as_deref().unwrap_or(&id.namespace)
    }

    /// What the engine's state knows a release by.
    pub(crate) fn key(&self, id: &ReleaseId) -> ReleaseKey {
        ReleaseKey::new(id, self.storage_namespace_of(id))
    }

    /// Admits one operation at a time on a release. While another one runs, the place among the workers is free: it may run for as
    /// long as its objects take to become ready.
    pub(crate) async fn begin_operation(&self, id: &ReleaseId) -> Result<OperationGuard> {
        let key = self.key(id);
        if let Some(guard) = self.state.try_begin_operation(&key) {
            return Ok(guard);
        }
        let progress = self.progress_of(id);
        tokio::select! {
            guard = progress.wait(self.state.begin_operation(&key)) => Ok(guard),
            error = self.given_up() => Err(error),
        }
    }

    pub(crate) fn store(&self) -> RecordStore<'_> {
        RecordStore::new(self.record_client(), &self.options.storage, &self.state.horizon)
            .in_namespace(self.storage_namespace.as_deref())
    }

    /// Reconciles a release with a request.
    pub async fn reconcile(&self, request: &ReleaseRequest) -> Result<ReleaseOutcome> {
        self.reconcile_as(request, None, None).await
    }

    /// As [`Engine::reconcile`], with a history that was read before. A history that is out of date is read again.
    ///
    /// # Errors
    /// As [`Engine::reconcile`].
    pub async fn reconcile_with_history(
        &self,
        request: &ReleaseRequest,
        history: History,
    ) -> Result<ReleaseOutcome> {
        self.reconcile_as(request, None, Some(history)).await
    }

    /// As [`Engine::reconcile`], refusing anything that differs from a plan.
    pub(crate) async fn reconcile_as(
        &self,
        request: &ReleaseRequest,
        planned: Option<&Preview>,
        history: Option<History>,
    ) -> Result<ReleaseOutcome> {
        match self.bounded(request.options.deadline).reconcile_once(request, planned, history).await {
            Err(error) if request.options.failure.on_failure == OnFailure::Undo => {
                Err(self.undo(&request.id, &request.options, error).await)
            }
            result => result,
        }
    }

    /// Chooses the action for a request, by the recorded revisions.
    pub(crate) fn decide<'a>(
        &self,
        request: &'a ReleaseRequest,
        history: &History,
    ) -> Result<(Decision, RevisionInput<'a>)> {
        // An API server may quote the object that it rejects.
        let rendered = &request.rendered;
        let objects = rendered.manifests.iter().map(|m| &m.object);
        for object in objects.chain(rendered.hooks.iter().map(|h| &h.object)) {
            redact::add_secret(object);
        }
        let state = state_of(&request.rendered);
        let rows = self.rows(history, state, request.owner.as_deref());
        let decision =
            decide::decide(&request.id.name, &request.options, &rows).map_err(|e| history.explained(e))?;
        tracing::debug!(release = %request.id, action = ?decision.action, reason = %decision.reason, "decided");
        if request.options.crds.is_due(decision.installing) {
            require_crds(&request.rendered.crds)?;
        }
        let input = RevisionInput {
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
            method: method_of(&request.options, &decision, history),
            operation: if decision.installing {
                RevisionOperation::Install
            } else {
                RevisionOperation::Upgrade
            },
            state,
        };
        if !decision.installing {
            refuse_replace(&request.options, input.method)?;
        }
        Ok((decision, input))
    }

    async fn reconcile_once(
        &self,
        request: &ReleaseRequest,
        planned: Option<&Preview>,
        read: Option<History>,
    ) -> Result<ReleaseOutcome> {
        validate(request)?;
        let busy = self.begin_operation(&request.id).await?;
        if let Some(owner) = &request.owner {
            self.state.set_owner(&self.key(&request.id), owner);
        }
        self.watch_records(&request.id).await;
        if self.records.is_some() {
            if matches!(request.options.crds, CrdPolicy::CreateMissing | CrdPolicy::Apply) {
                self.watch_crds(&request.id, &request.rendered.crds).await;
            }
            if let Some(outcome) = self.unchanged_by_caches(request) {
                return Ok(outcome);
            }
        }
        let (mut history, mut lease) = tokio::select! {
            history = self.locked_history(&request.id, &request.options, read, busy.first) => history?,
            error = self.given_up() => return Err(error),
        };
        let mut tries = 0;
        let result = loop {
            tries += 1;
            match self.reconcile_locked(request, planned, history, &mut lease).await {
                Err(EngineError::Overtaken) if tries < TRIES => {}
                result => break result,
            }
            history = match self.reread_history(&request.id, &lease).await {
                Ok(history) => history,
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
        history: History,
        lease: &mut Option<ReleaseLease>,
    ) -> Result<ReleaseOutcome> {
        let (decision, input) = self.decide(request, &history)?;
        if let Some(planned) = planned {
            self.still_holds(planned, &input, &decision, &history).await?;
        }
        if decision.action == ReleaseAction::Unchanged {
            return self.correct_drift(&input, decision, history, lease).await;
        }
        RevisionExecution { engine: self, input: &input }.run(decision, history, lease).await
    }

    /// Whether records are read and written with the rights of the actor.
    pub(crate) fn stores_as_actor(&self) -> bool {
        self.record_client.is_some()
    }

    /// Watches the records of a release, if this engine watches.
    pub(crate) async fn watch_records(&self, id: &ReleaseId) {
        if let Some(records) = &self.records {
            let key = self.key(id);
            self.state.note_storage(&key);
            records.watch([(self.options.storage.gvk(), Some(key.storage))]).await;
        }
    }

    /// Re-creates and corrects objects by the deployed revision. Creates no revision. `owner` gets the triggers of the
    /// release from here on.
    pub async fn restore(
        &self,
        id: &ReleaseId,
        options: &ReleaseOptions,
        owner: Option<&str>,
    ) -> Result<ReleaseOutcome> {
        let busy = self.begin_operation(id).await?;
        if let Some(owner) = owner {
            self.state.set_owner(&self.key(id), owner);
        }
        self.watch_records(id).await;
        let history = self.history_of(id).await?;
        let newest = history.records.last().ok_or(EngineError::NotFound)?;
        if newest.record.info.status != ReleaseStatus::Deployed {
            return Err(EngineError::NoDeployed(id.name.clone()));
        }
        let record = newest.record.clone();
        let mut rendered = self.rendered_of(&record)?;
        let state = state_of(&rendered);
        let kinds = self.kinds_for(rendered.manifests.iter().map(|m| &m.object), &[]).await?;
        for warning in served_kinds::to_applicable(&mut rendered, &kinds) {
            tracing::info!(release = %id, "{warning}");
        }
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
        let input = RevisionInput {
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
            method: method_of(options, &decision, &history),
            operation: RevisionOperation::Upgrade,
            state,
        };
        let mut lease = None;
        let result = self.correct_drift(&input, decision, history, &mut lease).await;
        self.release_lease(lease, busy).await;
        result
    }

    /// Creates (or, by policy, updates) the CRDs of a chart before the chart is rendered: templates may look up their
    /// kinds.
    ///
    /// # Errors
    /// A file contains another kind of object, a CRD belongs to another release, or a write fails.
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

    /// Checks that a live CRD may be replaced by a new version.
    ///
    /// # Errors
    /// Objects of its kind would lose data, or cannot be read.
    pub async fn check_crd(&self, live: &Value, new: &Value, crd: &ObjectRef) -> Result<()> {
        crate::execute::crds::check_losses(&self.crd_client, live, new, crd).await
    }

    /// Number of cached objects and of watches.
    pub fn cache_size(&self) -> (usize, usize) {
        let all = [&self.watches, &self.records, &self.crds];
        let sizes = all.into_iter().flatten().map(Watches::size);
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }
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

/// # Errors
/// Objects cannot be replaced as a whole by server-side apply.
pub(crate) fn refuse_replace(options: &ReleaseOptions, method: ApplyMethod) -> Result<()> {
    match (options.objects.immutable, method) {
        (Immutable::Replace, ApplyMethod::Server) => Err(EngineError::ReplaceOnServer),
        _ => Ok(()),
    }
}

/// How a request's objects are written. Without a new revision as the deployed one's, whatever the request chooses.
fn method_of(options: &ReleaseOptions, decision: &Decision, history: &History) -> ApplyMethod {
    if decision.installing {
        return options.apply.method(None);
    }
    let newest = history.newest().map(|record| record.apply_method.as_str());
    let deployed = history.records.iter().find(|stored| stored.record.version == decision.revision);
    match deployed.map(|stored| stored.record.apply_method.as_str()) {
        // A record of Helm 3 names none: the request chooses.
        Some(known) if decision.action == ReleaseAction::Unchanged && !known.is_empty() => {
            ApplyMethod::of_record(known)
        }
        _ => options.apply.method(newest),
    }
}
