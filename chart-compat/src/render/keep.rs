//! What templates gave, kept with what they looked at, so that a render with other values runs only those that the change
//! concerns.
//!
//! Owns the kept results of a compiled chart and the proof that they still hold. A result is kept if its template asked nothing
//! of the world, looked at no other template's `.Template`, and no template changed what all of them share; and it is given again
//! while every entry that it read of `.Values` and `.Release` is what it was, and all else is the same. Knows nothing of what
//! templates do.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxHashSet, FxHasher};

use super::context::texts;
use super::crew::WORTH_A_THREAD;
use super::error::Error;
use super::manifest::Documents;
use super::run::{Ran, Run};
use super::{Capabilities, Options, Release};
use crate::chart::{Chart, Metadata};
use crate::data::{Data, Map};
use crate::go::{Read, WHOLE};

/// The kept results of one chart.
#[derive(Default)]
pub(super) struct Keep(Mutex<State>);

#[derive(Default)]
enum State {
    /// Nothing was rendered yet: most charts are rendered once.
    #[default]
    Unused,
    /// The next render is worth keeping, if nobody is at it.
    Wanted,
    Kept(Box<Kept>),
    /// Templates of this chart change what they share, or there are too few of them to be worth it.
    Never,
}

/// An entry of a map of values by the path of the map, or the whole map: hashes. Two that are taken for one make a template
/// run that would not have to.
pub(super) type Place = (u64, u64);

/// What a render gives.
pub(super) struct Texts {
    /// In order of path.
    pub(super) documents: Vec<Documents>,
    /// The notes' paths and texts.
    pub(super) notes: Vec<(String, String)>,
    /// Whether a template looked at what another revision changes.
    pub(super) reads_revision: bool,
}

/// What templates gave in one render or in several.
struct Kept {
    ground: Ground,
    values: Map,
    release: Map,
    files: BTreeMap<String, File>,
}

struct File {
    /// What it read, in order.
    places: Vec<Place>,
    given: Given,
}

/// What a template gave.
enum Given {
    Documents(Documents),
    Notes(String),
}

/// What one render needs to know of the kept results, and what they are to become.
pub(super) struct Session {
    kept: Option<Box<Kept>>,
    ground: Ground,
    values: Map,
    release: Map,
    /// Files that need not run.
    pub(super) valid: FxHashSet<String>,
}

/// All that templates see besides values and release.
#[derive(PartialEq)]
struct Ground {
    capabilities: Capabilities,
    /// Paths and metadata of the charts that take part, and where the texts of their templates lie.
    charts: Vec<(String, Metadata, Vec<usize>)>,
}

impl Ground {
    fn of(chart: &Chart, options: &Options) -> Self {
        fn collect(chart: &Chart, path: &str, charts: &mut Vec<(String, Metadata, Vec<usize>)>) {
            // The compiled chart holds them, so that one address is one text.
            let texts = chart.templates.iter().map(|t| t.data.as_ptr().addr()).collect();
            charts.push((path.to_owned(), chart.metadata.clone(), texts));
            for sub in &chart.dependencies {
                collect(sub, &sub.path_below(path), charts);
            }
        }
        let mut charts = Vec::new();
        collect(chart, chart.name(), &mut charts);
        Self { capabilities: options.capabilities.clone(), charts }
    }
}

/// `.Release` as data.
fn release(release: &Release) -> Map {
    let mut map = Map::new();
    map.insert("IsInstall".to_owned(), Data::Bool(!release.is_upgrade));
    map.insert("IsUpgrade".to_owned(), Data::Bool(release.is_upgrade));
    map.insert("Name".to_owned(), release.name.as_str().into());
    map.insert("Namespace".to_owned(), release.namespace.as_str().into());
    map.insert("Revision".to_owned(), Data::Int(release.revision));
    map
}

impl Keep {
    /// Runs every template that can give something else than what is kept of it, and gives the texts of all.
    ///
    /// # Errors
    /// As [`Run::all`].
    pub(super) fn all(&self, run: Run<'_>) -> Result<Texts, Error> {
        let Some(session) = self.session(&run) else {
            return Ok(run.all()?.into());
        };
        let ran = match (Run { session: Some(&session), ..run }).all() {
            Ok(ran) if ran.changed => {
                self.set(State::Never);
                // What is kept was made without that change.
                let ran = if session.valid.is_empty() { ran } else { run.all()? };
                return Ok(ran.into());
            }
            Ok(ran) => ran,
            Err(error) => {
                self.set(session.kept.map_or(State::Wanted, State::Kept));
                return Err(error);
            }
        };
        Ok(self.close(session, ran))
    }

