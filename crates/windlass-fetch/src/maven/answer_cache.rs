//! What repositories said of metadata and checksums, so that they are asked for changes only.
//!
//! Owns the conditional requests and how much is kept. An answer is kept for one owner: what a login of another may read is not his.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderName, header};

use crate::http::Response;

/// The largest answer, and the longest validator, that are kept, in bytes.
const MAX_ANSWER: usize = 4 << 20;
const MAX_VALIDATOR: usize = 1024;
/// What an answer takes beside its bytes, its URL and its validators, in bytes.
const OVERHEAD: usize = 256;
/// The most answers of an owner: those of one artifact, and some of the one before.
const MAX_OF_OWNER: usize = 16;

/// An answer, with what its server knows it by.
#[derive(Clone, Debug)]
pub(super) struct CachedAnswer {
    pub(super) bytes: Bytes,
    validators: Validators,
}

impl CachedAnswer {
    /// The memory that it takes under a URL, in bytes.
    fn size(&self, url: &str) -> usize {
        let Validators { etag, modified } = &self.validators;
        let validators = etag.iter().chain(modified).map(String::len).sum::<usize>();
        OVERHEAD + url.len() + validators + self.bytes.len()
    }

    /// The headers of a request for another answer.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (HeaderName, String)> {
        let Validators { etag, modified } = self.validators.clone();
        let all = [(header::IF_NONE_MATCH, etag), (header::IF_MODIFIED_SINCE, modified)];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// `ETag` and `Last-Modified`.
#[derive(Clone, Debug, Default)]
pub(super) struct Validators {
    etag: Option<String>,
    modified: Option<String>,
}

impl Validators {
    pub(super) fn of(response: &Response) -> Self {
        let text = |name| response.header(name).filter(|text| text.len() <= MAX_VALIDATOR).map(str::to_owned);
        Self { etag: text(header::ETAG), modified: text(header::LAST_MODIFIED) }
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// By owner and URL.
    answers: HashMap<String, HashMap<String, CachedAnswer>>,
    bytes: usize,
}

impl Kept {
    fn forget(&mut self, owner: &str) {
        let gone = self.answers.remove(owner).unwrap_or_default();
        self.bytes -= gone.iter().map(|(url, answer)| answer.size(url)).sum::<usize>();
    }
}

/// Answers of any number of repositories.
#[derive(Debug)]
pub struct MetadataCache {
    max_bytes: usize,
    kept: Mutex<Kept>,
}

impl MetadataCache {
    /// An empty one. `max_bytes`: how much it keeps; with more it begins anew.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, kept: Mutex::default() }
    }

    /// Forgets the answers that an owner got.
    pub fn forget(&self, owner: &str) {
        self.kept().forget(owner);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, owner: &str, url: &str) -> Option<CachedAnswer> {
        self.kept().answers.get(owner)?.get(url).cloned()
    }

    pub(super) fn put(&self, owner: &str, url: &str, bytes: &Bytes, validators: Validators) {
        let has_validator = validators.etag.is_some() || validators.modified.is_some();
        let mut kept = self.kept();
        if let Some(before) = kept.answers.get_mut(owner).and_then(|answers| answers.remove(url)) {
            kept.bytes -= before.size(url);
        }
        if !has_validator || bytes.len() > MAX_ANSWER.min(self.max_bytes) {
            return;
        }
        // A copy: the answer's own memory is that of requests.
        let answer = CachedAnswer { bytes: Bytes::copy_from_slice(bytes), validators };
        if kept.answers.get(owner).is_some_and(|answers| answers.len() >= MAX_OF_OWNER) {
            kept.forget(owner);
        }
        if kept.bytes + answer.size(url) > self.max_bytes {
            *kept = Kept::default();
        }
        kept.bytes += answer.size(url);
        kept.answers.entry(owner.to_owned()).or_default().insert(url.to_owned(), answer);
    }
}

/// The answers that one owner got.
#[derive(Clone, Copy, Debug)]
pub struct OwnedCache<'c> {
    /// All answers.
    pub cache: &'c MetadataCache,
    /// Whose they are.
    pub owner: &'c str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etag(text: &str) -> Validators {
        Validators { etag: Some(text.to_owned()), modified: None }
    }

    #[test]
    fn answers_are_kept_for_their_owner_within_a_bound() {
        // Two of these beside their bytes.
        let of_one = OVERHEAD + 3;
        let cache = MetadataCache::new(2 * of_one + 10);
        cache.put("a", "u", &Bytes::from_static(b"12345"), etag("e1"));
        assert!(cache.get("b", "u").is_none() && cache.get("a", "v").is_none());
        let answer = cache.get("a", "u").unwrap();
        let conditions: Vec<_> = answer.conditions().collect();
        assert_eq!(conditions, [(header::IF_NONE_MATCH, "e1".to_owned())]);
        cache.put("a", "u", &Bytes::from_static(b"1"), etag("e2"));
        cache.put("b", "u", &Bytes::from_static(b"123456789"), etag("e3"));
        assert_eq!(cache.kept().bytes, 2 * of_one + 10);
        // No more than the bound; what is too large, or cannot be asked for by condition, is not kept.
        cache.put("b", "v", &Bytes::from_static(b"1"), etag("e4"));
        assert_eq!(cache.kept().bytes, of_one + 1);
        assert!(cache.get("a", "u").is_none());
        cache.put("b", "w", &Bytes::from(vec![0; 1000]), etag("e5"));
        cache.put("b", "x", &Bytes::from_static(b"1"), Validators::default());
        assert!(cache.get("b", "w").is_none() && cache.get("b", "x").is_none());
        cache.forget("b");
        cache.forget("none");
        assert_eq!(cache.kept().bytes, 0);
        // An owner has some answers only.
        let cache = MetadataCache::new(1 << 20);
        for number in 0..100 {
            cache.put("a", &number.to_string(), &Bytes::new(), etag("e"));
        }
        let kept = cache.kept().answers["a"].len();
        assert!(kept <= MAX_OF_OWNER && cache.get("a", "99").is_some(), "{kept}");
    }
}
