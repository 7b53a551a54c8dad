//! How a workload is rolled out: the writes, by kind.
//!
//! Workloads of a Pod template get an annotation in it, in one merge patch with the record of digests: both are there, or none. What is
//! sent again has the same value and rolls nothing out twice.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use windlass_base::backoff;
use windlass_base::hex::hex;
use windlass_cluster::{
    ApplyOptions, Cluster, ClusterError, DeleteOptions, Deleted, Gvk, ObjectMeta, ObjectRef, PatchKind,
    Validation, WriteOptions, api_time,
};

use super::collected_configuration::CollectedVolumes;
use super::followed_objects::{PAUSED_AT, RECORD, RELOADS, Workload, WorkloadKind};
use super::pod_references::Configuration;
use super::reload_annotations::RolloutStrategy;
use super::reload_decision::{Decision, Digests, record_text};

/// The field manager of the writes.
pub const MANAGER: &str = "windlass-reload";
/// The field manager of collected configuration: what it applies is all that it has.
pub const COLLECTION_MANAGER: &str = "windlass-collected-configuration";
/// Annotation of a Pod template: the digest of all digests.
const TEMPLATE_DIGEST: &str = "windlass.dev/configuration-digest";
/// Annotation of a Pod template, or of the Job of a CronJob: what has changed.
pub const RELOADED_FROM: &str = "windlass.dev/reloaded-from";
/// Kubernetes' own annotation of a Job that did not come by the schedule.
const INSTANTIATE: (&str, &str) = ("cronjob.kubernetes.io/instantiate", "manual");
/// Labels of a Job's Pods that its controller sets.
const CONTROLLER_LABELS: [&str; 4] =
    ["controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"];
/// The longest name of a Job whose Pods' names are not cut off.
const MAX_JOB_NAME: usize = 63;
/// Characters of a digest in the name of a Job.
const NAME_DIGEST: usize = 10;
/// How long the creation of a Job is tried whose predecessor is deleted.
const CREATION: Duration = Duration::from_secs(600);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Most names in an annotation.
const MAX_NAMED: usize = 20;

/// What is written to a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Its record alone.
    Record(Digests),
    /// A rollout, and its record.
    Rollout(Decision),
    /// A Deployment that a change has paused goes on.
    Resume,
    /// The volumes of collected configuration.
    Collect(CollectedVolumes),
}

/// Writes to a workload. Returns its version afterwards; `None` if it is another object, or gone.
///
/// # Errors
/// The API server refuses a write.
pub(crate) async fn write(
    client: &Cluster,
    reference: &ObjectRef,
    workload: &Workload,
    what: &Write,
) -> Result<Option<u64>, ClusterError> {
    let now = Timestamp::now();
    match (what, workload.kind) {
        (Write::Rollout(decision), WorkloadKind::CronJob) => {
            create_job(client, reference, workload, decision).await?;
            patch(client, reference, &numbered(record_patch(workload, &decision.digests), workload)).await
        }
        (Write::Rollout(decision), WorkloadKind::Job) => {
            recreate_job(client, reference, workload, decision).await
        }
        (Write::Rollout(decision), _) => {
            patch(client, reference, &rollout_patch(workload, decision, now)).await
        }
        (Write::Record(digests), _) => patch(client, reference, &record_patch(workload, digests)).await,
        (Write::Resume, _) => {
            let body = json!({"metadata": {"uid": workload.uid, "annotations": {PAUSED_AT: null}}, "spec": {"paused": false}});
            patch(client, reference, &body).await
        }
        (Write::Collect(volumes), _) => collect(client, reference, workload, volumes).await,
    }
}

