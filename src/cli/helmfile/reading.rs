//! Commands that only read: `build`, `list`, `print-env`, `show-dag`, `write-values`.

use std::path::Path;
use std::sync::OnceLock;

use super::flags::Options;
use crate::cli::flags::Globals;
use crate::cli::print;
use helmfile_compat::Error;
use windlass_base::causes::of_the_system;
use windlass_fetch::repositories::Repositories;
use windlass_helmfile::{commands, output};

/// Flags of `build`.
#[derive(clap::Args)]
pub(super) struct BuildArgs {
    /// Read the values files and put their values into the state
    #[arg(long)]
    embed_values: bool,
}

/// Flags of `list`.
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Output format: json, or a table
    #[arg(long, default_value = "", hide_default_value = true)]
    output: String,
    /// Do not run the hooks around charts
    #[arg(long)]
    skip_charts: bool,
    /// No effect: temporary files are not made
    #[arg(long)]
    keep_temp_dir: bool,
}

/// Flags of `print-env`.
#[derive(clap::Args)]
pub(super) struct PrintEnvArgs {
    /// Output format: yaml or json
    #[arg(long, default_value = "yaml")]
    output: String,
}

/// Flags of `show-dag`.
#[derive(clap::Args)]
pub(super) struct ShowDagArgs {}

/// Flags of `write-values`.
#[derive(clap::Args)]
pub(super) struct WriteValuesArgs {
    /// A template of the path of each file
    #[arg(long, default_value = "", hide_default_value = true)]
    output_file_template: String,
    /// Further values files, merged last
    #[arg(long)]
    values: Vec<String>,
    /// No effect: `write-values` ignores it, as helmfile does
    #[arg(long)]
    set: Vec<String>,
    /// No effect
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
    /// No effect: temporary files are not made
    #[arg(long)]
    skip_cleanup: bool,
    /// Write the values of needed releases, too
    #[arg(long)]
    include_transitive_needs: bool,
}

pub(super) fn build(globals: &Globals, options: &Options, args: &BuildArgs) -> Result<(), Error> {
    // Most state files ask for none.
    let known = OnceLock::new();
    let is_repository = |name: &str| {
        let known: &Repositories = known.get_or_init(|| {
            Repositories::load(&globals.home().repositories).ok().flatten().unwrap_or_default()
        });
        known.entries.iter().any(|entry| entry.name == name)
    };
    let host = options.host(globals);
    let text = commands::build(&*host, &options.query()?, &options.cwd(), args.embed_values, &is_repository)?;
    Ok(print(text.as_bytes())?)
}

pub(super) fn list(globals: &Globals, options: &Options, args: &ListArgs) -> Result<(), Error> {
    let rows = commands::list(&*options.host(globals), &options.query()?, &options.cwd(), args.skip_charts)?;
    let text = if args.output == "json" { output::rows_json(&rows) } else { output::rows_table(&rows) };
    Ok(print(text.as_bytes())?)
}

pub(super) fn print_env(globals: &Globals, options: &Options, args: &PrintEnvArgs) -> Result<(), Error> {
    let as_json = match args.output.as_str() {
        "json" => true,
        "yaml" | "" => false,
        other => return Err(format!("unsupported output format: {other} (supported: yaml, json)").into()),
    };
    let text = commands::print_env(&*options.host(globals), &options.query()?, &options.cwd(), as_json)?;
    Ok(print(text.as_bytes())?)
}

pub(super) fn show_dag(globals: &Globals, options: &Options) -> Result<(), Error> {
    let text = commands::show_dag(&*options.host(globals), &options.query()?, &options.cwd())?;
    Ok(print(text.as_bytes())?)
}

pub(super) fn write_values(
    globals: &Globals,
    options: &Options,
    args: &WriteValuesArgs,
) -> Result<(), Error> {
    let query = options.query()?;
    let extra: Vec<String> = args.values.iter().map(|path| options.given_path(path)).collect();
    let files = commands::write_values(
        &*options.host(globals),
        &query,
        &options.cwd(),
        &args.output_file_template,
        options.output_folder().as_deref(),
        &extra,
        args.include_transitive_needs,
    )?;
    for file in files {
        let path = Path::new(&file.path);
        options.check_output(path, "--output-file-template")?;
        let failed =
            |error: std::io::Error| format!("writing values file {}: {}", file.path, of_the_system(&error));
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        std::fs::write(path, &file.text).map_err(failed)?;
    }
    Ok(())
}
