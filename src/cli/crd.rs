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

/// Flags for the kind of a chart.
#[derive(clap::Args)]
pub(super) struct KindFlags {
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
    pub(super) overlay: Option<PathBuf>,
}

impl KindFlags {
    /// What the definition of a chart is made with.
    pub(super) fn options(&self, chart: &str) -> Result<DefinitionOptions, Failure> {
        let [group, version, kind, plural] =
            [&self.group, &self.api_version, &self.kind, &self.plural].map(|name| name.as_deref());
        let names = KindNames::new(chart, group, version, kind, plural).map_err(|e| e.to_string())?;
        let overlay = self.overlay.as_deref().map(overlay).transpose()?;
        Ok(DefinitionOptions { names, overlay })
    }
}

/// Flags of `crd`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The chart
    chart: String,
    #[command(flatten)]
    of: KindFlags,
    /// Print an object that the schema accepts, instead of the definition
    #[arg(long)]
    example: bool,
    #[command(flatten)]
    path: ChartPath,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    let loaded = chart::find(&args.chart, globals, &args.path, chart::PullNotes::Stderr)?;
    loaded.warnings.iter().for_each(|line| tell(line));
    let options = args.of.options(loaded.chart.name())?;
    let made = define(&loaded.chart, &options).map_err(|e| e.to_string())?;
    warning_lines(&made.warnings).iter().for_each(|line| tell(line));
    let object = if args.example { &made.example } else { &made.crd };
    Ok(print(structured(object, Format::Yaml)?.as_bytes())?)
}

fn overlay(path: &Path) -> Result<Overlay, Failure> {
    let text = read_file(path, MAX_TEXT).map_err(|error| format!("{}: {error}", path.display()))?;
    Overlay::read(&path.display().to_string(), &text).map_err(|e| e.to_string())
}

/// A line for each text, with all its paths.
pub(super) fn warning_lines(warnings: &[Warning]) -> Vec<String> {
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
