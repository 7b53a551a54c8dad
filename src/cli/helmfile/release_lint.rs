//! `lint`: lints the chart of each release with the release's values.
//!
//! Owns which files of a release are linted. Findings and their texts are those of `windlass lint`.

use chart_compat::chart::read_archive;
use chart_compat::lint::{Options as LintOptions, Severity};

use super::flags::Options;
use super::template::{Needs, RenderFlags, Renderer, apply_args};
use crate::cli::flags::Globals;
use crate::cli::lint::{ChartFiles, Linter, summary};
use crate::cli::schemas::Schemas;
use crate::cli::{print, tell};
use helmfile_compat::Error;
use helmfile_compat::hooks::{self, Event};
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::Record;
use windlass_fetch::chart_package::{Times, pack};
use windlass_helmfile::chart_fetcher::ChartFetcher;
use windlass_helmfile::release_chart::{ChartPlace, changes};
use windlass_helmfile::{commands, release_options};
use windlass_render::SystemWorld;

/// Flags of `lint`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    needs: Needs,
    /// Further `--set` values for every chart
    #[arg(long)]
    set: Vec<String>,
    /// Further values files for every chart
    #[arg(long)]
    values: Vec<String>,
    /// Arguments of `helm lint`: --set, --skip-schema-validation, --strict
    #[arg(long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    args: String,
    /// No effect: charts are linted one after the other
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
    /// No effect: temporary files are not made
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_cleanup: Option<bool>,
}

pub(super) fn run(globals: &Globals, options: &Options, args: &Args) -> Result<(), Error> {
    let (host, store) = (options.host(globals), options.store(globals));
    let (query, cwd) = (options.query()?, options.cwd());
    let (mut count, mut failed) = (0_usize, Vec::new());
    let (strict, others): (Vec<&str>, Vec<&str>) =
        args.args.split_whitespace().partition(|word| *word == "--strict");
    let least = if strict.is_empty() { Severity::Error } else { Severity::Warning };
    commands::with_needs(&*host, &query, &cwd, "lint", args.needs.rule(), |state, releases| {
        let mut flags = RenderFlags {
            set: args.set.clone(),
            values: args.values.iter().map(|path| options.given_path(path)).collect(),
            args: others.join(" "),
            ..RenderFlags::default()
        };
        apply_args(&mut flags, state, &[key!("args")])?;
        let charts = options.charts(globals, &*host, &store);
        let renderer = Renderer { globals, options, charts, flags: &flags };
        for release in releases {
            count += 1;
            if !lint(&renderer, &store, state, release, least)? {
                failed.push(release.text(key!("name")));
            }
            let event = Event { name: "cleanup", error: None, command: "lint" };
            hooks::trigger(&*host, state, Some(release), event)?;
        }
        Ok(())
    })?;
    match failed.as_slice() {
        [] => Ok(()),
        names => Err(format!("{}: {}", summary(count, names.len()), names.join(", ")).into()),
    }
}

/// Lints the chart of a release, and prints what is found. Returns whether the chart passes.
fn lint(
    renderer: &Renderer<'_>,
    store: &ChartFetcher,
    state: &State,
    release: &Record,
    least: Severity,
) -> Result<bool, Error> {
    let path = release.optional_text(key!("chartPath")).filter(|path| !path.is_empty());
    let (name, chart) = (release.text(key!("name")), path.unwrap_or_else(|| release.text(key!("chart"))));
    tell(&format!("Linting release={name}, chart={chart}"));
    let globals = renderer.globals;
    let (entries, user) = renderer.values(state, release)?;
    let documents = Schemas::new(globals);
    let world = SystemWorld::until(globals.render_bounds().deadline(), Some(&documents));
    let namespace = release.text(key!("namespace"));
    let options = LintOptions {
        values: &user,
        namespace: if namespace.is_empty() { "default" } else { &namespace },
        kube_version: None,
        skip_schema_validation: renderer.flags.skip_schema_validation
            || release_options::flag(state, release, key!("skipSchemaValidation")),
        profile: globals.profile(),
        world: &world,
    };
    let linter = Linter { options, least, quiet: false, only_helm: false };
    let place = renderer.charts.place(state, release)?;
    let changes = changes(renderer.charts.host, state, release, place.made())?;
    let is_changed = !release.list(key!("dependencies")).is_empty() || !changes.is_empty();
    let all = match place {
        ChartPlace::Chart(request) if !is_changed => store.files(&request).map_err(|error| error.to_string()),
        // As helmfile, the chart that is made of the release's fields.
        place => {
            let chart = renderer.chart(state, release, (place, &changes), &entries, &user)?;
            let package = pack(&chart, &Times::none()).map_err(|error| error.to_string())?;
            read_archive(&package, globals.profile()).map_err(|error| error.to_string())
        }
    };
    let report = linter.report(&chart, all.and_then(|all| ChartFiles::new(&chart, all, globals.profile())));
    print(report.text.as_bytes())?;
    print(format!("{}\n\n", summary(1, usize::from(report.failed))).as_bytes())?;
    Ok(!report.failed)
}