/// Applies the volumes of collected configuration. The UID keeps this from creating a workload that is gone.
async fn collect(
    client: &Cluster,
    reference: &ObjectRef,
    workload: &Workload,
    volumes: &CollectedVolumes,
) -> Result<Option<u64>, ClusterError> {
    let mut body = volumes.applied(workload.kind);
    body["apiVersion"] = reference.gvk.api_version().into();
    body["kind"] = reference.gvk.kind.clone().into();
    body["metadata"] = json!({"name": reference.name, "namespace": reference.namespace, "uid": workload.uid});
    let options = ApplyOptions {
        manager: COLLECTION_MANAGER,
        force: true,
        dry_run: false,
        validation: Validation::Warn,
        whole: false,
    };
    match client.apply(reference, &body, options).await {
        Ok(applied) => Ok(ObjectMeta::of(&applied.object).version_number()),
        // Fields of others are no conflict by force: another UID is.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn patch(client: &Cluster, reference: &ObjectRef, body: &Value) -> Result<Option<u64>, ClusterError> {
    match client.patch_subresource(reference, "", PatchKind::Merge, body, MANAGER).await {
        Ok(object) => Ok(ObjectMeta::of(&object).version_number()),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The UID makes the write one to this very object.
fn record_patch(workload: &Workload, digests: &Digests) -> Value {
    json!({"metadata": {"uid": workload.uid, "annotations": {RECORD: record_text(digests)}}})
}

/// The same patch with the number of the rollout.
fn numbered(mut patch: Value, workload: &Workload) -> Value {
    patch["metadata"]["annotations"][RELOADS] = workload.reloads.saturating_add(1).to_string().into();
    patch
}

/// The patch that rolls out a workload with a Pod template.
fn rollout_patch(workload: &Workload, decision: &Decision, now: Timestamp) -> Value {
    let mut body = record_patch(workload, &decision.digests);
    if workload.kind == WorkloadKind::Rollout && workload.request.strategy == RolloutStrategy::Restart {
        body["spec"]["restartAt"] = api_time(now).into();
        return body;
    }
    body["spec"]["template"]["metadata"]["annotations"] = Value::Object(template_annotations(decision));
    // One that somebody else has paused stays so, and goes on when he says so.
    if workload.kind == WorkloadKind::Deployment && workload.request.pause.is_some() && !workload.is_paused {
        body["spec"]["paused"] = true.into();
        body["metadata"]["annotations"][PAUSED_AT] = api_time(now).into();
    }
    body
}

fn template_annotations(decision: &Decision) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert(TEMPLATE_DIGEST.to_owned(), digest_of(&decision.digests).into());
    out.insert(RELOADED_FROM.to_owned(), names(&decision.changed).into());
    out
}

/// Names for people.
pub(crate) fn names(changed: &[Configuration]) -> String {
    let mut named: Vec<String> = changed.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    if changed.len() > MAX_NAMED {
        named.push(format!("{} more", changed.len() - MAX_NAMED));
    }
    named.join(", ")
}

fn digest_of(digests: &Digests) -> String {
    hex(&Sha256::digest(record_text(digests))).chars().take(32).collect()
}

/// The Job that runs a CronJob at once; its name tells for which rollout, so that there is one.
async fn create_job(
    client: &Cluster,
    reference: &ObjectRef,
    workload: &Workload,
    decision: &Decision,
) -> Result<(), ClusterError> {
    let Some(live) = client.get(reference).await? else { return Ok(()) };
    if ObjectMeta::of(&live).uid() != workload.uid {
        return Ok(());
    }
    let job = job_of(&live, workload, decision);
    let name = ObjectMeta::of(&job).name().to_owned();
    let job_reference = ObjectRef::new(Gvk::new("batch/v1", "Job"), reference.namespace.as_deref(), &name);
    match client.create(&job_reference, &job, MANAGER).await {
        Err(error) if error.is_already_exists() => Ok(()),
        created => created.map(drop),
    }
}

fn job_of(cron_job: &Value, workload: &Workload, decision: &Decision) -> Value {
    let name = ObjectMeta::of(cron_job).name();
    let template = &cron_job["spec"]["jobTemplate"];
    let mut annotations = template["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.insert(INSTANTIATE.0.to_owned(), INSTANTIATE.1.into());
    annotations.insert(RELOADED_FROM.to_owned(), names(&decision.changed).into());
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": format!("{}-{}", shortened(name), job_digest(workload, decision)),
            "namespace": cron_job["metadata"]["namespace"],
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": name, "uid": cron_job["metadata"]["uid"],
                "controller": true,
            }],
        },
        "spec": template["spec"],
    })
}

