//! Waiting until objects are ready, by watching them.

use crate::{
    error::{EngineError, Result, Unready},
    execute::readiness::{
        health_checks,
        kstatus::{Readiness, UNSCHEDULED, judge, judge_run},
        legacy_ready, ready_when,
    },
    objects::desired_objects::DesiredObject,
    progress::{
        not_ready,
        operation_progress::{OperationProgress, ProgressReporter},
    },
    request::{ReleaseOptions, Wait, WaitRules},
};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use windlass_cluster::{Cluster, Followed, Gvk, ObjectEvent, ObjectMeta, ObjectRef, POLL};

/// The label of all objects of releases.
const MANAGED: &str = "app.kubernetes.io/managed-by=Helm";
/// The text of kstatus for a missing object.
const NOT_FOUND: &str = "Resource not found";
/// How often unscheduled Pods are judged again.
const JUDGE_INTERVAL: Duration = Duration::from_secs(1);
/// How often objects that are not ready are diagnosed for a listener.
const DIAGNOSE: Duration = Duration::from_secs(10);
/// Objects that are diagnosed at a time.
const MOST: usize = 3;

/// Objects that were seen ready, with their resource versions.
pub(crate) type SeenReady = Vec<(ObjectRef, u64)>;

/// Whether readiness of a kind is kstatus' alone, so that an object that was seen ready is so until somebody writes it.
pub(crate) fn is_by_status(gvk: &Gvk, options: &ReleaseOptions) -> bool {
    let by_rule = || health_checks::rule_for(&options.health_checks, gvk).is_some();
    options.wait_rules == WaitRules::Status && !is_job(gvk) && !by_rule()
}

