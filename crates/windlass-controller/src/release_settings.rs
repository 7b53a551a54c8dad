//! Annotations of custom resources that count for the workloads of their releases.
//!
//! Owns which object a release is of, as the passes of this process have found it, and on whose behalf its settings are followed. Knows
//! neither the settings nor who follows them. A release has no entry until a pass over its object was through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};

use windlass_cluster::{Cluster, ClusterError, ObjectMeta, ObjectRef};
use windlass_engine::ReleaseId;

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
    pub release: ReleaseId,
    /// On whose behalf the release is reconciled, as the object says now.
    target: ReleaseTarget,
}

impl ReleaseSettings {
    /// The client with the rights that the object's release is applied with: what follows from its settings must not need more.
    ///
    /// # Errors
    /// The impersonating client cannot be built.
    pub fn client(&self, runner: &ReleaseRunner) -> Result<Cluster, ClusterError> {
        runner.actor_client(&self.target, &self.release.namespace)
    }

    /// Whether newer images go into the values of the release, and not into its workloads.
    #[must_use]
    pub fn follows_values(&self) -> bool {
        self.images.is_some()
    }
}

/// An object with releases, or one that may have some after its first pass.
struct SettingsObject {
    releases: BTreeSet<ReleaseId>,
    annotations: BTreeMap<String, String>,
    target: ReleaseTarget,
    images: Option<Arc<ImageValues>>,
    /// A pass over it has begun since it was left alone last.
    is_active: bool,
}

impl SettingsObject {
    fn new(annotations: BTreeMap<String, String>, target: ReleaseTarget) -> Self {
        Self { releases: BTreeSet::new(), annotations, target, images: None, is_active: false }
    }

    /// Whether images in its values are followed, or one that was may have to be taken back.
    fn has_values(&self) -> bool {
        self.images.is_some() || self.annotations.contains_key(IMAGE_OVERRIDES)
    }

    fn settings(&self, object: &ObjectRef, release: &ReleaseId) -> ReleaseSettings {
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
    pub release: Option<ReleaseId>,
    target: ReleaseTarget,
}

impl ValueSettings {
    /// As [`ReleaseSettings::client`]; `None` as long as the release is not known.
    ///
    /// # Errors
    /// The impersonating client cannot be built.
    pub fn client(&self, runner: &ReleaseRunner) -> Result<Option<Cluster>, ClusterError> {
        let namespace = self.release.as_ref().map(|release| release.namespace.as_str());
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
    pub(super) releases: BTreeSet<ReleaseId>,
    pub(super) target: ReleaseTarget,
    /// The images that its values name; `None`: they were not composed anew.
    pub(super) images: Option<ImageValues>,
}

/// Objects and who has which release.
#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectRef, SettingsObject>,
    owners: BTreeMap<ReleaseId, ObjectRef>,
    /// What has changed since it was taken last.
    changed: ChangedSettings,
}

/// The settings of all releases of a process. Clones share them.
#[derive(Clone, Default)]
pub struct AllReleaseSettings(SharedChanges<State>);

impl AllReleaseSettings {
    /// The settings of a release; `None`: no object is known to have it.
    #[must_use]
    pub fn of(&self, release: &ReleaseId) -> Option<ReleaseSettings> {
        let state = self.0.lock();
        let object = state.owners.get(release)?;
        Some(state.objects.get(object)?.settings(object, release))
    }

    /// What an object says of images in values; `None`: nothing, it is left alone, or it has several releases and no error.
    #[must_use]
    pub fn of_object(&self, object: &ObjectRef) -> Option<ValueSettings> {
        let state = self.0.lock();
        let known = state.objects.get(object).filter(|known| known.is_active && known.has_values())?;
        let own = known.releases.iter().filter(|release| state.owners.get(*release) == Some(object));
        let own: Vec<&ReleaseId> = own.take(2).collect();
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
        self.note_settings(object, settings_of(annotations), target);
    }

    /// The release of [`Self::note_chart`] is deployed: its settings count from now on.
    pub fn note_deployed(&self, object: &ObjectRef, release: &ReleaseId) {
        let releases = BTreeSet::from([release.clone()]);
        let passed = PassedObject { releases, target: ReleaseTarget::default(), images: None };
        self.note_through(object, BTreeMap::new(), passed);
    }

