//! `windlass compare`: compares a user's own `helm` with Windlass, on charts or on the releases of a cluster.
//!
//! Runs both programs as children with the same arguments and compares their output byte by byte. Lines that `helm` itself prints
//! differently in each run are counted separately. Knows nothing of rendering.

mod answer;
mod diff;
mod find_charts;
mod judge;
mod program;
mod releases;
mod report;

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;

use self::answer::Answer;
use self::judge::Verdict;
use self::program::Helm;
use self::report::{Report, Row};
use super::flags::{Globals, Values, duration};
use super::output::Format;
use super::{Failure, block_on, print, tell};

/// Flags of `compare`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Charts, or directories with charts (folders and *.tgz): each with its defaults and with each of its
    /// ci/*-values.yaml
    #[arg(required_unless_present = "releases", conflicts_with = "releases", value_name = "DIR")]
    charts: Vec<PathBuf>,
    /// Compare the releases of the cluster instead: chart and values of each record, rendered anew by both. Nothing is
    /// written to the cluster
    #[arg(long)]
    releases: bool,
    /// With --releases: releases of all namespaces
    #[arg(short = 'A', long, requires = "releases")]
    all_namespaces: bool,
    /// The helm to compare with
    #[arg(long, env = "WINDLASS_HELM", default_value = "helm")]
    helm: PathBuf,
    #[command(flatten)]
    values: Values,
    /// Kubernetes version that both assume (default: the one that helm assumes; with --releases the cluster's)
    #[arg(long)]
    kube_version: Option<String>,
    /// Additional Kubernetes API versions that both assume
    #[arg(short, long, value_delimiter = ',')]
    api_versions: Vec<String>,
    /// Include CRDs
    #[arg(long)]
    include_crds: bool,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,
    /// Number of charts rendered in parallel (default: one per processor)
    #[arg(short, long, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Time limit of one render
    #[arg(long, default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// Show whole differences instead of the first lines of each
    #[arg(long)]
    full: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// One run of both programs.
struct Case {
    /// The chart or release, for the table.
    chart: String,
    /// The values, or the release's chart, for the table.
    values: String,
    /// The arguments after `template`, or the reason why the case cannot be run.
    arguments: Result<Vec<OsString>, String>,
    /// The manifest in the release's record.
    recorded: Option<Vec<u8>>,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    if args.values.files.iter().any(|f| f.trim() == "-") {
        return Err("values cannot come from stdin here: many renders need them; give a file".to_owned());
    }
    let scratch = tempfile::Builder::new()
        .prefix("windlass-compare-")
        .tempdir()
        .map_err(|e| format!("cannot make a scratch directory: {e}"))?;
    let cases = if args.releases { None } else { Some(find_charts::cases(&args.charts, scratch.path())?) };
    let stored = if args.releases { Some(releases::read(globals, args.all_namespaces)?) } else { None };
    let report = block_on(async {
        let helm = program::probe(&args.helm, scratch.path(), args.timeout).await?;
        if let Some(wanted) = globals.compat
            && wanted != helm.profile
        {
            return Err(format!("{} is {}, which is not the {wanted} of --compat", helm.path, helm.version));
        }
        let (cases, cluster) = match (cases, stored) {
            (Some(cases), _) => (cases, None),
            (None, Some(stored)) => {
                let cases = releases::cases(&stored, scratch.path())?;
                (cases, Some((stored.kube_version, stored.api_versions)))
            }
            (None, None) => (Vec::new(), None),
        };
        let common = common(globals, args, &helm, cluster);
        compare(cases, &helm, args, &common).await
    })??;
    print(report.text(args.output)?.as_bytes())?;
    match report.differing() {
        0 => Ok(()),
        n => Err(format!("{n} of {} differ", report.compared())),
    }
}

