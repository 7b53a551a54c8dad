//! What a front end requests of the engine. Plain data.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use windlass_cluster::{ObjectRef, ObservedMeta, Validation};

/// A release: a name in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReleaseId {
    pub namespace: String,
    pub name: String,
}

impl ReleaseId {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ReleaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A release, and the namespace of its records: two releases with one name in one namespace may have records in two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReleaseKey {
    pub id: ReleaseId,
    /// The namespace of its records.
    pub storage: String,
}

impl ReleaseKey {
    #[must_use]
    pub fn new(id: &ReleaseId, storage: &str) -> Self {
        Self { id: id.clone(), storage: storage.to_owned() }
    }

    /// A release whose records are in its own namespace.
    #[must_use]
    pub fn at_home(id: &ReleaseId) -> Self {
        Self::new(id, &id.namespace)
    }

    /// Whether its records are in its own namespace.
    #[must_use]
    pub fn is_at_home(&self) -> bool {
        self.storage == self.id.namespace
    }
}

impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)?;
        if self.is_at_home() { Ok(()) } else { write!(f, " with records in {}", self.storage) }
    }
}

/// Parses one YAML document as Helm parses manifests: passed in, so that the engine contains no YAML.
pub type ManifestParser = fn(&str) -> Result<Value, String>;

/// One rendered document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Path of its template, `chart/templates/x.yaml`.
    pub source: String,
    /// The document as Helm prints it.
    pub text: String,
    /// The parsed document; null if it has only comments.
    pub object: Value,
}

/// An event at which hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    PreInstall,
    PostInstall,
    PreDelete,
    PostDelete,
    PreUpgrade,
    PostUpgrade,
    PreRollback,
    PostRollback,
    #[serde(alias = "test-success")]
    Test,
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PreInstall => "pre-install",
            Self::PostInstall => "post-install",
            Self::PreDelete => "pre-delete",
            Self::PostDelete => "post-delete",
            Self::PreUpgrade => "pre-upgrade",
            Self::PostUpgrade => "post-upgrade",
            Self::PreRollback => "pre-rollback",
            Self::PostRollback => "post-rollback",
            Self::Test => "test",
        })
    }
}

/// When a hook's object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookDeletePolicy {
    HookSucceeded,
    HookFailed,
    BeforeHookCreation,
}

/// When the log of a hook's Pods is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookOutputLogPolicy {
    HookSucceeded,
    HookFailed,
}

/// A document that is applied at an event and is not part of the release's manifest.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ChartHook {
    pub name: String,
    pub kind: String,
    /// Path of its template.
    pub path: String,
    pub text: String,
    pub object: Value,
    pub events: Vec<HookEvent>,
    pub weight: i64,
    pub delete_policies: Vec<HookDeletePolicy>,
    pub output_log_policies: Vec<HookOutputLogPolicy>,
}

/// A file of a chart's `crds/`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CrdFile {
    /// Its path in the chart.
    pub name: String,
    pub text: String,
    pub objects: Vec<Value>,
}

/// The result of rendering a chart.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RenderedRelease {
    /// In install order.
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<ChartHook>,
    pub crds: Vec<CrdFile>,
    pub notes: String,
    /// Digest of objects and hooks: a cache key, never a proof of equality.
    pub checksum: String,
    /// All manifests as Helm stores them: `---\n# Source: …\n<document>\n` each.
    pub manifest_text: String,
}

impl RenderedRelease {
    /// The documents of the manifest.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Value> + Clone {
        self.manifests.iter().map(|manifest| &manifest.object)
    }

    /// The documents, each with the path of its template.
    pub(crate) fn documents(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.manifests.iter().map(|manifest| (manifest.source.as_str(), &manifest.object))
    }
}

/// The chart as Helm's release record stores it: metadata, lock, templates, values, schema, files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ChartRecord(pub Value);

/// Which operations are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Only if the release does not exist.
    Install,
    /// Only if the release exists.
    Upgrade,
    #[default]
    UpgradeInstall,
}

/// How objects are written; a record names the method of its revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ApplyMethod {
    /// Server-side apply.
    #[default]
    #[serde(rename = "ssa")]
    Server,
    /// Patches that the client makes of the last manifest, the new one and the live object.
    #[serde(rename = "csa")]
    Client,
}

