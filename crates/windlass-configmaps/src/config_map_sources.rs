//! The front end of ConfigMapSources: what is watched, and one pass over one object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chart_compat::profile::Profile;
use serde::Deserialize as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::config_map_manifests::{ConfigMapPlan, MAX_CONFIG_MAP};
use super::config_map_source_api::{ConfigMapSourceSpec, ConfigMapSourceStatus, SourceReference};
use super::config_map_source_definition::KIND;
use super::file_patterns::FilePatterns;
use flux_api::api_names::SOURCES;
use windlass_artifacts::{
    Artifact, ArtifactClient, FileBounds, FilesError, LocalArtifacts, check_digest, check_source_namespace,
    files_below, inner_path, source_state,
};
use windlass_base::hex::hex;
use windlass_base::redact;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef, api_now};
use windlass_controller::{
    AccountName, EventNote, EventType, FrontEnd, ReadyState, ReconcileError, ReconcilePass, Reconciled,
    ReleaseRunner, ReleaseTarget, Report, Requeue, jittered, set_conditions,
};
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{
    Disposition, DriftMode, Mode, OwnershipOptions, ReleaseAction, ReleaseId, ReleaseKey, ReleaseOptions,
    ReleaseRequest, RenderedRelease, RevisionOptions,
};
use windlass_render::{RenderBounds, RenderPermit, finished_chart, finished_release, object_data};

/// Name of the front end, and the owner of its releases.
const NAME: &str = "configmapsources";
/// What names of releases begin with: those of charts in the same namespace are others.
const RELEASE_PREFIX: &str = "configmaps-";
/// The longest name of a release, in bytes, and how many digits of a digest end one that would be longer.
const MAX_RELEASE: usize = 53;
const DIGITS: usize = 10;
/// What the record says the release is.
const DESCRIPTION: &str = "ConfigMaps of the files of a source";
/// The kinds of sources.
const SOURCE_KINDS: [&str; 3] = ["GitRepository", "OCIRepository", "Bucket"];
/// How often ConfigMaps are compared, unless the object says otherwise.
const INTERVAL: Duration = Duration::from_secs(600);
/// The shortest and the longest interval.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(365 * 86_400));
/// How much is taken of a source: what a record of the release has room for.
const BOUNDS: FileBounds =
    FileBounds { files: 1000, file_bytes: MAX_CONFIG_MAP as u64, bytes: 4 << 20, depth: 16 };

/// Options of all ConfigMapSources of a process.
#[derive(Clone, Debug, Default)]
pub struct ConfigMapSourceOptions {
    /// The ServiceAccount of objects that name none.
    pub default_service_account: Option<AccountName>,
    /// References to sources in other namespaces are refused.
    pub no_cross_namespace_refs: bool,
    /// Whether artifacts may not be at addresses of this machine and of its cloud's metadata service.
    pub no_local_addresses: bool,
}

/// The front end.
pub struct ConfigMapSources {
    options: ConfigMapSourceOptions,
    artifacts: ArtifactClient,
}

/// A ConfigMapSource as it is read.
pub struct ConfigMapSourceObject {
    namespace: String,
    name: String,
    generation: i64,
    spec: Result<ConfigMapSourceSpec, String>,
    status: ConfigMapSourceStatus,
}

impl ConfigMapSourceObject {
    fn spec(&self) -> Result<&ConfigMapSourceSpec, ReconcileError> {
        self.spec.as_ref().map_err(|error| ReconcileError::Config(format!("spec: {error}")))
    }

    fn release(&self) -> ReleaseId {
        let whole = format!("{RELEASE_PREFIX}{}", self.name);
        if whole.len() <= MAX_RELEASE {
            return ReleaseId::new(&self.namespace, &whole);
        }
        let start = whole.get(..MAX_RELEASE - DIGITS - 1).unwrap_or(&whole).trim_end_matches(['-', '.']);
        let digest = hex(&Sha256::digest(&self.name));
        let name = format!("{start}-{}", digest.get(..DIGITS).unwrap_or(&digest));
        ReleaseId::new(&self.namespace, &name)
    }

