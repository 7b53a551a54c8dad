//! Lists of objects, read page by page.
//!
//! Owns how many objects are asked for at a time. Whole objects have a small first page: each may have a megabyte and more, and a page is
//! held as text and as values. The pages after it follow the bytes of those before.

use serde_json::Value;
use windlass_base::bounded_json;

use super::{
    api_client::{ApiCall, Cluster, JSON},
    error::{ClusterError, Result},
    object_api::escape,
};

/// The most objects of a page.
pub(super) const MOST: usize = 500;
/// Whole objects of a first page. Objects of ordinary clusters have some KiB each; the largest that a server stores have 1.5 MiB.
pub(super) const WHOLE: usize = 50;
/// After a page of whole objects with more bytes, the next one has half as many objects.
const LARGE: usize = 16 << 20;
/// After a page of whole objects with fewer bytes, the next one has twice as many objects.
const SMALL: usize = 1 << 20;
/// The most bytes of a page of several whole objects. Small objects may come before large ones: a page with more is not read to its end, and
/// asked for again with fewer objects.
const MOST_BYTES: u64 = 32 << 20;

/// What a page counts at least, in bytes: a server may send empty pages without end.
const LEAST_OF_PAGE: u64 = 64 << 10;

/// Which page of a list is requested.
#[derive(Clone, Copy)]
pub(super) enum Page<'a> {
    /// The first one, of the newest state.
    Now,
    /// The first one, of this resource version or later. The server answers from its cache if that is new enough; for
    /// the newest state it waits until its cache has caught up with etcd, up to a tenth of a second on a busy
    /// cluster.
    Since(u64),
    /// The page after the one with this token, of the same state.
    After(&'a str),
}

impl<'a> Page<'a> {
    pub(super) fn of(after: Option<&'a str>, since: Option<u64>) -> Self {
        match (after, since) {
            (Some(token), _) => Self::After(token),
            (None, Some(version)) => Self::Since(version),
            (None, None) => Self::Now,
        }
    }
}

/// What is listed: the objects below a path that a label selector selects (empty: all), in the form of a content type.
#[derive(Clone, Copy)]
pub(super) struct ListQuery<'a> {
    pub(super) path: &'a str,
    pub(super) labels: &'a str,
    pub(super) accept: &'a str,
}

impl ListQuery<'_> {
    fn url(&self, page: Page<'_>, objects: usize) -> String {
        let mut url = format!("{}?limit={objects}", self.path);
        if !self.labels.is_empty() {
            url.push_str("&labelSelector=");
            url.push_str(&escape(self.labels));
        }
        match page {
            Page::Now => {}
            Page::Since(version) => {
                url.push_str(&format!("&resourceVersion={version}&resourceVersionMatch=NotOlderThan"));
            }
            Page::After(token) => {
                url.push_str("&continue=");
                url.push_str(&escape(token));
            }
        }
        url
    }

    fn page_of(&self, mut list: Value, bytes: usize) -> Result<ListPage> {
        let token = list["metadata"]["continue"].as_str().filter(|t| !t.is_empty()).map(str::to_owned);
        let items = list.get_mut("items").map(Value::take);
        match items {
            Some(Value::Array(items)) => Ok(ListPage { list, items, next: token, bytes }),
            None | Some(Value::Null) if list.is_object() => {
                Ok(ListPage { list, items: Vec::new(), next: token, bytes })
            }
            _ => {
                Err(ClusterError::Answer { path: self.path.to_owned(), reason: "items is not a list".into() })
            }
        }
    }
}

/// How many objects the next page has.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageSize {
    objects: usize,
    /// Whether they are whole ones. The size of others does not change.
    is_whole: bool,
    /// What the values of further pages may take, in bytes; `None`: the server is not a tenant's.
    left: Option<u64>,
}

impl PageSize {
    /// That of a first page, of objects in the form of a content type. `room`: what the values of all pages may take, if it has a bound.
    pub(super) fn first(accept: &str, room: Option<u64>) -> Self {
        let is_whole = accept == JSON;
        Self { objects: if is_whole { WHOLE } else { MOST }, is_whole, left: room }
    }

    /// Counts the values of a page. `false`: all pages take more than they may.
    fn count(&mut self, list: &Value) -> bool {
        let Some(left) = &mut self.left else { return true };
        let rest = left.checked_sub(bounded_json::size(list).parsed.max(LEAST_OF_PAGE));
        *left = rest.unwrap_or_default();
        rest.is_some()
    }

    /// The most bytes of a page of so many objects.
    fn most_bytes(self, objects: usize) -> u64 {
        if self.is_whole && objects > 1 { MOST_BYTES } else { u64::MAX }
    }

    /// A page with so many bytes was read.
    fn read(&mut self, bytes: usize) {
        if self.is_whole && bytes > LARGE {
            self.objects = (self.objects / 2).max(1);
        } else if self.is_whole && bytes < SMALL {
            self.objects = (self.objects * 2).min(MOST);
        }
    }

    /// A page of so many objects had too many bytes. `false`: it cannot have fewer objects.
    fn exceeded(&mut self, objects: usize) -> bool {
        if !self.is_whole || objects <= 1 {
            return false;
        }
        self.objects = (objects / 2).clamp(1, WHOLE);
        true
    }
}

/// A page of a list.
pub(super) struct ListPage {
    /// The list without its items.
    list: Value,
    pub(super) items: Vec<Value>,
    /// The token of the page after it.
    pub(super) next: Option<String>,
    /// The bytes of its text.
    bytes: usize,
}

