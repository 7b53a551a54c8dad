//! `windlass module template`, `test` and `check`: a module on disk, without an operator and a cluster.

use std::path::{Path, PathBuf};

use chart_compat::data::Map;

use super::failure::Explained;
use super::flags::{Globals, Values};
use super::template::{self, OfflineFlags};
use super::values::{self, User};
use super::{Failure, block_on, print, tell};
use windlass_modules::addon::module_directory::ModuleDirectory;
use windlass_modules::openapi::case_tests::CaseResults;

/// Which module.
#[derive(clap::Args)]
struct DirectoryFlags {
    /// Name of the module, if its directory has another one
    #[arg(long)]
    name: Option<String>,
    /// Directory of global hooks, with the schemas of global values in its openapi/
    #[arg(long, env = "GLOBAL_HOOKS_DIR")]
    global_hooks_dir: Option<PathBuf>,
}

impl DirectoryFlags {
    fn read(&self, globals: &Globals, directory: &Path) -> Result<ModuleDirectory, Failure> {
        let (name, global) = (self.name.as_deref(), self.global_hooks_dir.as_deref());
        ModuleDirectory::read(directory, name, global, globals.profile())
    }
}

/// Flags of `module template`.
#[derive(clap::Args)]
pub(super) struct TemplateArgs {
    /// Directory of the module
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    of: DirectoryFlags,
    /// Values by section: global, and the module's key in camel case
    #[command(flatten)]
    values: Values,
    /// Place in the lists of x-examples in the schemas
    #[arg(long, default_value_t = 0)]
    example: usize,
    /// Leave x-examples of the schemas out
    #[arg(long, conflicts_with = "example")]
    no_examples: bool,
    /// Do not hold the values against the schemas
    #[arg(long)]
    skip_schema_validation: bool,
    #[command(flatten)]
    output: OfflineFlags,
}

/// Flags of `module test`.
#[derive(clap::Args)]
pub(super) struct TestArgs {
    /// Directories of modules
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    of: DirectoryFlags,
}

/// Flags of `module check`.
#[derive(clap::Args)]
pub(super) struct CheckArgs {
    /// Directory of the module
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    of: DirectoryFlags,
    /// File with the settings: the module's section of the ConfigMap, or a map with that section below the module's key (`-` is stdin)
    #[arg(short = 'f', long, value_name = "FILE")]
    values: String,
}

/// Renders the chart of a module.
pub(super) fn template(globals: &Globals, args: &TemplateArgs) -> Result<(), Explained> {
    let module = args.of.read(globals, &args.directory)?;
    let given = values::merge(globals, &args.values, globals.profile())?;
    let Some(chart) = module.module.chart.clone()? else {
        let path = module.module.path.display();
        return Err(format!("{path} has no chart: neither Chart.yaml nor templates/ is there").into());
    };
    let example = (!args.no_examples).then_some(args.example);
    let values = module.values(&given.values, example);
    if !args.skip_schema_validation {
        module.check_values(&values).map_err(|text| {
            format!(
                "{text}; set what is missing in a file (--values), or look past it (--skip-schema-validation)"
            )
        })?;
    }
    let user = User::given("values of the module", values);
    template::print_offline(globals, &args.output, &module.module.name.name, chart, user)
}

/// Runs the cases of the schemas of modules.
pub(super) fn test(globals: &Globals, args: &TestArgs) -> Result<(), Failure> {
    let mut failed = 0;
    for directory in &args.directories {
        let shown = directory.display();
        let cases = args.of.read(globals, directory).and_then(|module| module.run_cases());
        let text = match &cases {
            Ok(results) => results_text(results),
            Err(text) => format!("FAIL {text}\n"),
        };
        failed += match &cases {
            Ok(results) => results.failures.len(),
            Err(_) => 1,
        };
        let lines: String = text.lines().map(|line| format!("{shown}: {line}\n")).collect();
        print(lines.as_bytes())?;
    }
    match failed {
        0 => Ok(()),
        count => Err(format!("{count} case(s) failed")),
    }
}

fn results_text(results: &CaseResults) -> String {
    let mut lines: Vec<String> = results.notes.iter().map(|note| format!("note {note}")).collect();
    lines.extend(results.failures.iter().map(|text| format!("FAIL {text}")));
    let passed = results.ran - results.failures.len();
    let skipped = match results.skipped {
        0 => String::new(),
        count => format!(", {count} without x-test-focus skipped"),
    };
    lines.push(format!("{passed} of {} cases passed{skipped}", results.ran));
    lines.join("\n")
}

/// Puts settings to the schema of a module and to the programs that check them.
pub(super) fn check(globals: &Globals, args: &CheckArgs) -> Result<(), Failure> {
    let module = args.of.read(globals, &args.directory)?;
    let files = Values { files: vec![args.values.clone()], ..Values::default() };
    let file: Map = values::merge(globals, &files, globals.profile()).map_err(|e| e.text)?.values;
    let settings = module.settings(&file)?;
    let scratch = tempfile::tempdir().map_err(|e| format!("cannot create a scratch directory: {e}"))?;
    let report = block_on(module.check_settings(&settings, scratch.path().to_owned()))??;
    for text in &report.warnings {
        tell(&format!("warning: {text}"));
    }
    if let Some(objection) = report.objection {
        return Err(format!("{}: {objection}", module.module.name.key));
    }
    let by = match report.programs.is_empty() {
        true => "no program of the module checks settings".to_owned(),
        false => format!("checked by {}", report.programs.join(", ")),
    };
    print(format!("the settings are valid ({by})\n").as_bytes())
}
