//! What decides which objects a chart's templates write.
//!
//! Owns no value: which ones to try is the caller's choice.

use std::collections::{BTreeMap, BTreeSet};

use super::chart_tree::ChartTree;
use super::reads::Reader;
use crate::chart::Chart;
use crate::path::{Path, Step};
use crate::profile::Profile;

/// What a chart's templates, and those of its subcharts, test before they write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Values in conditions, by their path in the root chart's values, with the texts that templates compare them with. Values of list
    /// items and of keys that a template does not name are left out.
    pub values: BTreeMap<Path, BTreeSet<String>>,
    /// Conditions and tags of dependencies.
    pub dependencies: BTreeSet<Path>,
    /// API versions that templates ask for with `.Capabilities.APIVersions.Has`.
    pub api_versions: BTreeSet<String>,
    /// Whether all templates were followed to their end.
    pub is_complete: bool,
}

/// Finds what decides which objects a chart's templates write.
///
/// ```
/// use chart_compat::{analysis::gates, chart::{File, load_files}, path::Path, profile::Profile};
///
/// let file = |name: &str, text: &str| File::new(name.to_owned(), text.as_bytes().to_vec());
/// let files = vec![
///     file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
///     file("templates/a.yaml", "{{ if and .Values.on (eq .Values.mode \"daemon\") }}kind: DaemonSet{{ end }}"),
/// ];
/// let chart = load_files(files, Profile::Helm4, &mut drop)?;
/// let found = gates(&chart, Profile::Helm4);
/// assert_eq!(found.values.len(), 2);
/// assert!(found.values[&Path::parse("mode").unwrap()].contains("daemon"));
/// # Ok::<(), chart_compat::chart::Error>(())
/// ```
#[must_use]
pub fn gates(chart: &Chart, profile: Profile) -> Gates {
    let tree = ChartTree::of(chart, profile);
    let mut reader = Reader::new(&tree.scopes, &tree.templates);
    for (name, number) in &tree.files {
        reader.file(name, *number);
    }
    let path = |keys: &[String]| Path(keys.iter().cloned().map(Step::Key).collect());
    let named = |keys: &&Vec<String>| !keys.is_empty() && keys.iter().all(|key| key != "*");
    let texts = |keys: &[String]| reader.compared.get(keys).cloned().unwrap_or_default();
    Gates {
        values: reader.gates.iter().filter(named).map(|keys| (path(keys), texts(keys))).collect(),
        dependencies: tree.conditions.iter().filter(named).map(|keys| path(keys)).collect(),
        api_versions: reader.api_versions.clone(),
        is_complete: reader.is_complete(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{File, load_files};

    fn found(files: &[(&str, &str)]) -> Gates {
        let metadata = ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        let own = files.iter().any(|(name, _)| *name == "Chart.yaml");
        let all = files.iter().chain((!own).then_some(&metadata));
        let files = all.map(|(name, text)| File::new((*name).to_owned(), text.as_bytes().to_vec())).collect();
        gates(&load_files(files, Profile::Helm4, &mut drop).unwrap(), Profile::Helm4)
    }

    fn shown(gates: &Gates) -> Vec<String> {
        let one = |(path, texts): (&Path, &BTreeSet<String>)| {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            if texts.is_empty() { path.to_string() } else { format!("{path}={}", texts.join(",")) }
        };
        gates.values.iter().map(one).collect()
    }

    #[test]
    fn conditions_are_found_through_variables_and_named_templates() {
        let helpers = "{{ define \"on\" }}{{ if .Values.inner }}true{{ end }}{{ end }}\
            {{ define \"kind\" }}{{ .Values.kind | lower }}{{ end }}";
        for (template, expected) in [
            ("{{ .Values.printed }}", &[][..]),
            ("{{ if .Values.a }}x{{ end }}", &["a"]),
            ("{{ if not (empty .Values.a) }}x{{ end }}", &["a"]),
            ("{{ if and .Values.a.b (or .Values.c $.Values.d) }}x{{ end }}", &["a.b", "c", "d"]),
            ("{{ with .Values.a }}{{ if .b }}x{{ end }}{{ end }}", &["a", "a.b"]),
            ("{{ range .Values.list }}{{ if .on }}x{{ end }}{{ end }}", &["list"]),
            ("{{ if eq .Values.a \"x\" }}{{ else if eq \"y\" .Values.a }}{{ end }}", &["a=x,y"]),
            ("{{ if .Values.a | toString | eq \"true\" }}x{{ end }}", &["a=true"]),
            ("{{ if has .Values.a (list \"x\" \"y\") }}x{{ end }}", &["a=x,y"]),
            ("{{ $on := eq .Values.a \"x\" }}{{ if $on }}x{{ end }}", &["a=x"]),
            ("kind: {{ ternary \"A\" \"B\" .Values.a }}", &["a"]),
            ("{{ if include \"on\" . }}x{{ end }}", &["inner"]),
            ("{{ include \"on\" . }}", &["inner"]),
            ("{{ if eq (include \"kind\" .) \"daemonset\" }}x{{ end }}", &["kind"]),
            ("{{ if hasKey .Values.a \"b\" }}x{{ end }}", &["a.b"]),
        ] {
            let gates = found(&[("templates/_h.tpl", helpers), ("templates/a.yaml", template)]);
            assert_eq!(shown(&gates), expected, "{template}");
            assert!(gates.is_complete);
        }
    }

    #[test]
    fn dependencies_and_api_versions_decide_too() {
        let metadata = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- name: sub\n  alias: db\n  version: 1.0.0\n  \
            condition: db.enabled,global.db\n  tags: [back]\n";
        let template = "{{ if .Capabilities.APIVersions.Has \"a.test/v1\" }}{{ if $.Capabilities.APIVersions.Has \"b.test/v1\" }}\
            {{ if .Values.global.x }}{{ end }}{{ end }}{{ end }}";
        let gates = found(&[
            ("Chart.yaml", metadata),
            ("templates/a.yaml", template),
            ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
            (
                "charts/sub/templates/a.yaml",
                "{{ if .Values.mine }}{{ if .Values.global.y }}{{ end }}{{ end }}",
            ),
        ]);
        assert_eq!(shown(&gates), ["db.mine", "global.x", "global.y"]);
        let dependencies: Vec<String> = gates.dependencies.iter().map(ToString::to_string).collect();
        assert_eq!(dependencies, ["db.enabled", "global.db", "tags.back"]);
        assert_eq!(gates.api_versions.iter().collect::<Vec<_>>(), ["a.test/v1", "b.test/v1"]);
    }
}
