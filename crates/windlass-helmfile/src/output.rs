//! What helmfile's reading commands print: `build`, `list`, `show-dag`, `print-env`, `write-values`; and the paths of what is written.
//!
//! Owns the texts, byte for byte as scripts read them. Does not choose releases.

use chart_compat::data::{Data, Map as DataMap};
use chart_compat::json;
use chart_compat::yaml::Emitter;
use sha1::{Digest, Sha1};
use windlass_base::hex::hex;

use helmfile_compat::host::Host;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::needs::Node;
use helmfile_compat::record::Record;
use helmfile_compat::release::{self, hook_release};
use helmfile_compat::template::{Field, Root, render_named};
use helmfile_compat::value::{Map, Value, map_to_yaml, write_map};
use helmfile_compat::{Error, paths};

/// A row of `list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The release's name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether its condition holds.
    pub enabled: bool,
    /// Whether it is to be installed.
    pub installed: bool,
    /// Its labels, as `key:value,…`.
    pub labels: String,
    /// Its chart.
    pub chart: String,
    /// Its version.
    pub version: String,
}

/// The absolute path of a state file.
#[must_use]
pub fn full_path(state: &State) -> String {
    paths::within(&state.cwd, &state.file)
}

/// The merged state (`build`).
#[must_use]
pub fn build(state: &State) -> String {
    let mut text = String::new();
    let mut out = Emitter::pretty(&mut text);
    out.begin_map();
    out.key("filepath");
    out.string(&state.file);
    state.fields.write_fields(&mut out);
    out.key("renderedvalues");
    write_map(&state.values, &mut out);
    out.end_map();
    // This layout represents every value.
    let finished = out.finish();
    debug_assert!(finished.is_ok());
    format!("---\n#  Source: {}\n\n{text}", shown_path(state))
}

/// The path of a state file as helmfile shows it: below its working directory, even if it is absolute.
fn shown_path(state: &State) -> String {
    paths::join(&state.working_dir, &state.file)
}

/// The rows of a state's releases.
///
/// # Errors
/// A condition cannot be evaluated.
pub fn rows(state: &State) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for release in state.fields.records(key!("releases")) {
        let labels: Vec<String> =
            release.text_map(key!("labels")).iter().map(|(key, value)| format!("{key}:{value}")).collect();
        rows.push(Row {
            name: release.text(key!("name")),
            namespace: release.text(key!("namespace")),
            enabled: release::is_enabled(release, &state.values)?,
            installed: release::is_desired(release),
            labels: labels.join(",").trim_matches(',').to_owned(),
            chart: release.text(key!("chart")),
            version: release.text(key!("version")),
        });
    }
    Ok(rows)
}

/// Rows as JSON, in one line.
#[must_use]
pub fn rows_json(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "null\n".to_owned();
    }
    let mut text = String::new();
    let mut out = json::Writer::new(&mut text);
    out.begin_list();
    for row in rows {
        out.begin_map();
        for (key, value) in [("name", &row.name), ("namespace", &row.namespace)] {
            out.key(key);
            out.string(value);
        }
        for (key, value) in [("enabled", row.enabled), ("installed", row.installed)] {
            out.key(key);
            out.bool(value);
        }
        for (key, value) in [("labels", &row.labels), ("chart", &row.chart), ("version", &row.version)] {
            out.key(key);
            out.string(value);
        }
        out.end_map();
    }
    out.end_list();
    text.push('\n');
    text
}

/// Rows as a table.
#[must_use]
pub fn rows_table(rows: &[Row]) -> String {
    let mut lines =
        vec![["NAME", "NAMESPACE", "ENABLED", "INSTALLED", "LABELS", "CHART", "VERSION"].map(str::to_owned)];
    for row in rows {
        lines.push([
            row.name.clone(),
            row.namespace.clone(),
            row.enabled.to_string(),
            row.installed.to_string(),
            row.labels.clone(),
            row.chart.clone(),
            row.version.clone(),
        ]);
    }
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(at, cell)| {
                let width =
                    lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
                format!("{cell:<width$}", width = width.unwrap_or(0))
            })
            .collect();
        text.push_str(cells.join("\t").trim_end_matches([' ', '\t']));
        text.push('\n');
    }
    text
}

/// The waves of releases with what they need (`show-dag`).
#[must_use]
pub fn dag(nodes: &[Node], waves: &[Vec<usize>]) -> String {
    let mut lines = vec![["GROUP".to_owned(), "RELEASE".to_owned(), "DEPENDENCIES".to_owned()]];
    for (number, wave) in waves.iter().enumerate() {
        for node in wave.iter().filter_map(|at| nodes.get(*at)) {
            lines.push([(number + 1).to_string(), node.id.clone(), node.needs.join(", ")]);
        }
    }
    let width =
        |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let (first, second) = (width(0).unwrap_or(0) + 1, width(1).unwrap_or(0) + 1);
    let mut text = String::new();
    for [group, id, needs] in &lines {
        let line = format!("{group:<first$}{id:<second$}{needs}");
        text.push_str(line.trim_end_matches([' ', '\t']));
        text.push('\n');
    }
    text
}

