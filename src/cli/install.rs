//! `windlass install` and `windlass upgrade`: a chart and values to a release.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{self, Capabilities, CompiledChart, Release, release_name_error};
use chart_compat::template::Limits;

use super::failure::{self, Explained};
use super::flags::{Globals, Render, duration};
use super::output::Format;
use super::values::User;
use super::{Connected, Failure, chart, print, status, tell, values, with_engine};
use crate::addon::capabilities;
use crate::cluster::{Cluster, Validation};
use crate::release::{
    Action, CrdPolicy, EngineError, Immutable, Mode, Options, ReleaseRequest, RenderedRelease, Wait,
};
use crate::render::replay::{self, store};
use crate::render::{ClusterLookup, SystemWorld, chart_record, crds, release, to_json};

/// How much is only simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DryRun {
    None,
    #[value(alias = "true", alias = "unset")]
    Client,
    Server,
    #[value(name = "false")]
    Off,
}

/// Flags that install and upgrade share.
#[derive(clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    render: Render,
    /// Create the release namespace if not present
    #[arg(long)]
    create_namespace: bool,
    /// Simulates the operation: client (no cluster is asked) or server
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: Option<DryRun>,
    /// Prevent hooks from running
    #[arg(long)]
    no_hooks: bool,
    /// If set, no CRDs will be installed
    #[arg(long)]
    skip_crds: bool,
    /// Wait until all resources are ready before marking the release as successful
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "watcher")]
    wait: Option<String>,
    /// If set and --wait enabled, will wait until all Jobs have been completed
    #[arg(long)]
    wait_for_jobs: bool,
    /// Time to wait for any individual Kubernetes operation
    #[arg(long, default_value = "5m", value_parser = duration)]
    timeout: Duration,
    /// Take over objects that exist and belong to no release
    #[arg(long)]
    take_ownership: bool,
    /// Overwrite fields that other managers own
    #[arg(long)]
    force_conflicts: bool,
    /// Delete and create again what has an immutable field that changes
    #[arg(long, visible_alias = "force")]
    force_replace: bool,
    /// Add a custom description
    #[arg(long)]
    description: Option<String>,
    /// Labels that would be added to release metadata. Should be divided by comma
    #[arg(short = 'l', long, value_delimiter = ',')]
    labels: Vec<String>,
    /// Take over a release that someone else left in the middle of an operation
    #[arg(long)]
    break_lock: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Flags of `install`.
#[derive(clap::Args)]
pub(super) struct InstallArgs {
    /// `[NAME] CHART`
    #[arg(num_args = 1..=2, required = true, value_names = ["NAME", "CHART"])]
    names: Vec<String>,
    /// Generate the name (and omit the NAME parameter)
    #[arg(short, long)]
    generate_name: bool,
    /// Reuse the given name, only if that name is a deleted release which remains in the history
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    common: Common,
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
    /// Limit the maximum number of revisions saved per release. Use 0 for no limit
    #[arg(long, env = "HELM_MAX_HISTORY", default_value_t = 10)]
    history_max: usize,
    /// Allow deletion of new resources created in this upgrade when upgrade fails
    #[arg(long)]
    cleanup_on_fail: bool,
    /// When upgrading, reset the values to the ones built into the chart
    #[arg(long)]
    reset_values: bool,
    /// Make no revision when nothing would change
    #[arg(long)]
    skip_unchanged: bool,
    #[command(flatten)]
    common: Common,
}

/// What is to be done, whichever verb asked.
struct Job<'a> {
    name: String,
    reference: &'a str,
    common: &'a Common,
    mode: Mode,
    options: Options,
    /// Which values of the last revision count.
    values: OldValues,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OldValues {
    Reset,
    /// Those of the last revision if no new ones are given.
    IfNone,
}

