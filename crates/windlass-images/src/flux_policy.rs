//! Flux's ImagePolicy and ImageRepository as a policy: `flux:NAME`.
//!
//! Owns the fields of both that are read, and refuses those that would have to be. Which tag is chosen is `tag_filter`'s.

use std::sync::Arc;
use std::time::Duration;

use chart_compat::go::duration;
use serde_json::Value;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef};

use super::image_annotations::{ImageRequest, SecretSetting};
use super::image_reference::ImageReference;
use super::poll_schedule::PollSchedule;
use super::tag_filter::TagFilter;
use super::update_policy::Policy;

/// The API group, and its versions from the newest one.
const GROUP: &str = "image.toolkit.fluxcd.io";
const VERSIONS: [&str; 2] = ["v1", "v1beta2"];
/// The intervals that are accepted, as of annotations.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(366 * 24 * 60 * 60));
/// Fields of an ImageRepository without which its registry cannot be asked as it wants.
const REFUSED: [(&str, &str); 3] = [
    ("certSecretRef", "certificates of registries are not read"),
    ("proxySecretRef", "proxies are not read"),
    ("serviceAccountName", "name the Secret with the login in spec.secretRef"),
];

/// What both objects ask for.
pub(crate) struct FluxPolicy {
    pub(crate) policy: Policy,
    /// The image, with its registry: that of other containers is not followed.
    pub(crate) image: String,
    pub(crate) interval: Option<Duration>,
    /// The Secret with the login.
    pub(crate) secret: Option<String>,
}

impl FluxPolicy {
    /// Reads an ImagePolicy and its ImageRepository in a namespace.
    ///
    /// # Errors
    /// The cluster cannot be reached, or refuses. Inside: what is wrong with the objects.
    pub(crate) async fn read(
        client: &Cluster,
        namespace: &str,
        name: &str,
    ) -> Result<Result<Self, String>, ClusterError> {
        let kinds = client.kinds().await?;
        let served = |kind: &str| {
            let mut all = VERSIONS.iter().map(|version| Gvk::new(&format!("{GROUP}/{version}"), kind));
            all.find(|gvk| kinds.get(gvk).is_some())
        };
        let get = async |kind: &str, name: &str| {
            let Some(gvk) = served(kind) else {
                return Ok(Err(format!("the API server serves no {kind} of {GROUP}")));
            };
            let found = match client.get(&ObjectRef::new(gvk, Some(namespace), name)).await {
                Err(error) if error.is_forbidden() => return Ok(Err(error.to_string())),
                found => found?,
            };
            Ok::<_, ClusterError>(
                found.ok_or_else(|| format!("{kind} {name} not found in namespace {namespace}")),
            )
        };
        let policy = match get("ImagePolicy", name).await? {
            Ok(policy) => policy,
            Err(text) => return Ok(Err(text)),
        };
        let repository = match repository_of(&policy) {
            Ok(repository) => repository,
            Err(text) => return Ok(Err(format!("ImagePolicy {name}: {text}"))),
        };
        let found = get("ImageRepository", repository).await?;
        Ok(found.and_then(|found| Self::of(&policy, &found)))
    }

    fn of(policy: &Value, repository: &Value) -> Result<Self, String> {
        let name = |kind: &str, object: &Value, error: String| {
            format!("{kind} {}: {error}", ObjectMeta::of(object).name())
        };
        let (spec, of_repository) = (&policy["spec"], &repository["spec"]);
        let in_repository = |error| name("ImageRepository", repository, error);
        let filter = TagFilter::of(spec).map_err(|error| name("ImagePolicy", policy, error))?;
        let filter = filter.without(&of_repository["exclusionList"]).map_err(in_repository)?;
        let is_suspended = [spec, of_repository].iter().any(|spec| spec["suspend"] == true);
        if let Some((field, why)) = REFUSED.iter().find(|(field, _)| !of_repository[*field].is_null()) {
            return Err(in_repository(format!("spec.{field}: {why}")));
        }
        let image = of_repository["image"].as_str().unwrap_or_default();
        let read = ImageReference::parse(image);
        let image = read.map_err(|error| in_repository(format!("spec.image: {error}")))?;
        let interval = match of_repository["interval"].as_str() {
            Some(text) => {
                Some(interval(text).map_err(|error| in_repository(format!("spec.interval: {error}")))?)
            }
            None => None,
        };
        Ok(Self {
            policy: if is_suspended { Policy::Never } else { Policy::Filter(Box::new(filter)) },
            image: image.place(),
            interval,
            secret: of_repository["secretRef"]["name"].as_str().map(str::to_owned),
        })
    }

    /// Takes the place of the policy of a request. `namespace`: that of the objects, and so of the Secret. The request's own interval and
    /// Secret come first.
    fn replace_policy(self, asked: &mut ImageRequest, namespace: &str) {
        asked.policy = Arc::new(self.policy);
        asked.only_image = Some(self.image);
        asked.polls = asked.polls.take().or(self.interval.map(PollSchedule::Every));
        if asked.pull_secret.is_none() {
            let of_release = !asked.release_policy.is_empty();
            let namespace = Some(namespace.to_owned());
            asked.pull_secret = self.secret.map(|name| SecretSetting { name, namespace, of_release });
        }
    }
}

