//! Observes objects: their metadata from the caches, else from the server in as few requests as bounded answers
//! allow.

use crate::{
    error::Result,
    objects::{ObservedObjects, desired_objects},
    request::CrdFile,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use windlass_cluster::{
    CacheLookup, Cluster, ClusterError, Gvk, Listed, ObjectKey, ObjectMeta, ObjectRef, ObservedMeta,
    ServedKinds, Watches,
};

/// Up to this many objects of a kind are read one by one; more are read as a list.
const MAX_SINGLE_READS: usize = 2;
/// Another page of a list is read if about this many objects are still missing for each page.
const MISSES_PER_PAGE: usize = 10;
const AT_ONCE: usize = 16;

/// Reads the metadata of objects from the caches, and from the server where those have no answer.
pub(crate) async fn objects(
    cluster: &Cluster,
    watches: Option<&Watches>,
    manager: &str,
    wanted: impl Iterator<Item = &ObjectRef>,
) -> Result<ObservedObjects> {
    let mut seen = ObservedObjects::new();
    let mut groups: BTreeMap<(Gvk, Option<String>), Vec<&ObjectRef>> = BTreeMap::new();
    for object in wanted {
        // The cache holds labelled objects only: an object that is absent there may exist without our labels.
        match watches.map(|w| w.lookup(object, None)) {
            Some(CacheLookup::Present(found)) => {
                seen.insert(object.key(), Some(found));
            }
            _ => groups.entry((object.gvk.clone(), object.namespace.clone())).or_default().push(object),
        }
    }
    let reads: Vec<_> = groups
        .into_iter()
        .map(|((gvk, namespace), group)| read(cluster, manager, gvk, namespace, group))
        .collect();
    let answers: Vec<Vec<(ObjectKey, Option<ObservedMeta>)>> =
        stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
    seen.extend(answers.into_iter().flatten());
    Ok(seen)
}

async fn read(
    cluster: &Cluster,
    manager: &str,
    gvk: Gvk,
    namespace: Option<String>,
    group: Vec<&ObjectRef>,
) -> Result<Vec<(ObjectKey, Option<ObservedMeta>)>> {
    // A kind that this release defines does not exist yet, and has no objects.
    if cluster.kinds().await?.get(&gvk).is_none() {
        return Ok(group.into_iter().map(|object| (object.key(), None)).collect());
    }
    let mut found = Vec::with_capacity(group.len());
    let mut left = group;
    // A page is worth its request only if it saves some; a namespace may be full of objects of others.
    let mut pages = 1 + left.len() / MISSES_PER_PAGE;
    let mut next: Option<String> = None;
    while left.len() > MAX_SINGLE_READS && pages > 0 {
        pages -= 1;
        let page = match cluster.list_metadata_page(&gvk, namespace.as_deref(), next.as_deref()).await {
            Ok(page) => page,
            // Without the right to list, or with an expired list: read one by one.
            Err(e) if e.is_forbidden() || matches!(e.code(), Some(405 | 410)) => break,
            // The kind was removed since it was looked up.
            Err(e) if e.is_not_found() => Listed { items: Vec::new(), next: None },
            Err(e) => return Err(e.into()),
        };
        let by_name: BTreeMap<&str, _> =
            page.items.iter().map(|item| (ObjectMeta::of(item).name(), item)).collect();
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

/// The served kinds, for the objects of documents and the CRDs that a request brings: read again if one of theirs is missing.
pub(crate) async fn kinds_for<'v>(
    cluster: &Cluster,
    documents: impl Iterator<Item = &'v Value> + Clone,
    crds: &'v [CrdFile],
) -> Result<Arc<ServedKinds>> {
    Ok(cluster.kinds_with(desired_objects::needed_kinds(documents, crds)).await?)
}
