//! The objects of a binding, and which changes are events. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use windlass_cluster::ObjectMeta;

use crate::shell_hooks::binding_context::{ContextKind, Item};
use crate::shell_hooks::config::{Kubernetes, WatchEvent};
use crate::shell_hooks::context_bounds::{drop_superseded_events, few, most_waiting};
use crate::shell_hooks::jq::{Filter, JqError};

/// Namespace and name that one watch is bound to; empty ones are not bound.
pub(super) type Part = (String, String);

type Key = (String, String);
pub(super) type Event = (WatchEvent, Arc<Item>);

struct Stored {
    part: Part,
    item: Arc<Item>,
    /// Changes when a change is worth a run.
    digest: u64,
}

/// How many objects came, changed and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
}

impl Changes {
    fn count(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Added => self.added += 1,
            WatchEvent::Modified => self.modified += 1,
            WatchEvent::Deleted => self.deleted += 1,
        }
    }
}

/// Events that are held back.
#[derive(Default)]
struct Held {
    events: Vec<Event>,
    /// What they take, in bytes.
    size: u64,
    /// They are not kept: the hook gets all objects instead.
    is_replaced: bool,
}

impl Held {
    fn size_of(event: &Event) -> u64 {
        size_of::<Event>() as u64 + event.1.size()
    }

    /// Keeps an event. If all take more than `most`, changes of one object are one, and if that is not enough, no event is kept.
    fn add(&mut self, event: Event, most: u64) {
        if self.is_replaced {
            return;
        }
        self.size += Self::size_of(&event);
        self.events.push(event);
        if self.size <= most {
            return;
        }
        drop_superseded_events(&mut self.events);
        self.size = self.events.iter().map(Self::size_of).sum();
        if self.size > few(most) {
            *self = Self { is_replaced: true, ..Self::default() };
        }
    }

    fn contexts(self) -> Vec<ContextKind> {
        match self.is_replaced {
            true => vec![ContextKind::Synchronization],
            false => self.events.into_iter().map(|(event, item)| ContextKind::Event(event, item)).collect(),
        }
    }
}

pub(super) struct State {
    filter: Option<Filter>,
    keep: bool,
    events: Vec<WatchEvent>,
    items: BTreeMap<Key, Stored>,
    /// The watches, and whether each has listed all that exists.
    parts: BTreeMap<Part, bool>,
    /// All watches have begun: with namespaces by labels, these have been listed.
    parts_known: bool,
    /// Events wait here until the hook has seen what exists.
    held: Option<Held>,
    /// Why there is no list yet.
    pub(super) problem: Option<String>,
    /// The failure is permanent.
    pub(super) refused: bool,
    /// Since the watch began, and since the hook last saw the objects.
    pub(super) changes: (Changes, Changes),
    /// How long the filter took on the last object.
    pub(super) filtering: Option<Duration>,
}

impl State {
    pub(super) fn new(binding: &Kubernetes) -> Self {
        Self {
            filter: binding.filter.clone(),
            keep: binding.keep_objects,
            events: binding.events.clone(),
            items: BTreeMap::new(),
            parts: BTreeMap::new(),
            parts_known: false,
            // A synchronization shows what they would tell.
            held: Some(Held { is_replaced: binding.on_synchronization, ..Held::default() }),
            problem: None,
            refused: false,
            changes: <(Changes, Changes)>::default(),
            filtering: None,
        }
    }

    /// The hook sees the objects as they are now.
    pub(super) fn seen(&mut self) {
        self.changes.1 = Changes::default();
    }

    pub(super) fn add_part(&mut self, part: &Part) {
        self.parts.entry(part.clone()).or_insert(false);
    }

    /// A namespace is no longer watched: its objects leave the snapshots without an event.
    pub(super) fn remove_namespace(&mut self, namespace: &str) {
        self.parts.retain(|part, _| part.0 != namespace);
        for (_, stored) in self.items.extract_if(.., |_, stored| stored.part.0 == namespace) {
            stored.item.set_in_snapshot(false);
        }
    }

    pub(super) fn all_parts_are_known(&mut self) {
        self.parts_known = true;
    }

    pub(super) fn is_listed(&self) -> bool {
        self.parts_known && self.parts.values().all(|listed| *listed)
    }

    /// Stores an object; returns the event to send now.
    pub(super) fn present(&mut self, part: &Part, object: Value) -> Result<Option<Event>, JqError> {
        let began = Instant::now();
        let filtered = self.filter.as_ref().map(|f| f.apply(&object)).transpose()?;
        self.filtering = filtered.as_ref().map(|_| began.elapsed());
        let digest = match &filtered {
            Some(result) => digest(&result.to_string()),
            None => {
                let meta = ObjectMeta::of(&object);
                digest(&(meta.uid(), meta.resource_version()))
            }
        };
        let item = Arc::new(Item::new(object, filtered, self.keep));
        let key = (item.namespace.clone(), item.name.clone());
        let stored = Stored { part: part.clone(), item: Arc::clone(&item), digest };
        item.set_in_snapshot(true);
        let before = self.items.insert(key, stored);
        if let Some(before) = &before {
            before.item.set_in_snapshot(false);
        }
        let event = match before {
            None => WatchEvent::Added,
            Some(before) if before.digest != digest => WatchEvent::Modified,
            Some(_) => return Ok(None),
        };
        self.count(event);
        // Objects of the first list are no events: the hook gets them as its synchronization.
        let first_list = self.parts.get(part).is_some_and(|listed| !listed);
        Ok(if first_list { None } else { self.pass(event, item) })
    }

