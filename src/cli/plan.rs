//! `windlass plan` (or `diff`) and `windlass apply`: show what a change of a release would do, and apply exactly that. Also
//! `--plan` of other verbs.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::build::{self, ChartInputs, CrdsBeforeRender};
use super::failure::Explained;
use super::flags::Globals;
use super::hints;
use super::install::{Change, OutputFlags};
use super::kustomize_release::{self, ApplyFlags, Kustomization, KustomizeFlags};
use super::output::{self, Format};
use super::release_flags::{ReleaseFlags, Revisions};
use super::status::{self, Shown};
use super::{Failure, plan_helmrelease, plan_markdown, print, tell, with_engine};
use windlass_base::bounded_json;
use windlass_base::bounded_read;
use windlass_engine::{ChangeVerb, Mode, Preview, ReleaseRequest};
use windlass_render::replay::{GeneratedValues, store};

/// The version of the plan format that is read and written.
const VERSION: u64 = 2;
/// The largest plan file, in bytes.
const LARGEST: u64 = 512 << 20;
/// Exit status of `--detailed-exitcode` if something would change.
pub(super) const CHANGES: u8 = 2;

/// Output format of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PlanFormat {
    /// Text
    #[default]
    Table,
    /// JSON in one line
    Json,
    /// YAML
    Yaml,
    /// Markdown, for the comment of a merge request
    Markdown,
}

impl PlanFormat {
    /// The format of structured output; `None` for text and Markdown.
    pub(super) fn structured(self) -> Option<Format> {
        match self {
            Self::Json => Some(Format::Json),
            Self::Yaml => Some(Format::Yaml),
            Self::Table | Self::Markdown => None,
        }
    }
}

impl From<Format> for PlanFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Table => Self::Table,
            Format::Json => Self::Json,
            Format::Yaml => Self::Yaml,
        }
    }
}

/// Flags, and groups of flags (their structs), that a kustomization does not have. A struct that contains others is not a group.
const OF_CHARTS: [&str; 25] = [
    "name",
    "chart",
    "helmrelease",
    "Values",
    "skip_schema_validation",
    "render_subchart_notes",
    "enable_dns",
    "replay",
    "version",
    "devel",
    "repo",
    "pass_credentials",
    "verify",
    "Keyring",
    "Cosign",
    "username",
    "password",
    "plain_http",
    "TlsFlags",
    "PostRender",
    "dependency_update",
    "skip_crds",
    "crds",
    "OldValuesFlags",
    "disable_openapi_validation",
];

/// Flags of `plan`.
#[derive(clap::Args)]
#[command(mut_arg("kustomize", |arg| arg.conflicts_with_all(OF_CHARTS)))]
pub(super) struct PlanArgs {
    /// The release
    #[arg(required_unless_present_any = ["helmrelease", "kustomize"], conflicts_with = "helmrelease")]
    name: Option<String>,
    /// The chart
    #[arg(required_unless_present_any = ["helmrelease", "kustomize"], conflicts_with = "helmrelease")]
    chart: Option<String>,
    #[command(flatten)]
    kustomize: KustomizeFlags,
    #[command(flatten)]
    helm_release: plan_helmrelease::Flags,
    /// Write the plan to a file for `windlass apply`; the file contains the values and Secrets of the release
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with status 2 if any object would change
    #[arg(long)]
    detailed_exitcode: bool,
    /// Also list unchanged objects
    #[arg(long)]
    show_unchanged: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: PlanFormat,
    #[command(flatten)]
    change: Change,
}

/// Flags of the other verbs that can be planned.
#[derive(clap::Args)]
pub(super) struct Planned {
    /// Show what would happen to each object, and why, without writing
    #[arg(long)]
    plan: bool,
    /// Prints the plan in the specified format
    #[arg(short, long, value_enum, default_value_t, requires = "plan")]
    output: Format,
}