impl ApplyMethod {
    /// As records name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "ssa",
            Self::Client => "csa",
        }
    }

    /// Hash of what the method wrote of an object, which shows changes of our fields; `None` if it wrote nothing.
    pub(crate) fn written_of(self, seen: &ObservedMeta) -> Option<u64> {
        match self {
            Self::Server => seen.applied,
            Self::Client => seen.written,
        }
    }

    /// The method that a record names. Records of Helm 3 name none: it has no other than the client's.
    #[must_use]
    pub fn of_record(name: &str) -> Self {
        if name == Self::Server.as_str() { Self::Server } else { Self::Client }
    }
}

/// Which method a request chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ApplyChoice {
    #[default]
    Server,
    Client,
    /// That of the revision before, or of the one that is rolled back to; of an install the server's.
    Auto,
}

impl ApplyChoice {
    /// The method, by that of the record that decides; `None`: there is none.
    #[must_use]
    pub fn method(self, record: Option<&str>) -> ApplyMethod {
        match self {
            Self::Server => ApplyMethod::Server,
            Self::Client => ApplyMethod::Client,
            Self::Auto => record.map_or(ApplyMethod::Server, ApplyMethod::of_record),
        }
    }
}

/// Which existing objects a release takes over. In each mode it may take over an object whose annotation
/// `windlass.dev/adopted-by` names it (`NAMESPACE/NAME`): a writer of the object agrees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Adoption {
    /// As Helm: only objects with the release's own ownership metadata.
    #[default]
    Marked,
    /// Objects without ownership metadata of another release, too, as addon-operator does.
    Unowned,
    /// All objects, those of other releases included.
    Any,
}

/// What is done with a chart's `crds/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CrdPolicy {
    Skip,
    /// As Helm: missing CRDs are created, on install only.
    #[default]
    Create,
    /// Missing CRDs are created, on upgrade too.
    CreateMissing,
    /// CRDs are created and updated to the chart's.
    Apply,
}

impl CrdPolicy {
    /// Whether CRDs are written, by policy and operation.
    pub fn is_due(self, installing: bool) -> bool {
        match self {
            Self::Skip => false,
            Self::Create => installing,
            Self::CreateMissing | Self::Apply => true,
        }
    }
}

/// How the CRDs of `crds/` are applied.
#[derive(Debug, Clone, Copy)]
pub struct CrdRules {
    pub policy: CrdPolicy,
    pub adoption: Adoption,
}

/// What the operation waits for after everything is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Wait {
    /// Only hooks, and objects that later ones depend on.
    #[default]
    HooksOnly,
    /// All objects are ready.
    Ready,
    /// All objects are ready and Jobs complete.
    ReadyAndJobs,
}

/// Which rules decide whether objects are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WaitRules {
    /// kstatus: custom resources too, by their conditions.
    #[default]
    Status,
    /// Helm 3's: built-in kinds only.
    Legacy,
}

/// What happens to objects whose immutable field must change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Immutable {
    #[default]
    Fail,
    /// Deleted and created again.
    Recreate,
    /// As `Recreate`, and only of client-side apply, which replaces every object as a whole then: Helm's `--force-replace`.
    Replace,
}

impl Immutable {
    /// Whether objects are deleted and created again.
    pub(crate) fn recreates(self) -> bool {
        self != Self::Fail
    }
}

/// What happens to lists with duplicate keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Duplicates {
    /// The server's error is returned, as by Helm 4.
    #[default]
    Fail,
    /// The last entry is applied, as by Helm 3, with a warning.
    KeepLast,
}

/// When ConfigMaps and Secrets that left the manifest are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PruneConfig {
    /// With the revision that no longer has them.
    #[default]
    AtOnce,
    /// When no live workload of their namespace refers to them: generated names change with every content, and Pods of an
    /// earlier revision may still start with the old one.
    Unreferenced,
}

/// What happens to a CRD that left the templates while `crds/` of the chart has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MovedCrds {
    /// As Helm: it is deleted, with all objects of its kind.
    #[default]
    Delete,
    /// It stays, as all CRDs of `crds/`.
    Keep,
}

/// What happens to objects that drifted from the deployed revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftMode {
    /// Drift is corrected.
    #[default]
    Correct,
    /// Drift is reported; the objects stay as they are until the next revision.
    Report,
    /// Objects are not compared.
    Off,
}

impl std::str::FromStr for DriftMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "correct" => Ok(Self::Correct),
            "report" => Ok(Self::Report),
            "off" => Ok(Self::Off),
            _ => Err(format!("{text:?} is not a drift mode: correct, report or off")),
        }
    }
}

/// What happens to a release when its install or upgrade fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnFailure {
    #[default]
    Keep,
    /// A failed install is uninstalled, a failed upgrade rolled back to the last successful revision.
    Undo,
}

