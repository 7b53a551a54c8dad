//! `template`: renders the charts of the releases and prints them in the order of their needs.

use std::path::PathBuf;

use chart_compat::chart::Chart;
use chart_compat::data::Map as DataMap;
use chart_compat::render::{
    Capabilities, CompiledChart, Hook, KubeVersion, Options as RenderOptions, Release, Rendered, ShowOnly,
    release_name_error, template_output, template_output_of,
};

use super::flags::Options;
use super::post_renderer::PostRendererFlags;
use crate::cli::flags::Globals;
use crate::cli::schemas::Schemas;
use crate::cli::{output_dir, print, tell};
use helmfile_compat::hooks::{self, Event};
use helmfile_compat::host::Host;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::Record;
use helmfile_compat::release::is_desired;
use helmfile_compat::release_values;
use helmfile_compat::schema::Key;
use helmfile_compat::{Error, paths};
use windlass_helmfile::error::HelmfileError;
use windlass_helmfile::helm_arguments::{HelmArgument, helm_arguments, own_arguments};
use windlass_helmfile::patched_chart::Changes;
use windlass_helmfile::release_chart::{ChartPlace, ExtraValues, ReleaseCharts, changes};
use windlass_helmfile::{commands, output, patched_chart, release_options};
use windlass_render::RenderRequest;

/// Which needed releases a command takes.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Needs {
    /// Only the releases that the selectors choose [default: true, unless needs are included]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_needs: Option<bool>,
    /// Also what the chosen releases need
    #[arg(long)]
    include_needs: bool,
    /// Also what the chosen releases need, and what that needs
    #[arg(long)]
    include_transitive_needs: bool,
}

impl Needs {
    /// Whether needed releases are included.
    pub(super) fn includes(&self) -> bool {
        self.include_needs || self.include_transitive_needs
    }

    /// The rule for needs of chosen releases that are not chosen.
    pub(super) fn rule(&self) -> commands::NeedsRule {
        match (self.includes(), self.skip_needs) {
            (true, _) => commands::NeedsRule::Include,
            (false, Some(false)) => commands::NeedsRule::Refuse,
            (false, _) => commands::NeedsRule::Skip,
        }
    }
}

/// Flags for values and what is printed.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct RenderFlags {
    /// Further `--set` values for every chart
    #[arg(long)]
    pub(super) set: Vec<String>,
    /// Further values files for every chart
    #[arg(long)]
    pub(super) values: Vec<String>,
    /// Arguments of `helm template`: --set, --skip-schema-validation, --include-crds, --no-hooks, --skip-tests
    #[arg(long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    pub(super) args: String,
    /// Include CRDs
    #[arg(long)]
    pub(super) include_crds: bool,
    /// Leave hooks out
    #[arg(long)]
    pub(super) no_hooks: bool,
    /// Leave test hooks out
    #[arg(long)]
    pub(super) skip_tests: bool,
    /// Only the documents of these templates
    #[arg(long)]
    pub(super) show_only: Vec<String>,
    /// Kubernetes version used for Capabilities.KubeVersion
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) kube_version: String,
    /// Do not check values against schemas
    #[arg(long)]
    pub(super) skip_schema_validation: bool,
}

/// Flags of `template`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    needs: Needs,
    #[command(flatten)]
    render: RenderFlags,
    /// Write the documents of each template to a file below a folder
    #[arg(long, default_value = "", hide_default_value = true)]
    output_dir: String,
    /// A template of the folder of each release
    #[arg(long, default_value = "", hide_default_value = true)]
    output_dir_template: String,
    /// Use the cluster's version and kinds; not supported: use `windlass template --validate`
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set)]
    validate: bool,
    #[command(flatten)]
    post_renderer: PostRendererFlags,
    /// No effect: releases are rendered one after the other
    #[arg(long, default_value_t = 0)]
    concurrency: usize,
    /// No effect: temporary files are not made
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_cleanup: Option<bool>,
}

