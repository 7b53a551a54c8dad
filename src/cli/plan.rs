//! `windlass plan` (or `diff`) and `windlass apply`: what a change of a release would do, and just that done.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::build::{self, Material};
use super::failure::Explained;
use super::flags::Globals;
use super::install::Change;
use super::output::{self, Format};
use super::status::{self, Shown};
use super::{Failure, print, tell, with_engine};
use crate::release::{self, Mode, Preview, ReleaseRequest, Verb};
use crate::render::replay::{Memory, store};

/// The form of saved plans that this version reads and writes.
const VERSION: u64 = 1;
/// The largest plan that is read, in bytes.
const LARGEST: u64 = 512 << 20;
/// Exit status of `--detailed-exitcode` where something would change.
const CHANGES: u8 = 2;

/// Flags of `plan`.
#[derive(clap::Args)]
pub(super) struct PlanArgs {
    /// Write the plan to a file for `windlass apply`; it holds the values and Secrets of the release
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit with status 2 if any object would change
    #[arg(long)]
    detailed_exitcode: bool,
    /// List objects that stay as they are, too
    #[arg(long)]
    show_unchanged: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    change: Change,
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

/// A plan in a file.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// [`VERSION`].
    windlass_plan: u64,
    /// Address of the API server that it was made on.
    server: String,
    request: ReleaseRequest,
    /// What templates made by chance.
    memory: Option<Memory>,
    preview: Preview,
}

