//! HelmChart: one chart of a HelmRepository, a GitRepository or a Bucket, as a package.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use chart_compat::chart::Chart;
use chart_compat::profile::Profile;
use serde_json::{Map, Value, json};

use super::artifact_store::SourceName;
use super::chart_build::{self, ValuesRoot, inside, package, package_failed, set_values, with_metadata};
use super::chart_dependencies;
use super::fetch_bounds::{FetchEnd, FileBounds};
use super::fetch_context::FetchContext;
use super::index_fetch;
use super::registry_login::{self, RegistryAccess};
use super::signature_policy::verify_artifact;
use super::source_archive::unpack_within;
use super::source_object::source_ref;
use super::source_secrets;
use super::source_status::{BUILD_FAILED, Fetched, SOURCE_VERIFIED, SourceError, SourceStatus};
use flux_api::common::{NO_SOURCE_ARTIFACT, SourceArtifact, failure_of};
use flux_api::helm_chart::HelmChartSpec;
use flux_api::helm_repository::HelmRepositorySpec;
use windlass_base::bounded_read;
use windlass_fetch::fetch::{Fetcher, Options};
use windlass_fetch::helm_paths::Home;
use windlass_fetch::index;
use windlass_fetch::index::entry::{ChartVersion, Choice, choose};
use windlass_fetch::oci::Registry;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::credentials::Credentials as RegistryCredentials;

/// A chart that was found, and what is to be made of it.
struct Build {
    name: String,
    /// With the metadata of the build.
    version: String,
    /// The package, unless the one in the store will do.
    package: Option<Vec<u8>>,
    values_files: Vec<String>,
    /// Whether the package differs from what the source has.
    packaged: bool,
    verified: Option<String>,
}

fn pull_failed(text: &str) -> SourceError {
    SourceError::fetch("ChartPullError", format!("chart pull error: {text}"))
}

fn bad_reference(text: &str) -> SourceError {
    SourceError::fetch("InvalidChartReference", format!("invalid chart reference: {text}")).stalling()
}

/// Makes the package unless it is there.
pub(super) async fn fetch(
    context: &mut FetchContext<'_>,
    spec: &HelmChartSpec,
    status: &SourceStatus,
) -> Result<Fetched, SourceError> {
    let kind = spec.source_ref.kind.as_str();
    let source = source_ref(kind, context.pass.reference.namespace.as_deref(), &spec.source_ref.name);
    let found = context.pass.related.get(&source).cloned();
    let missing = || {
        let text = format!("failed to get source: {kind} '{}' not found", spec.source_ref.name);
        SourceError::fetch("SourceUnavailable", text)
    };
    let source = found.ok_or_else(missing)?;
    let artifact: Option<SourceArtifact> = serde_json::from_value(source["status"]["artifact"].clone()).ok();
    let no_artifact = || {
        let why = failure_of(&source).map(|why| format!(": {why}")).unwrap_or_default();
        let text = format!("no artifact available for {kind} source '{}'{why}", spec.source_ref.name);
        SourceError { waits: why.is_empty(), ..SourceError::fetch(NO_SOURCE_ARTIFACT, text) }
    };
    let mut observed = Map::new();
    if let Some(artifact) = &artifact {
        observed.insert("observedSourceArtifactRevision".to_owned(), json!(artifact.revision));
    }
    let build = match kind {
        "HelmRepository" => {
            let repository: HelmRepositorySpec =
                serde_json::from_value(source["spec"].clone()).map_err(|e| bad_reference(&e.to_string()))?;
            if index_fetch::is_registry(&repository) {
                of_registry(context, spec, &repository, status).await?
            } else {
                let index =
                    local_file(context, spec, &artifact.ok_or_else(no_artifact)?).ok_or_else(no_artifact)?;
                of_index(context, spec, &repository, &index, status).await?
            }
        }
        "GitRepository" | "Bucket" => {
            let artifact = artifact.ok_or_else(no_artifact)?;
            let archive = local_file(context, spec, &artifact).ok_or_else(no_artifact)?;
            of_tree(context, spec, &artifact.revision, archive, status).await?
        }
        other => {
            let text = format!("failed to get source: unsupported source kind '{other}'");
            return Err(SourceError::fetch("UnsupportedSourceKind", text).stalling());
        }
    };
    finish(context, spec, status, build, observed).await
}

