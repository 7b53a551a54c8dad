//! `windlass operator --observe`: reports what an operator would change, and writes nothing.

use std::process::ExitCode;

use super::hints;
use super::output::{Format, structured};
use super::{Failure, print};
use crate::addon;
use crate::cluster::Cluster;
use crate::controller::ContextOptions;
use crate::preflight::{self, Finding, Observation};
use crate::redact;

/// Exit status if something would change.
const CHANGES: u8 = 2;

pub(super) async fn run(
    cluster: Cluster,
    context: &ContextOptions,
    options: &addon::Options,
    format: Format,
    painted: bool,
) -> Result<ExitCode, Failure> {
    let (mut observations, problems) =
        preflight::observe(cluster, context, options).await.map_err(|e| e.to_string())?;
    for observation in &mut observations {
        if let Finding::Change(preview) = &mut observation.finding {
            **preview = hints::with_flags(preview, hints::OPERATOR_FLAGS);
        }
    }
    let text = match format {
        Format::Table => text(&observations, &problems, painted),
        format => structured(&serde_json::json!({"modules": observations, "problems": problems}), format)?,
    };
    print(redact::process().mask(&text).as_bytes())?;
    let differs = observations.iter().any(Observation::differs) || !problems.is_empty();
    Ok(if differs { ExitCode::from(CHANGES) } else { ExitCode::SUCCESS })
}

fn text(observations: &[Observation], problems: &[String], painted: bool) -> String {
    let mut out = String::new();
    for problem in problems {
        out.push_str(&format!("problem: {problem}\n"));
    }
    let mut differing = 0;
    for observation in observations {
        let Observation { module, finding, besides, notes } = observation;
        let told = match finding {
            Finding::Off => "off".to_owned(),
            Finding::HooksOnly => "on, without a chart".to_owned(),
            Finding::Unchanged => "unchanged".to_owned(),
            Finding::Change(_) => "would change:".to_owned(),
            Finding::Uninstall => "would be uninstalled".to_owned(),
            Finding::Failed(text) => format!("cannot tell: {text}"),
        };
        out.push_str(&format!("{module}: {told}\n"));
        for text in besides {
            out.push_str(&format!("  {text}\n"));
        }
        for note in notes {
            out.push_str(&format!("  note: {note}\n"));
        }
        if let Finding::Change(preview) = finding {
            for line in preview.text(false, painted).lines() {
                out.push_str(&format!("  {line}\n"));
            }
        }
        differing += usize::from(observation.differs());
    }
    out.push_str(&format!("{differing} of {} modules would change\n", observations.len()));
    out
}
