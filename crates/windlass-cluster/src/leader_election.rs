//! Leader election: one active process of several.
//!
//! As client-go's `leaderelection` over a Lease, and compatible with it: a Lease that has not changed for its
//! duration by our own clock is free, whatever its times are; a leader that stops releases it, and the next one takes
//! it at once.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use serde_json::Value;

use super::error::Result;
use super::lease::{self, HeldLease, MANAGER, Pace, holder};
use super::object_ref::{Gvk, ObjectRef};
use super::object_stream::ObjectEvent;
use super::{Cluster, ClusterError};

/// Lease duration: when its holder is killed, another process works within 20 s. An API server that is down for longer is no reason to
/// change leaders: nobody else can take the Lease meanwhile.
pub const LEASE_DURATION: Duration = Duration::from_secs(17);
/// Renew interval and deadline.
const PACE: Pace = Pace {
    renew: Duration::from_secs(2),
    deadline: Duration::from_secs(15),
    unanswered: Duration::from_secs(35),
    settled: None,
};
/// Pause after a failed attempt to take the Lease.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// A candidate.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Name of this process, different from all others'.
    pub identity: String,
    /// A process that has ended, if one is known: its Lease is free.
    pub gone: Option<String>,
}

/// The held Lease. Dropped without [`Leadership::resign`] it stays until it expires.
pub struct Leadership {
    cluster: Cluster,
    object: ObjectRef,
    identity: String,
    held: HeldLease,
    /// Whose Lease had expired when it was taken.
    predecessor: Option<String>,
}

impl Cluster {
    /// Waits until this process is the leader; `follow` gets each other leader's name, once.
    ///
    /// # Errors
    /// Leases cannot be read or written.
    pub async fn lead(&self, election: &Election, mut follow: impl FnMut(&str)) -> Result<Leadership> {
        let gvk = Gvk::new("coordination.k8s.io/v1", "Lease");
        let object = ObjectRef::new(gvk, Some(&election.namespace), &election.name);
        let mut events = self.follow(&object.gvk, object.namespace.as_deref(), &object.name).await?;
        // The Lease, and since when it is unchanged.
        let mut seen: Option<(Value, Instant)> = None;
        let mut listed = false;
        let mut leader = String::new();
        let mut refused: Option<Instant> = None;
        loop {
            let holder = seen.as_ref().map(|(lease, _)| holder(lease).to_owned()).unwrap_or_default();
            // Its own duration counts, as with client-go: another program's may be longer than ours.
            let left = seen.as_ref().map_or(Duration::ZERO, |(lease, since)| {
                lease::duration(lease).unwrap_or(LEASE_DURATION).saturating_sub(since.elapsed())
            });
            let own = holder.is_empty() || holder == election.identity;
            let gone = election.gone.as_ref() == Some(&holder);
            if listed && (own || gone || left.is_zero()) {
                match self.take(&object, &election.identity, seen.as_ref().map(|(lease, _)| lease)).await {
                    Ok(lease) => {
                        let predecessor = (!own).then_some(holder);
                        let held = HeldLease::keep(self.clone(), object.clone(), lease, PACE);
                        let (cluster, identity) = (self.clone(), election.identity.clone());
                        return Ok(Leadership { cluster, object, identity, held, predecessor });
                    }
                    // Another process was faster; the watch names it.
                    Err(e) if e.is_conflict() || e.is_already_exists() || e.is_not_found() => {}
                    Err(error) => {
                        // A server that has just started may not know any rights yet.
                        let since = *refused.get_or_insert_with(Instant::now);
                        if !error.is_transient() && since.elapsed() >= LEASE_DURATION {
                            return Err(error);
                        }
                        tracing::warn!(lease = %object, %error, "cannot acquire the leader's Lease; retrying");
                        // While the server was down its leader could not renew: its time starts over.
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
            // The answer to a write may be lost without an event: try again.
            let expiry = if listed { left } else { RETRY_PAUSE };
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
        let lease = lease::body(object, identity, LEASE_DURATION, old);
        match old {
            Some(_) => self.replace(object, &lease, MANAGER).await,
            None => self.create(object, &lease, MANAGER).await,
        }
    }
}

impl Leadership {
    /// The process whose Lease this one has taken: it has ended, since a leader ends when it cannot renew its Lease in time.
    #[must_use]
    pub fn predecessor(&self) -> Option<&str> {
        self.predecessor.as_deref()
    }

    /// Ends when leadership is lost; the leader's work must end at once then.
    pub async fn lost(&self) {
        self.held.lost().await;
    }

    /// Releases the Lease, so that another process takes it at once.
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
            tracing::warn!(lease = %self.object, %error, "the leader's Lease was not released and expires by itself");
        }
    }
}