    fn source(&self, spec: &ConfigMapSourceSpec) -> ObjectRef {
        let SourceReference { kind, name, namespace } = &spec.source_ref;
        let namespace = if namespace.is_empty() { &self.namespace } else { namespace };
        ObjectRef::new(Gvk::new(SOURCES, kind), Some(namespace), name)
    }

    /// Whether there may be something to uninstall, as the status says. Statuses of before have no name of the release.
    fn may_have_release(&self) -> bool {
        !(self.status.release.is_empty() && self.status.last_applied_revision.is_empty())
    }

    /// The status with its conditions.
    fn status_with(&self, before: &Value, mut status: ConfigMapSourceStatus, state: ReadyState) -> Value {
        status.observed_generation = self.generation;
        let mut status = serde_json::to_value(status).unwrap_or_default();
        let (now, before) = (api_now(), &before["conditions"]);
        status["conditions"] = set_conditions(before, &state.conditions(), Some(self.generation), &now);
        status
    }
}

fn interval_of(spec: &ConfigMapSourceSpec) -> Duration {
    spec.interval.as_ref().map_or(INTERVAL, |own| own.get()).clamp(INTERVALS.0, INTERVALS.1)
}

/// An object that is as its source says.
fn applied(status: &ConfigMapSourceStatus) -> ReadyState {
    let text = format!("{} ConfigMaps of revision {}", status.config_maps, status.last_applied_revision);
    ReadyState::ready("Applied", text)
}

/// What the source or the object has is not usable: another revision, or another spec, may be.
fn unusable(text: String) -> ReconcileError {
    ReconcileError::Reason { reason: "FilesInvalid", text, disposition: Disposition::Stall }
}

fn note(event_type: EventType, reason: &'static str, note: String) -> EventNote {
    EventNote { event_type, reason, action: "Reconcile", note, annotations: BTreeMap::new() }
}

/// Who else has a release; `None`: nobody.
fn other_owner(newest: Option<&Record>) -> Option<String> {
    let newest = newest.filter(|newest| newest.info.status != ReleaseStatus::Uninstalled)?;
    match newest.owner() {
        Some(NAME) => None,
        Some(other) => Some(format!("the operator's {other}")),
        None => Some("another tool".to_owned()),
    }
}

/// The options of the engine: what the source says is applied, whoever has changed it; no revision for what is deployed.
fn release_options() -> ReleaseOptions {
    ReleaseOptions {
        mode: Mode::UpgradeInstall,
        revisions: RevisionOptions { skip_unchanged: true, ..RevisionOptions::default() },
        ownership: OwnershipOptions { force_conflicts: true, ..OwnershipOptions::default() },
        run_hooks: false,
        ..ReleaseOptions::default()
    }
}

impl ConfigMapSources {
    /// The front end. `local`: the artifacts of the sources that this process has itself.
    #[must_use]
    pub fn new(options: ConfigMapSourceOptions, local: Option<LocalArtifacts>) -> Self {
        let mut artifacts = ArtifactClient::new(options.no_local_addresses);
        if let Some(local) = local {
            artifacts.set_local(local);
        }
        Self { options, artifacts }
    }

    /// The source of an object, which it may read: in another namespace with its ServiceAccount's rights, if it has one.
    async fn source(
        &self,
        object: &ConfigMapSourceObject,
        spec: &ConfigMapSourceSpec,
        runner: &ReleaseRunner,
    ) -> Result<ObjectRef, ReconcileError> {
        let SourceReference { kind, name, .. } = &spec.source_ref;
        if !SOURCE_KINDS.contains(&kind.as_str()) {
            return Err(ReconcileError::Config(format!(
                "spec.sourceRef.kind: {kind:?} is not a kind of source: one of {}",
                SOURCE_KINDS.join(", ")
            )));
        }
        if name.is_empty() {
            return Err(ReconcileError::Config("spec.sourceRef.name: it is empty: name a source".to_owned()));
        }
        let source = object.source(spec);
        check_source_namespace(&source, &object.namespace, self.options.no_cross_namespace_refs)?;
        let is_own = source.namespace.as_ref() == Some(&object.namespace);
        if !is_own && self.target(object)?.service_account(&object.namespace).is_some() {
            match runner.engine().cluster().get(&source).await {
                Err(error) if error.is_forbidden() => {
                    let text = format!("spec.sourceRef: {error}");
                    let disposition = Disposition::Stall;
                    return Err(ReconcileError::Reason { reason: "AccessDenied", text, disposition });
                }
                found => drop(found?),
            }
        }
        Ok(source)
    }

