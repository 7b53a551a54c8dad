//! `windlass lint`: Helm's findings with Helm's messages, and our own.

use chart_compat::Bytes;
use chart_compat::profile::Profile;
use std::path::{Path, PathBuf};

use chart_compat::chart::{Chart, File, load_files_as_v2, read_archive};
use chart_compat::lint::{self, Entry, Message, Options, Severity, Subject};
use chart_compat::render::KubeVersion;

use super::failure::Explained;
use super::flags::{Globals, Values};
use super::schemas::Schemas;
use super::{print, tell, values};
use windlass_base::bounded_read;
use windlass_base::redact;
use windlass_render::{SystemWorld, note_secrets};

/// Flags of `lint`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Chart directories or packaged charts
    #[arg(required = true, value_name = "CHART")]
    charts: Vec<String>,
    #[command(flatten)]
    values: Values,
    /// Fail on lint warnings
    #[arg(long)]
    strict: bool,
    /// Lint dependent charts
    #[arg(long)]
    with_subcharts: bool,
    /// Print only warnings and errors
    #[arg(long)]
    quiet: bool,
    /// If set, disables JSON schema validation
    #[arg(long)]
    skip_schema_validation: bool,
    /// Kubernetes version used for capabilities and deprecation checks
    #[arg(long)]
    kube_version: Option<String>,
    /// Print only what Helm would
    #[arg(long)]
    only_helm: bool,
}

/// A chart's files, unprocessed.
pub(super) struct ChartFiles {
    directory: String,
    metadata: Bytes,
    values: Option<Bytes>,
    schema: Option<Bytes>,
    templates: Entry,
    crds: Entry,
    chart: Result<Chart, String>,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    let kube_version = match args.kube_version.as_deref() {
        Some(text) if !text.is_empty() => {
            Some(KubeVersion::parse(text).map_err(|e| format!("invalid kube version '{text}': {e}"))?)
        }
        _ => None,
    };
    let mut charts = args.charts.clone();
    if args.with_subcharts {
        for path in &args.charts {
            subcharts(&Path::new(path).join("charts"), &mut charts);
        }
    }
    let user = values::merge(globals, &args.values, Profile::default())?;
    let documents = Schemas::new(globals);
    let world = SystemWorld::until(globals.render_bounds().deadline(), Some(&documents));
    let options = Options {
        values: &user.values,
        namespace: globals.namespace.as_deref().unwrap_or("default"),
        kube_version,
        skip_schema_validation: args.skip_schema_validation,
        profile: globals.profile(),
        world: &world,
    };
    let least = if args.strict { Severity::Warning } else { Severity::Error };
    let linter = Linter { options, least, quiet: args.quiet, only_helm: args.only_helm };
    let (mut out, mut failed, mut noted) = (String::new(), 0, 0);
    for path in &charts {
        let report = linter.report(path, files(path, linter.options.profile));
        noted += usize::from(report.noted);
        failed += usize::from(report.failed);
        out.push_str(&report.text);
    }
    let summary = summary(charts.len(), failed);
    if failed == 0 && (!args.quiet || noted > 0) {
        out.push_str(&format!("{summary}\n"));
    }
    print(out.as_bytes())?;
    if failed > 0 { Err(summary.into()) } else { Ok(()) }
}

/// Helm's last line.
pub(super) fn summary(charts: usize, failed: usize) -> String {
    format!("{charts} chart(s) linted, {failed} chart(s) failed")
}

/// Lints charts with the same options.
pub(super) struct Linter<'l> {
    pub(super) options: Options<'l>,
    /// The least severity that fails.
    pub(super) least: Severity,
    /// Whether only warnings and errors are printed.
    pub(super) quiet: bool,
    /// Whether only Helm's findings are printed.
    pub(super) only_helm: bool,
}

/// What is found in a chart.
pub(super) struct Report {
    pub(super) text: String,
    /// Whether there are warnings or errors.
    pub(super) noted: bool,
    pub(super) failed: bool,
}

impl Linter<'_> {
    /// Lints a chart, which the report calls `shown`.
    pub(super) fn report(&self, shown: &str, files: Result<ChartFiles, String>) -> Report {
        let (messages, findings, error) = match files {
            Err(e) => (Vec::new(), Vec::new(), Some(e)),
            Ok(files) => {
                if let Ok(chart) = &files.chart {
                    note_secrets(chart, self.options.values);
                }
                let subject = files.subject();
                let messages = lint::helm(&subject, &self.options, &mut |w| tell(&w));
                let findings = if self.only_helm || self.quiet {
                    Vec::new()
                } else {
                    lint::findings(&subject, &self.options)
                };
                (messages, findings, None)
            }
        };
        let bad = |m: &&Message| m.severity > Severity::Info;
        let noted = error.is_some() || messages.iter().any(|m| bad(&m));
        let failed = error.is_some() || messages.iter().any(|m| m.severity >= self.least);
        let mut text = String::new();
        if self.quiet && !noted {
            return Report { text, noted, failed };
        }
        text.push_str(&format!("==> Linting {shown}\n"));
        if let Some(e) = error {
            text.push_str(&masked(&format!("Error {e}\n")));
        }
        for message in messages.iter().filter(|m| !self.quiet || bad(m)) {
            text.push_str(&masked(&format!("{message}\n")));
        }
        for f in findings {
            let line = f.line.map_or_else(String::new, |line| format!(":{line}"));
            text.push_str(&masked(&format!("[WINDLASS] {}{line}: {} ({})\n", f.file, f.text, f.rule)));
        }
        text.push('\n');
        Report { text, noted, failed }
    }
}

