//! The fixtures with an expected error, each as a chart and the flags of a command.
//!
//! A fixture is not listed by name: every directory of `fixtures/` is read, and what fails there is taken. Fixtures that are a
//! template, a schema or a text of YAML become charts below `made/`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use windlass_testing::write_file;

/// A command line that fails.
pub(super) struct Case {
    /// Where it comes from, for messages.
    pub(super) name: String,
    /// The chart's directory, from the root of the tree.
    pub(super) chart: String,
    /// Flags that every command knows: values.
    pub(super) values: Vec<String>,
    /// Flags that only `template` knows.
    pub(super) template: Vec<String>,
}

/// All cases of a copy of `fixtures/` and `modules/`; adds charts below `made/`.
pub(super) fn collect(tree: &Path) -> Vec<Case> {
    let mut cases = Vec::new();
    for directory in names(&tree.join("fixtures")) {
        match directory.as_str() {
            "charts" | "modules" => charts(tree, &directory, &mut cases),
            "lint" => lint(tree, &mut cases),
            "templates" => templates(tree, &mut cases),
            "yaml" => documents(tree, &mut cases),
            "schema" => schemas(tree, &mut cases),
            "answers" => answers(tree, &mut cases),
            // Command lines, schedules, jq programs, states of objects, kustomizations, Flux's schemas, events and values, merges, states of HelmReleases, encrypted files, inputs of any
            // kind, and charts
            // that render: no error of a chart.
            "chart-resources"
            | "client-apply"
            | "commands"
            | "flux-api"
            | "flux-notify"
            | "flux-values"
            | "fuzz"
            | "helm-controller"
            | "helmfile"
            | "hooks"
            | "keel"
            | "kustomize"
            | "kustomize-generated"
            | "post-render"
            | "readiness"
            | "reloader"
            | "replay"
            | "sops"
            | "recorded.txt" => {}
            other => panic!("fixtures/{other}: which of its fixtures fail?"),
        }
    }
    cases
}

/// Cases that some Helm refuses: standard output is recorded where it succeeded.
fn charts(tree: &Path, kind: &str, cases: &mut Vec<Case>) {
    for name in names(&tree.join("fixtures").join(kind)) {
        let fixture = format!("fixtures/{kind}/{name}");
        for case in names(&tree.join(&fixture).join("cases")) {
            let path = format!("{fixture}/cases/{case}");
            let exists = |file: &str| tree.join(&path).join(file).is_file();
            let fails = ["helm4", "helm3"].iter().any(|profile| {
                exists(&format!("expected.{profile}.err")) && !exists(&format!("expected.{profile}.yaml"))
            });
            if !fails {
                continue;
            }
            let read = |file: &str| fs::read_to_string(tree.join(&path).join(file)).unwrap_or_default();
            let own = match kind {
                "charts" => format!("{fixture}/chart"),
                _ => format!("modules/{name}"),
            };
            let (mut values, mut template) = (Vec::new(), Vec::new());
            if exists("values.yaml") {
                values.extend(["--values".to_owned(), format!("{path}/values.yaml")]);
            }
            let text = read("args.txt");
            let mut words = text.lines().map(str::to_owned).peekable();
            while let Some(flag) = words.next() {
                let shared = ["--values", "--set"].iter().any(|f| flag.starts_with(f));
                let list = if shared { &mut values } else { &mut template };
                list.push(flag);
                list.extend(words.next_if(|word| !word.starts_with('-')));
            }
            let chart = format!("{own}/{}", read("chart.txt").trim());
            cases.push(Case { name: path, chart, values, template });
        }
    }
}

fn lint(tree: &Path, cases: &mut Vec<Case>) {
    let recorded = fs::read_to_string(tree.join("fixtures/lint/recorded.txt")).unwrap();
    for answer in recorded.split("=== lint ").skip(1).filter(|a| a.trim_end().ends_with("exit 1")) {
        let chart = answer.lines().next().unwrap().split(' ').next_back().unwrap();
        let of_lint = chart.starts_with("fixtures/lint/") && tree.join(chart).is_dir();
        if of_lint && cases.iter().all(|case| case.chart != chart) {
            let (name, chart) = (chart.to_owned(), chart.to_owned());
            cases.push(Case { name, chart, values: Vec::new(), template: Vec::new() });
        }
    }
}

