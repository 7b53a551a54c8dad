//! Annotations of custom resources that count for the workloads of their releases.
//!
//! Owns which object a release is of, as the passes of this process have found it, and on whose behalf its settings are followed. Knows
//! neither the settings nor who follows them. A release has no entry until a pass over its object was through, and what such a pass has found
//! counts only as long as the watch shows the generation that it was a pass over: account, spec and releases are always of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};

use windlass_cluster::{Cluster, ClusterError, ObjectMeta, ObjectRef};
use windlass_engine::{ReleaseId, ReleaseKey};

use super::image_values::{IMAGE_OVERRIDES, ImageValues};
use super::release_runner::ReleaseRunner;
use super::shared_changes::SharedChanges;
use super::target::ReleaseTarget;

/// What the names of such annotations begin with.
const PREFIX: &str = "windlass.dev/image-";
/// What was rolled out, which whoever follows images writes itself.
const RECORD: &str = "windlass.dev/image-rollouts";

/// What an object says of the workloads of its release.
#[derive(Clone, Debug)]
pub struct ReleaseSettings {
    /// The object.
    pub object: ObjectRef,
    /// Its annotations `windlass.dev/image-…`; there may be none.
    pub annotations: BTreeMap<String, String>,
    /// The images that its values name, as the last pass that was through has composed them; `None`: none are followed there.
    pub images: Option<Arc<ImageValues>>,
    /// The release.
    pub release: ReleaseKey,
    /// On whose behalf the release is reconciled, as the object says now.
    target: ReleaseTarget,
}

impl ReleaseSettings {
    /// The client with the rights that the object's release is applied with: what follows from its settings must not need more.
    ///
    /// # Errors
    /// The impersonating client cannot be built, or the release is on another cluster.
    pub fn client(&self, runner: &ReleaseRunner) -> Result<Cluster, ClusterError> {
        runner.actor_client(&self.target, &self.release.id.namespace)
    }

    /// Whether newer images go into the values of the release, and not into its workloads.
    #[must_use]
    pub fn follows_values(&self) -> bool {
        self.images.is_some()
    }
}

/// An object with releases, or one that may have some after its first pass.
struct SettingsObject {
    /// The generation that the watch has shown last.
    generation: i64,
    releases: BTreeSet<ReleaseKey>,
    annotations: BTreeMap<String, String>,
    target: ReleaseTarget,
    images: Option<Arc<ImageValues>>,
    /// A pass over it has begun since it was left alone last.
    is_active: bool,
}

impl SettingsObject {
    fn new(generation: i64, annotations: BTreeMap<String, String>, target: ReleaseTarget) -> Self {
        Self { generation, releases: BTreeSet::new(), annotations, target, images: None, is_active: false }
    }

    /// Whether images in its values are followed, or one that was may have to be taken back.
    fn has_values(&self) -> bool {
        self.images.is_some() || self.annotations.contains_key(IMAGE_OVERRIDES)
    }

    fn settings(&self, object: &ObjectRef, release: &ReleaseKey) -> ReleaseSettings {
        ReleaseSettings {
            object: object.clone(),
            annotations: self.annotations.clone(),
            images: self.images.clone(),
            release: release.clone(),
            target: self.target.clone(),
        }
    }
}

/// What an object says of the images in the values of its release.
#[derive(Clone, Debug)]
pub struct ValueSettings {
    /// The images that its values name, as the last pass that was through has composed them; `None`: none was through yet.
    pub images: Option<Arc<ImageValues>>,
    /// The release, once a pass was through.
    pub release: Option<ReleaseKey>,
    target: ReleaseTarget,
}

impl ValueSettings {
    /// As [`ReleaseSettings::client`]; `None` as long as the release is not known.
    ///
    /// # Errors
    /// The impersonating client cannot be built.
    pub fn client(&self, runner: &ReleaseRunner) -> Result<Option<Cluster>, ClusterError> {
        let namespace = self.release.as_ref().map(|release| release.id.namespace.as_str());
        namespace.map(|namespace| runner.actor_client(&self.target, namespace)).transpose()
    }
}

/// What has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedSettings {
    /// Releases whose workloads have other settings.
    pub releases: BTreeSet<ReleaseId>,
    /// Objects that say something else of images in values.
    pub objects: BTreeSet<ObjectRef>,
}

/// What a pass over an object has found that was through.
pub(super) struct PassedObject {
    /// The generation that it began with.
    pub(super) generation: i64,
    pub(super) releases: BTreeSet<ReleaseKey>,
    /// The images that its values name; `None`: they were not composed anew.
    pub(super) images: Option<ImageValues>,
}

