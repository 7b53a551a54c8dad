//! A held Lease: renewed while it is needed, with a notification of its loss.
//!
//! Owns the object's shape and the renewals; who may take a Lease, and what its holder does, is the users' part. A
//! server that is down for a while loses no Lease: renewals are retried until the deadline, each attempt with a
//! limit, so that one missing answer does not use up all the time.

use super::api_client::Cluster;
use super::error::ClusterError;
use super::object_ref::ObjectRef;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Field manager of Leases.
pub const MANAGER: &str = "windlass";
/// Time limit of one renewal.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Renew interval and deadline of a Lease.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Renew interval.
    pub renew: Duration,
    /// Time after the last renewal at which it counts as lost. Shorter than the time after which others take it.
    pub deadline: Duration,
    /// The same while the server does not answer at all: what it does not answer it does not carry out for us either.
    pub unanswered: Duration,
    /// For a Lease that is held for long.
    pub settled: Option<SettledPace>,
}

/// The pace of a Lease that has been held for a while: hundreds of them must not keep the API server busy.
#[derive(Clone, Copy, Debug)]
pub struct SettledPace {
    /// How long it is held before.
    pub after: Duration,
    /// Renew interval.
    pub renew: Duration,
    /// Duration of the Lease, and the deadline of renewals.
    pub lasts: Duration,
}

/// A Lease that is being renewed. Dropped, it stays until it expires.
pub struct HeldLease {
    stop: watch::Sender<bool>,
    lost: watch::Receiver<bool>,
    task: Option<JoinHandle<Value>>,
}

/// The body of a Lease; `old` is the one that it replaces.
pub fn body(object: &ObjectRef, holder: &str, lasts: Duration, old: Option<&Value>) -> Value {
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

/// The holder of a Lease; empty: nobody.
pub fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// The duration of a Lease, as its holder wrote it.
pub fn duration(lease: &Value) -> Option<Duration> {
    lease["spec"]["leaseDurationSeconds"].as_u64().map(Duration::from_secs)
}

impl HeldLease {
    /// Renews a Lease that was just written.
    pub fn keep(cluster: Cluster, object: ObjectRef, lease: Value, pace: Pace) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (tell, lost) = watch::channel(false);
        let beat = Heartbeat {
            cluster,
            object,
            lease,
            pace,
            stopped,
            since: Instant::now(),
            renewals: Renewals::new(Instant::now()),
            absent: false,
            unanswered: false,
            failure: String::new(),
        };
        let task = tokio::spawn(async move {
            let (lease, stopped) = beat.run().await;
            tell.send_replace(!stopped);
            lease
        });
        Self { stop, lost, task: Some(task) }
    }

    /// Ends when the Lease is lost.
    pub async fn lost(&self) {
        if self.lost.clone().wait_for(|lost| *lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Stops the renewals after the current one; returns the last known Lease.
    pub async fn end(mut self) -> Value {
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
    /// Since when it is held.
    since: Instant,
    renewals: Renewals,
    /// The last read found no Lease.
    absent: bool,
    /// The last attempt got no answer.
    unanswered: bool,
    /// Why the last attempt failed: it is said once.
    failure: String,
}

/// When a Lease was renewed. An attempt without an answer may have been carried out.
#[derive(Debug)]
struct Renewals {
    /// Start of the last attempt that is known to have been carried out.
    last: Instant,
    /// The times that later attempts wrote, and their starts.
    unanswered: Vec<(String, Instant)>,
}

impl Renewals {
    fn new(last: Instant) -> Self {
        Self { last, unanswered: Vec::new() }
    }

    fn begin(&mut self, written: String, at: Instant) {
        self.unanswered.push((written, at));
    }

    /// Notes the time in the Lease, as it was read: the attempt that wrote it was carried out.
    fn found(&mut self, written: &str) {
        if let Some(place) = self.unanswered.iter().position(|(time, _)| time == written) {
            self.last = self.unanswered[place].1;
            self.unanswered.drain(..=place);
        }
    }
}

impl Heartbeat {
    /// Returns the Lease, and whether it was stopped; otherwise the Lease is lost.
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

    /// Logs a failure if the attempt before did not fail for the same reason.
    fn say(&mut self, failure: String) {
        if self.failure != failure {
            tracing::warn!(lease = %self.object, "cannot renew a Lease: {failure}; retrying");
            self.failure = failure;
        }
    }

    fn left(&self) -> Duration {
        let deadline = if self.unanswered { self.pace.unanswered } else { self.pace.deadline };
        deadline.saturating_sub(self.renewals.last.elapsed())
    }

    /// One attempt; `false`: another process has the Lease.
    async fn renew(&mut self, pause: &mut Duration) -> bool {
        *pause = RETRY_PAUSE;
        let began = Instant::now();
        let bound = ATTEMPT_TIMEOUT.min(self.left());
        let settled = self.pace.settled.filter(|settled| self.since.elapsed() >= settled.after);
        if let Some(settled) = settled {
            self.lease["spec"]["leaseDurationSeconds"] = settled.lasts.as_secs().into();
        }
        let stamp = micro_time();
        self.lease["spec"]["renewTime"] = stamp.as_str().into();
        self.renewals.begin(stamp, began);
        let written = self.cluster.replace(&self.object, &self.lease, MANAGER);
        let answer = tokio::time::timeout(bound, written).await;
        self.unanswered = !matches!(answer, Ok(Ok(_) | Err(ClusterError::Api(_))));
        match answer {
            Ok(Ok(written)) => {
                self.lease = written;
                self.renewals = Renewals::new(began);
                self.absent = false;
                self.failure.clear();
                if let Some(SettledPace { renew, lasts, .. }) = settled {
                    self.pace = Pace { renew, deadline: lasts, unanswered: lasts, settled: None };
                }
                *pause = self.pace.renew;
                true
            }
            // Taken over, deleted, or our own write, whose answer was lost.
            Ok(Err(error)) if error.is_conflict() || error.is_not_found() => {
                let found = self.cluster.get(&self.object);
                match tokio::time::timeout(ATTEMPT_TIMEOUT.min(self.left()), found).await {
                    Ok(Ok(Some(found))) if holder(&found) == holder(&self.lease) => {
                        self.renewals.found(found["spec"]["renewTime"].as_str().unwrap_or_default());
                        self.lease = found;
                    }
                    Ok(Ok(Some(_))) => return false,
                    // A server that has just started may serve the kind a moment later.
                    Ok(Ok(None)) if std::mem::replace(&mut self.absent, true) => return false,
                    Ok(_) | Err(_) => {}
                }
                true
            }
            Ok(Err(error)) => {
                self.say(error.to_string());
                true
            }
            Err(_) => {
                self.say("no answer".to_owned());
                true
            }
        }
    }
}

fn micro_time() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_counts_whose_answer_was_lost() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        for (found, last) in [("none of ours", 0), ("first", 5), ("second", 9)] {
            let mut renewals = Renewals::new(begin);
            renewals.begin("first".to_owned(), at(5));
            renewals.begin("second".to_owned(), at(9));
            renewals.found(found);
            assert_eq!(renewals.last, at(last), "{found}");
            // A late copy of an older answer changes nothing.
            renewals.found("first");
            assert_eq!(renewals.last, at(last.max(5)), "{found}");
        }
    }
}