    /// A pass over an object was through: it has these releases, unless another object has.
    pub(super) fn note_pass(&self, object: &ObjectRef, meta: ObjectMeta<'_>, passed: PassedObject) {
        self.note_through(object, settings_of(meta.annotations()), passed);
    }

    fn note_through(&self, object: &ObjectRef, annotations: BTreeMap<String, String>, passed: PassedObject) {
        let PassedObject { releases, target, images } = passed;
        let mut state = self.0.lock();
        let before = state.objects.get(object).map(|known| known.releases.clone()).unwrap_or_default();
        for ended in before.difference(&releases) {
            state.end(object, ended);
        }
        for new in &releases {
            if !state.owners.contains_key(new) {
                state.owners.insert(new.clone(), object.clone());
                state.changed.releases.insert(new.clone());
            }
        }
        let is_new = !state.objects.contains_key(object);
        // What the watch has shown is newer than what the pass began with.
        let unseen = || SettingsObject::new(annotations, target);
        let known = state.objects.entry(object.clone()).or_insert_with(unseen);
        (known.releases, known.is_active) = (releases, true);
        let differs = images.is_some_and(|images| {
            let images = (!images.is_empty()).then(|| Arc::new(images));
            let differs = known.images != images;
            known.images = images;
            differs
        });
        if is_new || differs {
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
            Some(target) => self.note_settings(object, settings_of(meta.annotations()), target),
            None => self.forget(object),
        }
    }

    fn note_settings(
        &self,
        object: &ObjectRef,
        annotations: BTreeMap<String, String>,
        target: ReleaseTarget,
    ) {
        let mut state = self.0.lock();
        let Some(known) = state.objects.get_mut(object) else {
            state.objects.insert(object.clone(), SettingsObject::new(annotations, target));
            return;
        };
        if known.annotations != annotations || known.target != target {
            (known.annotations, known.target) = (annotations, target);
            state.note_changed(object);
            self.wake(state);
        }
    }

    /// An object does not have these releases any more.
    pub(super) fn end_releases(&self, object: &ObjectRef, ended: &BTreeSet<ReleaseId>) {
        let mut state = self.0.lock();
        for release in ended {
            state.end(object, release);
        }
        self.wake(state);
    }

    /// An object is gone, suspended, being deleted, or has lost a release to another one: nothing of it counts any more.
    pub fn forget(&self, object: &ObjectRef) {
        let mut state = self.0.lock();
        let Some(known) = state.objects.remove(object) else { return };
        match known.has_values() {
            true => state.changed.objects.insert(object.clone()),
            false => state.changed.objects.remove(object),
        };
        for release in &known.releases {
            state.end(object, release);
        }
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
        self.changed.releases.extend(own.cloned());
        self.changed.objects.insert(object.clone());
    }

