//! Watches of what a release was made of beside its chart: lookups of templates, ConfigMaps and Secrets that values refer to.
//!
//! Owns the watches of one key. What a changed answer leads to is the controller's.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use windlass_base::namespace_places::NamespacePlaces;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectEvent};
use windlass_render::lookup_digest;
use windlass_render::replay::LookupQuery;

/// How many answers of a key are watched; a chart that looks up more objects one by one is rendered again for the first ones.
const MAX_WATCHED: usize = 50;

/// Changes within this time are one: a list can change many times a second.
const PAUSE: Duration = Duration::from_millis(500);

/// After this time a watch that could not begin is tried again; sooner if other kinds are served.
const RETRY: Duration = Duration::from_secs(30);

/// How many answers are read again at a time, of all keys: they are whole objects, and one change may concern the answers of many keys.
const READ_AT_ONCE: usize = 4;

/// How many of them are those of keys of one namespace.
const READ_OF_NAMESPACE: usize = READ_AT_ONCE / 2;

/// How long one of them may be read: the server of a tenant does not keep the places from others.
const READ_TIME: Duration = Duration::from_secs(60);

/// The places of this process.
static PLACES: LazyLock<NamespacePlaces> =
    LazyLock::new(|| NamespacePlaces::new(READ_AT_ONCE, READ_OF_NAMESPACE));

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
                until_changed(&cluster, &key, &query, &digest).await;
                // The receiver is gone when the controller stops.
                drop(outdated.send(key));
            });
        }
        Self { _tasks: tasks }
    }
}

/// The namespace of a key, of which its places are; empty for one without.
fn namespace_of(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Whether the answer still has its digest; it has its place until its digest is made. A watch is in no pass, and makes no text of what it
/// sees: it adds no secret to any set.
async fn is_current(
    cluster: &Cluster,
    key: &str,
    query: &LookupQuery,
    digest: &str,
) -> Result<bool, ClusterError> {
    let _place = PLACES.take(namespace_of(key)).await;
    match tokio::time::timeout(READ_TIME, lookup_digest(cluster, query)).await {
        Ok(found) => Ok(found? == digest),
        Err(_) => {
            let request = format!("lookup of {}", query.kind);
            Err(ClusterError::Timeout { request, seconds: READ_TIME.as_secs() })
        }
    }
}

async fn until_changed(cluster: &Cluster, key: &str, query: &LookupQuery, digest: &str) {
    let mut kinds = cluster.kind_changes();
    loop {
        match follow(cluster, key, query, digest).await {
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
        if matches!(is_current(cluster, key, query, digest).await, Ok(false)) {
            return;
        }
    }
}

/// Returns when the answer has changed.
async fn follow(cluster: &Cluster, key: &str, query: &LookupQuery, digest: &str) -> Result<(), ClusterError> {
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
        if !is_current(cluster, key, query, digest).await? {
            return Ok(());
        }
        if query.name.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_namespace_of_a_key() {
        assert_eq!([namespace_of("a/web"), namespace_of("module")], ["a", ""]);
    }
}
