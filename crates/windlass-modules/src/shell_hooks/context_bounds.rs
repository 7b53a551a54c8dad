//! What contexts lose that wait for a hook and take too much memory. Pure.
//!
//! Owns the order: first changes of an object that a later event of it supersedes, then all events of a binding, for which one
//! Synchronization stands. Whoever keeps contexts decides when. Within the bound nothing is lost, as in shell-operator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::binding_context::{Context, ContextKind, Item};
use super::config::WatchEvent;
use windlass_base::machine::input_limit;

/// The most memory of what waits in one place, in bytes: half of what one input may take, so that a queue has as much as one input with
/// the run that is under way (16 MiB and 16 MiB in a Pod of 256 MiB).
pub(super) fn most_waiting() -> u64 {
    input_limit() / 2
}

/// What becomes few when it has become too much: half of it, so that the next events do not begin it again at once.
pub(super) fn few(most: u64) -> u64 {
    most / 2
}

/// What contexts take, in bytes.
pub(super) fn size(contexts: &[Context]) -> u64 {
    contexts.iter().map(Context::size).sum()
}

/// The same, less what the snapshots of their bindings have anyway.
pub(super) fn size_beside_snapshots(contexts: &[Context]) -> u64 {
    contexts.iter().map(Context::size_beside_snapshot).sum()
}

/// Leaves the last of what a hook would be told again: of the changes of an object the newest, of ticks and synchronizations of a binding
/// one. Creations and deletions stay.
pub(super) fn drop_superseded(contexts: &mut Vec<Context>) {
    let of = |context: &Context| match &context.what {
        ContextKind::Event(event, _) => *event == WatchEvent::Modified,
        ContextKind::Schedule | ContextKind::Synchronization => true,
        _ => false,
    };
    let stay = stay(contexts.iter().map(|context| (key(context), of(context))));
    retain(contexts, stay);
}

/// The same for events of one binding.
pub(super) fn drop_superseded_events(events: &mut Vec<(WatchEvent, Arc<Item>)>) {
    let of = |(event, item): &(WatchEvent, Arc<Item>)| {
        let key = (item.kind.clone(), item.namespace.clone(), item.name.clone());
        (Some(key), *event == WatchEvent::Modified)
    };
    let stay = stay(events.iter().map(of));
    retain(events, stay);
}

/// Puts one Synchronization in the place of all events of the binding whose events take most: the hook gets its objects as they are when it
/// runs. Returns whether there was any event.
pub(super) fn replace_events(contexts: &mut Vec<Context>) -> bool {
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    for context in contexts.iter().filter(|context| is_event(context)) {
        *sizes.entry(context.binding.as_str()).or_default() += context.size_beside_snapshot();
    }
    let Some((binding, _)) = sizes.into_iter().max_by_key(|(_, size)| *size) else { return false };
    let binding = binding.to_owned();
    let mut is_first = true;
    contexts.retain_mut(|context| {
        let shows = is_event(context) || context.what == ContextKind::Synchronization;
        if context.binding != binding || !shows {
            return true;
        }
        context.what = ContextKind::Synchronization;
        std::mem::take(&mut is_first)
    });
    true
}

/// Whether a context is an event of an object.
pub(super) fn is_event(context: &Context) -> bool {
    matches!(context.what, ContextKind::Event(..))
}

/// The same of contexts that tell of the same: binding, and kind, namespace and name of an object. `None`: it tells of itself only.
fn key(context: &Context) -> Option<(&str, &str, &str, &str)> {
    match &context.what {
        ContextKind::Event(_, item) => {
            Some((context.binding.as_str(), item.kind.as_str(), item.namespace.as_str(), item.name.as_str()))
        }
        ContextKind::Schedule | ContextKind::Synchronization => Some((context.binding.as_str(), "", "", "")),
        _ => None,
    }
}