impl Planned {
    pub(super) fn only(&self) -> bool {
        self.plan
    }

    pub(super) fn show(&self, globals: &Globals, preview: &Preview) -> Result<(), Failure> {
        show(globals, preview, self.output.into(), false)
    }
}

/// Flags of `apply`.
#[derive(clap::Args)]
pub(super) struct ApplyArgs {
    /// A plan that `windlass plan --out` wrote
    #[arg(required_unless_present = "kustomize", conflicts_with_all = OF_KUSTOMIZATIONS)]
    plan: Option<PathBuf>,
    #[command(flatten)]
    kustomize: KustomizeFlags,
    #[command(flatten)]
    told: OutputFlags,
    #[command(flatten)]
    release: ReleaseFlags,
    #[command(flatten)]
    revisions: Revisions,
}

/// Flags, and groups of flags, that a saved plan answers already.
const OF_KUSTOMIZATIONS: [&str; 13] = [
    "kustomize",
    "release_name",
    "BuildFlags",
    "create_namespace",
    "take_ownership",
    "rollback_on_failure",
    "atomic",
    "description",
    "labels",
    "OperationFlags",
    "cleanup_on_fail",
    "dry_run",
    "hide_secret",
];

/// A saved plan.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// The format version, [`VERSION`].
    windlass_plan: u64,
    /// Address of the API server that it was created on.
    server: String,
    /// Namespace of the records, where it is not the release's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    storage_namespace: Option<String>,
    request: ReleaseRequest,
    /// The templates' random values.
    memory: Option<GeneratedValues>,
    preview: Preview,
}

pub(super) fn plan(globals: &Globals, args: &PlanArgs) -> Result<ExitCode, Explained> {
    if let Some(object) = &args.helm_release.helmrelease {
        let request = plan_helmrelease::Request {
            object,
            flags: &args.helm_release,
            files: &args.change.common.render.values.files,
            path: &args.change.common.path,
            output: args.output,
            unchanged: args.show_unchanged,
        };
        return plan_helmrelease::run(globals, &request);
    }
    let saved = match args.kustomize.build(globals)? {
        Some(made) => plan_kustomization(made, args)?,
        None => plan_chart(globals, args)?,
    };
    let preview = &saved.preview;
    show(globals, preview, args.output, args.show_unchanged)?;
    if let Some(path) = &args.out {
        save(path, &saved)?;
    }
    let differs = args.detailed_exitcode && preview.changes_anything();
    Ok(if differs { ExitCode::from(CHANGES) } else { ExitCode::SUCCESS })
}

fn plan_kustomization(made: Kustomization, args: &PlanArgs) -> Result<Saved, Failure> {
    let options = args.change.options(Mode::UpgradeInstall)?;
    let globals = made.globals.clone();
    with_engine(&globals, async |s| {
        let newest = s.engine.records().newest(&s.id(made.name())).await.map_err(|e| e.to_string())?;
        let request = made.request(&s, &args.change.common.release, options, newest.as_ref());
        let preview = s.run(s.engine.plan(&request)).await?;
        Ok(Saved {
            windlass_plan: VERSION,
            server: s.engine.cluster().server(),
            storage_namespace: None,
            request,
            memory: None,
            preview,
        })
    })
}

fn plan_chart(globals: &Globals, args: &PlanArgs) -> Result<Saved, Explained> {
    let (name, chart) = (args.name.as_deref().unwrap_or_default(), args.chart.as_deref().unwrap_or_default());
    let mut job = args.change.job((name, chart), "apply of a plan", Mode::UpgradeInstall)?;
    job.options.dry_run = false;
    let material = ChartInputs::load(globals, &job)?;
    with_engine(globals, async |s| {
        Ok(async {
            let (s, past) = s.located_with_history(&job.name).await?;
            let built = build::request(&s, globals, &job, material, &past, CrdsBeforeRender::Leave).await?;
            let preview = s.run(s.engine.plan(&built.request)).await?;
            let server = s.engine.cluster().server();
            let stored_in = s.engine.storage_namespace_of(&built.request.id);
            let storage_namespace = (stored_in != s.namespace).then(|| stored_in.to_owned());
            let (request, memory) = (built.request, built.memory);
            Ok::<_, Explained>(Saved {
                windlass_plan: VERSION,
                server,
                storage_namespace,
                request,
                memory,
                preview,
            })
        }
        .await)
    })?
}

