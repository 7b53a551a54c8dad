//! A cache of the metadata of all objects of releases, with one watch for each kind in use.
//!
//! Stores an [`ObservedMeta`] for each object and nothing else. Reports changes to a listener and judges nothing. A
//! kind is watched in all namespaces by one watch; where the rights do not allow that, by one for each namespace in
//! use.

use super::{
    api_client::Cluster,
    object_ref::{Gvk, ObjectRef},
    object_stream::lasting,
    observed_meta::ObservedMeta,
};
use futures::StreamExt as _;
use kube::runtime::watcher::{self, watcher};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task::JoinHandle};

const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Pause of a watch that the rights do not allow.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// The same if nothing waits for it: watches in namespaces work, and this one never did.
const UNNEEDED_PAUSE: Duration = Duration::from_mins(30);
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// What is watched of each kind.
#[derive(Debug, Clone)]
pub struct WatchScope {
    /// Label selector.
    pub labels: String,
    /// The field manager whose entry shows what we applied.
    pub manager: String,
}

/// A change that a watch reports.
#[derive(Debug)]
pub enum CacheEvent {
    Present(ObjectRef, ObservedMeta),
    /// Deleted, or no longer labelled. `ObservedMeta` is its last state.
    Gone(ObjectRef, ObservedMeta),
}

/// The cache's knowledge of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "an answer that is matched at once")]
pub enum CacheLookup {
    Present(ObservedMeta),
    /// It does not exist, or is not labelled, and the watch is not behind.
    Absent,
    /// The watch may be behind our last write.
    Behind,
    /// The kind is not watched: ask the server.
    Unwatched,
}

/// The cache. Cheap to clone; watches end when the last clone is dropped.
#[derive(Clone)]
pub struct Watches {
    inner: Arc<Inner>,
}

type Listener = Box<dyn Fn(&CacheEvent) + Send + Sync>;
/// A kind and, where rights are by namespace, one namespace.
type WatchKey = (Gvk, Option<String>);

struct Inner {
    cluster: Cluster,
    scope: WatchScope,
    shared: Arc<Shared>,
    tasks: Mutex<BTreeMap<WatchKey, JoinHandle<()>>>,
}

struct Shared {
    tables: RwLock<BTreeMap<WatchKey, Table>>,
    listed: Notify,
    listener: Listener,
}

/// Namespace and name.
type Name = (Option<String>, String);
type Objects = HashMap<Name, ObservedMeta>;

#[derive(Default)]
struct Table {
    objects: Objects,
    /// The list in progress: becomes `objects` when it is complete.
    arriving: Option<(Instant, Objects)>,
    /// When the last complete list was requested.
    listed_at: Option<Instant>,
    /// Highest resource version since the last complete list; a restored cluster starts over.
    newest: u64,
    /// The server refuses this watch.
    refused: bool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).values() {
            task.abort();
        }
    }
}

impl Watches {
    /// An empty cache; `listener` is called from the watches' tasks and must return quickly.
    pub fn new(
        cluster: Cluster,
        scope: WatchScope,
        listener: impl Fn(&CacheEvent) + Send + Sync + 'static,
    ) -> Self {
        let shared =
            Shared { tables: RwLock::default(), listed: Notify::new(), listener: Box::new(listener) };
        Self { inner: Arc::new(Inner { cluster, scope, shared: Arc::new(shared), tasks: Mutex::default() }) }
    }

    /// Starts watches for kinds that are not watched yet, each with a namespace in use, and waits until they are
    /// listed once or refused. The wait is short: a kind that is not listed counts as not watched.
    pub async fn watch(&self, kinds: impl IntoIterator<Item = (Gvk, Option<String>)>) {
        let mut wanted: Vec<WatchKey> = kinds.into_iter().collect();
        let everywhere: Vec<WatchKey> = wanted.iter().map(|(gvk, _)| (gvk.clone(), None)).collect();
        self.start_all(&everywhere).await;
        {
            let tables = self.inner.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
            let refused = |gvk: &Gvk| tables.get(&(gvk.clone(), None)).is_some_and(|t| t.refused);
            wanted.retain(|(gvk, namespace)| namespace.is_some() && refused(gvk));
        }
        self.start_all(&wanted).await;
    }

    async fn start_all(&self, wanted: &[WatchKey]) {
        for key in wanted {
            self.start(key);
        }
        // The tables show whether it was in time.
        drop(tokio::time::timeout(LIST_TIMEOUT, self.listed(wanted)).await);
    }

    async fn listed(&self, wanted: &[WatchKey]) {
        loop {
            let listed = self.inner.shared.listed.notified();
            tokio::pin!(listed);
            listed.as_mut().enable();
            let ready = {
                let tables = self.inner.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
                wanted.iter().all(|key| tables.get(key).is_some_and(|t| t.refused || t.listed_at.is_some()))
            };
            if ready {
                return;
            }
            listed.await;
        }
    }

