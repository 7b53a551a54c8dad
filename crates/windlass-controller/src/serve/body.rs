//! Request bodies: limited individually, and together by one memory budget.
//!
//! Owns the memory of requests. A body reserves memory as it arrives, so a large Content-Length alone reserves nothing. When the
//! budget is exhausted, incomplete bodies are dropped in favor of others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use chart_compat::json::ParsedSize;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::sync::Notify;

use super::listen::Client;
use super::shares::{Shares, Stage};

/// Memory for all requests in flight, in MiB. The chart grants 256 MiB; the rest is for charts and releases.
pub const DEFAULT_MEMORY: usize = 96;
/// Bodies are stored in blocks of this many bytes, because growing buffers would fragment the heap.
const BLOCK: usize = 64 << 10;
/// Time limit of a wait for memory.
const WAIT: Duration = Duration::from_secs(2);

/// The reason why a body is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    #[error("the request needs more memory than the {0} bytes that all requests may take together")]
    OverBudget(usize),
    #[error("other requests take the memory that this one needs")]
    Busy,
    #[error("the body ended early")]
    Incomplete,
}

impl BodyError {
    /// The HTTP status of this error.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge(_) | Self::OverBudget(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Incomplete => StatusCode::BAD_REQUEST,
        }
    }
}

/// The memory for requests in flight.
pub struct Budget {
    most: usize,
    held: Mutex<Holders>,
    released: Notify,
}

#[derive(Default)]
struct Holders {
    shares: Shares,
    /// Wakes a holder whose share is revoked.
    revoked: HashMap<u64, Arc<Notify>>,
}

/// A request's share of the budget, returned on drop.
pub struct Share {
    budget: Arc<Budget>,
    number: u64,
    revoked: Arc<Notify>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_MEMORY << 20)
    }
}

impl Budget {
    /// A budget of `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, held: Mutex::default(), released: Notify::new() }
    }

    /// The bytes that all requests may take together.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    fn lock(&self) -> MutexGuard<'_, Holders> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn share(self: &Arc<Self>, address: IpAddr) -> Share {
        let revoked = Arc::new(Notify::new());
        let mut held = self.lock();
        let number = held.shares.add(address, Stage::Receiving, 0, Instant::now());
        held.revoked.insert(number, Arc::clone(&revoked));
        drop(held);
        Share { budget: Arc::clone(self), number, revoked }
    }
}

impl Share {
    /// Resizes the share to `bytes` bytes. Waits briefly for others to return memory.
    ///
    /// # Errors
    /// It exceeds the budget, or there is not enough memory in time.
    pub async fn resize(&self, bytes: usize) -> Result<(), BodyError> {
        if bytes > self.budget.most {
            return Err(BodyError::OverBudget(self.budget.most));
        }
        let resized = async {
            loop {
                let mut released = std::pin::pin!(self.budget.released.notified());
                // Register first, so that no return of a share is missed.
                released.as_mut().enable();
                if self.try_resize(bytes)? {
                    return Ok(());
                }
                released.await;
            }
        };
        tokio::time::timeout(WAIT, resized).await.unwrap_or(Err(BodyError::Busy))
    }

