//! The lock file of a state: which charts it holds to versions, and its text.
//!
//! Owns the file as helmfile writes it. Which versions there are is the caller's to find out; reading is [`lock`]'s. Pure.

use chart_compat::chart::Dependency;
use chart_compat::yaml::Emitter;

use helmfile_compat::Error;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::{Record, Slot};
use helmfile_compat::value::Value;
use helmfile_compat::{document, lock};
use windlass_fetch::chart_lock;

/// The helmfile whose format this is.
const HELMFILE_VERSION: &str = "1.8.0";

/// A release whose chart is held to a version.
#[derive(Clone, Debug)]
pub struct LockedRelease {
    /// The release; a missing version means the newest that is not a pre-release, whatever `devel` says.
    pub release: Record,
    /// What the lock file calls its chart, with the range that the release wants.
    wanted: Dependency,
}

impl LockedRelease {
    /// The name of the chart, the URL of its repository, and the range of versions.
    #[must_use]
    pub fn key(&self) -> [&str; 3] {
        [&self.wanted.name, &self.wanted.repository, &self.wanted.version]
    }
}

/// The releases of a state whose charts come from its repositories, ordered by the name of the chart.
#[must_use]
pub fn locked_releases(state: &State) -> Vec<LockedRelease> {
    let locked = |one: &Record| {
        let chart = lock::locked_chart(state, &one.text(key!("chart")))?;
        let version = one.text(key!("version"));
        let wanted = Dependency {
            name: chart.name,
            repository: chart.repository,
            version: if version.is_empty() { "*".to_owned() } else { version },
            alias: format!("{}-{}", one.text(key!("namespace")), one.text(key!("name"))),
            ..Dependency::default()
        };
        let mut release = one.clone();
        release.set(key!("devel"), Slot::pointer(Slot::Bool(false)));
        Some(LockedRelease { release, wanted })
    };
    let mut all: Vec<LockedRelease> = state.fields.records(key!("releases")).filter_map(locked).collect();
    all.sort_by(|a, b| a.wanted.name.cmp(&b.wanted.name));
    all
}

/// The text of the lock file, where each release has a version. `old`: the text of the present file, whose time stays if nothing
/// else changes. `now`: RFC 3339.
///
/// # Errors
/// The present file is not a lock file.
pub fn text(releases: &[(LockedRelease, String)], old: Option<&str>, now: &str) -> Result<String, Error> {
    let wanted: Vec<Dependency> = releases.iter().map(|(one, _)| one.wanted.clone()).collect();
    let mut locked: Vec<Dependency> = Vec::with_capacity(releases.len());
    for (one, version) in releases {
        let (name, repository) = (one.wanted.name.clone(), one.wanted.repository.clone());
        locked.push(Dependency { name, repository, version: version.clone(), ..Dependency::default() });
    }
    let digest = chart_lock::digest(&wanted, &locked);
    let old = old.map(document::map).transpose()?.unwrap_or_default();
    let field = |key: &str| old.get(key).map(Value::go_text).unwrap_or_default();
    let generated = if field("digest") == digest { field("generated") } else { now.to_owned() };
    let mut text = String::new();
    let mut out = Emitter::pretty(&mut text);
    let mut written: Vec<[&str; 3]> = Vec::new();
    out.begin_map();
    out.key("version");
    out.string(HELMFILE_VERSION);
    out.key("dependencies");
    out.begin_list();
    for one in &locked {
        let fields = [one.name.as_str(), &one.repository, &one.version];
        if written.contains(&fields) {
            continue;
        }
        out.begin_map();
        for (key, value) in ["name", "repository", "version"].into_iter().zip(fields) {
            out.key(key);
            out.string(value);
        }
        out.end_map();
        written.push(fields);
    }
    out.end_list();
    for (key, value) in [("digest", &digest), ("generated", &generated)] {
        out.key(key);
        out.string(value);
    }
    out.end_map();
    out.finish().map_err(Error::host)?;
    Ok(text)
}
