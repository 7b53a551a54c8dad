//! Flags and verbs that remedy a failure or decide a planned change, appended to its text. The only module that maps options of plans
//! and errors of charts to flags; advice about the engine's errors is in the operator runtime's table.
//!
//! Errors and plans of the engine and errors of charts contain only facts. Does not know which command failed.

use windlass_controller::HintsFor;
use windlass_engine::{DecidingOption, EngineError, Preview};
use windlass_fetch::fetch::FetchError;
use windlass_fetch::oci::cosign::CosignError;
use windlass_fetch::provenance::ProvenanceError;

/// The text of an engine error, with each hint once at the end.
pub(super) fn engine_text(error: &EngineError) -> String {
    windlass_controller::engine_text(error, HintsFor::CommandLine)
}

/// The effect of flags on an object of a plan.
pub(super) type PlanFlags = &'static [(DecidingOption, &'static str)];

/// The flags of commands that change a release.
pub(super) const RELEASE_FLAGS: PlanFlags = &[
    (DecidingOption::CreateNamespace, "--create-namespace creates it"),
    (DecidingOption::TakeOwnership, "--take-ownership allows that"),
    (DecidingOption::KeepMovedCrds, "crds/ of the chart has it, and --crds=apply keeps it"),
];

/// The flags of `operator`.
pub(super) const OPERATOR_FLAGS: PlanFlags =
    &[(DecidingOption::TakeOwnership, "--take-ownership allows that")];

/// The fields of a HelmRelease.
pub(super) const HELM_RELEASE_FIELDS: PlanFlags = &[
    (DecidingOption::CreateNamespace, "install.createNamespace with a targetNamespace creates it"),
    (DecidingOption::TakeOwnership, "without disableTakeOwnership it is taken over"),
];

/// The plan, with the flags appended to the reasons of the changes that they decide.
pub(super) fn with_flags(preview: &Preview, flags: PlanFlags) -> Preview {
    let mut preview = preview.clone();
    for change in &mut preview.changes {
        if let Some((_, effect)) = flags.iter().find(|(option, _)| change.option == Some(*option)) {
            change.reason = format!("{}; {effect}", change.reason);
        }
    }
    preview
}

/// The text of an error while a chart is loaded or fetched.
pub(super) fn source_text(error: &windlass_fetch::Error) -> String {
    match error {
        windlass_fetch::Error::Fetch(error) => fetch_text(error),
        other => other.to_string(),
    }
}

/// The text of an error while a chart is fetched.
pub(super) fn fetch_text(error: &FetchError) -> String {
    match error {
        FetchError::Cosign(CosignError::NotVerified { built_in_root: true, .. }) => {
            format!(
                "{error} (the built-in trusted root is not refreshed; --cosign-trusted-root gives another)"
            )
        }
        other => other.to_string(),
    }
}

/// The text of an error while a package is signed.
pub(super) fn signing_text(error: &ProvenanceError) -> String {
    match error {
        #[cfg(feature = "pgp")]
        ProvenanceError::Keyring(error) => error.to_string(),
        ProvenanceError::Protected(_) => format!("{error}: give its passphrase by --passphrase-file"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_cluster::{ApiStatus, ClusterError};
    use windlass_engine::HookEvent;
    use windlass_engine::record::{RecordError, ReleaseStatus};

    fn refusal() -> ClusterError {
        ClusterError::Api(Box::new(ApiStatus { message: "no".into(), ..ApiStatus::default() }))
    }

    fn conflict(object: &str) -> EngineError {
        let source = Box::new(refusal());
        EngineError::Conflict { object: object.into(), path: "t".into(), conflicts: Vec::new(), source }
    }

    fn immutable(object: &str) -> EngineError {
        EngineError::Immutable { object: object.into(), path: "t".into(), source: refusal() }
    }

    #[test]
    fn errors_name_no_flag_and_hints_do() {
        let in_use = "cannot reuse a name that is still in use";
        let busy = "another operation (install/upgrade/rollback) is in progress";
        let fields = "\n  (--force-conflicts takes them, --leave-to-owner PATH leaves them)";
        let replace = "\n  (--recreate-immutable deletes it and creates it again)";
        let cases = [
            (
                EngineError::HalfUninstalled { name: "web".into(), half: "half".into() },
                format!("{in_use}: half"),
                "; \"uninstall web\" finishes that, \"upgrade --install web\" brings the release back"
                    .to_owned(),
            ),
            (
                EngineError::Pending {
                    revision: 2,
                    status: ReleaseStatus::PendingUpgrade,
                    since: "then".into(),
                    by: "Helm".into(),
                    minutes: 5,
                },
                format!(
                    "{busy}: revision 2 is pending-upgrade since then, by Helm; it counts as abandoned 5m after that"
                ),
                ", or at once with --break-lock".to_owned(),
            ),
            (
                EngineError::Held { lease: "windlass-web".into(), by: "someone".into() },
                format!("{busy}: someone holds Lease windlass-web"),
                "; wait for it, or take over with --break-lock".to_owned(),
            ),
            (conflict("ConfigMap a"), "applying ConfigMap a (t): no".to_owned(), fields.to_owned()),
            (immutable("ConfigMap a"), "applying ConfigMap a (t): no".to_owned(), replace.to_owned()),
            (
                EngineError::Conflicts { stopped: Box::new(conflict("A")), further: vec![conflict("B")] },
                "applying A (t): no\nnot applied, and also in conflict:\napplying B (t): no".to_owned(),
                fields.to_owned(),
            ),
            (
                EngineError::Several(vec![immutable("A"), conflict("B"), immutable("C")]),
                "3 objects failed: applying A (t): no; applying B (t): no; applying C (t): no".to_owned(),
                format!("{replace}{fields}"),
            ),
            (
                EngineError::Hooks { event: HookEvent::PreUpgrade, source: Box::new(immutable("A")) },
                "pre-upgrade hooks failed: applying A (t): no".to_owned(),
                replace.to_owned(),
            ),
            (EngineError::NotFound, "release: not found".to_owned(), String::new()),
        ];
        for (error, text, hint) in cases {
            assert_eq!(error.to_string(), text);
            assert_eq!(engine_text(&error), format!("{text}{hint}"));
        }
        let read_only = engine_text(&EngineError::Record(RecordError::ReadOnly));
        assert!(read_only.ends_with("; unset HELM_DRIVER=memory or use --dry-run"), "{read_only}");
    }
}
