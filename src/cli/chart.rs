//! Loads the chart of a reference on the command line, and checks that it can be installed.

use std::path::Path;

use chart_compat::go::slog;
use chart_compat::render::CompiledChart;

use super::dependency;
use super::failure::Explained;
use super::fetch::{self, ChartPath};
use super::flags::Globals;
use super::{block_on, print, tell};
use windlass_fetch::Loaded;
use windlass_fetch::fetch::FetchError;
use windlass_fetch::installable::{check_installable, missing_dependencies};
use windlass_fetch::provenance;

/// Where the notes of a pull from a registry are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PullNotes {
    Stdout,
    Stderr,
}

/// Like [`open`], and compiles the chart.
pub(super) fn load(reference: &str, globals: &Globals, path: &ChartPath) -> Result<CompiledChart, Explained> {
    Ok(open(reference, globals, path, false, PullNotes::Stderr)?.compile(globals.profile()))
}

/// Finds and loads a chart from any source.
pub(super) fn find(
    reference: &str,
    globals: &Globals,
    path: &ChartPath,
    notes: PullNotes,
) -> Result<Loaded, Explained> {
    let profile = globals.profile();
    if path.may_be_local(reference, profile)
        && let Some(found) = windlass_fetch::locate(reference)?
    {
        if let Some(repository) = path.repository() {
            let text = "local chart found in current working directory. repository url ignored";
            tell(&slog::line("WARN", text, &[("chart", reference), ("repository", repository)]));
        }
        if path.cosign.policy()?.is_some() {
            return Err(windlass_fetch::Error::from(FetchError::NoCosign(reference.to_owned())).into());
        }
        if path.verify.verify {
            let package = windlass_fetch::absolute(&found);
            provenance::verify_file(&package, &path.verify.keyring.path()).map_err(String::from)?;
        }
        return Ok(windlass_fetch::load(&found, profile)?);
    }
    let fetcher = fetch::fetcher(globals);
    let options = path.options()?;
    let chart = block_on(fetcher.fetch(reference, &options, &mut |w| tell(&w)))?;
    let chart = chart.map_err(windlass_fetch::Error::from)?;
    if path.verify.verify {
        provenance::verify_fetched(&chart, &path.verify.keyring.path()).map_err(String::from)?;
    }
    for note in &chart.notes {
        match notes {
            PullNotes::Stdout => print(format!("{note}\n").as_bytes())?,
            PullNotes::Stderr => tell(note),
        }
    }
    Ok(windlass_fetch::load_package(&chart.bytes, Path::new(&chart.file_name), profile)?)
}

/// Like [`find`], with Helm's checks before an install: not a library, no missing dependencies. `update` fetches missing ones.
pub(super) fn open(
    reference: &str,
    globals: &Globals,
    path: &ChartPath,
    update: bool,
    notes: PullNotes,
) -> Result<Loaded, Explained> {
    let profile = globals.profile();
    let mut loaded = find(reference, globals, path, notes)?;
    let directory =
        path.may_be_local(reference, profile).then(|| Path::new(reference)).filter(|p| p.is_dir());
    if let Some(directory) = directory.filter(|_| update && !missing_dependencies(&loaded.chart).is_empty()) {
        dependency::update(globals, directory, &path.login.options())?;
        loaded = windlass_fetch::load(directory, globals.profile())?;
    }
    for line in &loaded.warnings {
        tell(line);
    }
    check_installable(&loaded.chart, profile, &mut |line| tell(line)).map_err(|e| e.to_string())?;
    Ok(loaded)
}
