//! Finds charts in directories, and the test values of their authors.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use chart_compat::profile::Profile;

use super::super::Failure;
use super::Case;

/// Maximal depth of the search.
const MAX_DEPTH: usize = 16;
/// Maximal number of charts in one comparison.
const MAX_CHARTS: usize = 20_000;

/// All cases of charts and of directories with charts: each chart with its defaults, and with each of its
/// `ci/*-values.yaml`, chart-testing's convention.
///
/// # Errors
/// A path cannot be read, or there are no charts.
pub(super) fn cases(roots: &[PathBuf], scratch: &Path) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    for root in roots {
        let mut charts = Vec::new();
        look(root, 0, &mut charts)?;
        if charts.is_empty() {
            return Err(format!("no chart at or below {}: no Chart.yaml, no *.tgz", root.display()));
        }
        for chart in charts {
            let shown = chart.strip_prefix(root).ok().filter(|p| !p.as_os_str().is_empty());
            let shown = shown.unwrap_or(&chart).to_string_lossy();
            let case = |values: &str, more: &[OsString]| Case {
                chart: shown.clone().into_owned(),
                values: values.to_owned(),
                arguments: Ok([OsString::from("release-name"), chart.clone().into()]
                    .into_iter()
                    .chain(more.iter().cloned())
                    .collect()),
                recorded: None,
            };
            cases.push(case("defaults", &[]));
            for (name, path) in test_values(&chart, &scratch.join(format!("values-{}", cases.len())))? {
                cases.push(case(&name, &["--values".into(), path.into()]));
            }
        }
    }
    Ok(cases)
}

fn look(path: &Path, depth: usize, charts: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let failed = |e: std::io::Error| format!("cannot read {}: {e}", path.display());
    let kind = std::fs::metadata(path).map_err(failed)?;
    let packaged = path.extension().is_some_and(|e| e == "tgz");
    if kind.is_dir() && path.join("Chart.yaml").is_file() || kind.is_file() && (packaged || depth == 0) {
        charts.push(path.to_owned());
        if charts.len() > MAX_CHARTS {
            return Err(format!("more than {MAX_CHARTS} charts: give a smaller directory"));
        }
        return Ok(());
    }
    if !kind.is_dir() || depth == MAX_DEPTH {
        return Ok(());
    }
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        // Symbolic links can form cycles, so they are not followed; a chart behind one can be named itself.
        if !hidden && !entry.file_type().map_err(failed)?.is_symlink() {
            entries.push(entry.path());
        }
    }
    entries.sort();
    entries.iter().try_for_each(|entry| look(entry, depth + 1, charts))
}

/// Names and paths of a chart's `ci/*-values.yaml`; those of a packaged chart are written below `scratch`.
fn test_values(chart: &Path, scratch: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut found = Vec::new();
    if chart.is_dir() {
        let Ok(entries) = std::fs::read_dir(chart.join("ci")) else { return Ok(found) };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with("-values.yaml") {
                found.push((format!("ci/{name}"), entry.path()));
            }
        }
        found.sort();
        return Ok(found);
    }
    // If the chart cannot be read, both programs report it.
    let Ok(loaded) = windlass_fetch::load(chart, Profile::Helm4) else { return Ok(found) };
    for file in &loaded.chart.files {
        let Some(name) = file.name.strip_prefix("ci/").filter(|n| n.ends_with("-values.yaml")) else {
            continue;
        };
        if name.contains('/') {
            continue;
        }
        let path = scratch.join(name);
        std::fs::create_dir_all(scratch)
            .and_then(|()| std::fs::write(&path, &file.data))
            .map_err(|e| format!("cannot write to a scratch directory: {e}"))?;
        found.push((file.name.clone(), path));
    }
    found.sort();
    Ok(found)
}
