//! `windlass history`: the revisions of a release.

use serde::Serialize;

use super::flags::Globals;
use super::output::{self, Format};
use super::{Failure, print, with_engine};
use windlass_engine::record::Record;

/// Flags of `history`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release
    name: String,
    /// Maximum number of revisions to include in history
    #[arg(long, default_value_t = 256)]
    max: usize,
    /// Show the rollback revision column in table output
    #[arg(long)]
    show_rollback_revision: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

fn row(r: &Record, rollback: bool) -> Vec<String> {
    let mut row = vec![
        r.version.to_string(),
        output::ansi_time(&r.info.last_deployed),
        r.info.status.to_string(),
        output::chart(r),
        output::app_version(r),
    ];
    if rollback {
        row.push(match r.info.rollback_revision {
            0 => String::new(),
            revision => revision.to_string(),
        });
    }
    row.push(r.info.description.clone());
    row
}

/// One revision in `-o json`.
#[derive(Serialize)]
struct Row {
    revision: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    updated: String,
    status: &'static str,
    chart: String,
    app_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    rollback_revision: Option<u64>,
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
            rollback_revision: Some(r.info.rollback_revision).filter(|revision| *revision > 0),
            description: r.info.description.clone(),
        }
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let records = with_engine(globals, async |s| {
        s.engine.records().history(&s.id(&args.name), args.max).await.map_err(|e| e.to_string())
    })?;
    let text = match args.output {
        Format::Table => {
            let rollback = args.show_rollback_revision;
            let mut head = vec!["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"];
            head.extend(rollback.then_some("ROLLBACK"));
            head.push("DESCRIPTION");
            let head = head.into_iter().map(str::to_owned).collect();
            let rows = records.iter().map(|r| row(r, rollback));
            output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
        }
        format => output::structured(&records.iter().map(Row::of).collect::<Vec<_>>(), format)?,
    };
    print(text.as_bytes())
}
