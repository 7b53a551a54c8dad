//! `windlass history`: the revisions of a release.

use serde::Serialize;

use super::flags::Globals;
use super::output::{self, Format};
use super::{Failure, print, with_engine};
use crate::release::record::Record;

/// Flags of `history`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release
    name: String,
    /// Maximum number of revisions to include in history
    #[arg(long, default_value_t = 256)]
    max: usize,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

fn row(r: &Record) -> Vec<String> {
    vec![
        r.version.to_string(),
        output::ansi_time(&r.info.last_deployed),
        r.info.status.to_string(),
        output::chart(r),
        output::app_version(r),
        r.info.description.clone(),
    ]
}

/// One revision as `-o json` has it.
#[derive(Serialize)]
struct Row {
    revision: u64,
    updated: String,
    status: &'static str,
    chart: String,
    app_version: String,
    description: String,
}

impl Row {
    fn of(r: &Record) -> Self {
        Self {
            revision: r.version,
            updated: r.info.last_deployed.clone(),
            status: r.info.status.as_str(),
            chart: output::chart(r),
            app_version: output::app_version(r),
            description: r.info.description.clone(),
        }
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let mut records =
        with_engine(globals, async |s| s.engine.history(&s.id(&args.name)).await.map_err(|e| e.to_string()))?;
    let extra = records.len().saturating_sub(args.max);
    records.drain(..extra);
    let text = match args.output {
        Format::Table => {
            let head = ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "DESCRIPTION"];
            let head = head.iter().map(|h| (*h).to_owned()).collect();
            output::table(&std::iter::once(head).chain(records.iter().map(row)).collect::<Vec<_>>())
        }
        format => output::structured(&records.iter().map(Row::of).collect::<Vec<_>>(), format)?,
    };
    print(text.as_bytes())
}
