//! `windlass show`: prints a chart's own information.

use chart_compat::chart::{Chart, File};
use chart_compat::data::Data;
use chart_compat::profile::Profile;
use chart_compat::yaml;

use super::failure::Explained;
use super::fetch::ChartPath;
use super::flags::Globals;
use super::{chart, jsonpath, print, tell};

/// Subcommands of `show`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Show all information of the chart
    All(Args),
    /// Show the chart's definition
    Chart(Args),
    /// Show the chart's values
    Values {
        #[command(flatten)]
        args: Args,
        /// Supply a JSONPath expression to filter the output
        #[arg(long, default_value = "", hide_default_value = true)]
        jsonpath: String,
    },
    /// Show the chart's README
    Readme(Args),
    /// Show the chart's CRDs
    Crds(Args),
}

/// Flags of all of them.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The chart
    chart: String,
    #[command(flatten)]
    path: ChartPath,
}

const READMES: [&str; 3] = ["readme.md", "readme.txt", "readme"];

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Explained> {
    let (Command::All(args)
    | Command::Chart(args)
    | Command::Values { args, .. }
    | Command::Readme(args)
    | Command::Crds(args)) = command;
    let loaded = chart::find(&args.chart, globals, &args.path, chart::PullNotes::Stderr)?;
    loaded.warnings.iter().for_each(|w| tell(w));
    if let Command::Values { jsonpath, .. } = command
        && !jsonpath.is_empty()
    {
        let values = Data::Map((*loaded.chart.values).clone());
        let text = jsonpath::print(jsonpath, &values);
        let text = text.map_err(|e| format!("error parsing jsonpath {jsonpath}: {e}"))?;
        return Ok(print(text.as_bytes())?);
    }
    Ok(print(&text(&loaded.chart, command, globals.profile())?)?)
}

/// The output of the command, as in `Show.Run`.
fn text(chart: &Chart, command: &Command, profile: Profile) -> Result<Vec<u8>, String> {
    let all = matches!(command, Command::All(_));
    let mut out = Vec::new();
    let mut block = |head: &str, data: &[u8]| {
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(data);
        out.push(b'\n');
    };
    let dashes = if all { "---\n" } else { "" };
    if all || matches!(command, Command::Chart(_)) {
        let text = yaml::to_string(&chart.metadata.data()).map_err(|e| e.to_string())?;
        block("", text.as_bytes());
    }
    if let Some(values) =
        chart.values_text.as_ref().filter(|_| all || matches!(command, Command::Values { .. }))
    {
        block(dashes, values);
    }
    if let Some(readme) = readme(&chart.files).filter(|_| all || matches!(command, Command::Readme(_))) {
        block(dashes, &readme.data);
    }
    if all || matches!(command, Command::Crds(_)) {
        for (number, crd) in chart.crds().iter().enumerate() {
            // Helm 3 separates CRDs from other output, but not from each other.
            let apart = profile == Profile::Helm4 || (all && number == 0);
            block(if apart && !crd.data.starts_with(b"---") { "---\n" } else { "" }, &crd.data);
        }
    }
    Ok(out)
}

fn readme(files: &[File]) -> Option<&File> {
    files.iter().find(|f| READMES.iter().any(|name| f.name.eq_ignore_ascii_case(name)))
}
