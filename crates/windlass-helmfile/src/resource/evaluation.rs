//! From the spec of a Helmfile to its releases, in the order in which they are deployed.
//!
//! Owns what the fields of the spec mean for the evaluation. Blocks on disk and network; changes no cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chart_compat::profile::Profile;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::api::HelmfileSpec;
use super::confined_host::ConfinedHost;
use super::helmfiles::DefaultBundle;
use super::object_inputs::ObjectInputs;
use crate::addresses::address::Address;
use crate::bundle::bundled_host::BundledHost;
use crate::chart_fetcher::ChartFetcher;
use crate::commands::NeedsRule;
use crate::deploy_order::Scope;
use crate::deploy_plan::{DeployPlan, PlanOptions, PlannedRelease};
use crate::error::HelmfileError;
use crate::local_host::{LocalHost, Permissions, RenderShare};
use crate::release_chart::ReleaseCharts;
use crate::release_options;
use crate::release_spec::{SpecContext, release_spec};
use crate::remote_files::{RemoteFiles, TenantAccess};
use crate::secrets::{LocalSecrets, Secrets};
use crate::sops::Keys;
use helmfile_compat::host::Host;
use helmfile_compat::key;
use helmfile_compat::load::{DEFAULT_ENVIRONMENT, Settings, State};
use helmfile_compat::record::Record;
use helmfile_compat::value::{Map, Value};
use helmfile_compat::visit::{self, Query};
use helmfile_compat::{Error, paths};
use windlass_base::hex::hex;
use windlass_controller::ReleaseSpec;
use windlass_engine::{MovedCrds, ReleaseId, UninstallRequest};
use windlass_fetch::fetch::Fetcher;
use windlass_fetch::helm_paths::Home;
use windlass_fetch::http::{Http, TIMEOUT};
use windlass_fetch::input_store::InputStore;
use windlass_render::{RenderBounds, SystemWorld, from_json};

/// The most releases of one object.
const MAX_RELEASES: usize = 1000;
/// The most releases of all state files, those that no selector chooses included.
const MAX_STATED: usize = 5 * MAX_RELEASES;
/// How long the evaluation of an object may take; what git and servers take is bounded by itself.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// The name of a state file in `spec.state`.
const INLINE_FILE: &str = "helmfile.yaml.gotmpl";

/// What an evaluation needs beside the object.
pub(super) struct EvaluationContext {
    /// Namespace of the object, and of releases that name none.
    pub(super) namespace: String,
    /// Why releases are reconciled.
    pub(super) cause: String,
    /// Mark of the releases.
    pub(super) owner: String,
    /// Labels that tell whose the records are.
    pub(super) labels: BTreeMap<String, String>,
    /// Bounds of renders.
    pub(super) bounds: RenderBounds,
    /// One permit for each render that may run now.
    pub(super) renders: Arc<Semaphore>,
    /// Where charts of this namespace are kept.
    pub(super) cache: PathBuf,
    /// Whether sources may be at addresses of this machine.
    pub(super) allow_local_addresses: bool,
    /// What objects without a source and a state stand for.
    pub(super) bundle: Option<DefaultBundle>,
}

impl EvaluationContext {
    /// The bundle of an object.
    fn bundle_of(&self, spec: &HelmfileSpec) -> Option<&DefaultBundle> {
        self.bundle.as_ref().filter(|_| spec.source.is_empty() && spec.state.is_empty())
    }

    /// A client for what an object names. From a bundle nothing is fetched.
    fn http(&self, spec: &HelmfileSpec) -> Http {
        let http = Http::new(TIMEOUT, self.bundle_of(spec).is_some());
        if self.allow_local_addresses { http } else { http.without_local_addresses() }
    }
}

/// A release of the state files.
pub(super) struct EvaluatedRelease {
    /// Namespace and name.
    pub(super) id: ReleaseId,
    /// Its identity among `needs`.
    pub(super) key: String,
    /// Identities of releases that it needs.
    pub(super) needs: Vec<String>,
    /// Whether its newest record's values are the defaults of the next revision.
    pub(super) reuses_values: bool,
    /// What happens to it.
    pub(super) action: Result<ReleaseAction, Error>,
}

/// The operation on a release.
pub(super) enum ReleaseAction {
    /// Install or upgrade.
    Deploy(Box<ReleaseSpec>),
    /// Uninstall: the state file has `installed: false`.
    Uninstall(Box<UninstallRequest>),
}

