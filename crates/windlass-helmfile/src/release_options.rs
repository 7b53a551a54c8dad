//! What a release's fields mean for the engine. Pure.
//!
//! Owns the precedence of a release over `helmDefaults`, and helm's defaults for what neither sets.

use std::time::Duration;

use helmfile_compat::Error;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::Record;
use helmfile_compat::schema::Key;
use windlass_cluster::Propagation;
use windlass_engine::{
    Adoption, ApplyChoice, CrdPolicy, FailureOptions, Immutable, Mode, ObjectOptions, OnFailure,
    OwnershipOptions, ReleaseId, ReleaseOptions, RevisionOptions, UninstallRequest, Wait,
};

/// Helm's default for a wait.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A release's fields over the defaults of its state.
struct Fields<'f> {
    release: &'f Record,
    defaults: Record,
}

impl<'f> Fields<'f> {
    fn new(state: &State, release: &'f Record) -> Self {
        let defaults = state.fields.record(key!("helmDefaults"));
        Self {
            release,
            defaults: defaults.unwrap_or_else(|| Record::new(&helmfile_compat::state_fields::HELM_DEFAULTS)),
        }
    }

    fn flag(&self, key: Key) -> bool {
        self.release.flag(key).or_else(|| self.defaults.flag(key)).unwrap_or(false)
    }

