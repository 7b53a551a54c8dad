//! The objects as they were last seen: configuration, and what a workload follows of it.
//!
//! Owns which objects a workload follows now and what their data is. What follows from a change is `reload_decision`'s.

use std::collections::{BTreeMap, BTreeSet};

use windlass_cluster::{Gvk, ObjectRef};
use windlass_controller::RelatedWatch;

use super::followed_objects::{
    CONFIGURATION_KINDS, ConfigurationState, FollowedObject, MountedVersion, Workload,
};
use super::pod_references::{Configuration, ConfigurationKind};
use super::reload_annotations::ConfigurationMarks;
use super::reload_decision::Current;

/// The largest record of a workload, in bytes: all annotations of an object together may have 256 KiB.
pub(crate) const MAX_RECORD: usize = 96 << 10;
/// What an entry of a record has beside the name, in bytes, at the most.
const ENTRY: usize = 80;

/// What the watches have shown.
pub(crate) struct ObservedConfiguration {
    pub(crate) watch: RelatedWatch<FollowedObject>,
    /// What was mounted last of each SecretProviderClass, by namespace and name: it does not get older when Pods end.
    mounted: BTreeMap<(String, String), (u64, String)>,
}

impl ObservedConfiguration {
    pub(crate) fn new(watch: RelatedWatch<FollowedObject>) -> Self {
        Self { watch, mounted: BTreeMap::new() }
    }

    /// The objects of a collection in a namespace.
    pub(crate) fn members(&self, namespace: &str, collection: &str) -> BTreeSet<Configuration> {
        let kinds = [ConfigurationKind::ConfigMap, ConfigurationKind::Secret].into_iter();
        let all = kinds.flat_map(|kind| {
            let all = self.watch.all_in(&kind_of(kind), namespace);
            all.map(move |(reference, object)| (Configuration::new(kind, &reference.name), object))
        });
        let of = all.filter(|(_, object)| collections(object).any(|name| name == collection));
        of.map(|(object, _)| object).collect()
    }

    /// What a workload follows, as it is now, and whether that is all. What it uses comes first. `auto_reload_all`: without an annotation it
    /// follows what its Pods use.
    pub(crate) fn current(
        &self,
        namespace: &str,
        workload: &Workload,
        auto_reload_all: bool,
    ) -> (BTreeMap<Configuration, Current>, bool) {
        let (mut current, mut size) = (BTreeMap::new(), 0);
        for object in self.candidates(namespace, workload) {
            if current.contains_key(&object) {
                continue;
            }
            let Some(state) = self.followed(namespace, workload, &object, auto_reload_all) else { continue };
            size += object.name.len() + ENTRY;
            if size > MAX_RECORD {
                return (current, false);
            }
            current.insert(object, state);
        }
        (current, true)
    }

