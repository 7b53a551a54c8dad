//! `windlass plan --helmrelease`: what a HelmRelease, as it is or as a file has it, would do to each live object.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use chart_compat::render::CompiledChart;
use serde::Serialize;
use serde_json::{Value, json};

use super::failure::Explained;
use super::fetch::ChartPath;
use super::flags::Globals;
use super::plan::{CHANGES, PlanFormat};
use super::{Connected, Failure, chart, hints, output, plan_markdown, print, with_engine};
use windlass_base::redact;
use windlass_cluster::{ApplyOptions, ClusterError, Gvk, ObjectMeta, ObjectRef, Validation};
use windlass_controller::{AccountName, ReconcileError, ReleaseRunner, contains};
use windlass_engine::ChangeVerb;
use windlass_flux::helmrelease::{
    CHART_UNAVAILABLE, HelmReleaseOptions, HelmReleases, KIND, PlanInputs, ReleasePlan,
};
use windlass_render::parse_manifest;

/// Field manager of dry runs.
const MANAGER: &str = "windlass-plan";
/// Group of Flux's sources.
const SOURCE_GROUP: &str = "source.toolkit.fluxcd.io/";
/// The largest file, in bytes.
const LARGEST: u64 = 16 << 20;

/// Flags of `plan` whose part a HelmRelease has in its spec.
const CHART_FLAGS: [&str; 32] = [
    "out",
    "cleanup_on_fail",
    "reset_values",
    "reuse_values",
    "reset_then_reuse_values",
    "skip_unchanged",
    "set",
    "set_string",
    "set_file",
    "set_json",
    "set_literal",
    "skip_schema_validation",
    "render_subchart_notes",
    "enable_dns",
    "replay",
    "no_hooks",
    "wait",
    "wait_for_jobs",
    "timeout",
    "deadline",
    "force_conflicts",
    "leave_to_owner",
    "force_replace",
    "recreate_immutable",
    "server_side",
    "create_namespace",
    "skip_crds",
    "crds",
    "take_ownership",
    "rollback_on_failure",
    "labels",
    "post_renderer",
];

/// Flags of `plan` for HelmReleases.
#[derive(clap::Args)]
pub(super) struct Flags {
    /// Plan a HelmRelease of the cluster instead of a chart; with -f, as a file has it. Exit status 2 if something would happen
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = CHART_FLAGS)]
    pub(super) helmrelease: Option<String>,
    /// With --helmrelease: the chart in place of the one that its source has (--version and --repo apply)
    #[arg(long = "chart", value_name = "CHART", conflicts_with = "name")]
    helm_chart: Option<String>,
    /// With --helmrelease: use your own rights instead of those of the HelmRelease's ServiceAccount
    #[arg(long, conflicts_with = "name")]
    no_impersonation: bool,
    /// With --helmrelease: the operator's --default-service-account
    #[arg(long, conflicts_with = "name")]
    default_service_account: Option<AccountName>,
}

/// What to plan.
pub(super) struct Request<'a> {
    /// `NAMESPACE/NAME`.
    pub(super) object: &'a str,
    pub(super) flags: &'a Flags,
    /// Files with HelmReleases.
    pub(super) files: &'a [String],
    pub(super) path: &'a ChartPath,
    pub(super) output: PlanFormat,
    pub(super) unchanged: bool,
}

pub(super) fn run(globals: &Globals, request: &Request<'_>) -> Result<ExitCode, Explained> {
    let (namespace, name) = request
        .object
        .split_once('/')
        .ok_or_else(|| format!("--helmrelease: {:?} is not NAMESPACE/NAME", request.object))?;
    let object = ObjectRef::new(Gvk::new(KIND.0, KIND.1), Some(namespace), name);
    let wanted = match request.files {
        [] => None,
        files => Some(GivenObjects::find(&texts(files)?, namespace, name)?),
    };
    let chart = match &request.flags.helm_chart {
        None => None,
        Some(reference) => {
            let loaded = chart::open(reference, globals, request.path, false, chart::PullNotes::Stderr)?;
            Some(Arc::new(loaded.compile(globals.profile())))
        }
    };
    let plan = with_engine(globals, async |s| plan(globals, &s, request, &object, wanted, chart).await)?;
    show(globals, &plan, request)?;
    Ok(if plan.changes() { ExitCode::from(CHANGES) } else { ExitCode::SUCCESS })
}

