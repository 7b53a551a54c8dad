//! What the `doctor` commands of custom resources whose objects are releases have in common: flags, context and output.
//!
//! Owns no finding and no kind.

use std::process::ExitCode;

use serde::Serialize;

use super::flags::Globals;
use super::output::{Format, structured};
use super::release_findings::Findings;
use super::{Connected, Failure, print};
use windlass_base::redact;
use windlass_controller::{AccountName, ContextOptions};

/// Flags of each of them.
#[derive(clap::Args)]
pub(super) struct ObjectChecks {
    /// Check the objects of all namespaces; also without --namespace
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// The operator's --default-service-account
    #[arg(long, env = "WINDLASS_DEFAULT_SERVICE_ACCOUNT")]
    pub(super) default_service_account: Option<AccountName>,
    /// Use your own rights instead of those of the ServiceAccounts
    #[arg(long)]
    no_impersonation: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl ObjectChecks {
    /// The namespace of the objects; `None`: all.
    pub(super) fn namespace<'g>(&self, globals: &'g Globals) -> Option<&'g str> {
        globals.namespace.as_deref().filter(|_| !self.all_namespaces)
    }

    /// Whether ServiceAccounts are impersonated, as the operator does.
    pub(super) const fn impersonates(&self) -> bool {
        !self.no_impersonation
    }

    /// Prints a report. `kind`: of one object, for the exit status.
    ///
    /// # Errors
    /// Objects do not work here, or nothing can be printed.
    pub(super) fn print(
        &self,
        report: &impl Serialize,
        found: &Findings<'_>,
        kind: &str,
    ) -> Result<ExitCode, Failure> {
        let out = match self.output {
            Format::Table => found.text(),
            format => structured(report, format)?,
        };
        print(redact::mask(&out).as_bytes())?;
        found.status(kind)
    }
}

/// What a pass would have of the operator.
pub(super) fn context(globals: &Globals, connected: &Connected) -> ContextOptions {
    ContextOptions {
        storage: connected.engine.storage().clone(),
        render_bounds: globals.render_bounds(),
        crds_as_operator: false,
    }
}
