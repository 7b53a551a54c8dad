//! Converts errors of the renderer to reports.
//!
//! Owns the selection of source lines and the description of the values behind an error. Never shows values, which may be secret:
//! reports are logged.

use super::nearest::nearest;
use super::report::{Place, Report};
use super::trace::{Added, Explanation, Origin, Trace};
use crate::chart;
use crate::data::Data;
use crate::path::{Path, Step};
use crate::render::{Breach, Error};
use crate::template::{Frame, Used};

/// The maximal number of callers shown for a failing template.
const MAX_CALLERS: usize = 6;
/// The maximal number of schema violations explained.
const MAX_BREACHES: usize = 10;

/// The context of a failed render; `None` if Helm's error text is complete. `trace` has the origins of values.
#[must_use]
pub fn render_report(error: &Error, trace: Option<&Trace>) -> Option<Report> {
    match error {
        Error::Template { reason, frames, scope, .. } => template_report(reason, frames, scope, trace),
        Error::Yaml { path, problem, document, line: Some(line), .. } => {
            Some(manifest_report(path, problem, document, *line))
        }
        Error::Schema { breaches, .. } => schema_report(breaches, trace?),
        Error::Chart(e) | Error::Dependencies(e) => chart_report(e),
        Error::Yaml { line: None, .. }
        | Error::KubeVersion { .. }
        | Error::Objects { .. }
        | Error::Context { .. } => None,
    }
}

/// The line of a chart's file that cannot be parsed.
#[must_use]
pub fn chart_report(error: &chart::Error) -> Option<Report> {
    match error {
        chart::Error::File { file, problem, line: Some(line), content, .. } => {
            Some(file_report(file, content, *line, problem))
        }
        chart::Error::Subchart { name, source, .. } => {
            let mut report = chart_report(source)?;
            for place in &mut report.places {
                place.file = format!("charts/{name}/{}", place.file);
            }
            Some(report)
        }
        _ => None,
    }
}

/// A line of a file that cannot be parsed, such as a values file.
#[must_use]
pub fn file_report(name: &str, text: &[u8], line: u32, reason: &str) -> Report {
    let place = Place { label: short(reason), ..Place::new(name, text, line as usize, 1) };
    Report { message: reason.to_owned(), places: vec![place], notes: Vec::new() }
}