/// Prints a plan.
///
/// # Errors
/// The server would reject a part of the plan.
fn show(globals: &Globals, preview: &Preview, format: PlanFormat, unchanged: bool) -> Result<(), Failure> {
    let preview = hints::with_flags(preview, hints::RELEASE_FLAGS);
    let text = match format.structured() {
        Some(format) => output::structured(&preview, format)?,
        None if format == PlanFormat::Markdown => plan_markdown::of_preview(&preview, unchanged),
        None => preview.text(unchanged, globals.paints()),
    };
    print(text.as_bytes())?;
    match preview.count(ChangeVerb::Blocked) {
        0 => Ok(()),
        blocked => Err(format!("the server would refuse {blocked} object(s) of this plan")),
    }
}

pub(super) fn apply(globals: &Globals, args: &ApplyArgs) -> Result<(), Failure> {
    if let Some(made) = args.kustomize.build(globals)? {
        let ApplyArgs { told, release, revisions, .. } = args;
        return kustomize_release::apply(made, &ApplyFlags { release, revisions, told });
    }
    let Some(path) = &args.plan else { return Err("neither a plan nor a kustomization is given".to_owned()) };
    let saved = load(path)?;
    with_engine(globals, async |mut s| {
        let Saved { request, preview, memory, storage_namespace, .. } = &saved;
        if let Some(namespace) = storage_namespace {
            s.engine = s.engine.with_storage_namespace(namespace, false);
        }
        let server = s.engine.cluster().server();
        if server != saved.server {
            return Err(format!("the plan was made on {}, and this is {server}", saved.server));
        }
        if let Some(memory) = memory {
            let id = &request.id;
            store::save(s.engine.cluster(), s.engine.storage_namespace_of(id), &id.name, memory).await?;
        }
        let outcome = s.run(s.engine.apply_planned(request, preview)).await?;
        for warning in &outcome.warnings {
            tell(&format!("level=WARN msg={warning:?}"));
        }
        let record = match &outcome.record {
            Some(record) => (**record).clone(),
            None => s.engine.records().get(&request.id, 0).await.map_err(|e| e.to_string())?,
        };
        status::show(&record, args.told.output, Shown::after(globals, args.told.hide_notes))
    })
}

/// Writes a plan to a file that only the owner can read, because it contains the data of Secrets.
fn save(path: &Path, saved: &Saved) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let bytes = serde_json::to_vec(saved).map_err(|e| failed(&e))?;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).mode(0o600).open(path).map_err(|e| failed(&e))?;
    // An existing file keeps its mode: restrict it before it has content.
    let metadata = file.metadata().map_err(|e| failed(&e))?;
    if metadata.is_file() {
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(|e| failed(&e))?;
        file.set_len(0).map_err(|e| failed(&e))?;
    }
    file.write_all(&bytes).map_err(|e| failed(&e))
}

fn load(path: &Path) -> Result<Saved, Failure> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: not a plan of windlass: {e}", path.display());
    let bytes = bounded_read::read_file(path, LARGEST).map_err(|e| format!("{}: {e}", path.display()))?;
    let version =
        bounded_json::from_slice_within::<Value>(&bytes, u64::MAX).map_err(|e| failed(&e))?["windlass_plan"]
            .as_u64();
    if version != Some(VERSION) {
        return Err(failed(&"it is of another version"));
    }
    bounded_json::from_slice_within(&bytes, u64::MAX).map_err(|e| failed(&e))
}
