//! Waiting until objects are ready, by watching them.

use super::{
    diagnose,
    error::{EngineError, Result, Unready},
    progress::{Progress, Teller},
    ready::{Readiness, judge},
    ready_legacy, ready_when,
    request::{Options, Wait, WaitRules},
    targets::Target,
};
use crate::cluster::{Cluster, Gvk, ObjectEvent, ObjectRef};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What kstatus says of an object that is not there.
const NOT_SEEN: &str = "Resource not found";
/// How often what stands still is looked into while someone watches.
const LOOK_INTO: Duration = Duration::from_secs(10);
/// Objects that are looked into at a time.
const MOST: usize = 3;

/// Waits until all objects are ready. Fails at once when one cannot get ready by itself.
pub(crate) async fn all_ready(
    cluster: &Cluster,
    targets: impl Iterator<Item = &Target>,
    options: &Options,
    progress: Teller<'_>,
) -> Result<()> {
    let Options { wait, timeout, wait_rules, .. } = *options;
    if wait == Wait::HooksOnly {
        return Ok(());
    }
    let kinds = cluster.kinds().await?;
    let mut groups: BTreeMap<(Gvk, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for target in targets {
        let object = &target.object;
        let watchable = kinds.get(&object.gvk).is_some_and(|r| r.watchable);
        let skipped = object.gvk.kind == "Job" && wait == Wait::Ready;
        let by_kind =
            has_readiness(&object.gvk) && (wait_rules == WaitRules::Status || is_built_in(&object.gvk));
        let judged = by_kind || ready_when::states(&target.body);
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
        let events =
            cluster.follow_labelled(&gvk, namespace.as_deref(), "app.kubernetes.io/managed-by=Helm").await?;
        for name in names {
            let object = ObjectRef::new(gvk.clone(), namespace.as_deref(), &name);
            waiting.insert(object, NOT_SEEN.to_owned());
        }
        streams.push(events.map(move |event| (gvk.clone(), event)));
    }
    let mut events = stream::select_all(streams);
    let mut looks = tokio::time::interval_at(tokio::time::Instant::now() + LOOK_INTO, LOOK_INTO);
    let done = async {
        while !waiting.is_empty() {
            let event = tokio::select! {
                event = events.next() => event,
                _ = looks.tick(), if progress.diagnoses => {
                    for object in waiting.keys().take(MOST) {
                        tell_why(cluster, object, progress).await;
                    }
                    continue;
                }
            };
            let Some((gvk, event)) = event else { return Ok(()) };
            let ObjectEvent::Present(object) = event? else { continue };
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            let reference = ObjectRef::new(gvk, metadata["namespace"].as_str(), name);
            let Some(state) = waiting.get_mut(&reference) else { continue };
            let readiness = match wait_rules {
                WaitRules::Status => judge(&object),
                WaitRules::Legacy => ready_legacy::judge(&object),
            };
            match readiness {
                Readiness::Ready => {
                    progress.tell(&Progress::Ready(&reference));
                    waiting.remove(&reference);
                }
                Readiness::Waiting(reason) => {
                    if reason != *state {
                        progress.tell(&Progress::Waiting { object: &reference, reason: &reason });
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
    let result = match tokio::time::timeout(timeout, done).await {
        Ok(done) => done,
        Err(_) => {
            let unready = |(object, message)| Unready { object, failed: false, message };
            // Helm 3 says no more than that.
            let told = std::mem::take(&mut waiting).into_iter().filter(|_| wait_rules == WaitRules::Status);
            Err(EngineError::NotReady { objects: told.map(unready).collect(), timed_out: true })
        }
    };
    if let Err(EngineError::NotReady { objects, .. }) = &result {
        for one in objects.iter().take(MOST) {
            tell_why(cluster, &one.object, progress).await;
        }
    }
    result
}

/// Tells those who watch what there is to see of an object that does not get ready.
pub(crate) async fn tell_why(cluster: &Cluster, object: &ObjectRef, progress: Teller<'_>) {
    if progress.diagnoses {
        let lines = diagnose::why(cluster, object).await;
        progress.tell(&Progress::Diagnosis { object, lines: &lines });
    }
}

/// Kinds that Helm 3's rules know.
fn is_built_in(gvk: &Gvk) -> bool {
    matches!(gvk.group.as_str(), "" | "apps" | "batch" | "apiextensions.k8s.io")
}

/// Kinds that are ready as soon as they exist are not watched for it.
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
    progress: Option<Teller<'_>>,
) -> Result<()> {
    let tell = |step: &Progress<'_>| progress.iter().for_each(|progress| progress.tell(step));
    let mut state = NOT_SEEN.to_owned();
    let unready = |failed, timed_out, message: &str| {
        let one = Unready { object: object.clone(), failed, message: message.to_owned() };
        Err(EngineError::NotReady { objects: vec![one], timed_out })
    };
    let done = async {
        let mut events = cluster.follow(&object.gvk, object.namespace.as_deref(), &object.name).await?;
        while let Some(event) = events.next().await {
            match event? {
                ObjectEvent::Present(live) => match judge_run(&live) {
                    Readiness::Ready => {
                        tell(&Progress::Ready(object));
                        return Ok(());
                    }
                    Readiness::Waiting(reason) => {
                        if reason != state {
                            tell(&Progress::Waiting { object, reason: &reason });
                        }
                        state = reason;
                    }
                    Readiness::Failed(reason) => return unready(true, false, &reason),
                },
                ObjectEvent::Gone(_) => {
                    return unready(true, false, "it was deleted while it was waited for");
                }
                ObjectEvent::Listing | ObjectEvent::Listed => {}
            }
        }
        Ok(())
    };
    match tokio::time::timeout(timeout, done).await {
        Ok(done) => done,
        Err(_) => unready(false, true, &state),
    }
}

/// Hooks run to their end: a Pod that is merely ready is not through.
fn judge_run(live: &Value) -> Readiness {
    let running =
        live["kind"] == "Pod" && !matches!(live["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if running { Readiness::Waiting("the Pod is running".to_owned()) } else { judge(live) }
}
