//! What a front end asks of the engine. Plain data.

use crate::cluster::Validation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

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

/// Reads one YAML document as Helm reads manifests. The engine is handed one, so that it knows nothing of YAML.
pub type ManifestParser = fn(&str) -> Result<Value, String>;

/// One rendered document.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// Path of its template, `chart/templates/x.yaml`.
    pub source: String,
    /// The document as Helm prints it.
    pub text: String,
    /// The document parsed; null if it holds comments only.
    pub object: Value,
}

/// A moment at which hooks run.
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

/// A document that is applied at a moment instead of being kept.
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

/// What rendering a chart gives.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RenderedRelease {
    /// In install order.
    pub manifests: Vec<Manifest>,
    pub hooks: Vec<ChartHook>,
    pub crds: Vec<CrdFile>,
    pub notes: String,
    /// Digest of objects and hooks: a key for what was compared before, never a proof.
    pub checksum: String,
    /// All manifests as Helm stores them: `---\n# Source: …\n<document>\n` each.
    pub manifest_text: String,
}

/// The chart as Helm's release record stores it: metadata, lock, templates, values, schema, files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ChartRecord(pub Value);

/// What may be done with the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Only a release that does not exist.
    Install,
    /// Only a release that exists.
    Upgrade,
    #[default]
    UpgradeInstall,
}

/// Which live objects a release takes over. Whatever is chosen, an object whose annotation `windlass.dev/adopted-by` names the
/// release (`NAMESPACE/NAME`) may be taken over: whoever may write the object agrees to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Adoption {
    /// As Helm: only objects with the release's own marks.
    #[default]
    Marked,
    /// Those too that no other release's marks are on, as addon-operator does.
    Unowned,
    /// All, those of other releases too.
    Any,
}

/// What is done with a chart's `crds/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CrdPolicy {
    Skip,
    /// As Helm: those that are absent are created, on install only.
    #[default]
    Create,
    /// Those that are absent are created, whatever is done with the release.
    CreateMissing,
    /// Created and kept as the chart has them.
    Apply,
}

impl CrdPolicy {
    /// Whether anything is to be done: by the policy, and by whether it is an install.
    pub fn is_due(self, installing: bool) -> bool {
        match self {
            Self::Skip => false,
            Self::Create => installing,
            Self::CreateMissing | Self::Apply => true,
        }
    }
}

/// How `crds/` is brought into the cluster.
#[derive(Debug, Clone, Copy)]
pub struct CrdRules {
    pub policy: CrdPolicy,
    pub adoption: Adoption,
}

/// What is waited for after everything is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Wait {
    /// Nothing but hooks and what later objects need.
    #[default]
    HooksOnly,
    /// All objects are ready.
    Ready,
    /// All objects are ready and Jobs complete.
    ReadyAndJobs,
}

/// By which rules objects are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WaitRules {
    /// kstatus: custom resources too, by their conditions.
    #[default]
    Status,
    /// Helm 3's: built-in kinds only.
    Legacy,
}

/// What becomes of objects with an immutable field that has to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Immutable {
    #[default]
    Fail,
    /// Deleted and created again.
    Recreate,
}

/// What becomes of lists that name the same thing twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Duplicates {
    /// The server's refusal is the answer, as with Helm 4.
    #[default]
    Fail,
    /// The last one is applied, as Helm 3 did, with a warning.
    KeepLast,
}

/// What becomes of objects that are not as the deployed revision has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriftMode {
    /// They are put right.
    #[default]
    Correct,
    /// They are told, and left as they are until the next revision.
    Report,
    /// They are not looked at.
    Off,
}

impl std::str::FromStr for DriftMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "correct" => Ok(Self::Correct),
            "report" => Ok(Self::Report),
            "off" => Ok(Self::Off),
            _ => Err(format!("{text:?} is no mode of drift: correct, report or off")),
        }
    }
}

/// What becomes of a release when its install or upgrade fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum OnFailure {
    #[default]
    Keep,
    /// A failed install is uninstalled, a failed upgrade rolled back to the last revision that was good.
    Undo,
}