    /// Removes an object; returns the event to send now.
    pub(super) fn gone(&mut self, object: Value) -> Option<Event> {
        let before = self.items.remove(&item_key(&object))?;
        before.item.set_in_snapshot(false);
        // The object as it last was; a filter that fails on it leaves what was known before.
        let filtered = match &self.filter {
            Some(filter) => filter.apply(&object).ok().or_else(|| before.item.filtered.clone()),
            None => None,
        };
        let item = Arc::new(Item::new(object, filtered, self.keep));
        self.count(WatchEvent::Deleted);
        self.pass(WatchEvent::Deleted, item)
    }

    /// A watch has listed all objects; returns events for those that were deleted meanwhile.
    pub(super) fn listed(&mut self, part: &Part, seen: &BTreeSet<Key>) -> Vec<Event> {
        let first_list = self.parts.insert(part.clone(), true) == Some(false);
        let gone: Vec<Key> = self
            .items
            .iter()
            .filter(|(key, stored)| stored.part == *part && !seen.contains(*key))
            .map(|(key, _)| key.clone())
            .collect();
        let mut events = Vec::new();
        for key in gone {
            let Some(stored) = self.items.remove(&key) else { continue };
            stored.item.set_in_snapshot(false);
            if !first_list {
                self.count(WatchEvent::Deleted);
                events.extend(self.pass(WatchEvent::Deleted, stored.item));
            }
        }
        events
    }

    fn count(&mut self, event: WatchEvent) {
        self.changes.0.count(event);
        self.changes.1.count(event);
    }

    fn pass(&mut self, event: WatchEvent, item: Arc<Item>) -> Option<Event> {
        if !self.events.contains(&event) {
            return None;
        }
        match &mut self.held {
            Some(held) => {
                held.add((event, item), most_waiting());
                None
            }
            None => Some((event, item)),
        }
    }

    pub(super) fn snapshot(&self) -> Vec<Arc<Item>> {
        self.items.values().map(|s| Arc::clone(&s.item)).collect()
    }

    pub(super) fn synchronize(&mut self) {
        self.held = None;
    }

    /// What was held back: one Synchronization, if that was too much.
    pub(super) fn open(&mut self) -> Vec<ContextKind> {
        self.held.take().map(Held::contexts).unwrap_or_default()
    }
}