/// Objects and who has which release.
#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectRef, SettingsObject>,
    owners: BTreeMap<ReleaseKey, ObjectRef>,
    /// What has changed since it was taken last.
    changed: ChangedSettings,
}

/// The settings of all releases of a process. Clones share them.
#[derive(Clone, Default)]
pub struct AllReleaseSettings(SharedChanges<State>);

impl AllReleaseSettings {
    /// The settings of the releases of a name and namespace, as marks of objects name them: the one with records there first, and those with
    /// records elsewhere. Which of them has an object, its records say.
    #[must_use]
    pub fn of(&self, release: &ReleaseId) -> Vec<ReleaseSettings> {
        let state = self.0.lock();
        let owners = state.owners.range(ReleaseKey::new(release, "")..);
        let owners = owners.take_while(|(key, _)| key.id == *release);
        let settings =
            |(key, object): (&ReleaseKey, &ObjectRef)| Some(state.objects.get(object)?.settings(object, key));
        let mut all: Vec<ReleaseSettings> = owners.filter_map(settings).collect();
        all.sort_by_key(|found| found.release.storage != release.namespace);
        all
    }

    /// What an object says of images in values; `None`: nothing, it is left alone, or it has several releases and no error.
    #[must_use]
    pub fn of_object(&self, object: &ObjectRef) -> Option<ValueSettings> {
        let state = self.0.lock();
        let known = state.objects.get(object).filter(|known| known.is_active && known.has_values())?;
        let own = known.releases.iter().filter(|release| state.owners.get(*release) == Some(object));
        let own: Vec<&ReleaseKey> = own.take(2).collect();
        let release = (own.len() == 1).then(|| own[0].clone());
        let has_errors = |images: &Arc<ImageValues>| !images.errors.is_empty();
        let images = known.images.clone().filter(|images| release.is_some() || has_errors(images));
        let counts = own.len() < 2 || images.is_some();
        counts.then(|| ValueSettings { images, release, target: known.target.clone() })
    }

    /// Waits until settings have changed, and returns whose. Cancel-safe; for one that waits.
    pub async fn changed(&self) -> ChangedSettings {
        let nothing = ChangedSettings::default();
        let take = |state: &mut State| Some(std::mem::take(&mut state.changed)).filter(|all| *all != nothing);
        self.0.take(take).await
    }

    /// A pass over an object begins, which is neither suspended nor somebody else's.
    pub(super) fn note_begun(&self, object: &ObjectRef) {
        let mut state = self.0.lock();
        let Some(known) = state.objects.get_mut(object).filter(|known| !known.is_active) else { return };
        known.is_active = true;
        state.note_changed(object);
        self.wake(state);
    }

    /// The settings of a release that is of no custom resource, before it is deployed. `object`: what stands for it.
    pub fn note_chart(&self, object: &ObjectRef, annotations: &[(String, String)], target: ReleaseTarget) {
        let annotations = annotations.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        self.note_settings(object, 0, settings_of(annotations), target);
    }

    /// The release of [`Self::note_chart`] is deployed: its settings count from now on.
    pub fn note_deployed(&self, object: &ObjectRef, release: &ReleaseId) {
        let releases = BTreeSet::from([ReleaseKey::at_home(release)]);
        self.note_pass(object, PassedObject { generation: 0, releases, images: None });
    }

    /// A pass over an object was through: it has these releases, unless another object has. Nothing counts of a pass over another generation
    /// than the watch has shown last, nor over an object that is gone: its account may be another one, or nobody on this cluster.
    pub(super) fn note_pass(&self, object: &ObjectRef, passed: PassedObject) {
        let PassedObject { generation, releases, images } = passed;
        let mut state = self.0.lock();
        let Some(known) = state.objects.get(object).filter(|known| known.generation == generation) else {
            return;
        };
        let releases = if known.target.is_on_other_cluster() { BTreeSet::new() } else { releases };
        let (before, was_active) = (known.releases.clone(), known.is_active);
        for ended in before.difference(&releases) {
            state.end(object, ended);
        }
        for new in &releases {
            if !state.owners.contains_key(new) {
                state.owners.insert(new.clone(), object.clone());
                state.changed.releases.insert(new.id.clone());
            }
        }
        let Some(known) = state.objects.get_mut(object) else { return };
        (known.releases, known.is_active) = (releases, true);
        let differs = images.is_some_and(|images| {
            let images = (!images.is_empty()).then(|| Arc::new(images));
            let differs = known.images != images;
            known.images = images;
            differs
        });
        if !was_active || differs {
            state.note_changed(object);
        }
        self.wake(state);
    }

