//! `windlass values explain`: the layers that set a value of a chart or module, and the one in effect.

use std::collections::BTreeMap;

use chart_compat::data::Data;
use chart_compat::explain::{Explanation, Origin, Setting, Trace};
use chart_compat::json;
use chart_compat::path::Path;
use serde_json::{Value, json};

use super::failure::Explained;
use super::fetch::ChartPath;
use super::flags::{Globals, Values};
use super::output::{Format, structured, table};
use super::{chart, print, tell, values, with_engine};
use crate::preflight;
use windlass_modules::addon;
use windlass_render::to_json;

/// Longest value in a table, in characters.
const MAX_SHOWN: usize = 60;

/// Subcommands of `values`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Show where values come from: each layer that sets them, and the one that takes effect
    Explain(Args),
}

/// Flags of `values explain`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// `[PATH] CHART`, or with --module `[PATH]`; a path such as `image.tag`, all values without one
    #[arg(num_args = 1..=2, required_unless_present = "module", value_names = ["PATH", "CHART"])]
    names: Vec<String>,
    #[command(flatten)]
    values: Values,
    #[command(flatten)]
    path: ChartPath,
    #[command(flatten)]
    module: Module,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// A module of the operator instead of a chart; the environment variables are addon-operator's.
#[derive(clap::Args)]
struct Module {
    /// Explain the values of this module of the operator: the files and, from the cluster, the ConfigMap
    #[arg(long)]
    module: Option<String>,
    /// With --module: directories of modules, separated by colons
    #[arg(long, env = "MODULES_DIR", default_value = "modules")]
    modules_dir: String,
    /// With --module: directory of global hooks, with schemas of global values in its openapi/
    #[arg(long, env = "GLOBAL_HOOKS_DIR")]
    global_hooks_dir: Option<std::path::PathBuf>,
    /// With --module: name of the ConfigMap with values and enable flags
    #[arg(long, env = "ADDON_OPERATOR_CONFIG_MAP", default_value = "addon-operator")]
    config_map: String,
}

/// A chart's layers, and the requested path.
fn of_chart(globals: &Globals, args: &Args) -> Result<(Trace, Path), Explained> {
    let (path, reference) = match &args.names[..] {
        [path, chart] => (Path::parse(path)?, chart),
        [chart] => (Path::default(), chart),
        _ => return Err("expected at most two arguments: [PATH] CHART".to_owned().into()),
    };
    let user = values::merge(globals, &args.values, globals.profile())?;
    let chart = chart::load(reference, globals, &args.path)?;
    let trace = Trace::new(chart.chart(), user.layers(), globals.profile()).map_err(|e| e.to_string())?;
    Ok((trace, path))
}

/// A module's layers, and the requested path.
fn of_module(globals: &Globals, args: &Args, name: &str) -> Result<(Trace, Path), Explained> {
    let path = match &args.names[..] {
        [] => Path::default(),
        [path] => Path::parse(path)?,
        _ => return Err("with --module there is one argument at most: PATH".to_owned().into()),
    };
    if args.values.any() {
        return Err("-f and --set lay values over a chart's; a module's are in its files and the ConfigMap"
            .to_owned()
            .into());
    }
    let Module { modules_dir, global_hooks_dir, config_map, .. } = &args.module;
    let modules = addon::Modules::discover(modules_dir, addon::UNNUMBERED_ORDER, globals.profile());
    let Some(module) = modules.modules.iter().find(|m| m.name.name == name || m.name.key == name) else {
        let known: Vec<&str> = modules.modules.iter().map(|m| m.name.name.as_str()).collect();
        return Err(format!("no module {name:?} in {modules_dir}: there are {}", known.join(", ")).into());
    };
    let chart = module.chart.clone()?.ok_or_else(|| format!("module {name} has no chart"))?;
    let sections = ["global", module.name.key.as_str()];
    let (config, referred) = with_engine(globals, async |s| {
        let config_map = addon::config_map(&s.namespace, config_map);
        let cluster = s.engine.cluster();
        let config = cluster.get(&config_map).await.map_err(|e| e.to_string())?;
        let referred = match &config {
            Some(config) => preflight::referred_values(cluster, config, &sections).await?,
            None => BTreeMap::new(),
        };
        Ok((config, referred))
    })?;
    let layers =
        preflight::layers(modules_dir, module, global_hooks_dir.as_deref(), config.as_ref(), &referred)?;
    let trace = Trace::new(chart.chart(), layers, globals.profile()).map_err(|e| e.to_string())?;
    // Paths in a module are relative to its own section.
    let key = module.name.key.as_str();
    let whole = path.0.is_empty() || [Some(key), Some("global")].contains(&path.first());
    Ok((trace, if whole { path } else { path.below(&[key]) }))
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Explained> {
    let Command::Explain(args) = command;
    let (trace, path) = match &args.module.module {
        Some(name) => of_module(globals, args, name)?,
        None => of_chart(globals, args)?,
    };
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
    for ignored in trace.ignored_nulls(&path) {
        tell(&format!("# Warning: {ignored}"));
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
            // No known layer sets it; the renderer computed it.
            rows.push(vec![
                name.clone(),
                "(merged)".to_owned(),
                format_value(e.value.as_ref()),
                "counts".to_owned(),
            ]);
        }
        for s in &e.settings {
            let row = vec![
                std::mem::take(&mut name),
                by(e, s),
                format_value(Some(&s.value)),
                effect(e, s).to_owned(),
            ];
            rows.push(row);
        }
    }
    rows
}

/// Whether the origin is a flag, that is neither a file nor an object of the cluster.
fn is_flag(origin: &Origin) -> bool {
    matches!(origin, Origin::Layer { is_file: false, name, .. } if name.starts_with("--"))
}

/// The layer, and its spelling of the path if that differs.
fn by(e: &Explanation, s: &Setting) -> String {
    let path = if s.path == e.path && !is_flag(&s.origin) { String::new() } else { format!(" {}", s.path) };
    let global = if s.global { " (globals reach subcharts)" } else { "" };
    format!("{}{path}{global}", s.origin)
}

fn effect(e: &Explanation, s: &Setting) -> &'static str {
    if e.ignored_nulls().iter().any(|null| std::ptr::eq(null, s)) {
        return "ignored";
    }
    match (s.wins, &s.value) {
        (true, Data::Null) => "deletes",
        (true, _) => "counts",
        (false, _) => "overridden",
    }
}

fn format_value(value: Option<&Data>) -> String {
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
                "effect": effect(e, s),
            })
        })
        .collect();
    json!({"path": e.path.to_string(), "value": e.value.as_ref().map(to_json), "settings": settings})
}

fn origin(origin: &Origin) -> Value {
    let flag = is_flag(origin);
    match origin {
        Origin::Chart { file, line } => json!({"kind": "chart", "name": file, "line": line}),
        Origin::Layer { name, is_file: true, line } => json!({"kind": "file", "name": name, "line": line}),
        Origin::Layer { name, is_file: false, line } => {
            json!({"kind": if flag { "flag" } else { "object" }, "name": name, "line": line})
        }
        Origin::Import { chart, from } => {
            json!({"kind": "import", "name": chart, "from": self::origin(from)})
        }
    }
}
