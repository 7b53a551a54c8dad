//! What there is: the records of a release and the metadata of objects. From caches where they know, else from the
//! server in as few requests as bounded answers allow.

use crate::cluster::{
    CacheLookup, Cluster, ClusterError, Gvk, Listed, ObjectKey, ObjectRef, ObservedMeta, Watches,
};
use crate::release::{
    error::{EngineError, Result},
    lock::lock_policy,
    plan::ObservedObjects,
    record::{Record, RecordStore, ReleaseStatus, Revision, StoredRecord},
    request::ReleaseId,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Up to this many objects of a kind are asked for one by one; more are found in a list.
const SINGLY: usize = 2;
/// A further page of a list is asked for if about so many objects of a page's worth are still looked for.
const SPARED: usize = 10;
const AT_ONCE: usize = 16;

/// The past of a release.
#[derive(Debug, Default)]
pub struct History {
    /// All revisions, oldest first.
    pub(crate) history: Vec<Revision>,
    /// Whole records of those that matter: all that are not superseded, and the newest.
    pub(crate) records: Vec<StoredRecord>,
    /// Nobody who respects the release's lock is at work on it.
    pub(crate) free: bool,
    /// Who lives and has the release's lock, where it was only looked at.
    pub(crate) holder: Option<LeaseHolder>,
}

/// Who has a lock.
#[derive(Debug, Clone)]
pub(crate) struct LeaseHolder {
    pub(crate) lease: String,
    pub(crate) by: String,
}

impl From<LeaseHolder> for EngineError {
    fn from(LeaseHolder { lease, by }: LeaseHolder) -> Self {
        Self::Held { lease, by }
    }
}

impl History {
    /// The newest record, if there is one.
    #[must_use]
    pub fn newest(&self) -> Option<&Record> {
        self.records.last().map(|stored| &stored.record)
    }

    /// An operation in progress, with what is known of it.
    pub(crate) fn explained(&self, error: EngineError) -> EngineError {
        match (error, &self.holder, self.newest()) {
            (EngineError::InProgress, Some(holder), _) => holder.clone().into(),
            (EngineError::InProgress, None, Some(newest)) => lock_policy::pending(newest),
            (EngineError::NameInUse, None, Some(newest))
                if newest.info.status == ReleaseStatus::Uninstalling =>
            {
                let half = lock_policy::half_uninstalled(newest, self.free, Timestamp::now());
                EngineError::HalfUninstalled { name: newest.name.clone(), half }
            }
            (error, ..) => error,
        }
    }

    /// Whether two revisions are called deployed, and whoever of ours made the newer one is gone: it died, or could not
    /// write, before the older one was called superseded.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.free && self.has_two_deployed()
    }

    /// Whether the newest revision was deployed by one of ours while an older one is still called so.
    pub(crate) fn has_two_deployed(&self) -> bool {
        let deployed = |stored: &StoredRecord| stored.record.info.status == ReleaseStatus::Deployed;
        self.records.split_last().is_some_and(|(newest, older)| {
            deployed(newest) && !newest.record.extension.holder.is_empty() && older.iter().any(deployed)
        })
    }
}

/// Reads the past of a release.
pub(crate) async fn records(store: RecordStore<'_>, id: &ReleaseId) -> Result<History> {
    let labels = format!("name={},status!={}", id.name, ReleaseStatus::Superseded);
    let whole = store.list(Some(&id.namespace), &labels);
    let (history, mut records) = if store.is_as_seen() {
        // That list takes no time, and a first install needs no other.
        let history = store.history(id).await?;
        let records = if history.is_empty() { Vec::new() } else { whole.await? };
        (history, records)
    } else {
        tokio::try_join!(store.history(id), whole)?
    };
    if let Some(newest) = history.last()
        && records.last().is_none_or(|r| r.record.version < newest.revision)
        && let Some(found) = store.get(id, newest.revision).await?
    {
        records.push(found);
    }
    for stored in &mut records {
        store.complete(&mut stored.record).await?;
    }
    Ok(History { history, records, free: false, holder: None })
}

/// Looks at objects: in the caches, and at the server where those do not know.
pub(crate) async fn objects(
    cluster: &Cluster,
    watches: Option<&Watches>,
    manager: &str,
    wanted: impl Iterator<Item = &ObjectRef>,
) -> Result<ObservedObjects> {
    let mut seen = ObservedObjects::new();
    let mut groups: BTreeMap<(Gvk, Option<String>), Vec<&ObjectRef>> = BTreeMap::new();
    for object in wanted {
        // The cache holds labelled objects only: absence there says nothing about one that is not ours.
        match watches.map(|w| w.lookup(object, None)) {
            Some(CacheLookup::Present(found)) => {
                seen.insert(object.key(), Some(found));
            }
            _ => groups.entry((object.gvk.clone(), object.namespace.clone())).or_default().push(object),
        }
    }
    let looks: Vec<_> = groups
        .into_iter()
        .map(|((gvk, namespace), group)| look(cluster, manager, gvk, namespace, group))
        .collect();
    let answers: Vec<Vec<(ObjectKey, Option<ObservedMeta>)>> =
        stream::iter(looks).buffered(AT_ONCE).try_collect().await?;
    seen.extend(answers.into_iter().flatten());
    Ok(seen)
}

async fn look(
    cluster: &Cluster,
    manager: &str,
    gvk: Gvk,
    namespace: Option<String>,
    group: Vec<&ObjectRef>,
) -> Result<Vec<(ObjectKey, Option<ObservedMeta>)>> {
    // A kind that this very release brings is not there yet, and nothing of it.
    if cluster.kinds().await?.get(&gvk).is_none() {
        return Ok(group.into_iter().map(|object| (object.key(), None)).collect());
    }
    let mut found = Vec::with_capacity(group.len());
    let mut left = group;
    // A page is worth its request as long as it spares some; a namespace may be full of what is not ours.
    let mut pages = 1 + left.len() / SPARED;
    let mut next: Option<String> = None;
    while left.len() > SINGLY && pages > 0 {
        pages -= 1;
        let page = match cluster.list_metadata_page(&gvk, namespace.as_deref(), next.as_deref()).await {
            Ok(page) => page,
            // No right to list, a server that is not there for lists, or a list that grew too old: ask singly.
            Err(e) if e.is_forbidden() || matches!(e.code(), Some(405 | 410)) => break,
            // The kind went since it was looked up.
            Err(e) if e.is_not_found() => Listed { items: Vec::new(), next: None },
            Err(e) => return Err(e.into()),
        };
        let by_name: BTreeMap<&str, _> =
            page.items.iter().filter_map(|item| Some((item["metadata"]["name"].as_str()?, item))).collect();
        let mut missing = Vec::new();
        for object in left {
            match by_name.get(object.name.as_str()) {
                Some(item) => found.push((object.key(), Some(ObservedMeta::of(item, manager)))),
                None if page.next.is_some() => missing.push(object),
                None => found.push((object.key(), None)),
            }
        }
        left = missing;
        next = page.next;
    }
    let single: Vec<_> = left
        .into_iter()
        .map(|object| async move {
            match cluster.get_metadata(object).await {
                Ok(item) => Ok((object.key(), item.map(|item| ObservedMeta::of(&item, manager)))),
                Err(ClusterError::NoKind(_)) => Ok((object.key(), None)),
                Err(e) => Err(e),
            }
        })
        .collect();
    let single: Vec<_> = stream::iter(single).buffered(AT_ONCE).try_collect().await?;
    found.extend(single);
    Ok(found)
}