/// Templates that Go's engine refuses.
fn templates(tree: &Path, cases: &mut Vec<Case>) {
    let answers = json_file(tree, "fixtures/templates/answers.json");
    for (number, answer) in failing(&answers["answers"]).enumerate() {
        let text = answer["template"].as_str().unwrap();
        let template =
            format!("{{{{ define \"probe\" }}}}{text}{{{{ end }}}}{{{{ template \"probe\" .Values }}}}");
        let files = [("values.yaml", answers["data"].to_string()), ("templates/probe.yaml", template)];
        cases.push(made(tree, format!("templates-{number}"), &files));
    }
}

/// Documents that go-yaml refuses, as values.
fn documents(tree: &Path, cases: &mut Vec<Case>) {
    for (number, answer) in failing(&json_file(tree, "fixtures/yaml/answers.json")).enumerate() {
        cases.push(of_values(tree, format!("yaml-{number}"), answer["input"].as_str().unwrap()));
    }
}

/// Values that a schema refuses, as subcharts of one chart: Helm tells of the breaches of all of them.
fn schemas(tree: &Path, cases: &mut Vec<Case>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("chart-compat/src/render/schema/cases.txt");
    let text = fs::read_to_string(path).unwrap();
    let parent = made(tree, "schemas".to_owned(), &[]);
    for (number, block) in text.split("\n\n").filter(|block| block.contains("\n|")).enumerate() {
        let after = |word: &str| block.lines().find_map(|line| line.strip_prefix(word)).unwrap().to_owned();
        let metadata = format!("apiVersion: v2\nname: s{number}\nversion: 1.0.0\n");
        let files = [
            ("Chart.yaml", metadata),
            ("values.schema.json", after("schema ")),
            ("values.yaml", after("values ")),
        ];
        made(tree, format!("schemas/charts/s{number}"), &files);
    }
    cases.push(parent);
}

/// Questions to Helm's own code that it answers with an error.
fn answers(tree: &Path, cases: &mut Vec<Case>) {
    let values = json_file(tree, "fixtures/answers/questions.json")["values"].to_string();
    for (number, answer) in failing(&json_file(tree, "fixtures/answers/answers.json")).enumerate() {
        let (kind, text) = (answer["kind"].as_str().unwrap(), answer["text"].as_str().unwrap());
        let name = format!("{kind}-{number}");
        let values = ("values.yaml", values.clone());
        cases.push(match kind {
            "template" | "manifests" => made(tree, name, &[values, ("templates/a.yaml", text.to_owned())]),
            "yaml" => of_values(tree, name, text),
            "set" | "json" => {
                let mut case = made(tree, name, &[values]);
                let flag = if kind == "set" { "--set" } else { "--set-json" };
                case.values.push(format!("{flag}={text}"));
                case
            }
            "chart" => {
                let files: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap();
                let files: Vec<(&str, String)> = files
                    .iter()
                    .map(|(name, text)| (name.as_str(), text.as_str().unwrap().to_owned()))
                    .collect();
                made(tree, name, &files)
            }
            other => panic!("fixtures/answers: {other}: what fails there?"),
        });
    }
}

fn failing(answers: &Value) -> impl Iterator<Item = &Value> {
    answers.as_array().unwrap().iter().filter(|answer| answer.get("error").is_some())
}

/// A chart of these files.
fn made(tree: &Path, name: String, files: &[(&str, String)]) -> Case {
    let chart = format!("made/{name}");
    let metadata = ("Chart.yaml", "apiVersion: v2\nname: probe\nversion: 1.0.0\n".to_owned());
    for (file, text) in std::iter::once(&metadata).chain(files) {
        write_file(tree.join(&chart).join(file), text);
    }
    Case { name, chart, values: Vec::new(), template: Vec::new() }
}

/// A chart with one object, and a file of values.
fn of_values(tree: &Path, name: String, text: &str) -> Case {
    let object = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n".to_owned();
    let mut case = made(tree, name, &[("templates/a.yaml", object), ("values.txt", text.to_owned())]);
    case.values = vec!["--values".to_owned(), format!("{}/values.txt", case.chart)];
    case
}

fn json_file(tree: &Path, path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(tree.join(path)).unwrap()).unwrap_or_else(|_| json!([]))
}

/// Names in a directory, in order.
pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