/// The file of the artifact of the chart's source.
fn local_file(
    context: &FetchContext<'_>,
    spec: &HelmChartSpec,
    artifact: &SourceArtifact,
) -> Option<PathBuf> {
    let (kind, name) = (spec.source_ref.kind.as_str(), spec.source_ref.name.as_str());
    let source = SourceName { kind, namespace: &context.namespace(), name };
    context.store.file_of(&source, artifact).filter(|file| file.is_file())
}

/// Stores the package of a build.
async fn finish(
    context: &FetchContext<'_>,
    spec: &HelmChartSpec,
    status: &SourceStatus,
    build: Build,
    mut observed: Map<String, Value>,
) -> Result<Fetched, SourceError> {
    let Build { name, version, package, values_files, packaged, verified } = build;
    let mut message =
        format!("{} '{name}' chart with version '{version}'", if packaged { "packaged" } else { "pulled" });
    if !values_files.is_empty() {
        message = format!("{message} and merged values files [{}]", values_files.join(" "));
    }
    let artifact = match (package, &status.artifact) {
        (None, Some(known)) => known.clone(),
        (package, _) => {
            let package = package.unwrap_or_default();
            let (file, version) = (format!("{name}-{version}.tgz"), version.clone());
            context
                .blocking(move |store, source, _| {
                    let saved = store.save(source, &file, &version, |out| out.write_all(&package));
                    saved.map_err(|e| SourceError::storage("ArchiveOperationFailed", &e))
                })
                .await?
        }
    };
    observed.insert("observedChartName".to_owned(), json!(name));
    let kept = if spec.ignore_missing_values_files { json!(values_files) } else { Value::Null };
    observed.insert("observedValuesFiles".to_owned(), kept);
    Ok(Fetched {
        artifact,
        reason: if packaged { "ChartPackageSucceeded" } else { "ChartPullSucceeded" },
        note: message.clone(),
        message,
        observed,
        verified,
        latest: Some("latest.tar.gz"),
    })
}

/// Whether the package in the store is the one of a name and version. A new generation may have other values.
fn is_known(context: &FetchContext<'_>, status: &SourceStatus, name: &str, version: &str) -> bool {
    status.observed_generation == Some(context.generation)
        && status.artifact.as_ref().is_some_and(|known| known.revision == version)
        && status.observed.get("observedChartName").and_then(Value::as_str) == Some(name)
}

/// The files of values of the package in the store.
fn known_values_files(spec: &HelmChartSpec, status: &SourceStatus) -> Vec<String> {
    let observed = status.observed.get("observedValuesFiles");
    let observed = observed.and_then(|files| serde_json::from_value(files.clone()).ok());
    observed.unwrap_or_else(|| chart_build::values_files(&spec.values_files).to_vec())
}

/// A chart of an HTTP repository.
async fn of_index(
    context: &mut FetchContext<'_>,
    spec: &HelmChartSpec,
    repository: &HelmRepositorySpec,
    index: &Path,
    status: &SourceStatus,
) -> Result<Build, SourceError> {
    if spec.verify.is_some() {
        let text = "spec.verify needs a HelmRepository of the type oci";
        return Err(SourceError::new(SOURCE_VERIFIED, "VerificationError", text).stalling());
    }
    let access = index_fetch::access(context, repository).await?;
    let (index, name) = (index.to_owned(), spec.chart.clone());
    let versions = context
        .blocking(move |_, _, _| {
            let found = index::find(&index, &[name.as_str()], &mut |_| {});
            let mut found = found.map_err(|e| pull_failed(&format!("failed to load index: {e}")))?;
            Ok(found.remove(&name).unwrap_or_default())
        })
        .await?;
    let version = pick(&versions, spec)?;
    let wanted = requested_version(context, spec, &version.metadata.version)?;
    if is_known(context, status, &version.metadata.name, &wanted) {
        return Ok(known(spec, status, &version.metadata.name, wanted, None));
    }
    let http = context.http(repository.timeout.as_ref(), None).await?;
    let scratch = context.scratch()?;
    // Without a cache of its own nobody gets a package by the digest of another tenant's.
    let fetcher = Fetcher::of_tenant(Home::below(scratch.path()), http, RegistryCredentials::none());
    let fetched = fetcher.fetch_version(&access, version, &Options::default(), &mut |_| {}).await;
    let fetched = fetched.map_err(|e| {
        fetch_error(e.is_access_denied(), &format!("failed to download chart for remote reference: {e}"))
    })?;
    let name = version.metadata.name.clone();
    package_of(context, spec, (&name, &wanted), fetched.bytes, None).await
}