/// A finding with secrets masked.
fn masked(text: &str) -> String {
    redact::mask(text).into_owned()
}

impl ChartFiles {
    /// The files of a chart that is not in a directory, named `shown` in messages.
    pub(super) fn new(shown: &str, all: Vec<File>, profile: Profile) -> Result<Self, String> {
        let find = |name: &str| all.iter().find(|f| f.name == name).map(|f| f.data.clone());
        let entry = |name: &str| match all.iter().any(|f| f.name.starts_with(&format!("{name}/"))) {
            true => Entry::Directory,
            false if find(name).is_some() => Entry::File,
            false => Entry::Missing,
        };
        let metadata = find("Chart.yaml").ok_or_else(|| {
            format!(
                "unable to check Chart.yaml file in chart: stat {shown}/Chart.yaml: no such file or directory"
            )
        })?;
        let (values, schema) = (find("values.yaml"), find("values.schema.json"));
        let (templates, crds) = (entry("templates"), entry("crds"));
        let chart = load(all, profile);
        Ok(Self { directory: shown.to_owned(), metadata, values, schema, templates, crds, chart })
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            directory: &self.directory,
            metadata: self.metadata.clone(),
            values: self.values.clone(),
            schema: self.schema.clone(),
            templates: self.templates,
            crds: self.crds,
            chart: self.chart.as_ref().map_err(Clone::clone),
        }
    }
}

/// Lint parses a chart as version 2 directly; other commands check its version first.
fn as_lint_reads(error: &windlass_fetch::Error) -> String {
    error.to_string().replace("of type loader.chartBase", "of type v2.Metadata")
}

/// Directories and archives of charts below `charts/`, ordered by path.
fn subcharts(path: &Path, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "Chart.yaml" {
            found.extend(path.parent().map(|p| p.display().to_string()));
        } else if is_archive(&name) {
            found.push(path.display().to_string());
        } else if path.is_dir() && !path.is_symlink() {
            subcharts(&path, found);
        }
    }
}

fn is_archive(path: &str) -> bool {
    path.ends_with(".tgz") || path.ends_with(".tar.gz")
}

fn files(path: &str, profile: Profile) -> Result<ChartFiles, String> {
    if is_archive(path) { archive(path, profile) } else { directory(path, profile) }
}

fn archive(path: &str, profile: Profile) -> Result<ChartFiles, String> {
    let missing = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => {
            format!("unable to open tarball: open {path}: no such file or directory")
        }
        _ => format!("unable to open tarball: open {path}: {e}"),
    };
    let size = std::fs::metadata(path).map_err(missing)?.len();
    if size > chart_compat::chart::MAX_CHART_BYTES {
        return Err(format!("unable to extract tarball: {path} has {size} bytes, which is too many"));
    }
    let bytes =
        bounded_read::read_file(path.as_ref(), chart_compat::chart::MAX_CHART_BYTES).map_err(missing)?;
    let all = read_archive(&bytes, profile).map_err(|e| format!("unable to extract tarball: {e}"))?;
    ChartFiles::new(path, all, profile)
}

fn load(files: Vec<File>, profile: Profile) -> Result<Chart, String> {
    load_files_as_v2(files, profile, &mut |w| tell(&w)).map_err(|e| e.to_string())
}

fn directory(path: &str, profile: Profile) -> Result<ChartFiles, String> {
    let root = Path::new(path);
    let file = |name: &str| match std::fs::metadata(root.join(name)) {
        Ok(m) if m.is_file() && m.len() <= chart_compat::chart::MAX_CHART_BYTES => {
            bounded_read::read_file(&root.join(name), bounded_read::MAX_TEXT).ok().map(Bytes::from)
        }
        _ => None,
    };
    let entry = |name: &str| match std::fs::metadata(root.join(name)) {
        Ok(m) if m.is_dir() => Entry::Directory,
        Ok(_) => Entry::File,
        Err(_) => Entry::Missing,
    };
    let metadata = file("Chart.yaml").ok_or_else(|| {
        let shown = windlass_fetch::clean(&root.join("Chart.yaml"));
        let why = if root.is_file() { "not a directory" } else { "no such file or directory" };
        format!("unable to check Chart.yaml file in chart: stat {}: {why}", shown.display())
    })?;
    let loaded = windlass_fetch::load_directory_as_v2(root, profile);
    let chart = loaded.map_err(|e| as_lint_reads(&e)).map(|(chart, warnings)| {
        warnings.iter().for_each(|w| tell(w));
        chart
    });
    let directory = std::path::absolute(root).map_or_else(|_| path.to_owned(), |p| p.display().to_string());
    Ok(ChartFiles {
        directory,
        metadata,
        values: file("values.yaml"),
        schema: file("values.schema.json"),
        templates: entry("templates"),
        crds: entry("crds"),
        chart,
    })
}