    /// What a workload may follow: what it uses, what an annotation names, what it has followed, what an expression matches.
    fn candidates<'w>(
        &'w self,
        namespace: &'w str,
        workload: &'w Workload,
    ) -> impl Iterator<Item = Configuration> + 'w {
        let recorded = workload.recorded.iter().flat_map(BTreeMap::keys).cloned();
        let kinds = ConfigurationKind::ALL.into_iter().filter(|kind| workload.request.has_expressions(*kind));
        let matched = kinds.flat_map(move |kind| {
            let all = self.watch.all_in(&kind_of(kind), namespace);
            all.map(move |(reference, _)| Configuration::new(kind, &reference.name))
        });
        let matched = matched.filter(|object| workload.request.names(object));
        workload.used.iter().cloned().chain(workload.request.plain_names()).chain(recorded).chain(matched)
    }

    /// The state of an object, if a workload follows it.
    fn followed(
        &self,
        namespace: &str,
        workload: &Workload,
        object: &Configuration,
        auto_reload_all: bool,
    ) -> Option<Current> {
        let used = workload.used.contains(object);
        let state = self.state(namespace, object);
        let marks = state.map_or_else(ConfigurationMarks::default, |state| state.marks);
        let by_default = workload.follows_by_default(auto_reload_all, state);
        // What is not there, or cannot be seen now, is followed as before.
        let is_kept = || {
            let known = workload.recorded.as_ref().is_some_and(|recorded| recorded.contains_key(object));
            state.is_none() && known && workload.request.keeps(object, used)
        };
        let follows = workload.request.follows(object, used, marks, by_default) || is_kept();
        follows.then(|| self.current_of(namespace, object, used))
    }

    fn state(&self, namespace: &str, object: &Configuration) -> Option<&ConfigurationState> {
        let reference = ObjectRef::new(kind_of(object.kind), Some(namespace), &object.name);
        match self.watch.get(&reference)? {
            FollowedObject::Configuration(state) => Some(state),
            _ => None,
        }
    }

    fn current_of(&self, namespace: &str, object: &Configuration, used: bool) -> Current {
        let digest = match object.kind {
            ConfigurationKind::SecretProviderClass => self.mounted(namespace, &object.name),
            _ => self.state(namespace, object).map(|state| state.digest.clone()),
        };
        match digest {
            Some(digest) => Current::Present { digest, used },
            None if self.watch.is_watched(&source_of(object.kind)) => Current::Absent,
            None => Current::Unknown,
        }
    }

    /// What was mounted last of a SecretProviderClass, by any Pod, as `VERSION:DIGEST`: the others follow.
    fn mounted(&self, namespace: &str, class: &str) -> Option<String> {
        let (version, digest) = self.mounted.get(&(namespace.to_owned(), class.to_owned()))?;
        Some(format!("{version}:{digest}"))
    }

    /// Notes what was mounted of a SecretProviderClass.
    pub(crate) fn note_mounted(&mut self, reference: &ObjectRef) {
        let namespace = reference.namespace.clone().unwrap_or_default();
        match self.watch.get(reference) {
            Some(FollowedObject::Mounted(MountedVersion { class, digest, version })) => {
                let version = version.unwrap_or_default();
                let known = self.mounted.entry((namespace, class.clone())).or_default();
                if version > known.0 {
                    *known = (version, digest.clone());
                }
            }
            None if reference.gvk == kind_of(ConfigurationKind::SecretProviderClass) => {
                self.mounted.remove(&(namespace, reference.name.clone()));
            }
            _ => {}
        }
    }
}

/// The configuration that an object is, or tells of.
pub(crate) fn configuration(reference: &ObjectRef, object: &FollowedObject) -> Option<Configuration> {
    match object {
        FollowedObject::Mounted(mounted) => {
            Some(Configuration::new(ConfigurationKind::SecretProviderClass, &mounted.class))
        }
        FollowedObject::Configuration(_) => {
            let kind = ConfigurationKind::ALL.into_iter().find(|kind| kind.name() == reference.gvk.kind)?;
            Some(Configuration::new(kind, &reference.name))
        }
        FollowedObject::Workload(_) => None,
    }
}

/// The collections that an object is part of.
pub(crate) fn collections(object: &FollowedObject) -> impl Iterator<Item = &String> {
    let state = match object {
        FollowedObject::Configuration(state) => Some(state),
        _ => None,
    };
    state.into_iter().flat_map(|state| &state.collections)
}

/// The kind of the objects that are configuration.
pub(crate) fn kind_of(kind: ConfigurationKind) -> Gvk {
    let (api_version, name) = CONFIGURATION_KINDS[kind as usize];
    Gvk::new(api_version, name)
}

/// The kind whose objects have the data, or tell of it.
fn source_of(kind: ConfigurationKind) -> Gvk {
    match kind {
        ConfigurationKind::SecretProviderClass => {
            let (api_version, name) = CONFIGURATION_KINDS[3];
            Gvk::new(api_version, name)
        }
        other => kind_of(other),
    }
}
