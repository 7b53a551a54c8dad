//! Repository indexes on disk: reads and checks them with at most one chart in memory.
//!
//! [`entry`]: one version of a chart; `stream_entries`, `json`: the two streamed layouts; [`mod@write`]: generated indexes.
//! Fetches nothing.

pub mod entry;
mod json;
mod stream_entries;
pub mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _};
use std::path::Path;

use chart_compat::data::Data;
use chart_compat::go::slog;
use chart_compat::yaml::{self, Key, Sink};

use self::entry::{ChartVersion, Item};
use self::stream_entries::{Stop, Visitor, scan};

use windlass_base::bounded_read;

/// Size limit of an index whose layout cannot be streamed.
const MAX_WHOLE: u64 = 256 << 20;

/// Bytes of an index that are read at a time.
const BUFFER: usize = 256 << 10;

/// Why an index cannot be used; `Display` is Helm's text where it has one.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// It does not exist or cannot be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is empty.
    #[error("empty index.yaml file")]
    Empty,
    /// It has no API version.
    #[error("no API version specified")]
    NoApiVersion,
    /// An entry takes more memory than it may.
    #[error("a version of a chart takes more than 16 MiB once it is read")]
    TooLarge,
    /// It is neither YAML nor JSON, or an entry is malformed.
    #[error("{0}")]
    Wrong(String),
}

impl IndexError {
    fn no_object() -> Self {
        Self::Wrong("error unmarshaling JSON: an entry of a chart is not an object".to_owned())
    }
}

/// Returns whether a chart's versions are wanted; called for each chart.
type EntryFilter<'w> = &'w mut dyn FnMut(&str) -> bool;

/// Visits the versions of the wanted charts, chart by chart in the order of the index, highest version first. Invalid
/// entries are left out, with a warning each. A chart may come twice with the same versions: an index with an
/// irregular layout is read again.
///
/// # Errors
/// The index cannot be read, or a visited part is invalid.
pub fn visit(
    path: &Path,
    wanted: EntryFilter<'_>,
    each: &mut dyn FnMut(&str, Vec<ChartVersion>),
    warn: &mut dyn FnMut(String),
) -> Result<(), IndexError> {
    let source = path.display().to_string();
    let mut gather =
        Gather { name: None, versions: Vec::new(), wanted, each, warn, source: &source, skipped: 0 };
    walk(path, &mut gather)?;
    gather.finish();
    Ok(())
}

/// The versions of some charts, by name, highest first.
///
/// # Errors
/// As [`visit`].
pub fn find(
    path: &Path,
    names: &[&str],
    warn: &mut dyn FnMut(String),
) -> Result<BTreeMap<String, Vec<ChartVersion>>, IndexError> {
    let mut found: BTreeMap<String, Vec<ChartVersion>> = BTreeMap::new();
    let mut each = |name: &str, versions| {
        found.insert(name.to_owned(), versions);
    };
    visit(path, &mut |name| names.contains(&name), &mut each, warn)?;
    Ok(found)
}

/// Reads a new index completely. Returns the names of its charts.
///
/// # Errors
/// It is not an index.
pub fn check(path: &Path) -> Result<Vec<String>, IndexError> {
    let mut check = Check(Vec::new());
    walk(path, &mut check)?;
    Ok(check.0)
}

/// Receives the items of an index, whatever its layout.
trait Items {
    /// The scan starts over.
    fn restart(&mut self);
    fn chart(&mut self, name: String) -> bool;
    fn item(&mut self, item: &Data) -> Result<(), IndexError>;
    /// Parses an item's text and passes it to [`Self::item`].
    fn text(&mut self, text: &[u8]) -> Result<(), Bad> {
        let data = yaml::from_slice_strict(text).map_err(|_| Bad::Yaml)?;
        let items = data.as_list().ok_or(Bad::Yaml)?;
        items.iter().try_for_each(|item| self.item(item)).map_err(Bad::Index)
    }
}

/// An invalid piece.
enum Bad {
    /// The piece is not valid YAML on its own. The whole document may be valid; otherwise parsing it reports the error.
    Yaml,
    Index(IndexError),
}

impl<T: Items> Visitor for T {
    type Error = Bad;

    fn chart(&mut self, name: String) -> bool {
        Items::chart(self, name)
    }

    fn version(&mut self, text: &[u8]) -> Result<(), Bad> {
        self.text(text)
    }
}

