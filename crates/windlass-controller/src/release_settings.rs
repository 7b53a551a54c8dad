//! Annotations of custom resources that count for the workloads of their releases.
//!
//! Owns which object a release is of, as the passes of this process have found it, and on whose behalf its settings are followed. Knows
//! neither the settings nor who follows them. A release has no entry until a pass over its object was through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_cluster::{Cluster, ClusterError, ObjectMeta, ObjectRef};
use windlass_engine::ReleaseId;

use super::release_runner::ReleaseRunner;
use super::target::ReleaseTarget;

/// What the names of such annotations begin with.
const PREFIX: &str = "windlass.dev/image-";

/// What an object says of the workloads of its release.
#[derive(Clone, Debug)]
pub struct ReleaseSettings {
    /// The object.
    pub object: ObjectRef,
    /// Its annotations `windlass.dev/image-…`; there may be none.
    pub annotations: BTreeMap<String, String>,
    /// On whose behalf the release is reconciled.
    target: ReleaseTarget,
    /// The namespace of the release.
    namespace: String,
}

impl ReleaseSettings {
    /// The client with the rights that the object's release is applied with: what follows from its settings must not need more.
    ///
    /// # Errors
    /// The impersonating client cannot be built.
    pub fn client(&self, runner: &ReleaseRunner) -> Result<Cluster, ClusterError> {
        runner.actor_client(&self.target, &self.namespace)
    }
}

/// An object with releases.
struct SettingsObject {
    releases: BTreeSet<ReleaseId>,
    annotations: BTreeMap<String, String>,
    target: ReleaseTarget,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<ObjectRef, SettingsObject>,
    owners: BTreeMap<ReleaseId, ObjectRef>,
    /// Releases whose settings have changed since they were taken last.
    changed: BTreeSet<ReleaseId>,
}

struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<()>,
}

/// The settings of all releases of a process. Clones share them.
#[derive(Clone)]
pub struct AllReleaseSettings(Arc<Shared>);

impl Default for AllReleaseSettings {
    fn default() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), changes: watch::Sender::new(()) }))
    }
}

impl AllReleaseSettings {
    /// The settings of a release; `None`: no object is known to have it.
    #[must_use]
    pub fn of(&self, release: &ReleaseId) -> Option<ReleaseSettings> {
        let state = self.lock();
        let object = state.owners.get(release)?;
        let known = state.objects.get(object)?;
        Some(ReleaseSettings {
            object: object.clone(),
            annotations: known.annotations.clone(),
            target: known.target.clone(),
            namespace: release.namespace.clone(),
        })
    }

