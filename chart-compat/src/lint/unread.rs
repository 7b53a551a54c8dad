//! Finds unread keys of `values.yaml`.
//!
//! Owns the readers of values besides templates: conditions, tags and imports of dependencies, and texts passed to `tpl`.

use std::collections::{BTreeSet, HashMap};

use super::findings::Finding;
use super::reads::{Reader, Scope, ValuePath};
use crate::chart::{Chart, ValuesLines};
use crate::data::Data;
use crate::path::{Path, Step};
use crate::profile::Profile;
use crate::render::parse_template;
use crate::template::Outline;

/// A chart's tree, with the templates of all charts.
#[derive(Default)]
struct Tree<'c> {
    scopes: Vec<Scope>,
    charts: Vec<&'c Chart>,
    templates: HashMap<String, Vec<Outline>>,
    /// Template files to analyze: name and index of the chart.
    files: Vec<(String, usize)>,
    whole: BTreeSet<ValuePath>,
}

impl<'c> Tree<'c> {
    fn add(&mut self, chart: &'c Chart, value_path: &ValuePath, path: &str, profile: Profile) -> usize {
        let number = self.scopes.len();
        self.scopes.push(Scope { value_path: value_path.clone(), subcharts: Vec::new() });
        self.charts.push(chart);
        for (name, sub) in subcharts(chart) {
            let mut below = value_path.clone();
            below.push(name.to_owned());
            let sub = self.add(sub, &below, &format!("{path}/charts/{name}"), profile);
            self.scopes[number].subcharts.push((name.to_owned(), sub));
        }
        // A chart's own templates replace those of its subcharts.
        for file in &chart.templates {
            let name = format!("{path}/{}", file.name);
            let Ok(parsed) = parse_template(&name, &file.data, profile) else { continue };
            for template in &parsed {
                self.templates.insert(template.name().to_owned(), template.outline());
            }
            let base = name.rsplit('/').next().unwrap_or(&name);
            if !base.starts_with('_') && !chart.metadata.is_library() {
                self.files.push((name, number));
            }
        }
        self.dependencies(chart, value_path);
        number
    }

    /// Marks the values that the chart's dependencies read.
    fn dependencies(&mut self, chart: &Chart, value_path: &ValuePath) {
        let mut read = |keys: &mut dyn Iterator<Item = &str>| {
            let keys = keys.filter(|k| !k.is_empty()).map(str::to_owned);
            self.whole.insert(value_path.iter().cloned().chain(keys).collect());
        };
        for d in chart.metadata.dependencies.iter().flatten() {
            let name = if d.alias.is_empty() { &d.name } else { &d.alias };
            for condition in d.condition.split(',').map(str::trim).filter(|c| !c.is_empty()) {
                read(&mut condition.split('.'));
            }
            for import in d.import_values.iter().flatten() {
                match import {
                    Data::String(export) => {
                        read(&mut [name.as_str(), "exports"].into_iter().chain(export.split('.')));
                    }
                    other => {
                        let child = other.get("child").and_then(Data::as_str).unwrap_or_default();
                        read(&mut std::iter::once(name.as_str()).chain(child.split('.')));
                    }
                }
            }
        }
        read(&mut std::iter::once("tags"));
    }
}

/// A chart's subcharts with the names of their values.
fn subcharts(chart: &Chart) -> Vec<(&str, &Chart)> {
    let declared = || chart.metadata.dependencies.iter().flatten();
    let mut found = Vec::new();
    for sub in &chart.dependencies {
        let before = found.len();
        for d in declared().filter(|d| d.name == sub.name()) {
            found.push((if d.alias.is_empty() { d.name.as_str() } else { d.alias.as_str() }, sub));
        }
        if found.len() == before {
            found.push((sub.name(), sub));
        }
    }
    found
}