/// Waits until all objects are ready. Fails at once when one has failed. Adds those that are ready to `ready`, also where others are not.
pub(crate) async fn all_ready(
    cluster: &Cluster,
    targets: impl Iterator<Item = &DesiredObject>,
    options: &ReleaseOptions,
    progress: ProgressReporter<'_>,
    ready: &mut SeenReady,
) -> Result<()> {
    let ReleaseOptions { wait, timeout, wait_rules, .. } = *options;
    let rule_for = |gvk: &Gvk| match wait_rules {
        WaitRules::Status => health_checks::rule_for(&options.health_checks, gvk),
        WaitRules::Legacy => None,
    };
    if wait == Wait::HooksOnly {
        return Ok(());
    }
    let kinds = cluster.kinds().await?;
    let mut groups: BTreeMap<(Gvk, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for target in targets {
        let object = &target.object;
        let watchable = kinds.get(&object.gvk).is_some_and(|r| r.watchable);
        let skipped = is_job(&object.gvk) && wait == Wait::Ready && wait_rules == WaitRules::Legacy;
        let by_kind =
            has_readiness(&object.gvk) && (wait_rules == WaitRules::Status || is_built_in(&object.gvk));
        let judged = by_kind || ready_when::states(&target.body) || rule_for(&object.gvk).is_some();
        if watchable && !skipped && judged {
            groups
                .entry((object.gvk.clone(), object.namespace.clone()))
                .or_default()
                .insert(object.name.clone());
        }
    }
    let mut waiting: BTreeMap<ObjectRef, String> = BTreeMap::new();
    let mut streams = Vec::new();
    for ((gvk, namespace), names) in groups {
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let events = cluster.follow_named(&gvk, namespace.as_deref(), &all, MANAGED).await?;
        for name in names {
            let object = ObjectRef::new(gvk.clone(), namespace.as_deref(), &name);
            waiting.insert(object, NOT_FOUND.to_owned());
        }
        streams.push(events.map(move |event| (gvk.clone(), event)));
    }
    if waiting.is_empty() {
        // Whoever leaves its place for a wait gets it back after others.
        return Ok(());
    }
    let mut events = stream::select_all(streams);
    // Unscheduled Pods fail by a time limit, not by an event.
    let mut unscheduled: BTreeMap<ObjectRef, Value> = BTreeMap::new();
    let mut checks = tokio::time::interval(JUDGE_INTERVAL);
    let mut looks = tokio::time::interval_at(tokio::time::Instant::now() + DIAGNOSE, DIAGNOSE);
    let done = async {
        while !waiting.is_empty() {
            let told = tokio::select! {
                event = events.next() => event,
                _ = checks.tick(), if !unscheduled.is_empty() => {
                    let first = unscheduled.pop_first();
                    first.map(|(pod, object)| (pod.gvk, Ok(Followed::Event(ObjectEvent::Present(object)))))
                }
                _ = looks.tick(), if progress.diagnoses => {
                    for object in waiting.keys().take(MOST) {
                        report_diagnosis(cluster, object, progress).await;
                    }
                    continue;
                }
            };
            let Some((gvk, event)) = told else { return Ok(()) };
            let Some(ObjectEvent::Present(object)) = object_event(event?, Some(progress)) else { continue };
            let reference = ObjectMeta::of(&object).reference(gvk);
            let Some(state) = waiting.get_mut(&reference) else { continue };
            let readiness = match wait_rules {
                _ if let Some(rule) = rule_for(&reference.gvk) => health_checks::judge(rule, &object).await,
                WaitRules::Legacy => legacy_ready::judge(&object),
                WaitRules::Status if is_job(&reference.gvk) && wait == Wait::ReadyAndJobs => {
                    judge_run(&object)
                }
                WaitRules::Status => judge(&object),
            };
            unscheduled.remove(&reference);
            match readiness {
                Readiness::Ready => {
                    progress.report(&OperationProgress::Ready(&reference));
                    waiting.remove(&reference);
                    let version = object["metadata"]["resourceVersion"].as_str();
                    ready.extend(version.and_then(|v| v.parse().ok()).map(|version| (reference, version)));
                }
                Readiness::Waiting(reason) => {
                    if reason != *state {
                        progress.report(&OperationProgress::Waiting { object: &reference, reason: &reason });
                    }
                    if reason == UNSCHEDULED {
                        unscheduled.insert(reference, object);
                    }
                    *state = reason;
                }
                Readiness::Failed(message) => {
                    let one = Unready { object: reference, failed: true, message };
                    return Err(EngineError::NotReady { objects: vec![one], timed_out: false });
                }
            }
        }
        Ok(())
    };
    let result = match progress.wait(tokio::time::timeout(timeout, done)).await {
        Ok(done) => done,
        Err(_) => {
            let unready = |(object, message)| Unready { object, failed: false, message };
            // Helm 3's error has no more text.
            let told = std::mem::take(&mut waiting).into_iter().filter(|_| wait_rules == WaitRules::Status);
            Err(EngineError::NotReady { objects: told.map(unready).collect(), timed_out: true })
        }
    };
    if let Err(EngineError::NotReady { objects, .. }) = &result {
        for one in objects.iter().take(MOST) {
            report_diagnosis(cluster, &one.object, progress).await;
        }
    }
    result
}

/// Reports the diagnosis of an object that is not ready.
pub(crate) async fn report_diagnosis(cluster: &Cluster, object: &ObjectRef, progress: ProgressReporter<'_>) {
    if progress.listener.is_some() {
        let lines = not_ready::reasons(cluster, object).await;
        progress.report(&OperationProgress::Diagnosis { object, lines: &lines });
    }
}

/// The event, if it is one. A missing right to watch is reported, with the fallback.
pub(crate) fn object_event(
    followed: Followed,
    progress: Option<ProgressReporter<'_>>,
) -> Option<ObjectEvent> {
    match followed {
        Followed::Event(event) => Some(event),
        Followed::Refused(reason) => {
            let text = format!("{reason}: polling each object every {}s instead", POLL.as_secs());
            tracing::warn!(release = progress.map(|p| tracing::field::display(p.id)), "{text}");
            progress.iter().for_each(|progress| progress.report(&OperationProgress::Warning(&text)));
            None
        }
    }
}

fn is_job(gvk: &Gvk) -> bool {
    gvk.group == "batch" && gvk.kind == "Job"
}

/// Kinds that Helm 3's rules cover.
fn is_built_in(gvk: &Gvk) -> bool {
    matches!(gvk.group.as_str(), "" | "apps" | "batch" | "apiextensions.k8s.io")
}

/// Kinds that are ready as soon as they exist are not watched.
fn has_readiness(gvk: &Gvk) -> bool {
    let plain = match gvk.group.as_str() {
        "" => !matches!(
            gvk.kind.as_str(),
            "Pod" | "Service" | "PersistentVolumeClaim" | "ReplicationController"
        ),
        "apps" | "batch" | "apiextensions.k8s.io" | "apiregistration.k8s.io" => false,
        "rbac.authorization.k8s.io"
        | "policy"
        | "networking.k8s.io"
        | "storage.k8s.io"
        | "scheduling.k8s.io"
        | "autoscaling"
        | "admissionregistration.k8s.io" => true,
        _ => false,
    };
    !plain
}

/// Waits until one object is ready, or fails.
pub(crate) async fn one_ready(
    cluster: &Cluster,
    object: &ObjectRef,
    timeout: Duration,
    progress: Option<ProgressReporter<'_>>,
) -> Result<()> {
    let tell = |step: &OperationProgress<'_>| progress.iter().for_each(|progress| progress.report(step));
    let mut state = NOT_FOUND.to_owned();
    let unready = |failed, timed_out, message: &str| {
        let one = Unready { object: object.clone(), failed, message: message.to_owned() };
        Err(EngineError::NotReady { objects: vec![one], timed_out })
    };
    let done = async {
        let mut events =
            cluster.follow_named(&object.gvk, object.namespace.as_deref(), &[&object.name], "").await?;
        while let Some(event) = events.next().await {
            match object_event(event?, progress) {
                Some(ObjectEvent::Present(live)) => match judge_run(&live) {
                    Readiness::Ready => {
                        tell(&OperationProgress::Ready(object));
                        return Ok(());
                    }
                    Readiness::Waiting(reason) => {
                        if reason != state {
                            tell(&OperationProgress::Waiting { object, reason: &reason });
                        }
                        state = reason;
                    }
                    Readiness::Failed(reason) => return unready(true, false, &reason),
                },
                Some(ObjectEvent::Gone(_)) => {
                    return unready(true, false, "it was deleted during the wait");
                }
                Some(ObjectEvent::Listing | ObjectEvent::Listed) | None => {}
            }
        }
        Ok(())
    };
    let done = tokio::time::timeout(timeout, done);
    let done = match &progress {
        Some(progress) => progress.wait(done).await,
        None => done.await,
    };
    match done {
        Ok(done) => done,
        Err(_) => unready(false, true, &state),
    }
}