    /// Waits until settings have changed, and returns their releases. Cancel-safe; for one that waits.
    pub async fn changed(&self) -> BTreeSet<ReleaseId> {
        let mut changes = self.0.changes.subscribe();
        loop {
            let changed = std::mem::take(&mut self.lock().changed);
            if !changed.is_empty() {
                return changed;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// A pass over an object was through: it has these releases, unless another object has.
    pub(super) fn note_pass(
        &self,
        object: &ObjectRef,
        meta: ObjectMeta<'_>,
        releases: BTreeSet<ReleaseId>,
        target: ReleaseTarget,
    ) {
        let mut state = self.lock();
        let before = state.objects.get(object).map(|known| known.releases.clone()).unwrap_or_default();
        for ended in before.difference(&releases) {
            state.end(object, ended);
        }
        for new in &releases {
            if !state.owners.contains_key(new) {
                state.owners.insert(new.clone(), object.clone());
                state.changed.insert(new.clone());
            }
        }
        // What the watch has shown is newer than what the pass began with.
        let annotations = state.objects.get(object).map(|known| known.annotations.clone());
        let annotations = annotations.unwrap_or_else(|| settings_of(meta));
        let known = SettingsObject { releases, annotations, target };
        let before = state.objects.insert(object.clone(), known);
        let is_same = before.is_some_and(|before| {
            state
                .objects
                .get(object)
                .is_some_and(|now| before.annotations == now.annotations && before.target == now.target)
        });
        if !is_same {
            state.note_changed(object);
        }
        self.wake(state);
    }

    /// An object is as it is now. What its releases are, the next pass says.
    pub(super) fn note_object(&self, object: &ObjectRef, meta: ObjectMeta<'_>) {
        let mut state = self.lock();
        let Some(known) = state.objects.get_mut(object) else { return };
        let annotations = settings_of(meta);
        if known.annotations != annotations {
            known.annotations = annotations;
            state.note_changed(object);
            self.wake(state);
        }
    }

    /// An object does not have these releases any more.
    pub(super) fn end_releases(&self, object: &ObjectRef, ended: &BTreeSet<ReleaseId>) {
        let mut state = self.lock();
        for release in ended {
            state.end(object, release);
        }
        self.wake(state);
    }

    /// An object is gone, suspended, being deleted, or has lost a release to another one: nothing of it counts any more.
    pub(super) fn forget(&self, object: &ObjectRef) {
        let mut state = self.lock();
        let Some(known) = state.objects.remove(object) else { return };
        for release in &known.releases {
            state.end(object, release);
        }
        self.wake(state);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        let has_changed = !state.changed.is_empty();
        drop(state);
        if has_changed {
            self.0.changes.send_replace(());
        }
    }
}

impl State {
    fn note_changed(&mut self, object: &ObjectRef) {
        let releases = self.objects.get(object).map(|known| known.releases.clone()).unwrap_or_default();
        self.changed.extend(releases.into_iter().filter(|id| self.owners.get(id) == Some(object)));
    }

    /// Ends what an object says of a release.
    fn end(&mut self, object: &ObjectRef, release: &ReleaseId) {
        if self.owners.get(release) == Some(object) {
            self.owners.remove(release);
            self.changed.insert(release.clone());
        }
    }
}

fn settings_of(meta: ObjectMeta<'_>) -> BTreeMap<String, String> {
    let own = meta.annotations().filter(|(name, _)| name.starts_with(PREFIX));
    own.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let target = ReleaseTarget::default();
        all.note_pass(&object(name), ObjectMeta::of(&policy(text)), ids(releases), target);
    }

    fn of(all: &AllReleaseSettings, release: &str) -> Option<(String, String)> {
        let found = all.of(&ReleaseId::new("shop", release))?;
        Some((found.object.name, found.annotations.into_values().collect()))
    }

    #[tokio::test]
    async fn the_first_object_whose_pass_was_through_has_a_release() {
        let all = AllReleaseSettings::default();
        let pair = |name: &str, text: &str| Some((name.to_owned(), text.to_owned()));
        // Before a pass nothing counts, whatever the object claims.
        all.note_object(&object("a"), ObjectMeta::of(&policy("force")));
        assert_eq!(of(&all, "web"), None);
        note(&all, "a", &["web", "db"], "force");
        note(&all, "b", &["web"], "all");
        assert_eq!((of(&all, "web"), of(&all, "db")), (pair("a", "force"), pair("a", "force")));
        assert_eq!(all.changed().await, ids(&["web", "db"]));
        note(&all, "a", &["web", "db"], "force");
        all.note_object(&object("a"), ObjectMeta::of(&policy("force")));
        assert!(all.lock().changed.is_empty(), "nothing has changed");
        all.note_object(&object("a"), ObjectMeta::of(&policy("digest")));
        assert_eq!(all.changed().await, ids(&["web", "db"]));
        assert_eq!(of(&all, "db"), pair("a", "digest"));
        note(&all, "a", &["web"], "digest");
        assert_eq!((of(&all, "db"), of(&all, "web")), (None, pair("a", "digest")));
        // A pass that began before an edit does not undo it.
        all.note_object(&object("a"), ObjectMeta::of(&policy("never")));
        note(&all, "a", &["web"], "digest");
        assert_eq!(of(&all, "web"), pair("a", "never"));
        all.end_releases(&object("b"), &ids(&["web"]));
        assert_eq!(of(&all, "web"), pair("a", "never"), "it is not that of b");
        all.end_releases(&object("a"), &ids(&["web"]));
        assert_eq!(of(&all, "web"), None);
        note(&all, "a", &["web"], "digest");
        all.forget(&object("a"));
        assert_eq!((all.changed().await, of(&all, "web")), (ids(&["web", "db"]), None));
        note(&all, "b", &["web"], "all");
        assert_eq!((all.changed().await, of(&all, "web")), (ids(&["web"]), pair("b", "all")));
    }
}
