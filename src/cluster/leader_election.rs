//! Leader election: one process of several works, the others wait to take its place.
//!
//! As client-go's `leaderelection` over a Lease, so that both can share one: a Lease that has not changed for its duration by
//! our own clock is free, whatever its times say; a leader that stops lets it go, and the next one has it at once.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::Value;

use super::error::Result;
use super::lease::{self, HeldLease, MANAGER, Pace, holder};
use super::object_ref::{Gvk, ObjectRef};
use super::object_stream::ObjectEvent;
use super::{Cluster, ClusterError};

/// How long a leader that says nothing stays the leader. The times are the peer's, not client-go's 15 s and 10 s: an API
/// server that is started anew is away for longer than those, and that is no reason to change leaders.
const LEASE: Duration = Duration::from_secs(35);
/// How often it renews, and how long it goes on when it cannot.
const PACE: Pace = Pace { renew: Duration::from_secs(3), deadline: Duration::from_secs(30) };
/// The pause after a try to take the Lease that failed.
const AGAIN: Duration = Duration::from_secs(2);

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
    held: HeldLease,
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
        let mut refused: Option<Instant> = None;
        loop {
            let holder = seen.as_ref().map(|(lease, _)| holder(lease).to_owned()).unwrap_or_default();
            // Its own duration counts, as with client-go: another program's may be longer than ours.
            let left = seen.as_ref().map_or(Duration::ZERO, |(lease, since)| {
                lease::duration(lease).unwrap_or(LEASE).saturating_sub(since.elapsed())
            });
            if listed && (holder.is_empty() || holder == election.identity || left.is_zero()) {
                match self.take(&object, &election.identity, seen.as_ref().map(|(lease, _)| lease)).await {
                    Ok(lease) => return Ok(self.hold(object, election.identity.clone(), lease)),
                    // Another one was faster; the watch tells who.
                    Err(e) if e.is_conflict() || e.is_already_exists() || e.is_not_found() => {}
                    Err(error) => {
                        // A server that has just started may know no rights yet.
                        let since = *refused.get_or_insert_with(Instant::now);
                        if !error.is_transient() && since.elapsed() >= LEASE {
                            return Err(error);
                        }
                        tracing::warn!(lease = %object, %error, "the leader's Lease could not be taken; it is tried again");
                        // While the server was away its leader could not renew: its time begins anew.
                        seen = seen.map(|(lease, _)| (lease, Instant::now()));
                    }
                }
                listed = false;
            } else if listed {
                refused = None;
                if leader != holder {
                    follow(&holder);
                    leader = holder;
                }
            }
            // The answer of a write that was lost may be all that happened: without an event it is tried again.
            let expiry = if listed { left } else { AGAIN };
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(ObjectEvent::Listing)) => {}
                    Some(Ok(ObjectEvent::Present(lease))) => {
                        seen = Some((lease, Instant::now()));
                        listed = true;
                    }
                    Some(Ok(ObjectEvent::Gone(_))) => {
                        seen = None;
                        listed = true;
                    }
                    Some(Ok(ObjectEvent::Listed)) => listed = true,
                    Some(Err(e)) => return Err(e),
                    None => return Err(ClusterError::Other("the watch of the Lease ended".to_owned())),
                },
                () = tokio::time::sleep(expiry) => listed = true,
            }
        }
    }

    async fn take(&self, object: &ObjectRef, identity: &str, old: Option<&Value>) -> Result<Value> {
        let lease = lease::body(object, identity, LEASE, old);
        match old {
            Some(_) => self.replace(object, &lease, MANAGER).await,
            None => self.create(object, &lease, MANAGER).await,
        }
    }

    fn hold(&self, object: ObjectRef, identity: String, lease: Value) -> Leadership {
        let held = HeldLease::keep(self.clone(), object.clone(), lease, PACE);
        Leadership { cluster: self.clone(), object, identity, held }
    }
}

impl Leadership {
    /// Ends when the office is lost; what a leader does must end at once then.
    pub async fn lost(&self) {
        self.held.lost().await;
    }

    /// Lets the office go, so that another process has it at once.
    pub async fn resign(self) {
        self.held.end().await;
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
