//! `windlass verify`, and the verification flags of other verbs.

use std::path::{Path, PathBuf};

use super::{Failure, print};
use crate::source;
use crate::source::fetch::ChartBytes;
use crate::source::provenance::{self, Verified};

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
    let verified = on_disk(&args.chart, &args.keyring)?;
    print(format!("{}\n", verified.lines().join("\n")).as_bytes())
}

/// Verifies a package on disk (`downloader.VerifyChart`).
pub(super) fn on_disk(chart: &Path, keyring: &Keyring) -> Result<Verified, Failure> {
    let shown = chart.display();
    match std::fs::metadata(chart) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("stat {shown}: no such file or directory"));
        }
        Err(e) => return Err(format!("stat {shown}: {e}")),
        Ok(meta) if meta.is_dir() => return Err("unpacked charts cannot be verified".to_owned()),
        Ok(_) if !chart.extension().is_some_and(|e| e.eq_ignore_ascii_case("tgz")) => {
            return Err("chart must be a tgz file".to_owned());
        }
        Ok(_) => {}
    }
    let mut beside = chart.as_os_str().to_owned();
    beside.push(".prov");
    let beside = PathBuf::from(beside);
    let provenance = source::package_bytes(&beside).map_err(|_| {
        let shown = beside.display();
        format!("could not load provenance file {shown}: stat {shown}: no such file or directory")
    })?;
    let bytes = source::package_bytes(chart).map_err(|e| e.to_string())?;
    let name = chart.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    provenance::verify(&bytes, &provenance, &name, &keyring.path()).map_err(|e| e.to_string())
}

/// Verifies a fetched package with its provenance file.
pub(super) fn fetched(chart: &ChartBytes, keyring: &Keyring) -> Result<Verified, Failure> {
    let missing = || format!("failed to fetch provenance \"{}.prov\"", chart.origin);
    let provenance = chart.provenance.as_deref().ok_or_else(missing)?;
    provenance::verify(&chart.bytes, provenance, &chart.file_name, &keyring.path()).map_err(|e| e.to_string())
}