    /// Reports whether there was enough memory. If necessary it revokes the shares of incomplete bodies. Their shares are
    /// reassigned at once, so that no other request takes them; their memory is freed shortly after.
    fn try_resize(&self, bytes: usize) -> Result<bool, BodyError> {
        let mut held = self.budget.lock();
        loop {
            if !held.shares.has(self.number) {
                return Err(BodyError::Busy);
            }
            let others = held.shares.total() - held.shares.amount(self.number);
            if others + bytes <= self.budget.most {
                held.shares.set_amount(self.number, bytes);
                self.budget.released.notify_waiters();
                return Ok(true);
            }
            match held.shares.victim(Instant::now(), Stage::Receiving, None) {
                // Do not revoke this share itself.
                Some(victim) if victim != self.number => {
                    held.shares.remove(victim);
                    if let Some(revoked) = held.revoked.remove(&victim) {
                        revoked.notify_one();
                    }
                }
                _ => return Ok(false),
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.budget.lock();
        held.shares.remove(self.number);
        held.revoked.remove(&self.number);
        drop(held);
        self.budget.released.notify_waiters();
    }
}

/// Whether the headers declare a body of this media type, with any parameters.
#[must_use]
pub fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    let told = headers.get(header::CONTENT_TYPE).and_then(|t| t.to_str().ok()).unwrap_or_default();
    told.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

/// Reads a body of at most `most` bytes within the budget. Returns it with its share.
///
/// # Errors
/// It is too large, there is not enough memory, or it ends early.
pub async fn read(
    body: Body,
    client: &Client,
    most: usize,
    budget: &Arc<Budget>,
) -> Result<(Vec<u8>, Share), BodyError> {
    let read = read_as(body, client.address, most, budget).await?;
    client.received();
    Ok(read)
}

async fn read_as(
    mut body: Body,
    address: IpAddr,
    most: usize,
    budget: &Arc<Budget>,
) -> Result<(Vec<u8>, Share), BodyError> {
    let too_large = Err(BodyError::TooLarge(most));
    if body.size_hint().lower() > most as u64 {
        return too_large;
    }
    let share = budget.share(address);
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let mut length = 0;
    loop {
        let frame = tokio::select! {
            biased;
            () = share.revoked.notified() => return Err(BodyError::Busy),
            frame = body.frame() => frame,
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|_| BodyError::Incomplete)?;
        // Ignore trailers.
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > most {
            return too_large;
        }
        let mut rest = &data[..];
        while !rest.is_empty() {
            let room = blocks.last().map_or(0, |last| BLOCK - last.len());
            if room == 0 {
                share.resize((blocks.len() + 1) * BLOCK).await?;
                blocks.push(Vec::with_capacity(BLOCK));
            }
            let Some(last) = blocks.last_mut() else { break };
            let (fits, more) = rest.split_at(rest.len().min(BLOCK - last.len()));
            last.extend_from_slice(fits);
            rest = more;
        }
    }
    let bytes = if blocks.len() > 1 {
        // Both exist during the copy.
        share.resize(blocks.len() * BLOCK + length).await?;
        blocks.concat()
    } else {
        blocks.pop().unwrap_or_default()
    };
    drop(blocks);
    share.resize(bytes.capacity()).await?;
    budget.lock().shares.set_stage(share.number, Stage::Serving);
    Ok((bytes, share))
}

/// Maximal memory of a parsed JSON document, in bytes.
#[must_use]
pub fn parsed_size(json: &[u8]) -> usize {
    usize::try_from(ParsedSize::of(json).parsed).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    /// A body of three blocks that never ends.
    fn endless() -> Body {
        let pieces = futures::stream::iter((0..3).map(|_| Ok::<_, std::io::Error>(vec![b'x'; BLOCK])));
        Body::from_stream(futures::StreamExt::chain(pieces, futures::stream::pending()))
    }

    #[tokio::test]
    async fn one_body_is_bounded_however_it_comes() {
        let budget = Arc::new(Budget::new(10 * BLOCK));
        let told = Body::from("x".repeat(11));
        assert_eq!(read_as(told, A, 10, &budget).await.err(), Some(BodyError::TooLarge(10)));
        let most = 2 * BLOCK;
        assert_eq!(read_as(endless(), A, most, &budget).await.err(), Some(BodyError::TooLarge(most)));
        for length in [0, 10, BLOCK, BLOCK + 1, most] {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let (bytes, share) = read_as(Body::from(text.clone()), A, most, &budget).await.unwrap();
            assert!(bytes == text.as_bytes(), "{length}");
            assert_eq!(budget.lock().shares.total(), bytes.capacity());
            let over = Err(BodyError::OverBudget(10 * BLOCK));
            assert_eq!(share.resize(10 * BLOCK + 1).await, over);
        }
        assert_eq!(budget.lock().shares.total(), 0);
    }

    #[tokio::test]
    async fn an_incomplete_body_makes_room_and_a_complete_one_does_not() {
        let budget = Arc::new(Budget::new(4 * BLOCK));
        let (most, one) = (10 * BLOCK, || Body::from("x".repeat(3 * BLOCK / 2)));
        let slow = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { read_as(endless(), A, most, &budget).await.err() }
        });
        while budget.lock().shares.total() < 3 * BLOCK {
            tokio::task::yield_now().await;
        }
        // The address with the largest share loses, not the newest one.
        let (_, whole) = read_as(one(), B, most, &budget).await.unwrap();
        assert_eq!(slow.await.unwrap(), Some(BodyError::Busy));
        whole.resize(3 * BLOCK).await.unwrap();
        // Complete bodies are never revoked. A returned share goes to the waiting request.
        assert_eq!(read_as(one(), A, most, &budget).await.err(), Some(BodyError::Busy));
        let waits = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { read_as(one(), A, most, &budget).await.map(|(b, _)| b.len()) }
        });
        tokio::task::yield_now().await;
        drop(whole);
        assert_eq!(waits.await.unwrap(), Ok(3 * BLOCK / 2));
    }

    /// The estimate is at least the memory that the allocator uses.
    #[test]
    fn parsed_sizes_are_not_understated() {
        fn heap(value: &serde_json::Value) -> usize {
            use serde_json::Value;
            match value {
                Value::String(text) => text.capacity(),
                Value::Array(list) => {
                    list.capacity() * size_of::<Value>() + list.iter().map(heap).sum::<usize>()
                }
                // A leaf of a BTreeMap has eleven slots.
                Value::Object(map) => {
                    let place = size_of::<String>() + size_of::<Value>();
                    let nodes = if map.is_empty() { 0 } else { map.len() / 6 + 1 };
                    nodes * (11 * place + 16) + map.iter().map(|(k, v)| k.capacity() + heap(v)).sum::<usize>()
                }
                _ => 0,
            }
        }
        let lists = format!("[{}0]", "0,".repeat(1000));
        let nested = format!("[{}[]]", "[],".repeat(1000));
        let objects = format!("[{}{{}}]", "{\"a\":0},".repeat(1000));
        let wide = format!("{{{}\"z\":1}}", (0..1000).map(|i| format!("\"{i}\":1,")).collect::<String>());
        for text in [lists, nested, objects, wide, "{}".to_owned()] {
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let (told, real) = (parsed_size(text.as_bytes()), heap(&value));
            assert!(told >= real, "{}: {told} < {real}", &text[..text.len().min(20)]);
        }
    }
}
