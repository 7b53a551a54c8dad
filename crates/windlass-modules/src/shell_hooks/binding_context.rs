//! Binding contexts: the input of a run, in addon-operator's JSON to the byte. Pure.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use windlass_base::bounded_json;
use windlass_cluster::ObjectMeta;

use super::Moment;
use super::config::{HookConfig, Version, WatchEvent};

/// An object of a binding, as snapshots and contexts show it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    pub namespace: String,
    pub kind: String,
    pub name: String,
    /// The object; `None` if the binding does not keep it.
    pub object: Option<Value>,
    /// The result of the binding's filter; `None` without a filter.
    pub filtered: Option<Value>,
    /// The most memory that it takes, in bytes.
    size: u64,
    is_in_snapshot: SnapshotMark,
}

/// Whether the snapshot of its binding has an item. It is no part of what the item is.
#[derive(Debug, Default)]
struct SnapshotMark(AtomicBool);

impl Clone for SnapshotMark {
    /// A copy is in no snapshot.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for SnapshotMark {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The objects of each kubernetes binding at one moment.
pub type Snapshots = BTreeMap<String, Vec<Arc<Item>>>;

/// Which snapshots come along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Include {
    Nothing,
    These(Vec<String>),
    /// Those of all kubernetes bindings.
    All,
}

/// Why a hook runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// Name of the binding.
    pub binding: String,
    pub group: Option<String>,
    pub include: Include,
    pub what: ContextKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum ContextKind {
    Moment(Moment),
    Schedule,
    /// The objects that exist, as they are when the hook runs.
    Synchronization,
    Event(WatchEvent, Arc<Item>),
    Admission {
        mutating: bool,
        /// The only copy of it that a run has.
        review: Arc<Value>,
    },
    Conversion {
        from: String,
        to: String,
        review: Arc<Value>,
    },
}

impl Context {
    /// The context of a moment: all snapshots come along but at the start, when there are none yet.
    #[must_use]
    pub fn moment(moment: Moment) -> Self {
        let include = if moment == Moment::OnStartup { Include::Nothing } else { Include::All };
        Self { binding: moment.name().to_owned(), group: None, include, what: ContextKind::Moment(moment) }
    }

    /// The bindings whose objects this context needs.
    fn needs<'c>(&'c self, config: &'c HookConfig) -> Vec<&'c str> {
        let mut names: Vec<&str> = match &self.include {
            Include::Nothing => Vec::new(),
            Include::These(names) => names.iter().map(String::as_str).collect(),
            Include::All => config.kubernetes.iter().map(|k| k.common.name.as_str()).collect(),
        };
        if self.what == ContextKind::Synchronization {
            names.push(&self.binding);
        }
        names
    }

    /// The most memory that it takes while it waits, in bytes. Reviews do not wait.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size_with(Item::size)
    }

    /// The same, less what the snapshot of its binding has anyway.
    pub(super) fn size_beside_snapshot(&self) -> u64 {
        self.size_with(Item::size_beside_snapshot)
    }

    fn size_with(&self, size: impl Fn(&Item) -> u64) -> u64 {
        let snapshots: usize = match &self.include {
            Include::These(names) => names.iter().map(|name| size_of::<String>() + name.len()).sum(),
            Include::Nothing | Include::All => 0,
        };
        let names = self.binding.len() + self.group.as_ref().map_or(0, String::len) + snapshots;
        let object = match &self.what {
            ContextKind::Event(_, item) => size(item),
            _ => 0,
        };
        (size_of::<Self>() + names) as u64 + object
    }

    fn shown<'c>(&'c self, config: &'c HookConfig, snapshots: &'c Snapshots) -> Shown<'c> {
        match config.version {
            Version::V0 => self.to_v0(),
            Version::V1 => self.to_v1(config, snapshots),
        }
    }

    fn to_v0(&self) -> Shown<'_> {
        let mut out = BTreeMap::from([("binding", Shown::Text(&self.binding))]);
        if let ContextKind::Event(event, item) = &self.what {
            let event = match event {
                WatchEvent::Added => "add",
                WatchEvent::Modified => "update",
                WatchEvent::Deleted => "delete",
            };
            out.insert("resourceEvent", Shown::Text(event));
            out.insert("resourceNamespace", Shown::Text(&item.namespace));
            out.insert("resourceKind", Shown::Text(&item.kind));
            out.insert("resourceName", Shown::Text(&item.name));
        }
        Shown::Map(out)
    }

    fn to_v1<'c>(&'c self, config: &'c HookConfig, snapshots: &'c Snapshots) -> Shown<'c> {
        let mut out = BTreeMap::from([("binding", Shown::Text(&self.binding))]);
        let mut put = |key: &'c str, value: Shown<'c>| drop(out.insert(key, value));
        if self.what == ContextKind::Moment(Moment::OnStartup) {
            return Shown::Map(out);
        }
        let objects =
            |name: &str| Shown::Objects(snapshots.get(name).into_iter().flatten().map(Arc::as_ref).collect());
        let shown: Option<Vec<&str>> = match &self.include {
            Include::These(names) if names.is_empty() => None,
            Include::These(names) => Some(names.iter().map(String::as_str).collect()),
            Include::All => Some(config.kubernetes.iter().map(|k| k.common.name.as_str()).collect()),
            Include::Nothing => None,
        };
        if let Some(names) = shown {
            put("snapshots", Shown::Map(names.into_iter().map(|n| (n, objects(n))).collect()));
        }
        match &self.what {
            ContextKind::Admission { mutating, review } => {
                put("type", Shown::Text(if *mutating { "Mutating" } else { "Validating" }));
                put("review", Shown::Value(review));
            }
            ContextKind::Conversion { from, to, review } => {
                put("type", Shown::Text("Conversion"));
                put("fromVersion", Shown::Text(from));
                put("toVersion", Shown::Text(to));
                put("review", Shown::Value(review));
            }
            what => match (&self.group, what) {
                (Some(group), _) => {
                    put("type", Shown::Text("Group"));
                    put("groupName", Shown::Text(group));
                }
                (None, ContextKind::Schedule) => put("type", Shown::Text("Schedule")),
                (None, ContextKind::Synchronization) => {
                    put("type", Shown::Text("Synchronization"));
                    put("objects", objects(&self.binding));
                }
                (None, ContextKind::Event(event, item)) => {
                    put("type", Shown::Text("Event"));
                    put("watchEvent", Shown::Text(event.name()));
                    item.fields().for_each(|(key, value)| put(key, Shown::Value(value)));
                }
                (None, _) => {}
            },
        }
        Shown::Map(out)
    }
}