/// The common arguments of all charts: namespace, values, and the Kubernetes that both assume.
fn common(
    globals: &Globals,
    args: &Args,
    helm: &Helm,
    cluster: Option<(String, Vec<String>)>,
) -> Vec<OsString> {
    let mut out: Vec<OsString> = Vec::new();
    let mut flag = |name: &str, value: &str| out.extend([name.into(), value.into()]);
    let (kube, mut apis) = match cluster {
        Some((kube, apis)) => (kube, apis),
        None => {
            flag("--namespace", globals.namespace.as_deref().unwrap_or("default"));
            (helm.kube_version.clone(), Vec::new())
        }
    };
    flag("--kube-version", args.kube_version.as_ref().unwrap_or(&kube));
    apis.extend(args.api_versions.iter().cloned());
    apis.extend(helm.uncommon.iter().cloned());
    if !apis.is_empty() {
        flag("--api-versions", &apis.join(","));
    }
    let v = &args.values;
    let sources = [
        ("--values", &v.files),
        ("--set", &v.set),
        ("--set-string", &v.set_string),
        ("--set-file", &v.set_file),
        ("--set-json", &v.set_json),
        ("--set-literal", &v.set_literal),
    ];
    for (name, values) in sources {
        for value in values {
            flag(name, value);
        }
    }
    for (name, on) in [("--include-crds", args.include_crds), ("--is-upgrade", args.is_upgrade)] {
        if on {
            out.push(name.into());
        }
    }
    out
}

async fn compare(cases: Vec<Case>, helm: &Helm, args: &Args, common: &[OsString]) -> Result<Report, Failure> {
    let ours = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let count = cases.len();
    let jobs =
        args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let terminal = std::io::stderr().is_terminal();
    let mut rows = Vec::with_capacity(count);
    let ours = ours.as_path();
    let mut running = futures::stream::iter(cases)
        .map(|case| async move { one(case, helm, ours, args, common).await })
        .buffered(jobs);
    while let Some(row) = running.next().await {
        rows.push(row);
        if terminal {
            progress(rows.len(), count);
        }
    }
    Ok(Report::new(helm, rows))
}

/// Prints the progress on a terminal, in a line that the next one overwrites.
fn progress(done: usize, count: usize) {
    use std::io::Write as _;
    let end = if done == count { "\r\x1b[K" } else { "" };
    // Errors of stderr are ignored.
    drop(write!(std::io::stderr().lock(), "\r{done} of {count}{end}"));
}

async fn one(case: Case, helm: &Helm, ours: &Path, args: &Args, common: &[OsString]) -> Row {
    let mut row = Row::new(&case);
    let arguments = match case.arguments {
        Ok(arguments) => arguments,
        Err(reason) => {
            row.verdict = Verdict::NotCompared(reason);
            return row;
        }
    };
    let template = |more: &[&str]| -> Vec<OsString> {
        let own = ["template".into()].into_iter().chain(arguments.iter().cloned());
        own.chain(common.iter().cloned()).chain(more.iter().map(Into::into)).collect()
    };
    let ask = async |path: &Path, more: &[&str]| -> Result<(Answer, Duration), String> {
        program::run(path, &template(more), args.timeout).await
    };
    let helm_path = Path::new(&helm.path);
    let compat = helm.profile.to_string();
    let first = ask(helm_path, &[]).await;
    let mine = ask(ours, &["--compat", &compat]).await;
    let ((first, helm_time), (mine, our_time)) = match (first, mine) {
        (Ok(first), Ok(mine)) => (first, mine),
        (Err(e), _) => {
            row.verdict = Verdict::Differs(format!("helm {e}"));
            return row;
        }
        (_, Err(e)) => {
            row.verdict = Verdict::Differs(format!("windlass {e}"));
            return row;
        }
    };
    (row.helm_ms, row.windlass_ms) = (Some(helm_time.as_millis()), Some(our_time.as_millis()));
    if let Some(recorded) = &case.recorded {
        row.record = Some(judge::beside_record(recorded, &first));
    }
    if judge::alike(&first, &mine) {
        row.verdict = if first.code == Some(0) { Verdict::Equal } else { Verdict::BothFail };
        return row;
    }
    // Ours runs between two runs of helm: lines that are equal in both should be equal in ours.
    match ask(helm_path, &[]).await {
        Ok((again, _)) => {
            let (verdict, texts) = judge::unlike(&first, &mine, &again);
            row.verdict = verdict;
            row.diff = texts.map(|(helm, ours)| {
                let title = format!("{} {}", case.chart, case.values);
                diff::unified(&helm, &ours, &title, case.recorded.is_some(), args.full)
            });
        }
        Err(e) => row.verdict = Verdict::Differs(format!("helm, run again, {e}")),
    }
    row
}

/// Prints notes about the result to stderr.
fn note(text: &str) {
    tell(&format!("note: {text}"));
}
