//! Leader election: one process of several works, the others wait to take its place.
//!
//! As client-go's `leaderelection` over a Lease, so that both can share one: a Lease that has not changed for its duration by
//! our own clock is free, whatever its times say; a leader that stops lets it go, and the next one has it at once.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::error::Result;
use super::refs::{Gvk, ObjectRef};
use super::wait::Event;
use super::{Cluster, ClusterError};

const MANAGER: &str = "windlass";
/// How long a leader that says nothing stays the leader.
const LEASE: Duration = Duration::from_secs(15);
/// How long a leader goes on that cannot renew.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often it renews.
const RENEW: Duration = Duration::from_secs(3);

/// Who stands for election, and for what.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Name of this process, different from all others'.
    pub identity: String,
}

/// The leader's office. Dropped without [`Leadership::resign`] it stays taken until the Lease has run out.
pub struct Leadership {
    cluster: Cluster,
    object: ObjectRef,
    identity: String,
    lost: watch::Receiver<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Cluster {
    /// Waits until this process is the leader; `follow` is told each other leader's name, once.
    ///
    /// # Errors
    /// Leases cannot be read or written.
    pub async fn lead(&self, election: &Election, mut follow: impl FnMut(&str)) -> Result<Leadership> {
        let gvk = Gvk::new("coordination.k8s.io/v1", "Lease");
        let object = ObjectRef::new(gvk, Some(&election.namespace), &election.name);
        let mut events = self.follow(&object.gvk, object.namespace.as_deref(), &object.name).await?;
        // The Lease, and since when it has been as it is.
        let mut seen: Option<(Value, Instant)> = None;
        let mut listed = false;
        let mut leader = String::new();
        loop {
            let holder = seen.as_ref().map(|(lease, _)| holder(lease).to_owned()).unwrap_or_default();
            let left =
                seen.as_ref().map_or(Duration::ZERO, |(_, since)| LEASE.saturating_sub(since.elapsed()));
            if listed && (holder.is_empty() || holder == election.identity || left.is_zero()) {
                match self.take(&object, &election.identity, seen.as_ref().map(|(lease, _)| lease)).await {
                    Ok(lease) => return Ok(self.hold(object, election.identity.clone(), lease)),
                    // Another one was faster; the watch tells who.
                    Err(e) if e.is_conflict() || e.is_already_exists() || e.is_not_found() => listed = false,
                    Err(e) => return Err(e),
                }
            } else if listed && leader != holder {
                follow(&holder);
                leader = holder;
            }
            let expiry = async {
                match listed {
                    true => tokio::time::sleep(left).await,
                    // The answer of a write that was lost may be all that happened.
                    false => tokio::time::sleep(LEASE).await,
                }
            };
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(Event::Listing)) => {}
                    Some(Ok(Event::Present(lease))) => {
                        seen = Some((lease, Instant::now()));
                        listed = true;
                    }
                    Some(Ok(Event::Gone(_))) => {
                        seen = None;
                        listed = true;
                    }
                    Some(Ok(Event::Listed)) => listed = true,
                    Some(Err(e)) => return Err(e),
                    None => return Err(ClusterError::Config("the watch of the Lease ended".to_owned())),
                },
                () = expiry => listed = true,
            }
        }
    }

    async fn take(&self, object: &ObjectRef, identity: &str, old: Option<&Value>) -> Result<Value> {
        let now = micro_time();
        let transitions = old.and_then(|o| o["spec"]["leaseTransitions"].as_i64());
        let mut lease = json!({
            "apiVersion": object.gvk.api_version(),
            "kind": object.gvk.kind,
            "metadata": {"name": object.name, "namespace": object.namespace},
            "spec": {
                "holderIdentity": identity,
                "leaseDurationSeconds": LEASE.as_secs(),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": transitions.map_or(0, |n| n + 1),
            },
        });
        match old {
            Some(old) => {
                lease["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
                self.replace(object, &lease, MANAGER).await
            }
            None => self.create(object, &lease, MANAGER).await,
        }
    }

    fn hold(&self, object: ObjectRef, identity: String, lease: Value) -> Leadership {
        let (tell, lost) = watch::channel(false);
        let (cluster, kept) = (self.clone(), object.clone());
        let task = tokio::spawn(async move {
            cluster.renew(&kept, lease).await;
            tell.send_replace(true);
        });
        Leadership { cluster: self.clone(), object, identity, lost, task }
    }

    /// Renews the Lease until it is another's or could not be renewed for too long.
    async fn renew(&self, object: &ObjectRef, mut lease: Value) {
        let mut renewed = Instant::now();
        let identity = holder(&lease).to_owned();
        while renewed.elapsed() < DEADLINE {
            tokio::time::sleep(RENEW).await;
            lease["spec"]["renewTime"] = micro_time().into();
            let left = DEADLINE.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.replace(object, &lease, MANAGER)).await {
                Ok(Ok(written)) => {
                    lease = written;
                    renewed = Instant::now();
                }
                Ok(Err(e)) if e.is_conflict() => match self.get(object).await {
                    Ok(Some(found)) if holder(&found) == identity => lease = found,
                    Ok(_) => return,
                    Err(_) => {}
                },
                Ok(Err(e)) if e.is_not_found() => return,
                Ok(Err(error)) => {
                    tracing::warn!(lease = %object, %error, "the leader's Lease could not be renewed");
                }
                Err(_) => return,
            }
        }
    }
}

impl Leadership {
    /// Ends when the office is lost; what a leader does must end at once then.
    pub async fn lost(&self) {
        if self.lost.clone().wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Lets the office go, so that another process has it at once.
    pub async fn resign(self) {
        self.task.abort();
        let resigned = async {
            let Some(mut lease) = self.cluster.get(&self.object).await? else { return Ok(()) };
            if holder(&lease) == self.identity {
                lease["spec"]["holderIdentity"] = "".into();
                lease["spec"]["leaseDurationSeconds"] = 1.into();
                self.cluster.replace(&self.object, &lease, MANAGER).await?;
            }
            Ok::<(), ClusterError>(())
        };
        if let Err(error) = resigned.await {
            tracing::warn!(lease = %self.object, %error, "the leader's Lease has to run out");
        }
    }
}

fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

fn micro_time() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
