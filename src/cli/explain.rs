//! `windlass values explain`: each layer that sets a value, and which one counts.

use chart_compat::data::Data;
use chart_compat::explain::{Explanation, Origin, Setting, Trace};
use chart_compat::json;
use chart_compat::path::Path;
use serde_json::{Value, json};

use super::failure::Explained;
use super::flags::{Globals, Values};
use super::output::{Format, structured, table};
use super::{chart, print, values};
use crate::render::to_json;

/// How much of a value a table shows, in characters.
const MAX_SHOWN: usize = 60;

/// What is done with values.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Tell where values come from: each layer that sets them, and which one counts
    Explain(Args),
}

/// Flags of `values explain`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// `[PATH] CHART`; a path such as `image.tag`, all values without one
    #[arg(num_args = 1..=2, required = true, value_names = ["PATH", "CHART"])]
    names: Vec<String>,
    #[command(flatten)]
    values: Values,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Explained> {
    let Command::Explain(args) = command;
    let (path, reference) = match &args.names[..] {
        [path, chart] => (Path::parse(path)?, chart),
        [chart] => (Path::default(), chart),
        _ => return Err("expected at most two arguments: [PATH] CHART".to_owned().into()),
    };
    let user = values::merge(&args.values, globals.profile())?;
    let chart = chart::load(reference, globals.profile())?;
    let trace = Trace::new(chart.chart(), user.layers(), globals.profile()).map_err(|e| e.to_string())?;
    let mut explanations: Vec<Explanation> =
        trace.leaves(&path).iter().map(|leaf| trace.explain(leaf)).collect();
    if explanations.is_empty() && !path.0.is_empty() {
        let found = trace.explain(&path);
        if found.settings.is_empty() {
            let hint = trace.suggest(&path).map_or_else(String::new, |p| format!("; did you mean {p}?"));
            return Err(format!("nobody sets {path}{hint}").into());
        }
        explanations.push(found);
    }
    let text = match args.output {
        Format::Table => table(&rows(&explanations)),
        format => structured(&explanations.iter().map(explanation).collect::<Vec<_>>(), format)?,
    };
    Ok(print(text.as_bytes())?)
}

fn rows(explanations: &[Explanation]) -> Vec<Vec<String>> {
    let mut rows = vec![["VALUE OF", "SET BY", "TO", "EFFECT"].map(str::to_owned).to_vec()];
    for e in explanations {
        let mut name = e.path.to_string();
        if e.settings.is_empty() {
            // Nothing that is known sets it; the renderer made it of others.
            rows.push(vec![
                name.clone(),
                "(merged)".to_owned(),
                shown(e.value.as_ref()),
                "counts".to_owned(),
            ]);
        }
        for s in &e.settings {
            let row = vec![std::mem::take(&mut name), by(e, s), shown(Some(&s.value)), effect(s).to_owned()];
            rows.push(row);
        }
    }
    rows
}

/// The layer, and the path as the layer spells it where that is another one.
fn by(e: &Explanation, s: &Setting) -> String {
    let flag = matches!(&s.origin, Origin::Layer { is_file: false, .. });
    let path = if s.path == e.path && !flag { String::new() } else { format!(" {}", s.path) };
    let global = if s.global { " (globals reach subcharts)" } else { "" };
    format!("{}{path}{global}", s.origin)
}

fn effect(s: &Setting) -> &'static str {
    match (s.wins, &s.value) {
        (true, Data::Null) => "deletes",
        (true, _) => "counts",
        (false, _) => "overridden",
    }
}

fn shown(value: Option<&Data>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let text = json::to_string_raw(value).unwrap_or_else(|e| e.to_string());
    if text.chars().count() <= MAX_SHOWN {
        return text;
    }
    let cut: String = text.chars().take(MAX_SHOWN - 1).collect();
    format!("{cut}…")
}

fn explanation(e: &Explanation) -> Value {
    let settings: Vec<Value> = e
        .settings
        .iter()
        .map(|s| {
            json!({
                "origin": origin(&s.origin),
                "path": s.path.to_string(),
                "global": s.global,
                "value": to_json(&s.value),
                "effect": effect(s),
            })
        })
        .collect();
    json!({"path": e.path.to_string(), "value": e.value.as_ref().map(to_json), "settings": settings})
}

fn origin(origin: &Origin) -> Value {
    match origin {
        Origin::Chart { file, line } => json!({"kind": "chart", "name": file, "line": line}),
        Origin::Layer { name, is_file: true, line } => json!({"kind": "file", "name": name, "line": line}),
        Origin::Layer { name, is_file: false, line } => json!({"kind": "flag", "name": name, "line": line}),
        Origin::Import { chart, from } => {
            json!({"kind": "import", "name": chart, "from": self::origin(from)})
        }
    }
}