/// Unread keys of the chart's `values.yaml`; a map without any key that is read is reported once.
pub(super) fn find(chart: &Chart, profile: Profile) -> Vec<Finding> {
    let Some(text) = &chart.values_text else { return Vec::new() };
    let mut tree = Tree::default();
    tree.add(chart, &ValuePath::new(), chart.name(), profile);
    for (number, chart) in tree.charts.iter().enumerate() {
        let mut texts = Vec::new();
        chart.values.values().for_each(|v| strings(v, &mut texts));
        let files = chart.files.iter().map(|f| String::from_utf8_lossy(&f.data));
        let all = files.filter(|f| f.contains("{{")).map(std::borrow::Cow::into_owned).chain(texts);
        for value_path in all.flat_map(|text| value_paths_in(&text)) {
            // The caller of `tpl` determines which chart's values the text reads.
            tree.whole.insert(value_path.clone());
            tree.whole.insert(tree.scopes[number].value_path.iter().cloned().chain(value_path).collect());
        }
    }
    let mut reader = Reader::new(&tree.scopes, &tree.templates);
    for (name, number) in &tree.files {
        reader.file(name, *number);
    }
    if !reader.is_complete() {
        return Vec::new();
    }
    tree.whole.append(&mut reader.whole);
    let missing: Vec<&str> = chart
        .metadata
        .dependencies
        .iter()
        .flatten()
        .filter(|d| !chart.dependencies.iter().any(|c| c.name() == d.name))
        .map(|d| if d.alias.is_empty() { d.name.as_str() } else { d.alias.as_str() })
        .collect();
    let known = Known { whole: &tree.whole, tested: &reader.tested, scopes: &tree.scopes };
    let lines = ValuesLines::read(text);
    let mut unread = Vec::new();
    // `enabled` is usually the condition of a parent chart.
    let skipped = |key: &str| key == "enabled" || missing.contains(&key);
    for (key, value) in chart.values.iter().filter(|(key, _)| !skipped(key)) {
        known.check(&mut vec![key.clone()], value, &mut unread);
    }
    let finding = |value_path: ValuePath| {
        let path = Path(value_path.into_iter().map(Step::Key).collect());
        Finding {
            rule: "unread-value",
            file: "values.yaml".to_owned(),
            line: lines.line_of(&path),
            text: format!("no template reads {path}"),
        }
    };
    unread.into_iter().map(finding).collect()
}

/// The values known to be read.
struct Known<'k> {
    whole: &'k BTreeSet<ValuePath>,
    tested: &'k BTreeSet<ValuePath>,
    scopes: &'k [Scope],
}

impl Known<'_> {
    fn check(&self, value_path: &mut ValuePath, value: &Data, unread: &mut Vec<ValuePath>) {
        if self.whole.iter().any(|read| is_prefix(read, value_path))
            || self.tested.iter().any(|tested| same(tested, value_path)) && !has_keys(value)
        {
            return;
        }
        // A chart's own file may set globals for one subchart; they are reported as its globals.
        let own = |s: &Scope| {
            value_path
                .strip_prefix(&s.value_path[..])
                .and_then(|rest| rest.first())
                .is_some_and(|k| k == "global")
        };
        if value_path.first().is_some_and(|k| k != "global") && self.scopes.iter().any(own) {
            return;
        }
        let below = self.whole.iter().chain(self.tested).any(|read| is_prefix(value_path, read));
        match value {
            Data::Map(map) if below && !map.is_empty() => {
                for (key, value) in map {
                    value_path.push(key.clone());
                    self.check(value_path, value, unread);
                    value_path.pop();
                }
            }
            _ if below => {}
            _ => unread.push(value_path.clone()),
        }
    }
}

fn has_keys(value: &Data) -> bool {
    value.as_map().is_some_and(|m| !m.is_empty())
}

fn steps_match(a: &str, b: &str) -> bool {
    a == b || a == "*" || b == "*"
}

fn is_prefix(short: &ValuePath, long: &ValuePath) -> bool {
    short.len() <= long.len() && short.iter().zip(long).all(|(a, b)| steps_match(a, b))
}

fn same(a: &ValuePath, b: &ValuePath) -> bool {
    a.len() == b.len() && is_prefix(a, b)
}

/// The texts below a value that contain actions.
fn strings(value: &Data, out: &mut Vec<String>) {
    match value {
        Data::String(text) if text.contains("{{") => out.push(text.clone()),
        Data::List(items) => items.iter().for_each(|v| strings(v, out)),
        Data::Map(map) => map.values().for_each(|v| strings(v, out)),
        _ => {}
    }
}

/// The paths after each `.Values` of a text.
fn value_paths_in(text: &str) -> Vec<ValuePath> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let value_path = |rest: &str| -> ValuePath {
        let mut value_path = ValuePath::new();
        let mut rest = rest;
        while let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(|c| !word(c)).unwrap_or(tail.len());
            if end == 0 {
                break;
            }
            value_path.push(tail[..end].to_owned());
            rest = &tail[end..];
        }
        value_path
    };
    text.split(".Values").skip(1).map(value_path).collect()
}
