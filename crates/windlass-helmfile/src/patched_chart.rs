//! Releases that are not plain charts: manifests, kustomizations, and charts with patches, as one chart to render.
//!
//! Owns what helmfile's chartify makes of them, so that the output is the same: resources are rendered once, get their namespace and
//! patches, and are put into a chart that renders them as they are. Does not fetch charts and does not run kustomize.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use chart_compat::chart::{Chart, File, Metadata};
use chart_compat::render::Rendered;
use chart_compat::yaml::tree::{self, Kind, Node, Writer};
use kustomize_compat::load::{Place, World, join};
use kustomize_compat::target;

use super::error::HelmfileError;
use helmfile_compat::document;
use helmfile_compat::value::{Map, Value, map_to_yaml};
use windlass_base::bounded_read;

/// The root of the kustomization in memory.
const ROOT: &str = "/patched";
/// The kustomization's file.
const KUSTOMIZATION: &str = "kustomization.yaml";
/// The maximal size of a file of manifests, in bytes, and of all of them.
const MAX_BYTES: u64 = 64 << 20;
/// The maximal number of files of manifests.
const MAX_FILES: usize = 20_000;

/// What is done to the resources of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The namespace of resources without one; empty for none.
    pub namespace: String,
    /// The texts of `jsonPatches`.
    pub json_patches: Vec<String>,
    /// The texts of `strategicMergePatches`.
    pub strategic_merge_patches: Vec<String>,
    /// The texts of `transformers`.
    pub transformers: Vec<String>,
}

impl Changes {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.namespace.is_empty() && !self.patches()
    }

    fn patches(&self) -> bool {
        !(self.json_patches.is_empty()
            && self.strategic_merge_patches.is_empty()
            && self.transformers.is_empty())
    }
}

/// Renders a chart with the release's values.
pub type Render<'r> = dyn Fn(Chart) -> Result<Rendered, HelmfileError> + 'r;

/// The chart with the changed resources of a chart. `include_crds`: those of `crds/` are resources, too.
///
/// # Errors
/// The chart cannot be rendered, or a change cannot be made.
pub fn patched(
    chart: Chart,
    changes: &Changes,
    include_crds: bool,
    render: &Render<'_>,
) -> Result<Chart, HelmfileError> {
    let metadata = Metadata { dependencies: None, ..chart.metadata.clone() };
    let (values, values_text, schema) =
        (chart.values.clone(), chart.values_text.clone(), chart.schema.clone());
    let texts = changed(files_of(&render(chart)?, include_crds), changes)?;
    let mut out = as_chart(metadata, texts);
    (out.values, out.values_text, out.schema) = (values, values_text, schema);
    Ok(out)
}

/// Files of manifests after the changes, by their path in a chart.
///
/// # Errors
/// A change cannot be made.
pub fn changed(
    mut texts: BTreeMap<String, String>,
    changes: &Changes,
) -> Result<BTreeMap<String, String>, HelmfileError> {
    if !changes.namespace.is_empty() {
        for (path, text) in &mut texts {
            *text = with_namespace(text, &changes.namespace).map_err(|error| error.within(&*path))?;
        }
    }
    if changes.patches() && !texts.is_empty() {
        texts = kustomized(&texts, changes)?;
    }
    Ok(texts)
}

/// The chart of a folder with plain manifests. `render_template`: renders a `.gotmpl` file.
///
/// # Errors
/// A file cannot be read or rendered.
pub fn of_manifests(
    dir: &Path,
    version: &str,
    render_template: &dyn Fn(&str, &str) -> Result<String, HelmfileError>,
) -> Result<Chart, HelmfileError> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut budget = (MAX_FILES, MAX_BYTES);
    walk(dir, "", &mut found, &mut budget)?;
    let mut texts = BTreeMap::new();
    for (path, text) in found {
        if let Some(plain) = path.strip_suffix(".gotmpl") {
            let text = render_template(&path, &text)?;
            texts.insert(plain.to_owned(), text);
        } else {
            texts.entry(path).or_insert(text);
        }
    }
    let manifests = texts.into_iter().filter(|(path, _)| path.ends_with("yaml") || path.ends_with("yml"));
    let texts = manifests.map(|(path, text)| (format!("templates/{path}"), text)).collect();
    Ok(as_chart(metadata_of(dir, version), texts))
}

/// The chart of a kustomization that was built.
#[must_use]
pub fn of_kustomization(dir: &Path, version: &str, built: String) -> Chart {
    as_chart(metadata_of(dir, version), [("templates/kustomized.yaml".to_owned(), built)].into())
}

/// The overlay that helmfile puts on a kustomization: fields of the release's values files, and its namespace.
///
/// # Errors
/// A values file is not a YAML map.
pub fn overlay(base: &str, values: &[String], namespace: &str) -> Result<String, HelmfileError> {
    let mut fields = Map::new();
    for text in values {
        for (key, value) in document::map(text).map_err(HelmfileError::cause)? {
            if ["images", "namePrefix", "nameSuffix", "namespace", "sortOptions"].contains(&key.as_str()) {
                fields.insert(key, value);
            }
        }
    }
    if !namespace.is_empty() {
        fields.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
    }
    fields.insert("resources".to_owned(), Value::List(vec![Value::String(base.to_owned())]));
    Ok(map_to_yaml(&fields))
}

