//! Rules for rendered manifests: duplicate keys, duplicate objects, numbers with an exponent.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::{EXPONENT, Finding};
use crate::chart::Chart;
use crate::yaml::{self, Content, Node};

/// Findings in the rendered files; numbers with an exponent only if the diagnostics of the templates do not have them: `known`.
pub(super) fn find(chart: &Chart, files: &[(String, String)], known: &BTreeSet<String>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut objects: BTreeMap<String, String> = BTreeMap::new();
    let prefix = format!("{}/", chart.name());
    for (path, text) in files.iter().filter(|f| f.0.ends_with(".yaml") || f.0.ends_with(".yml")) {
        let source = source(chart, path).unwrap_or_default();
        let file = path.strip_prefix(&prefix).unwrap_or(path).to_owned();
        for (before, doc) in documents(text) {
            let Ok(head) = yaml::head(doc.as_bytes()) else { continue };
            let Ok(node) = yaml::spanned(doc.as_bytes()) else { continue };
            let mut walk = Walk { duplicates: Vec::new(), exponents: Vec::new() };
            walk.node(&node, &mut Vec::new());
            let object = match (head.kind.as_str(), head.name.as_str()) {
                ("", _) => "the document".to_owned(),
                (kind, "") => kind.to_owned(),
                (kind, name) => format!("{kind} {name}"),
            };
            for (line, value_path, key) in walk.duplicates {
                let at = line_of(&source, &format!("{key}:"), before + line);
                let text = format!(
                    "{value_path} is set twice in {object} (line {} of the rendered file)",
                    before + line
                );
                found.push(Finding { file: file.clone(), line: at, rule: "duplicate-key", text });
            }
            for (line, value_path, value) in
                walk.exponents.into_iter().filter(|(.., value)| !known.contains(value))
            {
                let key = value_path.rsplit('.').next().unwrap_or_default();
                let at = line_of(&source, &format!("{key}:"), before + line);
                let text = format!(
                    "{value_path} of {object} is {value} (line {} of the rendered file)",
                    before + line
                );
                found.push(Finding { file: file.clone(), line: at, rule: EXPONENT, text });
            }
            if head.kind.is_empty() || head.name.is_empty() || head.annotation("helm.sh/hook").is_some() {
                continue;
            }
            let group = head.api_version.split_once('/').map_or("", |(group, _)| group);
            let key = format!("{group}/{}/{}/{}", head.kind, head.namespace, head.name);
            if let Some(first) = objects.insert(key, file.clone()) {
                let at = line_of(&source, &format!("kind: {}", head.kind), before + 1);
                let text = format!("{object} is made here and in {first}");
                found.push(Finding { file: file.clone(), line: at, rule: "duplicate-object", text });
            }
        }
    }
    found
}

/// The documents of a rendered file, each with the number of lines before it.
fn documents(text: &str) -> Vec<(u32, String)> {
    let mut docs = vec![(0, String::new())];
    for (number, line) in (1u32..).zip(text.split_inclusive('\n')) {
        if line.starts_with("---") {
            docs.push((number, String::new()));
        } else if let Some((_, doc)) = docs.last_mut() {
            doc.push_str(line);
        }
    }
    docs.retain(|(_, doc)| !doc.trim().is_empty());
    docs
}

/// The text of a template by its path in a render.
fn source(chart: &Chart, path: &str) -> Option<String> {
    let rest = path.strip_prefix(chart.name())?.strip_prefix('/')?;
    if let Some(file) = chart.templates.iter().find(|f| f.name == rest) {
        return Some(String::from_utf8_lossy(&file.data).into_owned());
    }
    let below = rest.strip_prefix("charts/")?;
    chart.dependencies.iter().find_map(|sub| source(sub, below))
}

/// The line on which a template writes `text`; of several, the one nearest to the rendered line.
fn line_of(source: &str, text: &str, rendered: u32) -> Option<u32> {
    let starts = |line: &str| line.trim_start().trim_start_matches("- ").starts_with(text);
    let lines = (1u32..).zip(source.lines()).filter(|(_, l)| starts(l)).map(|(n, _)| n);
    lines.min_by_key(|n| n.abs_diff(rendered))
}

struct Walk {
    /// Line, path and key.
    duplicates: Vec<(u32, String, String)>,
    /// Line, path and value.
    exponents: Vec<(u32, String, String)>,
}

impl Walk {
    fn node(&mut self, node: &Node, value_path: &mut Vec<String>) {
        match &node.content {
            Content::Scalar { text, .. } if is_exponent(text) => {
                self.exponents.push((node.line, value_path.join("."), text.clone()));
            }
            Content::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    value_path.push(i.to_string());
                    self.node(item, value_path);
                    value_path.pop();
                }
            }
            Content::Map(entries) => {
                let mut keys = BTreeSet::new();
                for entry in entries {
                    value_path.push(entry.key.clone());
                    let merge = entry.plain && entry.written == "<<";
                    if !merge && !keys.insert(&entry.key) {
                        self.duplicates.push((entry.line, value_path.join("."), entry.written.clone()));
                    }
                    self.node(&entry.value, value_path);
                    value_path.pop();
                }
            }
            Content::Scalar { .. } | Content::Alias(_) | Content::Nothing => {}
        }
    }
}

/// Whether a text is a number as Go prints large floats: `1e+06`, `1.5e+07`.
fn is_exponent(text: &str) -> bool {
    let Some((digits, exponent)) = text.split_once("e+") else { return false };
    let digits = digits.strip_prefix('-').unwrap_or(digits);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all = |s: &str| !s.is_empty() && s.bytes().all(|c| c.is_ascii_digit());
    whole.len() == 1 && all(whole) && all(fraction) && all(exponent)
}