/// The name of the ImageRepository of an ImagePolicy, which is in its namespace.
fn repository_of(policy: &Value) -> Result<&str, String> {
    let reference = &policy["spec"]["imageRepositoryRef"];
    let own = ObjectMeta::of(policy).namespace();
    match (reference["name"].as_str(), reference["namespace"].as_str()) {
        (None, _) => Err("spec.imageRepositoryRef.name is missing".to_owned()),
        (_, Some(namespace)) if Some(namespace) != own => Err(format!(
            "spec.imageRepositoryRef.namespace: {namespace:?} is another namespace: only ImageRepositories of its own are read"
        )),
        (Some(name), _) => Ok(name),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let read = duration::parse(text).ok().and_then(|nanoseconds| u64::try_from(nanoseconds).ok());
    let read = read.map(Duration::from_nanos).filter(|time| *time <= INTERVALS.1);
    let read = read.ok_or_else(|| format!("{text:?} is not a duration of up to a year, such as 5m"))?;
    Ok(read.max(INTERVALS.0))
}

/// Replaces the policy `flux:NAME` of a request by what the objects in a namespace ask for. The request's own interval and Secret come
/// first. Returns whether there is one: the objects may ask for something else by the next check.
///
/// # Errors
/// As [`FluxPolicy::read`].
pub(crate) async fn resolve(
    request: &mut Result<Option<ImageRequest>, String>,
    client: &Cluster,
    namespace: &str,
) -> Result<bool, ClusterError> {
    let Ok(Some(asked)) = request else { return Ok(false) };
    let Policy::Flux(name) = &*asked.policy else { return Ok(false) };
    match FluxPolicy::read(client, namespace, name).await? {
        Ok(found) => found.replace_policy(asked, namespace),
        Err(text) => *request = Err(format!("policy {:?}: {text}", asked.policy_text)),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects(policy: Value, repository: Value) -> (Value, Value) {
        let of = |spec: Value| json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
        (of(policy), of(repository))
    }

    #[test]
    fn both_objects_are_read() {
        let order = json!({"policy": {"numerical": {}}, "filterTags": {"pattern": "^b-(?P<n>[0-9]+)$", "extract": "$n"}});
        let repository = json!({"image": "registry.example.com/team/web", "interval": "5s", "secretRef": {"name": "login"}});
        let (policy, found) = objects(order.clone(), repository.clone());
        let read = FluxPolicy::of(&policy, &found).unwrap();
        assert_eq!(read.image, "registry.example.com/team/web");
        assert_eq!((read.interval, read.secret.as_deref()), (Some(INTERVALS.0), Some("login")));
        assert!(!read.policy.is_never() && !read.policy.keeps_tag());
        for (one, two) in [(true, false), (false, true)] {
            let (mut policy, mut found) = objects(order.clone(), repository.clone());
            (policy["spec"]["suspend"], found["spec"]["suspend"]) = (one.into(), two.into());
            assert!(FluxPolicy::of(&policy, &found).unwrap().policy.is_never());
        }
    }

    /// A release may be in another namespace than the object that names the policy.
    #[test]
    fn the_secret_is_in_the_namespace_of_its_repository() {
        let order = json!({"policy": {"alphabetical": {}}});
        let repository =
            json!({"image": "registry.example.com/web", "interval": "1m", "secretRef": {"name": "login"}});
        let own = |name: &str| SecretSetting { name: name.to_owned(), namespace: None, of_release: false };
        let found = SecretSetting { namespace: Some("shop".to_owned()), ..own("login") };
        for (annotations, expected, interval) in [
            (json!({}), found, 60),
            (
                json!({"windlass.dev/image-pull-secret": "mine", "windlass.dev/image-interval": "2m"}),
                own("mine"),
                120,
            ),
        ] {
            let mut annotations = annotations;
            annotations["windlass.dev/image-policy"] = "flux:web".into();
            let object = json!({"metadata": {"annotations": annotations}});
            let mut asked = ImageRequest::of(ObjectMeta::of(&object), None).unwrap().unwrap();
            let (policy, repository) = objects(order.clone(), repository.clone());
            FluxPolicy::of(&policy, &repository).unwrap().replace_policy(&mut asked, "shop");
            assert_eq!(asked.pull_secret, Some(expected));
            assert_eq!(asked.polls, Some(PollSchedule::Every(Duration::from_secs(interval))));
            assert_eq!(asked.only_image.as_deref(), Some("registry.example.com/web"));
        }
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_field() {
        let order = json!({"policy": {"alphabetical": {}}});
        let image = json!({"image": "registry.example.com/web"});
        let with = |field: &str, value: Value| {
            let mut spec = image.clone();
            spec[field] = value;
            spec
        };
        for (policy, repository, part) in [
            (json!({}), image.clone(), "ImagePolicy web: spec.policy: "),
            (order.clone(), json!({}), "ImageRepository web: spec.image: "),
            (
                order.clone(),
                with("interval", "soon".into()),
                "ImageRepository web: spec.interval: \"soon\" is not",
            ),
            (
                order.clone(),
                with("certSecretRef", json!({"name": "x"})),
                "ImageRepository web: spec.certSecretRef: ",
            ),
            (order, with("exclusionList", json!(["("])), "ImageRepository web: spec.exclusionList: "),
        ] {
            let (policy, repository) = objects(policy, repository);
            let error = FluxPolicy::of(&policy, &repository).err().unwrap();
            assert!(error.starts_with(part), "{part}: {error}");
        }
        for (reference, expected) in [
            (json!({"name": "web"}), Ok("web")),
            (json!({"name": "web", "namespace": "shop"}), Ok("web")),
            (json!({"name": "web", "namespace": "other"}), Err("\"other\" is another namespace")),
            (json!({}), Err("spec.imageRepositoryRef.name is missing")),
        ] {
            let (policy, _) = objects(json!({"imageRepositoryRef": reference}), json!({}));
            match (repository_of(&policy), expected) {
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (found, expected) => assert_eq!(found.ok(), expected.ok()),
            }
        }
    }
}