/// Deletes a Job with its Pods, and creates it anew: neither its template nor its state can be changed.
async fn recreate_job(
    client: &Cluster,
    reference: &ObjectRef,
    workload: &Workload,
    decision: &Decision,
) -> Result<Option<u64>, ClusterError> {
    let Some(live) = client.get(reference).await? else { return Ok(None) };
    if ObjectMeta::of(&live).uid() != workload.uid || ObjectMeta::of(&live).is_deleting() {
        return Ok(None);
    }
    let body = job_again(live, workload, decision);
    // What the server would refuse is known before the old Job is gone.
    let mut probe = body.clone();
    probe["metadata"]["name"] = Value::Null;
    probe["metadata"]["generateName"] = format!("{}-", shortened(&reference.name)).into();
    let options =
        WriteOptions { manager: MANAGER, validation: Validation::Warn, dry_run: true, whole: false };
    client.create_object(reference, &probe, options).await?;
    let options = DeleteOptions { uid: Some(&workload.uid), ..DeleteOptions::default() };
    if client.delete(reference, options).await? != Deleted::Yes {
        return Ok(None);
    }
    let since = Instant::now();
    let mut failures = 0;
    loop {
        let error = match client.create(reference, &body, MANAGER).await {
            Ok(created) => return Ok(ObjectMeta::of(&created).version_number()),
            Err(error) => error,
        };
        // The old one is gone, and only this task has the body. A finalizer may keep the old one for a while.
        let is_refused = matches!(error.code(), Some(400 | 403 | 422));
        if is_refused || since.elapsed() > CREATION {
            return Err(error);
        }
        if error.is_already_exists() {
            let found = client.get_metadata(reference).await;
            if found
                .is_ok_and(|found| found.is_some_and(|found| ObjectMeta::of(&found).uid() != workload.uid))
            {
                // Somebody else was faster.
                return Ok(None);
            }
        }
        failures += 1;
        tokio::time::sleep(backoff::delay(failures).min(LONGEST_PAUSE)).await;
    }
}

/// The same Job without what the server has set.
fn job_again(mut job: Value, workload: &Workload, decision: &Decision) -> Value {
    let meta = &mut job["metadata"];
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "managedFields",
        "selfLink",
    ] {
        if let Some(meta) = meta.as_object_mut() {
            meta.remove(field);
        }
    }
    meta["annotations"][RECORD] = record_text(&decision.digests).into();
    meta["annotations"][RELOADS] = workload.reloads.saturating_add(1).to_string().into();
    meta["annotations"][RELOADED_FROM] = names(&decision.changed).into();
    if let Some(job) = job.as_object_mut() {
        job.remove("status");
    }
    // The server makes them for the new one. A selector of the user's own goes with his labels.
    let own_selector = job["spec"]["manualSelector"] == true;
    let labels = [&["metadata", "labels"][..], &["spec", "template", "metadata", "labels"]];
    for path in labels.into_iter().filter(|_| !own_selector) {
        let found = path.iter().try_fold(&mut job, |node, key| node.get_mut(*key));
        if let Some(labels) = found.and_then(Value::as_object_mut) {
            labels.retain(|name, _| !CONTROLLER_LABELS.contains(&name.as_str()));
        }
    }
    if let Some(spec) = job["spec"].as_object_mut().filter(|_| !own_selector) {
        spec.remove("selector");
    }
    job
}

/// The digest of one rollout of a workload: the same as long as it is not recorded.
fn job_digest(workload: &Workload, decision: &Decision) -> String {
    let rollout = format!("{}\n{}\n{}", workload.uid, workload.reloads, record_text(&decision.digests));
    hex(&Sha256::digest(rollout)).chars().take(NAME_DIGEST).collect()
}

