//! `windlass get`: manifest, values, notes, hooks and metadata of a recorded revision.

use std::collections::BTreeMap;

use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flags::Globals;
use super::output::{self, Format};
use super::status::{self, Shown};
use super::{Failure, go_template, print, with_engine};
use windlass_engine::record::Record;
use windlass_render::recorded_values::computed_values;
use windlass_render::{from_json, to_json};

/// The release and the revision.
#[derive(clap::Args)]
pub(super) struct RevisionArgs {
    /// The release
    name: String,
    /// Get the named release with revision (0: the newest)
    #[arg(long, default_value_t = 0)]
    revision: u64,
}

/// Subcommands of `get`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Download the manifest for a named release
    Manifest(RevisionArgs),
    /// Download the values file for a named release
    Values {
        #[command(flatten)]
        which: RevisionArgs,
        /// Dump all (computed) values
        #[arg(short, long)]
        all: bool,
        /// Prints the output in the specified format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Download the notes for a named release
    Notes(RevisionArgs),
    /// Download all hooks for a named release
    Hooks(RevisionArgs),
    /// Download all information for a named release
    All {
        #[command(flatten)]
        which: RevisionArgs,
        /// Go template for formatting the output, eg: {{.Release.Name}}
        #[arg(long, default_value = "", hide_default_value = true)]
        template: String,
    },
    /// Fetch metadata for a named release
    Metadata {
        #[command(flatten)]
        which: RevisionArgs,
        /// Prints the output in the specified format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

fn load(globals: &Globals, which: &RevisionArgs) -> Result<Record, Failure> {
    with_engine(globals, async |s| {
        s.engine.records().get(&s.id(&which.name), which.revision).await.map_err(|e| e.to_string())
    })
}

/// The values of a release in an output format: the user's, or all.
pub(super) fn values_text(record: &Record, all: bool, format: Format) -> Result<String, Failure> {
    if all {
        let values = to_json(&Data::Map(computed_values(record, Profile::Helm4)?));
        return output::structured(&values, format);
    }
    // Helm prints null if no values were given.
    let empty = record.config.as_object().is_some_and(serde_json::Map::is_empty);
    output::structured(if empty { &Value::Null } else { &record.config }, format)
}

/// The hooks of a release, as Helm prints them.
pub(super) fn hooks_text(record: &Record) -> String {
    record.hooks.iter().map(|h| format!("---\n# Source: {}\n{}\n", h.path, h.manifest)).collect()
}

/// The output of `get metadata`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    chart: String,
    version: String,
    app_version: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dependencies: Vec<Dependency>,
    namespace: String,
    revision: u64,
    status: String,
    deployed_at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    apply_method: String,
}

/// A dependency in the order of Helm's fields.
#[derive(Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
#[derive(Default)]
struct Dependency {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    version: String,
    repository: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    condition: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    enabled: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    import_values: Vec<Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    alias: String,
}

impl Metadata {
    fn of(record: &Record) -> Self {
        let meta = record.chart_metadata();
        let annotations = meta["annotations"].as_object().into_iter().flatten();
        let dependencies = meta["dependencies"].as_array().into_iter().flatten();
        let mut labels = record.labels.clone();
        labels.extend(record.system.clone());
        Self {
            name: record.name.clone(),
            chart: record.chart_text("name").to_owned(),
            version: record.chart_text("version").to_owned(),
            app_version: record.chart_text("appVersion").to_owned(),
            annotations: annotations.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect(),
            labels,
            dependencies: dependencies.filter_map(|d| serde_json::from_value(d.clone()).ok()).collect(),
            namespace: record.namespace.clone(),
            revision: record.version,
            status: record.info.status.to_string(),
            deployed_at: output::whole_seconds(&record.info.last_deployed),
            apply_method: record.apply_method.clone(),
        }
    }

    fn text(&self) -> String {
        let pairs = |map: &BTreeMap<String, String>| {
            map.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",")
        };
        let mut names: Vec<&str> = self.dependencies.iter().map(|d| d.name.as_str()).collect();
        names.sort_unstable();
        let method = match self.apply_method.as_str() {
            "" => "client-side apply (defaulted)".to_owned(),
            "csa" => "client-side apply".to_owned(),
            "ssa" => "server-side apply".to_owned(),
            other => format!("unknown ({other:?})"),
        };
        format!(
            "NAME: {}\nCHART: {}\nVERSION: {}\nAPP_VERSION: {}\nANNOTATIONS: {}\nLABELS: {}\nDEPENDENCIES: {}\nNAMESPACE: \
             {}\nREVISION: {}\nSTATUS: {}\nDEPLOYED_AT: {}\nAPPLY_METHOD: {method}\n",
            self.name,
            self.chart,
            self.version,
            self.app_version,
            pairs(&self.annotations),
            pairs(&self.labels),
            names.join(","),
            self.namespace,
            self.revision,
            self.status,
            self.deployed_at
        )
    }
}

