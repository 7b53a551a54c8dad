//! `windlass package`: a chart directory to a package.

use std::path::{Path, PathBuf};

use chart_compat::go::semver;

use super::dependency;
use super::failure::Explained;
use super::fetch::Login;
use super::flags::Globals;
use super::{chart, print, tell};
use crate::source::package::{self, Times};
use crate::source::{self, absolute};

/// Flags of `package`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The chart directories
    #[arg(required = true)]
    charts: Vec<PathBuf>,
    /// Set the version on the chart to this semver version
    #[arg(long, default_value = "", hide_default_value = true)]
    version: String,
    /// Set the appVersion on the chart to this version
    #[arg(long, default_value = "", hide_default_value = true)]
    app_version: String,
    /// Location to write the chart
    #[arg(short, long, default_value = ".")]
    destination: PathBuf,
    /// Update dependencies from "Chart.yaml" to dir "charts/" before packaging
    #[arg(short = 'u', long)]
    dependency_update: bool,
    #[command(flatten)]
    login: Login,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    for directory in &args.charts {
        let path = pack(globals, args, directory)?;
        print(format!("Successfully packaged chart and saved it to: {}\n", path.display()).as_bytes())?;
    }
    Ok(())
}

fn pack(globals: &Globals, args: &Args, directory: &Path) -> Result<PathBuf, Explained> {
    if !directory.exists() {
        return Err(format!("stat {}: no such file or directory", directory.display()).into());
    }
    if !directory.is_dir() {
        return Err(format!("{} is no directory", directory.display()).into());
    }
    if args.dependency_update {
        dependency::bring(globals, directory, &args.login.options(), &mut |_| {})?;
    }
    let mut loaded = source::load(directory, globals.profile())?;
    loaded.warnings.iter().for_each(|w| tell(w));
    let metadata = &mut loaded.chart.metadata;
    if !args.version.is_empty() {
        metadata.version.clone_from(&args.version);
    }
    semver::parse(&metadata.version)?;
    if !args.app_version.is_empty() {
        metadata.app_version.clone_from(&args.app_version);
    }
    let missing = chart::missing(&loaded.chart);
    if !missing.is_empty() {
        let names = missing.join(", ");
        return Err(format!("found in Chart.yaml, but missing in charts/ directory: {names}").into());
    }
    let times = Times::of_directory(directory)?;
    let destination =
        if args.destination == Path::new(".") { absolute(Path::new(".")) } else { args.destination.clone() };
    package::save(&loaded.chart, &times, &destination).map_err(|e| format!("failed to save: {e}").into())
}
