//! `windlass status`, and the same figures after an install or upgrade.

use serde_json::{Value, json};

use super::flags::Globals;
use super::output::{self, Format};
use super::{Failure, print, with_engine};
use crate::release::record::Record;

/// Flags of `status`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release
    name: String,
    /// If set, display the status of the named release with revision (0: the newest)
    #[arg(long, default_value_t = 0)]
    revision: u64,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What Helm prints of a release for people.
pub(super) fn text(record: &Record, description: bool) -> String {
    let info = &record.info;
    let mut out = format!("NAME: {}\n", record.name);
    if !info.last_deployed.is_empty() {
        out.push_str(&format!("LAST DEPLOYED: {}\n", output::ansi_time(&info.last_deployed)));
    }
    out.push_str(&format!(
        "NAMESPACE: {}\nSTATUS: {}\nREVISION: {}\n",
        record.namespace, info.status, record.version
    ));
    if description {
        out.push_str(&format!("DESCRIPTION: {}\n", info.description));
    }
    if !info.notes.is_empty() {
        out.push_str(&format!("NOTES:\n{}\n", info.notes.trim()));
    }
    out
}

/// The record as Helm's `-o json` has it: without the chart's files.
pub(super) fn object(record: &Record) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(record).map_err(|e| format!("cannot print: {e}"))?;
    if let Some(o) = value.as_object_mut() {
        let metadata = record.chart["metadata"].clone();
        o.insert("chart".to_owned(), json!({ "metadata": metadata }));
    }
    Ok(value)
}

/// Prints a release in the form asked for.
pub(super) fn show(record: &Record, format: Format, helm3: bool) -> Result<(), Failure> {
    match format {
        Format::Table => print(text(record, !helm3).as_bytes()),
        format => print(output::structured(&object(record)?, format)?.as_bytes()),
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let record = with_engine(globals, async |s| {
        s.engine.get(&s.id(&args.name), args.revision).await.map_err(|e| e.to_string())
    })?;
    show(&record, args.output, globals.profile() == chart_compat::profile::Profile::Helm3)
}