    fn start(&self, key: &WatchKey) {
        let mut tasks = self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.contains_key(key) {
            return;
        }
        self.inner.shared.table(key, |_| ());
        let run = run(
            self.inner.cluster.clone(),
            self.inner.scope.clone(),
            Arc::clone(&self.inner.shared),
            key.clone(),
        );
        tasks.insert(key.clone(), tokio::spawn(run));
    }

    /// Looks an object up that was last written at resource version `version`, at `written`.
    pub fn lookup(&self, object: &ObjectRef, written: Option<(Option<u64>, Instant)>) -> CacheLookup {
        let tables = self.inner.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
        let Some(table) = listed_table(&tables, &object.gvk, object.namespace.as_deref()) else {
            return CacheLookup::Unwatched;
        };
        table.lookup(&(object.namespace.clone(), object.name.clone()), written)
    }

    /// Whether the cache has objects of a kind in a namespace whose names are among those asked for; `None`: the kind is not
    /// watched there.
    pub fn has_any(&self, gvk: &Gvk, namespace: &str, named: impl Fn(&str) -> bool) -> Option<bool> {
        let tables = self.inner.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
        let table = listed_table(&tables, gvk, Some(namespace))?;
        Some(table.objects.keys().any(|(own, name)| own.as_deref() == Some(namespace) && named(name)))
    }

    /// Number of cached objects and of watches: for metrics.
    pub fn size(&self) -> (usize, usize) {
        let tables = self.inner.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
        (tables.values().map(|t| t.objects.len()).sum(), tables.len())
    }
}

/// The table of a kind in all namespaces, else in this one; `None` before its first complete list.
fn listed_table<'t>(
    tables: &'t BTreeMap<WatchKey, Table>,
    gvk: &Gvk,
    namespace: Option<&str>,
) -> Option<&'t Table> {
    let listed = |namespace: Option<&str>| {
        let key = (gvk.clone(), namespace.map(str::to_owned));
        tables.get(&key).filter(|table| !table.refused && table.listed_at.is_some())
    };
    listed(None).or_else(|| listed(namespace))
}

impl Table {
    fn lookup(&self, name: &Name, written: Option<(Option<u64>, Instant)>) -> CacheLookup {
        // A list that was requested after a write includes it, whatever its versions are: a restored cluster starts
        // over.
        let relisted = |at| self.listed_at.is_some_and(|listed| listed > at);
        match (self.objects.get(name), written) {
            (Some(seen), Some((Some(version), at)))
                if seen.version_number().is_some_and(|v| v < version) && !relisted(at) =>
            {
                CacheLookup::Behind
            }
            (Some(seen), _) => CacheLookup::Present(seen.clone()),
            (None, None) => CacheLookup::Absent,
            (None, Some((version, at))) => {
                let passed = version.is_some_and(|v| self.newest >= v);
                if passed || relisted(at) { CacheLookup::Absent } else { CacheLookup::Behind }
            }
        }
    }
}

impl Shared {
    fn table<R>(&self, key: &WatchKey, change: impl FnOnce(&mut Table) -> R) -> R {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        change(tables.entry(key.clone()).or_default())
    }

    /// Pause of a refused watch.
    fn refused_pause(&self, key: &WatchKey) -> Duration {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let never = tables.get(key).is_some_and(|table| table.listed_at.is_none());
        let spared = |(other, table): (&WatchKey, &Table)| {
            other.0 == key.0 && other.1.is_some() && table.listed_at.is_some() && !table.refused
        };
        match key.1.is_none() && never && tables.iter().any(spared) {
            true => UNNEEDED_PAUSE,
            false => REFUSED_PAUSE,
        }
    }

