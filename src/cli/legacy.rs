//! Flags of `helm template` without an effect on the output: accepted for scripts, with Helm's warnings.

use chart_compat::profile::Profile;

use super::tell;

/// Flags without an effect on a render.
#[derive(clap::Args, Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct Legacy {
    #[arg(long, hide = true)]
    atomic: bool,
    #[arg(long, hide = true)]
    rollback_on_failure: bool,
    #[arg(long, hide = true)]
    create_namespace: bool,
    #[arg(long, hide = true)]
    description: Option<String>,
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,
    #[arg(long, hide = true)]
    force: bool,
    #[arg(long, hide = true)]
    force_replace: bool,
    #[arg(long, hide = true)]
    force_conflicts: bool,
    #[arg(long, hide = true)]
    server_side: bool,
    #[arg(long, hide = true)]
    hide_notes: bool,
    #[arg(short, long, hide = true, value_delimiter = ',', value_parser = super::flags::label)]
    labels: Vec<(String, String)>,
    #[arg(long, hide = true)]
    replace: bool,
    #[arg(long, hide = true)]
    skip_crds: bool,
    #[arg(long, hide = true)]
    take_ownership: bool,
    #[arg(long, hide = true, value_parser = super::flags::duration)]
    timeout: Option<std::time::Duration>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "watcher", value_parser = super::release_flags::wait_for)]
    wait: Option<super::release_flags::WaitFor>,
    #[arg(long, hide = true)]
    wait_for_jobs: bool,
}

impl Legacy {
    /// Prints Helm 4's warnings about deprecated flags.
    pub(super) fn warn(&self, profile: Profile) {
        if profile == Profile::Helm3 {
            return;
        }
        let unused = "this flag has no effect for 'helm template' and will be removed in Helm 5";
        for (on, name, what) in [
            (self.atomic, "atomic", "use --rollback-on-failure instead"),
            (self.force, "force", "use --force-replace instead"),
            (self.hide_notes, "hide-notes", unused),
        ] {
            if on {
                tell(&format!("Flag --{name} has been deprecated, {what}"));
            }
        }
    }
}