/// A part of the file: its keys are sorted, and objects are written from where they are.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<'c> {
    Text(&'c str),
    Value(&'c Value),
    Objects(Vec<&'c Item>),
    Map(BTreeMap<&'c str, Self>),
}

impl Serialize for Item {
    /// As snapshots and contexts show it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
    }
}

impl Item {
    /// An object of a binding; what the binding does not keep is left out.
    #[must_use]
    pub fn new(object: Value, filtered: Option<Value>, keep: bool) -> Self {
        let meta = ObjectMeta::of(&object);
        let (namespace, name) = (meta.namespace().unwrap_or_default().to_owned(), meta.name().to_owned());
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let object = keep.then_some(object);
        let values = object.iter().chain(&filtered).map(|value| bounded_json::size(value).parsed);
        let names = namespace.len() + kind.len() + name.len();
        let size = values.sum::<u64>() + (size_of::<Self>() + names) as u64;
        Self { namespace, kind, name, object, filtered, size, is_in_snapshot: SnapshotMark::default() }
    }

    /// Notes whether the snapshot of its binding has it.
    pub(super) fn set_in_snapshot(&self, is_in_snapshot: bool) {
        self.is_in_snapshot.0.store(is_in_snapshot, Ordering::Relaxed);
    }

    /// The most memory that it takes beside the snapshot of its binding, in bytes.
    pub(super) fn size_beside_snapshot(&self) -> u64 {
        if self.is_in_snapshot.0.load(Ordering::Relaxed) { 0 } else { self.size }
    }

    /// The most memory that it takes, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What snapshots and contexts show of it, by key in order.
    fn fields(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        let fields = [("filterResult", &self.filtered), ("object", &self.object)];
        fields.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }

    /// Its form in snapshots.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::Object(Map::from_iter(self.fields().map(|(key, value)| (key.to_owned(), value.clone()))))
    }
}

/// The bindings whose objects a list of contexts needs, each once.
#[must_use]
pub fn needed(contexts: &[Context], config: &HookConfig) -> Vec<String> {
    let mut names: Vec<String> = contexts.iter().flat_map(|c| c.needs(config)).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Writes the file that a hook gets: a list of contexts. No object is copied for it.
///
/// # Errors
/// It cannot be written.
pub fn write(
    out: &mut dyn io::Write,
    contexts: &[Context],
    config: &HookConfig,
    snapshots: &Snapshots,
) -> io::Result<()> {
    let shown: Vec<Shown<'_>> = contexts.iter().map(|context| context.shown(config, snapshots)).collect();
    serde_json::to_writer(out, &shown).map_err(io::Error::from)
}

/// Of contexts of one group that follow each other only the last stays: all that they say are the group's snapshots.
#[must_use]
pub fn compact(contexts: Vec<Context>) -> Vec<Context> {
    let mut kept: Vec<Context> = Vec::with_capacity(contexts.len());
    for context in contexts {
        match kept.last_mut() {
            Some(last) if last.group.is_some() && last.group == context.group => *last = context,
            _ => kept.push(context),
        }
    }
    kept
}

#[cfg(test)]
mod tests;
