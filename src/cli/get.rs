//! `windlass get`: manifest, values, notes and hooks of a recorded revision.

use chart_compat::chart::merge_maps;
use chart_compat::data::Data;
use serde_json::Value;

use super::flags::Globals;
use super::output::{self, Format};
use super::{Failure, print, with_engine};
use crate::release::record::Record;
use crate::render::{from_json, to_json};

/// Which release and revision.
#[derive(clap::Args)]
pub(super) struct Which {
    /// The release
    name: String,
    /// Get the named release with revision (0: the newest)
    #[arg(long, default_value_t = 0)]
    revision: u64,
}

/// What to get.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Download the manifest for a named release
    Manifest(Which),
    /// Download the values file for a named release
    Values {
        #[command(flatten)]
        which: Which,
        /// Dump all (computed) values
        #[arg(short, long)]
        all: bool,
        /// Prints the output in the specified format
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Download the notes for a named release
    Notes(Which),
    /// Download all hooks for a named release
    Hooks(Which),
}

fn load(globals: &Globals, which: &Which) -> Result<Record, Failure> {
    with_engine(globals, async |s| {
        s.engine.get(&s.id(&which.name), which.revision).await.map_err(|e| e.to_string())
    })
}

/// The values that the templates saw, as far as the record tells: the chart's own defaults under the user's values.
fn computed(record: &Record) -> Value {
    let (mut all, user) = (from_json(&record.chart["values"]), from_json(&record.config));
    match (&mut all, user) {
        (Data::Map(base), Data::Map(over)) => merge_maps(base, over),
        (_, user) => all = user,
    }
    to_json(&all)
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Manifest(which) => print(format!("{}\n", load(globals, which)?.manifest).as_bytes()),
        Command::Notes(which) => {
            let notes = load(globals, which)?.info.notes;
            if notes.is_empty() { Ok(()) } else { print(format!("NOTES:\n{notes}\n").as_bytes()) }
        }
        Command::Hooks(which) => {
            let record = load(globals, which)?;
            let text: String =
                record.hooks.iter().map(|h| format!("---\n# Source: {}\n{}\n", h.path, h.manifest)).collect();
            print(text.as_bytes())
        }
        Command::Values { which, all, output } => {
            let record = load(globals, which)?;
            let values = if *all { computed(&record) } else { record.config };
            // Helm prints values that were never given as null.
            let empty = values.as_object().is_some_and(serde_json::Map::is_empty);
            let values = if empty && !*all { Value::Null } else { values };
            let text = match output {
                Format::Table => {
                    let title = if *all { "COMPUTED VALUES:" } else { "USER-SUPPLIED VALUES:" };
                    format!("{title}\n{}", output::structured(&values, Format::Yaml)?)
                }
                format => output::structured(&values, *format)?,
            };
            print(text.as_bytes())
        }
    }
}
