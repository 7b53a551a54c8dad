//! Windlass's own lint rules, for problems that Helm does not report.
//!
//! Owns the rules; each reports the file and, if known, the line.

use std::collections::BTreeSet;
use std::convert::Infallible;

use super::templates::render;
use super::{Options, Subject, manifests, unread};
use crate::chart::{Chart, ValuesLines, merge_maps, other_versions};
use crate::data::{Data, Map};
use crate::explain::{Layers, Origin, Trace};
use crate::path::Path;
use crate::render::check_schema;
use crate::template::{Diagnostic, DiagnosticKind};
use crate::yaml::{Content, Node, plain_meaning};

/// A problem found by a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the chart's directory.
    pub file: String,
    /// The line, from 1, if known.
    pub line: Option<u32>,
    /// The rule's name.
    pub rule: &'static str,
    /// The problem.
    pub text: String,
}

/// Problems that Helm does not report, by file and line.
#[must_use]
pub fn findings(subject: &Subject<'_>, options: &Options<'_>) -> Vec<Finding> {
    let mut found = BTreeSet::new();
    if let Some(text) = &subject.values {
        booleans(text, &mut found);
    }
    if let Ok(chart) = &subject.chart {
        refused_globals(chart, chart.name(), options, &mut found);
        found.extend(other_versions(chart).iter().map(|other| Finding {
            file: "Chart.yaml".to_owned(),
            line: None,
            rule: "dependency-version",
            text: other.to_string(),
        }));
        ignored_nulls(chart, options, &mut found);
        found.extend(unread::find(chart, options.profile));
        if let Some(rendered) = render(subject, options, &mut |_| {}) {
            let prefix = format!("{}/", chart.name());
            let mut numbers = BTreeSet::new();
            for notice in &rendered.diagnostics {
                if let (Some(finding), DiagnosticKind::Printed(text)) =
                    (printed(notice, &prefix), &notice.kind)
                    && finding.rule == EXPONENT
                {
                    numbers.insert(text.clone());
                }
                found.extend(printed(notice, &prefix));
            }
            found.extend(manifests::find(chart, rendered.files.as_deref().unwrap_or_default(), &numbers));
        }
    }
    found.into_iter().collect()
}

pub(super) const EXPONENT: &str = "exponent";

/// Schemas of subcharts that refuse `global`.
fn refused_globals(chart: &Chart, path: &str, options: &Options<'_>, found: &mut BTreeSet<Finding>) {
    for sub in &chart.dependencies {
        let below = sub.path_below(path);
        if let Some(schema) = &sub.schema {
            let mut values = Map::clone(&sub.values);
            values.remove("global");
            let speaks_of_global = |values: &Map| {
                let refused = check_schema(schema, values, options.world).err();
                refused.is_some_and(|text| text.contains("'global'") || text.contains("/global'"))
            };
            let without = speaks_of_global(&values);
            values.insert("global".to_owned(), Data::Map(Map::new()));
            if !without && speaks_of_global(&values) {
                let file = below.split_once('/').map_or(&*below, |(_, path)| path);
                found.insert(Finding {
                    file: format!("{file}/values.schema.json"),
                    line: None,
                    rule: "schema-refuses-global",
                    text: "it refuses global, which Helm adds to the values of every subchart; allow it in properties".to_owned(),
                });
            }
        }
        refused_globals(sub, &below, options, found);
    }
}

/// Nulls of the chart's values that do not delete the defaults of subcharts.
fn ignored_nulls(chart: &Chart, options: &Options<'_>, found: &mut BTreeSet<Finding>) {
    let mut layers = Layers::default();
    let merge = |values: &mut Map| {
        merge_maps(values, options.values.clone());
        Ok::<_, Infallible>(())
    };
    let Ok(()) = layers.add("values", false, None, merge);
    let Ok(trace) = Trace::new(chart, layers, options.profile) else { return };
    for ignored in trace.ignored_nulls(&Path::default()) {
        let Origin::Chart { file, line } = &ignored.null else { continue };
        let file = file.split_once('/').map_or(file.as_str(), |(_, path)| path).to_owned();
        found.insert(Finding { file, line: *line, rule: "ignored-null", text: ignored.to_string() });
    }
}

/// Unquoted words of a values file that are booleans in YAML 1.1.
fn booleans(text: &[u8], found: &mut BTreeSet<Finding>) {
    for (before, node) in ValuesLines::read(text).documents() {
        words(node, *before, found);
    }
}

