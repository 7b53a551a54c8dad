//! Which Alerts an event is for, and what they make of its metadata. Pure.

use std::collections::{BTreeMap, BTreeSet};

use chart_compat::go::regexp;

use super::event_queue::QueuedEvent;
use super::flux_event::{EVENT_GROUP, FluxEvent, Severity};
use crate::flux_api::alert::AlertSpec;
use crate::flux_api::common::CrossNamespaceObjectReference;

/// Longest regular expression of an Alert, in bytes.
const MAX_EXPRESSION: usize = 2 << 10;
/// Most regular expressions of a list.
const MAX_EXPRESSIONS: usize = 64;

/// What is wrong with an Alert: reason and text of an Event on it.
pub(super) type Problem = (&'static str, String);

/// Whether an event is for an Alert of a namespace. What is wrong with the Alert is added to `problems`.
pub(super) fn matches(
    namespace: &str,
    spec: &AlertSpec,
    queued: &QueuedEvent,
    problems: &mut Vec<Problem>,
) -> bool {
    let message = &queued.event.message;
    !spec.suspend
        && has_severity(spec, &queued.event)
        && spec.event_sources.iter().any(|source| is_source(namespace, source, queued))
        && (spec.inclusion_list.is_empty()
            || any_matches(&spec.inclusion_list, "inclusion", message, problems))
        && !any_matches(&spec.exclusion_list, "exclusion", message, problems)
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

/// Whether one expression of a list matches. One that is wrong matches nothing.
fn any_matches(list: &[String], name: &str, message: &str, problems: &mut Vec<Problem>) -> bool {
    if list.len() > MAX_EXPRESSIONS {
        let text =
            format!("spec.{name}List has more than {MAX_EXPRESSIONS} expressions: the others are ignored");
        problems.push(("InvalidConfig", text));
    }
    list.iter().take(MAX_EXPRESSIONS).any(|expression| {
        let compiled = match expression.len() {
            0..=MAX_EXPRESSION => regexp::compile(expression.as_bytes()),
            _ => Err(format!("it has more than {MAX_EXPRESSION} bytes")),
        };
        match compiled {
            Ok(compiled) => compiled.is_match(message.as_bytes()),
            Err(error) => {
                let shown: String = expression.chars().take(200).collect();
                problems.push(("InvalidConfig", format!("failed to compile {name} regex: {shown}: {error}")));
                false
            }
        }
    })
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
            event: serde_json::from_value(event).unwrap(),
            labels: [("team".to_owned(), "a".to_owned()), ("tier".to_owned(), "b".to_owned())].into(),
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
    fn sources_severities_and_messages() {
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
            (json!({"inclusionList": ["^Helm (install|upgrade) succeeded$"]}), true, false),
            (json!({"inclusionList": ["nothing", "time.*out"]}), false, true),
            (json!({"exclusionList": ["(?i)TIMEOUT"]}), true, false),
            (json!({"inclusionList": ["Helm"], "exclusionList": ["succeeded"]}), false, true),
        ] {
            let (parsed, mut problems) = (alert(&spec), Vec::new());
            assert_eq!(matches("apps", &parsed, &info, &mut problems), of_info, "{spec}");
            assert_eq!(matches("apps", &parsed, &error, &mut problems), of_error, "{spec}");
            assert_eq!(problems, []);
        }
        // Sources without a namespace are those of the Alert's.
        assert!(!matches("other", &alert(&json!({})), &info, &mut Vec::new()));
    }

    #[test]
    fn wrong_expressions_match_nothing() {
        let event = queued(&json!({}));
        let long = "a".repeat(MAX_EXPRESSION + 1);
        for (spec, matched, problem) in [
            (
                json!({"inclusionList": ["("]}),
                false,
                "failed to compile inclusion regex: (: error parsing regexp",
            ),
            (json!({"inclusionList": ["(", "Helm"]}), true, "failed to compile inclusion regex: ("),
            (json!({"exclusionList": ["(?=a)"]}), true, "failed to compile exclusion regex: (?=a)"),
            (json!({"exclusionList": [long]}), true, "failed to compile exclusion regex: aaa"),
            (
                json!({"exclusionList": vec!["x"; 65]}),
                true,
                "spec.exclusionList has more than 64 expressions",
            ),
        ] {
            let mut problems = Vec::new();
            assert_eq!(matches("apps", &alert(&spec), &event, &mut problems), matched, "{spec}");
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].0 == "InvalidConfig" && problems[0].1.starts_with(problem), "{problems:?}");
        }
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
