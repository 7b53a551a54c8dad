//! The lock of a release: a Lease that its holder renews.
//!
//! Its holder may treat pending records of ours as abandoned. Helm does not know the Lease; its pending records are
//! judged by their age.

use crate::{
    engine::Engine,
    engine_state::OperationGuard,
    error::{EngineError, Result},
    lock::{
        holder_identity::{self, HolderToken},
        lock_policy::{self, Claim, LeaseView},
    },
    record::StoredRecord,
    report::operation_progress::OperationProgress,
    request::ReleaseId,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{time::Duration, time::Instant};
use windlass_cluster::{
    Cluster, ClusterError, DeleteOptions, Gvk, HeldLease, LEASE_MANAGER, ObjectRef, Pace, Propagation,
    SettledPace, lease_body, lease_duration, lease_holder,
};

const PACE: Pace = Pace {
    renew: Duration::from_secs(5),
    deadline: lock_policy::LEASE_DURATION,
    unanswered: lock_policy::LEASE_DURATION,
    // An operation that waits for readiness: 250 of them are 12 writes a second, in place of 50.
    settled: Some(SettledPace {
        after: Duration::from_secs(30),
        renew: Duration::from_secs(20),
        lasts: Duration::from_secs(60),
    }),
};
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A held lock. Dropped without a release it stays until it expires, or until its holder has provably exited.
pub(crate) struct ReleaseLease {
    cluster: Cluster,
    object: ObjectRef,
    /// Proves that this process is alive as long as the token exists.
    token: HolderToken,
    held: HeldLease,
}

/// The state of a lock.
pub(crate) enum LeaseState {
    /// Free, or its holder has crashed.
    Free,
    Held(LeaseHolder),
    /// Leases cannot be read, or the kind is not served.
    Inaccessible,
}

/// The holder of a lock.
#[derive(Debug, Clone)]
pub(crate) struct LeaseHolder {
    pub(crate) lease: String,
    pub(crate) by: String,
}

impl From<LeaseHolder> for EngineError {
    fn from(LeaseHolder { lease, by }: LeaseHolder) -> Self {
        Self::Held { lease, by }
    }
}

/// The Lease of a release, beside its records.
fn reference(id: &ReleaseId, namespace: &str) -> ObjectRef {
    let name = format!("windlass-{}", id.name);
    ObjectRef::new(Gvk::new("coordination.k8s.io/v1", "Lease"), Some(namespace), &name)
}

fn holder(object: &ObjectRef, found: &Value) -> LeaseHolder {
    LeaseHolder { lease: object.name.clone(), by: holder_identity::holder_of(lease_holder(found)).to_owned() }
}

fn body(object: &ObjectRef, token: &str, owner: &Value, old: Option<&Value>) -> Value {
    let mut lease = lease_body(object, token, lock_policy::LEASE_DURATION, old);
    if !owner.is_null() {
        lease["metadata"]["ownerReferences"] = json!([owner]);
    }
    lease
}

/// A Lease under observation: its `spec` as last seen, since when, and whether it changed.
#[derive(Default)]
struct LeaseObserver {
    spec: Value,
    since: Option<Instant>,
    renewing: bool,
}

impl LeaseObserver {
    /// Takes the Lease as it was read, and judges it.
    fn judge(&mut self, found: &Value) -> Claim {
        let spec = &found["spec"];
        let since = match self.since {
            Some(since) if self.spec == *spec => since,
            before => {
                self.renewing = before.is_some();
                self.spec = spec.clone();
                *self.since.insert(Instant::now())
            }
        };
        let holder = lease_holder(found);
        let view = LeaseView {
            held: !holder.is_empty(),
            gone: holder_identity::is_gone(holder),
            renewed: spec["renewTime"].as_str().and_then(|t| t.parse().ok()),
            duration: lease_duration(found).unwrap_or(lock_policy::LEASE_DURATION),
            observed: since.elapsed(),
            renewing: self.renewing,
        };
        lock_policy::claim(&view, Timestamp::now())
    }
}

impl Engine {
    /// Locks a release. `None`: Leases are not accessible, and the pending record is the only lock. A Lease whose
    /// holder may have crashed is observed until that is certain; a live holder is an error that names it. The newest
    /// record owns the Lease, so that a Lease left by a crash is deleted with the release.
    pub(crate) async fn lock(
        &self,
        id: &ReleaseId,
        take: bool,
        newest: Option<&StoredRecord>,
    ) -> Result<Option<ReleaseLease>> {
        let object = reference(id, self.storage_namespace_of(id));
        let owner = newest.map_or(Value::Null, |newest| {
            let record = self.store().reference(id, newest.record.version);
            json!({"apiVersion": record.gvk.api_version(), "kind": record.gvk.kind, "name": record.name,
                "uid": newest.uid})
        });
        let token = HolderToken::new(&self.options.holder);
        let mut watched = LeaseObserver::default();
        loop {
            let fresh = body(&object, token.as_str(), &owner, None);
            let unanswered = match self.record_client().create(&object, &fresh, LEASE_MANAGER).await {
                Ok(created) => return Ok(Some(self.hold(object, token, created))),
                Err(e) if e.is_already_exists() => None,
                // The write of the record reports it better.
                Err(e) if e.is_not_found() || e.is_terminating() => return Ok(None),
                Err(e) if e.is_forbidden() || matches!(e, ClusterError::NoKind(_)) => {
                    let text = format!("{e}: no Lease can be acquired; the pending record is the only lock");
                    tracing::warn!(release = %id, "{text}");
                    self.progress_of(id).report(&OperationProgress::Warning(&text));
                    return Ok(None);
                }
                Err(e) if e.is_transient() => Some(e),
                Err(e) => return Err(e.into()),
            };
            let found = match (self.record_client().get(&object).await?, unanswered) {
                // Our own write, whose answer was lost.
                (Some(found), _) if lease_holder(&found) == token.as_str() => {
                    return Ok(Some(self.hold(object, token, found)));
                }
                (Some(found), _) => found,
                (None, Some(error)) => return Err(error.into()),
                (None, None) => continue,
            };
            match watched.judge(&found) {
                Claim::Held if !take => {
                    return Err(holder(&object, &found).into());
                }
                Claim::Doubtful if !take => tokio::time::sleep(POLL_INTERVAL).await,
                Claim::Free | Claim::Held | Claim::Doubtful => {
                    let taken = body(&object, token.as_str(), &owner, Some(&found));
                    match self.record_client().replace(&object, &taken, LEASE_MANAGER).await {
                        Ok(written) => return Ok(Some(self.hold(object, token, written))),
                        // Another process was faster: read the Lease again.
                        Err(e) if e.is_conflict() || e.is_not_found() => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
        }
    }

    /// The holder of a release's lock, if it is certainly alive. One read, no write.
    pub(crate) async fn holder_of(&self, id: &ReleaseId) -> Result<Option<LeaseHolder>> {
        let object = reference(id, self.storage_namespace_of(id));
        let found = match self.record_client().get(&object).await {
            Ok(found) => found,
            Err(e) if e.is_forbidden() || matches!(e, ClusterError::NoKind(_)) => None,
            Err(e) => return Err(e.into()),
        };
        let held = found.filter(|found| LeaseObserver::default().judge(found) == Claim::Held);
        Ok(held.map(|found| holder(&object, &found)))
    }

    /// The state of a release's lock. Writes nothing; a Lease whose holder may have crashed is observed until that is
    /// certain.
    pub(crate) async fn lease_state(&self, id: &ReleaseId) -> Result<LeaseState> {
        let object = reference(id, self.storage_namespace_of(id));
        let mut watched = LeaseObserver::default();
        loop {
            let found = match self.record_client().get(&object).await {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(LeaseState::Free),
                Err(e) if e.is_forbidden() || matches!(e, ClusterError::NoKind(_)) => {
                    return Ok(LeaseState::Inaccessible);
                }
                Err(e) => return Err(e.into()),
            };
            match watched.judge(&found) {
                Claim::Free => return Ok(LeaseState::Free),
                Claim::Held => return Ok(LeaseState::Held(holder(&object, &found))),
                Claim::Doubtful => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Releases a lock and admits the next operation. A long-running engine does so in the background: only the next
    /// operation on this release waits for it, and [`Engine::settle`].
    pub(crate) async fn release_lease(&self, lease: Option<ReleaseLease>, busy: OperationGuard) {
        let Some(lease) = lease else { return };
        let work = async move {
            lease.release().await;
            drop(busy);
        };
        if self.options.watch { self.state.spawn_background(work) } else { work.await }
    }

    /// Waits until all released locks are deleted from the server.
    pub async fn settle(&self) {
        self.state.settle().await;
    }

    fn hold(&self, object: ObjectRef, token: HolderToken, written: Value) -> ReleaseLease {
        let held = HeldLease::keep(self.record_client().clone(), object.clone(), written, PACE);
        ReleaseLease { cluster: self.record_client().clone(), object, token, held }
    }
}

/// Ends when a held lock is lost.
pub(crate) async fn lost(lease: Option<&ReleaseLease>) {
    match lease {
        Some(lease) => lease.held.lost().await,
        None => std::future::pending().await,
    }
}

impl ReleaseLease {
    /// Deletes the Lease. Waits for the server at most until the Lease would expire.
    pub(crate) async fn release(self) {
        let lease = self.held.end().await;
        let options = DeleteOptions {
            propagation: Propagation::Background,
            version: lease["metadata"]["resourceVersion"].as_str(),
            ..DeleteOptions::default()
        };
        let error = match tokio::time::timeout(
            lock_policy::LEASE_DURATION,
            self.cluster.delete(&self.object, options),
        )
        .await
        {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {}s", lock_policy::LEASE_DURATION.as_secs()),
        };
        tracing::debug!(lease = %self.object, token = self.token.as_str(), error, "the Lease was not deleted and expires by itself");
    }
}