pub(super) fn plan(globals: &Globals, args: &PlanArgs) -> Result<ExitCode, Explained> {
    let mut job = args.change.job("apply of a plan", Mode::UpgradeInstall)?;
    job.options.dry_run = false;
    let material = Material::load(globals, &job)?;
    let saved = with_engine(globals, async |s| {
        Ok(async {
            let newest = s.engine.newest(&s.id(&job.name)).await.map_err(|e| e.to_string())?;
            let built = build::request(&s, globals, &job, material, newest.as_ref(), false).await?;
            let preview = s.run(s.engine.plan(&built.request)).await?;
            let server = s.engine.cluster().server();
            let (request, memory) = (built.request, built.memory);
            Ok::<_, Explained>(Saved { windlass_plan: VERSION, server, request, memory, preview })
        }
        .await)
    })??;
    let preview = &saved.preview;
    let text = match args.output {
        Format::Table => text(preview, args.show_unchanged, globals.paints()),
        format => output::structured(preview, format)?,
    };
    print(text.as_bytes())?;
    let blocked = preview.count(Verb::Blocked);
    if blocked > 0 {
        return Err(format!("the server would refuse {blocked} object(s) of this plan").into());
    }
    if let Some(path) = &args.out {
        save(path, &saved)?;
    }
    let differs = args.detailed_exitcode && preview.changes_anything();
    Ok(if differs { ExitCode::from(CHANGES) } else { ExitCode::SUCCESS })
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

/// For the owner's eyes only: a plan holds what Secrets do.
fn save(path: &Path, saved: &Saved) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let bytes = serde_json::to_vec(saved).map_err(|e| failed(&e))?;
    let mut options = std::fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(path).map_err(|e| failed(&e))?;
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

/// How a verb is shown: its mark, the word of the summary, and the colour.
pub(super) fn look(verb: Verb) -> (&'static str, &'static str, &'static str) {
    match verb {
        Verb::Create => ("+", "create", "32"),
        Verb::Update => ("~", "update", "33"),
        Verb::Recreate => ("±", "recreate", "35"),
        Verb::Adopt => (">", "adopt", "36"),
        Verb::Delete => ("-", "delete", "31"),
        Verb::Skip => ("·", "skip", "2"),
        Verb::Unchanged => ("=", "unchanged", "2"),
        Verb::Blocked => ("!", "blocked", "31;1"),
    }
}

/// A plan for people.
fn text(preview: &Preview, unchanged: bool, painted: bool) -> String {
    let paint = |code: &str, text: &str| {
        if painted { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    };
    let title = format!("{}/{}: revision {}", preview.namespace, preview.release, preview.revision);
    let mut out = format!("{} ({})\n", paint("1", &title), preview.reason);
    for change in preview.changes.iter().filter(|c| unchanged || c.verb != Verb::Unchanged) {
        let (mark, _, color) = look(change.verb);
        let place = change.namespace.as_ref().map_or(String::new(), |n| format!("{n}/"));
        let head = format!("{mark} {} {place}{}", change.kind, change.name);
        out.push_str(&format!("{}  {}\n", paint(color, &head), change.reason));
        if change.verb != Verb::Create {
            for field in &change.fields {
                out.push_str(&field_line(field, &paint));
            }
        }
        for conflict in &change.conflicts {
            out.push_str(&format!("    {} is owned by {:?}\n", conflict.field, conflict.manager));
        }
    }
    for hook in &preview.hooks {
        out.push_str(&format!("{} {} hook {} {}\n", paint("34", "▸"), hook.event, hook.kind, hook.name));
    }
    for warning in &preview.warnings {
        out.push_str(&format!("{} {warning}\n", paint("33", "warning:")));
    }
    let verbs = [
        Verb::Create,
        Verb::Update,
        Verb::Recreate,
        Verb::Adopt,
        Verb::Delete,
        Verb::Skip,
        Verb::Blocked,
        Verb::Unchanged,
    ];
    let counts: Vec<String> = verbs
        .iter()
        .map(|verb| (preview.count(*verb), look(*verb).1))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    out.push_str(&format!(
        "Plan: {}\n",
        if counts.is_empty() { "no objects".to_owned() } else { counts.join(", ") }
    ));
    out
}

/// One field that changes.
pub(super) fn field_line(field: &release::FieldChange, paint: &impl Fn(&str, &str) -> String) -> String {
    let value = |v: &Value| {
        if field.sensitive { v.as_str().map_or_else(|| v.to_string(), str::to_owned) } else { v.to_string() }
    };
    match (&field.before, &field.after) {
        (Some(before), Some(after)) => {
            let arrow = format!("{} → {}", paint("31", &value(before)), paint("32", &value(after)));
            format!("    {}: {arrow}\n", field.path)
        }
        (None, Some(after)) => {
            format!("    {}: {}\n", paint("32", &format!("+ {}", field.path)), value(after))
        }
        (Some(before), None) => {
            format!("    {}: {}\n", paint("31", &format!("- {}", field.path)), value(before))
        }
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::{Action, FieldChange};
    use serde_json::json;

    #[test]
    fn plans_are_lines_and_a_sum() {
        let change = |verb, name: &str, fields: Vec<FieldChange>| release::Change {
            verb,
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("ns".into()),
            name: name.into(),
            path: String::new(),
            reason: "why".into(),
            fields,
            writer: None,
            conflicts: vec![],
        };
        let field = |path: &str, before: Option<Value>, after: Option<Value>| FieldChange {
            path: path.into(),
            before,
            after,
            sensitive: false,
        };
        let preview = Preview {
            release: "web".into(),
            namespace: "ns".into(),
            action: Action::Upgrade,
            reason: "objects differ".into(),
            revision: 2,
            changes: vec![
                change(Verb::Create, "a", vec![field("data", None, Some(json!({})))]),
                change(
                    Verb::Update,
                    "b",
                    vec![
                        field("data.x", Some(json!("1")), Some(json!("2"))),
                        field("data.y", None, Some(json!("3"))),
                        field("data.z", Some(json!("4")), None),
                    ],
                ),
                change(Verb::Unchanged, "c", vec![]),
            ],
            hooks: vec![],
            warnings: vec![],
            digest: String::new(),
        };
        assert_eq!(
            text(&preview, false, false),
            "ns/web: revision 2 (objects differ)\n+ ConfigMap ns/a  why\n~ ConfigMap ns/b  why\n    data.x: \"1\" → \"2\"\n    \
             + data.y: \"3\"\n    - data.z: \"4\"\nPlan: 1 create, 1 update, 1 unchanged\n"
        );
        let painted = text(&preview, true, true);
        assert!(
            painted.contains("\u{1b}[32m+ ConfigMap ns/a\u{1b}[0m") && painted.contains("= ConfigMap"),
            "{painted}"
        );
    }
}
