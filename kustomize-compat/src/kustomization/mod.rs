//! The file of a kustomization: its fields, and what becomes of those that are deprecated.
//!
//! Owns the file's format; does nothing of what it asks for.

mod fields;
mod items;
mod rewrite;

use chart_compat::data::{Data, Map};
use chart_compat::yaml;

use crate::decode::{Mode, decode};
use crate::error::Error;
use fields::KUSTOMIZATION;
pub(crate) use fields::{GENERATOR_OPTIONS, HELM_CHART, IMAGE, REPLACEMENT_FIELD, REPLICA, SELECTOR};
pub use items::{GeneratorArgs, GeneratorOptions, LabelItem, PatchSource, SortOptions, Target, Var};
pub(crate) use items::{
    generator_args, generator_options, image, map_text, patch_source, selector, sort_options, texts, var,
};

/// The names that a file may have.
pub const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

const VERSION: &str = "kustomize.config.k8s.io/v1beta1";
const COMPONENT_VERSION: &str = "kustomize.config.k8s.io/v1alpha1";
const COMPONENT: &str = "Component";

/// A kustomization file as it was read, with deprecated fields moved to their successors.
#[derive(Clone, Debug, Default)]
pub struct KustomizationFile {
    fields: Map,
    /// What kustomize says of deprecated fields.
    pub warnings: Vec<String>,
    /// How deprecated fields are written today, of which kustomize says less or nothing.
    pub hints: Vec<String>,
}

/// Deprecated fields, and what to use.
const DEPRECATED: [(&str, &str, bool); 6] = [
    ("bases", "resources", false),
    ("commonLabels", "labels", false),
    ("imageTags", "images", false),
    ("patchesJson6902", "patches", false),
    ("patchesStrategicMerge", "patches", false),
    ("vars", "replacements", true),
];

impl KustomizationFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Text that is not YAML, a field that does not exist or is of another type, an empty file, or a wrong kind or version.
    pub fn parse(text: &[u8], root: &str) -> Result<Self, Error> {
        let invalid = |e: String| Error::text(format!("invalid Kustomization: {e}"));
        let data = yaml::from_slice(text).map_err(|e| invalid(e.to_string()))?;
        let mut fields = decode(&data, &KUSTOMIZATION, Mode::Json).map_err(invalid)?;
        let warnings = DEPRECATED.iter().filter(|(old, _, _)| fields.contains_key(*old));
        let warnings = warnings.map(|(old, new, experimental)| {
            let mark = if *experimental { "[EXPERIMENTAL] " } else { "" };
            format!(
                "# Warning: '{old}' is deprecated. Please use '{new}' instead. {mark}Run 'kustomize edit fix' to update your Kustomization automatically."
            )
        });
        let warnings = warnings.collect();
        let hints = rewrite::rewrites(&fields);
        fix(&mut fields);
        let file = Self { fields, warnings, hints };
        file.check_empty()?;
        file.check_head(root)?;
        Ok(file)
    }

    fn check_empty(&self) -> Result<(), Error> {
        let zero = |data: &Data| match data {
            Data::String(text) => text.is_empty(),
            Data::Bool(value) => !value,
            _ => false,
        };
        let set =
            |(key, data): (&String, &Data)| !matches!(key.as_str(), "kind" | "apiVersion") && !zero(data);
        if self.fields.iter().any(set) {
            return Ok(());
        }
        Err(Error::text("kustomization.yaml is empty"))
    }

    fn check_head(&self, root: &str) -> Result<(), Error> {
        let (kind, version) = (self.text("kind"), self.text("apiVersion"));
        let mut wrong = Vec::new();
        if !matches!(kind, "Kustomization" | COMPONENT) {
            wrong.push(format!("kind should be Kustomization or {COMPONENT}"));
        }
        let required = if kind == COMPONENT { COMPONENT_VERSION } else { VERSION };
        if version != required {
            wrong.push(format!("apiVersion for {kind} should be {required}"));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::text(format!("Failed to read kustomization file under {root}:\n{}", wrong.join("\n"))))
    }

    /// A text field; empty if it is not set.
    #[must_use]
    pub fn text(&self, key: &str) -> &str {
        self.fields.get(key).and_then(Data::as_str).unwrap_or_default()
    }

    /// A list field.
    #[must_use]
    pub fn list(&self, key: &str) -> &[Data] {
        self.fields.get(key).and_then(Data::as_list).unwrap_or_default()
    }

    /// A list of texts.
    #[must_use]
    pub fn texts(&self, key: &str) -> Vec<String> {
        texts(self.fields.get(key))
    }

    /// Any field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Data> {
        self.fields.get(key)
    }

    /// Whether it is a component.
    #[must_use]
    pub fn is_component(&self) -> bool {
        self.text("kind") == COMPONENT
    }
}