/// The fields of a record for the templates of `get all`, with Go's names.
fn fields_of(record: &Record) -> Data {
    let text = |text: &str| Data::String(text.to_owned());
    let time = |at: &str| text(&output::go_time(at));
    let info = &record.info;
    let info = [
        ("FirstDeployed", time(&info.first_deployed)),
        ("LastDeployed", time(&info.last_deployed)),
        ("Deleted", time(&info.deleted)),
        ("Description", text(&info.description)),
        ("Status", text(&info.status.to_string())),
        ("Notes", text(&info.notes)),
    ];
    let hooks = record.hooks.iter().map(|hook| {
        let hook = [
            ("Name", text(&hook.name)),
            ("Kind", text(&hook.kind)),
            ("Path", text(&hook.path)),
            ("Manifest", text(&hook.manifest)),
        ];
        named(hook)
    });
    let chart = |part: &str| upper(&from_json(&record.chart[part]));
    let chart = [
        ("Metadata", chart("metadata")),
        ("Lock", chart("lock")),
        ("Templates", chart("templates")),
        ("Files", chart("files")),
        ("Values", from_json(&record.chart["values"])),
    ];
    // Labels that the storage adds are included.
    let labels = record.labels.iter().chain(&record.system).map(|(k, v)| (k.clone(), text(v)));
    named([
        ("Name", text(&record.name)),
        ("Namespace", text(&record.namespace)),
        ("Version", Data::Int(i64::try_from(record.version).unwrap_or(i64::MAX))),
        ("Info", named(info)),
        ("Chart", named(chart)),
        ("Config", from_json(&record.config)),
        ("Manifest", text(&record.manifest)),
        ("Hooks", Data::List(hooks.collect())),
        ("Labels", Data::Map(labels.collect())),
        ("ApplyMethod", text(&record.apply_method)),
    ])
}

fn named<const N: usize>(fields: [(&str, Data); N]) -> Data {
    Data::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Converts keys to the names of Go's fields: `appVersion` becomes `AppVersion`.
fn upper(data: &Data) -> Data {
    match data {
        Data::Map(map) => {
            let rename = |key: &String| {
                if key == "apiVersion" {
                    return "APIVersion".to_owned();
                }
                let word = |word: &str| {
                    let mut chars = word.chars();
                    chars.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(chars).collect::<String>()
                };
                key.split('-').map(word).collect()
            };
            Data::Map(map.iter().map(|(k, v)| (rename(k), upper(v))).collect())
        }
        Data::List(list) => Data::List(list.iter().map(upper).collect()),
        other => other.clone(),
    }
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Manifest(which) => print(format!("{}\n", load(globals, which)?.manifest).as_bytes()),
        Command::Notes(which) => {
            let notes = load(globals, which)?.info.notes;
            if notes.is_empty() { Ok(()) } else { print(format!("NOTES:\n{notes}\n").as_bytes()) }
        }
        Command::Hooks(which) => print(hooks_text(&load(globals, which)?).as_bytes()),
        Command::All { which, template } if !template.is_empty() => {
            let release = fields_of(&load(globals, which)?);
            let data = Map::from([("Release".to_owned(), release)]);
            print(&go_template::run(template, &Data::Map(data))?)
        }
        Command::All { which, .. } => {
            let paints = globals.paints();
            let shown = Shown { description: true, chart: true, debug: true, paints, ..Shown::default() };
            print(status::text(&load(globals, which)?, shown)?.as_bytes())
        }
        Command::Metadata { which, output } => {
            let metadata = Metadata::of(&load(globals, which)?);
            let text = match output {
                Format::Table => metadata.text(),
                format => output::structured(&metadata, *format)?,
            };
            print(text.as_bytes())
        }
        Command::Values { which, all, output } => {
            let record = load(globals, which)?;
            let text = match output {
                Format::Table => {
                    let title = if *all { "COMPUTED VALUES:" } else { "USER-SUPPLIED VALUES:" };
                    format!("{title}\n{}", values_text(&record, *all, Format::Yaml)?)
                }
                format => values_text(&record, *all, *format)?,
            };
            print(text.as_bytes())
        }
    }
}
