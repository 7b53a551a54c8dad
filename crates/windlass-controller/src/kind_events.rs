//! The events of a kind, in one namespace, in several, or in all.
//!
//! Owns how the lists and watches of several namespaces become one: one list at first, and afterwards nothing but changes.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectEvent, ObjectMeta};

/// Events of a kind, as they come.
pub(super) type KindEvents = BoxStream<'static, Result<ObjectEvent, ClusterError>>;

/// Follows the objects of a kind that a label selector selects. `namespaces`: none for all.
///
/// # Errors
/// The API server refuses to list or watch the kind.
pub(super) async fn follow(
    client: &Cluster,
    kind: &Gvk,
    namespaces: &[String],
    selector: &str,
) -> Result<KindEvents, ClusterError> {
    if let [] | [_] = namespaces {
        let namespace = namespaces.first().map(String::as_str);
        return Ok(client.follow_selected(kind, namespace, selector, "").await?.boxed());
    }
    let opened = namespaces.iter().map(|namespace| async move {
        let events = client.follow_selected(kind, Some(namespace), selector, "").await?;
        let namespace = namespace.clone();
        Ok::<_, ClusterError>(events.map(move |event| (namespace.clone(), event)).boxed())
    });
    let streams: Vec<_> = stream::iter(opened.collect::<Vec<_>>()).buffered(8).try_collect().await?;
    let mut merge = Merge::new(namespaces);
    let events = stream::select_all(streams);
    Ok(events.flat_map(move |(namespace, event)| stream::iter(merge.take(&namespace, event))).boxed())
}

/// Makes the events of several namespaces those of one list with changes.
struct Merge {
    /// Namespaces whose first list is not through.
    unlisted: BTreeSet<String>,
    begun: bool,
    /// Names of the objects of each namespace.
    known: BTreeMap<String, BTreeSet<String>>,
    /// Names that a list of a namespace has had so far.
    listing: BTreeMap<String, BTreeSet<String>>,
}

impl Merge {
    fn new(namespaces: &[String]) -> Self {
        Self {
            unlisted: namespaces.iter().cloned().collect(),
            begun: false,
            known: BTreeMap::new(),
            listing: BTreeMap::new(),
        }
    }

    fn take(
        &mut self,
        namespace: &str,
        event: Result<ObjectEvent, ClusterError>,
    ) -> Vec<Result<ObjectEvent, ClusterError>> {
        let name = |object: &Value| ObjectMeta::of(object).name().to_owned();
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            out.push(Ok(ObjectEvent::Listing));
        }
        let known = self.known.entry(namespace.to_owned()).or_default();
        match event {
            Ok(ObjectEvent::Listing) => {
                self.listing.insert(namespace.to_owned(), BTreeSet::new());
            }
            Ok(ObjectEvent::Present(object)) => {
                known.insert(name(&object));
                if let Some(listing) = self.listing.get_mut(namespace) {
                    listing.insert(name(&object));
                }
                out.push(Ok(ObjectEvent::Present(object)));
            }
            Ok(ObjectEvent::Gone(object)) => {
                known.remove(&name(&object));
                out.push(Ok(ObjectEvent::Gone(object)));
            }
            Ok(ObjectEvent::Listed) => {
                let listed = self.listing.remove(namespace).unwrap_or_default();
                for gone in known.difference(&listed) {
                    let metadata = json!({"metadata": {"name": gone, "namespace": namespace}});
                    out.push(Ok(ObjectEvent::Gone(metadata)));
                }
                *known = listed;
                if self.unlisted.remove(namespace) && self.unlisted.is_empty() {
                    out.push(Ok(ObjectEvent::Listed));
                }
            }
            Err(error) => out.push(Err(error)),
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(namespace: &str, name: &str) -> Result<ObjectEvent, ClusterError> {
        Ok(ObjectEvent::Present(json!({"metadata": {"name": name, "namespace": namespace}})))
    }

    fn shown(events: Vec<Result<ObjectEvent, ClusterError>>) -> Vec<String> {
        let text = |event| match event {
            Ok(ObjectEvent::Listing) => "listing".to_owned(),
            Ok(ObjectEvent::Listed) => "listed".to_owned(),
            Ok(ObjectEvent::Present(object)) => format!("+{}", ObjectMeta::of(&object).namespaced_name()),
            Ok(ObjectEvent::Gone(object)) => format!("-{}", ObjectMeta::of(&object).namespaced_name()),
            Err(error) => format!("error: {error}"),
        };
        events.into_iter().map(text).collect()
    }

    #[test]
    fn lists_of_namespaces_are_one_list() {
        let mut merge = Merge::new(&["a".to_owned(), "b".to_owned()]);
        let mut take = |namespace: &str, event| shown(merge.take(namespace, event));
        assert_eq!(take("a", Ok(ObjectEvent::Listing)), ["listing"]);
        assert_eq!(take("b", Ok(ObjectEvent::Listing)), [""; 0]);
        assert_eq!(take("b", present("b", "x")), ["+b/x"]);
        assert_eq!(take("b", Ok(ObjectEvent::Listed)), [""; 0]);
        assert_eq!(take("a", present("a", "x")), ["+a/x"]);
        assert_eq!(take("a", Ok(ObjectEvent::Listed)), ["listed"]);
        assert_eq!(take("a", present("a", "y")), ["+a/y"]);
        // A watch that begins anew: what its list lacks is gone, in this namespace.
        assert_eq!(take("a", Ok(ObjectEvent::Listing)), [""; 0]);
        assert_eq!(take("a", present("a", "x")), ["+a/x"]);
        assert_eq!(take("a", Ok(ObjectEvent::Listed)), ["-a/y"]);
        assert_eq!(take("a", Ok(ObjectEvent::Listing)), [""; 0]);
        assert_eq!(take("a", Ok(ObjectEvent::Listed)), ["-a/x"]);
    }
}