impl Common {
    fn options(&self) -> Options {
        Options {
            create_namespace: self.create_namespace,
            dry_run: self.is_dry(),
            run_hooks: !self.no_hooks,
            crds: if self.skip_crds { CrdPolicy::Skip } else { CrdPolicy::Create },
            wait: match self.wait.as_deref() {
                None | Some("false" | "hookOnly") if !self.wait_for_jobs => Wait::HooksOnly,
                _ if self.wait_for_jobs => Wait::ReadyAndJobs,
                _ => Wait::Ready,
            },
            timeout: self.timeout,
            take_ownership: self.take_ownership,
            force_conflicts: self.force_conflicts,
            immutable: if self.force_replace { Immutable::Recreate } else { Immutable::Fail },
            validation: Validation::Strict,
            break_lock: self.break_lock,
            ..Options::default()
        }
    }

    fn is_dry(&self) -> bool {
        !matches!(self.dry_run, None | Some(DryRun::None | DryRun::Off))
    }

    fn labels(&self) -> Result<BTreeMap<String, String>, Failure> {
        let pair = |text: &String| match text.split_once('=') {
            Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
            None => Err(format!("label {text:?} has no value: give key=value")),
        };
        self.labels.iter().map(pair).collect()
    }
}

pub(super) fn install(globals: &Globals, args: &InstallArgs) -> Result<(), Explained> {
    let (name, reference) = match &args.names[..] {
        [name, reference] if !args.generate_name => (name.clone(), reference),
        [_, _] => return Err(failed(true, "cannot set --generate-name and also specify a name").into()),
        [reference] if args.generate_name => (generated_name(reference), reference),
        _ => return Err(failed(true, "must either provide a name or specify --generate-name").into()),
    };
    if let Some(text) = release_name_error(&name) {
        return Err(failed(true, &format!("release name check failed: {text}")).into());
    }
    let options = Options { mode: Mode::Install, replace: args.replace, ..args.common.options() };
    let job =
        Job { name, reference, common: &args.common, mode: Mode::Install, options, values: OldValues::Reset };
    run(globals, &job)
}

pub(super) fn upgrade(globals: &Globals, args: &UpgradeArgs) -> Result<(), Explained> {
    if let Some(text) = release_name_error(&args.name) {
        return Err(failed(false, &format!("release name is invalid: {}: {text}", args.name)).into());
    }
    let mode = if args.install { Mode::UpgradeInstall } else { Mode::Upgrade };
    let options = Options {
        mode,
        history_max: args.history_max,
        cleanup_on_fail: args.cleanup_on_fail,
        skip_unchanged: args.skip_unchanged,
        ..args.common.options()
    };
    let values = if args.reset_values { OldValues::Reset } else { OldValues::IfNone };
    let job =
        Job { name: args.name.clone(), reference: &args.chart, common: &args.common, mode, options, values };
    run(globals, &job)
}

fn failed(install: bool, text: &str) -> Failure {
    format!("{} FAILED: {text}", if install { "INSTALLATION" } else { "UPGRADE" })
}

/// `chart-1699999999`, from the chart's file name as Helm does.
fn generated_name(reference: &str) -> String {
    let base = reference.trim_end_matches('/').rsplit('/').next().unwrap_or("chart");
    let base = base.split('.').next().unwrap_or(base);
    let base = if base.is_empty() { "chart" } else { base };
    format!("{base}-{}", jiff::Timestamp::now().as_second())
}

fn run(globals: &Globals, job: &Job<'_>) -> Result<(), Explained> {
    let install = job.mode == Mode::Install;
    let text = |e: Explained| e.text(|t| failed(install, t));
    let user = values::merge(&job.common.render.values, globals.profile()).map_err(text)?;
    let compiled = chart::load(job.reference, globals.profile()).map_err(text)?;
    if install && job.common.dry_run == Some(DryRun::Client) {
        return dry_install(globals, job, &user, &compiled);
    }
    // The connection fails with a text alone; what the work itself fails with is explained.
    with_engine(globals, async |s| Ok(carry_out(&s, globals, job, user, compiled).await))?
}

