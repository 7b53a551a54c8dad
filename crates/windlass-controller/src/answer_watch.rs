//! Watches of what a release was made of beside its chart: lookups of templates, ConfigMaps and Secrets that values refer to.
//!
//! Owns the watches of one key. What a changed answer leads to is the controller's.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectEvent};
use windlass_render::lookup_digest;
use windlass_render::replay::LookupQuery;

/// How many answers of a key are watched; a chart that looks up more objects one by one is rendered again for the first ones.
const MAX_WATCHED: usize = 50;

/// Changes within this time are one: a list can change many times a second.
const PAUSE: Duration = Duration::from_millis(500);

/// After this time a watch that could not begin is tried again; sooner if other kinds are served.
const RETRY: Duration = Duration::from_secs(30);

/// The watches of one key; they end when this is dropped.
pub(super) struct AnswerWatch {
    _tasks: JoinSet<()>,
}

impl AnswerWatch {
    /// Sends `key` when an answer no longer has its digest.
    pub(super) fn start(
        cluster: &Cluster,
        key: &str,
        lookups: BTreeMap<LookupQuery, String>,
        outdated: &UnboundedSender<String>,
    ) -> Self {
        if lookups.len() > MAX_WATCHED {
            tracing::warn!(
                key,
                lookups = lookups.len(),
                watched = MAX_WATCHED,
                "not all lookups are watched"
            );
        }
        let mut tasks = JoinSet::new();
        for (query, digest) in lookups.into_iter().take(MAX_WATCHED) {
            let (cluster, key, outdated) = (cluster.clone(), key.to_owned(), outdated.clone());
            tasks.spawn(async move {
                until_changed(&cluster, &query, &digest).await;
                // The receiver is gone when the controller stops.
                drop(outdated.send(key));
            });
        }
        Self { _tasks: tasks }
    }
}

/// Whether the answer still has its digest. A watch is in no pass, and makes no text of what it sees: it adds no secret to any set.
async fn is_current(cluster: &Cluster, query: &LookupQuery, digest: &str) -> Result<bool, ClusterError> {
    Ok(lookup_digest(cluster, query).await? == digest)
}

async fn until_changed(cluster: &Cluster, query: &LookupQuery, digest: &str) {
    let mut kinds = cluster.kind_changes();
    loop {
        match follow(cluster, query, digest).await {
            Ok(()) => return,
            Err(error) => {
                let LookupQuery { api_version, kind, namespace, name } = query;
                tracing::debug!(
                    api_version,
                    kind,
                    namespace,
                    name,
                    "cannot watch a looked-up object: {error}"
                );
            }
        }
        // Its kind may be served now.
        drop(tokio::time::timeout(RETRY, kinds.changed()).await);
        if matches!(is_current(cluster, query, digest).await, Ok(false)) {
            return;
        }
    }
}

/// Returns when the answer has changed.
async fn follow(cluster: &Cluster, query: &LookupQuery, digest: &str) -> Result<(), ClusterError> {
    let gvk = Gvk::new(&query.api_version, &query.kind);
    let namespace = Some(query.namespace.as_str()).filter(|n| !n.is_empty());
    let mut events = if query.name.is_empty() {
        cluster.follow_labelled(&gvk, namespace, "").await?.boxed()
    } else {
        cluster.follow(&gvk, namespace, &query.name).await?.boxed()
    };
    let mut listing = false;
    while let Some(event) = events.next().await {
        // Objects of a first list come one by one, and its end tells that they are all there.
        match event? {
            ObjectEvent::Listing => listing = true,
            ObjectEvent::Listed => listing = false,
            ObjectEvent::Present(_) | ObjectEvent::Gone(_) => {}
        }
        if listing {
            continue;
        }
        if !is_current(cluster, query, digest).await? {
            return Ok(());
        }
        if query.name.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