    /// The manifest of the release: the ConfigMaps of an artifact's files, and how many.
    async fn manifest(
        &self,
        object: &ConfigMapSourceObject,
        spec: &ConfigMapSourceSpec,
        artifact: &Artifact,
        runner: &ReleaseRunner,
    ) -> Result<(RenderedRelease, usize), ReconcileError> {
        let failed = |error: windlass_artifacts::ArtifactError| ReconcileError::Reason {
            reason: "ArtifactFailed",
            text: format!("the artifact of {}: {error}", artifact.source),
            disposition: Disposition::Retry,
        };
        let bytes = self.artifacts.fetch(artifact).await.map_err(failed)?;
        check_digest(artifact, &bytes).map_err(failed)?;
        let (permits, bounds) = (runner.render_permits(), runner.render_bounds());
        let (spec, namespace, name) = (spec.clone(), object.namespace.clone(), object.name.clone());
        let work = redact::spawn_blocking(move || {
            let _permit = RenderPermit::acquire(Some(permits));
            manifest_of(&spec, (&namespace, &name), &bytes, &bounds)
        });
        let made = work.await.map_err(|error| ReconcileError::Task(error.to_string()))?;
        made.map_err(unusable)
    }
}

/// The manifest of the files of an archive.
fn manifest_of(
    spec: &ConfigMapSourceSpec,
    (namespace, object): (&str, &str),
    archive: &[u8],
    bounds: &RenderBounds,
) -> Result<(RenderedRelease, usize), String> {
    let patterns = FilePatterns::of(&spec.include, &spec.exclude)?;
    let directory = inner_path(&spec.path).ok_or_else(|| {
        format!("spec.path: {:?} leads out of the source: write a path below its root", spec.path)
    })?;
    // No other render runs meanwhile where memory is scarce.
    let deadline = bounds.deadline();
    let takes = |path: &str| match deadline.passed() {
        Some(why) => Err(FilesError::TooMuch(format!(
            "the choice of files: {why}: use fewer patterns, or a path with fewer files"
        ))),
        None => Ok(patterns.takes(path)),
    };
    let files = files_below(archive, &directory, takes, BOUNDS);
    let files = files.map_err(|error| format!("spec.path: {error}"))?;
    if files.is_empty() {
        // What there was stays: more likely a pattern is wrong than that all is to go.
        let text = "spec.path: no file is there, or spec.include and spec.exclude leave none: delete the object to delete its ConfigMaps";
        return Err(text.to_owned());
    }
    let directory = directory.join("/");
    let plan = ConfigMapPlan { spec: &spec.config_maps, namespace, object, directory: &directory };
    let objects = plan.config_maps(files)?;
    let mut texts = Vec::new();
    for object in &objects {
        let text = chart_compat::yaml::to_string(&object_data(object)).map_err(|error| error.to_string())?;
        texts.push((format!("configmaps/{}.yaml", ObjectMeta::of(object).name()), text));
    }
    let release = finished_release(texts, Profile::Helm4, bounds, &mut |line| tracing::warn!("{line}"));
    Ok((release.map_err(|error| error.to_string())?, objects.len()))
}

impl FrontEnd for ConfigMapSources {
    type Object = ConfigMapSourceObject;