/// A failure of a chart server. `denied`: it refuses the credentials, which has a reason of its own.
fn fetch_error(denied: bool, text: &str) -> SourceError {
    if denied {
        let text = format!("failed to authenticate with the Helm repository: chart pull error: {text}");
        return SourceError::fetch("AuthenticationFailed", text);
    }
    pull_failed(text)
}

/// The version that the spec asks for: the exact text, or else the highest in the range.
fn pick<'v>(versions: &'v [ChartVersion], spec: &HelmChartSpec) -> Result<&'v ChartVersion, SourceError> {
    let failed =
        |why: &str| bad_reference(&format!("failed to get chart version for remote reference: {why}"));
    if versions.is_empty() {
        return Err(failed("no chart name found"));
    }
    let names = versions.iter().map(|version| version.metadata.version.as_str());
    let none = || format!("no '{}' chart with version matching '{}' found", spec.chart, spec.version);
    match choose(names, &spec.version).map_err(|e| failed(&e.0))? {
        Choice::Found(found) | Choice::Near(found) => {
            versions.iter().find(|version| version.metadata.version == found).ok_or_else(|| failed(&none()))
        }
        Choice::None => Err(failed(&none())),
    }
}

/// The version of the package: with the generation as metadata if it has other values.
fn requested_version(
    context: &FetchContext<'_>,
    spec: &HelmChartSpec,
    version: &str,
) -> Result<String, SourceError> {
    if chart_build::values_files(&spec.values_files).is_empty() {
        return Ok(version.to_owned());
    }
    with_metadata(version, &context.generation.to_string())
}

/// The package in the store.
fn known(
    spec: &HelmChartSpec,
    status: &SourceStatus,
    name: &str,
    version: String,
    verified: Option<String>,
) -> Build {
    let values_files = known_values_files(spec, status);
    let packaged = spec.source_ref.kind != "HelmRepository" || !values_files.is_empty();
    Build { name: name.to_owned(), version, package: None, values_files, packaged, verified }
}

/// A chart of a registry.
async fn of_registry(
    context: &mut FetchContext<'_>,
    spec: &HelmChartSpec,
    repository: &HelmRepositorySpec,
    status: &SourceStatus,
) -> Result<Build, SourceError> {
    let invalid = |text: String| {
        SourceError::fetch("URLInvalid", format!("invalid Helm repository URL: {text}")).stalling()
    };
    let bare = repository.url.strip_prefix("oci://");
    let bare = bare.ok_or_else(|| invalid(format!("invalid OCI registry URL: {}", repository.url)))?;
    let reference = OciReference::parse(&format!("{}/{}", bare.trim_end_matches('/'), spec.chart))
        .map_err(|e| invalid(e.to_string()))?;
    let access = RegistryAccess {
        provider: &repository.provider,
        secret: repository.secret_ref.as_ref(),
        account: "",
        insecure: repository.insecure,
    };
    let login = registry_login::login(context, &access, &reference).await?;
    let certificates =
        source_secrets::read_optional(context.pass, repository.cert_secret_ref.as_ref()).await?;
    let tls = certificates.map(|secret| secret.tls(false)).transpose()?.unwrap_or_default();
    let http = context.http(repository.timeout.as_ref(), None).await?;
    let registry = Registry::new(&http, tls, repository.insecure, login.login, login.credentials);
    let version = version_in_registry(&registry, &reference, spec).await?;
    let wanted = requested_version(context, spec, &version)?;
    let tagged = reference.tagged(&version);
    let verified = verify(context, spec, (&registry, &tagged), &wanted).await?;
    let name = reference.name().to_owned();
    if is_known(context, status, &name, &wanted) {
        return Ok(known(spec, status, &name, wanted, verified));
    }
    let pulled = registry.pull(&tagged, false, &mut |_| None).await;
    let pulled = pulled.map_err(|e| {
        fetch_error(e.is_access_denied(), &format!("failed to download chart for remote reference: {e}"))
    })?;
    package_of(context, spec, (&name, &wanted), pulled.chart, verified).await
}