impl ListPage {
    /// The list with its items.
    pub(super) fn into_list(self) -> Value {
        let mut list = self.list;
        if let Some(fields) = list.as_object_mut() {
            fields.insert("items".to_owned(), Value::Array(self.items));
        }
        list
    }
}

impl Cluster {
    /// A page of at most `most` objects, and of no more than `size` says.
    pub(super) async fn list_page(
        &self,
        query: ListQuery<'_>,
        page: Page<'_>,
        most: usize,
        size: &mut PageSize,
    ) -> Result<ListPage> {
        loop {
            let objects = size.objects.min(most);
            let url = query.url(page, objects);
            let call = ApiCall { accept: query.accept, ..ApiCall::get(&url) };
            match self.call_within(call, size.most_bytes(objects)).await {
                Ok(answer) => {
                    if !size.count(&answer.value) {
                        let (path, most) = (query.path.to_owned(), self.limits().largest_list());
                        return Err(ClusterError::TooLarge { path, most });
                    }
                    size.read(answer.bytes);
                    return query.page_of(answer.value, answer.bytes);
                }
                Err(error @ ClusterError::TooLarge { .. }) => {
                    if !size.exceeded(objects) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The objects from a token on, as one page: at most 500, and fewer where these are large.
    pub(super) async fn list_next(&self, query: ListQuery<'_>, after: Option<&str>) -> Result<ListPage> {
        let mut size = PageSize::first(query.accept, self.limits().list_room());
        let mut all = self.list_page(query, Page::of(after, None), MOST, &mut size).await?;
        while size.is_whole && all.items.len() < MOST && all.bytes <= LARGE {
            let Some(token) = all.next.take() else { break };
            let page = Page::After(&token);
            let further = self.list_page(query, page, MOST - all.items.len(), &mut size).await?;
            all.items.extend(further.items);
            (all.list, all.next, all.bytes) = (further.list, further.next, all.bytes + further.bytes);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METADATA: &str = "application/json;as=PartialObjectMetadataList";

    /// The objects of the pages that are read of objects with so many bytes each.
    fn pages(objects: &[usize]) -> Vec<usize> {
        let mut size = PageSize::first(JSON, None);
        let (mut pages, mut rest) = (Vec::new(), objects);
        while !rest.is_empty() {
            let asked = size.objects;
            let count = asked.min(rest.len());
            let bytes: usize = rest[..count].iter().sum();
            if bytes as u64 > size.most_bytes(asked) {
                assert!(size.exceeded(asked));
                continue;
            }
            size.read(bytes);
            pages.push(count);
            rest = &rest[count..];
        }
        pages
    }

    #[test]
    fn pages_of_whole_objects_follow_their_bytes() {
        assert_eq!(pages(&[10_000; 49]), [49], "one request for few objects");
        assert_eq!(pages(&[4_000; 1_000]), [50, 100, 200, 400, 250], "few requests for small ones");
        assert_eq!(pages(&[1 << 20; 70]), [25, 12, 12, 12, 9], "the first one was too large");
        // Many small objects make pages large before the large ones come.
        let mut hidden = vec![100; 2_000];
        hidden.extend([1 << 20; 60]);
        assert_eq!(pages(&hidden), [50, 100, 200, 400, 500, 500, 50, 100, 50, 50, 25, 12, 12, 11]);
        // One object is read whatever its size is.
        assert_eq!(pages(&[40 << 20; 2]), [1, 1]);
    }

    #[test]
    fn pages_of_metadata_have_one_size() {
        let mut size = PageSize::first(METADATA, None);
        size.read(LARGE + 1);
        assert!(!size.exceeded(MOST));
        assert_eq!((size.objects, size.most_bytes(MOST)), (MOST, u64::MAX));
    }

    #[test]
    fn the_pages_of_a_tenants_server_are_bounded_together() {
        let mut size = PageSize::first(JSON, Some(10 * LEAST_OF_PAGE));
        let empty = json!({"items": [], "metadata": {"continue": "t"}});
        assert_eq!((0..100).take_while(|_| size.count(&empty)).count(), 10);
        let mut size = PageSize::first(METADATA, Some(10 * LEAST_OF_PAGE));
        let large = json!({"items": vec![json!({"": 0}); 500]});
        assert_eq!((0..100).take_while(|_| size.count(&large)).count(), 1, "values count what they take");
        let mut own = PageSize::first(JSON, None);
        assert!((0..100).all(|_| own.count(&large)));
    }

    #[test]
    fn a_page_is_what_the_server_lists() {
        let query = ListQuery { path: "/api/v1/pods", labels: "a=b", accept: JSON };
        let url = query.url(Page::After("x=="), 7);
        assert_eq!(url, "/api/v1/pods?limit=7&labelSelector=a%3Db&continue=x%3D%3D");
        let list = json!({"kind": "PodList", "metadata": {"continue": "t"}, "items": [{}]});
        let page = query.page_of(list.clone(), 9).unwrap();
        assert_eq!((page.items.len(), page.next.as_deref(), page.bytes), (1, Some("t"), 9));
        assert_eq!(page.into_list(), list);
        assert!(query.page_of(json!({"items": null}), 9).unwrap().items.is_empty());
        for broken in [json!([]), json!({"items": {}})] {
            assert!(query.page_of(broken, 9).is_err());
        }
    }
}
