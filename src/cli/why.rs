//! `windlass why`: the cause and the differences of each revision; of a workload, `why_workload` has what rolled it out.

use super::flags::Globals;
use super::output::{self, Format};
use super::{Failure, print, why_workload, with_engine};
use windlass_engine::{RevisionReport, field_line, verb_style};

/// Flags of `why`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release, or a workload as KIND/NAME: what rolled it out
    name: String,
    /// The revision of the release; omitted: all
    revision: Option<u64>,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

fn text(why: &RevisionReport, painted: bool) -> String {
    let paint = |code: &str, text: &str| {
        if painted { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    };
    let title = format!("revision {} ({})", why.revision, why.status);
    let mut out = format!("{} {}: {}\n", paint("1", &title), why.updated, why.description);
    let cause = if why.cause.is_empty() { "nothing was noted" } else { &why.cause };
    out.push_str(&format!("  cause: {cause}\n"));
    if let Some(revision) = why.rollback_to {
        out.push_str(&format!("  repeats revision {revision}\n"));
    }
    let Some(since) = why.since else { return out };
    if let Some((before, after)) = &why.chart {
        out.push_str(&format!("  chart: {before} → {after}\n"));
    }
    if !why.values.is_empty() {
        out.push_str("  values:\n");
        out.extend(why.values.iter().map(|field| field_line(field, &paint)));
    }
    for object in &why.objects {
        let (mark, _, color) = verb_style(object.verb);
        out.push_str(&format!("  {}\n", paint(color, &format!("{mark} {} {}", object.kind, object.name))));
        out.extend(object.fields.iter().map(|field| field_line(field, &paint)));
    }
    if why.chart.is_none() && why.values.is_empty() && why.objects.is_empty() {
        out.push_str(&format!("  values and objects are those of revision {since}\n"));
    }
    out
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    if args.name.contains('/') {
        return why_workload::run(globals, &args.name, args.revision, args.output);
    }
    let told = with_engine(globals, async |s| {
        s.run(s.engine.records().explain(&s.id(&args.name), args.revision)).await
    })?;
    let text = match args.output {
        Format::Table => told.iter().map(|why| text(why, globals.paints())).collect(),
        format => output::structured(&told, format)?,
    };
    print(text.as_bytes())
}