    fn seconds(&self, key: Key) -> Option<Duration> {
        let own = self.release.int(key).or_else(|| self.defaults.int(key))?;
        u64::try_from(own).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    fn text(&self, key: Key) -> String {
        let own = self.release.text(key);
        if own.is_empty() { self.defaults.text(key) } else { own }
    }
}

/// The namespace and name of a release.
#[must_use]
pub fn release_id(release: &Record, default_namespace: &str) -> ReleaseId {
    let namespace = release.text(key!("namespace"));
    let namespace = if namespace.is_empty() { default_namespace } else { &namespace };
    ReleaseId::new(namespace, &release.text(key!("name")))
}

/// The engine's options for an install or upgrade.
///
/// # Errors
/// Two fields exclude each other, a field has no meaning any more, or an object to adopt is not written as `Kind/name`.
pub fn options(state: &State, release: &Record) -> Result<ReleaseOptions, Error> {
    let fields = Fields::new(state, release);
    check(&fields)
        .map_err(|error| Error::Invalid(format!("release {:?}: {error}", release.text(key!("name")))))?;
    let undo = fields.flag(key!("atomic")) || fields.flag(key!("rollbackOnFailure"));
    let waits = fields.flag(key!("wait")) || undo;
    let recreates =
        fields.flag(key!("force")) || release.text(key!("updateStrategy")) == REINSTALL_IF_FORBIDDEN;
    let history = release.int(key!("historyMax")).or_else(|| fields.defaults.int(key!("historyMax")));
    let create = release
        .flag(key!("createNamespace"))
        .or_else(|| fields.defaults.flag(key!("createNamespace")))
        .unwrap_or(true);
    Ok(ReleaseOptions {
        apply: apply_choice(&fields.text(key!("serverSide")))?,
        mode: Mode::UpgradeInstall,
        create_namespace: create && !release.text(key!("namespace")).is_empty(),
        crds: if fields.defaults.flag(key!("skipCRDs")) == Some(true) {
            CrdPolicy::Skip
        } else {
            CrdPolicy::Create
        },
        wait: match (waits, fields.flag(key!("waitForJobs"))) {
            (true, true) => Wait::ReadyAndJobs,
            (true, false) => Wait::Ready,
            (false, _) => Wait::HooksOnly,
        },
        timeout: fields.seconds(key!("timeout")).unwrap_or(TIMEOUT),
        revisions: RevisionOptions {
            max: history.and_then(|max| usize::try_from(max).ok()).unwrap_or(RevisionOptions::default().max),
            ..RevisionOptions::default()
        },
        ownership: OwnershipOptions {
            adoption: if fields.flag(key!("takeOwnership")) { Adoption::Any } else { Adoption::Marked },
            adopted: release.texts(key!("adopt")),
            force_conflicts: fields.flag(key!("forceConflicts")),
            ..OwnershipOptions::default()
        },
        objects: ObjectOptions {
            immutable: if recreates { Immutable::Recreate } else { Immutable::Fail },
            ..ObjectOptions::default()
        },
        failure: FailureOptions {
            on_failure: if undo { OnFailure::Undo } else { OnFailure::default() },
            cleanup: fields.flag(key!("cleanupOnFail")),
            ..FailureOptions::default()
        },
        ..ReleaseOptions::default()
    })
}

/// How objects are written: Helm's values of `--server-side`.
fn apply_choice(text: &str) -> Result<ApplyChoice, Error> {
    match text {
        "" | "auto" => Ok(ApplyChoice::Auto),
        "true" => Ok(ApplyChoice::Server),
        "false" => Ok(ApplyChoice::Client),
        _ => Err(Error::Invalid(format!("serverSide: {text:?} is not true, false or auto"))),
    }
}

/// Refuses fields that exclude each other or mean nothing.
fn check(fields: &Fields<'_>) -> Result<(), Error> {
    let release = fields.release;
    if release.flag(key!("atomic")) == Some(true) && release.flag(key!("rollbackOnFailure")) == Some(true) {
        return Err(Error::Invalid("atomic and rollbackOnFailure mean the same; set one of them".to_owned()));
    }
    if fields.flag(key!("force")) && fields.flag(key!("forceConflicts")) {
        return Err(Error::Invalid(
            "force and forceConflicts exclude each other, in helmDefaults too; set one of them".to_owned(),
        ));
    }
    if fields.flag(key!("recreatePods")) {
        return Err(Error::Invalid("recreatePods: Helm has removed it; remove the field, and let an annotation of the Pod template change, \
                    such as a checksum of the configuration"
            .to_owned()));
    }
    let is_object = |text: &String| matches!(text.split('/').collect::<Vec<_>>().as_slice(), [kind, name] if !kind.is_empty() && !name.is_empty());
    match release.texts(key!("adopt")).iter().find(|text| !is_object(text)) {
        Some(text) => {
            Err(Error::Invalid(format!("adopt: {text:?} is not KIND/NAME, such as Deployment/web")))
        }
        None => Ok(()),
    }
}

/// The engine's request to uninstall a release.
#[must_use]
pub fn uninstall(state: &State, release: &Record, id: ReleaseId) -> UninstallRequest {
    let fields = Fields::new(state, release);
    UninstallRequest {
        ignore_not_found: true,
        propagation: match fields.text(key!("cascade")).as_str() {
            "foreground" => Propagation::Foreground,
            "orphan" => Propagation::Orphan,
            _ => Propagation::Background,
        },
        wait: fields.flag(key!("deleteWait")),
        timeout: fields.seconds(key!("deleteTimeout")).unwrap_or(TIMEOUT),
        ..UninstallRequest::new(id)
    }
}

/// Whether the release's labels are put on its record.
#[must_use]
pub fn syncs_labels(state: &State, release: &Record) -> bool {
    Fields::new(state, release).flag(key!("syncReleaseLabels"))
}

/// A boolean field of a release, or of `helmDefaults`.
#[must_use]
pub fn flag(state: &State, release: &Record, key: Key) -> bool {
    Fields::new(state, release).flag(key)
}

/// The kubeconfig context of a release, of the environment, or of `helmDefaults` (`getKubeContext`); empty for the current one.
#[must_use]
pub fn kube_context(state: &State, release: &Record) -> String {
    let own = release.text(key!("kubeContext"));
    if !own.is_empty() {
        return own;
    }
    match state.environment.kube_context.as_str() {
        "" => Fields::new(state, release).text(key!("kubeContext")),
        context => context.to_owned(),
    }
}

/// The `updateStrategy` of a release that is installed anew where the server forbids its upgrade. Here the forbidden objects alone are
/// created again.
const REINSTALL_IF_FORBIDDEN: &str = "reinstallIfForbidden";

/// Fields that change nothing when a release is deployed, with the reason.
const IGNORED: &[(Key, &str)] = &[
    (key!("diffArgs"), "helm-diff is not run"),
    (key!("enableDNS"), "getHostByName returns an empty string while deploying"),
    (key!("syncArgs"), "helm is not run"),
];

/// Warnings about fields of a release and its defaults that are set and change nothing, with the reason.
#[must_use]
pub fn ignored_fields(state: &State, release: &Record) -> Vec<String> {
    let name = release.text(key!("name"));
    let fields = Fields::new(state, release);
    let is_set = |record: &Record, key: Key| {
        record.has_field(key)
            && (record.flag(key) == Some(true)
                || !record.text(key).is_empty()
                || !record.list(key).is_empty())
    };
    let set = |key: Key| is_set(fields.release, key) || is_set(&fields.defaults, key);
    let ignored = IGNORED.iter().filter(|(key, _)| set(*key));
    ignored.map(|(key, reason)| format!("release {name:?}: {key} has no effect: {reason}")).collect()
}
