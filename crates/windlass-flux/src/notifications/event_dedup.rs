//! Which events are the same one, and are sent once in a while only.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::flux_event::FluxEvent;

/// An event is sent once in this time.
const WINDOW: Duration = Duration::from_secs(300);
/// Most events that are remembered: the oldest are forgotten.
const MAX_REMEMBERED: usize = 16_384;

/// What makes an event the same: object, message, and revision, revision of origin and token as far as they are known.
type Identity = [Option<String>; 5];

/// The events of the last minutes.
#[derive(Default)]
pub(super) struct RecentEvents {
    sent: BTreeMap<Identity, Instant>,
    order: VecDeque<(Instant, Identity)>,
}

fn identity(event: &FluxEvent) -> Identity {
    let known = |key: &str| event.metadata.get(&event.involved_object.metadata_key(key)).cloned();
    [
        Some(event.involved_object.to_string()),
        Some(event.message.clone()),
        known("originRevision"),
        known("revision"),
        known("token"),
    ]
}

impl RecentEvents {
    /// Whether an event is new. It is remembered then.
    pub(super) fn is_new(&mut self, event: &FluxEvent, now: Instant) -> bool {
        while let Some((at, key)) = self.order.front()
            && (now.duration_since(*at) >= WINDOW || self.order.len() >= MAX_REMEMBERED)
        {
            self.sent.remove(key);
            self.order.pop_front();
        }
        let key = identity(event);
        if self.sent.contains_key(&key) {
            return false;
        }
        self.sent.insert(key.clone(), now);
        self.order.push_back((now, key));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::flux_event::{InvolvedObject, Severity};
    use super::*;

    fn event(change: impl Fn(&mut FluxEvent)) -> FluxEvent {
        let mut event = FluxEvent {
            involved_object: InvolvedObject {
                kind: "HelmRelease".to_owned(),
                namespace: "n".to_owned(),
                name: "a".to_owned(),
                api_version: "helm.toolkit.fluxcd.io/v2".to_owned(),
                ..InvolvedObject::default()
            },
            severity: Severity::Info,
            timestamp: String::new(),
            message: "m".to_owned(),
            reason: "R".to_owned(),
            metadata: BTreeMap::new(),
            reporting_controller: String::new(),
            reporting_instance: String::new(),
        };
        change(&mut event);
        event
    }

    fn with(key: &'static str) -> impl Fn(&mut FluxEvent) {
        move |event| drop(event.metadata.insert(format!("helm.toolkit.fluxcd.io/{key}"), "x".to_owned()))
    }

    #[test]
    fn what_makes_an_event_another_one() {
        let start = Instant::now();
        let mut recent = RecentEvents::default();
        assert!(recent.is_new(&event(|_| {}), start));
        let same = event(|event| {
            event.reason = "Other".to_owned();
            event.severity = Severity::Error;
            event.timestamp = "later".to_owned();
            event.metadata.insert("helm.toolkit.fluxcd.io/app-version".to_owned(), "2".to_owned());
        });
        assert!(!recent.is_new(&same, start));
        for (other, what) in [
            (event(|event| event.message = "other".to_owned()), "message"),
            (event(|event| event.involved_object.name = "b".to_owned()), "name"),
            (event(|event| event.involved_object.namespace = "o".to_owned()), "namespace"),
            (event(|event| event.involved_object.kind = "HelmChart".to_owned()), "kind"),
            (event(with("revision")), "revision"),
            (event(with("originRevision")), "originRevision"),
            (event(with("token")), "token"),
        ] {
            assert!(recent.is_new(&other, start), "{what}");
            assert!(!recent.is_new(&other, start), "{what}");
        }
    }

    #[test]
    fn an_event_is_new_again_after_five_minutes() {
        let start = Instant::now();
        let mut recent = RecentEvents::default();
        assert!(recent.is_new(&event(|_| {}), start));
        assert!(!recent.is_new(&event(|_| {}), start + WINDOW - Duration::from_millis(1)));
        assert!(recent.is_new(&event(|_| {}), start + WINDOW));
        assert_eq!((recent.sent.len(), recent.order.len()), (1, 1));
    }

    #[test]
    fn memory_is_bounded() {
        let start = Instant::now();
        let mut recent = RecentEvents::default();
        for n in 0..MAX_REMEMBERED + 10 {
            assert!(recent.is_new(&event(|event| event.message = n.to_string()), start));
        }
        assert_eq!((recent.sent.len(), recent.order.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
