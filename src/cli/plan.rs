//! `windlass plan` (or `diff`) and `windlass apply`: show what a change of a release would do, and apply exactly that. Also
//! `--plan` of other verbs.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::build::{self, Material};
use super::failure::Explained;
use super::flags::Globals;
use super::hints;
use super::install::Change;
use super::output::{self, Format};
use super::status::{self, Shown};
use super::{Failure, plan_helmrelease, plan_markdown, print, tell, with_engine};
use crate::release::{ChangeVerb, Mode, Preview, ReleaseRequest};
use crate::render::replay::{GeneratedValues, store};

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

/// Flags of `plan`.
#[derive(clap::Args)]
pub(super) struct PlanArgs {
    /// The release
    #[arg(required_unless_present = "helmrelease", conflicts_with = "helmrelease")]
    name: Option<String>,
    /// The chart
    #[arg(required_unless_present = "helmrelease", conflicts_with = "helmrelease")]
    chart: Option<String>,
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
    plan: PathBuf,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// A saved plan.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// The format version, [`VERSION`].
    windlass_plan: u64,
    /// Address of the API server that it was created on.
    server: String,
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
    let (name, chart) = (args.name.as_deref().unwrap_or_default(), args.chart.as_deref().unwrap_or_default());
    let mut job = args.change.job((name, chart), "apply of a plan", Mode::UpgradeInstall)?;
    job.options.dry_run = false;
    let material = Material::load(globals, &job)?;
    let saved = with_engine(globals, async |s| {
        Ok(async {
            let newest = s.engine.newest(&s.id(&job.name)).await.map_err(|e| e.to_string())?;
            let built = build::request(&s, globals, &job, material, newest.as_ref(), None).await?;
            let preview = s.run(s.engine.plan(&built.request)).await?;
            let server = s.engine.cluster().server();
            let (request, memory) = (built.request, built.memory);
            Ok::<_, Explained>(Saved { windlass_plan: VERSION, server, request, memory, preview })
        }
        .await)
    })??;
    let preview = &saved.preview;
    show(globals, preview, args.output, args.show_unchanged)?;
    if let Some(path) = &args.out {
        save(path, &saved)?;
    }
    let differs = args.detailed_exitcode && preview.changes_anything();
    Ok(if differs { ExitCode::from(CHANGES) } else { ExitCode::SUCCESS })
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
    let saved = load(&args.plan)?;
    with_engine(globals, async |s| {
        let Saved { request, preview, memory, .. } = &saved;
        let server = s.engine.cluster().server();
        if server != saved.server {
            return Err(format!("the plan was made on {}, and this is {server}", saved.server));
        }
        if let Some(memory) = memory {
            let id = &request.id;
            store::save(s.engine.cluster(), &id.namespace, &id.name, memory).await?;
        }
        let outcome = s.run(s.engine.apply_planned(request, preview)).await?;
        for warning in &outcome.warnings {
            tell(&format!("level=WARN msg={warning:?}"));
        }
        let record = match &outcome.record {
            Some(record) => (**record).clone(),
            None => s.engine.get(&request.id, 0).await.map_err(|e| e.to_string())?,
        };
        status::show(&record, args.output, Shown::after(globals, false))
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
    let size = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.len();
    if size > LARGEST {
        return Err(failed(&format!("larger than {LARGEST} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let version = serde_json::from_slice::<Value>(&bytes).map_err(|e| failed(&e))?["windlass_plan"].as_u64();
    if version != Some(VERSION) {
        return Err(failed(&"it is of another version"));
    }
    serde_json::from_slice(&bytes).map_err(|e| failed(&e))
}