    fn read(&self, object: &Value) -> ConfigMapSourceObject {
        let meta = ObjectMeta::of(object);
        ConfigMapSourceObject {
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            name: meta.name().to_owned(),
            generation: meta.generation(),
            spec: ConfigMapSourceSpec::deserialize(&object["spec"]).map_err(|error| error.to_string()),
            status: ConfigMapSourceStatus::deserialize(&object["status"]).unwrap_or_default(),
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Gvk {
        Gvk::new(KIND.0, KIND.1)
    }

    fn finalizer(&self) -> &'static str {
        "windlass.dev/configmap-source"
    }

    fn releases(&self, object: &ConfigMapSourceObject) -> BTreeSet<ReleaseKey> {
        [ReleaseKey::at_home(&object.release())].into()
    }

    fn target(&self, object: &ConfigMapSourceObject) -> Result<ReleaseTarget, ReconcileError> {
        ReleaseTarget::of_tenant(
            Some(&object.namespace),
            object.spec()?.service_account_name.as_deref(),
            self.options.default_service_account.as_ref(),
        )
    }

    fn related_kinds(&self) -> Vec<Gvk> {
        SOURCE_KINDS.map(|kind| Gvk::new(SOURCES, kind)).to_vec()
    }

    fn related(&self, object: &ConfigMapSourceObject) -> BTreeSet<ObjectRef> {
        object.spec().ok().map(|spec| object.source(spec)).into_iter().collect()
    }

    fn related_state(&self, source: &Value) -> Value {
        source_state(source)
    }

    fn interval(&self, object: &ConfigMapSourceObject) -> Option<Duration> {
        object.spec().ok().map(interval_of)
    }

    fn is_suspended(&self, object: &ConfigMapSourceObject) -> bool {
        object.spec().is_ok_and(|spec| spec.suspend)
    }

    /// A source that cannot be used has changed nothing.
    fn keeps_state_on_error(&self) -> bool {
        true
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &ConfigMapSourceObject,
    ) -> Result<Reconciled, ReconcileError> {
        pass.report_progress(self, object).await?;
        let (spec, id) = (object.spec()?, object.release());
        let runner = pass.runner(self, object)?;
        let source = self.source(object, spec, &runner).await?;
        let artifact = Artifact::of(&source, pass.related.get(&source).map(|found| &**found))?;
        let requeue = Requeue::After(jittered(interval_of(spec)));
        let memo = Arc::new(json!([object.generation, artifact.digest, artifact.revision]));
        if pass.memo.as_ref() == Some(&memo)
            && runner.engine().unchanged_revision(&id, DriftMode::Correct).is_some()
        {
            let state = applied(&object.status);
            let status = object.status_with(&pass.object["status"], object.status.clone(), state);
            pass.replace_status(&status).await?;
            return Ok(Reconciled { memo: Some(memo), ..Reconciled::new(true, requeue) });
        }
        let (rendered, count) = self.manifest(object, spec, &artifact, &runner).await?;
        let past = runner.engine().history_of(&id).await?;
        if let Some(owner) = other_owner(past.newest()) {
            let text = format!("release {id} belongs to {owner} already: choose another name");
            return Err(ReconcileError::Config(text));
        }
        let request = Arc::new(ReleaseRequest {
            rendered: Arc::new(rendered),
            chart: Arc::new(finished_chart(&id.name, None, DESCRIPTION)),
            id,
            config: json!({}),
            owner: Some(NAME.to_owned()),
            labels: BTreeMap::new(),
            cause: format!(
                "generation {} of {} with {}",
                object.generation, pass.reference, artifact.revision
            ),
            description: None,
            options: release_options(),
        });
        // What is applied from here on is found when the object is deleted, whatever account its spec names by then.
        pass.write_status(&json!({"release": request.id.name})).await?;
        let outcome = runner.engine().reconcile_with_history(&request, past).await?;
        pass.note_outcome(&outcome);
        let status = ConfigMapSourceStatus {
            release: request.id.name.clone(),
            last_applied_revision: artifact.revision,
            config_maps: count,
            ..ConfigMapSourceStatus::default()
        };
        let state = applied(&status);
        if !matches!(outcome.action, ReleaseAction::Unchanged | ReleaseAction::Restore) {
            pass.record_event(note(EventType::Normal, state.reason, state.message.clone()));
        }
        let status = object.status_with(&pass.object["status"], status, state);
        pass.replace_status(&status).await?;
        Ok(Reconciled { requests: vec![request], memo: Some(memo), ..Reconciled::new(true, requeue) })
    }

    async fn uninstall(
        &self,
        pass: &mut ReconcilePass,
        object: &ConfigMapSourceObject,
    ) -> Result<(), ReconcileError> {
        // Nothing was released with an account that is no name.
        if !object.may_have_release() && self.target(object).is_err() {
            return Ok(());
        }
        let id = object.release();
        match pass.runner(self, object)?.engine().records().newest(&id).await {
            Ok(newest) => {
                if let Some(owner) = other_owner(newest.as_ref()) {
                    tracing::warn!(object = %pass.reference, release = %id, "the release belongs to {owner}: it stays");
                    return Ok(());
                }
            }
            // Whose it is its labels say.
            Err(error) if error.is_unreadable_record() => {}
            Err(error) => return Err(error.into()),
        }
        pass.uninstall_release(self, object, &id).await
    }

    fn status(&self, object: &ConfigMapSourceObject, before: &Value, report: &Report<'_>) -> Value {
        let status = ConfigMapSourceStatus::deserialize(before).unwrap_or_default();
        let progressing = "the ConfigMaps are being applied";
        // Drift was corrected otherwise; there are no dependencies.
        let state = ReadyState::of_report(report, progressing).unwrap_or_else(|| applied(&status));
        object.status_with(before, status, state)
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        match report {
            // A source that is not ready yet will be.
            Report::Failed { error, .. } if error.is_wait() => None,
            Report::Failed { error, .. } => Some(note(EventType::Warning, error.reason(), error.to_string())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(front_end: &ConfigMapSources, name: &str, spec: &Value) -> ConfigMapSourceObject {
        front_end
            .read(&json!({"metadata": {"name": name, "namespace": "shop", "generation": 1}, "spec": spec}))
    }

    #[test]
    fn the_choice_of_files_has_a_deadline() {
        let mut archive =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        archive.append_data(&mut header, "a.xml", &b"a"[..]).unwrap();
        let archive = archive.into_inner().unwrap().finish().unwrap();
        let spec = ConfigMapSourceSpec::default();
        let of = |timeout: Duration| {
            let bounds = RenderBounds { timeout, ..RenderBounds::default() };
            manifest_of(&spec, ("shop", "web"), &archive, &bounds).map(|(_, count)| count)
        };
        assert_eq!(of(INTERVAL), Ok(1));
        let late = "spec.path: the choice of files: it took longer than 0ns: use fewer patterns, or a path with fewer files";
        assert_eq!(of(Duration::ZERO), Err(late.to_owned()));
    }

    #[test]
    fn an_object_has_one_release_and_one_account() {
        let options = ConfigMapSourceOptions {
            default_service_account: AccountName::parse("tenant"),
            ..ConfigMapSourceOptions::default()
        };
        let front_end = ConfigMapSources::new(options, None);
        let source = json!({"sourceRef": {"kind": "GitRepository", "name": "conf"}});
        for (name, expected) in [
            ("web".to_owned(), "configmaps-web".to_owned()),
            ("a".repeat(42), format!("configmaps-{}", "a".repeat(42))),
        ] {
            assert_eq!(read(&front_end, &name, &source).release().name, expected);
        }
        let (one, other) = (format!("{}1", "a".repeat(60)), format!("{}2", "a".repeat(60)));
        let names = [one, other].map(|name| read(&front_end, &name, &source).release().name);
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() == MAX_RELEASE), "{names:?}");
        for (account, expected) in [(json!(null), "tenant"), (json!(""), "tenant"), (json!("own"), "own")] {
            let mut spec = source.clone();
            spec["serviceAccountName"] = account;
            let target = front_end.target(&read(&front_end, "web", &spec)).unwrap();
            assert_eq!(target.service_account("other"), Some(("shop", expected)));
        }
        let object = read(
            &front_end,
            "web",
            &json!({"sourceRef": {"kind": "Bucket", "name": "b", "namespace": "ops"}}),
        );
        let source = object.source(object.spec().unwrap());
        assert_eq!((source.gvk.kind.as_str(), source.namespace.as_deref()), ("Bucket", Some("ops")));
        let object = read(&front_end, "web", &json!({"sourceRef": 1}));
        assert!(object.spec().unwrap_err().to_string().starts_with("spec: "), "{:?}", object.spec);
    }
}
