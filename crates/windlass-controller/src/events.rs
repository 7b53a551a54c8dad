//! Events of Kubernetes, as `kubectl describe` shows them.
//!
//! Owns their form, the masking of secrets in them, and their deduplication: an Event that is recorded again within
//! [`SERIES`] counts up instead of becoming a new object, as with client-go's recorder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::STATUS_MANAGER;
use super::conditions::shortened;
use windlass_base::redact::{self, SecretScope};
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef, PatchKind, api_now, api_time};

/// Longest note of an Event that an API server accepts, in bytes.
const MAX_NOTE: usize = 1024;
/// Longest name that an Event takes from its object: a suffix follows.
const MAX_NAME: usize = 220;
/// The same Event within this time is one Event with a higher count.
const SERIES: Duration = Duration::from_secs(600);
/// How many Events are remembered for that.
const MAX_REMEMBERED: usize = 4096;

/// What kind of news an Event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// Something happened as intended.
    Normal,
    /// Something needs attention.
    Warning,
    /// A detail of the work, for people who look at the object: as with Flux's controllers it is a normal Event that is sent nowhere.
    Trace,
}

impl EventType {
    fn name(self) -> &'static str {
        match self {
            Self::Normal | Self::Trace => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an Event says.
#[derive(Clone, Debug)]
pub struct EventNote {
    /// How it counts.
    pub event_type: EventType,
    /// One CamelCase word.
    pub reason: &'static str,
    /// What was being done, one CamelCase word.
    pub action: &'static str,
    /// The message. Secrets are masked here: those of the running scope, which is that of the object. Without a scope none is, so that
    /// nobody learns by a mask what another one's Secrets say.
    pub note: String,
    /// What programs read of it: annotations of the Event.
    pub annotations: BTreeMap<String, String>,
}

/// Gets the Events that are recorded on custom resources, beside the API server.
pub trait EventSink: Send + Sync {
    /// Takes an Event on an object as the API server answered it, with its whole note, secrets masked. Returns at once.
    fn take(&self, object: &Value, note: &EventNote);
}

/// Which Events are the same one: involved object, reason and note.
type SeriesKey = (String, EventType, &'static str, String);

/// An Event that was written.
struct Series {
    event: ObjectRef,
    count: u64,
    last: Instant,
}

/// Writes Events. Clones share what they remember.
#[derive(Clone)]
pub struct EventRecorder {
    client: Cluster,
    series: Arc<Mutex<BTreeMap<SeriesKey, Series>>>,
    sink: Option<Arc<dyn EventSink>>,
}

impl EventRecorder {
    /// A recorder that writes through a client.
    #[must_use]
    pub fn new(client: Cluster) -> Self {
        Self { client, series: Arc::default(), sink: None }
    }

    /// The same recorder, whose Events on custom resources go to a sink as well.
    #[must_use]
    pub fn with_sink(&self, sink: Arc<dyn EventSink>) -> Self {
        Self { sink: Some(sink), ..self.clone() }
    }

    /// Records a Warning on an object of a release, in the background.
    pub fn warn_object(&self, object: &ObjectRef, reason: &'static str, note: String) {
        let mut involved = json!({
            "apiVersion": object.gvk.api_version(), "kind": object.gvk.kind, "name": object.name,
        });
        if let Some(namespace) = &object.namespace {
            involved["namespace"] = namespace.as_str().into();
        }
        let annotations = BTreeMap::new();
        self.spawn(
            involved,
            EventNote { event_type: EventType::Warning, reason, action: "Watch", note, annotations },
        );
    }

    /// Records an Event on an object of which only name and UID are at hand, in the background.
    pub fn spawn_named(&self, reference: &ObjectRef, uid: &str, note: EventNote) {
        let object = json!({
            "apiVersion": reference.gvk.api_version(), "kind": reference.gvk.kind,
            "metadata": {"name": reference.name, "namespace": reference.namespace, "uid": uid},
        });
        self.spawn_for(&object, note);
    }

    /// Records an Event on an object as the API server answered it, in the background.
    pub fn spawn_for(&self, object: &Value, mut note: EventNote) {
        if let Some(sink) = self.sink.as_ref().filter(|_| note.event_type != EventType::Trace) {
            note.note = SecretScope::current_or_empty().run(|| redact::mask(&note.note).into_owned());
            sink.take(object, &note);
        }
        self.spawn(involved_object(object), note);
    }

    /// Records an Event on an object as the API server answered it.
    pub async fn record(&self, object: &Value, note: EventNote) {
        SecretScope::current_or_empty().run_async(self.write(involved_object(object), note)).await;
    }

    fn spawn(&self, involved: Value, note: EventNote) {
        let recorder = self.clone();
        let write = async move { recorder.write(involved, note).await };
        tokio::spawn(SecretScope::current_or_empty().run_async(write));
    }

    /// A failure is logged: nothing depends on an Event.
    async fn write(&self, involved: Value, mut note: EventNote) {
        note.note = shortened(&redact::mask(&note.note), MAX_NOTE);
        let identity = ["apiVersion", "kind", "namespace", "name", "uid"]
            .map(|field| involved[field].as_str().unwrap_or_default())
            .join("/");
        let key = (identity, note.event_type, note.reason, note.note.clone());
        if let Some((event, count)) = self.counted(&key) {
            match self.count_up(&event, count).await {
                Ok(()) => return,
                // The Event has expired.
                Err(e) if e.is_not_found() => {}
                Err(error) => return tracing::warn!(%error, "cannot update an Event"),
            }
        }
        match self.create(&involved, &note).await {
            Ok(event) => self.remember(key, event),
            Err(error) => tracing::warn!(%error, "cannot write an Event"),
        }
    }

    /// The Event that a note belongs to, and its next count.
    fn counted(&self, key: &SeriesKey) -> Option<(ObjectRef, u64)> {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        let known = series.get_mut(key).filter(|known| known.last.elapsed() < SERIES)?;
        known.count += 1;
        known.last = Instant::now();
        Some((known.event.clone(), known.count))
    }

    fn remember(&self, key: SeriesKey, event: ObjectRef) {
        let mut series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
        if series.len() >= MAX_REMEMBERED {
            series.retain(|_, known| known.last.elapsed() < SERIES);
        }
        if series.len() < MAX_REMEMBERED {
            series.insert(key, Series { event, count: 1, last: Instant::now() });
        }
    }

    async fn count_up(&self, event: &ObjectRef, count: u64) -> Result<(), ClusterError> {
        let now = api_now();
        let patch = json!({"count": count, "lastTimestamp": now});
        self.client.patch_subresource(event, "", PatchKind::Merge, &patch, STATUS_MANAGER).await.map(drop)
    }

    async fn create(&self, involved: &Value, note: &EventNote) -> Result<ObjectRef, ClusterError> {
        // Events of cluster-scoped objects live in this namespace.
        let namespace = involved["namespace"].as_str().unwrap_or("default");
        let now = jiff::Timestamp::now();
        let about: String = involved["name"].as_str().unwrap_or_default().chars().take(MAX_NAME).collect();
        let name = format!("{about}.{:x}", now.as_nanosecond());
        let seconds = api_time(now);
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace, "annotations": note.annotations},
            "involvedObject": involved,
            "type": note.event_type.name(),
            "reason": note.reason,
            "message": note.note,
            "firstTimestamp": seconds,
            "lastTimestamp": seconds,
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "count": 1,
            "action": note.action,
            "reportingComponent": "windlass.dev/operator",
            "reportingInstance": "windlass",
            "source": {"component": "windlass"},
        });
        let event = ObjectRef::new(Gvk::new("v1", "Event"), Some(namespace), &name);
        self.client.create(&event, &body, STATUS_MANAGER).await?;
        Ok(event)
    }
}

/// The reference to an object that an Event is about.
fn involved_object(object: &Value) -> Value {
    let meta = ObjectMeta::of(object);
    let mut involved = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": meta.name(), "uid": meta.uid(),
    });
    let version = Some(meta.resource_version()).filter(|version| !version.is_empty());
    for (field, text) in [("namespace", meta.namespace()), ("resourceVersion", version)] {
        if let Some(text) = text {
            involved[field] = text.into();
        }
    }
    involved
}
