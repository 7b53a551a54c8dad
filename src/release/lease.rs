//! The lock of a release: a Lease that is renewed as long as its holder lives.
//!
//! Whoever has it may take pending records of ours for abandoned. Helm knows nothing of it; its pending records are
//! judged by their age.

use super::{
    engine::Engine,
    error::{EngineError, Result},
    lock::{self, Claim, LeaseView},
    process::{self, Token},
    record::Stored,
    request::ReleaseId,
};
use crate::cluster::{Cluster, ClusterError, DeleteOptions, Gvk, ObjectRef, Propagation};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration, time::Instant};
use tokio::sync::{Mutex, watch};

const MANAGER: &str = "windlass";
const RENEW: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);

/// A lock that is held. Dropped without being let go it stays until it expires, or until someone proves that its holder
/// is gone.
pub(super) struct Lease {
    cluster: Cluster,
    object: ObjectRef,
    token: Token,
    /// Version of the object as we last wrote it.
    version: Arc<Mutex<String>>,
    lost: watch::Receiver<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn reference(id: &ReleaseId) -> ObjectRef {
    let name = format!("windlass-{}", id.name);
    ObjectRef::new(Gvk::new("coordination.k8s.io/v1", "Lease"), Some(&id.namespace), &name)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn micro(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

fn body(object: &ObjectRef, token: &str, owner: &Value, old: Option<&Value>) -> Value {
    let now = micro(Timestamp::now());
    let transitions = old.map_or(0, |o| o["spec"]["leaseTransitions"].as_i64().unwrap_or(0) + 1);
    let mut lease = json!({
        "apiVersion": object.gvk.api_version(), "kind": object.gvk.kind,
        "metadata": {"name": object.name, "namespace": object.namespace},
        "spec": {"holderIdentity": token, "leaseDurationSeconds": lock::LEASE.as_secs(), "acquireTime": now,
            "renewTime": now, "leaseTransitions": transitions},
    });
    if !owner.is_null() {
        lease["metadata"]["ownerReferences"] = json!([owner]);
    }
    if let Some(old) = old {
        lease["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    }
    lease
}

impl Engine {
    /// Locks a release. `None`: Leases are out of our reach, and the pending record has to do. A lock that may be dead is
    /// watched until that is known; one whose holder lives is an error that names it. It belongs to the newest record, so
    /// that what a dead process leaves of it goes with the release.
    pub(super) async fn lock(
        &self,
        id: &ReleaseId,
        take: bool,
        newest: Option<&Stored>,
    ) -> Result<Option<Lease>> {
        let object = reference(id);
        let owner = newest.map_or(Value::Null, |newest| {
            let record = self.options.storage.reference(id, newest.record.version);
            json!({"apiVersion": record.gvk.api_version(), "kind": record.gvk.kind, "name": record.name,
                "uid": newest.uid})
        });
        let token = Token::new(&self.options.holder);
        let mut observed: Option<(String, Instant)> = None;
        loop {
            let fresh = body(&object, token.as_str(), &owner, None);
            let written = match self.keeper.create(&object, &fresh, MANAGER).await {
                Ok(created) => Some(created),
                Err(e) if e.is_already_exists() => None,
                // The record's own write will tell it better.
                Err(e) if e.is_not_found() || e.is_terminating() => return Ok(None),
                Err(e) if e.is_forbidden() || matches!(e, ClusterError::NoKind(_)) => {
                    tracing::warn!(release = %id, error = %e, "no Lease can be taken: the pending record alone is the lock");
                    return Ok(None);
                }
                Err(e) => return Err(e.into()),
            };
            if let Some(written) = written {
                return Ok(Some(self.hold(object, token, &written)));
            }
            let Some(found) = self.keeper.get(&object).await? else { continue };
            let version = text(&found["metadata"]["resourceVersion"]);
            let since = match &observed {
                Some((seen, since)) if *seen == version => *since,
                _ => {
                    let now = Instant::now();
                    observed = Some((version, now));
                    now
                }
            };
            let holder = text(&found["spec"]["holderIdentity"]);
            let view = LeaseView {
                held: !holder.is_empty(),
                gone: process::is_gone(&holder),
                renewed: found["spec"]["renewTime"].as_str().and_then(|t| t.parse().ok()),
                observed: since.elapsed(),
            };
            match lock::claim(&view, Timestamp::now()) {
                Claim::Held if !take => {
                    return Err(EngineError::Held {
                        lease: object.name,
                        by: process::holder_of(&holder).to_owned(),
                    });
                }
                Claim::Doubtful if !take => tokio::time::sleep(LOOK).await,
                Claim::Free | Claim::Held | Claim::Doubtful => {
                    let taken = body(&object, token.as_str(), &owner, Some(&found));
                    match self.keeper.replace(&object, &taken, MANAGER).await {
                        Ok(written) => return Ok(Some(self.hold(object, token, &written))),
                        // Someone was faster: look again.
                        Err(e) if e.is_conflict() || e.is_not_found() => {}
                        Err(e) => return Err(e.into()),
                    }
                }
            }
        }
    }

    fn hold(&self, object: ObjectRef, token: Token, written: &Value) -> Lease {
        let version = Arc::new(Mutex::new(text(&written["metadata"]["resourceVersion"])));
        let (tell, lost) = watch::channel(false);
        let beat = Heartbeat {
            cluster: self.keeper.clone(),
            object: object.clone(),
            token: token.as_str().to_owned(),
            version: Arc::clone(&version),
            lease: written.clone(),
        };
        let task = tokio::spawn(async move {
            beat.run().await;
            tell.send_replace(true);
        });
        Lease { cluster: self.keeper.clone(), object, token, version, lost, task }
    }
}

impl Lease {
    /// Ends when the lock is no longer ours.
    pub(super) async fn lost(&self) {
        if self.lost.clone().wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Lets the lock go.
    pub(super) async fn release(self) {
        self.task.abort();
        let version = self.version.lock().await.clone();
        let options = DeleteOptions {
            propagation: Propagation::Background,
            version: Some(&version),
            ..DeleteOptions::default()
        };
        if let Err(error) = self.cluster.delete(&self.object, options).await {
            tracing::debug!(lease = %self.object, token = self.token.as_str(), %error, "the lock expires by itself");
        }
    }
}

/// Renews a Lease until it is lost.
struct Heartbeat {
    cluster: Cluster,
    object: ObjectRef,
    token: String,
    version: Arc<Mutex<String>>,
    lease: Value,
}

impl Heartbeat {
    async fn run(mut self) {
        let mut last = Instant::now();
        loop {
            tokio::time::sleep(RENEW).await;
            // Held over the request, so that letting go knows the version that it made.
            let mut version = self.version.lock().await;
            self.lease["metadata"]["resourceVersion"] = version.as_str().into();
            self.lease["spec"]["renewTime"] = micro(Timestamp::now()).into();
            match self.cluster.replace(&self.object, &self.lease, MANAGER).await {
                Ok(written) => {
                    *version = text(&written["metadata"]["resourceVersion"]);
                    last = Instant::now();
                }
                Err(error) if error.is_conflict() || error.is_not_found() => {
                    // Taken, deleted, or a write of ours whose answer was lost.
                    match self.cluster.get(&self.object).await {
                        Ok(Some(found)) if found["spec"]["holderIdentity"] == self.token.as_str() => {
                            *version = text(&found["metadata"]["resourceVersion"]);
                        }
                        Ok(_) => return,
                        Err(_) => {}
                    }
                }
                Err(error) => tracing::debug!(%error, "the lock could not be renewed"),
            }
            if last.elapsed() > lock::LEASE {
                return;
            }
        }
    }
}