async fn plan(
    globals: &Globals,
    s: &Connected,
    request: &Request<'_>,
    reference: &ObjectRef,
    wanted: Option<GivenObjects>,
    chart: Option<Arc<CompiledChart>>,
) -> Result<ReleasePlan, Failure> {
    let live = s.engine.cluster().get(reference).await.map_err(|e| e.to_string())?;
    let mut notes = Vec::new();
    let object = match (live, wanted) {
        (Some(live), None) => live,
        (None, None) => return Err(format!("{reference} does not exist; give it by -f")),
        (live, Some(wanted)) => {
            if chart.is_none() {
                notes.extend(changed_sources(s, &wanted, reference).await?);
            }
            let (object, note) = admitted(s, reference, live, &wanted.release).await?;
            notes.extend(note);
            object
        }
    };
    let front_end = HelmReleases::new(HelmReleaseOptions {
        default_service_account: request.flags.default_service_account.clone(),
        ..HelmReleaseOptions::default()
    });
    let runner = ReleaseRunner::new(s.engine.clone(), globals.render_bounds(), false);
    let inputs =
        PlanInputs { runner: &runner, object: &object, chart, impersonates: !request.flags.no_impersonation };
    let mut plan = front_end.plan(inputs).await.map_err(|e| explained(&e))?;
    plan.notes.extend(notes);
    for preview in &mut plan.plans {
        *preview = hints::with_flags(preview, hints::HELM_RELEASE_FIELDS);
    }
    Ok(plan)
}

/// The text of an error, with the flag that helps.
fn explained(error: &ReconcileError) -> Failure {
    match error {
        ReconcileError::Engine(error) => hints::engine_text(error),
        ReconcileError::Reason { reason, text, .. } if *reason == CHART_UNAVAILABLE => {
            format!("{text}; give the chart by --chart")
        }
        other => other.to_string(),
    }
}

/// The object as the API server would store it: with defaults, checked, in its new generation. Without the right to that, as the
/// file has it, with a note.
async fn admitted(
    s: &Connected,
    reference: &ObjectRef,
    live: Option<Value>,
    wanted: &Value,
) -> Result<(Value, Option<String>), Failure> {
    let cluster = s.engine.cluster();
    let body = merged(live.as_ref(), wanted, reference);
    let stored = match &live {
        Some(_) => cluster.replace_dry_run(reference, &body, MANAGER).await,
        None => {
            let options = ApplyOptions {
                manager: MANAGER,
                force: true,
                validation: Validation::Strict,
                dry_run: true,
                whole: true,
            };
            cluster.apply(reference, &body, options).await.map(|applied| applied.object)
        }
    };
    match stored {
        Ok(object) => Ok((object, None)),
        Err(ClusterError::Api(status)) if status.code == 403 => {
            let note = format!("the API server did not check the HelmRelease: {}", status.message);
            Ok((with_generation(live.as_ref(), body), Some(note)))
        }
        Err(error) => Err(format!("the API server would refuse the HelmRelease: {error}")),
    }
}

/// The live object with what the file wants.
fn merged(live: Option<&Value>, wanted: &Value, reference: &ObjectRef) -> Value {
    let mut object = live.cloned().unwrap_or_else(|| json!({}));
    object["apiVersion"] = KIND.0.into();
    object["kind"] = KIND.1.into();
    object["metadata"]["name"] = reference.name.as_str().into();
    object["metadata"]["namespace"] = reference.namespace.clone().into();
    for field in ["labels", "annotations"] {
        match wanted["metadata"].get(field) {
            Some(value) => object["metadata"][field] = value.clone(),
            None if live.is_some() => {}
            None => drop(object["metadata"].as_object_mut().map(|metadata| metadata.remove(field))),
        }
    }
    object["spec"] = wanted["spec"].clone();
    object
}

/// The generation that the API server would give.
fn with_generation(live: Option<&Value>, mut object: Value) -> Value {
    let old = live.map_or(0, |live| ObjectMeta::of(live).generation());
    let changed = live.is_none_or(|live| live["spec"] != object["spec"]);
    object["metadata"]["generation"] = (old + i64::from(changed)).into();
    object
}

