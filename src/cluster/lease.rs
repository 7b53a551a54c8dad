//! A Lease that is ours: renewed as long as its holder lives, and told of at once when it is lost.
//!
//! Owns the object's shape and the beat; who may take a Lease, and what being its holder means, is its users'. A server that is
//! not there for a while loses nobody a Lease: renewing is tried again and again until the deadline, each try bounded, so that
//! one answer that never comes does not cost all of the time.

use super::api_client::Cluster;
use super::object_ref::ObjectRef;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Field manager of Leases.
pub(crate) const MANAGER: &str = "windlass";
/// How long one try to renew may take.
const TRY: Duration = Duration::from_secs(5);
/// The pause after a try that failed.
const AGAIN: Duration = Duration::from_millis(500);

/// How a Lease is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How often it is renewed.
    pub(crate) renew: Duration,
    /// How long after the last time that it was renewed it counts as lost. Less than others wait before they take it.
    pub(crate) deadline: Duration,
}

/// A Lease that is being renewed. Dropped, it stays taken until it has run out.
pub(crate) struct HeldLease {
    stop: watch::Sender<bool>,
    lost: watch::Receiver<bool>,
    task: Option<JoinHandle<Value>>,
}

/// A Lease as it is to be written: `old` is the one that it takes the place of.
pub(crate) fn body(object: &ObjectRef, holder: &str, lasts: Duration, old: Option<&Value>) -> Value {
    let now = micro_time();
    let transitions = old.map_or(0, |o| o["spec"]["leaseTransitions"].as_i64().unwrap_or(0) + 1);
    let mut lease = json!({
        "apiVersion": object.gvk.api_version(),
        "kind": object.gvk.kind,
        "metadata": {"name": object.name, "namespace": object.namespace},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": lasts.as_secs(),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        },
    });
    if let Some(old) = old {
        lease["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    }
    lease
}

/// Who holds a Lease; empty: nobody.
pub(crate) fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// How long a Lease holds without a renewal, as its holder wrote it.
pub(crate) fn duration(lease: &Value) -> Option<Duration> {
    lease["spec"]["leaseDurationSeconds"].as_u64().map(Duration::from_secs)
}

impl HeldLease {
    /// Keeps a Lease that was written just now.
    pub(crate) fn keep(cluster: Cluster, object: ObjectRef, lease: Value, pace: Pace) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (tell, lost) = watch::channel(false);
        let beat = Heartbeat { cluster, object, lease, pace, stopped, last: Instant::now(), absent: false };
        let task = tokio::spawn(async move {
            let (lease, stopped) = beat.run().await;
            tell.send_replace(!stopped);
            lease
        });
        Self { stop, lost, task: Some(task) }
    }

    /// Ends when the Lease is lost.
    pub(crate) async fn lost(&self) {
        if self.lost.clone().wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Renews it no more, once a try that is under way has ended; gives the Lease as it was last known.
    pub(crate) async fn end(mut self) -> Value {
        self.stop.send_replace(true);
        match self.task.take() {
            Some(task) => task.await.unwrap_or_default(),
            None => Value::Null,
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

struct Heartbeat {
    cluster: Cluster,
    object: ObjectRef,
    lease: Value,
    pace: Pace,
    stopped: watch::Receiver<bool>,
    /// When the last try that worked began.
    last: Instant,
    /// The last look found no Lease.
    absent: bool,
}

impl Heartbeat {
    /// Gives the Lease, and whether it was told to stop; otherwise the Lease is lost.
    async fn run(mut self) -> (Value, bool) {
        let mut pause = self.pace.renew;
        loop {
            let left = self.left();
            tokio::select! {
                _ = self.stopped.wait_for(|stop| *stop) => return (self.lease, true),
                () = tokio::time::sleep(pause.min(left)) => {}
            }
            if self.left().is_zero() || !self.renew(&mut pause).await {
                return (self.lease, false);
            }
        }
    }

    fn left(&self) -> Duration {
        self.pace.deadline.saturating_sub(self.last.elapsed())
    }

    /// Tries once; `false`: the Lease is another's.
    async fn renew(&mut self, pause: &mut Duration) -> bool {
        *pause = AGAIN;
        let began = Instant::now();
        let bound = TRY.min(self.left());
        self.lease["spec"]["renewTime"] = micro_time().into();
        let written = self.cluster.replace(&self.object, &self.lease, MANAGER);
        match tokio::time::timeout(bound, written).await {
            Ok(Ok(written)) => {
                self.lease = written;
                self.last = began;
                self.absent = false;
                *pause = self.pace.renew;
                true
            }
            // Taken, deleted, or a write of ours whose answer was lost.
            Ok(Err(error)) if error.is_conflict() || error.is_not_found() => {
                let found = self.cluster.get(&self.object);
                match tokio::time::timeout(TRY.min(self.left()), found).await {
                    Ok(Ok(Some(found))) if holder(&found) == holder(&self.lease) => self.lease = found,
                    Ok(Ok(Some(_))) => return false,
                    // A server that has just started may know the kind a moment later than the path.
                    Ok(Ok(None)) if std::mem::replace(&mut self.absent, true) => return false,
                    Ok(_) | Err(_) => {}
                }
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(lease = %self.object, %error, "a Lease could not be renewed; it is tried again");
                true
            }
            Err(_) => {
                tracing::warn!(lease = %self.object, after_s = bound.as_secs_f32(), "no answer to the renewal of a Lease");
                true
            }
        }
    }
}

fn micro_time() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