fn metadata_of(dir: &Path, version: &str) -> Metadata {
    Metadata {
        name: dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        version: if version.is_empty() { "1.0.0".to_owned() } else { version.to_owned() },
        api_version: "v2".to_owned(),
        ..Metadata::default()
    }
}

/// A chart that renders texts as they are. Texts below `charts/` become templates of its own.
fn as_chart(metadata: Metadata, texts: BTreeMap<String, String>) -> Chart {
    let mut chart = Chart { metadata, ..Chart::default() };
    for (path, text) in texts {
        if path.starts_with("crds/") {
            chart.files.push(File::new(path, text.into_bytes()));
            continue;
        }
        let template = match path.strip_prefix("charts/") {
            Some(below) => format!("templates/charts/{below}"),
            None => path.clone(),
        };
        let place = format!("files/{path}");
        chart.templates.push(File::new(template, format!("{{{{ .Files.Get {place:?} }}}}").into_bytes()));
        chart.files.push(File::new(place, text.into_bytes()));
    }
    chart
}

/// The files that `helm template --output-dir` writes, by their path in the chart.
fn files_of(rendered: &Rendered, include_crds: bool) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |source: &str, text: &str| {
        let path = source.split_once('/').map_or(source, |(_, path)| path);
        let file = files.entry(path.to_owned()).or_default();
        file.push_str(&format!("---\n# Source: {source}\n{text}\n"));
    };
    for crd in rendered.crds.iter().filter(|_| include_crds) {
        add(&crd.path, &String::from_utf8_lossy(&crd.data));
    }
    for manifest in &rendered.manifests {
        add(&manifest.source, &manifest.text);
    }
    for hook in &rendered.hooks {
        add(&hook.manifest.source, &hook.manifest.text);
    }
    files
}

/// Sets the namespace of every document that has metadata without one.
fn with_namespace(text: &str, namespace: &str) -> Result<String, HelmfileError> {
    let mut writer = Writer::with_indented_lists();
    for mut document in tree::read_all(text).map_err(HelmfileError::cause)? {
        let metadata = document.content.first_mut().and_then(|root| root.get_mut("metadata"));
        if let Some(metadata) = metadata.filter(|metadata| metadata.kind == Kind::Map)
            && metadata.get("namespace").is_none()
        {
            metadata.push(
                "namespace",
                Node { tag: "!!str".to_owned(), value: namespace.to_owned(), ..Node::default() },
            );
        }
        writer.document(&document);
    }
    Ok(writer.finish())
}

/// The resources after patches and transformers: one file, and one for CRDs.
fn kustomized(
    texts: &BTreeMap<String, String>,
    changes: &Changes,
) -> Result<BTreeMap<String, String>, HelmfileError> {
    let mut files: BTreeMap<String, Bytes> =
        texts.iter().map(|(path, text)| (path.clone(), Bytes::from(text.clone()))).collect();
    let mut fields = Map::new();
    let names = |paths: Vec<String>| Value::List(paths.into_iter().map(Value::String).collect());
    fields.insert("resources".to_owned(), names(texts.keys().cloned().collect()));
    let mut patches = Vec::new();
    for (number, text) in changes.json_patches.iter().enumerate() {
        let map = document::map(text).map_err(HelmfileError::cause)?;
        let mut entry = Map::new();
        if let Some(target) = map.get("target") {
            entry.insert("target".to_owned(), as_texts(target));
        }
        let path = match (map.get("path"), map.get("patch")) {
            (Some(Value::String(path)), _) if !path.is_empty() => path.clone(),
            (_, Some(Value::List(operations))) if !operations.is_empty() => {
                let path = format!("jsonpatches/patch.{number}.yaml");
                files.insert(path.clone(), Bytes::from(list_to_yaml(operations)));
                path
            }
            _ => {
                return Err(HelmfileError::Chart(format!(
                    "either \"path\" or \"patch\" must be set in jsonPatches[{number}]"
                )));
            }
        };
        entry.insert("path".to_owned(), Value::String(path));
        patches.push(Value::Map(entry));
    }
    for (number, text) in changes.strategic_merge_patches.iter().enumerate() {
        let path = format!("strategicmergepatches/patch.{number}.yaml");
        files.insert(path.clone(), Bytes::from(text.clone()));
        patches.push(Value::Map(Map::from([("path".to_owned(), Value::String(path))])));
    }
    if !patches.is_empty() {
        fields.insert("patches".to_owned(), Value::List(patches));
    }
    let mut transformers = Vec::new();
    for (number, text) in changes.transformers.iter().enumerate() {
        let path = format!("transformers/transformer.{number}.yaml");
        files.insert(path.clone(), Bytes::from(text.clone()));
        transformers.push(path);
    }
    if !transformers.is_empty() {
        fields.insert("transformers".to_owned(), names(transformers));
    }
    files.insert(KUSTOMIZATION.to_owned(), Bytes::from(map_to_yaml(&fields)));
    let world = MemoryWorld { files };
    let options = target::Options { unrestricted: false, keep_order: false };
    let text = target::build(&world, ROOT, &options).map_err(HelmfileError::cause)?;
    Ok(split(&text, texts.keys().any(|path| path.starts_with("templates/crds/"))))
}