/// The texts of files, with their names; `-` is standard input.
fn texts(files: &[String]) -> Result<Vec<(&str, String)>, Failure> {
    let read = |file: &String| -> std::io::Result<String> {
        let mut text = String::new();
        let source: Box<dyn std::io::Read> = match file.as_str() {
            "-" => Box::new(std::io::stdin()),
            path => Box::new(std::fs::File::open(Path::new(path))?),
        };
        #[expect(clippy::disallowed_methods, reason = "within the limit")]
        source.take(LARGEST).read_to_string(&mut text)?;
        Ok(text)
    };
    files
        .iter()
        .map(|file| match read(file) {
            Ok(text) if text.len() as u64 >= LARGEST => Err(format!("{file}: larger than {LARGEST} bytes")),
            Ok(text) => Ok((file.as_str(), text)),
            Err(e) => Err(format!("{file}: {e}")),
        })
        .collect()
}

/// What files have: the HelmRelease, and sources beside it.
struct GivenObjects {
    release: Value,
    sources: Vec<Value>,
}

impl GivenObjects {
    /// The HelmRelease of this name in the documents of files, and all sources in them.
    fn find(texts: &[(&str, String)], namespace: &str, name: &str) -> Result<Self, Failure> {
        let (mut release, mut sources, mut others) = (None, Vec::new(), Vec::new());
        for (file, text) in texts {
            for document in chart_compat::render::split_documents(text) {
                let object = parse_manifest(document).map_err(|e| format!("{file}: {e}"))?;
                let meta = ObjectMeta::of(&object);
                let own = meta.namespace().is_none_or(|own| own == namespace);
                let version = object["apiVersion"].as_str().unwrap_or_default();
                if version.starts_with(SOURCE_GROUP) {
                    sources.push(object);
                } else if object["kind"] != KIND.1 {
                    continue;
                } else if meta.name() != name || !own {
                    others.push(meta.name().to_owned());
                } else if version != KIND.0 {
                    let text = format!("HelmRelease {name} is of {version}; only {} is read", KIND.0);
                    return Err(format!("{file}: {text}"));
                } else if release.is_none() || meta.namespace() == Some(namespace) {
                    // One that names its namespace goes before one that gets it elsewhere.
                    release = Some(object);
                }
            }
        }
        if let Some(release) = release {
            return Ok(Self { release, sources });
        }
        let files: Vec<&str> = texts.iter().map(|(file, _)| *file).collect();
        let there = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
        Err(format!("{}: no HelmRelease {namespace}/{name}; there are: {there}", files.join(", ")))
    }
}

/// Notes on sources that the files change: the chart of the plan is still the live one's.
async fn changed_sources(
    s: &Connected,
    wanted: &GivenObjects,
    release: &ObjectRef,
) -> Result<Vec<String>, Failure> {
    let spec = &wanted.release["spec"];
    let own = release.namespace.as_deref();
    let names = |reference: &Value, source: &Value| {
        let meta = ObjectMeta::of(source);
        reference["kind"] == source["kind"]
            && reference["name"] == meta.name()
            && reference["namespace"].as_str().or(own) == meta.namespace().or(own)
    };
    let mut notes = Vec::new();
    for source in &wanted.sources {
        if !names(&spec["chartRef"], source) && !names(&spec["chart"]["spec"]["sourceRef"], source) {
            continue;
        }
        let Some(gvk) = Gvk::of(source) else { continue };
        let meta = ObjectMeta::of(source);
        let reference = ObjectRef::new(gvk, meta.namespace().or(own), meta.name());
        let live = s.engine.cluster().get(&reference).await.map_err(|e| e.to_string())?;
        if live.is_some_and(|live| !contains(&live["spec"], &source["spec"])) {
            notes.push(format!(
                "{reference} of the file differs from the live one, whose chart this plan has; --chart gives another"
            ));
        }
    }
    Ok(notes)
}

/// The plan in JSON, with whether it changes anything.
#[derive(Serialize)]
struct Structured<'a> {
    changes: bool,
    #[serde(flatten)]
    plan: &'a ReleasePlan,
}

fn show(globals: &Globals, plan: &ReleasePlan, request: &Request<'_>) -> Result<(), Failure> {
    let text = match request.output.structured() {
        Some(format) => output::structured(&Structured { changes: plan.changes(), plan }, format)?,
        None if request.output == PlanFormat::Markdown => markdown(plan, request.unchanged),
        None => self::text(plan, request.unchanged, globals.paints()),
    };
    print(redact::mask(&text).as_bytes())?;
    match plan.plans.iter().map(|preview| preview.count(ChangeVerb::Blocked)).sum::<usize>() {
        0 => Ok(()),
        blocked => Err(format!("the server would refuse {blocked} object(s) of this plan")),
    }
}