pub(super) fn run(globals: &Globals, options: &Options, args: &Args) -> Result<(), Error> {
    if args.validate {
        return Err("--validate is not supported here: `windlass template --validate` renders a chart with a cluster's \
                    version and kinds"
            .to_owned()
            .into());
    }
    let (host, store) = (options.host(globals), options.store(globals));
    commands::with_needs(
        &*host,
        &options.query()?,
        &options.cwd(),
        "template",
        args.needs.rule(),
        |state, releases| {
            let mut flags = args.render.clone();
            flags.values.iter_mut().for_each(|path| *path = options.given_path(path));
            apply_args(&mut flags, state, &[key!("args"), key!("templateArgs")])?;
            let renderer =
                Renderer { globals, options, charts: options.charts(globals, &*host, &store), flags: &flags };
            // helmfile prints an empty line for each kustomization that it builds, before all releases.
            for release in releases {
                let local = paths::normalize_chart(&state.base, &release.text(key!("chart")));
                let file = paths::join(&paths::within(&state.cwd, &local), "kustomization.yaml");
                if host.is_dir(&file) == Some(false) {
                    print(b"\n")?;
                }
            }
            for release in releases {
                let rendered = renderer.render(state, release)?;
                renderer.write(state, release, rendered, args)?;
                hooks::trigger(
                    &*host,
                    state,
                    Some(release),
                    Event { name: "cleanup", error: None, command: "template" },
                )?;
            }
            Ok(())
        },
    )
}

/// Renders the releases that the selectors choose and those of their files that they need, in no order, and hands each to `work`.
pub(super) fn each_rendered(
    globals: &Globals,
    options: &Options,
    host: &dyn Host,
    work: &mut dyn FnMut(&State, &Record, &Rendered) -> Result<(), Error>,
) -> Result<(), Error> {
    let store = options.store(globals);
    commands::for_each(host, &options.query()?, &options.cwd(), |state| {
        commands::prepared(host, state, "template", |state| {
            let mut flags = RenderFlags { include_crds: true, ..RenderFlags::default() };
            apply_args(&mut flags, state, &[key!("args"), key!("templateArgs")])?;
            let charts = options.charts(globals, host, &store);
            let renderer = Renderer { globals, options, charts, flags: &flags };
            let chosen = commands::selected(state, true)?;
            for release in chosen.iter().filter(|release| is_desired(release)) {
                work(state, release, &renderer.render(state, release)?)?;
                let event = Event { name: "cleanup", error: None, command: "template" };
                hooks::trigger(host, state, Some(release), event)?;
            }
            Ok(!chosen.is_empty())
        })
    })
}

/// Adds the arguments for helm to the flags. Those of the command line come before those of the state, which are in the lists `keys`
/// of `helmDefaults`.
pub(super) fn apply_args(flags: &mut RenderFlags, state: &State, keys: &[Key]) -> Result<(), Error> {
    let own = own_arguments(state, keys);
    for argument in helm_arguments(&format!("{} {own}", flags.args))? {
        match argument {
            HelmArgument::Set(text) => flags.set.push(text),
            HelmArgument::IncludeCrds => flags.include_crds = true,
            HelmArgument::NoHooks => flags.no_hooks = true,
            HelmArgument::SkipTests => flags.skip_tests = true,
            HelmArgument::SkipSchemaValidation => flags.skip_schema_validation = true,
        }
    }
    Ok(())
}

/// An error with the name of its release.
fn of_release(release: &Record, error: impl Into<Error>) -> Error {
    error.into().within(format!("release {:?}", release.text(key!("name"))))
}

/// Renders releases.
pub(super) struct Renderer<'r> {
    pub(super) globals: &'r Globals,
    pub(super) options: &'r Options,
    pub(super) charts: ReleaseCharts<'r>,
    pub(super) flags: &'r RenderFlags,
}

