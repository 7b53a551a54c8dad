//! Lint: finds problems of a chart before an installation.
//!
//! Owns Helm's rules with Helm's texts (`pkg/chart/v2/lint`) and, separately, Windlass's rules for what Helm does not check. Never
//! accesses a file system: the caller passes the chart's files.

mod address;
mod chartfile;
mod deprecated;
mod documents;
mod findings;
mod manifests;
mod names;
mod templates;
mod unread;

use bytes::Bytes;
use std::fmt;

pub use findings::{Finding, findings};

use crate::chart::{Chart, Warn};
use crate::data::{Data, Map};
use crate::profile::Profile;
use crate::render::{KubeVersion, check_schema};
use crate::world::World;
use crate::yaml;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Information.
    Info,
    /// A violated recommendation; fails a strict lint.
    Warning,
    /// A defect; fails the lint.
    Error,
}

/// A message of Helm's lint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its severity.
    pub severity: Severity,
    /// The file or directory, relative to the chart.
    pub path: String,
    /// The problem.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        };
        write!(f, "[{severity}] {}: {}", self.path, self.text)
    }
}

/// The type of an entry of the chart's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Missing,
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// The input of lint.
pub struct Subject<'s> {
    /// The chart's absolute directory, which some of Helm's messages contain.
    pub directory: &'s str,
    /// `Chart.yaml`.
    pub metadata: Bytes,
    /// `values.yaml`.
    pub values: Option<Bytes>,
    /// `values.schema.json`.
    pub schema: Option<Bytes>,
    /// Type of `templates`.
    pub templates: Entry,
    /// Type of `crds`.
    pub crds: Entry,
    /// The loaded chart, or the error of loading it.
    pub chart: Result<&'s Chart, String>,
}

/// Options of lint.
pub struct Options<'o> {
    /// The user's values.
    pub values: &'o Map,
    /// The namespace that templates see.
    pub namespace: &'o str,
    /// The Kubernetes version for templates and for deprecations.
    pub kube_version: Option<KubeVersion>,
    /// Skip `values.schema.json`.
    pub skip_schema_validation: bool,
    /// The Helm version to emulate.
    pub profile: Profile,
    /// Access of templates to the outside.
    pub world: &'o dyn World,
}

/// Collects messages.
#[derive(Default)]
struct Messages(Vec<Message>);

impl Messages {
    /// Adds a message unless the rule holds; returns whether it holds (`RunLinterRule`).
    fn rule(&mut self, severity: Severity, path: &str, result: Result<(), String>) -> bool {
        match result {
            Ok(()) => true,
            Err(text) => {
                self.0.push(Message { severity, path: path.to_owned(), text });
                false
            }
        }
    }
}

/// Returns the messages of `helm lint` in its order (`lint.RunAll`). `warn` takes the lines that Helm logs.
///
/// ```
/// # use chart_compat::{data::{Data, Map}, world::{KeyKind, Timestamp, World}};
/// # struct Offline;
/// # impl World for Offline {
/// #     fn now(&self) -> Timestamp { Timestamp { seconds: 0, nanos: 0 } }
/// #     fn local_zone(&self) -> String { "UTC".to_owned() }
/// #     fn random(&self, bytes: &mut [u8]) { bytes.fill(4) }
/// #     fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> { Err("no keys".to_owned()) }
/// #     fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> { Err("no keys".to_owned()) }
/// #     fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> { Ok(Data::Map(Map::new())) }
/// #     fn resolve(&self, _: &str) -> String { String::new() }
/// # }
/// use chart_compat::chart::{File, load_files};
/// use chart_compat::{lint, profile::Profile};
///
/// let metadata = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
/// let files = vec![
///     File::new("Chart.yaml".to_owned(), metadata.as_bytes().to_vec()),
///     File::new("values.yaml".to_owned(), b"unread: 1\n".to_vec()),
/// ];
/// let chart = load_files(files, Profile::Helm4, &mut drop)?;
/// let subject = lint::Subject {
///     directory: "/charts/web",
///     metadata: metadata.into(),
///     values: Some("unread: 1\n".into()),
///     schema: None,
///     templates: lint::Entry::Directory,
///     crds: lint::Entry::Missing,
///     chart: Ok(&chart),
/// };
/// let options = lint::Options {
///     values: &Map::new(),
///     namespace: "default",
///     kube_version: None,
///     skip_schema_validation: false,
///     profile: Profile::Helm4,
///     world: &Offline,
/// };
/// let messages = lint::helm(&subject, &options, &mut drop);
/// assert_eq!(messages[0].to_string(), "[INFO] Chart.yaml: icon is recommended");
/// let findings = lint::findings(&subject, &options); // what Helm is silent about
/// assert_eq!((findings[0].file.as_str(), findings[0].line), ("values.yaml", Some(1)));
/// # Ok::<(), chart_compat::chart::Error>(())
/// ```
pub fn helm(subject: &Subject<'_>, options: &Options<'_>, warn: Warn<'_>) -> Vec<Message> {
    let mut messages = Messages::default();
    chartfile::lint(&subject.metadata, options.profile, &mut messages);
    values(subject, options, &mut messages);
    templates::lint(subject, options, &mut messages, warn);
    dependencies(subject, &mut messages);
    if options.profile == Profile::Helm4 {
        crds(subject, &mut messages);
    }
    messages.0
}