/// The releases of an object.
pub(super) struct Evaluation {
    /// In the order of the state files.
    pub(super) releases: Vec<EvaluatedRelease>,
    /// Indexes of releases, each step after all that its releases need.
    pub(super) steps: Vec<Vec<usize>>,
    /// Releases that are in the state files and left alone: their condition does not hold.
    pub(super) ignored: BTreeSet<ReleaseId>,
    /// The commits of the source.
    pub(super) revision: String,
    /// Digest of the source and of charts.
    pub(super) digest: String,
}

/// Evaluates the state files of an object.
///
/// # Errors
/// The source cannot be read, a state file cannot be evaluated, or asks for what the operator does not do. The text has paths within
/// the source.
pub(super) fn evaluate(
    spec: &HelmfileSpec,
    inputs: &ObjectInputs,
    context: &EvaluationContext,
) -> Result<Evaluation, HelmfileError> {
    let home = tempfile::Builder::new().prefix("windlass-helmfile-").tempdir();
    let home = home.map_err(|error| HelmfileError::cause(error).within("no temporary directory"))?;
    let root = context.bundle_of(spec).map_or(home.path(), |bundle| bundle.opened.root());
    // Paths are compared without symbolic links.
    let root = root
        .canonicalize()
        .map_err(|error| HelmfileError::Object(format!("open {}: {error}", root.display())))?;
    // Errors name paths within the source.
    evaluate_in(spec, inputs, context, &root).map_err(|source| HelmfileError::Below {
        directory: format!("{}/", root.display()),
        source: Box::new(source),
    })
}

/// The same, with all files below a directory.
fn evaluate_in(
    spec: &HelmfileSpec,
    inputs: &ObjectInputs,
    context: &EvaluationContext,
    root: &Path,
) -> Result<Evaluation, HelmfileError> {
    let bundle = context.bundle_of(spec);
    let packed = bundle.map(|bundle| Arc::clone(&bundle.opened) as Arc<dyn InputStore>);
    let files = Arc::new(remote_files(spec, inputs, context, root)?.with_inputs(packed.clone()));
    let deadline = RenderBounds { timeout: TIME_LIMIT, ..context.bounds }.deadline();
    let permissions = Permissions { programs: true, addresses: true, hooks: true };
    let world = SystemWorld::until(deadline, None);
    let secrets = LocalSecrets {
        variables: Some(inputs.variables.clone()),
        root: Some(root.to_owned()),
        keys: Keys::Given(inputs.sops_keys.clone()),
    };
    let renders = RenderShare { memory: context.bounds.memory, permits: Some(Arc::clone(&context.renders)) };
    let confined = ConfinedHost {
        local: LocalHost::new(
            Box::new(world),
            Box::new(Arc::clone(&files)),
            Box::new(Secrets::of_tenant(secrets)),
            permissions,
            renders.clone(),
            warn,
        ),
        root: root.to_owned(),
        variables: inputs.variables.clone(),
    };
    let (host, cwd): (Box<dyn Host>, PathBuf) = match bundle {
        Some(bundle) => {
            let host = BundledHost::new(Box::new(confined), Arc::clone(&bundle.opened));
            (Box::new(host), bundle.opened.directory())
        }
        None => (Box::new(confined), root.to_owned()),
    };
    let host = &*host;
    let mut states = visit::states(host, &query(spec, root, bundle)?, &cwd.to_string_lossy())
        .map_err(HelmfileError::State)?;
    let home = Home::below(&context.cache);
    let mut fetcher = Fetcher::of_tenant(home, context.http(spec), inputs.registry.clone());
    fetcher.inputs = packed;
    let store = ChartFetcher {
        fetcher,
        http: context.http(spec),
        budget: Some(files.budget()),
        profile: Profile::Helm4,
        bounds: context.bounds,
        renders,
        documents: None,
        root: Some(root.to_owned()),
        warn,
    };
    let charts = ReleaseCharts { host, store: &store, profile: Profile::Helm4, skip_deps: false };
    let revision = match bundle {
        Some(bundle) => format!("bundle@{}", bundle.digest),
        None => files.revisions().join(","),
    };
    let context = SpecContext {
        charts: &charts,
        set: &[],
        arguments: "",
        files: &[],
        warn,
        default_namespace: &context.namespace,
        owner: &context.owner,
        cause: &context.cause,
        record_labels: &context.labels,
    };
    let (releases, steps) = releases(host, &mut states, &context)?;
    let all = states.iter().flat_map(|state| state.fields.records(key!("releases")));
    let mut ignored: BTreeSet<ReleaseId> =
        all.map(|release| release_options::release_id(release, context.default_namespace)).collect();
    ignored.retain(|id| releases.iter().all(|release| release.id != *id));
    let digest = digest(&revision, &spec.state, &releases);
    Ok(Evaluation { steps, ignored, revision, digest, releases })
}