    /// An object is as it is now, with the account of its spec; `None`: the spec names none that can be used, and nothing of the object
    /// counts. What its releases are, the next pass says.
    pub(super) fn note_object(
        &self,
        object: &ObjectRef,
        meta: ObjectMeta<'_>,
        target: Option<ReleaseTarget>,
    ) {
        match target {
            Some(target) => {
                let annotations = settings_of(meta.annotations());
                self.note_settings(object, meta.generation(), annotations, target);
            }
            None => self.forget(object),
        }
    }

    fn note_settings(
        &self,
        object: &ObjectRef,
        generation: i64,
        annotations: BTreeMap<String, String>,
        target: ReleaseTarget,
    ) {
        let mut state = self.0.lock();
        let Some(known) = state.objects.get_mut(object) else {
            state.objects.insert(object.clone(), SettingsObject::new(generation, annotations, target));
            return;
        };
        known.generation = generation;
        if known.annotations != annotations || known.target != target {
            (known.annotations, known.target) = (annotations, target);
            state.note_changed(object);
            if state.objects.get(object).is_some_and(|known| known.target.is_on_other_cluster()) {
                state.end_all(object);
            }
            self.wake(state);
        }
    }

    /// An object does not have these releases any more.
    pub(super) fn end_releases(&self, object: &ObjectRef, ended: &BTreeSet<ReleaseKey>) {
        let mut state = self.0.lock();
        for release in ended {
            state.end(object, release);
        }
        self.wake(state);
    }

    /// An object is suspended, being deleted, or has lost a release to another one: nothing of it counts until another pass was through.
    pub(super) fn leave(&self, object: &ObjectRef) {
        let mut state = self.0.lock();
        state.end_all(object);
        if let Some(known) = state.objects.get_mut(object) {
            (known.is_active, known.images) = (false, None);
        }
        self.wake(state);
    }

    /// An object is gone: nothing of it counts any more.
    pub fn forget(&self, object: &ObjectRef) {
        let mut state = self.0.lock();
        state.end_all(object);
        state.objects.remove(object);
        self.wake(state);
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        let has_changed = state.changed != ChangedSettings::default();
        drop(state);
        if has_changed {
            self.0.wake();
        }
    }
}

impl State {
    fn note_changed(&mut self, object: &ObjectRef) {
        let Some(known) = self.objects.get(object) else { return };
        let own = known.releases.iter().filter(|id| self.owners.get(*id) == Some(object));
        self.changed.releases.extend(own.map(|key| key.id.clone()));
        self.changed.objects.insert(object.clone());
    }

    /// Ends what an object says of all its releases, and of the images in its values.
    fn end_all(&mut self, object: &ObjectRef) {
        let Some(known) = self.objects.get_mut(object) else { return };
        let (releases, has_values) = (std::mem::take(&mut known.releases), known.has_values());
        if has_values {
            self.changed.objects.insert(object.clone());
        }
        for release in &releases {
            self.end(object, release);
        }
    }

    /// Ends what an object says of a release.
    fn end(&mut self, object: &ObjectRef, release: &ReleaseKey) {
        if self.owners.get(release) == Some(object) {
            self.owners.remove(release);
            self.changed.releases.insert(release.id.clone());
            if self.objects.get(object).is_some_and(SettingsObject::has_values) {
                self.changed.objects.insert(object.clone());
            }
        }
    }
}

