//! Loads a chart from its files (`loader.LoadFiles`).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::Warn;
use super::archive::{ArchiveRoom, read_within};
use super::error::Error;
use super::metadata::{Metadata, form, json_kind};
use super::values::read_values_within;
use crate::data::{Data, Map};
use crate::go::slog;
use crate::profile::Profile;
use crate::yaml::{self, Room};

/// The maximal nesting depth of charts.
const MAX_DEPTH: usize = 50;

/// One file of a chart.
#[derive(Clone, Debug)]
pub struct File {
    /// Path in the chart, slash-separated.
    pub name: String,
    /// Content, without a byte order mark; cheap to clone.
    pub data: Bytes,
    /// The file parsed as values, once it was needed.
    pub(crate) values: PrefetchedValues,
}

/// The values of a file, which two threads may need: the first one parses them, the other waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct PrefetchedValues(Arc<OnceLock<(Profile, Option<Arc<Map>>)>>);

impl PrefetchedValues {
    /// Parses them once; `None` if that fails.
    pub(crate) fn read(&self, text: &[u8], profile: Profile, room: &Room) -> Option<&Arc<Map>> {
        let read = || read_values_within(text, profile, room).ok().map(Arc::new);
        let (of, values) = self.0.get_or_init(|| (profile, read()));
        values.as_ref().filter(|_| *of == profile)
    }
}

impl File {
    /// Creates a file and removes a UTF-8 byte order mark at its start.
    #[must_use]
    pub fn new(name: String, data: impl Into<Bytes>) -> Self {
        let mut data: Bytes = data.into();
        if data.starts_with(&[0xef, 0xbb, 0xbf]) {
            data = data.slice(3..);
        }
        Self { name, data, values: PrefetchedValues::default() }
    }

    /// Whether this is the values file of a chart or of an unpacked subchart.
    pub(crate) fn is_values(&self) -> bool {
        let mut name = self.name.as_str();
        while let Some((_, rest)) = name.strip_prefix("charts/").and_then(|below| below.split_once('/')) {
            name = rest;
        }
        name == "values.yaml"
    }
}

/// A loaded chart with its subcharts.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// `Chart.yaml`.
    pub metadata: Metadata,
    /// `Chart.lock` or `requirements.lock`.
    pub lock: Option<Data>,
    /// `values.yaml`, numbers as floats.
    pub values: Arc<Map>,
    /// The text of `values.yaml`, for line numbers in messages; templates cannot read it.
    pub values_text: Option<Bytes>,
    /// `values.schema.json`.
    pub schema: Option<Bytes>,
    /// Files below `templates/`.
    pub templates: Vec<File>,
    /// All other files.
    pub files: Vec<File>,
    /// Subcharts, in order of name before dependency processing.
    pub dependencies: Vec<Chart>,
    /// The path from which its templates get their names, if it is not below its parent, e.g. `web/charts/db/charts/x`: below a
    /// chart with an alias some subcharts keep the path of the chart that was copied.
    pub home: Option<String>,
}

/// A file of custom resource definitions.
#[derive(Clone, Debug)]
pub struct Crd {
    /// Path below `charts`, e.g. `parent/charts/sub/crds/x.yaml`.
    pub path: String,
    /// Content.
    pub data: Bytes,
}

impl Chart {
    /// The chart's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The path of a subchart of the chart at `parent` (`Chart.ChartFullPath`).
    pub(crate) fn path_below(&self, parent: &str) -> String {
        self.home.clone().unwrap_or_else(|| format!("{parent}/charts/{}", self.name()))
    }

    /// The files below `crds/`, then those of the subcharts (`Chart.CRDObjects`).
    #[must_use]
    pub fn crds(&self) -> Vec<Crd> {
        let mut out = Vec::new();
        self.collect_crds(self.name(), &mut out);
        out
    }

    fn collect_crds(&self, path: &str, out: &mut Vec<Crd>) {
        for f in &self.files {
            let extension = f.name.rsplit_once('.').map_or("", |e| e.1).to_ascii_lowercase();
            if f.name.starts_with("crds/") && matches!(extension.as_str(), "yaml" | "yml" | "json") {
                out.push(Crd { path: format!("{path}/{}", f.name), data: f.data.clone() });
            }
        }
        for sub in &self.dependencies {
            sub.collect_crds(&sub.path_below(path), out);
        }
    }
}

