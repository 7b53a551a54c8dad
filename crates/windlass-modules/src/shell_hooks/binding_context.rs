//! Binding contexts: the input of a run, in addon-operator's JSON to the byte. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
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
        review: Value,
    },
    Conversion {
        from: String,
        to: String,
        review: Value,
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

    fn to_value(&self, version: Version, config: &HookConfig, snapshots: &Snapshots) -> Value {
        match version {
            Version::V0 => self.to_v0(),
            Version::V1 => self.to_v1(config, snapshots),
        }
    }

    fn to_v0(&self) -> Value {
        let mut out = Map::from_iter([("binding".to_owned(), Value::from(self.binding.clone()))]);
        if let ContextKind::Event(event, item) = &self.what {
            let event = match event {
                WatchEvent::Added => "add",
                WatchEvent::Modified => "update",
                WatchEvent::Deleted => "delete",
            };
            out.insert("resourceEvent".to_owned(), event.into());
            out.insert("resourceNamespace".to_owned(), item.namespace.clone().into());
            out.insert("resourceKind".to_owned(), item.kind.clone().into());
            out.insert("resourceName".to_owned(), item.name.clone().into());
        }
        Value::Object(out)
    }

    fn to_v1(&self, config: &HookConfig, snapshots: &Snapshots) -> Value {
        let mut out = Map::from_iter([("binding".to_owned(), Value::from(self.binding.clone()))]);
        let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
        if self.what == ContextKind::Moment(Moment::OnStartup) {
            return Value::Object(out);
        }
        let objects = |name: &str| {
            Value::Array(snapshots.get(name).into_iter().flatten().map(|i| i.to_value()).collect())
        };
        let shown: Option<Vec<&str>> = match &self.include {
            Include::These(names) if names.is_empty() => None,
            Include::These(names) => Some(names.iter().map(String::as_str).collect()),
            Include::All => Some(config.kubernetes.iter().map(|k| k.common.name.as_str()).collect()),
            Include::Nothing => None,
        };
        if let Some(names) = shown {
            put("snapshots", names.into_iter().map(|n| (n.to_owned(), objects(n))).collect());
        }
        match &self.what {
            ContextKind::Admission { mutating, review } => {
                put("type", if *mutating { "Mutating".into() } else { "Validating".into() });
                put("review", review.clone());
            }
            ContextKind::Conversion { from, to, review } => {
                put("type", "Conversion".into());
                put("fromVersion", from.clone().into());
                put("toVersion", to.clone().into());
                put("review", review.clone());
            }
            _ if self.group.is_some() => {
                put("type", "Group".into());
                put("groupName", self.group.clone().into());
            }
            ContextKind::Schedule => put("type", "Schedule".into()),
            ContextKind::Moment(_) => {}
            ContextKind::Synchronization => {
                put("type", "Synchronization".into());
                put("objects", objects(&self.binding));
            }
            ContextKind::Event(event, item) => {
                put("type", "Event".into());
                put("watchEvent", event.name().into());
                if let Value::Object(shown) = item.to_value() {
                    shown.into_iter().for_each(|(key, value)| put(&key, value));
                }
            }
        }
        Value::Object(out)
    }
}

impl Item {
    /// An object of a binding; what the binding does not keep is left out.
    #[must_use]
    pub fn new(object: Value, filtered: Option<Value>, keep: bool) -> Self {
        let meta = ObjectMeta::of(&object);
        Self {
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            kind: object["kind"].as_str().unwrap_or_default().to_owned(),
            name: meta.name().to_owned(),
            object: keep.then_some(object),
            filtered,
        }
    }

    /// Its form in snapshots.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        if let Some(object) = &self.object {
            out.insert("object".to_owned(), object.clone());
        }
        if let Some(filtered) = &self.filtered {
            out.insert("filterResult".to_owned(), filtered.clone());
        }
        Value::Object(out)
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

/// The file that a hook gets: a list of contexts.
#[must_use]
pub fn file(contexts: &[Context], config: &HookConfig, snapshots: &Snapshots) -> Value {
    Value::Array(contexts.iter().map(|c| c.to_value(config.version, config, snapshots)).collect())
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