/// Path of a drift rule that covers the whole object: its deletion, too.
pub const WHOLE_OBJECT: &str = "*";

/// What happens to drift of a release.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DriftPolicy {
    /// Corrected, reported or ignored; the annotation `windlass.dev/drift` overrides it for an object.
    pub mode: DriftMode,
    /// Fields that are not drift: `PATH`, `Kind:PATH` or `Kind/name:PATH`; a path `*` is the whole object.
    pub ignore: Vec<String>,
}

/// When an object of a kind is ready, by expressions in CEL over its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// API version; its group counts.
    pub api_version: String,
    /// Kind; empty for all of the group.
    pub kind: String,
    /// True of an object that is ready.
    pub current: String,
    /// True of an object that is not ready yet; checked first.
    pub in_progress: Option<String>,
    /// True of an object that has failed; checked second.
    pub failed: Option<String>,
}

/// What a request may take over from others.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct OwnershipOptions {
    /// Which existing objects without the release's ownership metadata are taken over.
    pub adoption: Adoption,
    /// Objects that are taken over in each mode, those of other releases included: `Kind/name`, the kind in any case.
    #[serde(default)]
    pub adopted: Vec<String>,
    /// Takes over fields of other managers, except replicas that an autoscaler decides about.
    pub force_conflicts: bool,
    /// Conflicting fields that stay with their owners: paths such as `spec.replicas`, or `Kind/name:path`.
    pub leave_to_owner: Vec<String>,
    /// The fields that `kubectl apply` owns of an object become the release's when it takes the object over: those that the manifest
    /// lacks go.
    #[serde(default)]
    pub adopt_kubectl_fields: bool,
}

impl OwnershipOptions {
    /// The mode for an object of the release.
    pub(crate) fn adoption_of(&self, object: &ObjectRef) -> Adoption {
        match self.adopted.iter().any(|adopted| is_named(adopted, object)) {
            true => Adoption::Any,
            false => self.adoption,
        }
    }

    /// What [`Self::adopted`] names that is not among the objects of the release.
    pub(crate) fn without_object<'o>(
        &'o self,
        objects: &'o [&'o ObjectRef],
    ) -> impl Iterator<Item = &'o str> {
        let named = |adopted: &str| objects.iter().any(|object| is_named(adopted, object));
        self.adopted.iter().map(String::as_str).filter(move |adopted| !named(adopted))
    }
}

/// Whether `Kind/name` is an object.
fn is_named(text: &str, object: &ObjectRef) -> bool {
    text.split_once('/')
        .is_some_and(|(kind, name)| kind.eq_ignore_ascii_case(&object.gvk.kind) && name == object.name)
}

/// How objects that the API server may reject are written.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct ObjectOptions {
    pub immutable: Immutable,
    pub duplicates: Duplicates,
    pub validation: Validation,
    #[serde(default)]
    pub prune_config: PruneConfig,
    #[serde(default)]
    pub moved_crds: MovedCrds,
}

/// What happens when a request fails.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct FailureOptions {
    pub on_failure: OnFailure,
    /// Deletes what a failed upgrade created.
    pub cleanup: bool,
    /// Whether a rollback to the last successful revision deletes and creates objects whose immutable field must change; `None`: as
    /// [`ObjectOptions::immutable`] says.
    #[serde(default)]
    pub recreate_on_rollback: Option<bool>,
}

/// How a request treats the recorded revisions.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct RevisionOptions {
    /// Mode `Install` may reuse the name of an uninstalled or failed release.
    pub replace: bool,
    /// A request for the deployed state creates no revision.
    pub skip_unchanged: bool,
    /// Treats the pending record of another process as abandoned.
    pub break_lock: bool,
    /// Revisions kept; 0 keeps all.
    pub max: usize,
}

impl Default for RevisionOptions {
    fn default() -> Self {
        Self { replace: false, skip_unchanged: false, break_lock: false, max: 10 }
    }
}

/// How a request is executed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseOptions {
    pub mode: Mode,
    #[serde(default)]
    pub apply: ApplyChoice,
    /// Nothing is written.
    pub dry_run: bool,
    pub create_namespace: bool,
    pub crds: CrdPolicy,
    pub run_hooks: bool,
    pub wait: Wait,
    pub wait_rules: WaitRules,
    /// When objects of these kinds are ready; the first rule for a kind counts. Without one, by [`Self::wait_rules`].
    #[serde(default)]
    pub health_checks: Vec<HealthCheck>,
    /// Limit of each single wait: for a hook, for the readiness of all objects.
    pub timeout: Duration,
    /// Limit of the whole operation, waits and hooks included.
    pub deadline: Option<Duration>,
    pub revisions: RevisionOptions,
    pub ownership: OwnershipOptions,
    pub objects: ObjectOptions,
    pub drift: DriftPolicy,
    pub failure: FailureOptions,
    /// Whether status changes of workloads are triggers, as long as drift is looked for: for owners that report readiness.
    #[serde(default)]
    pub watch_status: bool,
}

