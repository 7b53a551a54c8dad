//! Flags of the verbs that change a release: how to apply it and what to wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use chart_compat::go::{parse_bool, slog};
use chart_compat::profile::Profile;

use super::flags::{duration, whole};
use super::{Failure, environment, tell};
use windlass_cluster::Validation;
use windlass_engine::{
    Adoption, ApplyChoice, Duplicates, Immutable, ObjectOptions, OnFailure, OwnershipOptions, ReleaseOptions,
    RevisionOptions, Wait, WaitRules,
};

/// The extent of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DryRun {
    None,
    /// Without the cluster, where the verb can do without.
    Client,
    Server,
}

impl DryRun {
    /// Reads the word of `--dry-run` (`cmdGetDryRunFlagStrategy`), and warns of a deprecated one. `unset` stands for no word.
    pub(super) fn read(word: Option<&str>, profile: Profile) -> Result<Self, Failure> {
        let warn = |text: &str| {
            if profile == Profile::Helm4 {
                tell(&slog::line("WARN", text, &[]));
            }
        };
        let word = word.unwrap_or("none");
        if profile == Profile::Helm3
            && !["unset", "false", "true", "none", "client", "server"].contains(&word)
        {
            return Err(
                "Invalid dry-run flag. Flag must one of the following: false, true, none, client, server"
                    .to_owned(),
            );
        }
        Ok(match word {
            "unset" => {
                warn("--dry-run is deprecated and should be replaced with '--dry-run=client'");
                Self::Client
            }
            "client" => Self::Client,
            "server" => Self::Server,
            "none" => Self::None,
            _ => {
                let wrong = || {
                    format!("invalid dry-run value ({word:?}). Must be \"none\", \"server\", or \"client\"")
                };
                let dry = parse_bool(word).ok_or_else(wrong)?;
                let (mode, name) = if dry { (Self::Client, "client") } else { (Self::None, "none") };
                warn(&format!(
                    "boolean '--dry-run={word}' flag is deprecated and must be replaced with '--dry-run={name}'"
                ));
                mode
            }
        })
    }

    pub(super) fn is_dry(self) -> bool {
        self != Self::None
    }
}

/// The condition that an operation waits for, with the status rules to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitFor {
    Watcher,
    HookOnly,
    Legacy,
}

/// Reads `--wait`, and warns of a deprecated word.
pub(super) fn wait_for(word: &str) -> Result<WaitFor, String> {
    let deprecated = |word: &str, instead: &str| {
        tell(&slog::line(
            "WARN",
            &format!("--wait={word} is deprecated (boolean value) and can be replaced with --wait={instead}"),
            &[],
        ));
    };
    Ok(match word {
        "watcher" => WaitFor::Watcher,
        "hookOnly" => WaitFor::HookOnly,
        "legacy" => WaitFor::Legacy,
        "true" => {
            deprecated(word, "watcher");
            WaitFor::Watcher
        }
        "false" => {
            deprecated(word, "hookOnly");
            WaitFor::HookOnly
        }
        _ => {
            return Err(format!(
                "invalid wait input {word:?}. Valid inputs are watcher, hookOnly, and legacy"
            ));
        }
    })
}

/// Server-side or client-side apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ServerSide {
    Auto,
    True,
    False,
}

/// The treatment of a chart's `crds/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Crds {
    /// Nothing
    Skip,
    /// Missing CRDs are created on install
    Create,
    /// Created, and updated to the chart's version unless objects would lose data
    Apply,
}

/// The options for a profile. For Helm 3, unknown fields in objects and duplicate keys in lists are accepted.
pub(super) fn lenient(mut options: ReleaseOptions, profile: Profile) -> ReleaseOptions {
    if profile == Profile::Helm3 {
        options.objects.validation = Validation::Warn;
        options.objects.duplicates = Duplicates::KeepLast;
    }
    options
}

/// Flags of verbs that create a revision, whatever its manifests are made of.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct ReleaseFlags {
    #[command(flatten)]
    operation: OperationFlags,
    /// Create the release namespace if not present
    #[arg(long)]
    create_namespace: bool,
    /// Take over existing objects, including objects of other releases
    #[arg(long)]
    pub(super) take_ownership: bool,
    /// Undo what failed: uninstall a first revision, roll back a later one
    #[arg(long)]
    rollback_on_failure: bool,
    /// Deprecated name of --rollback-on-failure
    #[arg(long, hide = true)]
    atomic: bool,
    /// Add a custom description
    #[arg(long)]
    description: Option<String>,
    /// Labels that would be added to release metadata. Should be divided by comma
    #[arg(short = 'l', long, value_delimiter = ',', value_parser = super::flags::label)]
    labels: Vec<(String, String)>,
}

impl ReleaseFlags {
    pub(super) fn options(&self) -> Result<ReleaseOptions, Failure> {
        exclusive(&self.operation)?;
        if self.atomic {
            tell("Flag --atomic has been deprecated, use --rollback-on-failure instead");
        }
        let mut options = self.operation.options_undoing(self.rollback_on_failure || self.atomic)?;
        options.ownership.adoption = if self.take_ownership { Adoption::Any } else { Adoption::Marked };
        Ok(ReleaseOptions { create_namespace: self.create_namespace, ..options })
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.labels.iter().cloned().collect()
    }

