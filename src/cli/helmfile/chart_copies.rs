//! `fetch`: writes the charts of the releases into a directory, for runs without a network.
//!
//! Owns where a chart is written and what may be replaced. Charts come from the store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use chart_compat::chart::File;

use super::flags::Options;
use crate::cli::flags::Globals;
use crate::cli::{print, tell};
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::{Record, Slot};
use helmfile_compat::{Error, paths, release};
use windlass_fetch::chart_package;
use windlass_helmfile::chart_fetcher::ChartFetcher;
use windlass_helmfile::release_chart::{ChartPlace, ReleaseCharts};
use windlass_helmfile::{commands, output};

/// Flags of `fetch`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The directory for the charts; without it and a template they are fetched into Helm's cache alone
    #[arg(long, default_value = "", hide_default_value = true)]
    output_dir: String,
    /// A template of the directory of each chart, with .OutputDir, .ChartName, .Release and .Environment
    #[arg(long, default_value = output::CHART_DIR, hide_default_value = true)]
    output_dir_template: String,
    /// Print the state file with the paths of the written charts
    #[arg(long)]
    write_output: bool,
    /// No effect: charts are fetched one after the other
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
}

pub(super) fn run(globals: &Globals, options: &Options, args: &Args) -> Result<(), Error> {
    if args.write_output && args.output_dir.is_empty() {
        return Err("--output-dir is required when --write-output is set".to_owned().into());
    }
    let (host, store) = (options.host(globals), options.store(globals));
    let (mut states, mut text) = (0_usize, String::new());
    commands::for_each(&*host, &options.query()?, &options.cwd(), |state| {
        states += 1;
        if args.write_output && states > 1 {
            return Err("--write-output prints one state file, but there are several: name one with --file"
                .to_owned()
                .into());
        }
        commands::filter(state, false)?;
        commands::prepared(&*host, state, "pull", |state| {
            let copies =
                ChartCopies { charts: options.charts(globals, &*host, &store), store: &store, options, args };
            let mut releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
            let enabled: BTreeSet<String> =
                commands::selected(state, false)?.iter().map(release::id).collect();
            let is_due = |one: &&mut Record| release::is_desired(one) && enabled.contains(&release::id(one));
            for one in releases.iter_mut().filter(is_due) {
                let written = copies
                    .write(state, one)
                    .map_err(|error| error.within(format!("release {:?}", one.text(key!("name")))))?;
                if let Some(path) = written {
                    one.set(key!("chart"), Slot::Text(path));
                    one.set(key!("chartPath"), Slot::Text(String::new()));
                }
            }
            let any = !releases.is_empty();
            state.fields.set_records(key!("releases"), releases);
            if args.write_output {
                text.push_str(&output::build(state));
            }
            Ok(any)
        })
    })?;
    Ok(print(text.as_bytes())?)
}

/// Writes charts below the directory of the flags.
struct ChartCopies<'c> {
    charts: ReleaseCharts<'c>,
    store: &'c ChartFetcher,
    options: &'c Options,
    args: &'c Args,
}

impl ChartCopies<'_> {
    /// Fetches the chart of a release and writes it. Returns its path, if there is a directory to write to.
    fn write(&self, state: &State, release: &Record) -> Result<Option<String>, Error> {
        let place = self.charts.place(state, release)?;
        let (files, on_disk) = match &place {
            ChartPlace::Chart(request) => {
                let own = Path::new(&request.reference);
                (self.store.files(request)?, Some(own.to_owned()).filter(|own| own.is_dir()))
            }
            ChartPlace::Kustomization(dir) | ChartPlace::Manifests(dir) => {
                let files = windlass_fetch::directory_files(dir).map_err(|error| error.to_string())?;
                (files, Some(dir.clone()))
            }
        };
        if self.args.output_dir.is_empty() && self.args.output_dir_template == output::CHART_DIR {
            return Ok(None);
        }
        let name = match &on_disk {
            Some(dir) => paths::base(&dir.to_string_lossy()),
            None => remote_name(state, &release.text(key!("chart"))),
        };
        let output_dir = self.options.given_path(&self.args.output_dir);
        let template = &self.args.output_dir_template;
        let mut path = output::chart_path_of(self.charts.host, state, release, template, &output_dir, &name)?;
        if on_disk.is_none() {
            // As `helm pull --untar`.
            let own = chart_package::directory_name(&files).map_err(|error| error.to_string())?;
            path = paths::join(&path, &own);
        }
        let root = PathBuf::from(paths::within(&state.cwd, &output_dir));
        let dir = PathBuf::from(paths::within(&state.cwd, &path));
        self.options.check_output(&dir, "--output-dir")?;
        replace(&files, &dir, &root)?;
        tell(&format!("wrote {}", dir.display()));
        Ok(Some(path))
    }
}

/// Writes the files of a chart in place of what is there. `root`: the directory that it must be below, `--output-dir` or the folder of
/// the state file.
fn replace(files: &[File], dir: &Path, root: &Path) -> Result<(), Error> {
    let (dir, root) = (windlass_fetch::absolute(dir), windlass_fetch::absolute(root));
    if dir == root || !dir.starts_with(&root) {
        let text = format!("{} is not below {}: change --output-dir-template", dir.display(), root.display());
        return Err(text.into());
    }
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    Ok(chart_package::write_directory(files, &dir).map_err(|error| error.to_string())?)
}

/// What the template gets as the name of a chart that is not on disk.
fn remote_name(state: &State, chart: &str) -> String {
    if chart.starts_with("oci://") {
        let last = paths::base(chart);
        return last.split(['@', ':']).next().unwrap_or_default().to_owned();
    }
    let registry = paths::repository_chart(chart).filter(|(name, _)| {
        let mut all = state.fields.records(key!("repositories"));
        all.any(|one| one.text(key!("name")) == *name && one.flag(key!("oci")) == Some(true))
    });
    registry.map_or_else(|| chart.to_owned(), |(_, chart)| chart.to_owned())
}