fn walk(path: &Path, items: &mut impl Items) -> Result<(), IndexError> {
    let mut file = File::open(path)?;
    let mut reader = BufReader::with_capacity(BUFFER, &mut file);
    let first = reader.fill_buf()?.iter().copied().find(|c| !c.is_ascii_whitespace());
    let Some(first) = first else {
        return Err(if file.metadata()?.len() == 0 { IndexError::Empty } else { IndexError::NoApiVersion });
    };
    if first == b'{' {
        match json::read(reader, items) {
            Some(result) => return result,
            // A YAML mapping in flow style begins like JSON.
            None => return whole(&mut file, items),
        }
    }
    let head = match scan(reader, items) {
        Ok(head) => head,
        Err(Stop::Irregular | Stop::Visitor(Bad::Yaml)) => return whole(&mut file, items),
        Err(Stop::Io(e)) => return Err(e.into()),
        Err(Stop::Visitor(Bad::Index(e))) => return Err(e),
    };
    match yaml::from_slice_strict(&head) {
        Ok(data) if data.get("entries").is_none_or(|e| *e == Data::Null) => api_version(&data),
        _ => whole(&mut file, items),
    }
}

fn api_version(data: &Data) -> Result<(), IndexError> {
    match data.get("apiVersion") {
        Some(Data::String(version)) if !version.is_empty() => Ok(()),
        _ if !matches!(data, Data::Map(_) | Data::Null) => Err(IndexError::Wrong(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal into Go value of type repo.IndexFile"
                .to_owned(),
        )),
        _ => Err(IndexError::NoApiVersion),
    }
}

