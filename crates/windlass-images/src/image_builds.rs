//! The front end of ImageBuilds: what is looked for at each interval, and when an image is built.
//!
//! Owns the order of the steps: check, logins, look, build. A look asks for metadata, a checksum and two digests; nothing else is downloaded
//! while these are the same. How an image is made is `windlass-fetch`'s, as of the command `build-image`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;
use windlass_cluster::{Gvk, ObjectMeta, api_now};
use windlass_controller::{
    AccountName, EventNote, EventType, FrontEnd, Phase, ReadyState, ReconcileError, ReconcilePass,
    Reconciled, ReleaseTarget, Report, Requeue, jittered, set_conditions,
};
use windlass_engine::Disposition;
use windlass_fetch::http::Http;
use windlass_fetch::maven::{MavenFile, MavenRepository, MetadataCache, OwnedCache};
use windlass_fetch::maven_image::{MavenImage, MavenImageError};
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::{AppendError, AppendedImage, OciError, Registry};

use super::build_places::BuildPlaces;
use super::build_request::{BuildLogins, BuildRequest, LoginReader, RegistryAccess};
use super::image_build_api::{BuiltOf, ImageBuildSpec, ImageBuildStatus};
use super::image_build_definition::KIND;

/// Name of the front end.
const NAME: &str = "imagebuilds";
/// How often is looked, unless the object says otherwise.
const INTERVAL: Duration = Duration::from_secs(600);
/// The shortest and the longest interval.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(365 * 86_400));
/// How long a request of a look may take, and one of a build.
const LOOK_REQUEST: Duration = Duration::from_secs(30);
const BUILD_REQUEST: Duration = Duration::from_secs(600);
/// How long a look may take, and a build.
const LOOK_LIMIT: Duration = Duration::from_secs(120);
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// The first delay after a build that failed, and how often it is doubled: builds cost their downloads.
const BUILD_DELAY: Duration = Duration::from_secs(60);
const DOUBLED: u32 = 6;
/// The largest file, and the largest layer of a base, in bytes.
const MAX_FILE: u64 = 1 << 30;
const MAX_BASE_LAYER: u64 = 2 << 30;
/// How much metadata is kept, in bytes.
const MAX_CACHE: usize = 32 << 20;

/// Options of all ImageBuilds of a process.
#[derive(Clone, Debug, Default)]
pub struct ImageBuildOptions {
    /// The ServiceAccount of objects that name none.
    pub default_service_account: Option<AccountName>,
    /// Whether servers may be at addresses of this machine and of its cloud's metadata service.
    pub allow_local_addresses: bool,
    /// Registries, with their ports, that are asked without TLS.
    pub plain_registries: BTreeSet<String>,
}

/// The front end.
pub struct ImageBuilds {
    options: ImageBuildOptions,
    http: Http,
    places: BuildPlaces,
    cache: MetadataCache,
}

/// An ImageBuild as it is read.
pub struct ImageBuildObject {
    namespace: String,
    name: String,
    generation: i64,
    spec: Result<ImageBuildSpec, String>,
}

impl ImageBuildObject {
    fn spec(&self) -> Result<&ImageBuildSpec, ReconcileError> {
        self.spec.as_ref().map_err(|error| ReconcileError::Config(format!("spec: {error}")))
    }

    /// The status with its conditions.
    fn status_with(&self, before: &Value, mut status: ImageBuildStatus, state: ReadyState) -> Value {
        status.observed_generation = self.generation;
        let mut status = serde_json::to_value(status).unwrap_or_default();
        let (now, before) = (api_now(), &before["conditions"]);
        status["conditions"] = set_conditions(before, &state.conditions(), Some(self.generation), &now);
        status
    }
}

fn interval_of(spec: &ImageBuildSpec) -> Duration {
    spec.interval.as_ref().map_or(INTERVAL, |own| own.get()).clamp(INTERVALS.0, INTERVALS.1)
}

fn read_status(status: &Value) -> ImageBuildStatus {
    ImageBuildStatus::deserialize(status).unwrap_or_default()
}

/// An object whose image is that of what there is.
fn built(status: &ImageBuildStatus) -> ReadyState {
    let version = status.built.as_ref().map(|built| built.version.as_str()).unwrap_or_default();
    ReadyState::ready("Built", format!("{} has version {version}", status.image))
}

fn unavailable(reason: &'static str, error: impl std::fmt::Display) -> ReconcileError {
    ReconcileError::Reason { reason, text: error.to_string(), disposition: Disposition::Retry }
}

fn too_slow(reason: &'static str, limit: Duration) -> ReconcileError {
    unavailable(reason, format!("not done within {}s", limit.as_secs()))
}

fn note(event_type: EventType, reason: &'static str, note: String) -> EventNote {
    EventNote { event_type, reason, action: "Build", note, annotations: BTreeMap::new() }
}