fn render_options(
    globals: &Globals,
    job: &Job<'_>,
    namespace: &str,
    capabilities: Capabilities,
    revision: i64,
) -> render::Options {
    let capabilities =
        Capabilities { helm_version: globals.profile().helm_version().to_owned(), ..capabilities };
    render::Options {
        release: Release {
            name: job.name.clone(),
            namespace: namespace.to_owned(),
            revision,
            is_upgrade: revision > 1,
        },
        capabilities,
        skip_schema_validation: job.common.render.skip_schema_validation,
        subchart_notes: job.common.render.render_subchart_notes,
        limits: Limits::default(),
    }
}

/// `install --dry-run`: rendered and shown, no cluster asked.
fn dry_install(
    globals: &Globals,
    job: &Job<'_>,
    user: &User,
    compiled: &CompiledChart,
) -> Result<(), Explained> {
    let namespace = globals.namespace.as_deref().unwrap_or("default");
    let options = render_options(globals, job, namespace, Capabilities::default(), 1);
    let world = SystemWorld { cluster: None, dns: job.common.render.enable_dns };
    let rendered = compiled.render(&user.values, &options, &world, &mut |w| tell(&w)).map_err(|e| {
        let shown = failure::explains(globals);
        let report = failure::of_render(shown, &e, compiled.chart(), user, globals.profile());
        Explained { text: failed(true, &e.to_string()), report }
    })?;
    let rendered = release(&rendered).map_err(|e| failed(true, &e.to_string()))?;
    Ok(print(dry_text(&job.name, namespace, 1, "pending-install", &rendered).as_bytes())?)
}

fn dry_text(name: &str, namespace: &str, revision: u64, status: &str, rendered: &RenderedRelease) -> String {
    let mut out = format!(
        "NAME: {name}\nNAMESPACE: {namespace}\nSTATUS: {status}\nREVISION: {revision}\nDESCRIPTION: Dry run complete\nHOOKS:\n"
    );
    for h in &rendered.hooks {
        out.push_str(&format!("---\n# Source: {}\n{}\n", h.path, h.text));
    }
    out.push_str(&format!("MANIFEST:\n{}\n", rendered.manifest_text));
    if !rendered.notes.is_empty() {
        out.push_str(&format!("NOTES:\n{}\n", rendered.notes.trim()));
    }
    out
}

async fn live_capabilities(cluster: &Cluster) -> Result<Capabilities, String> {
    capabilities(cluster).await.map_err(|e| e.to_string())
}