fn file_error(file: &File, reason: &dyn std::fmt::Display, problem: String, line: Option<u32>) -> Error {
    let (content, reason) = (file.data.clone(), reason.to_string());
    Error::File { file: file.name.clone(), reason, problem, line, content }
}

fn read_metadata(
    metadata: &mut Metadata,
    file: &File,
    profile: Profile,
    any_form: bool,
    room: &Room,
) -> Result<(), Error> {
    let failed = |e: &dyn std::fmt::Display| file_error(file, e, e.to_string(), None);
    match yaml::from_slice_within(&file.data, room) {
        Ok(Data::Map(map)) => {
            // Helm 4 first reads only the chart's API version.
            if any_form && !matches!(form(&map).map_err(|e| failed(&e))?.as_str(), "" | "v1" | "v2" | "v3") {
                return Err(Error::Form("unsupported chart version"));
            }
            metadata.read(&map, profile).map_err(|e| failed(&e))
        }
        Ok(Data::Null) => Ok(()),
        Ok(other) => {
            let wanted = match profile {
                Profile::Helm4 if any_form => "loader.chartBase",
                Profile::Helm4 => "v2.Metadata",
                Profile::Helm3 => "chart.Metadata",
            };
            Err(failed(&wrong_kind(&other, &format!("value of type {wanted}"))))
        }
        Err(e) => {
            let reason = format!("error converting YAML to JSON: {e}");
            Err(file_error(file, &reason, e.problem().to_owned(), e.line()))
        }
    }
}

/// Go's error for a value of the wrong type.
fn wrong_kind(got: &Data, wanted: &str) -> String {
    let got = json_kind(got);
    format!("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {got} into Go {wanted}")
}

/// Creates a chart from files, whose names are relative to it.
///
/// ```
/// use chart_compat::chart::{File, load_files};
/// use chart_compat::profile::Profile;
///
/// let file = |name: &str, text: &str| File::new(name.to_owned(), text.as_bytes().to_vec());
/// let files = vec![file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n"), file("values.yaml", "replicas: 1\n")];
/// let chart = load_files(files, Profile::Helm4, &mut |warning| eprintln!("{warning}"))?;
/// assert_eq!((chart.name(), chart.metadata.version.as_str()), ("web", "1.2.3"));
///
/// let error = load_files(vec![file("Chart.yaml", "name: web\n")], Profile::Helm4, &mut drop).err();
/// assert_eq!(error.map(|e| e.to_string()).as_deref(), Some("validation: chart.metadata.version is required"));
/// # Ok::<(), chart_compat::chart::Error>(())
/// ```
///
/// # Errors
/// A file that cannot be decoded, a violated rule of `Chart.yaml`, or an invalid subchart.
pub fn load_files(files: Vec<File>, profile: Profile, warn: Warn<'_>) -> Result<Chart, Error> {
    let chart = load(files, profile, warn, 0, profile == Profile::Helm4, &LoadRoom::default())?;
    match (profile, chart.metadata.api_version.as_str()) {
        (Profile::Helm4, "v3") => Err(Error::Form("invalid chart apiVersion")),
        _ => Ok(chart),
    }
}

/// Like [`load_files`], for a chart of version 1 or 2 whatever `apiVersion` says. For lint, which reports a wrong one itself
/// (`chart/v2/loader.LoadFiles`).
///
/// # Errors
/// As [`load_files`], except for the version.
pub fn load_files_as_v2(files: Vec<File>, profile: Profile, warn: Warn<'_>) -> Result<Chart, Error> {
    load(files, profile, warn, 0, false, &LoadRoom::default())
}

/// What is left for the files of a chart and its subcharts.
#[derive(Default)]
struct LoadRoom {
    documents: Room,
    /// For the archives below `charts/`, and those in them.
    archives: ArchiveRoom,
}

