//! Builds the engine's request from a chart and values: the common part of install, upgrade and plan.

use std::sync::Arc;

use chart_compat::data::Data;
use chart_compat::profile::Profile;
use chart_compat::render::{self, Capabilities, CompiledChart, Release};

use super::chart::PullNotes;
use super::failure::{self, Explained};
use super::fetch::ChartPath;
use super::flags::{Globals, Render};
use super::hints;
use super::post_render::{PostRender, PostRenderer};
use super::release_flags::{Crds, ReleaseFlags, lenient};
use super::schemas::Schemas;
use super::values::{self, User};
use super::{Connected, Failure, chart, tell};
use windlass_controller::capabilities;
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{
    CrdPolicy, CrdRules, EngineError, History, Mode, MovedCrds, ReleaseOptions, ReleaseRequest,
    RenderedRelease,
};
use windlass_fetch::Loaded;
use windlass_render::replay::{self, GeneratedValues, store};
use windlass_render::{
    ClusterLookup, RenderBounds, RenderRequest, chart_record, crds, recorded_values, release, to_json,
};

/// Flags that install, upgrade and plan share.
#[derive(clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) render: Render,
    #[command(flatten)]
    pub(super) release: ReleaseFlags,
    /// If set, no CRDs will be installed
    #[arg(long, conflicts_with = "crds")]
    skip_crds: bool,
    /// How to treat the chart's crds/
    #[arg(long, value_enum)]
    crds: Option<Crds>,
    /// Update dependencies if they are missing before installing the chart
    #[arg(long)]
    dependency_update: bool,
    #[command(flatten)]
    pub(super) path: ChartPath,
    #[command(flatten)]
    post_render: PostRender,
    #[arg(long, hide = true)]
    disable_openapi_validation: bool,
}

impl Common {
    pub(super) fn options(&self) -> Result<ReleaseOptions, Failure> {
        let mut options = self.release.options()?;
        if self.crds == Some(Crds::Apply) {
            options.objects.moved_crds = MovedCrds::Keep;
        }
        Ok(ReleaseOptions {
            crds: match self.crds {
                _ if self.skip_crds => CrdPolicy::Skip,
                Some(Crds::Skip) => CrdPolicy::Skip,
                Some(Crds::Create) | None => CrdPolicy::Create,
                Some(Crds::Apply) => CrdPolicy::Apply,
            },
            ..options
        })
    }
}

/// The treatment of the values of the revision that an upgrade starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OldValues {
    Reset,
    /// The old values if there are no new ones.
    IfNone,
    /// New values over old ones, on the old defaults.
    Reuse,
    /// New values over old ones, on the new defaults.
    ResetThenReuse,
}

/// The operation, for any verb.
pub(super) struct Job<'a> {
    pub(super) verb: &'static str,
    pub(super) name: String,
    pub(super) reference: &'a str,
    pub(super) common: &'a Common,
    pub(super) options: ReleaseOptions,
    pub(super) values: OldValues,
}

/// A loaded chart with values.
pub(super) struct ChartInputs {
    pub(super) user: User,
    loaded: Loaded,
    post: Option<PostRenderer>,
}

/// The engine's request, and other results of the build.
pub(super) struct BuiltRequest {
    pub(super) request: ReleaseRequest,
    /// Whether it is the first revision, or the first after an uninstall.
    pub(super) installing: bool,
    /// The templates' random values, if they must be stored.
    pub(super) memory: Option<GeneratedValues>,
}

impl ChartInputs {
    pub(super) fn load(globals: &Globals, job: &Job<'_>) -> Result<Self, Explained> {
        let post = job.common.post_render.find(globals)?;
        let user = values::merge(globals, &job.common.render.values, globals.profile())?;
        // What else is on standard output of a plan may be structured.
        let notes = match job.verb {
            "install" | "upgrade" => PullNotes::Stdout,
            _ => PullNotes::Stderr,
        };
        let common = job.common;
        let loaded = chart::open(job.reference, globals, &common.path, common.dependency_update, notes)?;
        Ok(Self { user, loaded, post })
    }

    pub(super) fn compile(self, profile: Profile) -> (User, CompiledChart, Option<PostRenderer>) {
        (self.user, self.loaded.compile(profile), self.post)
    }
}

/// Converts the rendered release for the engine, after the post-renderer if there is one.
pub(super) fn finish(
    mut rendered: render::Rendered,
    post: Option<&PostRenderer>,
    bounds: &RenderBounds,
    explained: impl FnOnce(render::Error) -> Explained,
) -> Result<RenderedRelease, Explained> {
    let own = match post {
        Some(post) => post.apply(&mut rendered, false)?,
        None => None,
    };
    let mut release = release(&rendered, bounds).map_err(explained)?;
    if let Some(text) = own {
        release.manifest_text = String::from_utf8_lossy(&text).into_owned();
    }
    Ok(release)
}

pub(super) fn render_options(
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
        limits: globals.render_bounds().limits(),
    }
}

/// Whether a request would create the first revision.
pub(super) fn installs(mode: Mode, newest: Option<&Record>) -> bool {
    match (mode, newest) {
        (Mode::Install, _) | (Mode::UpgradeInstall, None) => true,
        (Mode::UpgradeInstall, Some(newest)) => newest.info.status == ReleaseStatus::Uninstalled,
        (Mode::Upgrade, _) => false,
    }
}