/// The action as a word.
fn action(plan: &ReleasePlan) -> String {
    serde_json::to_value(plan.action)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The chart, and the one before if it is another.
fn charts(plan: &ReleasePlan) -> String {
    match plan.current_chart.as_ref().filter(|current| **current != plan.chart) {
        Some(current) => format!("{current} → {}", plan.chart),
        None => plan.chart.clone(),
    }
}

/// The action and its reason in one line.
pub(super) fn head(plan: &ReleasePlan) -> String {
    format!("HelmRelease {}: {} ({})\n", plan.object, action(plan), plan.reason)
}

pub(super) fn text(plan: &ReleasePlan, unchanged: bool, painted: bool) -> String {
    let head = head(plan);
    let head = if painted { format!("\u{1b}[1m{}\u{1b}[0m\n", head.trim_end()) } else { head };
    let mut out = format!("{head}  chart {}\n", charts(plan));
    for note in &plan.notes {
        out.push_str(&format!("  note: {note}\n"));
    }
    for preview in &plan.plans {
        out.push_str(&preview.text(unchanged, painted));
    }
    out
}

fn markdown(plan: &ReleasePlan, unchanged: bool) -> String {
    let plain = plan_markdown::plain;
    let mut out = format!(
        "## HelmRelease `{}`: {}\n\n{}; chart {}\n\n",
        plan.object,
        action(plan),
        plain(&plan.reason),
        plain(&charts(plan))
    );
    for note in &plan.notes {
        out.push_str(&format!("> {}\n\n", plain(note)));
    }
    for preview in &plan.plans {
        out.push_str(&plan_markdown::of_preview(preview, unchanged));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_flux::helmrelease::PassAction;

    const FILE: &str = "\
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: web}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: other}
spec: {interval: 1h}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web}
spec: {interval: 2h}
";

    #[test]
    fn the_helm_release_is_found_in_a_file_of_many() {
        let texts = [("a.yaml", FILE.to_owned())];
        let find = |namespace: &str, name: &str| GivenObjects::find(&texts, namespace, name);
        let found = find("apps", "web").unwrap();
        assert_eq!(found.release["spec"]["interval"], "2h");
        assert_eq!(found.sources.len(), 1);
        assert_eq!(find("other", "web").unwrap().release["spec"]["interval"], "1h");
        assert_eq!(find("apps", "db").err().unwrap(), "a.yaml: no HelmRelease apps/db; there are: web, web");
        let old = [("b.yaml", FILE.replace("io/v2", "io/v2beta1"))];
        let error = GivenObjects::find(&old, "apps", "web").err().unwrap();
        assert!(error.contains("only helm.toolkit.fluxcd.io/v2 is read"), "{error}");
    }

    #[test]
    fn a_new_spec_is_a_new_generation() {
        let reference = ObjectRef::new(Gvk::new(KIND.0, KIND.1), Some("apps"), "web");
        let live = json!({
            "metadata": {"name": "web", "namespace": "apps", "generation": 3, "labels": {"a": "b"}},
            "spec": {"interval": "1h", "suspend": true}, "status": {"observedGeneration": 3},
        });
        let wanted = json!({"metadata": {"name": "web"}, "spec": {"interval": "1h"}});
        let body = merged(Some(&live), &wanted, &reference);
        assert_eq!((&body["status"], &body["spec"]), (&live["status"], &wanted["spec"]));
        assert_eq!(with_generation(Some(&live), body)["metadata"]["generation"], 4);
        assert_eq!(with_generation(Some(&live), live.clone())["metadata"]["generation"], 3);
        assert_eq!(with_generation(None, merged(None, &wanted, &reference))["metadata"]["generation"], 1);
    }

    #[test]
    fn plans_say_what_happens_first() {
        let plan = ReleasePlan {
            object: "apps/web".to_owned(),
            release: "apps/web".to_owned(),
            chart: "demo@2.0.0".to_owned(),
            current_chart: Some("demo@1.0.0".to_owned()),
            action: PassAction::CorrectDrift,
            reason: "1 object has drifted".to_owned(),
            plans: Vec::new(),
            notes: vec!["more".to_owned()],
        };
        assert_eq!(
            text(&plan, false, false),
            "HelmRelease apps/web: correct-drift (1 object has drifted)\n  chart demo@1.0.0 → demo@2.0.0\n  note: more\n"
        );
        assert!(
            markdown(&plan, false)
                .starts_with("## HelmRelease `apps/web`: correct-drift\n\n1 object has drifted; chart")
        );
        assert!(plan.changes());
        assert!(!ReleasePlan { action: PassAction::Stall, ..plan }.changes());
    }
}