/// `ValuesWithOverrides`
fn values(subject: &Subject<'_>, options: &Options<'_>, messages: &mut Messages) {
    let file = "values.yaml";
    let Some(text) = &subject.values else {
        messages.rule(Severity::Info, file, Err("file does not exist".to_owned()));
        return;
    };
    let result = match yaml::from_slice_map(text) {
        Err(e) => Err(format!("unable to parse YAML: {e}")),
        Ok(values) => {
            // Helm 3 skips only the check of a render.
            let skipped = options.skip_schema_validation && options.profile == Profile::Helm4;
            match subject.schema.as_ref().filter(|s| !s.is_empty() && !skipped) {
                Some(schema) => {
                    let mut merged = options.values.clone();
                    let coalesced = crate::chart::coalesce_tables(&mut merged, &values);
                    coalesced
                        .map_err(|error| error.to_string())
                        .and_then(|()| check_schema(schema, &merged, options.world))
                }
                None => Ok(()),
            }
        }
    };
    messages.rule(Severity::Error, file, result);
}

/// `Dependencies`
fn dependencies(subject: &Subject<'_>, messages: &mut Messages) {
    let chart = match &subject.chart {
        Ok(chart) => chart,
        Err(e) => {
            messages.rule(Severity::Error, "", Err(format!("unable to load chart\n\t{e}")));
            return;
        }
    };
    let declared = || chart.metadata.dependencies.iter().flatten();
    let undeclared: Vec<&str> =
        chart.dependencies.iter().map(Chart::name).filter(|n| !declared().any(|d| d.name == *n)).collect();
    let mut shadowing = Vec::new();
    let mut seen = Vec::new();
    for d in declared() {
        let key = if d.alias.is_empty() { &d.name } else { &d.alias };
        if seen.contains(&key) {
            shadowing.push(key.as_str());
        }
        seen.push(key);
    }
    let missing: Vec<&str> = declared()
        .map(|d| d.name.as_str())
        .filter(|n| !chart.dependencies.iter().any(|c| c.name() == *n))
        .collect();
    let mut list = |severity, names: &[&str], what: &str| {
        let result = if names.is_empty() { Ok(()) } else { Err(format!("{what}: {}", names.join(","))) };
        messages.rule(severity, subject.directory, result);
    };
    list(Severity::Error, &undeclared, "chart metadata is missing these dependencies");
    list(Severity::Error, &shadowing, "multiple dependencies with name or alias");
    list(Severity::Warning, &missing, "chart directory is missing these dependencies");
}

/// `Crds`
fn crds(subject: &Subject<'_>, messages: &mut Messages) {
    let directory = "crds/";
    match subject.crds {
        Entry::Missing => return,
        Entry::File => {
            messages.rule(Severity::Error, directory, Err("not a directory".to_owned()));
            return;
        }
        Entry::Directory => {}
    }
    let chart = match &subject.chart {
        Ok(chart) => chart,
        Err(e) => {
            messages.rule(Severity::Error, directory, Err(e.clone()));
            return;
        }
    };
    for crd in chart.crds() {
        let name = crd.path.rfind("/crds/").map_or(&*crd.path, |n| &crd.path[n + 1..]);
        for object in documents::read(&crd.data) {
            match object {
                Err(e) => {
                    messages.rule(Severity::Error, name, Err(format!("unable to parse YAML: {e}")));
                    return;
                }
                Ok(None) => {}
                Ok(Some(object)) => {
                    let version = object.api_version.starts_with("apiextensions.k8s.io");
                    let kind = object.kind == "CustomResourceDefinition";
                    let unless = |holds: bool, text: &str| if holds { Ok(()) } else { Err(text.to_owned()) };
                    let text = "apiVersion is not in 'apiextensions.k8s.io'";
                    messages.rule(Severity::Error, name, unless(version, text));
                    let text = "object kind is not 'CustomResourceDefinition'";
                    messages.rule(Severity::Error, name, unless(kind, text));
                }
            }
        }
    }
}

/// The name of a value's Go type after decoding JSON.
fn go_type(data: &Data) -> &'static str {
    match data {
        Data::Null => "<nil>",
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "float64",
        Data::String(_) => "string",
        Data::List(_) => "[]interface {}",
        Data::Map(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests;
