//! One check of the images that the values of a release name: what the registry has, and what is set over the values then.
//!
//! Reads and writes annotations of the release's object; the front end of the object sets the images over its values, so that a newer image
//! is a new revision. A rollout is through when a pass over the object was. What is decided of the record is `value_rollout`'s.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_cluster::{Cluster, ClusterError, ObjectMeta, ObjectRef, PatchKind};
use windlass_controller::{
    EventType, IMAGE_OVERRIDES, ImageAnnotations, ImageOverrides, ImageValue, ImageValues, MAX_IMAGES,
    ValueSettings,
};
use windlass_engine::IMAGE_MANAGER;

use super::checked_workload::{Checked, Inherited};
use super::flux_policy;
use super::image_annotations::{ImageRequest, POLICY};
use super::image_check::{CHECK_LIMIT, CheckContext, CheckResult, Failure, ROLLOUT_INTERVAL, Run};
use super::image_workload::FollowedContainer;
use super::poll_schedule::PollSchedule;
use super::pull_logins::{LoginSources, NamedSecret};
use super::rollout_record::{IMAGE_RECORD, RolloutRecord, read_image_record};
use super::value_rollout::{ValueState, overriding};

/// The annotations that are settings.
const PREFIX: &str = "windlass.dev/image-";

/// Checks the images in the values of an object's release.
pub(crate) async fn check_values(context: &CheckContext, reference: &ObjectRef) -> CheckResult {
    let mut result = CheckResult::default();
    let Some(mut settings) = context.settings.of_object(reference) else { return result };
    if settings.release.is_some() {
        // A pass was through, and has found none.
        settings.images.get_or_insert_default();
    }
    let object = match context.client.get(reference).await {
        Ok(Some(object)) if !ObjectMeta::of(&object).is_deleting() => object,
        Ok(_) => return result,
        Err(error) => {
            result.error = Some(error);
            return result;
        }
    };
    let mut workload = checked(reference, object, settings.images.as_deref());
    let read = async {
        let Some(reader) = settings.client(&context.runner)? else { return Ok(false) };
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        flux_policy::resolve(&mut workload.request, &reader, namespace).await
    };
    match read.await {
        Ok(has_flux_policy) => workload.has_flux_policy = has_flux_policy,
        Err(error) => {
            result.error = Some(error);
            return result;
        }
    }
    let done = ValueCheck { context, workload: &workload, settings: &settings }.run(&mut result).await;
    result.goes_on(done.map(|()| false), &workload, 0);
    result
}

/// The object of a release as a workload whose containers are the images that its values name.
fn checked(reference: &ObjectRef, object: Value, images: Option<&ImageValues>) -> Checked {
    let meta = ObjectMeta::of(&object);
    let (request, record) = (request_of(meta, images), read_image_record(meta));
    let inherited = Inherited { is_known: true, ..Inherited::default() };
    Checked { reference: reference.clone(), request, record, object, inherited, has_flux_policy: false }
}

/// What the object asks for; its own annotations come before the block `keel` of its values.
fn request_of(meta: ObjectMeta<'_>, images: Option<&ImageValues>) -> Result<Option<ImageRequest>, String> {
    let mut annotations: Map<String, Value> = match images {
        Some(images) if !images.errors.is_empty() => return Err(images.errors.join("; ")),
        Some(images) => {
            images.settings.iter().map(|(name, text)| (name.clone(), text.clone().into())).collect()
        }
        // The block is not known: a rollout that was begun by it is still looked at.
        None => Map::from_iter([(POLICY[1].to_owned(), "never".into())]),
    };
    let own = meta.annotations().filter(|(name, _)| name.starts_with(PREFIX));
    annotations.extend(own.map(|(name, text)| (name.to_owned(), text.into())));
    ImageRequest::of(ObjectMeta::of(&json!({"metadata": {"annotations": annotations}})), None)
}

/// The check of one object.
struct ValueCheck<'c> {
    context: &'c CheckContext,
    workload: &'c Checked,
    settings: &'c ValueSettings,
}