/// A name that leaves room for a digest. Names of objects are ASCII.
fn shortened(name: &str) -> &str {
    name.get(..MAX_JOB_NAME - NAME_DIGEST - 1).unwrap_or(name).trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::followed_objects::FollowedObject;

    fn workload(kind: &str, object: &Value) -> Workload {
        FollowedObject::of(&Gvk::new("x/v1", kind), object.clone()).workload().unwrap().clone()
    }

    fn decision() -> Decision {
        let changed = Configuration::parse("ConfigMap/app").unwrap();
        Decision { digests: Digests::from([(changed.clone(), "12".to_owned())]), changed: vec![changed] }
    }

    #[test]
    fn a_rollout_is_one_patch_with_its_record() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let digest = digest_of(&decision().digests);
        let record = r#"{"ConfigMap/app":"12"}"#;
        let template =
            json!({"metadata": {"annotations": {TEMPLATE_DIGEST: digest, RELOADED_FROM: "ConfigMap/app"}}});
        let plain = workload("StatefulSet", &json!({"metadata": {"uid": "u"}}));
        let patch = rollout_patch(&plain, &decision(), now);
        assert_eq!(
            patch,
            json!({"metadata": {"uid": "u", "annotations": {RECORD: record}}, "spec": {"template": template}})
        );
        let period = json!({"deployment.reloader.stakater.com/pause-period": "5m"});
        let pausing = json!({"metadata": {"uid": "u", "annotations": period}});
        let patch = rollout_patch(&workload("Deployment", &pausing), &decision(), now);
        assert_eq!(
            (&patch["spec"]["paused"], &patch["metadata"]["annotations"][PAUSED_AT]),
            (&json!(true), &json!("2026-01-02T03:04:05Z"))
        );
        let mut paused = pausing;
        paused["spec"]["paused"] = true.into();
        let patch = rollout_patch(&workload("Deployment", &paused), &decision(), now);
        assert_eq!((&patch["spec"]["paused"], &patch["spec"]["template"]), (&Value::Null, &template));
        let restart = json!({"metadata": {"uid": "u", "annotations": {"reloader.stakater.com/rollout-strategy": "restart"}}});
        let patch = rollout_patch(&workload("Rollout", &restart), &decision(), now);
        assert_eq!(patch["spec"], json!({"restartAt": "2026-01-02T03:04:05Z"}));
    }

    #[test]
    fn the_job_of_a_cron_job_is_named_for_the_state() {
        let cron = json!({
            "metadata": {"name": "c".repeat(60), "namespace": "n", "uid": "u"},
            "spec": {"jobTemplate": {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}, "spec": {"template": {}}}},
        });
        let of = workload("CronJob", &cron);
        let job = job_of(&cron, &of, &decision());
        assert_eq!(
            ObjectMeta::of(&job).name(),
            format!("{}-{}", "c".repeat(52), job_digest(&of, &decision()))
        );
        assert_eq!(job, job_of(&cron, &of, &decision()));
        // The next rollout to the same state is another one.
        let next = Workload { reloads: 1, ..of };
        assert_ne!(ObjectMeta::of(&job_of(&cron, &next, &decision())).name(), ObjectMeta::of(&job).name());
        let meta = ObjectMeta::of(&job);
        assert_eq!(
            (meta.annotation("x"), meta.annotation(INSTANTIATE.0), meta.label("a")),
            (Some("y"), Some("manual"), Some("b"))
        );
        assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], "u");
    }

    #[test]
    fn a_job_is_made_again_without_what_its_controller_set() {
        let labels = json!({"controller-uid": "u", "batch.kubernetes.io/job-name": "j", "app": "a"});
        let job = json!({
            "metadata": {"name": "j", "uid": "u", "resourceVersion": "1", "labels": labels},
            "spec": {"selector": {"matchLabels": {"controller-uid": "u"}}, "template": {"metadata": {"labels": labels}}},
            "status": {"succeeded": 1},
        });
        let of = workload("Job", &job);
        let again = job_again(job.clone(), &of, &decision());
        assert_eq!(again["spec"], json!({"template": {"metadata": {"labels": {"app": "a"}}}}));
        assert_eq!((&again["status"], &again["metadata"]["uid"]), (&Value::Null, &Value::Null));
        assert!(ObjectMeta::of(&again).annotation(RECORD).is_some());
        let mut own = job;
        own["spec"]["manualSelector"] = true.into();
        assert_eq!(job_again(own.clone(), &of, &decision())["spec"], own["spec"]);
    }
}
