//! Keeps discovery current: it is read after each change of a CustomResourceDefinition or an APIService.
//!
//! Owns when discovery is read again. What a new kind leads to is decided by those who wait for it
//! ([`Cluster::kind_changes`]). Where the watch of the definitions is forbidden, a kind that is missing is looked up at each use.

use std::time::{Duration, Instant};

use super::api_client::Cluster;
use super::metadata_cache::Watches;
use super::object_ref::Gvk;

/// Pauses before the reads after a change: the server shows a new kind in discovery a moment after its definition.
const READS_AFTER: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1000),
    Duration::from_millis(2500),
];

/// The kinds that define kinds.
const DEFINITIONS: [(&str, &str); 2] =
    [("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("apiregistration.k8s.io/v1", "APIService")];

/// The reads of discovery after changes; they end when this is dropped.
pub struct KindWatch {
    reader: tokio::task::JoinHandle<()>,
}

impl Drop for KindWatch {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl KindWatch {
    /// Watches the definitions with `watches`, whose listener calls [`Cluster::note_definition_change`].
    #[must_use]
    pub fn start(cluster: Cluster, watches: Watches) -> Self {
        Self { reader: tokio::spawn(keep_current(cluster, watches)) }
    }
}

/// Reads discovery some times after each change; a change in between starts anew.
async fn keep_current(cluster: Cluster, watches: Watches) {
    watches.watch(DEFINITIONS.map(|(api_version, kind)| (Gvk::new(api_version, kind), None))).await;
    loop {
        cluster.discovery().definitions.notified().await;
        let mut reads = 0;
        while let Some(pause) = READS_AFTER.get(reads) {
            tokio::select! {
                () = tokio::time::sleep(*pause) => reads += 1,
                () = cluster.discovery().definitions.notified() => {
                    // Many definitions at once still get a read each half second.
                    reads = reads.min(1);
                    tokio::time::sleep(*pause).await;
                }
            }
            if let Err(error) = cluster.refresh_kinds(Instant::now()).await {
                tracing::debug!("discovery cannot be read: {error}");
            }
        }
    }
}