impl ValueCheck<'_> {
    async fn run(&self, result: &mut CheckResult) -> Result<(), ClusterError> {
        let meta = ObjectMeta::of(&self.workload.object);
        let overrides = match ImageAnnotations::of(meta).overrides() {
            Ok(overrides) => overrides,
            // The object's pass says so, too.
            Err(error) => {
                let text = error.to_string();
                result.report(self.workload, EventType::Warning, "InvalidImageAnnotation", text);
                return Ok(());
            }
        };
        let mut state = ValueState {
            images: self.settings.images.as_deref(),
            record: self.workload.record.clone(),
            overrides: overrides.clone(),
        };
        state.end_overrides();
        if self.workload.runs_rollout() {
            match &self.workload.request {
                Err(error) => {
                    result.report(self.workload, EventType::Warning, "InvalidImageAnnotation", error.clone());
                    result.due_in(self.context.interval);
                    return Ok(());
                }
                Ok(request) => {
                    let (runs, said) = state.settle(request.as_ref(), &overrides, Timestamp::now());
                    for (event_type, reason, note) in said {
                        result.report(self.workload, event_type, reason, note);
                    }
                    if runs {
                        result.due_in(ROLLOUT_INTERVAL);
                        return self.write(&state, &overrides).await;
                    }
                }
            }
        }
        self.follow(&mut state, result).await?;
        self.write(&state, &overrides).await
    }

    /// Asks for newer images, and sets them over the values.
    async fn follow(&self, state: &mut ValueState<'_>, result: &mut CheckResult) -> Result<(), ClusterError> {
        if self.workload.has_flux_policy {
            result.due_in(self.context.interval);
        }
        let request = match &self.workload.request {
            Ok(Some(request)) if !request.policy.is_never() => request,
            Ok(_) => return Ok(()),
            Err(error) => {
                result.report(self.workload, EventType::Warning, "InvalidImageAnnotation", error.clone());
                return Ok(());
            }
        };
        let Some(images) = state.images else { return Ok(()) };
        let Some(reader) = self.settings.client(&self.context.runner)? else { return Ok(()) };
        result.due_in(self.polls(request).wait(Timestamp::now()));
        state.record.retain(|path, _| images.images.contains_key(path));
        let until = tokio::time::Instant::now() + CHECK_LIMIT;
        for (path, value) in &images.images {
            let container =
                FollowedContainer { is_init: false, name: path.clone(), image: value.image.clone() };
            if !request.follows(&container) {
                continue;
            }
            if request.policy.keeps_tag() && !value.paths.has_digest() {
                let note = format!(
                    "policy {:?}: {path} has only the tag of an image: name the path of its digest, as {path}@DIGEST",
                    request.policy_text
                );
                result.report(self.workload, EventType::Warning, "InvalidImageAnnotation", note);
                continue;
            }
            let checked = self.image((&container, value), request, (&reader, &mut *state), result);
            let late = || Err(format!("its check takes longer than {} s", CHECK_LIMIT.as_secs()).into());
            match tokio::time::timeout_at(until, checked).await.unwrap_or_else(|_| late()) {
                Ok(()) => {}
                Err(Failure::Cluster(error)) => return Err(error),
                Err(Failure::Text(text, again)) => {
                    result.note_failure(self.workload, &format!("value {path}: {text}"), again);
                }
            }
        }
        if state.record.values().any(|of| of.rollout.is_some()) {
            result.due_in(ROLLOUT_INTERVAL);
        }
        Ok(())
    }

    fn polls(&self, request: &ImageRequest) -> PollSchedule {
        request.polls.clone().unwrap_or(PollSchedule::Every(self.context.interval))
    }

    /// Checks one image.
    async fn image(
        &self,
        (container, value): (&FollowedContainer, &ImageValue),
        request: &ImageRequest,
        (reader, state): (&Cluster, &mut ValueState<'_>),
        result: &mut CheckResult,
    ) -> Result<(), Failure> {
        let home = self.settings.release.as_ref().map_or("", |release| &release.id.namespace);
        let of_block = value.pull_secret.as_deref();
        let of_block = of_block.map(|name| NamedSecret { reader, namespace: home, name });
        let named = request.pull_secret.as_ref().map(|secret| NamedSecret::of(secret, reader, home));
        let mut run = Run {
            context: self.context,
            workload: self.workload,
            request,
            logins: LoginSources {
                cluster: &self.context.client,
                namespace: home,
                named: named.or(of_block),
                // Which Pods have the image, nobody knows.
                pod: None,
                operator: self.context.pull_secret.as_ref(),
                cloud: &self.context.cloud,
            },
            noun: "value",
            pods: None,
            polls: self.polls(request),
        };
        let path = &container.name;
        let mut of = state.record.get(path).cloned().unwrap_or_default();
        let image = run.container(container, &mut of, result).await?;
        of.release_policy.clone_from(&request.policy_text);
        if image.is_some() {
            if !state.has_room_for(path) {
                return Err(format!(
                    "value {path}: {MAX_IMAGES} images are set over the values already: remove those that no values name any more from \
                     the annotation {IMAGE_OVERRIDES}"
                )
                .into());
            }
            let (one, text) = overriding(value, &of.current)?;
            let note = format!("value {path}: {text} is rolled out instead of {}", value.image);
            result.report(self.workload, EventType::Normal, "ImageUpdate", note);
            of.image = text;
            state.overrides.insert(path.clone(), one);
        }
        state.record.insert(path.clone(), of);
        Ok(())
    }

    /// Writes what has changed, with the resource version of what was read.
    async fn write(&self, state: &ValueState<'_>, before: &ImageOverrides) -> Result<(), ClusterError> {
        if state.record == self.workload.record && state.overrides == *before {
            return Ok(());
        }
        let patch = patch_of(ObjectMeta::of(&self.workload.object), &state.record, &state.overrides);
        let (client, reference) = (&self.context.client, &self.workload.reference);
        match client.patch_subresource(reference, "", PatchKind::Merge, &patch, IMAGE_MANAGER).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

fn patch_of(meta: ObjectMeta<'_>, record: &RolloutRecord, overrides: &ImageOverrides) -> Value {
    let text = |is_empty: bool, value: Value| if is_empty { Value::Null } else { value.to_string().into() };
    json!({"metadata": {
        "uid": meta.uid(), "resourceVersion": meta.resource_version(),
        "annotations": {
            IMAGE_RECORD: text(record.is_empty(), json!(record)),
            IMAGE_OVERRIDES: text(overrides.is_empty(), json!(overrides)),
        },
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_the_object_come_before_the_block_of_its_values() {
        let request = |annotations: Value, images: Option<&ImageValues>| {
            let object = json!({"metadata": {"annotations": annotations}});
            request_of(ObjectMeta::of(&object), images).map(|found| found.map(|found| found.policy_text))
        };
        let settings = [("keel.sh/policy".to_owned(), "minor".to_owned())].into();
        let block = ImageValues { settings, ..ImageValues::default() };
        let own = json!({"windlass.dev/image-policy": "patch"});
        // keel's annotations are those of workloads.
        let keels = json!({"keel.sh/policy": "patch"});
        for (annotations, images, expected) in [
            (json!({}), Some(&block), Some("minor")),
            (own.clone(), Some(&block), Some("patch")),
            (own.clone(), Some(&ImageValues::default()), Some("patch")),
            (keels, Some(&ImageValues::default()), None),
            (json!({}), None, Some("never")),
        ] {
            let found = request(annotations.clone(), images).unwrap();
            assert_eq!(found.as_deref(), expected, "{annotations}");
        }
        let errors = vec!["image.tag: it is empty".to_owned(), "x".to_owned()];
        let wrong = ImageValues { errors, ..ImageValues::default() };
        assert_eq!(request(own, Some(&wrong)), Err("image.tag: it is empty; x".to_owned()));
    }

    #[test]
    fn a_patch_is_of_the_object_that_was_read() {
        let object = json!({"metadata": {"uid": "u", "resourceVersion": "7"}});
        let patch = patch_of(ObjectMeta::of(&object), &RolloutRecord::new(), &ImageOverrides::new());
        assert_eq!(
            (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
            (&json!("u"), &json!("7"))
        );
        let annotations = &patch["metadata"]["annotations"];
        assert_eq!(
            annotations,
            &json!({IMAGE_RECORD: null, IMAGE_OVERRIDES: null}),
            "nothing is left behind"
        );
    }
}