/// The version that the spec asks for. An exact one is not looked for among the tags.
async fn version_in_registry(
    registry: &Registry<'_>,
    reference: &OciReference,
    spec: &HelmChartSpec,
) -> Result<String, SourceError> {
    if chart_compat::go::semver::parse(&spec.version).is_ok() {
        return Ok(spec.version.clone());
    }
    let failed = |denied: bool, why: String| {
        fetch_error(denied, &format!("failed to get chart version for remote reference: {why}"))
    };
    let all = registry
        .versions(reference)
        .await
        .map_err(|e| failed(e.is_access_denied(), format!("could not get tags for {:?}: {e}", spec.chart)))?;
    match choose(all.iter().map(String::as_str), &spec.version).map_err(|e| failed(false, e.0))? {
        Choice::Found(version) | Choice::Near(version) => Ok(version.to_owned()),
        Choice::None => Err(failed(
            false,
            format!("could not locate a version matching provided version string {}", spec.version),
        )),
    }
}

/// Verifies the signature of a chart in a registry, each time.
async fn verify(
    context: &mut FetchContext<'_>,
    spec: &HelmChartSpec,
    (registry, reference): (&Registry<'_>, &OciReference),
    version: &str,
) -> Result<Option<String>, SourceError> {
    let Some(verification) = &spec.verify else { return Ok(None) };
    let failed = |text: String| {
        let text = format!("chart verification error: {text}");
        SourceError::new(SOURCE_VERIFIED, "VerificationError", text)
    };
    let (own, identities) = (&verification.provider, &verification.match_oidc_identity);
    let keys = (verification.secret_ref.as_ref(), None);
    verify_artifact(context, own, keys, identities, (registry, reference), failed).await?;
    Ok(Some(format!("verified signature of version {version}")))
}

/// The package of a fetched chart: as it is, or with other values.
async fn package_of(
    context: &FetchContext<'_>,
    spec: &HelmChartSpec,
    (name, version): (&str, &str),
    bytes: Bytes,
    verified: Option<String>,
) -> Result<Build, SourceError> {
    let (name, version, files) = (name.to_owned(), version.to_owned(), spec.values_files.clone());
    let ignore_missing = spec.ignore_missing_values_files;
    context
        .blocking(move |_, _, _| {
            let shown = PathBuf::from(format!("{name}-{version}.tgz"));
            let loaded = windlass_fetch::load_package(&bytes, &shown, Profile::Helm4);
            let mut chart = loaded.map_err(|e| pull_failed(&format!("failed to load chart: {e}")))?.chart;
            let files = chart_build::values_files(&files);
            if files.is_empty() {
                let package = Some(bytes.to_vec());
                return Ok(Build {
                    name,
                    version,
                    package,
                    values_files: Vec::new(),
                    packaged: false,
                    verified,
                });
            }
            chart.metadata.version.clone_from(&version);
            let values_files = set_values(&mut chart, files, ignore_missing, &ValuesRoot::Chart)?;
            Ok(Build {
                name,
                version,
                package: Some(package(&chart)?),
                values_files,
                packaged: true,
                verified,
            })
        })
        .await
}

/// The build metadata of a revision of a GitRepository or Bucket: the first twelve digits of its digest.
fn short_revision(revision: &str) -> String {
    let digest = revision.rsplit_once(':').map_or(revision, |(_, hex)| hex);
    digest.chars().take(12).collect()
}

/// Unpacks the files of a source, and reads the chart at a path of them. Returns its directory, too.
fn unpacked_chart(
    archive: &Path,
    target: &Path,
    chart_path: &str,
    end: &FetchEnd,
) -> Result<(PathBuf, Chart), SourceError> {
    let file = std::fs::File::open(archive).map_err(|e| {
        SourceError::fetch("ReadOperationFailed", format!("failed to open source artifact: {e}"))
    })?;
    let packed = file.metadata().map_or(0, |metadata| metadata.len());
    unpack_within(file, packed, target, &mut FileBounds::new(end))
        .map_err(|e| SourceError::fetch("Failed", format!("artifact untar error: {e}")))?;
    let path = inside(target, chart_path)
        .ok_or_else(|| bad_reference(&format!("path '{chart_path}' leads out of the source")))?;
    let shown = |text: String| text.replace(&target.display().to_string(), "");
    if !path.exists() {
        return Err(bad_reference(&format!("no chart found at path '{chart_path}'")));
    }
    let loaded = windlass_fetch::load(&path, Profile::Helm4)
        .map_err(|e| bad_reference(&shown(format!("failed to load chart '{chart_path}': {e}"))))?;
    Ok((path, loaded.chart))
}

/// A chart in the files of a GitRepository or Bucket.
async fn of_tree(
    context: &mut FetchContext<'_>,
    spec: &HelmChartSpec,
    revision: &str,
    archive: PathBuf,
    status: &SourceStatus,
) -> Result<Build, SourceError> {
    let scratch = context.scratch()?;
    let (of_task, chart_path) = (Arc::clone(&scratch), spec.chart.clone());
    let (directory, chart) =
        context.blocking(move |_, _, end| unpacked_chart(&archive, of_task.path(), &chart_path, end)).await?;
    let files = chart_build::values_files(&spec.values_files);
    let mut metadata = Vec::new();
    if spec.reconcile_strategy == "Revision" {
        metadata.push(short_revision(revision));
    }
    if !files.is_empty() {
        metadata.push(context.generation.to_string());
    }
    let name = chart.name().to_owned();
    let version = match metadata.is_empty() {
        true => chart.metadata.version.clone(),
        false => with_metadata(&chart.metadata.version, &metadata.join("."))?,
    };
    if is_known(context, status, &name, &version) {
        return Ok(known(spec, status, &name, version, None));
    }
    if !directory.is_dir() && metadata.is_empty() {
        let package = bounded_read::read_file(&directory, chart_compat::chart::MAX_CHART_BYTES)
            .map_err(|e| package_failed(&e.to_string()))?;
        let values_files = Vec::new();
        return Ok(Build {
            name,
            version,
            package: Some(package),
            values_files,
            packaged: false,
            verified: None,
        });
    }
    let chart = if directory.is_dir() && has_missing_dependencies(&chart) {
        chart_dependencies::fetch(context, scratch.path(), &directory, &chart).await?
    } else {
        chart
    };
    let (mut chart, files) = (chart, files.to_vec());
    let ignore_missing = spec.ignore_missing_values_files;
    context
        .blocking(move |_, _, _| {
            chart.metadata.version.clone_from(&version);
            let values_files = match files.as_slice() {
                [] => Vec::new(),
                files => {
                    set_values(&mut chart, files, ignore_missing, &ValuesRoot::Directory(scratch.path()))?
                }
            };
            let package = Some(package(&chart)?);
            Ok(Build { name, version, package, values_files, packaged: true, verified: None })
        })
        .await
}

/// Whether a dependency that the chart declares is not in its `charts/`.
fn has_missing_dependencies(chart: &Chart) -> bool {
    let declared = chart.metadata.dependencies.iter().flatten();
    declared.into_iter().any(|d| !chart.dependencies.iter().any(|sub| sub.name() == d.name))
}

/// A dependency cannot be fetched.
pub(super) fn dependency_failed(text: &str) -> SourceError {
    SourceError::new(BUILD_FAILED, "DependencyBuildError", format!("dependency build error: {text}"))
}
