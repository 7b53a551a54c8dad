//! `windlass pull`: downloads a package into a file.

use std::path::{Component, Path, PathBuf};

use chart_compat::chart;

use super::fetch::{self, ChartPath};
use super::flags::Globals;
use super::hints;
use super::{Failure, block_on, print, tell};
use windlass_fetch::chart_package;
use windlass_fetch::fetch::{ChartBytes, ProvenanceMode};
use windlass_fetch::provenance;

/// Flags of `pull`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The charts
    #[arg(required = true)]
    charts: Vec<String>,
    /// If set to true, will untar the chart after downloading it
    #[arg(long)]
    untar: bool,
    /// Fetch the provenance file, but don't perform verification
    #[arg(long)]
    prov: bool,
    /// If untar is specified, this flag specifies the name of the directory into which the chart is expanded
    #[arg(long, default_value = ".")]
    untardir: PathBuf,
    /// Location to write the chart. If this and untardir are specified, untardir is appended to this
    #[arg(short, long, default_value = ".")]
    destination: PathBuf,
    #[command(flatten)]
    path: ChartPath,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let fetcher = fetch::fetcher(globals);
    let mut options = args.path.options()?;
    if args.prov && !args.path.verify.verify {
        options.provenance = ProvenanceMode::IfThere;
    }
    for reference in &args.charts {
        let target = if args.untar { Some(untar_target(args, reference)?) } else { None };
        let chart = block_on(fetcher.fetch(reference, &options, &mut |w| tell(&w)))?;
        let chart = chart.map_err(|e| hints::fetch_text(&e))?;
        let mut lines = chart.notes.clone();
        if args.path.verify.verify {
            lines.extend(provenance::verify_fetched(&chart, &args.path.verify.keyring.path())?.lines());
        }
        for note in &lines {
            print(format!("{note}\n").as_bytes())?;
        }
        match target {
            Some(directory) => {
                let files =
                    chart::read_archive(&chart.bytes, globals.profile()).map_err(|e| e.to_string())?;
                chart_package::expand(&files, &directory).map_err(|e| e.to_string())?;
            }
            None => save(args, &chart)?,
        }
    }
    Ok(())
}

/// The directory for the unpacked chart, which must not exist.
fn untar_target(args: &Args, reference: &str) -> Result<PathBuf, Failure> {
    let directory = args.destination.join(&args.untardir);
    let name = reference.rsplit('/').next().unwrap_or(reference);
    let taken = directory.join(name);
    if taken.exists() {
        return Err(format!(
            "failed to untar: a file or directory with the name {} already exists",
            cleaned_path(&taken).display()
        ));
    }
    Ok(directory)
}

/// A path without `.` components (`filepath.Join`).
fn cleaned_path(path: &Path) -> PathBuf {
    path.components().filter(|c| *c != Component::CurDir).collect()
}

fn save(args: &Args, chart: &ChartBytes) -> Result<(), Failure> {
    let path = args.destination.join(&chart.file_name);
    let mut files = vec![(path.clone(), &chart.bytes)];
    if let Some(provenance) = &chart.provenance {
        let mut name = path.into_os_string();
        name.push(".prov");
        files.push((name.into(), provenance));
    }
    for (path, bytes) in files {
        chart_package::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}
