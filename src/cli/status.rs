//! `windlass status`, and the same text after an install or upgrade.

use serde_json::Value;

use super::flags::Globals;
use super::output::{self, Format, Style, painted};
use super::{Connected, Failure, get, print, resources, with_engine};
use windlass_engine::record::{Record, RecordedHook, Storage};
use windlass_engine::{HookEvent, ReleaseId, Resources};

/// Flags of `status`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release
    name: String,
    #[command(flatten)]
    shown: StatusFlags,
}

/// What is printed of a release.
#[derive(clap::Args, Default)]
pub(super) struct StatusFlags {
    /// If set, display the status of the named release with revision (0: the newest)
    #[arg(long, default_value_t = 0)]
    revision: u64,
    /// Display the resources of the release (Helm 4 always does)
    #[arg(long)]
    show_resources: bool,
    /// Display the description message of the release (Helm 4 always does)
    #[arg(long)]
    show_desc: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Optional parts of the output (`statusPrinter`).
#[derive(Clone, Copy, Default)]
pub(super) struct Shown<'a> {
    pub(super) description: bool,
    pub(super) resources: Option<&'a Resources>,
    /// Name and versions of the chart.
    pub(super) chart: bool,
    /// Values, hooks and manifest.
    pub(super) debug: bool,
    pub(super) hide_notes: bool,
    /// The revision was just made, and was not read: without values, these are an empty map.
    pub(super) fresh: bool,
    /// With colours.
    pub(super) paints: bool,
}

impl Shown<'_> {
    /// The output after an operation.
    pub(super) fn after(globals: &Globals, hide_notes: bool) -> Self {
        let helm3 = globals.profile() == chart_compat::profile::Profile::Helm3;
        Self {
            description: !helm3,
            hide_notes,
            debug: globals.debug,
            fresh: true,
            paints: globals.paints(),
            ..Self::default()
        }
    }
}

/// The text that Helm prints for a release.
pub(super) fn text(record: &Record, shown: Shown<'_>) -> Result<String, Failure> {
    let info = &record.info;
    let mut out = format!("NAME: {}\n", record.name);
    if !info.last_deployed.is_empty() {
        out.push_str(&format!("LAST DEPLOYED: {}\n", output::ansi_time(&info.last_deployed)));
    }
    out.push_str(&format!(
        "NAMESPACE: {}\nSTATUS: {}\nREVISION: {}\n",
        painted(&record.namespace, Some(Style::NAMESPACE), shown.paints),
        painted(info.status.as_str(), Style::of_status(info.status), shown.paints),
        record.version
    ));
    if shown.chart {
        out.push_str(&format!(
            "CHART: {}\nVERSION: {}\nAPP_VERSION: {}\n",
            record.chart_text("name"),
            record.chart_text("version"),
            record.chart_text("appVersion")
        ));
    }
    if shown.description {
        out.push_str(&format!("DESCRIPTION: {}\n", info.description));
    }
    if let Some(found) = shown.resources.filter(|r| !r.is_empty()) {
        out.push_str(&format!("RESOURCES:\n{}\n", resources::tables(found)));
    }
    out.push_str(&tests(&record.hooks));
    if shown.debug {
        let none = shown.fresh && record.config.as_object().is_none_or(serde_json::Map::is_empty);
        let values = if none { "{}\n".to_owned() } else { get::values_text(record, false, Format::Yaml)? };
        out.push_str(&format!("USER-SUPPLIED VALUES:\n{values}\n"));
        out.push_str(&format!("COMPUTED VALUES:\n{}\n", get::values_text(record, true, Format::Yaml)?));
    }
    if shown.debug || info.description.eq_ignore_ascii_case("Dry run complete") {
        out.push_str(&format!("HOOKS:\n{}MANIFEST:\n{}\n", get::hooks_text(record), record.manifest));
    }
    if !shown.hide_notes && !info.notes.is_empty() {
        out.push_str(&format!("NOTES:\n{}\n", info.notes.trim()));
    }
    Ok(out)
}

/// The results of the tests of a release.
fn tests(hooks: &[RecordedHook]) -> String {
    let tests: Vec<_> = hooks.iter().filter(|h| h.events.contains(&HookEvent::Test)).collect();
    if tests.is_empty() {
        return "TEST SUITE: None\n".to_owned();
    }
    let ran = tests.into_iter().filter(|h| !h.last_run.started_at.is_empty());
    ran.map(|h| {
        let run = &h.last_run;
        format!(
            "TEST SUITE:     {}\nLast Started:   {}\nLast Completed: {}\nPhase:          {}\n",
            h.name,
            output::ansi_time(&run.started_at),
            output::ansi_time(&run.completed_at),
            run.phase
        )
    })
    .collect()
}

/// Prints a release in the requested format.
pub(super) fn show(record: &Record, format: Format, shown: Shown<'_>) -> Result<(), Failure> {
    match format {
        Format::Table => print(text(record, shown)?.as_bytes()),
        format => print(output::structured(record, format)?.as_bytes()),
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    with_engine(globals, async |s| {
        let s = s.located(&args.name).await?;
        print_status(globals, &s, &s.id(&args.name), &args.shown).await
    })
}

/// Prints the status of a release.
pub(super) async fn print_status(
    globals: &Globals,
    connected: &Connected,
    id: &ReleaseId,
    flags: &StatusFlags,
) -> Result<(), Failure> {
    let helm3 = globals.profile() == chart_compat::profile::Profile::Helm3;
    let engine = &connected.engine;
    let mut record = engine.records().get(id, flags.revision).await.map_err(|e| e.to_string())?;
    let lists = (!helm3 || flags.show_resources) && !matches!(engine.storage(), Storage::Memory(_));
    let found = if lists {
        let tables = flags.output == Format::Table;
        engine.resources(id, &record, tables).await.map_err(|e| e.to_string())?
    } else {
        Resources::default()
    };
    // As in Helm, print the state of a release without its sources.
    record.chart = Value::Null;
    let description = !helm3 || flags.show_desc;
    if flags.output != Format::Table && !found.is_empty() {
        let found = serde_json::to_value(&found).map_err(|e| format!("cannot print: {e}"))?;
        record.info.rest.insert("resources".to_owned(), found);
    }
    let paints = globals.paints();
    show(&record, flags.output, Shown { description, resources: Some(&found), paints, ..Shown::default() })
}
