//! Which objects' events an Alert is for, and what it makes of their metadata. Pure. Its expressions are
//! [`message_filter`](super::message_filter)'s.

use std::collections::{BTreeMap, BTreeSet};

use super::event_queue::QueuedEvent;
use super::flux_event::{EVENT_GROUP, FluxEvent, Severity};
use flux_api::alert::AlertSpec;
use flux_api::common::CrossNamespaceObjectReference;

/// What is wrong with an Alert: reason and text of an Event on it.
pub(super) type Problem = (&'static str, String);

/// Whether an event is for an Alert of a namespace, whatever its message says.
pub(super) fn concerns(namespace: &str, spec: &AlertSpec, queued: &QueuedEvent) -> bool {
    !spec.suspend
        && has_severity(spec, &queued.event)
        && spec.event_sources.iter().any(|source| is_source(namespace, source, queued))
}

fn has_severity(spec: &AlertSpec, event: &FluxEvent) -> bool {
    spec.event_severity != Severity::Error.name() || event.severity == Severity::Error
}

fn is_source(own: &str, source: &CrossNamespaceObjectReference, queued: &QueuedEvent) -> bool {
    let involved = &queued.event.involved_object;
    let namespace = if source.namespace.is_empty() { own } else { &source.namespace };
    involved.namespace == namespace
        && involved.kind == source.kind
        && (source.name == "*" || source.name == involved.name)
        && source.match_labels.iter().all(|(key, value)| queued.labels.get(key) == Some(value))
}

/// The event as receivers of an Alert get it: with the Alert's metadata, and with keys without prefixes. Later sources of a key
/// take precedence: annotations of the object, `eventMetadata`, `summary`, the controller of the object.
pub(super) fn for_alert(event: &FluxEvent, spec: &AlertSpec, problems: &mut Vec<Problem>) -> FluxEvent {
    let group = event.involved_object.metadata_key("");
    let internal = ["token", "digest", "checksum"];
    let stripped = |prefix: String| {
        let keys = event.metadata.iter();
        keys.filter_map(move |(key, value)| Some((key.strip_prefix(&prefix)?.to_owned(), value.clone())))
    };
    let annotations = stripped(EVENT_GROUP.to_owned());
    let own = spec.event_metadata.iter().map(|(key, value)| (key.clone(), value.clone()));
    let summary = (!spec.summary.is_empty()).then(|| ("summary".to_owned(), spec.summary.clone()));
    let controller =
        stripped(group).filter(|(key, _)| !internal.iter().any(|word| key.eq_ignore_ascii_case(word)));
    let (mut metadata, mut conflicts) = (BTreeMap::new(), BTreeSet::new());
    for (key, value) in annotations.chain(own).chain(summary).chain(controller) {
        if metadata.insert(key.clone(), value).is_some() {
            conflicts.insert(key);
        }
    }
    if !conflicts.is_empty() {
        let keys = conflicts.into_iter().collect::<Vec<_>>().join(", ");
        problems.push(("MetadataAppendFailed", format!("metadata key conflicts detected: {keys}")));
    }
    FluxEvent { metadata, ..event.clone() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn queued(change: &Value) -> QueuedEvent {
        let mut event = json!({
            "involvedObject": {
                "kind": "HelmRelease", "namespace": "apps", "name": "web", "apiVersion": "helm.toolkit.fluxcd.io/v2",
            },
            "severity": "info", "timestamp": "", "message": "Helm install succeeded", "reason": "InstallSucceeded",
            "reportingController": "helm-controller",
        });
        for (key, value) in change.as_object().unwrap() {
            event[key] = value.clone();
        }
        QueuedEvent {
            event: Arc::new(serde_json::from_value(event).unwrap()),
            labels: [("team".to_owned(), "a".to_owned()), ("tier".to_owned(), "b".to_owned())].into(),
            _place: None,
        }
    }

    fn alert(spec: &Value) -> AlertSpec {
        let mut whole =
            json!({"providerRef": {"name": "p"}, "eventSources": [{"kind": "HelmRelease", "name": "*"}]});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn sources_and_severities() {
        let info = queued(&json!({}));
        let error = queued(&json!({"severity": "error", "message": "Helm install failed: timeout"}));
        let source = |source: Value| json!({"eventSources": [source]});
        for (spec, of_info, of_error) in [
            (json!({}), true, true),
            (json!({"suspend": true}), false, false),
            (json!({"eventSeverity": "info"}), true, true),
            (json!({"eventSeverity": "error"}), false, true),
            (json!({"eventSources": []}), false, false),
            (source(json!({"kind": "HelmRelease", "name": "web"})), true, true),
            (source(json!({"kind": "HelmRelease", "name": "we"})), false, false),
            (source(json!({"kind": "HelmChart", "name": "*"})), false, false),
            (source(json!({"kind": "HelmRelease", "name": "*", "namespace": "apps"})), true, true),
            (source(json!({"kind": "HelmRelease", "name": "*", "namespace": "other"})), false, false),
            (
                source(
                    json!({"kind": "HelmRelease", "name": "*", "matchLabels": {"team": "a", "tier": "b"}}),
                ),
                true,
                true,
            ),
            (
                source(
                    json!({"kind": "HelmRelease", "name": "*", "matchLabels": {"team": "a", "tier": "c"}}),
                ),
                false,
                false,
            ),
        ] {
            let parsed = alert(&spec);
            assert_eq!(concerns("apps", &parsed, &info), of_info, "{spec}");
            assert_eq!(concerns("apps", &parsed, &error), of_error, "{spec}");
        }
        // Sources without a namespace are those of the Alert's.
        assert!(!concerns("other", &alert(&json!({})), &info));
    }

    #[test]
    fn metadata_has_an_order_of_precedence() {
        let event = queued(&json!({"metadata": {
            "event.toolkit.fluxcd.io/a": "annotation", "event.toolkit.fluxcd.io/b": "annotation",
            "event.toolkit.fluxcd.io/commit": "c",
            "helm.toolkit.fluxcd.io/revision": "1", "helm.toolkit.fluxcd.io/token": "t",
            "helm.toolkit.fluxcd.io/checksum": "s", "helm.toolkit.fluxcd.io/Digest": "d",
            "source.toolkit.fluxcd.io/revision": "other", "bare": "x",
        }}))
        .event;
        let mut problems = Vec::new();
        let plain = for_alert(&event, &alert(&json!({})), &mut problems);
        let shown = serde_json::to_value(&plain.metadata).unwrap();
        assert_eq!(shown, json!({"a": "annotation", "b": "annotation", "commit": "c", "revision": "1"}));
        assert_eq!(problems, []);
        let spec = alert(&json!({
            "eventMetadata": {"b": "alert", "summary": "alert", "revision": "alert", "env": "prod"}, "summary": "old",
        }));
        let shown = serde_json::to_value(for_alert(&event, &spec, &mut problems).metadata).unwrap();
        let expected = json!({
            "a": "annotation", "b": "alert", "commit": "c", "env": "prod", "revision": "1", "summary": "old",
        });
        assert_eq!(shown, expected);
        let text = "metadata key conflicts detected: b, revision, summary".to_owned();
        assert_eq!(problems, [("MetadataAppendFailed", text)]);
    }
}
