//! `windlass doctor records`: release records of HelmReleases that name the wrong namespace, and their repair.

use std::process::ExitCode;

use serde::Serialize;

use super::flags::Globals;
use super::output::{Format, structured};
use super::plan::CHANGES;
use super::{Failure, print, with_engine};
use windlass_engine::MisnamedRecord;
use windlass_engine::record::secret_name;
use windlass_flux::helmrelease;

/// Flags of `doctor records`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Check the records of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Write the right namespace into the records; without this flag nothing is written
    #[arg(long)]
    fix: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// One record in the structured output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    namespace: String,
    record: String,
    release: String,
    revision: u64,
    recorded_namespace: String,
    actual_namespace: String,
    evidence: String,
    repaired: bool,
}

impl Row {
    fn of(wrong: &MisnamedRecord, repaired: bool) -> Self {
        Self {
            namespace: wrong.stored_in.clone(),
            record: secret_name(&wrong.release, wrong.revision),
            release: wrong.release.clone(),
            revision: wrong.revision,
            recorded_namespace: wrong.stored_in.clone(),
            actual_namespace: wrong.actual.clone(),
            evidence: wrong.evidence.to_string(),
            repaired,
        }
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let found = with_engine(globals, async |s| {
        let namespace = (!args.all_namespaces).then_some(s.namespace.as_str());
        let releases = s.engine.records().stored_releases(namespace).await.map_err(|e| e.to_string())?;
        let mut found = Vec::new();
        for stored in &releases {
            let wrong = helmrelease::misnamed_records(&s.engine, stored).await;
            found.extend(wrong.map_err(|e| format!("release {stored}: {e}"))?);
        }
        if args.fix {
            for wrong in &found {
                let written = s.engine.records().rename_namespace(wrong).await;
                written.map_err(|e| format!("{wrong}: cannot repair it: {e}"))?;
            }
        }
        Ok(found)
    })?;
    let text = match args.output {
        Format::Table => text(&found, args.fix),
        format => {
            structured(&found.iter().map(|wrong| Row::of(wrong, args.fix)).collect::<Vec<_>>(), format)?
        }
    };
    print(text.as_bytes())?;
    Ok(if found.is_empty() || args.fix { ExitCode::SUCCESS } else { ExitCode::from(CHANGES) })
}

fn text(found: &[MisnamedRecord], fixed: bool) -> String {
    let verb = if fixed { "repaired" } else { "wrong" };
    let mut out: String = found.iter().map(|wrong| format!("{verb}: {wrong}\n")).collect();
    out.push_str(&match (found.len(), fixed) {
        (0, _) => "all records name the namespace of their release\n".to_owned(),
        (count, true) => format!("{count} record(s) repaired\n"),
        (count, false) => format!("{count} record(s) name the wrong namespace; --fix repairs them\n"),
    });
    out
}
