//! Errors of the engine, in Helm's words where scripts read them, and how a caller should react.

use crate::{
    client_apply::MergeError,
    objects::{data_loss::ALLOW, desired_objects::DocumentError, field_conflicts::Conflict},
    record::{RecordError, ReleaseStatus},
    request::HookEvent,
};
use std::{borrow::Cow, collections::BTreeSet};
use windlass_cluster::{ClusterError, Gvk, ObjectRef};

pub type Result<T, E = EngineError> = std::result::Result<T, E>;

/// How a caller should react to an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Retry with backoff.
    Retry,
    /// Another operation is running: retry after it.
    Wait,
    /// An object that this one depends on is not ready: its change triggers the next try. `failed`: it has failed, which needs
    /// attention; otherwise it is expected to become ready.
    Dependency { failed: bool },
    /// Wait for a change of the request, the cluster or the rights.
    Stall,
    /// Not an error for the caller.
    Ignore,
}

/// A failure of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("cannot reuse a name that is still in use")]
    NameInUse,
    /// The name's release was not completely uninstalled.
    #[error("{}: {half}", Self::NameInUse)]
    HalfUninstalled { name: String, half: String },
    #[error("\"{0}\" has no deployed releases")]
    NoDeployed(String),
    #[error("another operation (install/upgrade/rollback) is in progress")]
    InProgress,
    /// A pending record whose operation may still be running, and which no Lease describes.
    #[error(
        "another operation (install/upgrade/rollback) is in progress: revision {revision} is {status} since {since}, by {by}; \
         it counts as abandoned {minutes}m after that"
    )]
    Pending { revision: u64, status: ReleaseStatus, since: String, by: String, minutes: i64 },
    /// A running process holds the release's Lease.
    #[error("another operation (install/upgrade/rollback) is in progress: {by} holds Lease {lease}")]
    Held { lease: String, by: String },
    /// The release was changed between the read of its history and the acquisition of its lock.
    #[error("another operation (install/upgrade/rollback) changed the release at the same time: try again")]
    Overtaken,
    /// Another process took the Lease over.
    #[error("the release's lock was lost: someone else took over")]
    LockLost,
    #[error("release: not found")]
    NotFound,
    /// The caller cancelled the operation.
    #[error("context canceled")]
    Cancelled,
    #[error("release has no {0} version")]
    NoRevision(u64),
    #[error("the release named \"{0}\" is already deleted")]
    AlreadyDeleted(String),
    #[error("release name {0:?} is invalid: at most 53 lower-case letters, digits, '-' and '.'")]
    Name(String),
    #[error(
        "user supplied labels contains system reserved label name. System labels: [name owner status version createdAt modifiedAt]"
    )]
    SystemLabel,
    /// Objects of the chart exist and belong to others: Helm's line for the first, one line for each other.
    #[error(
        "unable to continue with {operation}: {object} exists and cannot be imported into the current release: {reason}{}",
        neither(others)
    )]
    Ownership { operation: &'static str, object: String, reason: String, others: Vec<(String, String)> },
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A document that Helm's client cannot read as an object.
    #[error("unable to build kubernetes objects from {manifest} manifest: {reason}")]
    Undecodable { manifest: &'static str, reason: String },
    /// A write of an object failed.
    #[error("{action} {object} ({path}): {source}")]
    Object { action: &'static str, object: String, path: String, source: ClusterError },
    /// `Immutable::Replace` with server-side apply.
    #[error("invalid operation: cannot use server-side apply and force replace together")]
    ReplaceOnServer,
    /// An immutable field differs.
    #[error("applying {object} ({path}): {source}")]
    Immutable { object: String, path: String, source: ClusterError },
    /// An immutable field differs, and the object is not recreated either.
    #[error("applying {object} ({path}): {source}\n  (it is not deleted and created again: {reason})")]
    NotRecreated { object: String, path: String, reason: String, source: Box<ClusterError> },
    /// Fields of an object are owned by other managers.
    #[error("applying {object} ({path}): {source}{}", owners(conflicts))]
    Conflict { object: String, path: String, conflicts: Vec<Conflict>, source: Box<ClusterError> },
    /// No patch can be made of an object's states.
    #[error("patching {object} ({path}): {source}")]
    Merge { object: String, path: String, source: Box<MergeError> },
    /// Fields of several objects are owned by other managers: the first conflicts stopped the operation, the rest was
    /// only checked.
    #[error("{}", all_conflicts(stopped, further))]
    Conflicts { stopped: Box<EngineError>, further: Vec<EngineError> },
    /// The cluster is not as it was when a plan was made.
    #[error("the plan no longer holds: {0}; make a new one")]
    Moved(String),
    /// The server would reject an object of the plan.
    #[error("the server would refuse {0}")]
    Blocked(String),
    /// Several writes failed.
    #[error("{} objects failed: {}", .0.len(), join(.0))]
    Several(Vec<EngineError>),
    /// The object that a hook would replace belongs to another release.
    #[error(
        "deleting hook {object} ({path}): it belongs to release {owner}; rename the hook, or delete the object yourself"
    )]
    HookTaken { object: String, path: String, owner: String },
    #[error("{}: {source}", hooks_failed(*event))]
    Hooks { event: HookEvent, source: Box<EngineError> },
    /// Objects did not become ready in time, or failed.
    #[error("{}", not_ready(objects, *timed_out))]
    NotReady { objects: Vec<Unready>, timed_out: bool },
    /// The operation exceeded its deadline.
    #[error("the operation was not done within its deadline of {seconds}s")]
    Deadline { seconds: u64 },
    #[error("timed out after {seconds}s waiting for {what}")]
    Timeout { what: String, seconds: u64 },
    /// An object in `crds/` that is not a CustomResourceDefinition.
    #[error(
        "{path}: {object} is not a CustomResourceDefinition; crds/ may hold nothing else: move it to templates/"
    )]
    NotCrd { path: String, object: String },
    #[error("failed to install CRD {file}: {source}")]
    Crd { file: String, source: Box<EngineError> },
    /// A newer CRD would drop data of existing objects.
    #[error(
        "{crd} would drop data of its {objects} objects: {losses}; migrate them first, or allow it with the CRD's annotation {}: \"true\"",
        ALLOW
    )]
    CrdLoss { crd: String, objects: String, losses: String },
    /// The operation failed and was undone, as requested.
    #[error("release {name} failed, and has been {undone} due to rollback-on-failure being set: {source}")]
    Undone { name: String, undone: &'static str, source: Box<EngineError> },
    #[error("an error occurred while undoing the release. original error: {source}: {undoing}")]
    NotUndone { source: Box<EngineError>, undoing: Box<EngineError> },
    /// Objects of an uninstalled release remain.
    #[error("failed to delete release: {name}: {source}")]
    Delete { name: String, source: Box<EngineError> },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// An object that is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unready {
    pub object: ObjectRef,
    /// It will not become ready without a change.
    pub failed: bool,
    pub message: String,
}

