//! `windlass init operator`: a repository for an operator whose objects are releases of a chart.
//!
//! Owns the files. The definition, the rights and the checks in them are those of `crd`, `rbac` and the other commands.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use chart_compat::chart::read_archive;
use chart_compat::data::Data;
use chart_compat::render::CompiledChart;
use serde_json::{Value, json};

use super::crd::{KindFlags, warning_lines};
use super::create::{check_name, write};
use super::failure::Explained;
use super::fetch::ChartPath;
use super::flags::{Globals, Values};
use super::output::{Format, structured};
use super::{Failure, chart, print, rbac, rbac_chart, tell, values};
use crate::preflight::{ChartSubject, chart_operator_needs, pull_secret_needs};
use windlass_base::causes::of_the_system;
use windlass_chartresource::{chart_resource_definition, pull_secret_path};
use windlass_charts::{Definition, DefinitionOptions, KindNames, define};
use windlass_fetch::chart_package::{Times, pack, write_directory};
use windlass_render::to_json;

/// The files that are the same for all charts but for names.
const SCAFFOLD: [(&str, &str); 5] = [
    ("README.md", include_str!("scaffold/operator/README.md")),
    ("Containerfile", include_str!("scaffold/operator/Containerfile")),
    ("config/kustomization.yaml", include_str!("scaffold/operator/kustomization.yaml")),
    ("config/operator.yaml", include_str!("scaffold/operator/operator.yaml")),
    ("test.sh", include_str!("scaffold/operator/test.sh")),
];
/// The name of the overlay in the repository.
const OVERLAY: &str = "overlay.yaml";
/// Longest name of a ServiceAccount and a Deployment here, without its suffix: that of a Pod is longer.
const MAX_NAME: usize = 40;

/// Characters of a wrong name that an error has.
const MAX_SHOWN: usize = 100;

/// Repositories that `init` writes.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Write a repository for an operator: each object of its kind is a release of the chart
    Operator(Box<OperatorArgs>),
}

/// Flags of `init operator`.
#[derive(clap::Args)]
pub(super) struct OperatorArgs {
    /// The chart
    chart: String,
    /// The new directory
    directory: PathBuf,
    #[command(flatten)]
    of: KindFlags,
    /// Name of the sample
    #[arg(long, default_value = "example")]
    sample: String,
    /// Values of the sample; by default what the kind requires
    #[command(flatten)]
    values: Values,
    #[command(flatten)]
    path: ChartPath,
}

/// The names in the files.
struct Names<'n> {
    chart: &'n str,
    kind: &'n KindNames,
    sample: &'n str,
    /// Operator, ServiceAccount and image.
    operator: String,
    namespace: String,
    /// Flags of `crd`.
    crd_flags: String,
    /// Flags of `rbac`.
    rbac_flags: String,
    /// Whether objects of the kind may name a pull secret.
    pull_secrets: bool,
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Explained> {
    let Command::Operator(args) = command;
    check(args)?;
    let compiled = chart::load(&args.chart, globals, &args.path)?;
    let name = compiled.chart().name();
    // It becomes part of paths, commands and documents.
    let shown: String = name.chars().take(MAX_SHOWN).collect();
    check_name(name).map_err(|rule| format!("{}: Chart.yaml: name {shown:?}: {rule}", args.chart))?;
    let options = args.of.options(name)?;
    let user = values::merge(globals, &args.values, globals.profile())?;
    let made = define(compiled.chart(), &options).map_err(|e| e.to_string())?;
    warning_lines(&made.warnings).iter().for_each(|line| tell(line));
    let mut names = Names::of(name, &options, args, globals);
    let target = &args.directory;
    let overlay = args.of.overlay.as_deref().map(|path| copy_overlay(path, target)).transpose()?;
    let schema = overlay.as_ref().and_then(Value::as_object);
    if schema.and_then(|schema| pull_secret_path(None, schema)).is_some() {
        names.pull_secrets = true;
        names.rbac_flags.push_str(" --pull-secrets");
    }
    let files =
        read_archive(&pack(compiled.chart(), &Times::none()).map_err(|e| e.to_string())?, globals.profile())
            .map_err(|e| e.to_string())?;
    write_directory(&files, &target.join("charts").join(name)).map_err(|e| e.to_string())?;
    for (path, text) in SCAFFOLD {
        write(target, path, names.fill(text).as_bytes())?;
    }
    executable(&target.join("test.sh"))?;
    let spec = if args.values.any() { Some(to_json(&Data::Map(user.values))) } else { None };
    let rights = rights(globals, &compiled, &names)?;
    write(target, "config/rbac.yaml", rights.as_bytes())?;
    for (path, object) in [
        ("config/crd.yaml", made.crd.clone()),
        ("config/chartresource.yaml", names.chart_resource(overlay)),
        ("config/chartresources-crd.yaml", chart_resource_definition::crd()),
        (&format!("samples/{}.yaml", args.sample), names.sample(&made, spec)),
        ("watches.yaml", names.watches()),
    ] {
        write(target, path, structured(&object, Format::Yaml)?.as_bytes())?;
    }
    Ok(print(format!("{}: run ./test.sh in it\n", target.display()).as_bytes())?)
}