/// Which of these stay, in order. One that may go does where a later one has its key.
fn stay<K: Ord>(list: impl DoubleEndedIterator<Item = (Option<K>, bool)>) -> Vec<bool> {
    let mut later = BTreeSet::new();
    let stays = |(key, may_go): (Option<K>, bool)| key.is_none_or(|key| later.insert(key) || !may_go);
    let mut stay: Vec<bool> = list.rev().map(stays).collect();
    stay.reverse();
    stay
}

fn retain<T>(list: &mut Vec<T>, stay: Vec<bool>) {
    let mut stay = stay.into_iter();
    list.retain(|_| stay.next().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shell_hooks::binding_context::Include;

    fn item(name: &str, bytes: usize) -> Arc<Item> {
        let object =
            json!({"kind": "Pod", "metadata": {"namespace": "n", "name": name}, "data": "x".repeat(bytes)});
        Arc::new(Item::new(object, None, true))
    }

    fn context(binding: &str, what: ContextKind) -> Context {
        Context { binding: binding.to_owned(), group: None, include: Include::Nothing, what }
    }

    fn event(binding: &str, event: WatchEvent, name: &str, bytes: usize) -> Context {
        context(binding, ContextKind::Event(event, item(name, bytes)))
    }

    fn text(contexts: &[Context]) -> String {
        let text = |context: &Context| match &context.what {
            ContextKind::Event(event, item) => format!("{}:{}-{}", context.binding, event.name(), item.name),
            ContextKind::Synchronization => format!("{}:all", context.binding),
            _ => format!("{}:tick", context.binding),
        };
        contexts.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_newest_change_of_an_object_stays_and_so_do_creations_and_deletions() {
        use WatchEvent::{Added, Deleted, Modified};
        let mut contexts = vec![
            event("pods", Added, "a", 9),
            event("pods", Modified, "a", 9),
            event("others", Modified, "a", 9),
            event("pods", Modified, "b", 9),
            event("pods", Modified, "a", 9),
            event("pods", Deleted, "b", 9),
            event("pods", Added, "b", 9),
        ];
        drop_superseded(&mut contexts);
        let want = "pods:Added-a others:Modified-a pods:Modified-a pods:Deleted-b pods:Added-b";
        assert_eq!(text(&contexts), want);
        let mut events = vec![(Added, item("a", 9)), (Modified, item("a", 9)), (Modified, item("a", 9))];
        drop_superseded_events(&mut events);
        assert_eq!(events.iter().map(|(event, _)| *event).collect::<Vec<_>>(), [Added, Modified]);
    }

    #[test]
    fn ticks_of_a_schedule_are_one() {
        let tick = |binding: &str| context(binding, ContextKind::Schedule);
        let mut contexts = vec![tick("a"), tick("b"), tick("a"), tick("a")];
        drop_superseded(&mut contexts);
        assert_eq!(text(&contexts), "b:tick a:tick");
        assert!(!replace_events(&mut contexts), "there is no event");
        assert_eq!(contexts.len(), 2);
    }

    #[test]
    fn for_the_events_of_the_largest_binding_stands_a_synchronization() {
        use WatchEvent::{Added, Deleted};
        let mut contexts = vec![
            event("small", Added, "a", 9),
            event("pods", Added, "a", 9),
            event("pods", Deleted, "a", 9000),
            context("pods", ContextKind::Synchronization),
            event("small", Deleted, "a", 9),
        ];
        let before = size(&contexts);
        assert!(replace_events(&mut contexts));
        assert_eq!(text(&contexts), "small:Added-a pods:all small:Deleted-a");
        assert!(size(&contexts) + 9000 < before);
        assert!(replace_events(&mut contexts));
        assert_eq!(text(&contexts), "small:all pods:all");
    }

    #[test]
    fn a_queue_has_as_much_as_one_input_at_most() {
        assert!(most_waiting() >= 8 << 20 && most_waiting() * 2 <= input_limit());
        assert!(few(most_waiting()) < most_waiting());
    }
}