fn warn(line: &str) {
    tracing::warn!("{line}");
}

/// The address of the source, with its version.
fn source(spec: &HelmfileSpec) -> Result<String, HelmfileError> {
    if spec.version.is_empty() {
        return Ok(spec.source.clone());
    }
    match spec.source.split_once('?') {
        None => Ok(format!("{}?ref={}", spec.source, spec.version)),
        Some((_, query)) if query.split('&').any(|pair| pair.starts_with("ref=")) => {
            Err(HelmfileError::Object(
                "spec.version: spec.source has a ref already: remove one of them".to_owned(),
            ))
        }
        Some(_) => Ok(format!("{}&ref={}", spec.source, spec.version)),
    }
}

fn remote_files(
    spec: &HelmfileSpec,
    inputs: &ObjectInputs,
    context: &EvaluationContext,
    root: &Path,
) -> Result<RemoteFiles, HelmfileError> {
    let origin = match spec.source.as_str() {
        "" => None,
        text => {
            let address = Address::parse(text).map_err(|error| error.within("spec.source"))?;
            Some((address.location.scheme, address.location.host))
        }
    };
    let access = TenantAccess {
        directory: root.to_owned(),
        origin,
        git: inputs.git.clone(),
        allow_local_addresses: context.allow_local_addresses,
    };
    Ok(RemoteFiles::of_tenant(context.http(spec), access))
}

/// The question that the spec asks.
fn query(spec: &HelmfileSpec, root: &Path, bundle: Option<&DefaultBundle>) -> Result<Query, HelmfileError> {
    let file = match (spec.source.is_empty(), spec.state.is_empty()) {
        (true, true) if bundle.is_some() => {
            bundle.map(|bundle| bundle.opened.manifest.file.clone()).unwrap_or_default()
        }
        (false, true) => source(spec)?,
        (true, false) => {
            let path = root.join(INLINE_FILE);
            std::fs::write(&path, &spec.state)
                .map_err(|error| HelmfileError::cause(error).within("spec.state"))?;
            path.to_string_lossy().into_owned()
        }
        (true, true) => {
            return Err(HelmfileError::Object(
                "spec: set source or state; the operator has no bundle (--bundle)".to_owned(),
            ));
        }
        (false, false) => return Err(HelmfileError::Object("spec: set one of source and state".to_owned())),
    };
    if !spec.source.is_empty() && !paths::is_remote(&file) {
        return Err(HelmfileError::Object(format!(
            "spec.source: {file:?} is not an address such as git::https://HOST/REPOSITORY@FILE"
        )));
    }
    let overrides = Value::from_data(&from_json(&Json::Object(spec.values.clone())));
    let overrides = match overrides {
        Value::Map(map) => map,
        _ => Map::new(),
    };
    let environment = match spec.environment.as_str() {
        "" => DEFAULT_ENVIRONMENT,
        environment => environment,
    };
    Ok(Query {
        settings: Settings { environment: environment.to_owned(), ..Settings::default() },
        file,
        values_files: spec.values_files.clone(),
        overrides,
        ..Query::default()
    })
}

/// The releases of all states, and their order.
fn releases(
    host: &dyn Host,
    states: &mut [State],
    context: &SpecContext<'_>,
) -> Result<(Vec<EvaluatedRelease>, Vec<Vec<usize>>), HelmfileError> {
    // What follows compares all releases with each other.
    let count: usize = states.iter().map(|state| state.fields.records(key!("releases")).count()).sum();
    if count > MAX_STATED {
        return Err(HelmfileError::Object(format!(
            "the state files have {count} releases, chosen or not: at most {MAX_STATED}"
        )));
    }
    let mut plan = DeployPlan::default();
    // What hooks there are is an error.
    let options = PlanOptions {
        command: "apply",
        rule: NeedsRule::Include,
        scope: Scope::All,
        prepares_uninstalled: true,
        most: MAX_RELEASES,
        change: &|_| (),
    };
    plan.prepare(host, states, &options)?;
    let mut releases = Vec::with_capacity(plan.releases.len());
    for planned in plan.releases {
        let PlannedRelease { state, release, name, key, needs, installed, reuses_values, .. } = planned;
        let Some(state) = states.get(state) else { continue };
        check(state, &release).map_err(|error| error.within(format!("release {name:?}")))?;
        for line in release_options::ignored_fields(state, &release) {
            host.warn(&line);
        }
        let id = release_options::release_id(&release, context.default_namespace);
        let action = match installed {
            true => deploy(context, state, &release).map(|spec| ReleaseAction::Deploy(Box::new(spec))),
            false => {
                let request = release_options::uninstall(state, &release, id.clone());
                Ok(ReleaseAction::Uninstall(Box::new(request)))
            }
        };
        releases.push(EvaluatedRelease { id, key, needs, reuses_values, action });
    }
    let mut seen = BTreeSet::new();
    if let Some(twice) = releases.iter().find(|one| !seen.insert(one.id.clone())) {
        return Err(HelmfileError::Object(format!("duplicate release {}", twice.id)));
    }
    Ok((releases, plan.steps))
}