/// Helm 4's text: one line for each object.
fn not_ready(objects: &[Unready], timed_out: bool) -> String {
    let line = |one: &Unready| {
        let status = if one.failed { "Failed" } else { "InProgress" };
        let Unready { object, message, .. } = one;
        let namespace = object.namespace.as_deref().unwrap_or_default();
        format!(
            "resource {}/{namespace}/{} not ready. status: {status}, message: {message}",
            object.gvk.kind, object.name
        )
    };
    let end = timed_out.then(|| "context deadline exceeded".to_owned());
    objects.iter().map(line).chain(end).collect::<Vec<_>>().join("\n")
}

/// Helm's text, which differs for installs.
fn hooks_failed(event: HookEvent) -> String {
    match event {
        HookEvent::PreInstall | HookEvent::PostInstall => format!("failed {event}"),
        _ => format!("{event} hooks failed"),
    }
}

/// A line for each field, with its owner.
fn owners(conflicts: &[Conflict]) -> String {
    conflicts.iter().map(|c| format!("\n  {} is owned by {:?}", c.field, c.manager)).collect()
}

/// A paragraph for each object.
fn all_conflicts(stopped: &EngineError, further: &[EngineError]) -> String {
    let each: String = further.iter().map(|error| format!("\n{error}")).collect();
    format!("{stopped}\nnot applied, and also in conflict:{each}")
}