async fn carry_out(
    s: &Connected,
    globals: &Globals,
    job: &Job<'_>,
    user: User,
    compiled: CompiledChart,
) -> Result<(), Explained> {
    let past = match s.engine.history(&s.id(&job.name)).await {
        Ok(past) => past,
        Err(EngineError::NotFound) => Vec::new(),
        Err(e) => return Err(failed(job.mode == Mode::Install, &e.to_string()).into()),
    };
    let install = job.mode == Mode::Install || job.mode == Mode::UpgradeInstall && past.is_empty();
    let text = |e: String| failed(install, &e);
    let user = match past.last() {
        Some(last) if !install => old_values(job.values, last, user),
        _ => user,
    };
    let last_revision = past.last().map_or(0, |r| r.version);
    let revision = i64::try_from(last_revision + 1).unwrap_or(i64::MAX);
    let mut engine_options = job.options.clone();
    if install && !job.common.is_dry() && engine_options.crds == CrdPolicy::Create {
        // As Helm does, before the render: templates may look for the kinds of the chart's own CRDs.
        let files = crds(&compiled.chart().crds()).map_err(|e| text(e.to_string()))?;
        s.engine.install_crds(&files, CrdPolicy::Create).await.map_err(|e| text(e.to_string()))?;
        engine_options.crds = CrdPolicy::Skip;
    }
    let caps = live_capabilities(s.engine.cluster()).await.map_err(text)?;
    if job.mode == Mode::UpgradeInstall && install && job.common.output == Format::Table {
        print(format!("Release \"{}\" does not exist. Installing it now.\n", job.name).as_bytes())?;
    }
    let mut options = render_options(globals, job, &s.namespace, caps, revision);
    options.release.is_upgrade = !install;
    let lookup = ClusterLookup::new(s.engine.cluster().clone());
    let dns = job.common.render.enable_dns;
    let source = user.clone();
    let (shown, profile) = (failure::explains(globals), globals.profile());
    let replays = job.common.render.replay;
    let (cluster, namespace, name) = (s.engine.cluster().clone(), s.namespace.clone(), job.name.clone());
    let runtime = tokio::runtime::Handle::current();
    let work = move || {
        let world = SystemWorld { cluster: Some(&lookup), dns };
        let explained = |e: render::Error| {
            let report = failure::of_render(shown, &e, compiled.chart(), &source, profile);
            Explained { text: e.to_string(), report }
        };
        let mut memory = None;
        let mut renewed = Vec::new();
        let rendered = if replays {
            let load = || runtime.block_on(store::load(&cluster, &namespace, &name));
            let done = replay::render(&compiled, &source.values, &options, &world, &load, &mut |w| tell(&w));
            let done = done.map_err(|e| match e {
                replay::Error::Render(e) => explained(e),
                other @ replay::Error::Memory(_) => other.to_string().into(),
            })?;
            (memory, renewed) = (done.memory, done.renewed);
            done.rendered
        } else {
            compiled.render(&source.values, &options, &world, &mut |w| tell(&w)).map_err(explained)?
        };
        let release = release(&rendered).map_err(explained)?;
        Ok::<_, Explained>((release, chart_record(compiled.chart()), memory, renewed))
    };
    let done = tokio::task::spawn_blocking(work).await;
    let (rendered, record, memory, renewed) =
        done.map_err(|e| text(e.to_string()))?.map_err(|e| e.text(|t| failed(install, t)))?;
    if let Some(memory) = memory.filter(|_| !job.common.is_dry()) {
        // Before the objects: what they hold must be known to the next render, whatever happens to this one.
        store::save(s.engine.cluster(), &s.namespace, &job.name, &memory).await.map_err(text)?;
    }
    let request = ReleaseRequest {
        id: s.id(&job.name),
        rendered: Arc::new(rendered),
        chart: Arc::new(record),
        config: to_json(&Data::Map(user.values)),
        owner: None,
        description: job.common.description.clone().or_else(|| replay::description(&renewed)),
        labels: job.common.labels().map_err(text)?,
        options: engine_options,
    };
    let outcome = s.engine.reconcile(&request).await.map_err(|e| {
        let e = match e {
            EngineError::NameInUse => format!("release name check failed: {e}"),
            other => other.to_string(),
        };
        text(e)
    })?;
    for warning in &outcome.warnings {
        tell(&format!("level=WARN msg={warning:?}"));
    }
    if job.common.is_dry() {
        let status = if install { "pending-install" } else { "pending-upgrade" };
        let text = dry_text(&job.name, &s.namespace, outcome.revision, status, &request.rendered);
        return Ok(print(text.as_bytes())?);
    }
    if !install && job.common.output == Format::Table {
        let line = if outcome.action == Action::Unchanged {
            format!("Release \"{}\" is unchanged.\n", job.name)
        } else {
            format!("Release \"{}\" has been upgraded. Happy Helming!\n", job.name)
        };
        print(line.as_bytes())?;
    }
    let helm3 = globals.profile() == Profile::Helm3;
    match &outcome.record {
        Some(record) => Ok(status::show(record, job.common.output, helm3)?),
        None => {
            let record = s.engine.get(&s.id(&job.name), 0).await.map_err(|e| text(e.to_string()))?;
            Ok(status::show(&record, job.common.output, helm3)?)
        }
    }
}

/// The values of an upgrade: new ones, old ones, or new over old.
fn old_values(choice: OldValues, last: &crate::release::record::Record, user: User) -> User {
    let old = match crate::render::from_json(&last.config) {
        Data::Map(m) => m,
        _ => Map::new(),
    };
    let old = User::given(&format!("values of revision {}", last.version), old);
    match choice {
        OldValues::Reset => user,
        OldValues::IfNone if !user.values.is_empty() => user,
        OldValues::IfNone => old,
    }
}
