//! Flags of `diff`, `apply`, `sync` and `destroy` that stand for fields of every release, and those that change nothing here.

use helmfile_compat::key;
use helmfile_compat::record::{Record, Slot};

/// Flags that stand for fields of every release.
#[derive(clap::Args, Default)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct FieldFlags {
    /// Wait until the objects of each release are ready
    #[arg(long)]
    wait: bool,
    /// If the release waits, also until all Jobs have been completed
    #[arg(long)]
    wait_for_jobs: bool,
    /// Seconds to wait for any individual Kubernetes operation; 0 for the releases' own
    #[arg(long, default_value_t = 0)]
    timeout: u32,
    /// Take over existing objects, including objects of other releases
    #[arg(long)]
    take_ownership: bool,
    /// Reuse the last revision's values under those of the state file
    #[arg(long, conflicts_with = "reset_values")]
    reuse_values: bool,
    /// Use the state file's values alone, whatever `reuseValues` says
    #[arg(long)]
    reset_values: bool,
    /// Put the labels of each release on its record
    #[arg(long)]
    sync_release_labels: bool,
    /// Do not check values against schemas
    #[arg(long)]
    skip_schema_validation: bool,
    /// The description of each revision
    #[arg(long, default_value = "", hide_default_value = true)]
    description: String,
    /// Which objects are deleted with those of an uninstalled release, unless it says so itself: background, foreground or orphan
    #[arg(long, value_parser = ["background", "foreground", "orphan"])]
    cascade: Option<String>,
    /// Wait until the objects of an uninstalled release are gone
    #[arg(long = "deleteWait")]
    delete_wait: bool,
    /// Seconds to wait for that; 0 for the releases' own
    #[arg(long = "deleteTimeout", default_value_t = 0)]
    delete_timeout: u32,
    /// Apply no CRDs
    #[arg(long)]
    pub(super) skip_crds: bool,
    /// Arguments for helm: --set, --skip-schema-validation, --no-hooks
    #[arg(long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(super) args: String,
}

impl FieldFlags {
    /// Sets the fields of a release.
    pub(super) fn apply(&self, release: &mut Record) {
        for (key, value) in [
            (key!("wait"), self.wait.then_some(true)),
            (key!("waitForJobs"), self.wait_for_jobs.then_some(true)),
            (key!("takeOwnership"), self.take_ownership.then_some(true)),
            (key!("reuseValues"), (self.reuse_values || self.reset_values).then_some(self.reuse_values)),
            (key!("syncReleaseLabels"), self.sync_release_labels.then_some(true)),
            (key!("skipSchemaValidation"), self.skip_schema_validation.then_some(true)),
            (key!("deleteWait"), self.delete_wait.then_some(true)),
        ] {
            if let Some(value) = value {
                release.set(key, Slot::pointer(Slot::Bool(value)));
            }
        }
        for (key, seconds) in [(key!("timeout"), self.timeout), (key!("deleteTimeout"), self.delete_timeout)]
        {
            if seconds > 0 {
                release.set(key, Slot::pointer(Slot::Int(seconds.into())));
            }
        }
        if !self.description.is_empty() {
            release.set(key!("description"), Slot::Text(self.description.clone()));
        }
        if let Some(cascade) = self.cascade.clone().filter(|_| release.text(key!("cascade")).is_empty()) {
            release.set(key!("cascade"), Slot::pointer(Slot::Text(cascade)));
        }
    }
}

/// Flags of helmfile about helm, helm-diff and kubedog.
#[derive(clap::Args, Default)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct WithoutEffect {
    /// No effect: notes are not printed
    #[arg(long)]
    hide_notes: bool,
    /// No effect: tests are never compared
    #[arg(long)]
    include_tests: bool,
    /// No effect: data of Secrets is never printed
    #[arg(long)]
    show_secrets: bool,
    /// No effect: data of Secrets is never printed
    #[arg(long)]
    suppress_secrets: bool,
    /// No effect: fields are printed without their surroundings
    #[arg(long)]
    context: Option<u32>,
    /// No effect: line ends are not compared
    #[arg(long)]
    strip_trailing_cr: bool,
    /// No effect: new releases are printed, too
    #[arg(long)]
    skip_diff_on_install: bool,
    /// No effect: the API server validates each object
    #[arg(long)]
    skip_diff_validation_on_install: bool,
    /// No effect: the API server validates each object
    #[arg(long)]
    validate: bool,
    /// No effect: the field serverSide of a release says how its objects are applied
    #[arg(long, value_parser = ["true", "auto"])]
    server_side: Option<String>,
    /// No effect: releases that wait do so as `windlass upgrade --wait` does
    #[arg(long)]
    track_mode: Option<String>,
    /// No effect, as --track-mode
    #[arg(long)]
    track_timeout: Option<u32>,
    /// No effect, as --track-mode
    #[arg(long)]
    track_logs: bool,
    /// No effect, as --track-mode
    #[arg(long)]
    track_failed_logs: bool,
    /// No effect, as --track-mode
    #[arg(long)]
    track_fail_on_error: bool,
    /// No effect: no helm is run that could be stuck
    #[arg(long)]
    helm_stuck_grace: Option<u32>,
    /// No effect: temporary files are not made
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_cleanup: Option<bool>,
    /// No effect: the charts of releases to uninstall are not read
    #[arg(long)]
    skip_charts: bool,
}
