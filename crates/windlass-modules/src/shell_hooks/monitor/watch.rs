//! The watches behind a binding: one for each namespace and name that it is bound to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::Value;
use tokio::task::JoinSet;

use super::Shared;
use super::state::{Part, State, item_key};
use crate::shell_hooks::config::Namespaces;
use windlass_base::redact;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectEvent, ObjectMeta};

/// After a permanent failure a watch is retried this seldom.
const PAUSE: Duration = Duration::from_secs(5);

/// Runs all watches of a binding for as long as it is watched.
pub(super) async fn all(cluster: Cluster, shared: Arc<Shared>) {
    let namespaces = match &shared.binding.namespaces {
        Namespaces::All => vec![String::new()],
        Namespaces::Named(names) => names.clone(),
        Namespaces::Labelled(labels) => {
            let labels = labels.clone();
            return labelled(cluster, shared, &labels).await;
        }
    };
    let mut tasks = JoinSet::new();
    for namespace in namespaces {
        start(&cluster, &shared, &namespace, &mut tasks);
    }
    shared.state(State::all_parts_are_known);
    shared.listed.notify_waiters();
    while tasks.join_next().await.is_some() {}
}

fn start(cluster: &Cluster, shared: &Arc<Shared>, namespace: &str, tasks: &mut JoinSet<()>) {
    let any = [String::new()];
    let names = if shared.binding.names.is_empty() { &any[..] } else { &shared.binding.names };
    for name in names {
        let part = (namespace.to_owned(), name.clone());
        shared.state(|s| s.add_part(&part));
        tasks.spawn(redact::own(one(cluster.clone(), Arc::clone(shared), part)));
    }
}

/// Watches namespaces, and the objects in each for as long as the selector picks it.
async fn labelled(cluster: Cluster, shared: Arc<Shared>, labels: &str) {
    let gvk = Gvk::new("v1", "Namespace");
    let mut running: BTreeMap<String, JoinSet<()>> = BTreeMap::new();
    loop {
        let mut events = match cluster.follow_labelled(&gvk, None, labels).await {
            Ok(events) => events,
            Err(error) => {
                failed(&shared, &error);
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut seen: Option<BTreeSet<String>> = None;
        while let Some(event) = events.next().await {
            let name = |o: &Value| ObjectMeta::of(o).name().to_owned();
            let mut stop = Vec::new();
            match event {
                Ok(ObjectEvent::Listing) => seen = Some(BTreeSet::new()),
                Ok(ObjectEvent::Present(object)) => {
                    let name = name(&object);
                    if let Some(seen) = &mut seen {
                        seen.insert(name.clone());
                    }
                    running.entry(name.clone()).or_insert_with(|| {
                        let mut tasks = JoinSet::new();
                        start(&cluster, &shared, &name, &mut tasks);
                        tasks
                    });
                }
                Ok(ObjectEvent::Gone(object)) => stop.push(name(&object)),
                Ok(ObjectEvent::Listed) => {
                    let seen = seen.take().unwrap_or_default();
                    stop.extend(running.keys().filter(|n| !seen.contains(*n)).cloned());
                    shared.state(State::all_parts_are_known);
                    shared.listed.notify_waiters();
                }
                Err(error) => {
                    failed(&shared, &error);
                    break;
                }
            }
            for name in stop {
                // Its watches end with it.
                running.remove(&name);
                shared.state(|s| s.remove_namespace(&name));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn failed(shared: &Shared, error: &ClusterError) {
    let kind = if error.is_forbidden() {
        "forbidden"
    } else if error.is_transient() {
        "transient"
    } else {
        "other"
    };
    shared.owner.measures.add("kubernetes_client_watch_errors_total", &[("error_type", kind)], 1.0);
    let text = error.to_string();
    let told_before = shared.state(|s| s.problem.as_deref() == Some(&text));
    if !told_before {
        tracing::warn!(hook = shared.name, "cannot watch {}: {text}", shared.binding.kind);
    }
    shared.state(|s| {
        s.problem = Some(text);
        s.refused = kind != "transient";
    });
    // Whoever waits for the list need not wait any longer to know.
    shared.listed.notify_waiters();
}

async fn one(cluster: Cluster, shared: Arc<Shared>, part: Part) {
    loop {
        match follow(&cluster, &shared, &part).await {
            Ok(()) => {}
            Err(ClusterError::NoKind(_)) => {
                // The kind may belong to the module that waits here: there are no objects until then.
                let events = shared.state(|s| s.listed(&part, &BTreeSet::new()));
                shared.send(events);
                shared.listed.notify_waiters();
            }
            Err(error) => failed(&shared, &error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn follow(cluster: &Cluster, shared: &Shared, part: &Part) -> Result<(), ClusterError> {
    let binding = &shared.binding;
    let gvk = cluster.find_kind(&binding.api_version, &binding.kind).await?;
    let (namespace, name) = part;
    let mut fields = binding.fields.clone();
    if !name.is_empty() {
        let comma = if fields.is_empty() { "" } else { "," };
        fields.push_str(&format!("{comma}metadata.name={name}"));
    }
    let namespace = Some(namespace.as_str()).filter(|n| !n.is_empty());
    let mut events = cluster.follow_selected(&gvk, namespace, &binding.labels, &fields).await?;
    let mut seen = None;
    while let Some(event) = events.next().await {
        match event? {
            ObjectEvent::Listing => seen = Some(BTreeSet::new()),
            ObjectEvent::Present(object) => {
                redact::add_secret(&object);
                let key = item_key(&object);
                if let Some(seen) = &mut seen {
                    seen.insert(key.clone());
                }
                let began = Instant::now();
                let (event, filter) = shared.state(|s| (s.present(part, object), s.filtering.take()));
                shared.measure(began.elapsed(), filter);
                match event {
                    Ok(event) => shared.send(event),
                    Err(error) => {
                        tracing::warn!(
                            hook = shared.name,
                            namespace = key.0,
                            name = key.1,
                            "jqFilter: {error}"
                        );
                    }
                }
            }
            ObjectEvent::Gone(object) => {
                let event = shared.state(|s| s.gone(object));
                shared.send(event);
            }
            ObjectEvent::Listed => {
                let seen = seen.take().unwrap_or_default();
                let events = shared.state(|s| {
                    (s.problem, s.refused) = (None, false);
                    s.listed(part, &seen)
                });
                shared.send(events);
                shared.listed.notify_waiters();
            }
        }
    }
    Ok(())
}