/// Whether the chart's CRDs are created by [`request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CrdsBeforeRender {
    /// Before rendering, as by Helm, unless the release's history forbids the operation.
    Install,
    /// Not at all: nothing is written.
    Leave,
}

/// Renders for a cluster and the history of the release.
pub(super) async fn request(
    s: &Connected,
    globals: &Globals,
    job: &Job<'_>,
    mut material: ChartInputs,
    past: &History,
    crds_before: CrdsBeforeRender,
) -> Result<BuiltRequest, Explained> {
    let (profile, newest) = (globals.profile(), past.newest());
    let installing = installs(job.options.mode, newest);
    if let Some(base) = past.upgrade_base().filter(|_| !installing) {
        old_values(job.values, base, &mut material, profile)?;
    }
    let (user, compiled, post) = material.compile(profile);
    // In an install, templates get revision 1, whatever the record's number (`Install.Run`).
    let revision = newest.filter(|_| !installing).map_or(1, |r| r.version + 1);
    let revision = i64::try_from(revision).unwrap_or(i64::MAX);
    let mut options = lenient(job.options.clone(), profile);
    options.create_namespace &= installing;
    if crds_before == CrdsBeforeRender::Install && options.crds.is_due(installing) {
        // Before the render: templates may look up the kinds of the chart's own CRDs.
        let files = crds(&compiled.chart().crds()).map_err(|e| e.to_string())?;
        if !files.is_empty() {
            s.engine.check_history(&s.id(&job.name), &options, past).await.map_err(refused)?;
        }
        let rules = CrdRules { policy: options.crds, adoption: options.ownership.adoption };
        s.engine.install_crds(&s.id(&job.name), &files, rules).await.map_err(|e| hints::engine_text(&e))?;
        options.crds = CrdPolicy::Skip;
    }
    let caps = capabilities(s.engine.cluster()).await.map_err(|e| e.to_string())?;
    let mut render_options = render_options(globals, job, &s.namespace, caps, revision);
    render_options.release.is_upgrade = !installing;
    let (lookup, documents) = (ClusterLookup::new(s.engine.cluster().clone()), Schemas::new(globals));
    let source = user.clone();
    let (shown, dns, replays) =
        (failure::explains(globals), job.common.render.enable_dns, job.common.render.replay);
    let (cluster, namespace, name) = (
        s.engine.cluster().clone(),
        s.engine.storage_namespace_of(&s.id(&job.name)).to_owned(),
        job.name.clone(),
    );
    let runtime = tokio::runtime::Handle::current();
    let bounds = globals.render_bounds();
    let work = move || {
        let render = RenderRequest {
            cluster: Some(&lookup),
            documents: Some(&documents),
            dns,
            ..RenderRequest::new(&compiled, &source.values, &render_options, bounds.deadline())
        };
        let explained = |e: render::Error| {
            let report = failure::of_render(shown, &e, compiled.chart(), &source, profile);
            Explained { text: e.to_string(), report }
        };
        let mut warn = |w: String| tell(&w);
        let mut memory = None;
        let mut renewed = Vec::new();
        let rendered = if replays {
            let load = || runtime.block_on(store::load(&cluster, &namespace, &name));
            let done = render.replay(&load, &mut warn).map_err(|e| match e {
                replay::Error::Render { error, .. } => explained(*error),
                other @ replay::Error::GeneratedValues(_) => other.to_string().into(),
            })?;
            (memory, renewed) = (done.memory, done.renewed);
            done.rendered
        } else {
            render.render(&mut warn).map_err(explained)?
        };
        let release = finish(rendered, post.as_ref(), &bounds, explained)?;
        Ok::<_, Explained>((release, chart_record(compiled.chart()), memory, renewed))
    };
    let done = tokio::task::spawn_blocking(work).await;
    let (rendered, record, memory, renewed) = done.map_err(|e| e.to_string())??;
    let request = ReleaseRequest {
        id: s.id(&job.name),
        rendered: Arc::new(rendered),
        chart: Arc::new(record),
        config: to_json(&Data::Map(user.values)),
        owner: None,
        description: job.common.release.description().or_else(|| replay::description(&renewed)),
        labels: job.common.release.labels(),
        cause: s.cause(job.verb),
        options,
    };
    Ok(BuiltRequest { request, installing, memory })
}

/// The text of a rejected operation, with Helm's prefix for the checks of names.
pub(super) fn refused(error: EngineError) -> String {
    match error {
        EngineError::NameInUse | EngineError::HalfUninstalled { .. } => {
            format!("release name check failed: {}", hints::engine_text(&error))
        }
        other => hints::engine_text(&other),
    }
}

/// The values of an upgrade: new ones, old ones, or new over old (`Upgrade.reuseValues`).
fn old_values(
    choice: OldValues,
    base: &Record,
    material: &mut ChartInputs,
    profile: Profile,
) -> Result<(), Failure> {
    let old = recorded_values::user_values(base);
    let name = format!("values of revision {}", base.version);
    match choice {
        OldValues::Reset => {}
        OldValues::IfNone => {
            if material.user.values.is_empty() {
                material.user = User::given(&name, old);
            }
        }
        OldValues::Reuse => {
            recorded_values::reuse_as_defaults(base, &mut material.loaded.chart, profile)?;
            material.user = std::mem::take(&mut material.user).over(&name, old);
        }
        OldValues::ResetThenReuse => material.user = std::mem::take(&mut material.user).over(&name, old),
    }
    Ok(())
}