fn digest(of: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The key of an object: its namespace and name, empty where it has none.
pub(super) fn item_key(object: &Value) -> Key {
    let meta = ObjectMeta::of(object);
    (meta.namespace().unwrap_or_default().to_owned(), meta.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell_hooks::Scope;
    use crate::shell_hooks::config::HookConfig;
    use serde_json::json;

    fn state(extra: &str) -> State {
        let text = format!("configVersion: v1\nkubernetes: [{{kind: Pod{extra}}}]\n");
        State::new(&HookConfig::parse(text.as_bytes(), Scope::Global).unwrap().kubernetes[0])
    }

    fn pod(name: &str, version: u32, app: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"namespace": "n", "name": name, "uid": name,
            "resourceVersion": version.to_string(), "labels": {"app": app}}})
    }

    fn part() -> Part {
        (String::new(), String::new())
    }

    fn list(state: &mut State, pods: &[Value]) -> Vec<String> {
        state.add_part(&part());
        let mut events = Vec::new();
        let mut seen = BTreeSet::new();
        for pod in pods {
            seen.insert(("n".to_owned(), pod["metadata"]["name"].as_str().unwrap().to_owned()));
            events.extend(state.present(&part(), pod.clone()).unwrap());
        }
        events.extend(state.listed(&part(), &seen));
        event_lines(events)
    }

    fn event_lines(events: impl IntoIterator<Item = Event>) -> Vec<String> {
        events.into_iter().map(|(event, item)| format!("{} {}", event.name(), item.name)).collect()
    }

    fn present(state: &mut State, pod: Value) -> Vec<String> {
        event_lines(state.present(&part(), pod).unwrap())
    }

    #[test]
    fn what_exists_is_no_event_and_held_ones_are_dropped_when_it_is_seen() {
        let mut s = state("");
        assert!(!s.is_listed(), "nothing is known yet");
        s.all_parts_are_known();
        assert_eq!(list(&mut s, &[pod("b", 1, "x"), pod("a", 1, "x")]), [""; 0]);
        assert!(s.is_listed());
        assert_eq!(present(&mut s, pod("c", 2, "x")), [""; 0], "held back");
        assert_eq!(s.snapshot().iter().map(|i| &*i.name).collect::<Vec<_>>(), ["a", "b", "c"]);
        s.synchronize();
        assert_eq!(present(&mut s, pod("c", 3, "x")), ["Modified c"]);
        assert_eq!(present(&mut s, pod("c", 3, "x")), [""; 0]);
        assert_eq!(event_lines(s.gone(pod("a", 4, "x"))), ["Deleted a"]);
        assert_eq!(event_lines(s.gone(pod("a", 4, "x"))), [""; 0]);
    }

    #[test]
    fn without_synchronization_held_ones_pass() {
        let mut s = state(", executeHookOnSynchronization: false");
        list(&mut s, &[pod("a", 1, "x")]);
        present(&mut s, pod("b", 1, "x"));
        let held = s.open();
        let [ContextKind::Event(WatchEvent::Added, item)] = &held[..] else { panic!("{held:?}") };
        assert_eq!(item.name, "b");
        assert_eq!(present(&mut s, pod("a", 2, "x")), ["Modified a"]);
    }

    #[test]
    fn what_is_held_back_is_bounded() {
        let event = |event: WatchEvent, name: &str| -> Event {
            (event, Arc::new(Item::new(pod(name, 1, &"x".repeat(1000)), None, true)))
        };
        let most = 40_000;
        let mut held = Held::default();
        for _ in 0..1000 {
            held.add(event(WatchEvent::Modified, "a"), most);
            assert!(held.size <= most);
        }
        assert!(held.events.len() < 30 && !held.is_replaced, "changes of one object are one");
        for number in 0..1000 {
            held.add(event(WatchEvent::Deleted, &number.to_string()), most);
            assert!(held.size <= most);
        }
        assert_eq!(held.contexts(), [ContextKind::Synchronization]);
        // Where a synchronization follows anyway nothing is kept.
        let mut s = state("");
        list(&mut s, &[]);
        present(&mut s, pod("a", 1, "x"));
        assert!(s.held.as_ref().is_some_and(|held| held.events.is_empty()));
        s.synchronize();
        assert_eq!(present(&mut s, pod("a", 2, "x")), ["Modified a"]);
    }

    #[test]
    fn a_filter_decides_what_a_change_is() {
        let mut s = state(", jqFilter: .metadata.labels.app, keepFullObjectsInMemory: false");
        list(&mut s, &[pod("a", 1, "x")]);
        s.synchronize();
        assert_eq!(present(&mut s, pod("a", 2, "x")), [""; 0]);
        assert_eq!(present(&mut s, pod("a", 3, "y")), ["Modified a"]);
        let shown: Vec<Value> = s.snapshot().iter().map(|i| i.to_value()).collect();
        assert_eq!(shown, [json!({"filterResult": "y"})]);
        assert_eq!(event_lines(s.gone(pod("a", 3, "y"))), ["Deleted a"], "always");
    }

    #[test]
    fn a_new_list_tells_what_happened_meanwhile() {
        let mut s = state("");
        list(&mut s, &[pod("a", 1, "x"), pod("b", 1, "x")]);
        s.synchronize();
        assert_eq!(
            list(&mut s, &[pod("b", 2, "x"), pod("c", 1, "x")]),
            ["Modified b", "Added c", "Deleted a"]
        );
    }

    #[test]
    fn only_events_that_are_asked_for() {
        let mut s = state(", executeHookOnEvent: [Deleted]");
        list(&mut s, &[]);
        s.synchronize();
        assert_eq!(present(&mut s, pod("a", 1, "x")), [""; 0]);
        assert_eq!(event_lines(s.gone(pod("a", 1, "x"))), ["Deleted a"]);
    }

    #[test]
    fn namespaces_come_and_go() {
        let mut s = state(", namespace: {labelSelector: {matchLabels: {a: b}}}");
        assert!(!s.is_listed(), "nobody knows yet which there are");
        s.all_parts_are_known();
        assert!(s.is_listed());
        let part = ("n".to_owned(), String::new());
        s.add_part(&part);
        assert!(!s.is_listed());
        s.present(&part, pod("a", 1, "x")).unwrap();
        s.listed(&part, &BTreeSet::from([("n".to_owned(), "a".to_owned())]));
        assert!(s.is_listed() && s.snapshot().len() == 1);
        s.remove_namespace("n");
        assert!(s.snapshot().is_empty() && s.is_listed());
    }

    #[test]
    fn a_filter_that_fails_leaves_the_state_alone() {
        let mut s = state(", jqFilter: .metadata.labels.app | ltrimstr(\"x\") | tonumber");
        list(&mut s, &[pod("a", 1, "x1")]);
        assert!(s.present(&part(), pod("a", 2, "no")).is_err());
        assert_eq!(s.snapshot()[0].filtered, Some(json!(1)));
    }
}