/// The environments of states (`print-env`).
///
/// # Errors
/// A key that is not a string, or a value without a form in JSON.
pub fn environments(states: &[State], as_json: bool) -> Result<String, Error> {
    let mut documents = Vec::new();
    for state in states {
        let mut map = Map::new();
        map.insert("filePath".to_owned(), Value::String(shown_path(state)));
        map.insert("name".to_owned(), Value::String(state.environment.name.clone()));
        map.insert("values".to_owned(), Value::Map(state.environment.merged_values()?));
        if !state.environment.kube_context.is_empty() {
            map.insert("kubeContext".to_owned(), Value::String(state.environment.kube_context.clone()));
        }
        documents.push(map);
    }
    if !as_json {
        let texts: Vec<String> = documents.iter().map(map_to_yaml).collect();
        return Ok(texts.join("---\n"));
    }
    let mut texts = Vec::new();
    for map in &documents {
        let data: DataMap = map.iter().map(|(key, value)| (key.clone(), value.to_data())).collect();
        let text = json::to_string_pretty(&Data::Map(data)).map_err(Error::host)?;
        texts.push(format!("  {}", text.replace('\n', "\n  ")));
    }
    Ok(format!("[\n{}\n]\n", texts.join(",\n")))
}

/// A path that is made of a template with `.State`, `.Release`, `.Environment` and, for folders, `.OutputDir`.
///
/// # Errors
/// The template cannot be parsed or executed.
pub fn path_of(
    host: &dyn Host,
    state: &State,
    release: &Record,
    template: &str,
    output_dir: Option<&str>,
) -> Result<String, Error> {
    let absolute = full_path(state);
    let ext = paths::ext(&state.file);
    let base = state.file.strip_suffix(ext).unwrap_or(&state.file).to_owned();
    let hash = hex(&Sha1::digest(absolute.as_bytes())[..4]);
    let mut fields = vec![
        (
            "State",
            Field::Texts(
                "state.state",
                vec![
                    ("BaseName", Some(base)),
                    ("Path", Some(state.file.clone())),
                    ("AbsPath", Some(absolute)),
                    ("AbsPathSHA1", Some(hash)),
                ],
            ),
        ),
        ("Release", Field::Release(hook_release(release))),
        ("Environment", Field::Environment(state.environment.clone())),
    ];
    if let Some(dir) = output_dir {
        fields.push(("OutputDir", Field::Text(dir.to_owned())));
    }
    let root = Root::other(fields);
    render_named(host, &state.cwd, "output-file", template, &root, false)
        .map_err(|error| error.within("executing output-file template"))
}

/// The directory that `fetch` puts a chart into, made of a template with `.OutputDir`, `.ChartName`, `.Release` and `.Environment`.
///
/// # Errors
/// The template cannot be parsed or executed.
pub fn chart_path_of(
    host: &dyn Host,
    state: &State,
    release: &Record,
    template: &str,
    output_dir: &str,
    chart: &str,
) -> Result<String, Error> {
    let root = Root::other(vec![
        ("ChartName", Field::Text(chart.to_owned())),
        ("OutputDir", Field::Text(output_dir.to_owned())),
        ("Release", Field::Release(hook_release(release))),
        ("Environment", Field::Environment(state.environment.clone())),
    ]);
    render_named(host, &state.cwd, "output-dir-template", template, &root, false)
        .map_err(|error| error.within("executing output-dir-template template"))
}

/// The default template of `fetch --output-dir`.
pub const CHART_DIR: &str = "{{ .OutputDir }}{{ if .Release.Namespace }}/{{ .Release.Namespace }}{{ end }}{{ if .Release.KubeContext }}/{{ .Release.KubeContext }}{{ end }}/{{ .Release.Name }}/{{ .ChartName }}/{{ or .Release.Version \"latest\" }}";
/// The default template of `write-values`.
pub const VALUES_FILE: &str = "{{ .State.BaseName }}-{{ .State.AbsPathSHA1 }}/{{ .Release.Name }}.yaml";
/// The default template of `template --output-dir`.
pub const OUTPUT_DIR: &str =
    "{{ .OutputDir }}/{{ .State.BaseName }}-{{ .State.AbsPathSHA1 }}-{{ .Release.Name}}";
