//! `-k` of `plan`, `diff` and `apply`: a kustomization as a release.
//!
//! Owns its name, its namespace and the options that differ from those of charts. How it is built is `build_kustomization`.

use std::sync::Arc;

use chart_compat::render::release_name_error;

use super::build::{installs, refused};
use super::build_kustomization::BuildFlags;
use super::flags::Globals;
use super::install::{OutputFlags, show_dry};
use super::output::Format;
use super::release_flags::{DryRun, ReleaseFlags, Revisions, lenient};
use super::status::{self, Shown};
use super::{Connected, Failure, print, tell, with_engine};
use windlass_engine::record::Record;
use windlass_engine::{
    Adoption, ChangeVerb, ChartRecord, Mode, PruneConfig, ReleaseAction, ReleaseOptions, ReleaseOutcome,
    ReleaseRequest, RenderedRelease, verb_style,
};
use windlass_render::{contains_namespace, finished_chart, finished_release};

/// What the record says the release is.
const DESCRIPTION: &str = "A kustomization";

/// Flags that select a kustomization in place of a chart.
#[derive(clap::Args)]
pub(super) struct KustomizeFlags {
    /// A kustomization in place of a chart: its directory, or the URL of a repository with a path
    #[arg(short = 'k', long = "kustomize", value_name = "DIR|URL")]
    kustomize: Option<String>,
    /// The release of the kustomization [default: its metadata.name, else the name of its directory]
    #[arg(long, value_name = "NAME", requires = "kustomize")]
    release_name: Option<String>,
    #[command(flatten)]
    build: BuildFlags,
}

/// A kustomization that is built to a release.
pub(super) struct Kustomization {
    name: String,
    rendered: RenderedRelease,
    chart: ChartRecord,
    /// The flags, with the namespace of the release.
    pub(super) globals: Globals,
}

impl KustomizeFlags {
    /// Builds the kustomization, if one is selected. Blocks; must not run on a thread that drives a runtime.
    ///
    /// # Errors
    /// The build fails, or the release has no valid name.
    pub(super) fn build(&self, globals: &Globals) -> Result<Option<Kustomization>, Failure> {
        let Some(target) = self.kustomize.as_deref() else { return Ok(None) };
        let built = self.build.build(globals, target, false)?;
        let name = match &self.release_name {
            Some(name) => name.clone(),
            None => built.name.clone(),
        };
        if let Some(reason) = release_name_error(&name) {
            let hint = if self.release_name.is_none() { "; give one with --release-name" } else { "" };
            return Err(format!("{reason}{hint}"));
        }
        let files = built.files()?.into_iter().map(|(file, text)| (format!("{name}/{file}"), text));
        let (profile, bounds) = (globals.profile(), globals.render_bounds());
        let rendered = finished_release(files, profile, &bounds, &mut |line| tell(&line));
        let rendered = rendered.map_err(|e| e.to_string())?;
        let chart = finished_chart(&name, None, DESCRIPTION);
        let own = Some(built.namespace).filter(|namespace| !namespace.is_empty());
        let mut globals = globals.clone();
        globals.namespace = globals.namespace.or(own);
        Ok(Some(Kustomization { name, rendered, chart, globals }))
    }
}

/// The options of a kustomization: existing objects that belong to no release are taken over, with the fields that `kubectl apply`
/// has set; no revision is created for what is deployed; ConfigMaps and Secrets with old hashes stay as long as workloads refer to them.
fn adjusted(mut options: ReleaseOptions) -> ReleaseOptions {
    options.mode = Mode::UpgradeInstall;
    options.revisions.skip_unchanged = true;
    options.objects.prune_config = PruneConfig::Unreferenced;
    options.ownership.adopt_kubectl_fields = true;
    if options.ownership.adoption == Adoption::Marked {
        options.ownership.adoption = Adoption::Unowned;
    }
    options
}

impl Kustomization {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The engine's request. `newest`: the newest revision.
    pub(super) fn request(
        self,
        s: &Connected,
        flags: &ReleaseFlags,
        options: ReleaseOptions,
        newest: Option<&Record>,
    ) -> ReleaseRequest {
        let mut options = lenient(adjusted(options), self.globals.profile());
        // The record is written before the first object, and needs its namespace.
        options.create_namespace |= contains_namespace(&self.rendered, &s.namespace);
        options.create_namespace &= installs(options.mode, newest);
        ReleaseRequest {
            id: s.id(&self.name),
            rendered: Arc::new(self.rendered),
            chart: Arc::new(self.chart),
            config: serde_json::json!({}),
            owner: None,
            description: flags.description(),
            labels: flags.labels(),
            cause: s.cause("apply"),
            options,
        }
    }
}

/// Flags of `apply -k` that are those of `upgrade`.
pub(super) struct ApplyFlags<'a> {
    pub(super) release: &'a ReleaseFlags,
    pub(super) revisions: &'a Revisions,
    pub(super) told: &'a OutputFlags,
}

/// `apply -k`.
pub(super) fn apply(made: Kustomization, flags: &ApplyFlags<'_>) -> Result<(), Failure> {
    let told = flags.told;
    let mut options = flags.release.options()?;
    flags.revisions.set(&mut options);
    options.dry_run = DryRun::read(told.dry_run.as_deref(), made.globals.profile())?.is_dry();
    if told.hide_secret && !options.dry_run {
        return Err("hiding Kubernetes secrets requires a dry-run mode".to_owned());
    }
    let globals = made.globals.clone();
    with_engine(&globals, async |mut s| {
        s.engine = s.engine.bounded(options.deadline);
        let id = s.id(made.name());
        let past = s.engine.history_of(&id).await.map_err(|e| e.to_string())?;
        let request = made.request(&s, flags.release, options, past.newest());
        let outcome = s.try_run(s.engine.reconcile_with_history(&request, past)).await.map_err(refused)?;
        for warning in &outcome.warnings {
            tell(&format!("level=WARN msg={warning:?}"));
        }
        let record = match &outcome.record {
            Some(record) => (**record).clone(),
            None => s.engine.records().get(&id, 0).await.map_err(|e| e.to_string())?,
        };
        if request.options.dry_run {
            return show_dry(&globals, record, &request.rendered, told);
        }
        if told.output == Format::Table {
            print(summary(&id.name, &outcome).as_bytes())?;
        }
        status::show(&record, told.output, Shown::after(&globals, told.hide_notes))
    })
}

/// A line for each object that was written, deleted or kept.
fn summary(name: &str, outcome: &ReleaseOutcome) -> String {
    let mut out = match outcome.action {
        ReleaseAction::Unchanged => format!("Release \"{name}\" is unchanged.\n"),
        ReleaseAction::Restore => format!("Release \"{name}\" is as it was: {}.\n", outcome.reason),
        _ => String::new(),
    };
    let written = [
        (ChangeVerb::Create, &outcome.created),
        (ChangeVerb::Update, &outcome.changed),
        (ChangeVerb::Delete, &outcome.pruned),
    ];
    for (verb, objects) in written {
        let (mark, ..) = verb_style(verb);
        objects.iter().for_each(|object| out.push_str(&format!("{mark} {object}\n")));
    }
    let (mark, ..) = verb_style(ChangeVerb::Skip);
    for (object, reason) in &outcome.kept {
        out.push_str(&format!("{mark} {object}  it left the release; {reason}\n"));
    }
    out
}