fn check(args: &OperatorArgs) -> Result<(), Failure> {
    if args.directory.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("{}: the directory is not empty; name a new one", args.directory.display()));
    }
    if !windlass_controller::is_dns_label(&args.sample) {
        return Err(format!(
            "--sample {:?}: it is not a name of an object: lower-case letters, digits and -",
            args.sample
        ));
    }
    Ok(())
}

/// The overlay, of which a copy is in the repository.
fn copy_overlay(path: &Path, target: &Path) -> Result<Value, Failure> {
    let text = windlass_base::bounded_read::read_text(path, windlass_base::bounded_read::MAX_TEXT)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    write(target, OVERLAY, text.as_bytes())?;
    windlass_render::parse_manifest(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn executable(path: &Path) -> Result<(), Failure> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
        .map_err(|e| format!("{}: {}", path.display(), of_the_system(&e)))
}

/// What `windlass rbac` prints for the operator.
fn rights(globals: &Globals, compiled: &CompiledChart, names: &Names<'_>) -> Result<String, Failure> {
    let needs = rbac_chart::of_subject(&ChartSubject {
        chart: compiled,
        values: &chart_compat::data::Map::new(),
        release: rbac_chart::RELEASE_NAME,
        namespace: &names.namespace,
        cluster: None,
        bounds: globals.render_bounds(),
    })?;
    let needs = needs.and(chart_operator_needs(names.kind, &names.namespace));
    let needs = if names.pull_secrets { needs.and(pull_secret_needs(&names.namespace)) } else { needs };
    rbac::manifests(
        &needs,
        &rbac_chart::role(&names.operator, names.chart),
        &names.operator,
        &names.namespace,
    )
}

impl<'n> Names<'n> {
    fn of(chart: &'n str, options: &'n DefinitionOptions, args: &'n OperatorArgs, globals: &Globals) -> Self {
        let kind = &options.names;
        let short: String = kind.singular.chars().take(MAX_NAME).collect();
        let operator = format!("{short}-operator");
        let namespace = globals.namespace.clone().unwrap_or_else(|| operator.clone());
        let own = format!("--group {} --kind {} --plural {}", kind.group, kind.kind, kind.plural);
        let overlay = args.of.overlay.as_ref().map_or_else(String::new, |_| format!(" --overlay {OVERLAY}"));
        let crd_flags = format!("{own} --api-version {}{overlay}", kind.version);
        let rbac_flags = format!("{own} --namespace {namespace} --service-account {operator}");
        Self {
            chart,
            kind,
            sample: &args.sample,
            operator,
            namespace,
            crd_flags,
            rbac_flags,
            pull_secrets: false,
        }
    }

    fn fill(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (placeholder, value) in [
            ("<NAME>", self.chart),
            ("<KIND>", &self.kind.kind),
            ("<GROUP>", &self.kind.group),
            ("<PLURAL>", &self.kind.plural),
            ("<SAMPLE>", self.sample),
            ("<OPERATOR>", &self.operator),
            ("<NAMESPACE>", &self.namespace),
            ("<FLAGS>", &self.crd_flags),
            ("<RBAC_FLAGS>", &self.rbac_flags),
        ] {
            out = out.replace(placeholder, value);
        }
        out
    }

    fn chart_resource(&self, overlay: Option<Value>) -> Value {
        let kind = self.kind;
        let mut object = json!({
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "ChartResource",
            "metadata": {"name": kind.crd()},
            "spec": {
                "chart": {"name": self.chart},
                "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind, "plural": kind.plural},
            },
        });
        if let Some(overlay) = overlay {
            object["spec"]["schema"] = json!({"overlay": overlay});
        }
        object
    }

    fn sample(&self, made: &Definition, spec: Option<Value>) -> Value {
        let mut object = made.example.clone();
        object["metadata"]["name"] = json!(self.sample);
        if let Some(spec) = spec {
            object["spec"] = spec;
        }
        object
    }

    fn watches(&self) -> Value {
        let kind = self.kind;
        let chart = format!("charts/{}", self.chart);
        json!([{"group": kind.group, "version": kind.version, "kind": kind.kind, "chart": chart}])
    }
}
