//! Which HelmChart has deployed which release in this process, and which ones wait for it.
//!
//! Owns what is known without reading records: whose a release is, the mark of its newest record says.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use windlass_controller::{BusyRelease, BusyReleases, ReconcileError};
use windlass_engine::{Disposition, ReleaseId};

/// The releases of HelmCharts, by the keys of their objects (`NAMESPACE/NAME`).
pub(crate) struct ReleaseOwners {
    /// Who has deployed a release last.
    deployed: Mutex<BTreeMap<ReleaseId, String>>,
    /// Objects whose release belongs to another one.
    refused: Mutex<BTreeMap<String, ReleaseId>>,
    busy: BusyReleases,
    requests: UnboundedSender<String>,
    requested: tokio::sync::Mutex<UnboundedReceiver<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for ReleaseOwners {
    fn default() -> Self {
        let (requests, requested) = unbounded_channel();
        Self {
            deployed: Mutex::default(),
            refused: Mutex::default(),
            busy: BusyReleases::default(),
            requests,
            requested: tokio::sync::Mutex::new(requested),
        }
    }
}

impl ReleaseOwners {
    /// Begins to work on a release: what its newest record says holds until the result is dropped.
    ///
    /// # Errors
    /// A pass over another object works on it.
    pub(crate) fn begin(&self, release: &ReleaseId) -> Result<BusyRelease, ReconcileError> {
        self.busy.begin(release).ok_or_else(|| ReconcileError::Reason {
            reason: "ReleaseBusy",
            text: format!("a pass over another HelmChart works on release {release}"),
            disposition: Disposition::Wait,
        })
    }

    /// Whether an object was the last one that deployed a release.
    pub(crate) fn has(&self, release: &ReleaseId, key: &str) -> bool {
        lock(&self.deployed).get(release).is_some_and(|owner| owner == key)
    }

    /// Notes that an object deployed a release.
    pub(crate) fn note_deployed(&self, release: &ReleaseId, key: &str) {
        lock(&self.refused).remove(key);
        let mut deployed = lock(&self.deployed);
        deployed.retain(|known, owner| owner != key || known == release);
        deployed.insert(release.clone(), key.to_owned());
    }

    /// Refuses an object its release: it is reconciled again when the owner is gone.
    pub(crate) fn refuse(&self, release: &ReleaseId, key: &str, owner: &str) -> ReconcileError {
        lock(&self.refused).insert(key.to_owned(), release.clone());
        ReconcileError::Config(format!("release {release} belongs to {owner}: choose another name"))
    }

    /// Forgets an object that is gone, and requests those that wait for its release.
    pub(crate) fn forget(&self, key: &str) {
        let mut refused = lock(&self.refused);
        refused.remove(key);
        lock(&self.deployed).retain(|release, owner| {
            let stays = owner != key;
            for (other, _) in refused.iter().filter(|(_, wanted)| !stays && *wanted == release) {
                // The receiver is this object's own.
                drop(self.requests.send(other.clone()));
            }
            stays
        });
    }

    /// The next object whose release has become free.
    pub(crate) async fn next_request(&self) -> String {
        match self.requested.lock().await.recv().await {
            Some(key) => key,
            // The sender is this object's own.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_release_has_one_owner_and_is_free_when_that_is_gone() {
        let owners = ReleaseOwners::default();
        let (web, other) = (ReleaseId::new("shop", "web"), ReleaseId::new("ops", "web"));
        assert!(!owners.has(&web, "a/web"));
        owners.note_deployed(&web, "a/web");
        assert!(owners.has(&web, "a/web") && !owners.has(&web, "b/web"));
        let text = owners.refuse(&web, "b/web", "another HelmChart").to_string();
        assert_eq!(text, "release shop/web belongs to another HelmChart: choose another name");
        owners.refuse(&other, "c/web", "another HelmChart");
        owners.forget("c/other");
        owners.forget("a/web");
        assert_eq!(owners.next_request().await, "b/web");
        assert!(owners.requested.lock().await.try_recv().is_err(), "c/web waits for another release");
        // One that moves leaves its former release to others.
        owners.note_deployed(&web, "b/web");
        owners.note_deployed(&other, "b/web");
        assert!(owners.has(&other, "b/web") && !owners.has(&web, "b/web"));
    }
}
