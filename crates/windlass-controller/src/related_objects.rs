//! Objects of other kinds that custom resources refer to: one watch a kind, whatever the number of references.
//!
//! Owns the watches and the objects as they were last seen. What a change leads to is the loop's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use serde_json::Value;
use tokio::sync::watch;

use super::compact_object::without_managed_fields;
use super::front_end::RelatedObjects;

use super::workers::until;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectEvent, ObjectMeta, ObjectRef};

/// A kind that is not served is looked for again after this time.
const RETRY: Duration = Duration::from_secs(30);

/// Watches of kinds, with their objects: those that a front end's objects refer to, or those of a task of its own. `T`: what is kept of
/// an object.
pub struct RelatedWatch<T = Value> {
    client: Cluster,
    namespace: Option<String>,
    /// What is kept of an object of a kind.
    keep: fn(&Gvk, Value) -> T,
    /// Field selectors of kinds of which not all objects are watched.
    fields: BTreeMap<Gvk, &'static str>,
    events: SelectAll<BoxStream<'static, (Gvk, Result<ObjectEvent, ClusterError>)>>,
    objects: BTreeMap<ObjectRef, Arc<T>>,
    /// The keys of each running list, to find what is gone afterwards.
    listing: BTreeMap<Gvk, BTreeSet<ObjectRef>>,
    /// Kinds without a watch: not served yet, or not readable.
    missing: BTreeSet<Gvk>,
    /// When they are looked for again.
    retry_at: Instant,
    /// Kinds whose first list is not through: objects may exist that are not known.
    unlisted: BTreeSet<Gvk>,
    /// Changes when other kinds are served.
    kinds: watch::Receiver<u64>,
}

impl RelatedWatch {
    /// Starts the watches of the kinds that are served. Objects are kept without their managed fields.
    pub async fn start(client: &Cluster, namespace: Option<&str>, kinds: Vec<Gvk>) -> Self {
        let watch =
            Self::start_reduced(client, namespace, kinds, &[], |_, object| without_managed_fields(object));
        let watch = watch.await;
        for kind in &watch.missing {
            tracing::info!(
                kind = kind.kind,
                group = kind.group,
                "the kind is not served: objects that refer to it wait"
            );
        }
        watch
    }

    /// The objects that an object refers to, as far as they exist.
    pub(super) fn select(&self, references: &BTreeSet<ObjectRef>) -> RelatedObjects {
        let found =
            |reference: &ObjectRef| Some((reference.clone(), Arc::clone(self.objects.get(reference)?)));
        references.iter().filter_map(found).collect()
    }
}