fn settings_of<'a>(annotations: impl Iterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    let own = annotations.filter(|(name, _)| name.starts_with(PREFIX) && *name != RECORD);
    own.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{ReleaseActor, ServiceAccountRef};
    use serde_json::{Value, json};
    use windlass_cluster::Gvk;

    fn object(name: &str) -> ObjectRef {
        ObjectRef::new(Gvk::new("helm.toolkit.fluxcd.io/v2", "HelmRelease"), Some("shop"), name)
    }

    fn ids(names: &[&str]) -> BTreeSet<ReleaseId> {
        names.iter().map(|name| ReleaseId::new("shop", name)).collect()
    }

    fn policy(text: &str) -> Value {
        json!({"metadata": {"annotations": {"windlass.dev/image-policy": text, "note": "x"}}})
    }

    fn keys(names: &[&str]) -> BTreeSet<ReleaseKey> {
        ids(names).iter().map(ReleaseKey::at_home).collect()
    }

    fn account(name: &str) -> ReleaseTarget {
        let account = ServiceAccountRef::parse(name);
        ReleaseTarget {
            namespace: None,
            actor: account.map_or(ReleaseActor::Operator, ReleaseActor::Account),
        }
    }

    fn note(all: &AllReleaseSettings, name: &str, releases: &[&str]) {
        all.note_pass(&object(name), PassedObject { generation: 0, releases: keys(releases), images: None });
    }

    fn see(all: &AllReleaseSettings, name: &str, text: &str, of: &str) {
        all.note_object(&object(name), ObjectMeta::of(&policy(text)), Some(account(of)));
    }

    fn of(all: &AllReleaseSettings, release: &str) -> Option<(String, Vec<String>)> {
        let found = all.of(&ReleaseId::new("shop", release)).pop()?;
        Some((found.object.name, found.annotations.into_values().collect()))
    }

    #[tokio::test]
    async fn the_first_object_whose_pass_was_through_has_a_release() {
        let all = AllReleaseSettings::default();
        let pair = |name: &str, text: &str| Some((name.to_owned(), vec![text.to_owned()]));
        // Before a pass nothing counts, whatever the object claims.
        see(&all, "a", "force", "");
        assert_eq!(of(&all, "web"), None);
        note(&all, "a", &["web", "db"]);
        see(&all, "b", "all", "");
        note(&all, "b", &["web"]);
        assert_eq!((of(&all, "web"), of(&all, "db")), (pair("a", "force"), pair("a", "force")));
        assert_eq!(all.changed().await.releases, ids(&["web", "db"]));
        note(&all, "a", &["web", "db"]);
        see(&all, "a", "force", "");
        assert!(all.0.lock().changed == ChangedSettings::default(), "nothing has changed");
        see(&all, "a", "digest", "");
        assert_eq!(all.changed().await.releases, ids(&["web", "db"]));
        assert_eq!(of(&all, "db"), pair("a", "digest"));
        note(&all, "a", &["web"]);
        assert_eq!((of(&all, "db"), of(&all, "web")), (None, pair("a", "digest")));
        // A pass that began before an edit does not undo it.
        see(&all, "a", "never", "");
        note(&all, "a", &["web"]);
        assert_eq!(of(&all, "web"), pair("a", "never"));
        all.end_releases(&object("b"), &keys(&["web"]));
        assert_eq!(of(&all, "web"), pair("a", "never"), "it is not that of b");
        all.end_releases(&object("a"), &keys(&["web"]));
        assert_eq!(of(&all, "web"), None);
        note(&all, "a", &["web"]);
        all.leave(&object("a"));
        assert_eq!((all.changed().await.releases, of(&all, "web")), (ids(&["web", "db"]), None));
        note(&all, "a", &["web"]);
        assert_eq!(of(&all, "web"), pair("a", "never"));
        all.forget(&object("a"));
        note(&all, "a", &["web"]);
        assert_eq!((all.changed().await.releases, of(&all, "web")), (ids(&["web"]), None), "it is gone");
        note(&all, "b", &["web"]);
        assert_eq!((all.changed().await.releases, of(&all, "web")), (ids(&["web"]), pair("b", "all")));
    }

    /// A pass may take as long as its objects need to become ready, and may fail for ever.
    #[tokio::test]
    async fn the_account_is_that_of_the_spec_and_not_of_the_last_pass() {
        let all = AllReleaseSettings::default();
        let account_of = |all: &AllReleaseSettings| {
            let found = all.of(&ReleaseId::new("shop", "web")).pop()?;
            found.target.service_account("shop").map(|(_, name)| name.to_owned())
        };
        see(&all, "a", "force", "one");
        assert_eq!(account_of(&all), None, "before a pass nothing counts");
        note(&all, "a", &["web"]);
        assert_eq!((account_of(&all).as_deref(), all.changed().await.releases), (Some("one"), ids(&["web"])));
        see(&all, "a", "force", "two");
        assert_eq!((account_of(&all).as_deref(), all.changed().await.releases), (Some("two"), ids(&["web"])));
        // A pass that began before does not undo it.
        note(&all, "a", &["web"]);
        assert_eq!(account_of(&all).as_deref(), Some("two"));
        // A module: the chart says it, once its release is deployed.
        let chart = [
            ("windlass.dev/image-policy".to_owned(), "minor".to_owned()),
            ("other".to_owned(), String::new()),
        ];
        all.note_chart(&object("m"), &chart, account("three"));
        assert_eq!(of(&all, "m"), None);
        all.note_deployed(&object("m"), &ReleaseId::new("shop", "m"));
        assert_eq!(of(&all, "m"), Some(("m".to_owned(), vec!["minor".to_owned()])));
        assert_eq!(all.of(&ReleaseId::new("shop", "m"))[0].target, account("three"));
        // An account that is no name is nobody's.
        all.note_object(&object("a"), ObjectMeta::of(&policy("force")), None);
        assert!(all.of(&ReleaseId::new("shop", "web")).is_empty());
    }

    /// What was found of an earlier spec, and with the account of that, does not count for a later one.
    #[test]
    fn a_pass_over_another_generation_than_the_watch_shows_counts_for_nothing() {
        let (all, squatter) = (AllReleaseSettings::default(), object("squatter"));
        let victim = ReleaseId::new("victim", "late2");
        let key = ReleaseKey::new(&victim, "shop");
        let seen = |generation: i64, target: ReleaseTarget| {
            let mut object = policy("force");
            object["metadata"]["generation"] = generation.into();
            all.note_object(&squatter, ObjectMeta::of(&object), Some(target));
        };
        let through = |generation: i64| {
            let releases = BTreeSet::from([key.clone()]);
            all.note_pass(&squatter, PassedObject { generation, releases, images: None });
        };
        seen(1, account("tenant"));
        through(1);
        let found = all.of(&victim);
        assert_eq!((found.len(), &found[0].release), (1, &key));
        // On another cluster nobody acts on this one, before the loop has ended the claim and while a pass runs on.
        seen(2, account("").on_other_cluster());
        assert!(all.of(&victim).is_empty());
        through(1);
        assert!(all.of(&victim).is_empty(), "the pass was one over the former spec");
        through(2);
        assert!(all.of(&victim).is_empty(), "it has no release on this cluster");
        seen(3, account("other"));
        through(2);
        assert!(all.of(&victim).is_empty());
        through(3);
        assert_eq!(all.of(&victim)[0].target, account("other"));
    }

    #[test]
    fn releases_of_one_name_with_records_in_two_namespaces_have_settings_each() {
        let all = AllReleaseSettings::default();
        for (name, storage) in [("a-squatter", "evil"), ("web", "shop")] {
            see(&all, name, name, "");
            let releases = BTreeSet::from([ReleaseKey::new(&ReleaseId::new("shop", "web"), storage)]);
            all.note_pass(&object(name), PassedObject { generation: 0, releases, images: None });
        }
        let found = all.of(&ReleaseId::new("shop", "web"));
        let found: Vec<_> =
            found.iter().map(|one| (one.object.name.as_str(), &*one.release.storage)).collect();
        assert_eq!(found, [("web", "shop"), ("a-squatter", "evil")]);
        assert!(all.of(&ReleaseId::new("shop", "we")).is_empty());
    }

    #[test]
    fn images_in_values_are_those_of_the_last_pass_that_was_through() {
        let (all, web) = (AllReleaseSettings::default(), object("web"));
        let overridden = json!({"metadata": {"annotations": {IMAGE_OVERRIDES: "{}"}}});
        all.note_object(&web, ObjectMeta::of(&overridden), Some(account("")));
        assert!(all.of_object(&web).is_none(), "no pass has begun");
        all.note_begun(&web);
        let found = all.of_object(&web).unwrap();
        assert!(found.images.is_none() && found.release.is_none());
        let named = ImageValues { errors: vec!["x".to_owned()], ..ImageValues::default() };
        let through = |images: Option<&ImageValues>, releases: &[&str]| {
            let (releases, images) = (keys(releases), images.cloned());
            all.note_pass(&web, PassedObject { generation: 0, releases, images });
            all.of_object(&web)
        };
        let follows = || all.of(&ReleaseId::new("shop", "web")).iter().any(ReleaseSettings::follows_values);
        for images in [Some(&named), None] {
            let found = through(images, &["web"]).unwrap();
            assert_eq!((found.images.as_deref(), found.release), (Some(&named), keys(&["web"]).pop_first()));
            assert!(follows());
        }
        let found = through(Some(&ImageValues::default()), &["web"]).unwrap();
        assert!(found.images.is_none() && found.release.is_some() && !follows());
        let settings = [("keel.sh/policy".to_owned(), "all".to_owned())].into();
        let block = ImageValues { settings, ..ImageValues::default() };
        assert!(through(Some(&block), &["web", "db"]).is_none(), "of several releases nothing is followed");
        for releases in [&["web", "db"][..], &[]] {
            let found = through(Some(&named), releases).expect("what is wrong is said all the same");
            assert_eq!((found.images.as_deref(), found.release), (Some(&named), None));
        }
        assert!(through(Some(&named), &["web"]).is_some());
        all.forget(&web);
        assert!(all.of_object(&web).is_none());
    }
}
