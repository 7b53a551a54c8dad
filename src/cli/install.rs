//! `windlass install` and `windlass upgrade`: apply a chart with values as a release.

use chart_compat::go::slog;
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, release_name_error};
use serde_json::Value;

use super::build::{self, ChartInputs, Common, CrdsBeforeRender, Job, OldValues};
use super::failure::{self, Explained};
use super::flags::Globals;
use super::output::Format;
use super::release_flags::{DryRun, Revisions};
use super::schemas::Schemas;
use super::status::{self, Shown};
use super::{Connected, Failure, print, tell, with_engine};
use chart_compat::data::Data;
use windlass_engine::record::{Info, Record, RecordedHook, ReleaseStatus, now};
use windlass_engine::{EngineError, History, Mode, ReleaseAction, ReleaseOptions, RenderedRelease};
use windlass_render::replay::store;
use windlass_render::{RenderRequest, chart_record, release_name, to_json};

/// Flags of the output and of dry runs.
#[derive(clap::Args)]
pub(super) struct OutputFlags {
    /// Simulates the operation: client (without a cluster) or server
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "unset")]
    pub(super) dry_run: Option<String>,
    /// Hide Kubernetes Secrets when also using the --dry-run flag
    #[arg(long)]
    pub(super) hide_secret: bool,
    /// If set, do not show notes in the output
    #[arg(long)]
    pub(super) hide_notes: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// Flags of `install`.
#[derive(clap::Args)]
pub(super) struct InstallArgs {
    /// `[NAME] CHART`
    #[arg(num_args = 1.., required = true, value_names = ["NAME", "CHART"])]
    names: Vec<String>,
    /// Generate the name (and omit the NAME parameter)
    #[arg(short, long)]
    generate_name: bool,
    /// Specify template used to name the release
    #[arg(long, default_value = "", hide_default_value = true)]
    name_template: String,
    /// Reuse the given name, only if that name is a deleted release which remains in the history
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    told: OutputFlags,
    #[command(flatten)]
    common: Common,
}

/// Flags for the values of the deployed revision.
#[derive(clap::Args)]
struct OldValuesFlags {
    /// When upgrading, reset the values to the ones built into the chart
    #[arg(long)]
    reset_values: bool,
    /// When upgrading, reuse the last release's values and merge in any overrides
    #[arg(long)]
    reuse_values: bool,
    /// When upgrading, reset the values to the ones built into the chart, apply the last release's values and merge in any
    /// overrides
    #[arg(long)]
    reset_then_reuse_values: bool,
}

/// Common flags of `upgrade` and `plan`.
#[derive(clap::Args)]
pub(super) struct Change {
    #[command(flatten)]
    revisions: Revisions,
    #[command(flatten)]
    old_values: OldValuesFlags,
    /// Make no revision when nothing would change
    #[arg(long)]
    skip_unchanged: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Flags of `upgrade`.
#[derive(clap::Args)]
pub(super) struct UpgradeArgs {
    /// The release
    name: String,
    /// The chart
    chart: String,
    /// If a release by this name doesn't already exist, run an install
    #[arg(short, long)]
    install: bool,
    #[command(flatten)]
    told: OutputFlags,
    #[command(flatten)]
    change: Change,
}

impl Change {
    /// The engine's options.
    pub(super) fn options(&self, mode: Mode) -> Result<ReleaseOptions, Failure> {
        let mut options = ReleaseOptions { mode, ..self.common.options()? };
        self.revisions.set(&mut options);
        options.revisions.skip_unchanged = self.skip_unchanged;
        Ok(options)
    }

    pub(super) fn job<'a>(
        &'a self,
        (name, reference): (&str, &'a str),
        verb: &'static str,
        mode: Mode,
    ) -> Result<Job<'a>, Failure> {
        let old = &self.old_values;
        let values = match (old.reset_values, old.reuse_values, old.reset_then_reuse_values) {
            (true, _, _) => OldValues::Reset,
            (_, true, _) => OldValues::Reuse,
            (_, _, true) => OldValues::ResetThenReuse,
            _ => OldValues::IfNone,
        };
        let name = name.to_owned();
        Ok(Job { verb, name, reference, common: &self.common, options: self.options(mode)?, values })
    }
}