/// Values of a map as texts, as chartify decodes targets.
fn as_texts(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            Value::Map(map.iter().map(|(key, value)| (key.clone(), Value::String(value.go_text()))).collect())
        }
        other => other.clone(),
    }
}

fn list_to_yaml(items: &[Value]) -> String {
    let mut text = String::new();
    let mut out = chart_compat::yaml::Emitter::pretty(&mut text);
    Value::List(items.to_vec()).write(&mut out);
    // This layout represents every value.
    let finished = out.finish();
    debug_assert!(finished.is_ok());
    text
}

/// Splits a stream into the file of resources and that of CRDs. CRDs that were templates stay templates.
fn split(text: &str, crds_are_templates: bool) -> BTreeMap<String, String> {
    let (mut resources, mut crds) = (String::new(), String::new());
    for document in text.split("\n---\n") {
        let document = document.strip_suffix('\n').unwrap_or(document);
        let is_crd = document.lines().any(|line| line.trim_end() == "kind: CustomResourceDefinition");
        let into = if is_crd { &mut crds } else { &mut resources };
        into.push_str(document);
        into.push_str("\n---\n");
    }
    let crds_path =
        if crds_are_templates { "templates/crds/patched_crds.yaml" } else { "crds/patched_crds.yaml" };
    [("templates/patched_resources.yaml", resources), (crds_path, crds)]
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(path, text)| (path.to_owned(), text))
        .collect()
}

/// Files of a kustomization in memory.
struct MemoryWorld {
    files: BTreeMap<String, Bytes>,
}

impl World for MemoryWorld {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let name = path.strip_prefix(ROOT).map_or(path, |rest| rest.trim_start_matches('/'));
        match self.files.get(name) {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(format!("open {path}: no such file or directory")),
        }
    }

    fn resolve(&self, path: &str) -> Result<Place, String> {
        let path = join("/", path);
        let name = path.strip_prefix(ROOT).map(|rest| rest.trim_start_matches('/'));
        let missing = || format!("lstat {path}: no such file or directory");
        let name = name.ok_or_else(missing)?;
        if name.is_empty() || self.files.keys().any(|file| file.starts_with(&format!("{name}/"))) {
            return Ok(Place::Directory(path.trim_end_matches('/').to_owned()));
        }
        if !self.files.contains_key(name) {
            return Err(missing());
        }
        let (directory, file) = path.rsplit_once('/').unwrap_or((ROOT, name));
        Ok(Place::File { directory: directory.to_owned(), name: file.to_owned() })
    }
}

/// Collects the files of a folder, without following links out of it.
fn walk(
    dir: &Path,
    below: &str,
    found: &mut BTreeMap<String, String>,
    budget: &mut (usize, u64),
) -> Result<(), HelmfileError> {
    let failed = |path: &Path, error: std::io::Error| HelmfileError::file(path.display(), &error);
    for entry in std::fs::read_dir(dir).map_err(|error| failed(dir, error))? {
        let entry = entry.map_err(|error| failed(dir, error))?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let place = if below.is_empty() { name } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(|error| failed(&path, error))?;
        if kind.is_dir() {
            walk(&path, &place, found, budget)?;
            continue;
        }
        if ![".gotmpl", "yaml", "yml"].iter().any(|ending| place.ends_with(ending)) || !kind.is_file() {
            continue;
        }
        let size = entry.metadata().map_err(|error| failed(&path, error))?.len();
        let (files, bytes) = *budget;
        let (Some(files), Some(bytes)) = (files.checked_sub(1), bytes.checked_sub(size)) else {
            return Err(HelmfileError::Chart(format!(
                "{}: more than {MAX_FILES} files or {} MiB of manifests",
                dir.display(),
                MAX_BYTES >> 20
            )));
        };
        *budget = (files, bytes);
        let text = bounded_read::read_text(&path, MAX_BYTES).map_err(|error| failed(&path, error))?;
        found.insert(place, text);
    }
    Ok(())
}

/// Adds a chart below another one, as an entry of `dependencies` does.
pub fn add_dependency(chart: &mut Chart, dependency: Chart, alias: &str, version: &str) {
    let name = dependency.metadata.name.clone();
    let condition = format!("{}.enabled", if alias.is_empty() { &name } else { alias });
    let entry = chart_compat::chart::Dependency {
        name,
        version: if version.is_empty() { dependency.metadata.version.clone() } else { version.to_owned() },
        condition,
        alias: alias.to_owned(),
        ..chart_compat::chart::Dependency::default()
    };
    chart.metadata.dependencies.get_or_insert_default().push(entry);
    chart.dependencies.push(dependency);
    chart.dependencies.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
}
