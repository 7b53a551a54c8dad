//! The tags of a repository: page after page, within bounds.
//!
//! Owns how much of a list is read: pages, bytes and tags. What is no tag is dropped where it is read.

use std::fmt;
use windlass_base::bounded_json;

use bytes::Bytes;
use http::{Method, StatusCode, header};
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};

use super::artifact_reference::{OciReference, is_tag};
use super::{Ask, OciError, Registry, reason};

/// Size limit of a page.
const MAX_PAGE: u64 = 16 << 20;
/// Size limit of all pages: of as many tags as are read, each as long as it may be.
const MAX_BYTES: u64 = 64 << 20;
/// The most pages: registries with small ones have 50 tags in each.
const MAX_PAGES: usize = 4_000;
/// The most tags that are read.
const MAX_TAGS: usize = 200_000;

#[derive(serde::Deserialize)]
struct Page {
    tags: Option<PageTags>,
}

/// The tags of a page.
struct PageTags {
    tags: Vec<String>,
    /// How many texts there were, with those that are no tags.
    texts: usize,
}

impl<'de> Deserialize<'de> for PageTags {
    fn deserialize<D: Deserializer<'de>>(page: D) -> Result<Self, D::Error> {
        page.deserialize_seq(TagsVisitor)
    }
}

struct TagsVisitor;

impl<'de> Visitor<'de> for TagsVisitor {
    type Value = PageTags;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tags")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PageTags, A::Error> {
        let mut page = PageTags { tags: Vec::new(), texts: 0 };
        while let Some(text) = list.next_element::<String>()? {
            page.texts += 1;
            // One more shows that there are too many.
            if is_tag(&text) && page.tags.len() <= MAX_TAGS {
                page.tags.push(text);
            }
        }
        Ok(page)
    }
}

impl Registry<'_> {
    /// All tags, in the order of the registry; of more than 200,000 the first ones.
    ///
    /// # Errors
    /// The registry does not list them, or in too many pages or bytes.
    pub async fn tags(&self, reference: &OciReference) -> Result<Vec<String>, OciError> {
        let mut tags = self.read_tags(reference, MAX_TAGS).await?;
        tags.truncate(MAX_TAGS);
        Ok(tags)
    }

    /// All tags, in the order of the registry, if there are at most `limit`.
    ///
    /// # Errors
    /// As [`Registry::tags`], and there are more.
    pub async fn tags_up_to(&self, reference: &OciReference, limit: usize) -> Result<Vec<String>, OciError> {
        let limit = limit.min(MAX_TAGS);
        let tags = self.read_tags(reference, limit).await?;
        match tags.len() > limit {
            true => Err(too_many(reference, &format!("more than {limit} tags"))),
            false => Ok(tags),
        }
    }

    /// The tags up to the first one above the limit.
    async fn read_tags(&self, reference: &OciReference, limit: usize) -> Result<Vec<String>, OciError> {
        let scope = format!("repository:{}:pull", reference.repository);
        let mut url = self.url(reference, "tags/list")?;
        let (mut all, mut left): (Vec<String>, u64) = (Vec::new(), MAX_BYTES);
        for _ in 0..MAX_PAGES {
            let (method, headers, body) = (Method::GET, Vec::new(), Bytes::new());
            let ask =
                Ask { method, url: url.clone(), headers, body, limit: MAX_PAGE.min(left), scope: &scope };
            let response = self.send(ask).await?;
            if response.status == StatusCode::NOT_FOUND {
                let (method, status) = (Method::GET, response.status);
                let reason = match reason(&response.complaint().await) {
                    none if none.is_empty() => ": Not Found".to_owned(),
                    reason => reason,
                };
                let url = url.to_string();
                return Err(OciError::Status { method, url, status, reason, retry_after: None });
            }
            if response.status != StatusCode::OK {
                return Err(self.refusal(Method::GET, response, &reference.to_string()).await);
            }
            let next = response.header(header::LINK).and_then(next_page).map(str::to_owned);
            let bytes = response.bytes().await?;
            left = left.saturating_sub(bytes.len() as u64);
            let page = page(&bytes)?;
            all.extend(page.tags);
            let Some(next) = next.filter(|_| page.texts > 0 && all.len() <= limit) else {
                all.truncate(limit + 1);
                return Ok(all);
            };
            let page = url.join(&next)?;
            if !page.same_origin(&url) || page == url {
                return Err(OciError::Answer("the next page of tags is elsewhere".to_owned()));
            }
            url = page;
        }
        Err(too_many(reference, &format!("more than {MAX_PAGES} pages of tags")))
    }
}

fn too_many(reference: &OciReference, what: &str) -> OciError {
    OciError::Answer(format!("{}/{} has {what}", reference.registry, reference.repository))
}

fn page(bytes: &[u8]) -> Result<PageTags, OciError> {
    let page: Page = bounded_json::from_slice(bytes).map_err(|e| OciError::Answer(format!("tags: {e}")))?;
    Ok(page.tags.unwrap_or(PageTags { tags: Vec::new(), texts: 0 }))
}

/// `<URL>; rel="next"`.
pub(super) fn next_page(link: &str) -> Option<&str> {
    let (url, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    rest.contains("next").then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_tag_is_dropped_and_counts_as_read() {
        let long = "a".repeat(129);
        let body = serde_json::json!({"name": "a", "tags": ["1.0", "", "-x", "a b", long, "a\u{e9}", "_1"]});
        let read = page(body.to_string().as_bytes()).unwrap();
        assert_eq!((read.tags, read.texts), (vec!["1.0".to_owned(), "_1".to_owned()], 7));
        for none in [&b"{}"[..], b"{\"tags\":null}", b"{\"tags\":[]}"] {
            let read = page(none).unwrap();
            assert_eq!((read.tags.len(), read.texts), (0, 0));
        }
        for bad in [&b"[]"[..], b"{\"tags\":[1]}", b"{\"tags\":{}}"] {
            assert!(page(bad).is_err());
        }
    }

    #[test]
    fn the_next_page_is_that_of_the_link() {
        let link = "</v2/a/tags/list?last=x&n=100>; rel=\"next\"";
        assert_eq!(next_page(link), Some("/v2/a/tags/list?last=x&n=100"));
        assert_eq!(next_page("/v2/a"), None);
    }
}