pub(super) fn install(globals: &Globals, args: &InstallArgs) -> Result<(), Explained> {
    const FAILED: &str = "INSTALLATION FAILED: ";
    let failed = |text: &str| Explained::from(format!("{FAILED}{text}"));
    let (name, reference) = match &args.names[..] {
        [_, _] if args.generate_name => {
            return Err(failed("cannot set --generate-name and also specify a name"));
        }
        [_, _] if !args.name_template.is_empty() => {
            return Err(failed("cannot set --name-template and also specify a name"));
        }
        [name, reference] => (name.clone(), reference),
        [reference] if !args.name_template.is_empty() => {
            (release_name(&args.name_template).map_err(|e| failed(&e))?, reference)
        }
        [reference] if args.generate_name => (generated_name(reference), reference),
        [_, _, more @ ..] => {
            let more = more.join(", ");
            return Err(failed(&format!("expected at most two arguments, unexpected arguments: {more}")));
        }
        _ => return Err(failed("must either provide a name or specify --generate-name")),
    };
    if let Some(text) = release_name_error(&name) {
        log(globals, "ERROR", NAME_CHECK, &[("error", &text)]);
        return Err(failed(&format!("{NAME_CHECK}: {text}")));
    }
    let mut options = ReleaseOptions { mode: Mode::Install, ..args.common.options()? };
    options.revisions.replace = args.replace;
    let values = OldValues::Reset;
    let job = Job { verb: "install", name, reference, common: &args.common, options, values };
    run(globals, job, &args.told, FAILED)
}

pub(super) fn upgrade(globals: &Globals, args: &UpgradeArgs) -> Result<(), Explained> {
    const FAILED: &str = "UPGRADE FAILED: ";
    let name = &args.name;
    if let Some(text) = release_name_error(name) {
        return Err(format!("{FAILED}release name is invalid: {name}: {text}").into());
    }
    let mode = if args.install { Mode::UpgradeInstall } else { Mode::Upgrade };
    run(globals, args.change.job((name, &args.chart), "upgrade", mode)?, &args.told, FAILED)
}

/// The check of a name, for a log line and for an error.
const NAME_CHECK: &str = "release name check failed";

/// Prints a log line of Helm 4.
fn log(globals: &Globals, level: &str, text: &str, attributes: &[(&str, &str)]) {
    if globals.profile() == Profile::Helm4 {
        tell(&slog::line(level, text, attributes));
    }
}

/// `chart-1699999999`, from the chart's file name as in Helm.
fn generated_name(reference: &str) -> String {
    let base = reference.trim_end_matches('/').rsplit('/').next().unwrap_or("chart");
    let base = base.split('.').next().unwrap_or(base);
    let base = if base.is_empty() { "chart" } else { base };
    format!("{base}-{}", jiff::Timestamp::now().as_second())
}

fn run(globals: &Globals, mut job: Job<'_>, told: &OutputFlags, failed: &str) -> Result<(), Explained> {
    let simulation = DryRun::read(told.dry_run.as_deref(), globals.profile())?;
    let dry = simulation.is_dry();
    if told.hide_secret && !dry {
        const REFUSED: &str = "hiding Kubernetes secrets requires a dry-run mode";
        if job.options.mode == Mode::Install {
            log(globals, "ERROR", REFUSED, &[]);
        }
        return Err(format!("{failed}{REFUSED}").into());
    }
    job.options.dry_run = dry;
    let text = |e: Explained| e.text(|t| format!("{failed}{t}"));
    // For an upgrade, Helm prefixes only errors of the operation itself with the verb.
    let material = match job.options.mode {
        Mode::Install => ChartInputs::load(globals, &job).map_err(text)?,
        Mode::Upgrade | Mode::UpgradeInstall => ChartInputs::load(globals, &job)?,
    };
    if job.options.mode == Mode::Install && simulation == DryRun::Client {
        return dry_install(globals, &job, told, material).map_err(text);
    }
    // A connection error has only a text; an error of the operation has an explanation.
    with_engine(globals, async |mut s| {
        s.engine = s.engine.bounded(job.options.deadline);
        let past;
        if job.options.mode == Mode::Install {
            past = s.engine.history_of(&s.id(&job.name)).await.map_err(|e| format!("{failed}{e}"))?;
        } else {
            (s, past) = s.located_with_history(&job.name).await?;
        }
        Ok(execute_operation(&s, globals, &job, told, (material, past), failed).await)
    })?
}

