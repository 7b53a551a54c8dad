//! The front end of ChartResources: a kind is registered, follows its chart, and is dropped with the object.
//!
//! Owns which definition in the cluster is whose, and what the status says. The controllers of the kinds are `registered_kinds`'.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::chart_objects::{ObjectOptions, note};
use super::chart_resource_api::{
    ChartResourceSpec, ChartResourceStatus, ObjectNumbers, RegisteredNames, SecretLocation, StoppedAt,
};
use super::chart_resource_definition::KIND;
use super::chart_rollout::{FailedObject, RolloutFailures};
use super::chart_sources::{ChartAccess, ChartSources};
use super::kind_chart::{KindChart, MissingChart};
use super::kind_settings::{KindSettings, owner_name};
use super::loaded_chart::LoadedChart;
use super::object_plan::PlannedKind;
use super::override_values::OverrideValues;
use super::pull_secret;
use super::registered_kinds::{RegisteredKinds, WantedKind};
use super::served_kind::{ObjectCounts, ServedKind};
use windlass_base::redact::Masked;
use windlass_charts::{Definition, DefinitionOptions, KindNames, Overlay, define};
use windlass_cluster::{Cluster, DeleteOptions, Gvk, ObjectMeta, ObjectRef, api_now};
use windlass_controller::{
    AccountName, Condition, ControllerContext, ControllerOptions, EventNote, EventType, FrontEnd,
    ReconcileError, ReconcilePass, Reconciled, References, ReleaseTarget, Report, Requeue, SecretData,
    jittered, set_conditions,
};
use windlass_engine::{
    Adoption, CrdFile, Disposition, OwnershipOptions, ReleaseId, ReleaseKey, ReleaseOptions,
};

/// Name of the front end, and the owner of the definitions that it tracks.
pub(crate) const NAME: &str = "charts";
const FINALIZER: &str = "windlass.dev/chart-resource";
/// Annotation of a definition: the ChartResource that registered it, or may take it over.
const REGISTERED_BY: &str = "windlass.dev/chart-resource";
const REQUESTED_AT: &str = "windlass.dev/requested-at";
/// How often a newer version of a chart is looked for.
const INTERVAL: Duration = Duration::from_secs(600);
/// The shortest and the longest interval and period.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(365 * 86_400));
/// How often an object is reconciled if nothing changes.
const PERIOD: Duration = Duration::from_secs(60);

/// Options of the ChartResources of a process.
#[derive(Clone, Debug, Default)]
pub struct ChartResourceOptions {
    /// Where charts may be.
    pub sources: ChartSources,
    /// Options of the objects of all kinds.
    pub objects: ObjectOptions,
    /// Which objects of the kinds, and how many at a time.
    pub controller: ControllerOptions,
    /// Kinds that ChartResources may not register: the process has them from elsewhere.
    pub reserved: Vec<Gvk>,
}

/// A chart that was downloaded, for the passes until the next look.
struct Downloaded {
    /// What it was downloaded by.
    request: String,
    at: Instant,
    chart: LoadedChart,
}

/// The front end.
pub struct ChartResources {
    options: ChartResourceOptions,
    kinds: Arc<RegisteredKinds>,
    charts: Mutex<BTreeMap<String, Downloaded>>,
}

/// Runs the front end until `stop` resolves, and the controllers of all registered kinds.
///
/// # Errors
/// As [`windlass_controller::run`].
pub async fn run(
    context: ControllerContext,
    options: ChartResourceOptions,
    stop: impl Future<Output = ()>,
) -> Result<(), windlass_cluster::ClusterError> {
    let (controller, objects) = (options.controller.clone(), options.objects.clone());
    let kinds = Arc::new(RegisteredKinds::new(context.clone(), controller.clone(), objects));
    let front_end = ChartResources { options, kinds: Arc::clone(&kinds), charts: Mutex::default() };
    // ChartResources are cluster-scoped.
    let own = ControllerOptions { namespace: None, further_namespaces: Vec::new(), ..controller };
    let result = windlass_controller::run(front_end, context, own, stop).await;
    kinds.stop_all().await;
    result
}

