//! `windlass verify`, and the verification flags of other verbs.

use std::path::PathBuf;

use super::{Failure, print};
use windlass_fetch::provenance;

/// Flags for the trusted keys.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Keyring {
    /// Location of public keys used for verification
    #[arg(long, value_parser = super::flags::path(), value_hint = clap::ValueHint::AnyPath)]
    pub(super) keyring: Option<PathBuf>,
}

impl Keyring {
    pub(super) fn path(&self) -> PathBuf {
        self.keyring.clone().unwrap_or_else(provenance::default_keyring)
    }
}

/// Flags for the verification of fetched charts.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Verify {
    /// Verify the package before using it
    #[arg(long)]
    pub(super) verify: bool,
    #[command(flatten)]
    pub(super) keyring: Keyring,
}

/// Flags of `verify`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The package; its provenance file is in the same directory
    chart: PathBuf,
    #[command(flatten)]
    keyring: Keyring,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let verified = provenance::verify_file(&args.chart, &args.keyring.path())?;
    print(format!("{}\n", verified.lines().join("\n")).as_bytes())
}