/// `install --dry-run`: renders and prints without a cluster.
fn dry_install(
    globals: &Globals,
    job: &Job<'_>,
    told: &OutputFlags,
    material: ChartInputs,
) -> Result<(), Explained> {
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let options = build::render_options(globals, job, namespace, Capabilities::default(), 1);
    let documents = Schemas::new(globals);
    let (user, compiled, post) = material.compile(globals.profile());
    let request = RenderRequest {
        documents: Some(&documents),
        dns: job.common.render.enable_dns,
        ..RenderRequest::new(&compiled, &user.values, &options, globals.render_bounds().deadline())
    };
    let rendered = request.render(&mut |w| tell(&w)).map_err(|e| {
        let shown = failure::explains(globals);
        let report = failure::of_render(shown, &e, compiled.chart(), &user, globals.profile());
        Explained { text: e.to_string(), report }
    })?;
    let rendered =
        build::finish(rendered, post.as_ref(), &globals.render_bounds(), |e| e.to_string().into())?;
    let now = now();
    let record = Record {
        name: job.name.clone(),
        namespace: namespace.to_owned(),
        version: 1,
        info: Info {
            first_deployed: now.clone(),
            last_deployed: now,
            status: ReleaseStatus::PendingInstall,
            notes: rendered.notes.clone(),
            ..Info::default()
        },
        chart: chart_record(compiled.chart()).0,
        config: to_json(&Data::Map(user.values)),
        manifest: rendered.manifest_text.clone(),
        hooks: rendered.hooks.iter().map(RecordedHook::from).collect(),
        apply_method: job.options.apply.method(None).as_str().to_owned(),
        ..Record::default()
    };
    Ok(show_dry(globals, record, &rendered, told)?)
}

/// Prints the record that would be written.
pub(super) fn show_dry(
    globals: &Globals,
    mut record: Record,
    rendered: &RenderedRelease,
    told: &OutputFlags,
) -> Result<(), Failure> {
    record.info.description = "Dry run complete".to_owned();
    if told.hide_secret {
        let is_secret = |o: &Value| o["kind"] == "Secret" && o["apiVersion"] == "v1";
        let shown = |m: &windlass_engine::Manifest| match is_secret(&m.object) {
            true => format!("---\n# Source: {}\n# HIDDEN: The Secret output has been suppressed\n", m.source),
            false => format!("---\n# Source: {}\n{}\n", m.source, m.text),
        };
        record.manifest = rendered.manifests.iter().map(shown).collect();
    }
    status::show(&record, told.output, Shown::after(globals, told.hide_notes))
}

async fn execute_operation(
    s: &Connected,
    globals: &Globals,
    job: &Job<'_>,
    told: &OutputFlags,
    (material, past): (ChartInputs, History),
    failed: &str,
) -> Result<(), Explained> {
    let mode = job.options.mode;
    let installing = build::installs(mode, past.newest());
    // Helm adds no prefix to the errors of an install by `upgrade --install`.
    let failed = if installing && mode == Mode::UpgradeInstall { "" } else { failed };
    let text = |e: String| format!("{failed}{e}");
    let people = told.output == Format::Table;
    if mode == Mode::UpgradeInstall && installing && people {
        print(format!("Release \"{}\" does not exist. Installing it now.\n", job.name).as_bytes())?;
    }
    let dry = job.options.dry_run;
    let crds = if dry { CrdsBeforeRender::Leave } else { CrdsBeforeRender::Install };
    let built = build::request(s, globals, job, material, &past, crds)
        .await
        .map_err(|e| e.text(|t| format!("{failed}{t}")))?;
    let request = &built.request;
    if let Some(memory) = built.memory.filter(|_| !dry) {
        // Store them before the objects are applied: the next render needs the values, even if this operation fails.
        store::save(s.engine.cluster(), s.engine.storage_namespace_of(&request.id), &job.name, &memory)
            .await
            .map_err(text)?;
    }
    let outcome = s.try_run(s.engine.reconcile_with_history(request, past)).await.map_err(|e| {
        match &e {
            EngineError::NameInUse | EngineError::HalfUninstalled { .. } => {
                log(globals, "ERROR", NAME_CHECK, &[("error", &e.to_string())]);
            }
            e if !installing && e.failed_a_revision() => {
                log(globals, "WARN", "upgrade failed", &[("name", &job.name), ("error", &e.to_string())]);
            }
            _ => {}
        }
        text(build::refused(e))
    })?;
    for warning in &outcome.warnings {
        tell(&format!("level=WARN msg={warning:?}"));
    }
    if !built.installing && people {
        let line = match outcome.action {
            ReleaseAction::Unchanged if !dry => format!("Release \"{}\" is unchanged.\n", job.name),
            ReleaseAction::Restore if !dry => {
                format!("Release \"{}\" is as it was: {}.\n", job.name, outcome.reason)
            }
            _ => format!("Release \"{}\" has been upgraded. Happy Helming!\n", job.name),
        };
        print(line.as_bytes())?;
    }
    let record = match &outcome.record {
        Some(record) => (**record).clone(),
        None => s.engine.records().get(&s.id(&job.name), 0).await.map_err(|e| text(e.to_string()))?,
    };
    if dry {
        return Ok(show_dry(globals, record, &request.rendered, told)?);
    }
    Ok(status::show(&record, told.output, Shown::after(globals, told.hide_notes))?)
}