/// How a request is carried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseOptions {
    pub mode: Mode,
    /// Mode `Install` may reuse the name of a release that is uninstalled or failed.
    pub replace: bool,
    /// A request for what is already deployed makes no revision.
    pub skip_unchanged: bool,
    /// Nothing is written.
    pub dry_run: bool,
    pub create_namespace: bool,
    pub crds: CrdPolicy,
    pub run_hooks: bool,
    pub wait: Wait,
    pub wait_rules: WaitRules,
    /// Bound of each single wait: a hook, the readiness of all objects.
    pub timeout: Duration,
    /// Bound of all that is done to the cluster, waits and hooks included.
    pub deadline: Option<Duration>,
    /// Which objects that exist and lack the release's marks become the release's.
    pub adoption: Adoption,
    /// Fields of other managers are overwritten, except those owned through the `scale` subresource.
    pub force_conflicts: bool,
    /// Conflicting fields that are left to who owns them: paths such as `spec.replicas`, or `Kind/name:path`.
    pub leave_to_owner: Vec<String>,
    /// What is done about drift; an object's annotation `windlass.dev/drift` speaks for that object.
    pub drift: DriftMode,
    /// Fields that are no drift: rules as those of `leave_to_owner`, for looking at what is deployed only.
    pub drift_ignore: Vec<String>,
    pub immutable: Immutable,
    pub duplicates: Duplicates,
    pub on_failure: OnFailure,
    pub validation: Validation,
    /// What a failed upgrade created is deleted.
    pub cleanup_on_fail: bool,
    /// A pending record of someone else is taken for abandoned.
    pub break_lock: bool,
    /// Revisions kept; 0 keeps all.
    pub history_max: usize,
}

impl Default for ReleaseOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            replace: false,
            skip_unchanged: false,
            dry_run: false,
            create_namespace: false,
            crds: CrdPolicy::default(),
            run_hooks: true,
            wait: Wait::default(),
            wait_rules: WaitRules::default(),
            timeout: Duration::from_secs(300),
            deadline: None,
            adoption: Adoption::default(),
            force_conflicts: false,
            leave_to_owner: Vec::new(),
            drift: DriftMode::default(),
            drift_ignore: Vec::new(),
            immutable: Immutable::default(),
            duplicates: Duplicates::default(),
            on_failure: OnFailure::default(),
            validation: Validation::default(),
            cleanup_on_fail: false,
            break_lock: false,
            history_max: 10,
        }
    }
}

impl ReleaseOptions {
    /// How this request's `crds/` is brought into the cluster.
    pub(crate) fn crd_rules(&self) -> CrdRules {
        CrdRules { policy: self.crds, adoption: self.adoption }
    }

    /// What may be taken out of an object that the server refuses.
    pub(crate) fn sanitize_rules(&self) -> SanitizeRules {
        SanitizeRules {
            duplicates: self.duplicates == Duplicates::KeepLast,
            unknown: self.validation != Validation::Strict,
        }
    }
}

/// What may be taken out of an object that the server refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SanitizeRules {
    /// All but the last of what a list has twice.
    pub(crate) duplicates: bool,
    /// Fields that the kind does not have: server-side apply refuses them, whatever the validation.
    pub(crate) unknown: bool,
}

/// A release as it should be.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReleaseRequest {
    pub id: ReleaseId,
    pub rendered: Arc<RenderedRelease>,
    pub chart: Arc<ChartRecord>,
    /// Values that the user gave.
    pub config: Value,
    /// The mark of an operator's own releases: label `windlass.dev/owner` of the record.
    pub owner: Option<String>,
    /// Text of the record in place of "Install complete" or "Upgrade complete".
    pub description: Option<String>,
    /// Labels of the record; the value `null` takes an inherited one away.
    pub labels: BTreeMap<String, String>,
    /// Why this is asked for, in a few words; kept beside the record.
    pub cause: String,
    pub options: ReleaseOptions,
}

impl Default for ReleaseId {
    fn default() -> Self {
        Self::new("default", "")
    }
}

/// A release that should be no more.
#[derive(Debug, Clone)]
pub struct UninstallRequest {
    pub id: ReleaseId,
    pub keep_history: bool,
    pub ignore_not_found: bool,
    pub run_hooks: bool,
    pub propagation: crate::cluster::Propagation,
    /// Wait until the objects are gone.
    pub wait: bool,
    pub timeout: Duration,
    /// Bound of the whole operation; what is not done then is left uninstalling, and the next uninstall goes on.
    pub deadline: Option<Duration>,
    pub dry_run: bool,
    pub break_lock: bool,
    /// Delete what hooks made, which Helm leaves.
    pub delete_hooks: bool,
    pub description: Option<String>,
}

impl UninstallRequest {
    pub fn new(id: ReleaseId) -> Self {
        Self {
            id,
            keep_history: false,
            ignore_not_found: false,
            run_hooks: true,
            propagation: crate::cluster::Propagation::default(),
            wait: false,
            timeout: Duration::from_secs(300),
            deadline: None,
            dry_run: false,
            break_lock: false,
            delete_hooks: false,
            description: None,
        }
    }
}

/// A release as it was.
#[derive(Debug, Clone)]
pub struct RollbackRequest {
    pub id: ReleaseId,
    /// 0: the one before the newest.
    pub revision: u64,
    pub options: ReleaseOptions,
    pub description: Option<String>,
    /// Why this is asked for.
    pub cause: String,
}
