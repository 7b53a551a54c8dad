//! Lock files: the versions that charts of repositories are held to.
//!
//! Owns which charts are locked, the reading of a lock file, and which release it holds to which version. Writes no file.

use chart_compat::go::semver;

use super::document;
use super::error::Error;
use super::host::{Host, read_text};
use super::load::State;
use super::paths;
use super::record::{Record, Slot};
use super::value::Value;
use crate::key;

/// A locked chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// The chart's name, without its repository.
    pub name: String,
    /// The version.
    pub version: String,
}

/// The path of a state file's lock file, relative to the state's folder if it is.
#[must_use]
pub fn path(state: &State) -> String {
    let own = state.fields.text(key!("lockFilePath"));
    if !own.is_empty() {
        return paths::within(&state.base, &own);
    }
    let mut name = paths::base(&state.file);
    for suffix in [".gotmpl", ".yaml", ".yml"] {
        name = name.strip_suffix(suffix).unwrap_or(&name).to_owned();
    }
    paths::join(&state.base, &format!("{name}.lock"))
}

/// A chart of one of the state's repositories, as lock files name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedChart {
    /// Its name; for a registry the last segment of its path.
    pub name: String,
    /// Its path in the repository, as the release has it.
    pub path: String,
    /// The URL of the repository or of the path in the registry.
    pub repository: String,
}

/// What lock files call a release's chart; `None` for charts that are in none of the state's repositories.
#[must_use]
pub fn locked_chart(state: &State, chart: &str) -> Option<LockedChart> {
    let (repository, path) = paths::repository_chart(chart)?;
    let own = state
        .fields
        .records(key!("repositories"))
        .filter(|one| one.text(key!("name")) == repository)
        .last()?;
    let url = own.text(key!("url"));
    if own.flag(key!("oci")) != Some(true) {
        return Some(LockedChart { name: path.to_owned(), path: path.to_owned(), repository: url });
    }
    let (name, repository) = match path.rsplit_once('/') {
        Some((folder, name)) => (name, format!("oci://{}/{folder}", url.trim_end_matches('/'))),
        None => (path, format!("oci://{url}")),
    };
    Some(LockedChart { name: name.to_owned(), path: path.to_owned(), repository })
}

/// Sets the versions of releases to the locked ones, if there is a lock file (`HelmState.ResolveDeps`).
///
/// # Errors
/// The lock file is not valid, or holds no version of a chart that fits.
pub fn apply(host: &dyn Host, state: &mut State) -> Result<(), Error> {
    let mut releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
    if !releases.iter().any(|release| locked_chart(state, &release.text(key!("chart"))).is_some()) {
        return Ok(());
    }
    let file = path(state);
    let absolute = paths::within(&state.cwd, &file);
    if host.is_dir(&absolute).is_none() {
        return Ok(());
    }
    let locked = read(&read_text(host, &absolute)?).map_err(|error| error.within(file))?;
    for release in &mut releases {
        let Some(chart) = locked_chart(state, &release.text(key!("chart"))) else { continue };
        let constraint = release.text(key!("version"));
        let found = version(&locked, &chart.name, &constraint).or_else(|error| {
            if chart.name == chart.path { Err(error) } else { version(&locked, &chart.path, &constraint) }
        });
        release.set(key!("version"), Slot::Text(found?));
    }
    state.fields.set_records(key!("releases"), releases);
    Ok(())
}

/// The charts of a lock file.
///
/// # Errors
/// The text is not YAML, or not a lock file.
pub fn read(text: &str) -> Result<Vec<Locked>, Error> {
    let map = document::map(text)?;
    let field = |entry: &Value, key: &str| {
        entry.as_map().and_then(|map| map.get(key)).map(Value::go_text).unwrap_or_default()
    };
    match map.get("dependencies") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::List(entries)) => Ok(entries
            .iter()
            .map(|entry| Locked { name: field(entry, "name"), version: field(entry, "version") })
            .collect()),
        Some(_) => Err(Error::Invalid("dependencies is not a list".to_owned())),
    }
}

/// The locked version of a chart that a constraint admits.
fn version(locked: &[Locked], chart: &str, constraint: &str) -> Result<String, Error> {
    let constraint = if constraint.is_empty() { "*" } else { constraint };
    for entry in locked.iter().filter(|entry| entry.name == chart) {
        if semver::Range::parse(constraint)
            .map_err(Error::Invalid)?
            .check(&semver::parse(&entry.version).map_err(Error::Invalid)?)
        {
            return Ok(entry.version.clone());
        }
    }
    Err(Error::Invalid(format!(
        "no resolved dependency found for \"{chart}\", running `windlass helmfile deps` may resolve the issue"
    )))
}
