//! The lock of a release: a Lease that its holder renews.
//!
//! Its holder may treat pending records of ours as abandoned. Helm does not know the Lease; its pending records are
//! judged by their age.

use crate::{
    context::Context,
    error::{EngineError, Result},
    lock::{
        holder_identity::{self, HolderToken},
        lock_policy::{self, Claim, LeaseView},
    },
    progress::operation_progress::OperationProgress,
    record::StoredRecord,
    request::ReleaseId,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{time::Duration, time::Instant};
use windlass_cluster::{
    Cluster, ClusterError, DeleteOptions, Gvk, HeldLease, LEASE_MANAGER, ObjectMeta, ObjectRef, Pace,
    Propagation, SettledPace, lease_body, lease_duration, lease_holder,
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

/// The lock of an operation.
#[derive(Default)]
pub(crate) enum Lock {
    /// Not acquired: nothing is written yet, or the namespace does not exist.
    #[default]
    Open,
    Held(ReleaseLease),
    /// No Lease can be acquired: the pending record is the only lock.
    PendingRecord,
}

impl Lock {
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, Self::Held(_))
    }

    /// Ends when a held lock is lost.
    pub(crate) async fn lost(&self) {
        match self {
            Self::Held(lease) => lease.held.lost().await,
            Self::Open | Self::PendingRecord => std::future::pending().await,
        }
    }
}

/// The state of a Lease, as it is read.
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

/// The place of a release's lock.
pub(crate) struct LockPlace<'a> {
    context: &'a Context,
    id: &'a ReleaseId,
    object: ObjectRef,
}

impl<'a> LockPlace<'a> {
    pub(crate) fn new(context: &'a Context, id: &'a ReleaseId) -> Self {
        Self { context, id, object: reference(id, context.storage_namespace_of(id)) }
    }

    /// Locks a release. A Lease whose holder may have crashed is observed until that is certain; a live holder is an error that names
    /// it, unless its lock is to be broken. The newest record owns the Lease, so that a Lease left by a crash is deleted with the release.
    pub(crate) async fn acquire(&self, break_lock: bool, newest: Option<&StoredRecord>) -> Result<Lock> {
        let Self { context, id, object } = self;
        let client = context.record_client();
        let owner = newest.map_or(Value::Null, |newest| {
            let record = context.store().reference(id, newest.record.version);
            json!({"apiVersion": record.gvk.api_version(), "kind": record.gvk.kind, "name": record.name,
                "uid": newest.uid})
        });
        let token = HolderToken::new(&context.options.holder);
        let mut watched = LeaseObserver::default();
        loop {
            let fresh = body(object, token.as_str(), &owner, None);
            let unanswered = match client.create(object, &fresh, LEASE_MANAGER).await {
                Ok(created) => return Ok(self.hold(token, created)),
                Err(e) if e.is_already_exists() => None,
                // The write of the record reports it better.
                Err(e) if e.is_not_found() || e.is_terminating() => return Ok(Lock::Open),
                Err(e) if e.is_forbidden() || matches!(e, ClusterError::NoKind(_)) => {
                    let text = format!("{e}: no Lease can be acquired; the pending record is the only lock");
                    tracing::warn!(release = %id, "{text}");
                    context.progress_of(id).report(&OperationProgress::Warning(&text));
                    return Ok(Lock::PendingRecord);
                }
                Err(e) if e.is_transient() => Some(e),
                Err(e) => return Err(e.into()),
            };
            let found = match (client.get(object).await?, unanswered) {
                // Our own write, whose answer was lost.
                (Some(found), _) if lease_holder(&found) == token.as_str() => {
                    return Ok(self.hold(token, found));
                }
                (Some(found), _) => found,
                (None, Some(error)) => return Err(error.into()),
                (None, None) => continue,
            };
            match watched.judge(&found) {
                Claim::Held if !break_lock => return Err(holder(object, &found).into()),
                Claim::Doubtful if !break_lock => tokio::time::sleep(POLL_INTERVAL).await,
                Claim::Free | Claim::Held | Claim::Doubtful => {
                    let taken = body(object, token.as_str(), &owner, Some(&found));
                    match client.replace(object, &taken, LEASE_MANAGER).await {
                        Ok(written) => return Ok(self.hold(token, written)),
                        // Another process was faster: read the Lease again.
                        Err(e) if e.is_conflict() || e.is_not_found() => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
        }
    }

    /// The holder of the lock, if it is certainly alive. One read, no write.
    pub(crate) async fn holder(&self) -> Result<Option<LeaseHolder>> {
        let found = match self.context.record_client().get(&self.object).await {
            Ok(found) => found,
            Err(e) if e.is_forbidden() || matches!(e, ClusterError::NoKind(_)) => None,
            Err(e) => return Err(e.into()),
        };
        let held = found.filter(|found| LeaseObserver::default().judge(found) == Claim::Held);
        Ok(held.map(|found| holder(&self.object, &found)))
    }

    /// The state of the lock. Writes nothing; a Lease whose holder may have crashed is observed until that is certain.
    pub(crate) async fn state(&self) -> Result<LeaseState> {
        let mut watched = LeaseObserver::default();
        loop {
            let found = match self.context.record_client().get(&self.object).await {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(LeaseState::Free),
                Err(e) if e.is_forbidden() || matches!(e, ClusterError::NoKind(_)) => {
                    return Ok(LeaseState::Inaccessible);
                }
                Err(e) => return Err(e.into()),
            };
            match watched.judge(&found) {
                Claim::Free => return Ok(LeaseState::Free),
                Claim::Held => return Ok(LeaseState::Held(holder(&self.object, &found))),
                Claim::Doubtful => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    fn hold(&self, token: HolderToken, written: Value) -> Lock {
        let (cluster, object) = (self.context.record_client().clone(), self.object.clone());
        let held = HeldLease::keep(cluster.clone(), object.clone(), written, PACE);
        Lock::Held(ReleaseLease { cluster, object, token, held })
    }
}

impl ReleaseLease {
    /// Deletes the Lease. Waits for the server at most until the Lease would expire.
    pub(crate) async fn release(self) {
        let lease = self.held.end().await;
        let options = DeleteOptions {
            propagation: Propagation::Background,
            version: Some(ObjectMeta::of(&lease).resource_version()),
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