/// Parses an index of any layout as one document.
fn whole(file: &mut File, items: &mut impl Items) -> Result<(), IndexError> {
    file.rewind()?;
    items.restart();
    let bytes = bounded_read::read_to_end(file, MAX_WHOLE).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            IndexError::Wrong(format!("the index is {error} and not in the layout that tools write"))
        }
        _ => error.into(),
    })?;
    let wrong = |e: yaml::Error| IndexError::Wrong(format!("error converting YAML to JSON: {e}"));
    let data = yaml::from_slice_strict(&bytes).map_err(wrong)?;
    api_version(&data)?;
    let entries = match data.get("entries") {
        None | Some(Data::Null) => return Ok(()),
        Some(Data::Map(entries)) => entries,
        Some(_) => {
            return Err(IndexError::Wrong("error unmarshaling JSON: entries is not an object".to_owned()));
        }
    };
    for (name, versions) in entries {
        if items.chart(name.clone()) {
            match versions {
                Data::Null => {}
                Data::List(list) => list.iter().try_for_each(|item| items.item(item))?,
                _ => {
                    return Err(IndexError::Wrong(format!(
                        "error unmarshaling JSON: {name} is not an array"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Collects the versions of a chart and passes them on when the next begins.
struct Gather<'g> {
    name: Option<String>,
    versions: Vec<ChartVersion>,
    wanted: EntryFilter<'g>,
    each: &'g mut dyn FnMut(&str, Vec<ChartVersion>),
    warn: &'g mut dyn FnMut(String),
    source: &'g str,
    /// Entries that were left out.
    skipped: usize,
}

/// Entries that are left out with a line each; of more there is one.
const MOST_WARNINGS: usize = 100;

impl Gather<'_> {
    fn finish(&mut self) {
        if let Some(name) = self.name.take() {
            let mut versions = std::mem::take(&mut self.versions);
            versions.sort_by(ChartVersion::order);
            (self.each)(&name, versions);
        }
    }
}

impl Items for Gather<'_> {
    fn restart(&mut self) {
        self.name = None;
        self.versions.clear();
    }

    fn chart(&mut self, name: String) -> bool {
        self.finish();
        let wanted = (self.wanted)(&name);
        self.name = wanted.then_some(name);
        wanted
    }

    fn item(&mut self, item: &Data) -> Result<(), IndexError> {
        match ChartVersion::read(item)? {
            Item::Version(version) => self.versions.push(*version),
            Item::Skipped(_) if self.skipped > MOST_WARNINGS => {}
            Item::Skipped(reason) => {
                self.skipped += 1;
                if self.skipped > MOST_WARNINGS {
                    let text = "skipping loading further invalid entries";
                    (self.warn)(slog::line("WARN", text, &[("source", self.source)]));
                    return Ok(());
                }
                let version = item.get("version").and_then(Data::as_str).unwrap_or_default();
                let name = self.name.as_deref().unwrap_or_default();
                let text = "skipping loading invalid entry for chart";
                let attributes =
                    [("name", name), ("version", version), ("source", self.source), ("error", &reason)];
                (self.warn)(slog::line("WARN", text, &attributes));
            }
        }
        Ok(())
    }
}

/// Reads everything and keeps the names.
struct Check(Vec<String>);

impl Items for Check {
    fn restart(&mut self) {
        self.0.clear();
    }

    fn chart(&mut self, name: String) -> bool {
        self.0.push(name);
        true
    }

    fn item(&mut self, item: &Data) -> Result<(), IndexError> {
        match item {
            Data::Map(_) | Data::Null => Ok(()),
            _ => Err(IndexError::Wrong(
                "error unmarshaling JSON: an entry of a chart is not an object".to_owned(),
            )),
        }
    }

    fn text(&mut self, text: &[u8]) -> Result<(), Bad> {
        // Only checks that it can be parsed: most entries are never read again.
        let mut shape = Shape::default();
        yaml::read_into(text, &mut shape).map_err(|_| Bad::Yaml)?;
        if shape.wrong { Err(Bad::Index(IndexError::no_object())) } else { Ok(()) }
    }
}

/// Ignores a list, but checks that its items are maps.
#[derive(Default)]
struct Shape {
    depth: usize,
    wrong: bool,
}

impl Shape {
    fn leaf(&mut self) {
        self.wrong |= self.depth == 1;
    }
}

impl Sink for Shape {
    fn null(&mut self) {}
    fn bool(&mut self, _: bool) {
        self.leaf();
    }
    fn int(&mut self, _: i64) {
        self.leaf();
    }
    fn uint(&mut self, _: u64) {
        self.leaf();
    }
    fn float(&mut self, _: f64) {
        self.leaf();
    }
    fn string(&mut self, _: Cow<'_, str>) {
        self.leaf();
    }
    fn begin_list(&mut self) {
        self.leaf();
        self.depth += 1;
    }
    fn end_list(&mut self) {
        self.depth -= 1;
    }
    fn begin_map(&mut self) {
        self.depth += 1;
    }
    fn key(&mut self, _: Key<'_>) {}
    fn end_map(&mut self) {
        self.depth -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(text: &str) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.yaml");
        std::fs::write(&path, text).unwrap();
        let checked = check(&path).map_err(|e| e.to_string());
        let mut out = Vec::new();
        let mut each = |name: &str, versions: Vec<ChartVersion>| {
            let versions: Vec<String> = versions.into_iter().map(|v| v.metadata.version).collect();
            out.push(format!("{name} {}", versions.join(" ")));
        };
        let visited = visit(&path, &mut |_| true, &mut each, &mut drop).map_err(|e| e.to_string());
        assert_eq!(checked.is_ok(), visited.is_ok(), "{checked:?} {visited:?}");
        out.dedup();
        visited.map(|()| out)
    }

    #[test]
    fn every_layout_says_the_same() {
        let block = "apiVersion: v1\nentries:\n  a:\n  - {name: a, version: 1.0.0}\n  - name: a\n    version: 2.0.0\n  b: []\n";
        let flow =
            "apiVersion: v1\nentries: {a: [{name: a, version: 1.0.0}, {name: a, version: 2.0.0}], b: []}\n";
        let flow_whole =
            "{apiVersion: v1, entries: {a: [{name: a, version: 1.0.0}, {name: a, version: 2.0.0}], b: []}}\n";
        let json = r#"{"entries": {"a": [{"name": "a", "version": "1.0.0", "x": [1, {}]}, {"name": "a", "version": "2.0.0"}],
                       "b": []}, "apiVersion": "v1"}"#;
        let anchors = "apiVersion: v1\nentries:\n  a:\n  - name: &n a\n    version: 1.0.0\n  - name: *n\n    version: 2.0.0\n  b: []\n";
        for text in [block, flow, flow_whole, json, anchors] {
            assert_eq!(index(text).unwrap(), ["a 2.0.0 1.0.0", "b "], "{text}");
        }
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let table = [
            ("", "empty index.yaml file"),
            ("\n\n", "no API version specified"),
            ("entries:\n  a: []\n", "no API version specified"),
            ("<html>\n<body>no such page</body>\n</html>\n", "error unmarshaling JSON"),
            ("apiVersion: v1\nentries:\n  a:\n  - name: \"a\n", "error converting YAML to JSON: yaml: "),
            ("{\"apiVersion\": \"v1\", \"entries\": {\"a\": [", "error converting YAML to JSON: yaml: "),
            ("apiVersion: v1\nentries: [1]\n", "error unmarshaling JSON: entries is not an object"),
            ("apiVersion: v1\nentries:\n  a:\n  - text\n", "error unmarshaling JSON: an entry"),
        ];
        for (text, want) in table {
            let e = match check_only(text) {
                Err(e) => e,
                Ok(names) => panic!("{text}: {names:?}"),
            };
            assert!(e.starts_with(want), "{text}: {e}");
        }
    }

    fn check_only(text: &str) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.yaml");
        std::fs::write(&path, text).unwrap();
        check(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn entries_that_break_rules_are_left_out_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index.yaml");
        let text = "apiVersion: v1\nentries:\n  a:\n  -\n  - {name: a, version: x.y}\n  - {name: a, version: 1.0.0}\n";
        std::fs::write(&path, text).unwrap();
        let mut told = Vec::new();
        let found = find(&path, &["a"], &mut |w| told.push(w)).unwrap();
        assert_eq!(found["a"].len(), 1);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].contains("chart.metadata.version \\\"x.y\\\" is invalid"), "{}", told[1]);
    }
}