    /// Takes an event; `asked` is when the stream was last polled.
    fn take(
        &self,
        key: &WatchKey,
        event: watcher::Event<(Option<String>, String, ObservedMeta)>,
        asked: Instant,
    ) {
        let object = |(namespace, name): &Name| ObjectRef {
            gvk: key.0.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        };
        let changes: Vec<CacheEvent> = self.table(key, |table| match event {
            watcher::Event::Init => {
                table.arriving = Some((asked, HashMap::new()));
                Vec::new()
            }
            watcher::Event::InitApply((namespace, name, seen)) => {
                if let Some((_, arriving)) = &mut table.arriving {
                    arriving.insert((namespace, name), seen);
                }
                Vec::new()
            }
            watcher::Event::InitDone => {
                let Some((asked, arrived)) = table.arriving.take() else { return Vec::new() };
                let before = std::mem::replace(&mut table.objects, arrived);
                table.newest =
                    table.objects.values().filter_map(ObservedMeta::version_number).max().unwrap_or_default();
                table.listed_at = Some(asked);
                table.refused = false;
                let changed = table.objects.iter().filter(|(name, seen)| before.get(*name) != Some(*seen));
                let mut changes: Vec<_> =
                    changed.map(|(n, seen)| CacheEvent::Present(object(n), seen.clone())).collect();
                let gone = before.into_iter().filter(|(name, _)| !table.objects.contains_key(name));
                changes.extend(gone.map(|(name, seen)| CacheEvent::Gone(object(&name), seen)));
                changes
            }
            watcher::Event::Apply((namespace, name, seen)) => {
                table.newest = table.newest.max(seen.version_number().unwrap_or_default());
                let name = (namespace, name);
                let change = CacheEvent::Present(object(&name), seen.clone());
                table.objects.insert(name, seen);
                vec![change]
            }
            watcher::Event::Delete((namespace, name, seen)) => {
                table.newest = table.newest.max(seen.version_number().unwrap_or_default());
                let name = (namespace, name);
                table.objects.remove(&name);
                vec![CacheEvent::Gone(object(&name), seen)]
            }
        });
        for change in &changes {
            (self.listener)(change);
        }
    }
}

type Metadata = kube::core::PartialObjectMeta<kube::api::DynamicObject>;

