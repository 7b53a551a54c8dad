//! `windlass template`: renders a chart and prints Helm's output.

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;

use chart_compat::go::{parse_bool, slog};
use chart_compat::profile::Profile;
use chart_compat::render::{
    Capabilities, CompiledChart, Error, Hook, KubeVersion, Options, Release, Rendered, ShowOnly,
    debug_output, release_name_error, template_output, template_output_of, template_pieces,
};

use super::failure::{self, Explained};
use super::fetch::ChartPath;
use super::flags::{Globals, Render};
use super::legacy::Legacy;
use super::post_render::PostRender;
use super::release_flags::DryRun;
use super::schemas::Schemas;
use super::values::User;
use super::{Connected, Failure, chart, print, print_pieces, tell, values, with_engine};
use windlass_cluster::Gvk;
use windlass_controller::capabilities;
use windlass_render::replay::{self, store};
use windlass_render::{ClusterLookup, Deadline, Lookup, RenderRequest, parse_manifest, release_name};

/// Flags for `.Capabilities`.
#[derive(clap::Args)]
pub(super) struct CapabilityFlags {
    /// Kubernetes version used for Capabilities.KubeVersion
    #[arg(long)]
    kube_version: Option<String>,
    /// Kubernetes api versions used for Capabilities.APIVersions (multiple can be specified)
    #[arg(short, long, value_delimiter = ',')]
    api_versions: Vec<String>,
}

impl CapabilityFlags {
    /// The capabilities that are assumed without a cluster.
    fn assumed(&self, profile: Profile) -> Result<Capabilities, Failure> {
        let mut assumed = Capabilities::default();
        if let Some(text) = self.kube_version.as_deref().filter(|text| !text.is_empty()) {
            assumed.kube_version =
                KubeVersion::parse(text).map_err(|e| format!("invalid kube version '{text}': {e}"))?;
        }
        assumed.api_versions.extend(self.api_versions.iter().cloned());
        profile.helm_version().clone_into(&mut assumed.helm_version);
        Ok(assumed)
    }
}

/// Flags for output into files.
#[derive(clap::Args)]
struct OutputDirFlags {
    /// Writes the executed templates to files in output-dir instead of stdout
    #[arg(long, value_parser = super::flags::path(), value_hint = clap::ValueHint::AnyPath)]
    output_dir: Option<PathBuf>,
    /// Use release name in the output-dir path
    #[arg(long)]
    release_name: bool,
}

/// Flags for the release's name.
#[derive(clap::Args)]
struct NameFlags {
    /// Generate the name (and omit the NAME parameter)
    #[arg(short, long)]
    generate_name: bool,
    /// Specify template used to name the release
    #[arg(long, default_value = "")]
    name_template: String,
}

/// Flags for the use of the cluster.
#[derive(clap::Args)]
struct ModeFlags {
    /// Simulates the operation client-side (default) or against the cluster: "client" or "server"
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "unset", conflicts_with = "validate")]
    dry_run: Option<String>,
    /// Like --dry-run=server: use the cluster's version, kinds and objects
    #[arg(long)]
    validate: bool,
}

/// Flags of `template`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// `[NAME] CHART`
    #[arg(num_args = 1.., required = true, value_names = ["NAME", "CHART"])]
    names: Vec<String>,
    #[command(flatten)]
    render: Render,
    #[command(flatten)]
    capabilities: CapabilityFlags,
    /// Include CRDs in the templated output
    #[arg(long)]
    include_crds: bool,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,
    /// Skip tests from templated output
    #[arg(long)]
    skip_tests: bool,
    /// Prevent hooks from running during install
    #[arg(long)]
    no_hooks: bool,
    /// Only show manifests rendered from the given templates
    #[arg(short, long)]
    show_only: Vec<String>,
    #[command(flatten)]
    output_dir: OutputDirFlags,
    #[command(flatten)]
    name: NameFlags,
    #[command(flatten)]
    mode: ModeFlags,
    #[command(flatten)]
    post_render: PostRender,
    #[command(flatten)]
    path: ChartPath,
    /// Update dependencies if they are missing before rendering the chart
    #[arg(long)]
    dependency_update: bool,
    #[command(flatten)]
    legacy: Legacy,
}