impl<T> RelatedWatch<T> {
    /// Starts the watches of the kinds that are served, of which only what `keep` leaves is kept. `fields`: field selectors of kinds of
    /// which not all objects are watched.
    pub async fn start_reduced(
        client: &Cluster,
        namespace: Option<&str>,
        kinds: Vec<Gvk>,
        fields: &[(Gvk, &'static str)],
        keep: fn(&Gvk, Value) -> T,
    ) -> Self {
        let mut watch = Self {
            kinds: client.kind_changes(),
            client: client.clone(),
            namespace: namespace.map(str::to_owned),
            keep,
            fields: fields.iter().cloned().collect(),
            events: SelectAll::new(),
            objects: BTreeMap::new(),
            listing: BTreeMap::new(),
            missing: kinds.into_iter().collect(),
            retry_at: Instant::now() + RETRY,
            unlisted: BTreeSet::new(),
        };
        watch.start_missing().await;
        watch
    }

    async fn start_missing(&mut self) {
        let Ok(served) = self.client.kinds().await else { return };
        for kind in self.missing.clone() {
            if served.get(&kind).is_none() {
                continue;
            }
            let fields = self.fields.get(&kind).copied().unwrap_or_default();
            match self.client.follow_selected(&kind, self.namespace.as_deref(), "", fields).await {
                Ok(stream) => {
                    self.missing.remove(&kind);
                    self.unlisted.insert(kind.clone());
                    self.events.push(stream.map(move |event| (kind.clone(), event)).boxed());
                }
                Err(error) => tracing::warn!(kind = kind.kind, "cannot watch: {error}"),
            }
        }
    }

    /// Whether all objects are known: a reference to another one is a reference to none.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Whether a kind has a watch: what it does not know does not exist.
    #[must_use]
    pub fn is_watched(&self, kind: &Gvk) -> bool {
        !self.missing.contains(kind) && !self.unlisted.contains(kind)
    }

    /// Waits for changed objects, each with what it was before, or for the end of a list. A watch that fails is started again
    /// later; its objects stay as they were last seen. Cancel-safe.
    pub async fn next(&mut self) -> Vec<(ObjectRef, Option<Arc<T>>)> {
        loop {
            let retry = (!self.missing.is_empty()).then_some(self.retry_at);
            let (kind, event) = tokio::select! {
                Some(event) = self.events.next() => event,
                Ok(()) = self.kinds.changed(), if retry.is_some() => {
                    self.start_missing().await;
                    continue;
                }
                () = until(retry) => {
                    self.retry_at = Instant::now() + RETRY;
                    self.start_missing().await;
                    continue;
                }
            };
            match event {
                Ok(event) => {
                    let listed = matches!(event, ObjectEvent::Listed);
                    let changed = self.take(&kind, event);
                    if !changed.is_empty() || listed {
                        return changed;
                    }
                }
                Err(error) => {
                    tracing::warn!(kind = kind.kind, "the watch failed and is started again: {error}");
                    self.unlisted.remove(&kind);
                    self.missing.insert(kind);
                    self.retry_at = Instant::now() + RETRY;
                }
            }
        }
    }

    /// Stores an event. Returns the names of the objects that changed, each with the object before.
    fn take(&mut self, kind: &Gvk, event: ObjectEvent) -> Vec<(ObjectRef, Option<Arc<T>>)> {
        let name = |object: &Value| ObjectMeta::of(object).reference(kind.clone());
        match event {
            ObjectEvent::Listing => {
                self.listing.insert(kind.clone(), BTreeSet::new());
                Vec::new()
            }
            ObjectEvent::Present(object) => {
                let name = name(&object);
                if let Some(listed) = self.listing.get_mut(kind) {
                    listed.insert(name.clone());
                }
                let before = self.objects.insert(name.clone(), Arc::new((self.keep)(kind, object)));
                vec![(name, before)]
            }
            ObjectEvent::Gone(object) => {
                let name = name(&object);
                self.objects.remove(&name).map(|before| (name, Some(before))).into_iter().collect()
            }
            ObjectEvent::Listed => {
                self.unlisted.remove(kind);
                let listed = self.listing.remove(kind).unwrap_or_default();
                let of_kind = |name: &&ObjectRef| name.gvk == *kind && !listed.contains(*name);
                let gone: Vec<ObjectRef> = self.objects.keys().filter(of_kind).cloned().collect();
                gone.into_iter()
                    .map(|name| {
                        let before = self.objects.remove(&name);
                        (name, before)
                    })
                    .collect()
            }
        }
    }

    /// The objects of a kind.
    pub fn all<'w>(&'w self, kind: &'w Gvk) -> impl Iterator<Item = (&'w ObjectRef, &'w Arc<T>)> {
        self.objects.iter().filter(move |(name, _)| name.gvk == *kind)
    }

    /// The objects of a kind in a namespace.
    pub fn all_in<'w>(
        &'w self,
        kind: &Gvk,
        namespace: &str,
    ) -> impl Iterator<Item = (&'w ObjectRef, &'w Arc<T>)> + use<'w, T> {
        let first = ObjectRef::new(kind.clone(), Some(namespace), "");
        let is_one = {
            let first = first.clone();
            move |name: &ObjectRef| name.gvk == first.gvk && name.namespace == first.namespace
        };
        self.objects.range(first..).take_while(move |(name, _)| is_one(name))
    }

    /// The object as it was last seen.
    #[must_use]
    pub fn get(&self, name: &ObjectRef) -> Option<&T> {
        self.objects.get(name).map(|object| &**object)
    }
}