/// Why an image is not built.
fn build_error(error: &MavenImageError) -> ReconcileError {
    // Another base, or another spec, may do.
    let stalls = matches!(error, MavenImageError::Append(AppendError::NotAnImage { .. }));
    let disposition = if stalls { Disposition::Stall } else { Disposition::Retry };
    ReconcileError::Reason { reason: "BuildFailed", text: error.to_string(), disposition }
}

/// What a look finds.
struct Found {
    file: MavenFile,
    inputs: BuiltOf,
    /// Whether the image of the status is the one that the registry has, of these inputs.
    is_built: bool,
}

/// One object's servers, with its logins.
struct Servers<'s> {
    http: Http,
    request: &'s BuildRequest,
    logins: &'s BuildLogins,
    plain: &'s BTreeSet<String>,
    cache: OwnedCache<'s>,
}

impl Servers<'_> {
    fn repository(&self) -> MavenRepository<'_> {
        MavenRepository {
            http: &self.http,
            url: self.request.repository.clone(),
            credentials: self.logins.maven.clone(),
            tls: &self.logins.maven_tls,
            cache: Some(self.cache),
        }
    }

    fn registry(&self, image: &OciReference, access: &RegistryAccess) -> Registry<'_> {
        let plain = self.plain.contains(&image.registry);
        Registry::new(&self.http, access.tls.clone(), plain, None, access.credentials.clone())
    }

    /// What there is now.
    async fn look(&self, status: &ImageBuildStatus) -> Result<Found, ReconcileError> {
        let BuildRequest { artifact, version, base, target, .. } = self.request;
        let file = self.repository().find(artifact, version).await;
        let file = file.map_err(|error| unavailable("ArtifactUnavailable", error))?;
        let before = status.built.as_ref().map(|built| built.base_digest.as_str());
        let before = before.filter(|digest| !digest.is_empty());
        let base_digest = self.registry(base, &self.logins.pull).image_digest(base, before).await;
        let base_digest = base_digest
            .map_err(|error| unavailable("BaseUnavailable", format!("base image {base}: {error}")))?;
        let inputs = self.request.inputs(&file, &base_digest);
        let digest = status.image.strip_prefix(&format!("{target}@")).filter(|digest| !digest.is_empty());
        let is_built = match digest {
            Some(digest) if status.built.as_ref() == Some(&inputs) => {
                match self.registry(target, &self.logins.push).image_digest(target, Some(digest)).await {
                    Ok(live) => live == digest,
                    Err(OciError::NotFound(_)) => false,
                    Err(error) => {
                        return Err(unavailable("ImageUnavailable", format!("image {target}: {error}")));
                    }
                }
            }
            _ => false,
        };
        Ok(Found { file, inputs, is_built })
    }

    async fn build(&self, file: &MavenFile) -> Result<AppendedImage, MavenImageError> {
        let BuildRequest { artifact, base, target, path, .. } = self.request;
        let repository = self.repository();
        let image = MavenImage {
            repository: &repository,
            artifact,
            file,
            path,
            max_bytes: MAX_FILE,
            max_base_layer: MAX_BASE_LAYER,
        };
        let (pull, push) = (&self.logins.pull, &self.logins.push);
        image.push((&self.registry(base, pull), base), (&self.registry(target, push), target)).await
    }
}

impl ImageBuilds {
    /// The front end.
    #[must_use]
    pub fn new(options: ImageBuildOptions) -> Self {
        let http = Http::new(LOOK_REQUEST, false);
        let http = if options.allow_local_addresses { http } else { http.without_local_addresses() };
        Self { options, http, places: BuildPlaces::new(), cache: MetadataCache::new(MAX_CACHE) }
    }

    /// Builds an image, and writes the status of what came of it.
    async fn build(
        &self,
        pass: &mut ReconcilePass,
        object: &ImageBuildObject,
        servers: Servers<'_>,
        found: Found,
    ) -> Result<Reconciled, ReconcileError> {
        let before = read_status(&pass.object["status"]);
        let message = format!("version {} is being built", found.inputs.version);
        let state = ReadyState { ready: None, reason: "Building", message, phase: Phase::Reconciling };
        let status = object.status_with(&pass.object["status"], before.clone(), state);
        pass.replace_status(&status).await?;
        let servers = Servers { http: self.http.clone().with_timeout(BUILD_REQUEST), ..servers };
        let work = async {
            let _place = self.places.acquire(&object.namespace).await;
            tokio::time::timeout(BUILD_LIMIT, servers.build(&found.file)).await
        };
        // The object has changed: what it asks for now is the next pass' business.
        let Some(done) = pass.outside(work).await else {
            return Ok(Reconciled::new(false, Requeue::Backoff));
        };
        let pushed = match done {
            Ok(done) => done.map_err(|error| build_error(&error)),
            Err(_) => Err(too_slow("BuildFailed", BUILD_LIMIT)),
        };
        let AppendedImage { digest, base_digest } = match pushed {
            Ok(pushed) => pushed,
            Err(error) => return self.note_failed(pass, object, before, error).await,
        };
        let status = ImageBuildStatus {
            built: Some(BuiltOf { base_digest, ..found.inputs }),
            image: format!("{}@{digest}", servers.request.target),
            last_built: api_now(),
            ..ImageBuildStatus::default()
        };
        let state = built(&status);
        pass.record_event(note(EventType::Normal, state.reason, state.message.clone()));
        let status = object.status_with(&pass.object["status"], status, state);
        pass.replace_status(&status).await?;
        Ok(Reconciled::new(true, Requeue::After(jittered(interval_of(object.spec()?)))))
    }

