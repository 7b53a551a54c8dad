//! Waiting until objects are ready, by watching them.

use super::{
    error::{EngineError, Result},
    progress::{Progress, Teller},
    ready::{Readiness, judge},
    request::{Options, Wait, WaitRules},
};
use crate::cluster::{Cluster, Gvk, ObjectEvent, ObjectRef};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Waits until all objects are ready. Fails at once when one cannot get ready by itself.
pub(crate) async fn all_ready(
    cluster: &Cluster,
    objects: impl Iterator<Item = &ObjectRef>,
    options: &Options,
    progress: Teller<'_>,
) -> Result<()> {
    let Options { wait, timeout, wait_rules, .. } = *options;
    if wait == Wait::HooksOnly {
        return Ok(());
    }
    let kinds = cluster.kinds().await?;
    let mut groups: BTreeMap<(Gvk, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for object in objects {
        let watchable = kinds.get(&object.gvk).is_some_and(|r| r.watchable);
        let skipped = object.gvk.kind == "Job" && wait == Wait::Ready;
        let judged =
            has_readiness(&object.gvk) && (wait_rules == WaitRules::Status || is_built_in(&object.gvk));
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
            waiting.insert(object, "not seen yet".to_owned());
        }
        streams.push(events.map(move |event| (gvk.clone(), event)));
    }
    let mut events = stream::select_all(streams);
    let done = async {
        while !waiting.is_empty() {
            let Some((gvk, event)) = events.next().await else { return Ok(()) };
            let ObjectEvent::Present(object) = event? else { continue };
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().unwrap_or_default();
            let reference = ObjectRef::new(gvk, metadata["namespace"].as_str(), name);
            let Some(state) = waiting.get_mut(&reference) else { continue };
            match judge(&object) {
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
                Readiness::Failed(reason) => {
                    return Err(EngineError::NotReady { object: reference.to_string(), reason });
                }
            }
        }
        Ok(())
    };
    match tokio::time::timeout(timeout, done).await {
        Ok(done) => done,
        Err(_) => {
            let left: Vec<String> =
                waiting.iter().map(|(object, reason)| format!("{object}: {reason}")).collect();
            Err(EngineError::Timeout { what: left.join("; "), seconds: timeout.as_secs() })
        }
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
pub(crate) async fn one_ready(cluster: &Cluster, object: &ObjectRef, timeout: Duration) -> Result<()> {
    let mut state = "not seen yet".to_owned();
    let done = async {
        let mut events = cluster.follow(&object.gvk, object.namespace.as_deref(), &object.name).await?;
        while let Some(event) = events.next().await {
            match event? {
                ObjectEvent::Present(live) => match judge_run(&live) {
                    Readiness::Ready => return Ok(()),
                    Readiness::Waiting(reason) => state = reason,
                    Readiness::Failed(reason) => {
                        return Err(EngineError::NotReady { object: object.to_string(), reason });
                    }
                },
                ObjectEvent::Gone(_) => {
                    let reason = "it was deleted while it was waited for".to_owned();
                    return Err(EngineError::NotReady { object: object.to_string(), reason });
                }
                ObjectEvent::Listing | ObjectEvent::Listed => {}
            }
        }
        Ok(())
    };
    match tokio::time::timeout(timeout, done).await {
        Ok(done) => done,
        Err(_) => {
            let what = format!("{object}: {state}");
            Err(EngineError::Timeout { what, seconds: timeout.as_secs() })
        }
    }
}

/// Hooks run to their end: a Pod that is merely ready is not through.
fn judge_run(live: &Value) -> Readiness {
    let running =
        live["kind"] == "Pod" && !matches!(live["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if running { Readiness::Waiting("the Pod is running".to_owned()) } else { judge(live) }
}