    /// Ends what an object says of a release.
    fn end(&mut self, object: &ObjectRef, release: &ReleaseId) {
        if self.owners.get(release) == Some(object) {
            self.owners.remove(release);
            self.changed.releases.insert(release.clone());
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
    use crate::target::ServiceAccountRef;
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

    fn note(all: &AllReleaseSettings, name: &str, releases: &[&str], text: &str) {
        pass(all, name, releases, text, "");
    }

    fn account(name: &str) -> ReleaseTarget {
        ReleaseTarget { namespace: None, service_account: ServiceAccountRef::parse(name) }
    }

    fn pass(all: &AllReleaseSettings, name: &str, releases: &[&str], text: &str, of: &str) {
        let passed = PassedObject { releases: ids(releases), target: account(of), images: None };
        all.note_pass(&object(name), ObjectMeta::of(&policy(text)), passed);
    }

    fn see(all: &AllReleaseSettings, name: &str, text: &str, of: &str) {
        all.note_object(&object(name), ObjectMeta::of(&policy(text)), Some(account(of)));
    }

    fn of(all: &AllReleaseSettings, release: &str) -> Option<(String, Vec<String>)> {
        let found = all.of(&ReleaseId::new("shop", release))?;
        Some((found.object.name, found.annotations.into_values().collect()))
    }

    #[tokio::test]
    async fn the_first_object_whose_pass_was_through_has_a_release() {
        let all = AllReleaseSettings::default();
        let pair = |name: &str, text: &str| Some((name.to_owned(), vec![text.to_owned()]));
        // Before a pass nothing counts, whatever the object claims.
        see(&all, "a", "force", "");
        assert_eq!(of(&all, "web"), None);
        note(&all, "a", &["web", "db"], "force");
        note(&all, "b", &["web"], "all");
        assert_eq!((of(&all, "web"), of(&all, "db")), (pair("a", "force"), pair("a", "force")));
        assert_eq!(all.changed().await.releases, ids(&["web", "db"]));
        note(&all, "a", &["web", "db"], "force");
        see(&all, "a", "force", "");
        assert!(all.0.lock().changed == ChangedSettings::default(), "nothing has changed");
        see(&all, "a", "digest", "");
        assert_eq!(all.changed().await.releases, ids(&["web", "db"]));
        assert_eq!(of(&all, "db"), pair("a", "digest"));
        note(&all, "a", &["web"], "digest");
        assert_eq!((of(&all, "db"), of(&all, "web")), (None, pair("a", "digest")));
        // A pass that began before an edit does not undo it.
        see(&all, "a", "never", "");
        note(&all, "a", &["web"], "digest");
        assert_eq!(of(&all, "web"), pair("a", "never"));
        all.end_releases(&object("b"), &ids(&["web"]));
        assert_eq!(of(&all, "web"), pair("a", "never"), "it is not that of b");
        all.end_releases(&object("a"), &ids(&["web"]));
        assert_eq!(of(&all, "web"), None);
        note(&all, "a", &["web"], "digest");
        all.forget(&object("a"));
        assert_eq!((all.changed().await.releases, of(&all, "web")), (ids(&["web", "db"]), None));
        note(&all, "b", &["web"], "all");
        assert_eq!((all.changed().await.releases, of(&all, "web")), (ids(&["web"]), pair("b", "all")));
    }

    /// A pass may take as long as its objects need to become ready, and may fail for ever.
    #[tokio::test]
    async fn the_account_is_that_of_the_spec_and_not_of_the_last_pass() {
        let all = AllReleaseSettings::default();
        let account_of = |all: &AllReleaseSettings| {
            let found = all.of(&ReleaseId::new("shop", "web"))?;
            found.target.service_account.map(|account| account.name)
        };
        see(&all, "a", "force", "one");
        assert_eq!(account_of(&all), None, "before a pass nothing counts");
        pass(&all, "a", &["web"], "force", "one");
        assert_eq!((account_of(&all).as_deref(), all.changed().await.releases), (Some("one"), ids(&["web"])));
        see(&all, "a", "force", "two");
        assert_eq!((account_of(&all).as_deref(), all.changed().await.releases), (Some("two"), ids(&["web"])));
        // A pass that began before does not undo it.
        pass(&all, "a", &["web"], "force", "one");
        assert_eq!(account_of(&all).as_deref(), Some("two"));
        // Nor does the first one of a process.
        see(&all, "b", "force", "two");
        pass(&all, "b", &["db"], "all", "one");
        let found = all.of(&ReleaseId::new("shop", "db")).unwrap();
        assert_eq!(found.target, account("two"));
        assert_eq!(found.annotations.values().collect::<Vec<_>>(), ["force"]);
        // A module: the chart says it, once its release is deployed.
        let chart = [
            ("windlass.dev/image-policy".to_owned(), "minor".to_owned()),
            ("other".to_owned(), String::new()),
        ];
        all.note_chart(&object("m"), &chart, account("three"));
        assert_eq!(of(&all, "m"), None);
        all.note_deployed(&object("m"), &ReleaseId::new("shop", "m"));
        assert_eq!(of(&all, "m"), Some(("m".to_owned(), vec!["minor".to_owned()])));
        assert_eq!(all.of(&ReleaseId::new("shop", "m")).unwrap().target, account("three"));
        // An account that is no name is nobody's.
        all.note_object(&object("a"), ObjectMeta::of(&policy("force")), None);
        assert!(all.of(&ReleaseId::new("shop", "web")).is_none());
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
            let (releases, images) = (ids(releases), images.cloned());
            let passed = PassedObject { releases, target: account(""), images };
            all.note_pass(&web, ObjectMeta::of(&overridden), passed);
            all.of_object(&web)
        };
        let follows = || all.of(&ReleaseId::new("shop", "web")).is_some_and(|found| found.follows_values());
        for images in [Some(&named), None] {
            let found = through(images, &["web"]).unwrap();
            assert_eq!((found.images.as_deref(), found.release), (Some(&named), ids(&["web"]).pop_first()));
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