    /// What is kept for a render, if it is one to keep: not the first, and of a chart with enough text.
    fn session(&self, run: &Run<'_>) -> Option<Session> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = match std::mem::take(&mut *state) {
            State::Unused => {
                *state = State::Wanted;
                return None;
            }
            State::Never => {
                *state = State::Never;
                return None;
            }
            State::Wanted => None,
            State::Kept(kept) => Some(kept),
        };
        // Who comes meanwhile renders without.
        drop(state);
        if kept.is_none()
            && texts(run.chart).iter().map(|(_, text)| text.len()).sum::<usize>() < WORTH_A_THREAD
        {
            self.set(State::Never);
            return None;
        }
        let (ground, release) = (Ground::of(run.chart, run.options), release(&run.options.release));
        let kept = kept.filter(|kept| kept.ground == ground);
        let valid = kept.as_ref().map(|kept| kept.valid(run.values, &release)).unwrap_or_default();
        Some(Session { kept, ground, values: run.values.clone(), release, valid })
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Keeps what a render gave; gives that, and what is kept of templates that did not run.
    fn close(&self, session: Session, ran: Ran) -> Texts {
        let Session { kept, ground, values, release, valid } = session;
        let mut files = kept.map(|kept| kept.files).unwrap_or_default();
        files.retain(|name, _| valid.contains(name));
        let Ran { mut documents, mut notes, mut looked, mut reads_revision, .. } = ran;
        let mut made = Vec::new();
        for one in &documents {
            made.extend(
                looked.remove(&one.source).map(|p| (one.source.clone(), p, Given::Documents(one.clone()))),
            );
        }
        for (path, text) in &notes {
            made.extend(looked.remove(path).map(|p| (path.clone(), p, Given::Notes(text.clone()))));
        }
        for (path, file) in &files {
            reads_revision |= by_revision().any(|key| file.places.binary_search(&(RELEASE, key)).is_ok());
            match &file.given {
                Given::Documents(kept) => documents.push(kept.clone()),
                Given::Notes(text) => notes.push((path.clone(), text.clone())),
            }
        }
        documents.sort_by(|a, b| a.source.cmp(&b.source));
        files.extend(made.into_iter().map(|(path, places, given)| (path, File { places, given })));
        self.set(State::Kept(Box::new(Kept { ground, values, release, files })));
        Texts { documents, notes, reads_revision }
    }
}

impl From<Ran> for Texts {
    fn from(ran: Ran) -> Self {
        Self { documents: ran.documents, notes: ran.notes, reads_revision: ran.reads_revision }
    }
}

/// The entries of `.Release` that are not the same at each revision.
pub(super) fn by_revision() -> impl Iterator<Item = u64> {
    let keys = ["IsInstall", "IsUpgrade", "Revision"].into_iter();
    keys.map(|key| Read::of(key.as_bytes())).chain([WHOLE])
}

impl Kept {
    /// The files of which nothing that they read is another now.
    fn valid(&self, values: &Map, release: &Map) -> FxHashSet<String> {
        let mut changed = Vec::new();
        differences(VALUES, &self.values, values, &mut changed);
        differences(RELEASE, &self.release, release, &mut changed);
        let holds = |file: &File| !changed.iter().any(|place| file.places.binary_search(place).is_ok());
        self.files.iter().filter(|(_, file)| holds(file)).map(|(name, _)| name.clone()).collect()
    }
}

/// The paths of the maps that everything starts from.
const VALUES: u64 = 1;
const RELEASE: u64 = 2;

fn hashed(parts: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    parts.hash(&mut hasher);
    hasher.finish()
}

fn below(path: u64, key: &str) -> u64 {
    hashed((path, key.as_bytes()))
}

/// The entries of maps that are not the same in both, with the maps that they are in.
fn differences(path: u64, old: &Map, new: &Map, to: &mut Vec<Place>) {
    if old.same(new) {
        return;
    }
    let empty = Map::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        // Both are in order of keys.
        let order = match (old.peek(), new.peek()) {
            (Some(before), Some(after)) => before.0.cmp(after.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let before = old.next_if(|_| order.is_le());
        let after = new.next_if(|_| order.is_ge());
        let Some((key, _)) = before.or(after) else { return };
        match (before.map(|b| b.1), after.map(|a| a.1)) {
            (Some(Data::Map(before)), Some(Data::Map(after))) => {
                if !before.same(after) {
                    differences(below(path, key), before, after, to);
                }
                continue;
            }
            (Some(Data::Map(map)), _) => differences(below(path, key), map, &empty, to),
            (_, Some(Data::Map(map))) => differences(below(path, key), &empty, map, to),
            (Some(before), Some(after)) if before.is_alike(after) => continue,
            _ => {}
        }
        to.push((path, Read::of(key.as_bytes())));
        to.push((path, WHOLE));
    }
}

/// The paths of the maps of values by their numbers, from that of the first one on, in the order in which they are made:
/// a map before what is in it. Maps in lists have none; a list is read as one.
pub(super) struct Paths {
    first: usize,
    paths: Vec<Option<u64>>,
    release: usize,
}

impl Paths {
    /// Of values whose map has the number `first`; `release`: that of `.Release`.
    pub(super) fn new(values: &Map, first: usize, release: usize) -> Self {
        fn map(path: Option<u64>, values: &Map, paths: &mut Vec<Option<u64>>) {
            paths.push(path);
            for (key, value) in &**values {
                each(path.map(|path| below(path, key)), value, paths);
            }
        }
        fn each(path: Option<u64>, value: &Data, paths: &mut Vec<Option<u64>>) {
            match value {
                Data::Map(values) => map(path, values, paths),
                Data::List(items) => items.iter().for_each(|item| each(None, item, paths)),
                _ => {}
            }
        }
        let mut paths = Vec::new();
        map(Some(VALUES), values, &mut paths);
        Self { first, paths, release }
    }

    /// What was read, by paths; in order.
    pub(super) fn places(&self, reads: &FxHashSet<Read>) -> Vec<Place> {
        let place = |read: &Read| {
            let path = match read.map {
                number if number == self.release => Some(RELEASE),
                number => number.checked_sub(self.first).and_then(|n| self.paths.get(n).copied().flatten()),
            };
            Some((path?, read.key))
        };
        let mut places: Vec<Place> = reads.iter().filter_map(place).collect();
        places.sort_unstable();
        places
    }
}