impl Default for ReleaseOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            apply: ApplyChoice::default(),
            dry_run: false,
            create_namespace: false,
            crds: CrdPolicy::default(),
            run_hooks: true,
            wait: Wait::default(),
            wait_rules: WaitRules::default(),
            health_checks: Vec::new(),
            timeout: Duration::from_secs(300),
            deadline: None,
            revisions: RevisionOptions::default(),
            ownership: OwnershipOptions::default(),
            objects: ObjectOptions::default(),
            drift: DriftPolicy::default(),
            failure: FailureOptions::default(),
            watch_status: false,
        }
    }
}

impl ReleaseOptions {
    /// How the CRDs of this request are applied.
    pub(crate) fn crd_rules(&self) -> CrdRules {
        CrdRules { policy: self.crds, adoption: self.ownership.adoption }
    }

    /// What may be removed from an object that the server rejects.
    pub(crate) fn sanitize_rules(&self) -> SanitizeRules {
        SanitizeRules {
            duplicates: self.objects.duplicates == Duplicates::KeepLast,
            unknown: self.objects.validation != Validation::Strict,
        }
    }
}

/// What may be removed from an object that the server rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SanitizeRules {
    /// All but the last entry of duplicate list keys.
    pub(crate) duplicates: bool,
    /// Fields that the kind does not have: server-side apply rejects them with any validation.
    pub(crate) unknown: bool,
}

/// The desired state of a release.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReleaseRequest {
    pub id: ReleaseId,
    pub rendered: Arc<RenderedRelease>,
    pub chart: Arc<ChartRecord>,
    /// Values of the user.
    pub config: Value,
    /// Owner of an operator's releases: label `windlass.dev/owner` of the record.
    pub owner: Option<String>,
    /// Description in the record, in place of "Install complete" or "Upgrade complete".
    pub description: Option<String>,
    /// Labels of the record; the value `null` removes an inherited label.
    pub labels: BTreeMap<String, String>,
    /// The cause of the request, in a few words; stored beside the record.
    pub cause: String,
    pub options: ReleaseOptions,
}

impl Default for ReleaseId {
    fn default() -> Self {
        Self::new("default", "")
    }
}

/// Uninstalls a release.
#[derive(Debug, Clone)]
pub struct UninstallRequest {
    pub id: ReleaseId,
    /// The object in the cluster that the release was deployed for, and that stays until it is uninstalled. An object of the release whose
    /// own deletion waits for this one is not waited for.
    pub object: Option<ObjectRef>,
    pub keep_history: bool,
    pub ignore_not_found: bool,
    pub run_hooks: bool,
    pub propagation: windlass_cluster::Propagation,
    /// Waits until the objects are deleted.
    pub wait: bool,
    pub timeout: Duration,
    /// Limit of the whole operation. What remains then has the status uninstalling, and the next uninstall continues.
    pub deadline: Option<Duration>,
    pub dry_run: bool,
    pub break_lock: bool,
    /// Keeps the records, with the status uninstalling, where objects are not gone in time or cannot be looked for: the next
    /// uninstall tries again. Helm deletes them.
    pub keep_incomplete: bool,
    /// Deletes the objects of hooks too, which Helm leaves.
    pub delete_hooks: bool,
    pub description: Option<String>,
}

impl UninstallRequest {
    pub fn new(id: ReleaseId) -> Self {
        Self {
            id,
            object: None,
            keep_history: false,
            ignore_not_found: false,
            run_hooks: true,
            propagation: windlass_cluster::Propagation::default(),
            wait: false,
            timeout: Duration::from_secs(300),
            deadline: None,
            dry_run: false,
            break_lock: false,
            keep_incomplete: false,
            delete_hooks: false,
            description: None,
        }
    }
}

/// Rolls a release back.
#[derive(Debug, Clone)]
pub struct RollbackRequest {
    pub id: ReleaseId,
    /// The revision to repeat; 0 is the one before the newest.
    pub revision: u64,
    pub options: ReleaseOptions,
    pub description: Option<String>,
    /// The cause of the request.
    pub cause: String,
}