impl Renderer<'_> {
    fn render(&self, state: &State, release: &Record) -> Result<Rendered, Error> {
        let (entries, user) = self.values(state, release)?;
        let place = self.charts.place(state, release)?;
        let changes = changes(self.charts.host, state, release, place.made())?;
        let chart = self.chart(state, release, (place, &changes), &entries, &user)?;
        self.render_chart(state, release, &user, chart).map_err(|error| of_release(release, error))
    }

    /// The values of a release: those of files and maps alone, and merged with those of `set`.
    pub(super) fn values(
        &self,
        state: &State,
        release: &Record,
    ) -> Result<(Vec<release_values::Entry>, DataMap), Error> {
        let entries = release_values::of_release(self.charts.host, state, release)?;
        let extra = ExtraValues { set: &self.flags.set, files: &self.flags.values };
        let user = self.charts.user_values(state, release, &entries, extra)?;
        Ok((entries, user))
    }

    /// The chart of a release at its place, with what the release's fields change in it.
    pub(super) fn chart(
        &self,
        state: &State,
        release: &Record,
        (place, changes): (ChartPlace, &Changes),
        entries: &[release_values::Entry],
        user: &DataMap,
    ) -> Result<Chart, Error> {
        if let Some(problem) = release_name_error(&release.text(key!("name"))) {
            return Err(of_release(release, format!("release name check failed: {problem}")));
        }
        let source = self.charts.chart(state, release, place, entries)?;
        if changes.is_empty() && source.made.is_none() {
            return Ok(source.chart);
        }
        let render =
            |chart: Chart| self.render_chart(state, release, user, chart).map_err(HelmfileError::Chart);
        patched_chart::patched(source.chart, changes, self.flags.include_crds, &render)
            .map_err(|error| of_release(release, error))
    }

    fn render_chart(
        &self,
        state: &State,
        release: &Record,
        user: &DataMap,
        chart: Chart,
    ) -> Result<Rendered, String> {
        let documents = Schemas::new(self.globals);
        let options = self.render_options(state, release).map_err(|error| error.to_string())?;
        let compiled = CompiledChart::new(chart, self.globals.profile());
        let request = RenderRequest {
            documents: Some(&documents),
            dns: release_options::flag(state, release, key!("enableDNS")),
            ..RenderRequest::new(&compiled, user, &options, self.globals.render_bounds().deadline())
        };
        request.render(&mut |line| tell(&line)).map_err(|error| error.to_string())
    }

    fn render_options(&self, state: &State, release: &Record) -> Result<RenderOptions, Error> {
        let mut capabilities = Capabilities::default();
        let version = [
            self.flags.kube_version.clone(),
            release.text(key!("kubeVersion")),
            state.fields.text(key!("kubeVersion")),
        ]
        .into_iter()
        .find(|version| !version.is_empty());
        if let Some(version) = version {
            capabilities.kube_version =
                KubeVersion::parse(&version).map_err(|e| format!("invalid kube version '{version}': {e}"))?;
        }
        let own = release.texts(key!("apiVersions"));
        capabilities.api_versions.extend(if own.is_empty() {
            state.fields.texts(key!("apiVersions"))
        } else {
            own
        });
        self.globals.profile().helm_version().clone_into(&mut capabilities.helm_version);
        let namespace = release.text(key!("namespace"));
        let skips_schema = self.flags.skip_schema_validation
            || release_options::flag(state, release, key!("skipSchemaValidation"));
        Ok(RenderOptions {
            release: Release {
                name: release.text(key!("name")),
                namespace: if namespace.is_empty() { "default".to_owned() } else { namespace },
                revision: 1,
                is_upgrade: false,
            },
            capabilities,
            skip_schema_validation: skips_schema,
            subchart_notes: false,
            limits: self.globals.render_bounds().limits(),
        })
    }

    fn write(
        &self,
        state: &State,
        release: &Record,
        mut rendered: Rendered,
        args: &Args,
    ) -> Result<(), Error> {
        let tests = |hook: &Hook| hook.events.iter().any(|event| event == "test");
        let wanted = |hook: &Hook| !(self.flags.no_hooks || self.flags.skip_tests && tests(hook));
        let include_crds = self.flags.include_crds;
        let post_rendered = match args.post_renderer.of(state, release).find(self.globals)? {
            Some(program) => program.apply(&mut rendered, include_crds)?,
            None => None,
        };
        if args.output_dir.is_empty() && args.output_dir_template.is_empty() {
            let show_only = ShowOnly { patterns: &self.flags.show_only };
            let profile = self.globals.profile();
            let text = match post_rendered {
                Some(text) => template_output_of(&text, &rendered, wanted, &show_only, profile),
                None => template_output(&rendered, include_crds, wanted, &show_only, profile),
            };
            print(&text?)?;
            return Ok(print(b"\n")?);
        }
        let template =
            if args.output_dir_template.is_empty() { output::OUTPUT_DIR } else { &args.output_dir_template };
        let dir = output::path_of(self.charts.host, state, release, template, Some(&args.output_dir))?;
        let dir = PathBuf::from(paths::within(&state.cwd, &self.options.given_path(&dir)));
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        // helmfile logs helm's report.
        Ok(output_dir::write(&dir, None, &rendered, include_crds, wanted, "", |line| {
            tell(line);
            Ok(())
        })?)
    }
}
