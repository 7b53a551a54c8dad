//! Writes indexes: from a directory of packages, merged, in Helm's form.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use windlass_base::hex::hex;

use chart_compat::chart::{self, MAX_CHART_BYTES};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::{json, yaml};
use sha2::{Digest as _, Sha256};

use super::super::atomic_files;
use super::super::go_time::now;
use super::entry::ChartVersion;
use super::{IndexError, visit};

/// An index in memory.
#[derive(Clone, Debug, Default)]
pub struct NewIndex {
    entries: BTreeMap<String, Vec<ChartVersion>>,
}

/// Joins a URL and a path (`urlutil.URLJoin`).
fn below(base: &str, name: &str) -> String {
    match (base.trim_end_matches('/'), name) {
        ("", name) => name.to_owned(),
        (base, "") => base.to_owned(),
        (base, name) => format!("{base}/{name}"),
    }
}

impl NewIndex {
    /// Indexes the packages in a directory and in its subdirectories (`repo.IndexDirectory`); other files are
    /// skipped. `url`: their location.
    ///
    /// # Errors
    /// The directory or a package cannot be read.
    pub fn of_directory(directory: &Path, url: &str) -> io::Result<Self> {
        let mut out = Self::default();
        let mut inner = Vec::new();
        for path in sorted(directory)? {
            if path.is_dir() {
                inner.push(path);
            } else {
                out.add(&path, url)?;
            }
        }
        for path in inner {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            for package in sorted(&path)?.into_iter().filter(|p| p.is_file()) {
                out.add(&package, &below(url, &name))?;
            }
        }
        Ok(out)
    }

    fn add(&mut self, path: &Path, url: &str) -> io::Result<()> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.ends_with(".tgz") {
            return Ok(());
        }
        let Some(bytes) = atomic_files::read(path, MAX_CHART_BYTES)? else { return Ok(()) };
        let Ok(files) = chart::read_archive(&bytes, Profile::Helm4) else { return Ok(()) };
        let Ok(chart) = chart::load_files(files, Profile::Helm4, &mut drop) else { return Ok(()) };
        let version = ChartVersion {
            metadata: chart.metadata,
            urls: vec![below(url, &name)],
            created: now(),
            removed: false,
            digest: hex(&Sha256::digest(&bytes)),
        };
        self.entries.entry(version.metadata.name.clone()).or_default().push(version);
        Ok(())
    }

    /// Adds the entries of another index that this one lacks (`IndexFile.Merge`).
    ///
    /// # Errors
    /// The other one is invalid.
    pub fn merge(&mut self, path: &Path, warn: &mut dyn FnMut(String)) -> Result<(), IndexError> {
        let own = &mut self.entries;
        let mut each = |_: &str, versions: Vec<ChartVersion>| {
            for version in versions {
                let all = own.entry(version.metadata.name.clone()).or_default();
                if !all.iter().any(|v| v.metadata.version == version.metadata.version) {
                    all.push(version);
                }
            }
        };
        visit(path, &mut |_| true, &mut each, warn)
    }

    /// Writes `index.yaml`, or JSON under that name.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(mut self, path: &Path, as_json: bool) -> io::Result<()> {
        for versions in self.entries.values_mut() {
            versions.sort_by(ChartVersion::order);
        }
        let entries = self.entries.iter();
        let entries: Map = entries
            .map(|(k, v)| (k.clone(), Data::List(v.iter().map(ChartVersion::data).collect())))
            .collect();
        let index: Map = [
            ("apiVersion".to_owned(), Data::from("v1")),
            ("entries".to_owned(), entries.into()),
            ("generated".to_owned(), now().into()),
        ]
        .into();
        let text = if as_json {
            json::to_string_pretty(&index.into()).map_err(|e| io::Error::other(e.to_string()))
        } else {
            yaml::to_string(&index.into()).map_err(|e| io::Error::other(e.to_string()))
        };
        atomic_files::write(path, text?.as_bytes(), 0o644)
    }
}

fn sorted(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}