/// A ChartResource as it is read.
pub struct ChartResourceObject {
    name: String,
    generation: i64,
    requested_at: String,
    spec: Result<ChartResourceSpec, String>,
    status: ChartResourceStatus,
}

impl ChartResourceObject {
    fn spec(&self) -> Result<&ChartResourceSpec, ReconcileError> {
        self.spec.as_ref().map_err(|error| ReconcileError::Config(format!("spec: {error}")))
    }

    fn interval(&self) -> Duration {
        let own = self.spec.as_ref().ok().and_then(|spec| spec.chart.interval.as_ref());
        own.map_or(INTERVAL, |own| own.get()).clamp(INTERVALS.0, INTERVALS.1)
    }
}

fn read(object: &Value) -> ChartResourceObject {
    let meta = ObjectMeta::of(object);
    ChartResourceObject {
        name: meta.name().to_owned(),
        generation: meta.generation(),
        requested_at: meta.annotation(REQUESTED_AT).unwrap_or_default().to_owned(),
        spec: ChartResourceSpec::deserialize(&object["spec"]).map_err(|error| error.to_string()),
        status: ChartResourceStatus::deserialize(&object["status"]).unwrap_or_default(),
    }
}

fn crd_reference(names: &RegisteredNames) -> ObjectRef {
    let kind = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    ObjectRef::new(kind, None, &format!("{}.{}", names.plural, names.group))
}

fn gvk_of(names: &RegisteredNames) -> Gvk {
    Gvk { group: names.group.clone(), version: names.version.clone(), kind: names.kind.clone() }
}

impl FrontEnd for ChartResources {
    type Object = ChartResourceObject;

    fn read(&self, object: &Value) -> ChartResourceObject {
        read(object)
    }

    fn name(&self) -> &str {
        NAME
    }

    fn kind(&self) -> Gvk {
        Gvk::new(KIND.0, KIND.1)
    }

    fn finalizer(&self) -> &'static str {
        FINALIZER
    }

    fn releases(&self, object: &ChartResourceObject) -> std::collections::BTreeSet<ReleaseKey> {
        // Not a release: what the engine tracks the definition by.
        [ReleaseKey::at_home(&definition_id(&object.name))].into()
    }

    fn target(&self, _object: &ChartResourceObject) -> Result<ReleaseTarget, ReconcileError> {
        Ok(ReleaseTarget::default())
    }

    fn interval(&self, object: &ChartResourceObject) -> Option<Duration> {
        Some(object.interval())
    }

    fn keeps_state_on_error(&self) -> bool {
        true
    }

    fn next_request(&self) -> impl Future<Output = String> + Send {
        self.kinds.next_change()
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartResourceObject,
    ) -> Result<Reconciled, ReconcileError> {
        let spec = object.spec()?;
        let chart = match self.chart(pass, object, spec).await {
            Ok(chart) => chart,
            Err(error) => {
                if let Err(other) = self.serve_without_chart(pass, object, spec, &error).await {
                    tracing::warn!(
                        object = object.name,
                        "the kind cannot be served without its chart: {other}"
                    );
                }
                return Err(error);
            }
        };
        let (definition, names) = definition_of(&object.name, spec, &chart)?;
        if let Some(old) = object
            .status
            .kind
            .as_ref()
            .filter(|old| gvk_of(old) != gvk_of(&names) || old.plural != names.plural)
        {
            self.drop_kind(pass, object, old).await?;
        }
        // Before anything is registered: what is refused leaves no definition.
        let wanted = wanted(spec, chart.clone().into(), &names, &object.status)?;
        self.register(pass, object, &definition, &names).await?;
        let kind = self.kinds.ensure(&object.name, wanted).await;
        let status = ChartResourceStatus {
            kind: Some(names),
            chart: chart.name().to_owned(),
            version: chart.version().to_owned(),
            digest: chart.digest.clone(),
            ..object.status.clone()
        };
        self.conclude(pass, object, status, &kind).await
    }

    async fn uninstall(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartResourceObject,
    ) -> Result<(), ReconcileError> {
        let Some(names) = &object.status.kind else { return Ok(()) };
        if self.kinds.get(&object.name).await.is_none() && self.count(pass, names).await? > 0 {
            // Objects that are deleted now need their controller to go, but not their chart.
            let spec = object.spec()?;
            let chart = self.chart(pass, object, spec).await;
            let chart = chart.map_or_else(|error| missing_chart(object, &error).into(), KindChart::from);
            let wanted = wanted(spec, chart, names, &object.status)?;
            self.kinds.ensure(&object.name, wanted).await;
        }
        self.drop_kind(pass, object, names).await
    }

    fn note_gone(&self, key: &str) {
        self.charts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn status(&self, object: &ChartResourceObject, before: &Value, report: &Report<'_>) -> Value {
        let Report::Failed { error, .. } = report else { return json!({}) };
        let (reason, text) = (error.reason(), error.to_string());
        let stalls = error.disposition() == Disposition::Stall;
        let conditions = [
            Condition { condition_type: "Ready", status: Some(false), reason, message: text.clone() },
            stalled(stalls.then_some((reason, text.as_str()))),
        ];
        json!({
            "observedGeneration": object.generation,
            "conditions": set_conditions(&before["conditions"], &conditions, Some(object.generation), &api_now()),
        })
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        match report {
            Report::Failed { error, .. } => Some(note(EventType::Warning, error.reason(), error.to_string())),
            _ => None,
        }
    }
}

