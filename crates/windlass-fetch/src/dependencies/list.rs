//! The status of a chart's declared dependencies (`action.Dependency.List`).

use std::path::{Path, PathBuf};

use chart_compat::chart::{Chart, Dependency};
use chart_compat::go::semver;
use chart_compat::profile::Profile;

use super::super::load;

/// A declared dependency and its status.
pub struct Row {
    /// As declared.
    pub dependency: Dependency,
    /// `ok`, `unpacked`, `missing`, `wrong version`, …
    pub status: &'static str,
}

/// The declared dependencies of a loaded chart; `path`: the chart's location.
#[must_use]
pub fn rows(path: &Path, chart: &Chart) -> Vec<Row> {
    let declared = chart.metadata.dependencies.iter().flatten();
    declared.map(|d| Row { dependency: d.clone(), status: status(path, d, chart) }).collect()
}

/// The packages in `charts/` whose names begin with a chart's name.
fn packages(path: &Path, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path.join("charts")).into_iter().flatten().flatten();
    let named = |p: &PathBuf| {
        let file = p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        file.starts_with(&format!("{name}-")) && file.ends_with(".tgz")
    };
    let mut all: Vec<PathBuf> = entries.map(|e| e.path()).filter(named).collect();
    all.sort();
    all
}

fn status(path: &Path, d: &Dependency, parent: &Chart) -> &'static str {
    let mut found = packages(path, &d.name);
    if found.len() > 1 {
        // Another chart's name may begin with this one's.
        let version = |p: &PathBuf| {
            let stem = p.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let version = stem.strip_prefix(&format!("{}-", d.name)).unwrap_or_default();
            !version.starts_with('v') && version.split('.').count() >= 3 && semver::parse(version).is_ok()
        };
        found.retain(version);
        if found.len() > 1 {
            return "too many matches";
        }
    }
    if let Some(package) = found.first() {
        return match load(package, Profile::Helm4) {
            Err(_) => "corrupt",
            Ok(loaded) if loaded.chart.name() != d.name => "misnamed",
            Ok(loaded) => fits(d, &loaded.chart.metadata.version).unwrap_or("ok"),
        };
    }
    match parent.dependencies.iter().find(|c| c.name() == d.name) {
        None => "missing",
        Some(chart) => fits(d, &chart.metadata.version).unwrap_or("unpacked"),
    }
}

/// Checks a version.
fn fits(d: &Dependency, version: &str) -> Option<&'static str> {
    if version == d.version {
        return None;
    }
    match (semver::Range::parse(&d.version), semver::parse(version)) {
        (Ok(range), Ok(v)) if range.check(&v) => None,
        (Ok(_), Ok(_)) => Some("wrong version"),
        _ => Some("invalid version"),
    }
}

/// Lines about entries of `charts/` that are not declared, or are not charts (`Dependency.printMissing`).
#[must_use]
pub fn strangers(path: &Path, declared: &[Dependency]) -> Vec<String> {
    let entries = std::fs::read_dir(path.join("charts")).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|e| e.path()).collect();
    all.sort();
    all.retain(|p| p.is_dir() || p.extension().is_some_and(|e| e == "tgz"));
    let line = |p: &PathBuf| {
        let shown = p.display().to_string();
        match load(p, Profile::Helm4) {
            Err(_) => Some(format!("WARNING: {shown:?} is not a chart.")),
            Ok(loaded) if declared.iter().any(|d| d.name == loaded.chart.name()) => None,
            Ok(_) => Some(format!("WARNING: {shown:?} is not in Chart.yaml.")),
        }
    };
    all.iter().filter_map(line).collect()
}