/// Runs one watch for the life of the cache.
async fn run(cluster: Cluster, scope: WatchScope, shared: Arc<Shared>, key: WatchKey) {
    let mut pause = Duration::from_millis(100);
    let mut kinds = cluster.kind_changes();
    // Streaming lists save the server a copy of everything; servers without them refuse.
    let mut strategy = watcher::InitialListStrategy::StreamingList;
    loop {
        match cluster.api::<Metadata>(&key.0, key.1.as_deref()).await {
            Ok(api) => {
                let config = watcher::Config {
                    initial_list_strategy: strategy.clone(),
                    ..watcher::Config::default().labels(&scope.labels)
                };
                let mut stream = watcher(api, config).boxed();
                loop {
                    let asked = Instant::now();
                    match stream.next().await {
                        None => break,
                        Some(Ok(event)) => {
                            pause = Duration::from_millis(100);
                            let done = matches!(event, watcher::Event::InitDone);
                            shared.take(&key, reduce(event, &scope.manager), asked);
                            if done {
                                shared.listed.notify_waiters();
                            }
                        }
                        Some(Err(error)) => {
                            tracing::debug!(kind = %key.0.kind, namespace = key.1, %error, "watch interrupted");
                            let status = lasting(&error);
                            if status.as_ref().is_some_and(|s| s.code == 422) {
                                strategy = watcher::InitialListStrategy::ListWatch;
                                break;
                            }
                            let mut wait = pause;
                            if let Some(status) = status {
                                let first = shared.table(&key, |t| !std::mem::replace(&mut t.refused, true));
                                if first && key.1.is_none() {
                                    tracing::info!(kind = %key.0.kind, reason = status.message, "cannot watch all namespaces: watching single ones");
                                } else if first {
                                    tracing::warn!(kind = %key.0.kind, namespace = key.1, reason = status.message, "cannot watch");
                                }
                                shared.listed.notify_waiters();
                                wait = shared.refused_pause(&key);
                            }
                            // A kind that was removed may be served again.
                            drop(tokio::time::timeout(wait, kinds.changed()).await);
                            pause = (pause * 2).min(MAX_PAUSE);
                        }
                    }
                }
            }
            Err(error) => {
                // The kind was removed, or the server is down.
                tracing::warn!(kind = %key.0.kind, %error, "cannot watch");
                shared.table(&key, |t| t.refused = true);
                shared.listed.notify_waiters();
                drop(tokio::time::timeout(pause, kinds.changed()).await);
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

fn reduce(
    event: watcher::Event<Metadata>,
    manager: &str,
) -> watcher::Event<(Option<String>, String, ObservedMeta)> {
    let seen = |object: Metadata| {
        let namespace = object.metadata.namespace.clone();
        let name = object.metadata.name.clone().unwrap_or_default();
        let value =
            serde_json::json!({"metadata": serde_json::to_value(object.metadata).unwrap_or_default()});
        (namespace, name, ObservedMeta::of(&value, manager))
    };
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(seen(object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(seen(object)),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitApply(object) => watcher::Event::InitApply(seen(object)),
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(version: u64) -> ObservedMeta {
        ObservedMeta { resource_version: version.to_string(), ..ObservedMeta::default() }
    }

    #[test]
    fn knows_when_it_is_behind() {
        let start = Instant::now();
        let later = start + Duration::from_secs(1);
        let before = start.checked_sub(Duration::from_millis(1)).unwrap();
        let name = (Some("n".to_owned()), "o".to_owned());
        let objects = HashMap::from([(name.clone(), seen(5))]);
        let full = Table { objects, newest: 5, listed_at: Some(start), ..Table::default() };
        let empty = Table { newest: 5, listed_at: Some(start), ..Table::default() };
        let cases = [
            ("as written", &full, Some((Some(5), later)), CacheLookup::Present(seen(5))),
            ("changed since", &full, Some((Some(4), later)), CacheLookup::Present(seen(5))),
            ("our write has not arrived", &full, Some((Some(6), later)), CacheLookup::Behind),
            (
                "listed since, in a cluster that was restored",
                &full,
                Some((Some(6), before)),
                CacheLookup::Present(seen(5)),
            ),
            ("never written", &full, None, CacheLookup::Present(seen(5))),
            ("created, not arrived", &empty, Some((Some(6), later)), CacheLookup::Behind),
            ("created and gone", &empty, Some((Some(4), later)), CacheLookup::Absent),
            ("gone by a newer list", &empty, Some((None, before)), CacheLookup::Absent),
            ("never there", &empty, None, CacheLookup::Absent),
        ];
        for (what, table, written, expected) in cases {
            assert_eq!(table.lookup(&name, written), expected, "{what}");
        }
    }

    #[test]
    fn a_refused_watch_is_tried_again_soon_where_something_waits_for_it() {
        let pods = |namespace: Option<&str>| (Gvk::new("v1", "Pod"), namespace.map(str::to_owned));
        let table = |listed: bool, refused: bool| Table {
            listed_at: listed.then(Instant::now),
            refused,
            ..Table::default()
        };
        let cases = [
            ("no watch in a namespace", vec![(pods(None), table(false, true))], REFUSED_PAUSE),
            (
                "one in a namespace",
                vec![(pods(None), table(false, true)), (pods(Some("n")), table(true, false))],
                UNNEEDED_PAUSE,
            ),
            (
                "one that is refused, too",
                vec![(pods(None), table(false, true)), (pods(Some("n")), table(true, true))],
                REFUSED_PAUSE,
            ),
            (
                "one of another kind",
                vec![
                    (pods(None), table(false, true)),
                    ((Gvk::new("v1", "Node"), Some("n".into())), table(true, false)),
                ],
                REFUSED_PAUSE,
            ),
            (
                "it was allowed once",
                vec![(pods(None), table(true, true)), (pods(Some("n")), table(true, false))],
                REFUSED_PAUSE,
            ),
        ];
        for (what, tables, expected) in cases {
            let shared = Shared {
                tables: RwLock::new(tables.into_iter().collect()),
                listed: Notify::new(),
                listener: Box::new(|_| ()),
            };
            assert_eq!(shared.refused_pause(&pods(None)), expected, "{what}");
            assert_eq!(shared.refused_pause(&pods(Some("n"))), REFUSED_PAUSE, "{what}");
        }
    }

    #[test]
    fn a_new_list_tells_what_vanished() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let listener = move |change: &CacheEvent| {
            let text = match change {
                CacheEvent::Present(object, _) => format!("+{}", object.name),
                CacheEvent::Gone(object, _) => format!("-{}", object.name),
            };
            sink.lock().unwrap().push(text);
        };
        let shared =
            Shared { tables: RwLock::default(), listed: Notify::new(), listener: Box::new(listener) };
        let key = (Gvk::new("v1", "ConfigMap"), None);
        let at = Instant::now();
        let object = |name: &str, version| (Some("n".to_owned()), name.to_owned(), seen(version));
        for event in [
            watcher::Event::Init,
            watcher::Event::InitApply(object("a", 1)),
            watcher::Event::InitApply(object("b", 2)),
            watcher::Event::InitDone,
            watcher::Event::Delete(object("a", 3)),
            watcher::Event::Init,
            watcher::Event::InitApply(object("c", 4)),
            watcher::Event::InitDone,
        ] {
            shared.take(&key, event, at);
        }
        let mut told = told.lock().unwrap().clone();
        told[..2].sort();
        assert_eq!(told, ["+a", "+b", "-a", "+c", "-b"]);
        // Restored from a backup: versions go back, and a write after that is not yet here.
        for event in
            [watcher::Event::Init, watcher::Event::InitApply(object("d", 2)), watcher::Event::InitDone]
        {
            shared.take(&key, event, at);
        }
        let look = |version| {
            let name = (Some("n".to_owned()), "new".to_owned());
            shared.table(&key, |table| table.lookup(&name, Some((Some(version), at))))
        };
        assert_eq!((look(3), look(2)), (CacheLookup::Behind, CacheLookup::Absent));
    }
}