fn stalled(why: Option<(&'static str, &str)>) -> Condition {
    let (status, (reason, message)) = (why.is_some(), why.unwrap_or(("Progressing", "")));
    Condition { condition_type: "Stalled", status: Some(status), reason, message: message.to_owned() }
}

/// What is known of a chart that cannot be fetched.
fn missing_chart(object: &ChartResourceObject, error: &ReconcileError) -> MissingChart {
    let ChartResourceStatus { chart, digest, .. } = &object.status;
    MissingChart { name: chart.clone(), digest: digest.clone(), why: Masked::for_objects(&error.to_string()) }
}

/// What the engine tracks the definition of a ChartResource by.
fn definition_id(name: &str) -> ReleaseId {
    ReleaseId::new("", name)
}

/// The definition of the kind, marked as this object's, and its names.
fn definition_of(
    object: &str,
    spec: &ChartResourceSpec,
    chart: &LoadedChart,
) -> Result<(Value, RegisteredNames), ReconcileError> {
    let field = |flag: &str| match flag {
        "--api-version" => "version".to_owned(),
        flag => flag.trim_start_matches('-').to_owned(),
    };
    let own = &spec.kind;
    let given = [&own.group, &own.version, &own.kind, &own.plural].map(|name| name.as_deref());
    let [group, version, kind, plural] = given;
    let names = KindNames::new(chart.name(), group, version, kind, plural).map_err(|error| {
        ReconcileError::Config(format!("spec.kind.{}: {:?}: {}", field(error.flag), error.value, error.rule))
    })?;
    let invalid = |error: &dyn std::fmt::Display| ReconcileError::Config(error.to_string());
    let overlay = &spec.schema.overlay;
    let overlay = match overlay.is_empty() {
        true => None,
        false => {
            let text = Value::Object(overlay.clone()).to_string();
            Some(Overlay::read("spec.schema.overlay", text.as_bytes()).map_err(|error| invalid(&error))?)
        }
    };
    let options = DefinitionOptions { names: names.clone(), overlay };
    let Definition { mut crd, warnings, .. } =
        define(chart.chart.chart(), &options).map_err(|error| invalid(&error))?;
    for warning in warnings {
        tracing::debug!(object, path = warning.path, "{}", warning.text);
    }
    crd["metadata"]["annotations"][REGISTERED_BY] = object.into();
    if !own.short_names.is_empty() {
        crd["spec"]["names"]["shortNames"] = json!(own.short_names);
    }
    let KindNames { group, version, kind, plural, .. } = names;
    Ok((crd, RegisteredNames { group, version, kind, plural }))
}

/// What the controller of the kind is to be.
fn wanted(
    spec: &ChartResourceSpec,
    chart: KindChart,
    names: &RegisteredNames,
    status: &ChartResourceStatus,
) -> Result<WantedKind, ReconcileError> {
    let account = spec.service_account_name.as_deref().filter(|name| !name.is_empty());
    if let Some(wrong) = account.filter(|name| AccountName::parse(name).is_none()) {
        return Err(ReconcileError::Config(format!("spec.serviceAccountName: {wrong:?} is not a name")));
    }
    let pull_secret = spec.pull_secrets.values_path.as_deref();
    if let Some(Err(wrong)) = pull_secret.map(pull_secret::check_path) {
        return Err(ReconcileError::Config(format!("spec.pullSecrets.valuesPath: {wrong}")));
    }
    let gvk = gvk_of(names);
    let selector = spec.selector.to_query();
    let settings = KindSettings {
        name: owner_name(&gvk),
        gvk,
        overrides: OverrideValues::of_map(&spec.override_values),
        selector: selector.map_err(|error| ReconcileError::Config(format!("spec.selector.{error}")))?,
        reconcile_period: spec
            .reconcile_period
            .as_ref()
            .map_or(PERIOD, |own| own.get())
            .clamp(INTERVALS.0, INTERVALS.1),
        watches_dependents: true,
        concurrency: None,
        service_account: account.map(str::to_owned),
        pull_secret_path: pull_secret::pull_secret_path(pull_secret, &spec.schema.overlay),
        suspended: spec.suspend,
    };
    let max_unavailable =
        spec.rollout.max_unavailable.and_then(|most| usize::try_from(most).ok()).unwrap_or(1);
    let known = |failed: Option<&StoppedAt>| {
        let failed = failed.filter(|_| status.digest == chart.digest())?;
        Some((failed.object.clone(), Masked::for_objects(&failed.message)))
    };
    let failures =
        RolloutFailures { paused: known(status.paused.as_ref()), stopped: known(status.stopped.as_ref()) };
    Ok(WantedKind { settings, chart, max_unavailable, failures })
}

/// The condition Ready of a ChartResource whose kind is registered: its status, reason and message.
fn registered_state(
    status: &ChartResourceStatus,
    kind: &ServedKind,
    counts: ObjectCounts,
) -> (Option<bool>, &'static str, String) {
    let have =
        format!("{} of {} objects have {} {}", counts.updated, counts.total, status.chart, status.version);
    match (&status.stopped, &status.paused) {
        (Some(StoppedAt { object, message }), _) => {
            let text = format!("{have}: the upgrade of {object} failed, and no others follow: {message}");
            (Some(false), "RolloutStopped", text)
        }
        (None, Some(StoppedAt { object, message })) => {
            let text = format!(
                "{have}: the upgrade of {object} failed, and no others of its namespace follow: {message}"
            );
            (Some(false), "RolloutPaused", text)
        }
        (None, None) if counts.updated < counts.total => (None, "RollingOut", have),
        (None, None) if kind.settings.suspended => {
            (Some(true), "Suspended", "spec.suspend is true: objects are left alone".to_owned())
        }
        (None, None) => (Some(true), "Registered", format!("{} objects", counts.total)),
    }
}

/// The login for the chart of a ChartResource.
async fn access(
    client: &Cluster,
    references: &mut References,
    spec: &ChartResourceSpec,
) -> Result<Option<ChartAccess>, ReconcileError> {
    let Some(SecretLocation { namespace, name }) = &spec.chart.secret_ref else { return Ok(None) };
    let read = SecretData::read_watched(client, references, namespace, name).await;
    let secret = read.map_err(|error| {
        ReconcileError::Config(format!("spec.chart.secretRef: Secret {namespace}/{name}: {error}"))
    })?;
    ChartAccess::of_secret(&secret).map(Some)
}

/// The kind that a ChartResource would register. Downloads its chart and writes nothing.
///
/// # Errors
/// As a pass.
pub(crate) async fn plan(
    client: &Cluster,
    options: &ChartResourceOptions,
    resource: &Value,
    references: &mut References,
) -> Result<PlannedKind, ReconcileError> {
    let object = read(resource);
    let spec = object.spec()?;
    let access = access(client, references, spec).await?;
    let renders = Arc::new(Semaphore::new(1));
    let chart = options.sources.chart(&spec.chart, access, renders).await?;
    let (_, names) = definition_of(&object.name, spec, &chart)?;
    let live = owned_definition(client, &options.reserved, &object.name, &names).await?;
    let WantedKind { settings, .. } = wanted(spec, chart.clone().into(), &names, &object.status)?;
    Ok(PlannedKind { settings, chart, is_registered: live.is_some() })
}

/// Whether the process has a kind from elsewhere.
fn is_reserved(reserved: &[Gvk], gvk: &Gvk) -> bool {
    reserved.iter().any(|known| known.group == gvk.group && known.kind == gvk.kind)
}

/// Why the API server does not accept the names of a definition.
fn refused_names(definition: Option<&Value>) -> Option<&str> {
    let mut conditions = definition?["status"]["conditions"].as_array()?.iter();
    let refused = conditions.find(|one| one["type"] == "NamesAccepted" && one["status"] == "False")?;
    refused["message"].as_str()
}

/// The definition of a kind, if there is one.
///
/// # Errors
/// It belongs to somebody else.
async fn owned_definition(
    client: &Cluster,
    reserved: &[Gvk],
    object: &str,
    names: &RegisteredNames,
) -> Result<Option<Value>, ReconcileError> {
    let gvk = gvk_of(names);
    if is_reserved(reserved, &gvk) {
        return Err(ReconcileError::Config(format!(
            "spec.kind: {} of {} is in --watches-file: remove one of them",
            gvk.kind, gvk.group
        )));
    }
    let reference = crd_reference(names);
    let live = client.get(&reference).await?;
    if let Some(live) = &live
        && let owner = ObjectMeta::of(live).annotation(REGISTERED_BY).unwrap_or_default()
        && owner != object
    {
        let whose = if owner.is_empty() {
            "was made by somebody else".to_owned()
        } else {
            format!("belongs to the ChartResource {owner}")
        };
        return Err(ReconcileError::Config(format!(
            "spec.kind: {reference} exists and {whose}: choose other names, or annotate it with {REGISTERED_BY}={object} to hand it over"
        )));
    }
    Ok(live)
}

impl ChartResources {
    /// The chart: that of the last look, unless something of it has changed or the interval has elapsed.
    async fn chart(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartResourceObject,
        spec: &ChartResourceSpec,
    ) -> Result<LoadedChart, ReconcileError> {
        let client = pass.client().clone();
        let access = access(&client, &mut pass.references, spec).await?;
        // With the digests of what was read: another login may see another chart.
        let read: Vec<&String> = pass.references.values().collect();
        let request = json!([spec.chart, read, object.requested_at]).to_string();
        let known = {
            let charts = self.charts.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh =
                |known: &&Downloaded| known.request == request && known.at.elapsed() < object.interval();
            charts.get(&object.name).filter(fresh).map(|known| known.chart.clone())
        };
        if let Some(chart) = known {
            return Ok(chart);
        }
        let chart = self
            .options
            .sources
            .chart(&spec.chart, access, pass.runner_of_operator().render_permits())
            .await?;
        let downloaded = Downloaded { request, at: Instant::now(), chart: chart.clone() };
        self.charts.lock().unwrap_or_else(PoisonError::into_inner).insert(object.name.clone(), downloaded);
        Ok(chart)
    }

    /// Serves a kind that is registered while its chart cannot be fetched: objects say why nothing becomes of them, and can be deleted.
    /// A chart that this process has stays.
    async fn serve_without_chart(
        &self,
        pass: &ReconcilePass,
        object: &ChartResourceObject,
        spec: &ChartResourceSpec,
        error: &ReconcileError,
    ) -> Result<(), ReconcileError> {
        let Some(names) = &object.status.kind else { return Ok(()) };
        let known = self.kinds.get(&object.name).await;
        if known.is_some_and(|kind| !kind.is_chart_missing())
            || is_reserved(&self.options.reserved, &gvk_of(names))
        {
            return Ok(());
        }
        // Others may write the status: the definition says whose the kind is.
        let live = pass.client().get(&crd_reference(names)).await?;
        let is_own = |live: &Value| {
            let (of, spec) = (&live["spec"]["names"], &live["spec"]);
            ObjectMeta::of(live).annotation(REGISTERED_BY) == Some(&object.name)
                && of["kind"] == names.kind.as_str()
                && spec["group"] == names.group.as_str()
        };
        if live.as_ref().is_some_and(is_own) {
            let chart = missing_chart(object, error).into();
            self.kinds.ensure(&object.name, wanted(spec, chart, names, &object.status)?).await;
        }
        Ok(())
    }

    /// Applies the definition, unless it belongs to somebody else.
    async fn register(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartResourceObject,
        definition: &Value,
        names: &RegisteredNames,
    ) -> Result<(), ReconcileError> {
        let gvk = gvk_of(names);
        let reference = crd_reference(names);
        owned_definition(pass.client(), &self.options.reserved, &object.name, names).await?;
        if object.status.kind.as_ref() != Some(names) {
            // The object's deletion drops what its status names, also if this process ends now.
            pass.write_status(&json!({"kind": names})).await?;
        }
        let file =
            CrdFile { name: reference.name.clone(), text: String::new(), objects: vec![definition.clone()] };
        let options = ReleaseOptions {
            // Whose it is was checked above.
            ownership: OwnershipOptions { adoption: Adoption::Any, ..OwnershipOptions::default() },
            ..ReleaseOptions::default()
        };
        let runner = pass.runner_of_operator();
        let applied = runner.apply_crds(&definition_id(&object.name), NAME, vec![file], &options).await;
        if applied.is_ok() && pass.client().kinds_with([gvk.clone()]).await?.get(&gvk).is_some() {
            return Ok(());
        }
        if let Some(why) = refused_names(pass.client().get(&reference).await?.as_ref()) {
            return Err(ReconcileError::Reason {
                reason: "NamesNotAccepted",
                text: format!(
                    "{reference}: the API server does not accept its names, {why}: choose others in spec.kind, or delete the definition that has \
                     them"
                ),
                disposition: Disposition::Retry,
            });
        }
        applied?;
        Err(ReconcileError::Reason {
            reason: "KindNotServed",
            text: format!("{reference} is registered, and {} is not served yet", gvk.kind),
            disposition: Disposition::Wait,
        })
    }

    /// Writes the status of a kind that is registered.
    async fn conclude(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartResourceObject,
        mut status: ChartResourceStatus,
        kind: &ServedKind,
    ) -> Result<Reconciled, ReconcileError> {
        let counts = kind.counts();
        status.observed_generation = object.generation;
        status.objects = Some(ObjectNumbers {
            total: counts.total,
            ready: counts.ready,
            failed: counts.failed,
            updated: counts.updated,
        });
        let RolloutFailures { paused, stopped } = kind.failures();
        let shown = |(object, message): FailedObject| StoppedAt { object, message: message.to_string() };
        (status.paused, status.stopped) = (paused.map(shown), stopped.map(shown));
        let (ready, reason, message) = registered_state(&status, kind, counts);
        let conditions = [
            Condition { condition_type: "Ready", status: ready, reason, message: message.clone() },
            stalled(status.stopped.is_some().then_some((reason, message.as_str()))),
        ];
        let mut written = serde_json::to_value(&status).unwrap_or_default();
        let before = &pass.object["status"]["conditions"];
        written["conditions"] = set_conditions(before, &conditions, Some(object.generation), &api_now());
        if pass.replace_status(&written).await? && ready == Some(false) {
            pass.record_event(note(EventType::Warning, reason, message));
        }
        Ok(Reconciled::new(ready == Some(true), Requeue::After(jittered(object.interval()))))
    }

    /// How many objects of a kind there are, up to a page. The definition says which version is served: others may write the status.
    async fn count(&self, pass: &ReconcilePass, names: &RegisteredNames) -> Result<usize, ReconcileError> {
        let reference = crd_reference(names);
        let Some(live) = pass.client().get(&reference).await? else { return Ok(0) };
        let mut conditions = live["status"]["conditions"].as_array().into_iter().flatten();
        if !conditions.any(|one| one["type"] == "Established" && one["status"] == "True") {
            // One whose names another definition has was never served: there is no object.
            return Ok(0);
        }
        let spec = &live["spec"];
        let mut versions = spec["versions"].as_array().into_iter().flatten();
        let version =
            versions.find(|version| version["served"] == true).and_then(|version| version["name"].as_str());
        let kind = spec["names"]["kind"].as_str().zip(spec["group"].as_str()).zip(version);
        let gvk = kind.map(|((kind, group), version)| Gvk::new(&format!("{group}/{version}"), kind));
        match gvk {
            Some(gvk) if pass.client().current_kinds().await?.get(&gvk).is_some() => {
                Ok(pass.client().list_metadata_page(&gvk, None, None).await?.items.len())
            }
            _ => Err(ReconcileError::Reason {
                reason: "KindNotServed",
                text: format!("{} is not served: whether it has objects is not known", reference.name),
                disposition: Disposition::Wait,
            }),
        }
    }

    /// Drops a kind, unless it has objects or its definition is somebody else's.
    async fn drop_kind(
        &self,
        pass: &ReconcilePass,
        object: &ChartResourceObject,
        names: &RegisteredNames,
    ) -> Result<(), ReconcileError> {
        let reference = crd_reference(names);
        let live = pass.client().get(&reference).await?;
        let live = live.filter(|live| ObjectMeta::of(live).annotation(REGISTERED_BY) == Some(&object.name));
        let Some(live) = live else {
            self.kinds.stop(&object.name).await;
            return Ok(());
        };
        let in_use = |left: usize| {
            let text = format!(
                "{} has {left} objects: it is dropped when they are deleted (kubectl delete {} --all -A)",
                names.kind, reference.name
            );
            ReconcileError::Reason { reason: "KindInUse", text, disposition: Disposition::Wait }
        };
        match self.count(pass, names).await? {
            0 => self.kinds.stop(&object.name).await,
            left => return Err(in_use(left)),
        }
        // One that was created meanwhile has a finalizer. The next pass starts the controller again.
        match self.count(pass, names).await? {
            0 => {}
            left => return Err(in_use(left)),
        }
        let options = DeleteOptions { uid: Some(ObjectMeta::of(&live).uid()), ..DeleteOptions::default() };
        // Before the deletion: its absence is no drift.
        pass.runner_of_operator().engine().watch_crds_for(&definition_id(&object.name), NAME, &[]).await;
        pass.client().delete(&reference, options).await?;
        tracing::info!(object = object.name, crd = reference.name, "the kind is dropped");
        Ok(())
    }
}
