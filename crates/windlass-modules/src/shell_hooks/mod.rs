//! Hooks: programs of users that run at moments of the operator's life, on schedules and on changes of objects.
//!
//! Owns what addon-operator and shell-operator promise to a hook: its discovery and configuration, its input (binding contexts,
//! snapshots), its output (metrics, object operations, patches of values, webhook responses), and how it runs. Knows no modules:
//! the values that a patch changes belong to the hook's owner.

pub mod apply_operations;
pub mod binding_context;
pub mod config;
mod context_bounds;
mod deletion_grace;
pub mod discover;
mod hook;
mod hook_file;
mod hook_set;
pub mod jq;
pub mod metrics_file;
mod monitor;
pub mod operations;
pub mod process;
pub mod queues;
mod rate_limit;
mod run_history;
pub mod run_metrics;
mod settings_check;
pub mod values_patch;
pub mod webhook_responses;
pub mod webhooks;

use std::fmt;

pub use deletion_grace::{DeletionGrace, HookActivity};
pub use hook::{About, CONFIG_TIMEOUT, Hook, HookEnvironment, HookError, Input, Output};
pub use hook_file::{ConfigCache, HookSource};
pub use hook_set::{HookSet, ReadinessProbe, Synchronization, WatchedView, next_tick};
pub use monitor::Changes;
pub use run_history::{Printed, RunResult, RunView, dump_runs};
pub use settings_check::{CheckVerdict, SettingsCheck};

/// Whose hook it is: that decides which bindings it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A hook of `GLOBAL_HOOKS_DIR`.
    Global,
    /// A hook of a module.
    Module,
}

/// A moment of the operator's or of a module's life that hooks can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    OnStartup,
    BeforeAll,
    AfterAll,
    BeforeHelm,
    AfterHelm,
    BeforeDeleteHelm,
    AfterDeleteHelm,
}

impl Moment {
    /// The moments that hooks of a scope may be bound to.
    #[must_use]
    pub fn of(scope: Scope) -> &'static [Self] {
        match scope {
            Scope::Global => &[Self::OnStartup, Self::BeforeAll, Self::AfterAll],
            Scope::Module => &[
                Self::OnStartup,
                Self::BeforeHelm,
                Self::AfterHelm,
                Self::BeforeDeleteHelm,
                Self::AfterDeleteHelm,
            ],
        }
    }

    /// Its key in configurations and its name in binding contexts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OnStartup => "onStartup",
            Self::BeforeAll => "beforeAll",
            Self::AfterAll => "afterAll",
            Self::BeforeHelm => "beforeHelm",
            Self::AfterHelm => "afterHelm",
            Self::BeforeDeleteHelm => "beforeDeleteHelm",
            Self::AfterDeleteHelm => "afterDeleteHelm",
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