    /// `--description`, unless it is empty.
    pub(super) fn description(&self) -> Option<String> {
        self.description.clone().filter(|text| !text.is_empty())
    }
}

/// Flags for the history and for a failed upgrade.
#[derive(clap::Args)]
pub(super) struct Revisions {
    /// Limit the maximum number of revisions saved per release. Use 0 for no limit
    #[arg(long, default_value_t = environment::max_history(), value_parser = whole, allow_negative_numbers = true)]
    history_max: i64,
    /// Allow deletion of new resources created in this upgrade when upgrade fails
    #[arg(long)]
    cleanup_on_fail: bool,
}

impl Revisions {
    pub(super) fn set(&self, options: &mut ReleaseOptions) {
        options.revisions.max = usize::try_from(self.history_max).unwrap_or_default();
        options.failure.cleanup = self.cleanup_on_fail;
    }
}

/// The flags that these verbs share.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct OperationFlags {
    /// Prevent hooks from running
    #[arg(long)]
    no_hooks: bool,
    /// Wait until all resources are ready; alone: watcher
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "watcher", value_parser = wait_for)]
    wait: Option<WaitFor>,
    /// If set and --wait enabled, will wait until all Jobs have been completed
    #[arg(long)]
    wait_for_jobs: bool,
    /// Time to wait for any individual Kubernetes operation
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Time limit of the whole operation, including waits and hooks
    #[arg(long, value_parser = duration)]
    deadline: Option<Duration>,
    /// Overwrite fields that other managers own
    #[arg(long)]
    force_conflicts: bool,
    /// Leave conflicting fields to their owners: a path such as spec.replicas, or Kind/name:path (can be repeated)
    #[arg(long, value_delimiter = ',', value_name = "PATH")]
    leave_to_owner: Vec<String>,
    /// Delete and re-create objects whose immutable fields change
    #[arg(long)]
    recreate_immutable: bool,
    /// Replace objects as a whole in place of patches; needs client-side apply: --server-side=false
    #[arg(long)]
    force_replace: bool,
    /// Deprecated name of --force-replace
    #[arg(long, hide = true)]
    force: bool,
    /// Apply objects on the server, or by patches of the client; auto: as the last revision, or the one rolled back to
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    server_side: Option<ServerSide>,
    /// Take over a release that another process left in an unfinished operation
    #[arg(long)]
    break_lock: bool,
}

/// Tells of a deprecated flag, and rejects mutually exclusive ones, with Helm's texts.
pub(super) fn exclusive(operation: &OperationFlags) -> Result<(), Failure> {
    if operation.force {
        tell("Flag --force has been deprecated, use --force-replace instead");
    }
    for (on, name) in [(operation.force_replace, "force-replace"), (operation.force, "force")] {
        if on && operation.force_conflicts {
            return Err(format!(
                "if any flags in the group [{name} force-conflicts] are set none of the others can be; [{} {}] were all set",
                name.min("force-conflicts"),
                name.max("force-conflicts")
            ));
        }
    }
    Ok(())
}

impl OperationFlags {
    pub(super) fn options(&self) -> Result<ReleaseOptions, Failure> {
        let apply = match self.server_side {
            None | Some(ServerSide::Auto) => ApplyChoice::Auto,
            Some(ServerSide::True) => ApplyChoice::Server,
            Some(ServerSide::False) => ApplyChoice::Client,
        };
        if apply == ApplyChoice::Client && self.force_conflicts {
            return Err(
                "--force-conflicts: forceConflicts enabled when serverSideApply disabled; leave it out: \
                        client-side apply overwrites fields of other managers"
                    .to_owned(),
            );
        }
        let wait = match self.wait {
            None | Some(WaitFor::HookOnly) => Wait::HooksOnly,
            Some(_) if self.wait_for_jobs => Wait::ReadyAndJobs,
            Some(_) => Wait::Ready,
        };
        let legacy = self.wait == Some(WaitFor::Legacy);
        Ok(ReleaseOptions {
            apply,
            run_hooks: !self.no_hooks,
            wait,
            wait_rules: if legacy { WaitRules::Legacy } else { WaitRules::Status },
            timeout: self.timeout,
            deadline: self.deadline,
            ownership: OwnershipOptions {
                force_conflicts: self.force_conflicts,
                leave_to_owner: self.leave_to_owner.clone(),
                ..OwnershipOptions::default()
            },
            objects: ObjectOptions {
                immutable: if self.force_replace || self.force {
                    Immutable::Replace
                } else if self.recreate_immutable {
                    Immutable::Recreate
                } else {
                    Immutable::Fail
                },
                validation: Validation::Strict,
                ..ObjectOptions::default()
            },
            revisions: RevisionOptions { break_lock: self.break_lock, ..RevisionOptions::default() },
            ..ReleaseOptions::default()
        })
    }

    /// Like [`Self::options`], for operations that are undone on failure: these wait for readiness by default.
    pub(super) fn options_undoing(&self, undo: bool) -> Result<ReleaseOptions, Failure> {
        let mut options = self.options()?;
        if undo {
            options.failure.on_failure = OnFailure::Undo;
            if self.wait.is_none() {
                options.wait = if self.wait_for_jobs { Wait::ReadyAndJobs } else { Wait::Ready };
            }
        }
        Ok(options)
    }
}