impl Args {
    /// The release's name and the chart's reference (`Install.NameAndChart`).
    fn names(&self) -> Result<(String, &str), Failure> {
        match &self.names[..] {
            [_, _] if self.name.generate_name => {
                Err("cannot set --generate-name and also specify a name".to_owned())
            }
            [_, _] if !self.name.name_template.is_empty() => {
                Err("cannot set --name-template and also specify a name".to_owned())
            }
            [name, chart] => Ok((name.clone(), chart)),
            [chart] if !self.name.name_template.is_empty() => {
                Ok((release_name(&self.name.name_template)?, chart))
            }
            [chart] => Ok(("release-name".to_owned(), chart)),
            [_, _, more @ ..] => {
                Err(format!("expected at most two arguments, unexpected arguments: {}", more.join(", ")))
            }
            [] => Err("\"helm template\" requires at least 1 argument".to_owned()),
        }
    }

    /// Whether the cluster is used. Helm 3 uses it only with `--validate`.
    fn asks_cluster(&self, profile: Profile) -> Result<bool, Failure> {
        match (profile, self.mode.dry_run.as_deref()) {
            (_, None) => Ok(self.mode.validate),
            (Profile::Helm3, Some("false" | "true" | "none" | "client" | "server" | "unset")) => Ok(false),
            (Profile::Helm3, Some(_)) => {
                Err("Invalid dry-run flag. Flag must one of the following: false, true, none, client, server"
                    .to_owned())
            }
            // It is always a simulation.
            (Profile::Helm4, Some(word)) if word == "none" || parse_bool(word) == Some(false) => {
                Err(format!("invalid dry-run value ({word:?}). Must be \"server\" or \"client\""))
            }
            (Profile::Helm4, word) => Ok(DryRun::read(word, profile)? == DryRun::Server),
        }
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    let assumed = args.capabilities.assumed(globals.profile())?;
    let (name, reference) = args.names()?;
    let name = name.as_str();
    let post_renderer = args.post_render.find(globals)?;
    args.legacy.warn(globals.profile());
    if args.mode.validate && globals.profile() == Profile::Helm4 {
        tell("Flag --validate has been deprecated, use '--dry-run=server' instead");
    }
    let server = args.asks_cluster(globals.profile())?;
    if args.render.render_subchart_notes && globals.profile() == Profile::Helm4 {
        tell(
            "Flag --render-subchart-notes has been deprecated, this flag has no effect for 'helm template' and \
             will be removed in Helm 5",
        );
    }
    if args.render.replay && !server {
        let text = "--replay reads what earlier renders made from the cluster: add --dry-run=server";
        return Err(text.to_owned().into());
    }
    let user = values::merge(globals, &args.render.values, globals.profile())?;
    let loaded =
        chart::open(reference, globals, &args.path, args.dependency_update, chart::PullNotes::Stderr)?;
    let compiled = Arc::new(loaded.compile(globals.profile()));
    if let Some(text) = release_name_error(name) {
        return Err(match globals.profile() {
            Profile::Helm3 => text.into(),
            Profile::Helm4 => {
                tell(&slog::line("ERROR", "release name check failed", &[("error", &text)]));
                format!("release name check failed: {text}").into()
            }
        });
    }
    let release = Release {
        name: name.to_owned(),
        namespace: globals.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        revision: 1,
        is_upgrade: args.is_upgrade,
    };
    let bounds = globals.render_bounds();
    // The process exits soon: dropping the chart and its output would only take time.
    let job = ManuallyDrop::new(Arc::new(Job {
        compiled,
        user,
        options: Options {
            release,
            capabilities: assumed,
            skip_schema_validation: args.render.skip_schema_validation,
            subchart_notes: args.render.render_subchart_notes,
            limits: bounds.limits(),
        },
        dns: args.render.enable_dns,
        deadline: bounds.deadline(),
        documents: Schemas::new(globals),
        shown: failure::explains(globals),
        debug: globals.debug,
        show_only: args.show_only.clone(),
    }));
    let mut rendered = ManuallyDrop::new(match server {
        true => Job::render_live(&job, globals, args)?,
        false => job.render(&job.options, None)?,
    });
    let post_rendered = match post_renderer {
        Some(post) => post.apply(&mut rendered, args.include_crds).map_err(|e| match globals.debug {
            true => e,
            false => format!("{e}{HINT}"),
        })?,
        None => None,
    };
    let wanted = |h: &Hook| !(args.no_hooks || args.skip_tests && h.events.iter().any(|e| e == "test"));
    if let Some(dir) = args.output_dir.output_dir.as_deref().filter(|dir| !dir.as_os_str().is_empty()) {
        let release = args.output_dir.release_name.then_some(name);
        let hint = if globals.debug { "" } else { HINT };
        super::output_dir::write(dir, release, &rendered, args.include_crds, wanted, hint, |line| {
            print(format!("{line}\n").as_bytes())
        })?;
        // After writing the files Helm processes the remaining, empty manifest: it finds no pattern there, and prints it.
        return match args.show_only.first() {
            Some(pattern) => Err(format!("could not find template {pattern} in chart").into()),
            None => Ok(print(b"\n")?),
        };
    }
    let (crds, show_only) = (args.include_crds, ShowOnly { patterns: &args.show_only });
    match post_rendered {
        Some(text) => print(&template_output_of(&text, &rendered, wanted, &show_only, globals.profile())?)?,
        None if args.show_only.is_empty() => print_pieces(&template_pieces(&rendered, crds, wanted))?,
        None => print(&template_output(&rendered, crds, wanted, &show_only, globals.profile())?)?,
    }
    Ok(())
}

/// How a chart without a reference of its own is rendered and printed.
#[derive(clap::Args)]
pub(super) struct OfflineFlags {
    #[command(flatten)]
    capabilities: CapabilityFlags,
    /// Include CRDs in the output
    #[arg(long)]
    include_crds: bool,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    is_upgrade: bool,
    /// Only show manifests rendered from the given templates
    #[arg(short, long)]
    show_only: Vec<String>,
}

/// Renders a chart without a cluster, and prints it as `template` does.
pub(super) fn print_offline(
    globals: &Globals,
    flags: &OfflineFlags,
    name: &str,
    compiled: Arc<CompiledChart>,
    user: User,
) -> Result<(), Explained> {
    let profile = globals.profile();
    let release = Release {
        name: name.to_owned(),
        namespace: globals.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        revision: 1,
        is_upgrade: flags.is_upgrade,
    };
    let bounds = globals.render_bounds();
    let job = Job {
        compiled,
        user,
        options: Options {
            release,
            capabilities: flags.capabilities.assumed(profile)?,
            skip_schema_validation: false,
            subchart_notes: false,
            limits: bounds.limits(),
        },
        dns: false,
        deadline: bounds.deadline(),
        documents: Schemas::new(globals),
        shown: failure::explains(globals),
        debug: globals.debug,
        show_only: flags.show_only.clone(),
    };
    let rendered = job.render(&job.options, None)?;
    match flags.show_only.is_empty() {
        true => print_pieces(&template_pieces(&rendered, flags.include_crds, |_| true))?,
        false => {
            let show_only = ShowOnly { patterns: &flags.show_only };
            print(&template_output(&rendered, flags.include_crds, |_| true, &show_only, profile)?)?;
        }
    }
    Ok(())
}

/// Helm's suffix of an error in a rendered release.
const HINT: &str = "\n\nUse --debug flag to render out invalid YAML";

/// Loads a release's stored random values.
type Load<'l> = dyn Fn() -> Result<replay::GeneratedValues, String> + Sync + 'l;

/// A chart and the inputs of its render.
struct Job {
    compiled: Arc<CompiledChart>,
    user: User,
    options: Options,
    dns: bool,
    deadline: Deadline,
    documents: Schemas,
    /// Whether errors are explained.
    shown: bool,
    /// Whether the output of a failed release is printed.
    debug: bool,
    show_only: Vec<String>,
}

impl Job {
    fn request<'r>(&'r self, options: &'r Options, cluster: Option<&'r dyn Lookup>) -> RenderRequest<'r> {
        RenderRequest {
            cluster,
            documents: Some(&self.documents),
            dns: self.dns,
            ..RenderRequest::new(&self.compiled, &self.user.values, options, self.deadline)
        }
    }

    fn render(&self, options: &Options, cluster: Option<&dyn Lookup>) -> Result<Rendered, Explained> {
        let request = self.request(options, cluster);
        request.render(&mut |w| tell(&w)).map_err(|error| self.failed(&error, &request))
    }

    /// Renders with the release's stored random values; new ones are not stored.
    fn replay(
        &self,
        options: &Options,
        cluster: &dyn Lookup,
        load: &Load<'_>,
    ) -> Result<Rendered, Explained> {
        let request = self.request(options, Some(cluster));
        request.replay(load, &mut |w| tell(&w)).map(|d| d.rendered).map_err(|e| match e {
            replay::Error::Render { error, .. } => self.failed(&error, &request),
            other @ replay::Error::GeneratedValues(_) => other.to_string().into(),
        })
    }

    /// The error of a failed release. With `--debug` the partial output is printed.
    fn failed(&self, error: &Error, request: &RenderRequest<'_>) -> Explained {
        let explained = self.explain(error);
        if !self.debug || !error.has_release() {
            return explained;
        }
        let files = match error {
            Error::Yaml { .. } => request.files(),
            _ => Ok(Vec::new()),
        };
        let show_only = ShowOnly { patterns: &self.show_only };
        let text = debug_output(&files.unwrap_or_default(), &show_only, self.compiled.profile());
        match print(&text) {
            Ok(()) => explained,
            Err(e) => e.into(),
        }
    }

    fn explain(&self, error: &Error) -> Explained {
        let profile = self.compiled.profile();
        let report = failure::of_render(self.shown, error, self.compiled.chart(), &self.user, profile);
        if let (Error::Dependencies(e), Profile::Helm4) = (error, profile) {
            let text = "chart dependencies processing failed";
            tell(&slog::line("ERROR", text, &[("error", &e.to_string())]));
            return Explained { text: format!("{text}: {e}"), report };
        }
        let hint = if error.has_release() && !self.debug { HINT } else { "" };
        Explained { text: format!("{error}{hint}"), report }
    }

    /// Renders with the cluster's version, kinds and objects, and checks that it serves the rendered kinds.
    fn render_live(job: &Arc<Self>, globals: &Globals, args: &Args) -> Result<Rendered, Explained> {
        let work = async |s: Connected| -> Result<Rendered, Explained> {
            let cluster = s.engine.cluster().clone();
            let live = capabilities(&cluster).await.map_err(|e| e.to_string())?;
            let mut options = job.options.clone();
            if args.capabilities.kube_version.as_deref().is_none_or(str::is_empty) {
                options.capabilities.kube_version = live.kube_version;
            }
            options.capabilities.api_versions =
                live.api_versions.into_iter().chain(args.capabilities.api_versions.iter().cloned()).collect();
            options.release.namespace = s.namespace;
            let lookup = ClusterLookup::new(cluster.clone());
            let own = Arc::clone(job);
            let replays = args.render.replay;
            let (memories, runtime) = (cluster.clone(), tokio::runtime::Handle::current());
            let work = tokio::task::spawn_blocking(move || {
                if !replays {
                    return own.render(&options, Some(&lookup));
                }
                let Release { namespace, name, .. } = &options.release;
                let load = || runtime.block_on(store::load(&memories, namespace, name));
                own.replay(&options, &lookup, &load)
            });
            let rendered = work.await.map_err(|e| format!("the render did not end: {e}"))??;
            for manifest in &rendered.manifests {
                let object =
                    parse_manifest(&manifest.text).map_err(|e| format!("{}: {e}", manifest.source))?;
                let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
                let gvk = Gvk::new(&text("apiVersion"), &text("kind"));
                if !object.is_null() {
                    cluster.resource(&gvk).await.map_err(|e| {
                        format!(
                            "unable to build kubernetes objects from release manifest: {}: {e}",
                            manifest.source
                        )
                    })?;
                }
            }
            Ok(rendered)
        };
        with_engine(globals, async |s| Ok(work(s).await))?
    }
}