/// Loads a chart and its subcharts, whose files share room. With `any_form`, checks the API version first.
fn load(
    files: Vec<File>,
    profile: Profile,
    warn: Warn<'_>,
    depth: usize,
    any_form: bool,
    all_room: &LoadRoom,
) -> Result<Chart, Error> {
    let room = &all_room.documents;
    // Helm logs these with its old logger.
    let mut told = |text: &str| warn(slog::line("INFO", text, &[]));
    if depth > MAX_DEPTH {
        return Err(Error::Archive(format!("charts nest deeper than {MAX_DEPTH} levels")));
    }
    let mut chart = Chart::default();
    let mut metadata: Option<Metadata> = None;
    for f in files.iter().filter(|f| f.name == "Chart.yaml") {
        let m = metadata.get_or_insert_default();
        read_metadata(m, f, profile, any_form, room)?;
        if m.api_version.is_empty() {
            m.api_version = "v1".to_owned();
        }
    }
    let mut subcharts: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for f in files {
        match f.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => chart.lock = Some(read_lock(&f, profile, room)?),
            "values.yaml" => {
                chart.values = match f.values.read(&f.data, profile, room) {
                    Some(values) => Arc::clone(values),
                    // Parsed again for the error.
                    None => Arc::new(
                        read_values_within(&f.data, profile, room)
                            .map_err(|e| file_error(&f, &e, e.problem(), e.line()))?,
                    ),
                };
                chart.values_text = Some(f.data);
            }
            "values.schema.json" => chart.schema = Some(f.data),
            "requirements.yaml" => {
                let m = metadata.get_or_insert_default();
                if m.api_version != "v1" {
                    told(
                        "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". \
                         We recommend migrating dependencies to Chart.yaml.",
                    );
                }
                read_metadata(m, &f, profile, false, room)?;
                if m.api_version == "v1" {
                    chart.files.push(f);
                }
            }
            "requirements.lock" => {
                chart.lock = Some(read_lock(&f, profile, room)?);
                let m = metadata.get_or_insert_default();
                if m.api_version == "v1" {
                    chart.files.push(f);
                } else {
                    told(
                        "Warning: Dependency locking is handled in Chart.lock since apiVersion \"v2\". \
                         We recommend migrating to Chart.lock.",
                    );
                }
            }
            name if name.starts_with("templates/") => chart.templates.push(f),
            name if name.starts_with("charts/") && !has_extension(name, "prov") => {
                let inner = name["charts/".len()..].to_owned();
                let first = inner.split('/').next().unwrap_or(&inner).to_owned();
                subcharts.entry(first).or_default().push(File { name: inner, ..f });
            }
            _ => chart.files.push(f),
        }
    }
    chart.metadata = metadata.ok_or(Error::NoMetadata)?;
    chart.metadata.validate()?;
    // Helm iterates in Go's random map order. The order by name is one of those, and the same in every run.
    for (name, files) in subcharts {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let sub = load_subchart(&name, files, profile, warn, depth + 1, all_room).map_err(|source| {
            Error::Subchart {
                name: name.clone(),
                parent: chart.metadata.name.clone(),
                source: Box::new(source),
            }
        })?;
        chart.dependencies.push(sub);
    }
    Ok(chart)
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit('/').next().and_then(|base| base.rsplit_once('.')).is_some_and(|(_, e)| e == extension)
}

fn read_lock(file: &File, profile: Profile, room: &Room) -> Result<Data, Error> {
    let package = match profile {
        Profile::Helm4 => "v2",
        Profile::Helm3 => "chart",
    };
    let failed = |e: &dyn std::fmt::Display| file_error(file, e, e.to_string(), None);
    let lock = yaml::from_slice_within(&file.data, room).map_err(|e| {
        let reason = format!("error converting YAML to JSON: {e}");
        file_error(file, &reason, e.problem().to_owned(), e.line())
    })?;
    let entry = match &lock {
        Data::Map(map) => map.get("dependencies"),
        Data::Null => None,
        other => return Err(failed(&wrong_kind(other, &format!("value of type {package}.Lock")))),
    };
    match entry {
        None | Some(Data::Null | Data::List(_)) => Ok(lock),
        Some(other) => {
            let field = format!("struct field Lock.dependencies of type []*{package}.Dependency");
            Err(failed(&wrong_kind(other, &field)))
        }
    }
}

fn load_subchart(
    name: &str,
    files: Vec<File>,
    profile: Profile,
    warn: Warn<'_>,
    depth: usize,
    room: &LoadRoom,
) -> Result<Chart, Error> {
    if has_extension(name, "tgz") {
        let Some(file) = files.into_iter().next().filter(|f| f.name == name) else {
            return Err(Error::Archive(format!("{name} is a directory, not an archive")));
        };
        let inner = read_within(&mut &file.data[..], profile, &room.archives, &mut |_| {})?;
        return load(inner, profile, warn, depth, false, room);
    }
    let inner = files.into_iter().filter_map(|f| {
        let (_, rest) = f.name.split_once('/')?;
        Some(File { name: rest.to_owned(), ..f })
    });
    load(inner.collect(), profile, warn, depth, false, room)
}
