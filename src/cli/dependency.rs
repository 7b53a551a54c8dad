//! `windlass dependency`: a chart's dependencies.

use std::path::{Path, PathBuf};

use super::fetch::{self, Login};
use super::flags::Globals;
use super::output::table;
use super::search::cut;
use super::verify::Verify;
use super::{Failure, block_on, print, tell};
use windlass_fetch::dependencies::{Manager, list};
use windlass_fetch::fetch::{Options, ProvenanceMode};

/// Subcommands of `dependency`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// List the dependencies for the given chart
    #[command(visible_alias = "ls")]
    List(List),
    /// Update charts/ based on the contents of Chart.yaml
    #[command(visible_alias = "up")]
    Update(Args),
    /// Rebuild the charts/ directory based on the Chart.lock file
    Build(Args),
}

/// Flags of `dependency list`.
#[derive(clap::Args)]
pub(super) struct List {
    /// The chart
    #[arg(default_value = ".")]
    chart: PathBuf,
    /// Maximum column width for output table
    #[arg(long, default_value_t = 80)]
    max_col_width: usize,
}

/// Flags of `dependency update` and `dependency build`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The chart directory
    #[arg(default_value = ".")]
    chart: PathBuf,
    /// Do not refresh the local repository cache
    #[arg(long)]
    skip_refresh: bool,
    #[command(flatten)]
    verify: Verify,
    #[command(flatten)]
    login: Login,
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Failure> {
    match command {
        Command::List(args) => show(globals, args),
        Command::Update(args) => run_verb(globals, args, Verb::Update),
        Command::Build(args) => run_verb(globals, args, Verb::Build),
    }
}

/// Update or build.
#[derive(Clone, Copy)]
enum Verb {
    Update,
    Build,
}

/// Prints a text. A closed pipe ends the output; the work continues.
fn aloud(text: &str) {
    drop(print(text.as_bytes()));
}

fn run_verb(globals: &Globals, args: &Args, verb: Verb) -> Result<(), Failure> {
    let mut options = args.login.options();
    let keyring = args.verify.verify.then(|| args.verify.keyring.path());
    if keyring.is_some() {
        // Helm's `dependency build` continues without a provenance file, so a server that withholds the file decides what is
        // verified.
        options.provenance = ProvenanceMode::Yes;
    }
    let job = Job { chart: &args.chart, skip_refresh: args.skip_refresh, options: &options, keyring, verb };
    work(globals, job, &mut |text| aloud(&text))
}

/// Updates the dependencies of a chart directory, for verbs that then use the chart.
pub(super) fn update(globals: &Globals, chart: &Path, options: &Options) -> Result<(), Failure> {
    bring(globals, chart, options, &mut |text| aloud(&text))
}

/// Like [`update`], with another output.
pub(super) fn bring(
    globals: &Globals,
    chart: &Path,
    options: &Options,
    say: &mut (dyn FnMut(String) + Send),
) -> Result<(), Failure> {
    work(globals, Job { chart, skip_refresh: false, options, keyring: None, verb: Verb::Update }, say)
}

/// The subcommand.
struct Job<'j> {
    chart: &'j Path,
    skip_refresh: bool,
    options: &'j Options,
    keyring: Option<PathBuf>,
    verb: Verb,
}

fn work(globals: &Globals, job: Job<'_>, say: &mut (dyn FnMut(String) + Send)) -> Result<(), Failure> {
    let fetcher = fetch::fetcher(globals);
    let mut warn = |line: String| tell(&line);
    let path = windlass_fetch::clean(job.chart);
    let Job { skip_refresh, options, keyring, verb, .. } = job;
    let mut manager = Manager {
        fetcher: &fetcher,
        path: &path,
        skip_refresh,
        options,
        keyring,
        local_root: None,
        say,
        warn: &mut warn,
    };
    let result = block_on(async {
        match verb {
            Verb::Update => manager.update().await,
            Verb::Build => manager.build().await,
        }
    });
    result?.map_err(|e| e.to_string())
}

fn show(globals: &Globals, args: &List) -> Result<(), Failure> {
    let path = windlass_fetch::clean(&args.chart);
    let loaded = windlass_fetch::load(&path, globals.profile()).map_err(|e| e.to_string())?;
    loaded.warnings.iter().for_each(|w| tell(w));
    let Some(declared) = &loaded.chart.metadata.dependencies else {
        return print(format!("WARNING: no dependencies at {}\n", path.join("charts").display()).as_bytes());
    };
    let row = |cells: [&str; 4]| cells.iter().map(|c| cut(c, args.max_col_width)).collect();
    let mut rows = vec![row(["NAME", "VERSION", "REPOSITORY", "STATUS"])];
    let found = list::rows(&path, &loaded.chart);
    rows.extend(found.iter().map(|r| {
        let d = &r.dependency;
        row([&d.name, &d.version, &d.repository, r.status])
    }));
    let mut text = table(&rows);
    text.push('\n');
    for line in list::strangers(&path, declared) {
        text.push_str(&line);
        text.push('\n');
    }
    print(text.as_bytes())
}
