//! `deps`: updates the dependencies of local charts, and writes the lock file of each state file.
//!
//! Owns which charts are asked for and when files are written: all versions are known before the first is. The text of a lock file is
//! `helmfile::lock_file`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::flags::Options;
use crate::cli::flags::Globals;
use crate::cli::{dependency, print, tell};
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::{Error, host, lock, paths, release};
use windlass_fetch::chart_package;
use windlass_fetch::fetch::Options as FetchOptions;
use windlass_fetch::location::without_secrets;
use windlass_helmfile::release_chart::{ChartPlace, ReleaseCharts};
use windlass_helmfile::{commands, lock_file};

/// Flags of `deps`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// No effect: repositories are asked for the charts that are needed
    #[arg(long)]
    skip_repos: bool,
    /// No effect: charts are fetched one after the other
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
}

pub(super) fn run(globals: &Globals, options: &Options) -> Result<(), Error> {
    let (host, store, query) = (options.host(globals), options.store(globals), options.query()?);
    check_writable(&query.file)?;
    let mut updated = BTreeSet::new();
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    commands::for_each(&*host, &query, &options.cwd(), |state| {
        for nested in state.fields.records(key!("helmfiles")) {
            check_writable(&nested.text(key!("path")))?;
        }
        commands::filter(state, false)?;
        let charts = options.charts(globals, &*host, &store);
        update_local_charts(globals, &charts, state, &mut updated)?;
        let path = PathBuf::from(paths::within(&state.cwd, &lock::path(state)));
        match lock_text(&charts, state)? {
            Some(text) => {
                options.check_output(&path, "lockFilePath")?;
                files.push((path, text));
            }
            None => tell(&format!(
                "{}: no release has a chart of one of the repositories: no lock file",
                state.file
            )),
        }
        Ok(!state.fields.list(key!("releases")).is_empty())
    })?;
    for (path, text) in files {
        let failed = |error| format!("writing {}: {error}", path.display());
        chart_package::write(&path, text.as_bytes()).map_err(failed)?;
        print(format!("wrote {}\n", path.display()).as_bytes())?;
    }
    Ok(())
}

/// Refuses standard input and state files of addresses, beside which no lock file can be written.
fn check_writable(file: &str) -> Result<(), Error> {
    if file == "-" {
        return Err("standard input has no lock file: write the state to a file".to_owned().into());
    }
    if paths::is_remote(file) {
        let file = without_secrets(file);
        return Err(
            format!("{file}: a lock file cannot be written there: run `deps` in its repository").into()
        );
    }
    Ok(())
}

/// Updates the dependencies of the charts on disk that are not in `updated` yet.
fn update_local_charts(
    globals: &Globals,
    charts: &ReleaseCharts<'_>,
    state: &State,
    updated: &mut BTreeSet<String>,
) -> Result<(), Error> {
    for one in state.fields.records(key!("releases")).filter(|one| release::is_desired(one)) {
        if lock::locked_chart(state, &one.text(key!("chart"))).is_some() {
            continue;
        }
        if let ChartPlace::Chart(request) = charts.place(state, one)?
            && request.update_dependencies
            && updated.insert(request.reference.clone())
        {
            // Standard output has the names of lock files alone.
            let say = &mut |text: String| tell(text.trim_end());
            dependency::bring(globals, request.reference.as_ref(), &FetchOptions::default(), say)
                .map_err(|error| format!("release {:?}: {error}", one.text(key!("name"))))?;
        }
    }
    Ok(())
}

/// The text of the state's lock file, with the versions that repositories have now; `None` without charts of repositories.
fn lock_text(charts: &ReleaseCharts<'_>, state: &State) -> Result<Option<String>, Error> {
    let mut known: BTreeMap<[String; 3], String> = BTreeMap::new();
    let mut locked = Vec::new();
    for one in lock_file::locked_releases(state) {
        let key = one.key().map(str::to_owned);
        let version = match known.get(&key) {
            Some(version) => version.clone(),
            None => {
                let request = charts.repository_chart(state, &one.release, &one.release.text(key!("chart")));
                let chart = charts.store.chart(&request);
                let name = one.release.text(key!("name"));
                chart.map_err(|error| format!("release {name:?}: {error}"))?.metadata.version
            }
        };
        known.insert(key, version.clone());
        locked.push((one, version));
    }
    if locked.is_empty() {
        return Ok(None);
    }
    let path = paths::within(&state.cwd, &lock::path(state));
    let old = match charts.host.is_dir(&path) {
        Some(false) => Some(host::read_text(charts.host, &path)?),
        _ => None,
    };
    let now = jiff::Timestamp::now().to_string();
    let text = lock_file::text(&locked, old.as_deref(), &now);
    Ok(Some(text.map_err(|error| format!("{path}: {error}"))?))
}
