//! Flux's event: its JSON, and how it is made of a Kubernetes Event and its object. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use windlass_cluster::{Gvk, ObjectMeta, api_time};
use windlass_controller::{EventNote, EventType};

/// Prefix of annotations that are copied from an object to its events.
pub(super) const EVENT_GROUP: &str = "event.toolkit.fluxcd.io/";
/// Longest message, in characters.
const MAX_MESSAGE: usize = 39_000;
/// API groups of the objects that have events, with the controller that reports them.
const CONTROLLERS: [(&str, &str); 2] =
    [("helm.toolkit.fluxcd.io", "helm-controller"), ("source.toolkit.fluxcd.io", "source-controller")];

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something happened as intended.
    Info,
    /// Something failed.
    Error,
}

impl Severity {
    /// Its name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

/// The object that an event is about, as a Kubernetes `ObjectReference`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InvolvedObject {
    /// Kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// UID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// API version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Resource version at the time of the event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

impl InvolvedObject {
    /// The API group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// A key of the metadata, as the controller of the object has it: `GROUP/KEY`.
    #[must_use]
    pub fn metadata_key(&self, key: &str) -> String {
        format!("{}/{key}", self.group())
    }

    /// `kind/name.namespace`, as messages to people begin.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}/{}.{}", self.kind.to_lowercase(), self.name, self.namespace)
    }
}

/// `Kind/namespace/name`.
impl std::fmt::Display for InvolvedObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// An event as Flux's controllers send it. The order of the fields is that of the JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FluxEvent {
    /// The object that it is about.
    pub involved_object: InvolvedObject,
    /// How bad it is.
    pub severity: Severity,
    /// When it was recorded, in RFC 3339.
    pub timestamp: String,
    /// For people.
    pub message: String,
    /// Why, as a word for programs.
    pub reason: String,
    /// More for programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The controller that reports it.
    pub reporting_controller: String,
    /// The process that reports it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reporting_instance: String,
}

impl FluxEvent {
    /// The event of a note on an object as the API server answered it. `None`: the object is none of Flux's.
    #[must_use]
    pub fn of(object: &Value, note: &EventNote, instance: &str, now: jiff::Timestamp) -> Option<Self> {
        let (gvk, meta) = (Gvk::of(object)?, ObjectMeta::of(object));
        let involved_object = InvolvedObject {
            api_version: gvk.api_version(),
            kind: gvk.kind,
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            name: meta.name().to_owned(),
            uid: meta.uid().to_owned(),
            resource_version: meta.resource_version().to_owned(),
        };
        let group = involved_object.group();
        let (_, controller) = CONTROLLERS.into_iter().find(|(known, _)| *known == group)?;
        let mut metadata = note.annotations.clone();
        let own = meta.annotations().filter(|(key, _)| key.starts_with(EVENT_GROUP));
        metadata.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
        Some(Self {
            severity: match note.event_type {
                EventType::Normal | EventType::Trace => Severity::Info,
                EventType::Warning => Severity::Error,
            },
            timestamp: api_time(now),
            message: note.note.chars().take(MAX_MESSAGE).collect(),
            reason: note.reason.to_owned(),
            metadata,
            reporting_controller: controller.to_owned(),
            reporting_instance: instance.to_owned(),
            involved_object,
        })
    }

    /// About how many bytes of memory it takes.
    pub(super) fn memory(&self) -> usize {
        let object = &self.involved_object;
        let texts = [
            &object.kind,
            &object.namespace,
            &object.name,
            &object.uid,
            &object.api_version,
            &object.resource_version,
            &self.timestamp,
            &self.message,
            &self.reason,
            &self.reporting_controller,
            &self.reporting_instance,
        ];
        size_of::<Self>()
            + texts.map(String::capacity).into_iter().sum::<usize>()
            + memory_of_texts(&self.metadata)
    }

    /// The JSON, to the byte as Go writes it: receivers check signatures of it.
    #[must_use]
    pub fn json(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        let mut out = String::with_capacity(text.len());
        // These characters stand in strings only.
        for c in text.chars() {
            match c {
                '<' => out.push_str("\\u003c"),
                '>' => out.push_str("\\u003e"),
                '&' => out.push_str("\\u0026"),
                '\u{2028}' => out.push_str("\\u2028"),
                '\u{2029}' => out.push_str("\\u2029"),
                c => out.push(c),
            }
        }
        out
    }
}

/// About how many bytes of memory texts by key take.
pub(super) fn memory_of_texts(texts: &BTreeMap<String, String>) -> usize {
    // Nodes of a map are half full, at least.
    let entry = 2 * size_of::<(String, String)>();
    texts.iter().map(|(key, value)| entry + key.capacity() + value.capacity()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn note(event_type: EventType) -> EventNote {
        EventNote {
            event_type,
            reason: "UpgradeFailed",
            action: "Reconcile",
            note: "it <failed>".to_owned(),
            annotations: [("helm.toolkit.fluxcd.io/revision".to_owned(), "1.0.0".to_owned())].into(),
        }
    }

    #[test]
    fn an_event_tells_of_its_object() {
        let object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "annotations": {"event.toolkit.fluxcd.io/commit": "c", "other": "x"},
            },
        });
        let at = jiff::Timestamp::from_second(1_767_323_045).unwrap();
        let event = FluxEvent::of(&object, &note(EventType::Warning), "pod-0", at).unwrap();
        assert_eq!(
            event.json(),
            "{\"involvedObject\":{\"kind\":\"HelmRelease\",\"namespace\":\"n\",\"name\":\"a\",\"uid\":\"u\",\
             \"apiVersion\":\"helm.toolkit.fluxcd.io/v2\",\"resourceVersion\":\"7\"},\"severity\":\"error\",\
             \"timestamp\":\"2026-01-02T03:04:05Z\",\"message\":\"it \\u003cfailed\\u003e\",\"reason\":\"UpgradeFailed\",\
             \"metadata\":{\"event.toolkit.fluxcd.io/commit\":\"c\",\"helm.toolkit.fluxcd.io/revision\":\"1.0.0\"},\
             \"reportingController\":\"helm-controller\",\"reportingInstance\":\"pod-0\"}"
        );
        let mut source = object.clone();
        source["apiVersion"] = "source.toolkit.fluxcd.io/v1".into();
        let event = FluxEvent::of(&source, &note(EventType::Normal), "", at).unwrap();
        assert_eq!(
            (event.severity, event.reporting_controller.as_str()),
            (Severity::Info, "source-controller")
        );
        let mut other = object;
        other["apiVersion"] = "v1".into();
        assert_eq!(FluxEvent::of(&other, &note(EventType::Normal), "", at), None);
    }
}
