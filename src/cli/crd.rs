//! `windlass crd`: the CustomResourceDefinition of a chart, whose spec is the chart's values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_base::bounded_read::{MAX_TEXT, read_file};
use windlass_charts::{DefinitionOptions, KindNames, Overlay, Warning, define};

use super::failure::Explained;
use super::fetch::ChartPath;
use super::flags::Globals;
use super::output::{Format, structured};
use super::{Failure, chart, print, tell};

/// Flags of `crd`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The chart
    chart: String,
    /// API group of the kind; by default charts.windlass.dev
    #[arg(long)]
    group: Option<String>,
    /// Version of the kind; by default v1alpha1 (--version is the chart's)
    #[arg(long)]
    api_version: Option<String>,
    /// Kind; by default the chart's name in UpperCamelCase
    #[arg(long)]
    kind: Option<String>,
    /// Resource of the kind; by default the kind's plural in lower case
    #[arg(long)]
    plural: Option<String>,
    /// YAML that is merged over the schema of spec; null removes
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,
    /// Print an object that the schema accepts, instead of the definition
    #[arg(long)]
    example: bool,
    #[command(flatten)]
    path: ChartPath,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    let loaded = chart::find(&args.chart, globals, &args.path, chart::PullNotes::Stderr)?;
    loaded.warnings.iter().for_each(|line| tell(line));
    let [group, version, kind, plural] =
        [&args.group, &args.api_version, &args.kind, &args.plural].map(|name| name.as_deref());
    let names =
        KindNames::new(loaded.chart.name(), group, version, kind, plural).map_err(|e| e.to_string())?;
    let overlay = args.overlay.as_deref().map(overlay).transpose()?;
    let made = define(&loaded.chart, &DefinitionOptions { names, overlay }).map_err(|e| e.to_string())?;
    warning_lines(&made.warnings).iter().for_each(|line| tell(line));
    let object = if args.example { &made.example } else { &made.crd };
    Ok(print(structured(object, Format::Yaml)?.as_bytes())?)
}

fn overlay(path: &Path) -> Result<Overlay, Failure> {
    let text = read_file(path, MAX_TEXT).map_err(|error| format!("{}: {error}", path.display()))?;
    Overlay::read(&path.display().to_string(), &text).map_err(|e| e.to_string())
}

/// A line for each text, with all its paths.
fn warning_lines(warnings: &[Warning]) -> Vec<String> {
    let mut paths = BTreeMap::<&str, Vec<&str>>::new();
    for warning in warnings {
        paths.entry(&warning.text).or_default().push(&warning.path);
    }
    paths.into_iter().map(|(text, paths)| format!("warning: {text}: {}", paths.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_one_text_are_one_line() {
        let warning = |text: &str, path: &str| Warning { text: text.to_owned(), path: path.to_owned() };
        let all = [warning("a is not checked", "$.x"), warning("a is not checked", "$.y"), warning("b", "$")];
        assert_eq!(warning_lines(&all), ["warning: a is not checked: $.x, $.y", "warning: b: $"]);
    }
}