/// Moves what deprecated fields hold.
fn fix(fields: &mut Map) {
    let text =
        |key: &str, fields: &Map| fields.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
    if text("kind", fields).is_empty() {
        fields.insert("kind".to_owned(), Data::from("Kustomization"));
    }
    if text("apiVersion", fields).is_empty() {
        let version = if text("kind", fields) == COMPONENT { COMPONENT_VERSION } else { VERSION };
        fields.insert("apiVersion".to_owned(), Data::from(version));
    }
    append(fields, "resources", "bases");
    append(fields, "images", "imageTags");
    for key in ["configMapGenerator", "secretGenerator"] {
        if let Some(Data::List(items)) = fields.get_mut(key) {
            items.iter_mut().filter_map(Data::as_map_mut).for_each(fix_generator);
        }
    }
    fix_charts(fields);
}

/// Appends a list to another one.
fn append(fields: &mut Map, to: &str, from: &str) {
    let Some(Data::List(more)) = fields.remove(from) else { return };
    if more.is_empty() {
        return;
    }
    let list = fields.entry(to.to_owned()).or_insert_with(|| Data::List(Vec::new()));
    if let Data::List(items) = list {
        items.extend(more);
    }
}

/// `env` of a generator is one of its `envs`.
fn fix_generator(generator: &mut Map) {
    let Some(Data::String(env)) = generator.remove("env") else { return };
    if env.is_empty() {
        return;
    }
    let list = generator.entry("envs".to_owned()).or_insert_with(|| Data::List(Vec::new()));
    if let Data::List(envs) = list {
        envs.push(Data::String(env));
    }
}

/// `helmChartInflationGenerator` becomes `helmCharts` and `helmGlobals`.
fn fix_charts(fields: &mut Map) {
    let Some(Data::List(old)) = fields.remove("helmChartInflationGenerator") else { return };
    let mut globals = Map::new();
    let mut charts = Vec::new();
    for one in old.iter().filter_map(Data::as_map) {
        for (from, to) in [("helmHome", "configHome"), ("chartHome", "chartHome")] {
            if let Some(Data::String(home)) = one.get(from).filter(|home| home.as_str() != Some("")) {
                globals.insert(to.to_owned(), Data::String(home.clone()));
            }
        }
        charts.push(Data::Map(chart_of_inflation(one)));
    }
    if !globals.is_empty() && !fields.contains_key("helmGlobals") {
        fields.insert("helmGlobals".to_owned(), Data::Map(globals));
    }
    fields.insert("helmChartsOfInflation".to_owned(), Data::List(charts));
    append(fields, "helmCharts", "helmChartsOfInflation");
}

/// An item of `helmChartInflationGenerator` as one of `helmCharts`.
fn chart_of_inflation(old: &Map) -> Map {
    let fields = [
        ("chartName", "name"),
        ("chartVersion", "version"),
        ("chartRepoUrl", "repo"),
        ("values", "valuesFile"),
        ("valuesLocal", "valuesInline"),
        ("valuesMerge", "valuesMerge"),
        ("releaseName", "releaseName"),
    ];
    fields.iter().filter_map(|(from, to)| Some(((*to).to_owned(), old.get(*from)?.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_kustomize_reads_them() {
        let table = [
            ("", Err("kustomization.yaml is empty")),
            ("kind: Component\n", Err("kustomization.yaml is empty")),
            ("bases: []\nnamePrefix: ''\n", Err("kustomization.yaml is empty")),
            ("resources: []\n", Ok(vec![])),
            ("Resources: [a]\nbases: [b]\n", Ok(vec!["a", "b"])),
            ("resource: [a]\n", Err("invalid Kustomization: json: unknown field \"resource\"")),
            (
                "kind: A\nresources: [a]\n",
                Err("Failed to read kustomization file under /r:\nkind should be Kustomization or Component"),
            ),
        ];
        for (text, expected) in table {
            let read = KustomizationFile::parse(text.as_bytes(), "/r").map_err(|e| e.to_string());
            let read = read.map(|file| file.texts("resources"));
            let expected = expected.map(|list| list.into_iter().map(str::to_owned).collect());
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn deprecated_fields_move() {
        let text = "configMapGenerator: [{name: a, env: b, envs: [c]}]\nhelmChartInflationGenerator: [{chartName: x, helmHome: h}]\n";
        let file = KustomizationFile::parse(text.as_bytes(), "/r").unwrap();
        let shown = chart_compat::json::to_string(&Data::Map(file.fields)).unwrap();
        let expected = r#"{"apiVersion":"kustomize.config.k8s.io/v1beta1","configMapGenerator":[{"envs":["c","b"],"name":"a"}],"helmCharts":[{"name":"x"}],"helmGlobals":{"configHome":"h"},"kind":"Kustomization"}"#;
        assert_eq!(shown, expected);
    }
}