/// The first line of a message.
fn short(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

fn template_report(
    reason: &str,
    frames: &[Frame],
    scope: &[String],
    trace: Option<&Trace>,
) -> Option<Report> {
    let (inner, callers) = frames.split_last()?;
    let mut places = vec![place(inner, 1)];
    if let Some(first) = places.first_mut() {
        first.label = short(reason);
    }
    places.extend(callers.iter().rev().take(MAX_CALLERS).map(|f| place(f, 0)));
    let mut notes = Vec::new();
    for used in &inner.used {
        value_notes(used, scope, trace, &mut notes);
    }
    if callers.len() > MAX_CALLERS {
        notes.push(("note", format!("{} more calls led here", callers.len() - MAX_CALLERS)));
    }
    Some(Report { message: reason.to_owned(), places, notes })
}

fn place(frame: &Frame, around: usize) -> Place {
    let file = if frame.file == "gotpl" { "(text given to tpl)" } else { &frame.file };
    let mut place = Place::new(file, &frame.source.0, frame.line, around);
    if frame.template.is_empty() {
        // A parse error has no column.
        return place;
    }
    let line = frame.source.0.split(|c| *c == b'\n').nth(frame.line.saturating_sub(1)).unwrap_or_default();
    let (start, end) = span(line, frame.column, &frame.node);
    let chars = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count();
    place.columns = Some((chars(&line[..start]), chars(&line[start..end])));
    place
}

/// The bytes of a line that belong to a node. Go's column lies within the node; for a chain of fields, after its first one.
fn span(line: &[u8], column: usize, node: &str) -> (usize, usize) {
    let node = node.strip_prefix("{{").unwrap_or(node);
    let node = node.strip_suffix("}}").unwrap_or(node).as_bytes();
    let column = column.min(line.len());
    let from = column.saturating_sub(node.len());
    let found = line.get(from..).unwrap_or_default();
    if let Some(n) = memchr::memmem::find(found, node).filter(|_| !node.is_empty())
        && from + n <= column
    {
        return (from + n, from + n + node.len());
    }
    let rest = &line[column..];
    let close = memchr::memmem::find(rest, b"}}").unwrap_or(rest.len());
    let length = rest[..close].trim_ascii_end().len();
    (column, column + length)
}

/// Converts a path as a template writes it to a path in the root chart's values.
fn values_path(path: &Path, scope: &[String]) -> Option<Path> {
    let mut scope = scope.to_vec();
    let mut rest = &path.0[..];
    loop {
        match rest {
            [Step::Key(subcharts), Step::Key(name), tail @ ..] if subcharts == "Subcharts" => {
                scope.push(name.clone());
                rest = tail;
            }
            [Step::Key(values), tail @ ..] if values == "Values" && !tail.is_empty() => {
                return Some(Path(tail.to_vec()).below(&scope));
            }
            _ => return None,
        }
    }
}

fn value_notes(
    used: &Used,
    scope: &[String],
    trace: Option<&Trace>,
    notes: &mut Vec<(&'static str, String)>,
) {
    let Some(way) = &used.path else { return };
    let Some(full) = values_path(way, scope) else { return };
    // `path` starts with `Values`, `full` with the names of subcharts instead.
    let missing_steps = way.0.len() - used.present;
    let shown = |path: &Path| {
        let inner = path.0.strip_prefix(&Path::default().below(scope).0[..]).unwrap_or(&path.0);
        format!(".Values.{}", Path(inner.to_vec()))
    };
    let whole = shown(&full);
    let alias = if used.text == whole { String::new() } else { format!("{} is {whole}: ", used.text) };
    if missing_steps == 0 {
        let Some(trace) = trace else { return };
        let e = trace.explain(&full);
        let Some(value) = &e.value else { return };
        let origin = origin(&e).map_or_else(String::new, |o| format!(", set in {o}"));
        let what = kind(value);
        notes.push((
            "value",
            if alias.is_empty() {
                format!("{whole} is {what}{origin}")
            } else {
                format!("{alias}{what}{origin}")
            },
        ));
        return;
    }
    let first_missing = Path(full.0[..=full.0.len() - missing_steps].to_vec());
    let parent = Path(full.0[..full.0.len() - missing_steps].to_vec());
    if let Some(e) = trace.map(|t| t.explain(&parent)).filter(|_| !parent.0.is_empty())
        && let Some(value) = e.value.as_ref().filter(|v| v.as_map().is_none())
    {
        let origin = origin(&e).map_or_else(String::new, |o| format!(" (set in {o})"));
        let what = kind(value);
        notes.push(("value", format!("{alias}{} is {what}{origin}: it has no fields", shown(&parent))));
        return;
    }
    let shown_missing = shown(&first_missing);
    let why = trace.map(|t| t.explain(&first_missing)).and_then(|e| e.settings.into_iter().next());
    let unset = why.is_none();
    let why = match why {
        Some(s) if s.value == Data::Null => match &s.origin {
            Origin::Layer { .. } => format!("is null: {} deletes it", s.origin),
            origin => format!("is null in {origin}"),
        },
        Some(s) => format!("is not there, though {} sets it", s.origin),
        None => "is not there: nobody sets it".to_owned(),
    };
    notes.push(("value", format!("{alias}{shown_missing} {why}")));
    // An unset value is not a misspelling.
    if let Some(better) = trace.filter(|_| unset).and_then(|t| t.suggest(&full)) {
        let set = trace.map(|t| t.explain(&better)).as_ref().and_then(origin);
        let set = set.map_or_else(String::new, |o| format!(" ({o})"));
        notes.push(("help", format!("did you mean {}?{set}", shown(&better))));
    }
}

/// Where the effective value was set, or any of its origins if no single one has all of it.
fn origin(e: &Explanation) -> Option<String> {
    e.settings.iter().find(|s| s.wins).or_else(|| e.settings.first()).map(|s| match &s.origin {
        Origin::Layer { is_file: false, line: None, name } => format!("{name} {}", s.path),
        other => other.to_string(),
    })
}

fn kind(value: &Data) -> &'static str {
    match value {
        Data::Null => "null",
        Data::Bool(_) => "a boolean",
        Data::Int(_) | Data::Float(_) => "a number",
        Data::String(s) if s.is_empty() => "an empty text",
        Data::String(_) => "a text",
        Data::List(_) => "a list",
        Data::Map(_) => "a map",
    }
}

fn manifest_report(path: &str, reason: &str, document: &str, line: u32) -> Report {
    let mut place = Place::new(path, document.as_bytes(), line as usize, 2);
    let mut notes = vec![("note", "the lines are those of the rendered document".to_owned())];
    if document.lines().any(|l| l.trim_end() == "kind: Secret") {
        for (_, text) in &mut place.lines {
            if text.starts_with("kind:") || text.starts_with("apiVersion:") {
                continue;
            }
            if let Some(n) = text.find(": ") {
                text.truncate(n + 2);
                text.push('…');
            } else if !text.trim_end().ends_with(':') {
                *text = "…".to_owned();
            }
        }
        notes.push(("note", "the values of a Secret are not shown".to_owned()));
    }
    place.label = short(reason);
    Report { message: reason.to_owned(), places: vec![place], notes }
}

/// The violation of a schema, what of it Helm added, and who set the rest.
fn breach_notes(breach: &Breach, trace: &Trace, notes: &mut Vec<(&'static str, String)>) {
    let path = &breach.path;
    let name = if path.0.is_empty() { ".Values".to_owned() } else { format!(".Values.{path}") };
    let text = format!("{name}: {}", short(&breach.text));
    if breach.properties.is_empty() {
        let e = trace.explain(path);
        let added = if e.settings.is_empty() { added_above(path, trace) } else { None };
        let set = match origin(&e) {
            _ if path.0.is_empty() || added.is_some() => String::new(),
            Some(origin) => format!(" (set in {origin})"),
            None => " (nobody sets it)".to_owned(),
        };
        notes.push(("value", format!("{text}{set}")));
        notes.extend(added.map(added_note));
        return;
    }
    notes.push(("value", text));
    let siblings = match path.0.is_empty() {
        true => Some(trace.values()),
        false => path.find(trace.values()).and_then(Data::as_map),
    };
    for property in &breach.properties {
        if let Some(added) = trace.added_by_helm(path, property) {
            notes.push(added_note(added));
            continue;
        }
        let full = path.key(property);
        let Some(set) = origin(&trace.explain(&full)) else { continue };
        let others = siblings.into_iter().flat_map(|map| map.keys().map(String::as_str));
        let others = others.filter(|name| !breach.properties.iter().any(|refused| refused == name));
        let hint =
            nearest(property, others).map_or_else(String::new, |name| format!("; did you mean {name}?"));
        notes.push(("value", format!(".Values.{full} is set in {set}{hint}")));
    }
}

/// What Helm added at a path or above it.
fn added_above(path: &Path, trace: &Trace) -> Option<Added> {
    (0..path.0.len()).find_map(|at| match &path.0[at] {
        Step::Key(name) if name == "global" => trace.added_by_helm(&Path(path.0[..at].to_vec()), name),
        _ => None,
    })
}

fn added_note(added: Added) -> (&'static str, String) {
    let text = match added {
        Added::Global { schema } => format!(
            "Helm adds global to the values of every subchart: {schema} should allow it, as \"global\": {{\"type\": \"object\"}} \
             in properties"
        ),
        Added::Subchart { name, schema } => format!(
            "Helm adds the values of subchart {name} to those of its parent: {schema} should allow {name} in properties"
        ),
    };
    ("note", text)
}

fn schema_report(breaches: &[Breach], trace: &Trace) -> Option<Report> {
    let mut notes = Vec::new();
    for breach in breaches.iter().take(MAX_BREACHES) {
        breach_notes(breach, trace, &mut notes);
    }
    if notes.is_empty() {
        return None;
    }
    if breaches.len() > MAX_BREACHES {
        notes.push(("note", format!("{} more", breaches.len() - MAX_BREACHES)));
    }
    Some(Report { message: "values break a schema".to_owned(), places: Vec::new(), notes })
}
