//! Which events are the same one, and are sent once in a while only.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::flux_event::FluxEvent;

/// An event is sent once in this time.
const WINDOW: Duration = Duration::from_secs(300);
/// Most events that are remembered: the oldest are forgotten.
const MAX_REMEMBERED: usize = 16_384;

/// The digest of what makes an event the same: object, message, and revision, revision of origin and token as far as they are known. Of
/// long messages no more is remembered than of short ones.
type Identity = [u8; 32];

/// The events of the last minutes.
#[derive(Default)]
pub(super) struct RecentEvents {
    sent: BTreeSet<Identity>,
    order: VecDeque<(Instant, Identity)>,
}

fn identity(event: &FluxEvent) -> Identity {
    let object = event.involved_object.to_string();
    let [origin, revision, token] = ["originRevision", "revision", "token"]
        .map(|key| event.metadata.get(&event.involved_object.metadata_key(key)));
    let mut digest = Sha256::new();
    for part in [Some(&object), Some(&event.message), origin, revision, token] {
        // With its length, so that no part goes on in the next one. One that is not known is none that is empty.
        digest.update([u8::from(part.is_some())]);
        digest.update(part.map_or(0, String::len).to_le_bytes());
        digest.update(part.map(String::as_bytes).unwrap_or_default());
    }
    digest.finalize().into()
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
        if !self.sent.insert(key) {
            return false;
        }
        self.order.push_back((now, key));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
    fn an_identity_is_short_and_keeps_its_parts_apart() {
        let of = |name: &str, message: &str| {
            identity(&event(|event| {
                event.involved_object.name = name.to_owned();
                event.message = message.to_owned();
            }))
        };
        assert_eq!(of("a", &"m".repeat(100_000)).len(), 32);
        assert_ne!(of("ab", "m"), of("a", "bm"));
        let empty = |event: &mut FluxEvent| {
            event.metadata.insert("helm.toolkit.fluxcd.io/token".to_owned(), String::new());
        };
        assert_ne!(identity(&event(empty)), identity(&event(|_| {})));
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