    /// Writes that a build failed. The next one comes later than of other failures.
    async fn note_failed(
        &self,
        pass: &mut ReconcilePass,
        object: &ImageBuildObject,
        before: ImageBuildStatus,
        error: ReconcileError,
    ) -> Result<Reconciled, ReconcileError> {
        let (reason, message) = (error.reason(), error.to_string());
        let stalls = error.disposition() == Disposition::Stall;
        let phase = if stalls { Phase::Stalled } else { Phase::Reconciling };
        let state = ReadyState { ready: Some(false), reason, message: message.clone(), phase };
        let status = object.status_with(&pass.object["status"], before, state);
        if pass.replace_status(&status).await? {
            pass.record_event(note(EventType::Warning, reason, message));
        }
        let delay = BUILD_DELAY * 2_u32.pow(pass.failures.min(DOUBLED));
        Ok(Reconciled { failure: Some(error), ..Reconciled::new(false, Requeue::After(delay)) })
    }
}

impl FrontEnd for ImageBuilds {
    type Object = ImageBuildObject;

    fn read(&self, object: &Value) -> ImageBuildObject {
        let meta = ObjectMeta::of(object);
        ImageBuildObject {
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            name: meta.name().to_owned(),
            generation: meta.generation(),
            spec: ImageBuildSpec::deserialize(&object["spec"]).map_err(|error| error.to_string()),
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Gvk {
        Gvk::new(KIND.0, KIND.1)
    }

    fn finalizer(&self) -> &'static str {
        "windlass.dev/image-build"
    }

    /// The images stay: others run them.
    fn needs_finalizer(&self, _object: &ImageBuildObject) -> bool {
        false
    }

    fn target(&self, object: &ImageBuildObject) -> Result<ReleaseTarget, ReconcileError> {
        ReleaseTarget::of_tenant(
            Some(&object.namespace),
            object.spec()?.service_account_name.as_deref(),
            self.options.default_service_account.as_ref(),
        )
    }

    fn note_gone(&self, key: &str) {
        self.cache.forget(key);
    }

    fn interval(&self, object: &ImageBuildObject) -> Option<Duration> {
        object.spec().ok().map(interval_of)
    }

    fn is_suspended(&self, object: &ImageBuildObject) -> bool {
        object.spec().is_ok_and(|spec| spec.suspend)
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &ImageBuildObject,
    ) -> Result<Reconciled, ReconcileError> {
        pass.report_progress(self, object).await?;
        let spec = object.spec()?;
        let request = BuildRequest::of(spec)?;
        let reader = pass.runner(self, object)?.engine().cluster().clone();
        pass.set_reader(&reader);
        let mut logins =
            LoginReader { cluster: &reader, namespace: &object.namespace, references: &mut pass.references };
        let logins = logins.logins(spec).await?;
        let owner = format!("{}/{}", object.namespace, object.name);
        let servers = Servers {
            http: self.http.clone(),
            request: &request,
            logins: &logins,
            plain: &self.options.plain_registries,
            cache: OwnedCache { cache: &self.cache, owner: &owner },
        };
        let status = read_status(&pass.object["status"]);
        let look = tokio::time::timeout(LOOK_LIMIT, servers.look(&status)).await;
        let found = look.map_err(|_| too_slow("ArtifactUnavailable", LOOK_LIMIT))??;
        if !found.is_built {
            return self.build(pass, object, servers, found).await;
        }
        let state = built(&status);
        let status = object.status_with(&pass.object["status"], status, state);
        pass.replace_status(&status).await?;
        Ok(Reconciled::new(true, Requeue::After(jittered(interval_of(spec)))))
    }

    fn status(&self, object: &ImageBuildObject, before: &Value, report: &Report<'_>) -> Value {
        let status = read_status(before);
        // There are neither releases nor dependencies.
        let state = ReadyState::of_report(report, "artifact and base are being looked for");
        let state = state.unwrap_or_else(|| built(&status));
        object.status_with(before, status, state)
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        match report {
            Report::Failed { error, .. } => Some(note(EventType::Warning, error.reason(), error.to_string())),
            _ => None,
        }
    }
}
