//! How deprecated fields are written today.
//!
//! Owns the rewrites that `kustomize edit fix` makes, as text; changes no file.

use chart_compat::data::{Data, Map};
use chart_compat::json;

/// The longest rewrite that is shown; a longer one is described.
const LONGEST: usize = 400;

/// A line for each deprecated field.
pub(super) fn rewrites(fields: &Map) -> Vec<String> {
    let list = |key: &str| fields.get(key).and_then(Data::as_list).unwrap_or_default();
    let mut out = Vec::new();
    let mut say = |old: &str, new: &str, items: Vec<Data>, rule: &str| {
        if items.is_empty() {
            return;
        }
        out.push(match json::to_string(&Data::List(items)) {
            Ok(text) if text.len() <= LONGEST => format!("write '{old}' as {new}: {text}"),
            _ => format!("write '{old}' as '{new}': {rule}"),
        });
    };
    say("bases", "resources", list("bases").to_vec(), "append its items");
    let labels =
        fields.get("commonLabels").filter(|labels| labels.as_map().is_some_and(|map| !map.is_empty()));
    let labels = labels.map(|pairs| map([("pairs", pairs.clone()), ("includeSelectors", Data::Bool(true))]));
    say(
        "commonLabels",
        "labels",
        labels.into_iter().collect(),
        "one item {pairs: …, includeSelectors: true}",
    );
    say("imageTags", "images", list("imageTags").to_vec(), "the same items");
    let merges = list("patchesStrategicMerge").iter().map(|one| match one.as_str() {
        Some(text) if text.contains('\n') => map([("patch", Data::from(text))]),
        _ => map([("path", one.clone())]),
    });
    let rule = "{path: FILE} for each file, {patch: |- …} for each text";
    say("patchesStrategicMerge", "patches", merges.collect(), rule);
    say("patchesJson6902", "patches", list("patchesJson6902").to_vec(), "the same items");
    say(
        "vars",
        "replacements",
        list("vars").iter().map(replacement).collect(),
        "source: the object of the var; targets: the fields with $(NAME)",
    );
    for key in ["configMapGenerator", "secretGenerator"] {
        for (at, generator) in list(key).iter().enumerate() {
            let env = generator.get("env").filter(|env| env.as_str() != Some(""));
            say(&format!("{key}[{at}].env"), "envs", env.cloned().into_iter().collect(), "an item of it");
        }
    }
    let charts = list("helmChartInflationGenerator").iter().filter_map(Data::as_map);
    let charts = charts.map(|chart| Data::Map(super::chart_of_inflation(chart)));
    let rule = "chartName is name, chartVersion version, chartRepoUrl repo, values valuesFile, valuesLocal valuesInline";
    say("helmChartInflationGenerator", "helmCharts", charts.collect(), rule);
    out
}

fn map<const N: usize>(pairs: [(&str, Data); N]) -> Data {
    Data::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// The source of a var; its targets are the fields that hold `$(NAME)`.
fn replacement(var: &Data) -> Data {
    let mut source = Map::new();
    for key in ["kind", "name", "namespace"] {
        if let Some(value) = var.get("objref").and_then(|object| object.get(key)) {
            source.insert(key.to_owned(), value.clone());
        }
    }
    if let Some(path) = var.get("fieldref").and_then(|field| field.get("fieldPath")) {
        source.insert("fieldPath".to_owned(), path.clone());
    }
    let name = var.get("name").and_then(Data::as_str).unwrap_or_default();
    let field = Data::from(format!("the field that holds $({name})").as_str());
    let target =
        map([("select", map([("name", Data::from("its object"))])), ("fieldPaths", Data::List(vec![field]))]);
    map([("source", Data::Map(source)), ("targets", Data::List(vec![target]))])
}

#[cfg(test)]
mod tests {
    use super::super::KustomizationFile;

    #[test]
    fn deprecated_fields_are_shown_as_they_are_written_today() {
        let table = [
            ("bases: [../a]", r#"write 'bases' as resources: ["../a"]"#),
            (
                "commonLabels: {a: b}",
                r#"write 'commonLabels' as labels: [{"includeSelectors":true,"pairs":{"a":"b"}}]"#,
            ),
            (
                "imageTags: [{name: a, newTag: '1'}]",
                r#"write 'imageTags' as images: [{"name":"a","newTag":"1"}]"#,
            ),
            (
                "patchesStrategicMerge: [a.yaml, \"kind: A\\nspec: {}\"]",
                r#"write 'patchesStrategicMerge' as patches: [{"path":"a.yaml"},{"patch":"kind: A\nspec: {}"}]"#,
            ),
            (
                "patchesJson6902: [{path: p.yaml, target: {kind: A, name: b}}]",
                r#"write 'patchesJson6902' as patches: [{"path":"p.yaml","target":{"kind":"A","name":"b"}}]"#,
            ),
            (
                "vars: [{name: V, objref: {apiVersion: v1, kind: Service, name: web}}]",
                r#"write 'vars' as replacements: [{"source":{"kind":"Service","name":"web"},"targets":[{"fieldPaths":["the field that holds $(V)"],"select":{"name":"its object"}}]}]"#,
            ),
            (
                "secretGenerator: [{name: a, env: f.env}]",
                r#"write 'secretGenerator[0].env' as envs: ["f.env"]"#,
            ),
            (
                "helmChartInflationGenerator: [{chartName: x, values: v.yaml}]",
                r#"write 'helmChartInflationGenerator' as helmCharts: [{"name":"x","valuesFile":"v.yaml"}]"#,
            ),
        ];
        for (text, expected) in table {
            let file = KustomizationFile::parse(text.as_bytes(), "/r").unwrap();
            assert_eq!(file.hints, [expected], "{text}");
        }
        let long = format!("patchesStrategicMerge: [{}]", "a-file.yaml, ".repeat(60));
        let file = KustomizationFile::parse(long.as_bytes(), "/r").unwrap();
        assert!(
            file.hints[0].starts_with("write 'patchesStrategicMerge' as 'patches': {path: FILE}"),
            "{:?}",
            file.hints
        );
        let modern = KustomizationFile::parse(b"resources: [a]\nlabels: []\n", "/r").unwrap();
        assert!(modern.hints.is_empty());
    }
}