/// Further objects of other owners, each with the reason.
fn neither(others: &[(String, String)]) -> String {
    others.iter().map(|(object, reason)| format!("\n  neither can {object}: {reason}")).collect()
}

fn join(errors: &[EngineError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl EngineError {
    /// A failed request for an object.
    pub(crate) fn object(action: &'static str, object: &ObjectRef, path: &str, source: ClusterError) -> Self {
        Self::Object { action, object: object.to_string(), path: path.to_owned(), source }
    }

    /// The causes of this error, without the errors that only wrap others.
    fn leaves(&self) -> Vec<&Self> {
        match self {
            Self::Several(all) => all.iter().flat_map(Self::leaves).collect(),
            Self::Conflicts { stopped, further } => {
                stopped.leaves().into_iter().chain(further.iter().flat_map(Self::leaves)).collect()
            }
            Self::NotUndone { source, undoing } => {
                source.leaves().into_iter().chain(undoing.leaves()).collect()
            }
            Self::Hooks { source, .. }
            | Self::Crd { source, .. }
            | Self::Undone { source, .. }
            | Self::Delete { source, .. } => source.leaves(),
            leaf => vec![leaf],
        }
    }

    /// The text with what a front end adds for its causes, each addition once at the end.
    #[must_use]
    pub fn text_with(&self, hint: impl Fn(&Self) -> Option<Cow<'static, str>>) -> String {
        let mut text = self.to_string();
        let mut hints: Vec<Cow<'static, str>> = Vec::new();
        for hint in self.leaves().into_iter().filter_map(hint) {
            if !hints.contains(&hint) {
                text.push_str(&hint);
                hints.push(hint);
            }
        }
        text
    }

    /// Whether immutable fields of objects are all that is wrong: objects that are created anew do not have them.
    #[must_use]
    pub fn is_immutable_field(&self) -> bool {
        self.leaves().iter().all(|error| matches!(error, Self::Immutable { .. }))
    }

    /// Whether a record cannot be decoded, or lacks parts: no operation on the release succeeds while it is there.
    #[must_use]
    pub fn is_unreadable_record(&self) -> bool {
        matches!(self, Self::Record(error) if error.is_unreadable())
    }

    /// Whether the server forbade a request: by its authorizers, or by an admission plugin such as a quota.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.leaves().into_iter().any(|error| match error {
            Self::Object { source, .. }
            | Self::Cluster(source)
            | Self::Record(RecordError::Cluster(source)) => source.is_forbidden(),
            _ => false,
        })
    }

    /// Whether field conflicts are the cause, or one of the causes.
    pub(crate) fn is_field_conflict(&self) -> bool {
        match self {
            Self::Conflict { .. } => true,
            Self::Several(all) => all.iter().any(Self::is_field_conflict),
            _ => false,
        }
    }

    /// Whether the server forbade each write of an object that was tried.
    pub(crate) fn forbids_all_writes(&self) -> bool {
        match self {
            Self::Object { source, .. } => source.is_forbidden(),
            Self::Several(all) => all.iter().all(Self::forbids_all_writes),
            _ => false,
        }
    }

    /// Whether writes of objects stopped here: not hooks, and not the wait for what was written.
    pub(crate) fn stopped_writes(&self) -> bool {
        match self {
            Self::Object { .. }
            | Self::Document(DocumentError::NoKind { .. })
            | Self::Immutable { .. }
            | Self::NotRecreated { .. }
            | Self::Conflict { .. }
            | Self::Conflicts { .. }
            | Self::Merge { .. }
            | Self::Cluster(_) => true,
            Self::Several(all) => all.iter().all(Self::stopped_writes),
            _ => false,
        }
    }

    /// Whether it came after the record of the new revision: writes, hooks or the wait failed.
    pub fn failed_a_revision(&self) -> bool {
        let after = |error: &&Self| {
            error.stopped_writes()
                || matches!(error, Self::NotReady { .. } | Self::Timeout { .. } | Self::HookTaken { .. })
        };
        self.leaves().iter().all(after)
    }

    /// Why the records of a release could not be read or written, if the server said so.
    pub fn refused_records(&self) -> Option<&ClusterError> {
        match self {
            Self::Cluster(source) | Self::Record(RecordError::Cluster(source)) => Some(source),
            _ => None,
        }
    }

    /// The kinds that the API server does not serve, and without which the operation cannot succeed.
    pub fn missing_kinds(&self) -> BTreeSet<Gvk> {
        let kind = |error: &Self| match error {
            Self::Document(DocumentError::NoKind { source: ClusterError::NoKind(gvk), .. })
            | Self::Cluster(ClusterError::NoKind(gvk))
            | Self::Object { source: ClusterError::NoKind(gvk), .. } => Some((**gvk).clone()),
            _ => None,
        };
        self.leaves().into_iter().filter_map(kind).collect()
    }

    pub fn disposition(&self) -> Disposition {
        match self {
            Self::InProgress
            | Self::Pending { .. }
            | Self::Held { .. }
            | Self::Overtaken
            | Self::LockLost
            | Self::Cancelled => Disposition::Wait,
            Self::NotFound | Self::AlreadyDeleted(_) => Disposition::Ignore,
            Self::NameInUse
            | Self::HalfUninstalled { .. }
            | Self::NoDeployed(_)
            | Self::NoRevision(_)
            | Self::Name(_)
            | Self::SystemLabel
            | Self::ReplaceOnServer
            | Self::Undecodable { .. }
            | Self::Ownership { .. }
            | Self::HookTaken { .. }
            | Self::NotCrd { .. }
            | Self::Document(DocumentError::Manifest { .. })
            | Self::Merge { .. } => Disposition::Stall,
            // A missing kind may come with another release; a failed Job may succeed in a new run.
            Self::Document(DocumentError::NoKind { .. })
            | Self::NotReady { .. }
            | Self::Timeout { .. }
            | Self::Deadline { .. } => Disposition::Retry,
            Self::Moved(_)
            | Self::Blocked(_)
            | Self::CrdLoss { .. }
            | Self::NotRecreated { .. }
            | Self::Immutable { .. } => Disposition::Stall,
            Self::Conflict { source, .. } => of_cluster(source),
            Self::Object { source, .. } | Self::Cluster(source) => of_cluster(source),
            Self::Several(all) => {
                let stalls = all.iter().all(|e| e.disposition() == Disposition::Stall);
                if stalls { Disposition::Stall } else { Disposition::Retry }
            }
            Self::Conflicts { stopped, .. } => stopped.disposition(),
            Self::Hooks { source, .. }
            | Self::Crd { source, .. }
            | Self::Undone { source, .. }
            | Self::NotUndone { source, .. }
            | Self::Delete { source, .. } => source.disposition(),
            Self::Record(error) => match error {
                RecordError::Cluster(source) => of_cluster(source),
                RecordError::Exists(_) | RecordError::Changed(_) => Disposition::Retry,
                RecordError::Decode { .. }
                | RecordError::Manifest { .. }
                | RecordError::TooLarge { .. }
                | RecordError::TooManyBytes { .. }
                | RecordError::Parts(_)
                | RecordError::ReadOnly => Disposition::Stall,
            },
        }
    }
}

/// What the server refuses it may accept later, without a change of the request: rights are granted, webhooks start, policies and quotas
/// change. Fields that are invalid stay so.
fn of_cluster(error: &ClusterError) -> Disposition {
    let names_fields =
        |error: &ClusterError| error.causes().first().is_some_and(|cause| !cause.field.is_empty());
    let stalls = match error {
        ClusterError::Config(_) | ClusterError::Name { .. } => true,
        error => error.is_malformed() || error.is_invalid() && names_fields(error),
    };
    if stalls { Disposition::Stall } else { Disposition::Retry }
}
