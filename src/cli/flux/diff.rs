//! `windlass flux diff`: live objects beside the stored revision.

use super::super::flags::Globals;
use super::super::output::{Format, structured};
use super::super::{Failure, print, with_engine};
use super::kinds::Selection;
use super::{namespace_of, read};
use windlass_base::redact;
use windlass_flux::helmrelease;

/// Flags of `diff`.
#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// `helmrelease NAME`
    #[arg(required = true, num_args = 2, value_names = ["KIND", "NAME"])]
    objects: Vec<String>,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Returns whether something differs.
pub(super) fn run(globals: &Globals, args: &Args) -> Result<bool, Failure> {
    let (kind, name) = Selection::parse_one(&args.objects)?;
    let name = name.filter(|_| !kind.is_source()).ok_or("only HelmReleases have objects to compare")?;
    let preview = with_engine(globals, async |s| {
        let object = read(s.engine.cluster(), &kind.object(&namespace_of(globals, &s), &name)).await?;
        helmrelease::drift_plan(&s.engine, &object).await.map_err(|e| e.to_string())
    })?;
    let text = match args.output {
        Format::Table => preview.text(false, globals.paints()),
        format => structured(&preview, format)?,
    };
    print(redact::mask(&text).as_bytes())?;
    Ok(!preview.changes.is_empty())
}