fn words(node: &Node, before: u32, found: &mut BTreeSet<Finding>) {
    match &node.content {
        Content::Scalar { text, plain: true }
            if plain_meaning(text) == Some("bool")
                && !matches!(text.to_ascii_lowercase().as_str(), "true" | "false") =>
        {
            let line = Some(before + node.line);
            let text =
                format!("{text} without quotes is a boolean in YAML 1.1; write true or false, or quote it");
            found.insert(Finding { file: "values.yaml".to_owned(), line, rule: "yaml-boolean", text });
        }
        Content::List(items) => items.iter().for_each(|item| words(item, before, found)),
        Content::Map(entries) => {
            for entry in entries {
                if entry.plain && entry.key != entry.written && plain_meaning(&entry.written) == Some("bool")
                {
                    let (key, written) = (&entry.key, &entry.written);
                    let text = format!("the key {written} without quotes is {key} in YAML 1.1; quote it");
                    let line = Some(before + entry.line);
                    found.insert(Finding {
                        file: "values.yaml".to_owned(),
                        line,
                        rule: "yaml-boolean",
                        text,
                    });
                }
                words(&entry.value, before, found);
            }
        }
        _ => {}
    }
}

/// Converts a diagnostic of the chart's own templates or its subcharts' to a finding.
fn printed(notice: &Diagnostic, prefix: &str) -> Option<Finding> {
    let frame = &notice.frame;
    let file = match frame.file.as_str() {
        "gotpl" => "(text given to tpl)".to_owned(),
        file => file.strip_prefix(prefix).unwrap_or(file).to_owned(),
    };
    let line = u32::try_from(frame.line).ok();
    let node = frame.node.strip_prefix("{{").and_then(|n| n.strip_suffix("}}")).unwrap_or(&frame.node);
    let (rule, text) = match &notice.kind {
        DiagnosticKind::NoValue => ("no-value", format!("{node} has no value: nothing is printed")),
        DiagnosticKind::Printed(text) if plain_meaning(text) == Some("number") && text.contains("e+") => {
            let shown = if is_plain_field(node) { node } else { action(notice).unwrap_or(node) };
            (EXPONENT, format!("{shown} prints {text}; pass it through int64 or quote it in the values"))
        }
        DiagnosticKind::Printed(text) => {
            let meaning = plain_meaning(text)?;
            // An empty text is what the chart intends.
            let empty = text.is_empty();
            if empty
                || !file.ends_with(".yaml") && !file.ends_with(".yml")
                || !is_plain_field(node)
                || !stands_alone(notice)
            {
                return None;
            }
            (
                "unquoted-text",
                format!("the text {text:?} of {node} is printed without quotes and read as a {meaning}"),
            )
        }
        DiagnosticKind::Missing(_) | DiagnosticKind::Empty(_) | DiagnosticKind::Failed(_) => return None,
    };
    Some(Finding { file, line, rule, text })
}

/// Whether a node is a chain of fields and nothing else.
fn is_plain_field(node: &str) -> bool {
    node.starts_with(['.', '$']) && !node.contains([' ', '(', '|', '"'])
}

/// The action around a node, without its braces, if it is on one line.
fn action(notice: &Diagnostic) -> Option<&str> {
    let frame = &notice.frame;
    let line = frame.source.0.split(|c| *c == b'\n').nth(frame.line.saturating_sub(1))?;
    let line = std::str::from_utf8(line).ok()?;
    let start = line.get(..frame.column)?.rfind("{{")? + 2;
    let end = start + line.get(start..)?.find("}}")?;
    (end > frame.column).then(|| line[start..end].trim_matches(['-', ' ', '\t']))
}

/// Whether an action is the whole of a plain YAML value on its line.
fn stands_alone(notice: &Diagnostic) -> bool {
    let frame = &notice.frame;
    let line = frame.source.0.split(|c| *c == b'\n').nth(frame.line.saturating_sub(1)).unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let (Some(before), Some(after)) = (line.get(..frame.column), line.get(frame.column..)) else {
        return false;
    };
    // Go's column of a chain of fields is behind the first field.
    let Some(before) = before.rfind("{{").map(|n| before[..n].trim_end()) else { return false };
    let after = after.split_once("}}").map_or("", |(_, after)| after);
    (before.ends_with(':') || before.trim_start() == "-") && after.trim().is_empty()
}
