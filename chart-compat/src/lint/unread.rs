//! Finds unread keys of `values.yaml`.
//!
//! Owns what is a finding, and the readers of values that the analysis of templates does not follow: texts passed to `tpl`.

use std::collections::BTreeSet;

use super::findings::Finding;
use crate::analysis::{ChartTree, Reader, Scope, ValuePath};
use crate::chart::{Chart, ValuesLines};
use crate::data::Data;
use crate::path::{Path, Step};
use crate::profile::Profile;

/// Unread keys of the chart's `values.yaml`; a map without any key that is read is reported once.
pub(super) fn find(chart: &Chart, profile: Profile) -> Vec<Finding> {
    let Some(text) = &chart.values_text else { return Vec::new() };
    let mut tree = ChartTree::of(chart, profile);
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