fn deploy(context: &SpecContext<'_>, state: &State, release: &Record) -> Result<ReleaseSpec, Error> {
    let mut spec = release_spec(context, state, release, None)?;
    spec.options.revisions.skip_unchanged = true;
    spec.options.ownership.force_conflicts = true;
    spec.options.objects.moved_crds = MovedCrds::Keep;
    Ok(spec)
}

/// Refuses what needs a program, or another cluster.
fn check(state: &State, release: &Record) -> Result<(), HelmfileError> {
    let context = release_options::kube_context(state, release);
    if !context.is_empty() {
        return Err(HelmfileError::Object(format!(
            "kubeContext {context:?}: a Helmfile deploys to the cluster that it is in: remove the field"
        )));
    }
    let defaults = state.fields.record(key!("helmDefaults"));
    let default = defaults.and_then(|defaults| defaults.optional_text(key!("postRenderer")));
    match release.optional_text(key!("postRenderer")).or(default).filter(|program| !program.is_empty()) {
        Some(_) => Err(HelmfileError::Object(
            "postRenderer: the operator runs no programs: use jsonPatches, strategicMergePatches or \
                        transformers"
                .to_owned(),
        )),
        None => Ok(()),
    }
}

/// Digest of what is deployed: the commits or the text of the state files, and the charts of releases. Without values: whoever may read
/// the status could try which secret among them gives it.
fn digest(revision: &str, state: &str, releases: &[EvaluatedRelease]) -> String {
    let one = |release: &EvaluatedRelease| {
        let id = release.id.to_string();
        match &release.action {
            Ok(ReleaseAction::Deploy(spec)) => {
                let chart = spec.chart.chart();
                json!([id, chart.name(), chart.metadata.version])
            }
            Ok(ReleaseAction::Uninstall(_)) => json!([id]),
            Err(_) => json!([id, null]),
        }
    };
    let all: Vec<Json> = releases.iter().map(one).collect();
    format!("sha256:{}", hex(&Sha256::digest(json!([revision, state, all]).to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_a_ref_of_the_source() {
        let of = |source_text: &str, version: &str| {
            source(&HelmfileSpec {
                source: source_text.to_owned(),
                version: version.to_owned(),
                ..HelmfileSpec::default()
            })
        };
        assert_eq!(of("git::https://h/r@f", "").unwrap(), "git::https://h/r@f");
        assert_eq!(of("git::https://h/r@f", "v1").unwrap(), "git::https://h/r@f?ref=v1");
        assert_eq!(of("git::https://h/r@f?depth=1", "v1").unwrap(), "git::https://h/r@f?depth=1&ref=v1");
        assert!(of("git::https://h/r@f?ref=a", "v1").unwrap_err().to_string().contains("spec.version"));
    }

    #[test]
    fn a_source_is_an_address() {
        let root = tempfile::tempdir().unwrap();
        for (source, state, part) in [
            ("", "", "set source or state"),
            ("/etc/helmfile.yaml", "", "is not an address"),
            ("../x", "", "is not an address"),
            ("git::https://h/r@f", "releases: []", "one of source and state"),
        ] {
            let spec = HelmfileSpec {
                source: source.to_owned(),
                state: state.to_owned(),
                ..HelmfileSpec::default()
            };
            let told = query(&spec, root.path(), None).unwrap_err().to_string();
            assert!(told.contains(part), "{told}");
        }
        for source in ["git::https://h/r@f", "git::github.com/o/r@f", "https://h/f.yaml"] {
            let spec = HelmfileSpec { source: source.to_owned(), ..HelmfileSpec::default() };
            assert_eq!(query(&spec, root.path(), None).unwrap().file, source);
        }
    }
}
