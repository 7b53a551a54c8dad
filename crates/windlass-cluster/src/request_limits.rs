//! What requests to a server may take: time, attempts, and the size of an answer.
//!
//! The own API server is trusted, and large lists come from it. The server of a kubeconfig that a tenant brings is not: it may never answer,
//! answer with as much as one likes, or be an address of this machine.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chart_compat::json::ParsedSize;
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::connect::dns::Name;
use kube::client::Body;
use windlass_base::body_memory::BodyMemory;
use windlass_base::local_address::{NotConnected, is_local, resolve};
use windlass_base::machine::input_limit;

use super::error::{ClusterError, Result};
use super::retry;

/// An API server ends a request after 60 s.
const OWN_TIMEOUT: Duration = Duration::from_secs(70);
/// The answer of another server, which holds a place of its front end.
const FOREIGN_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of the largest answer. Lists of whole objects are read in smaller pages.
const OWN_ANSWER: u64 = 256 << 20;
/// Bytes of the largest failure. A conflict names each field twice, in its message and among its causes: its text is some times what was
/// sent.
pub(super) const MOST_OF_FAILURE: u64 = 8 << 20;
/// The bytes that are kept of a body that has too many.
const START: usize = 2 << 10;

/// A body, as far as it was read.
#[derive(Debug)]
pub(super) enum Collected {
    Whole(Bytes),
    /// There is more than was to be read. Its first bytes.
    Cut(Vec<u8>),
}

impl Collected {
    /// A body that is not read further: what was read of it, and what came then.
    fn cut(read: &[u8], data: &[u8]) -> Self {
        Self::Cut(read.iter().chain(data).take(START).copied().collect())
    }
}

/// The limits of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLimits {
    /// Time limit of an answer.
    pub(super) timeout: Duration,
    /// Attempts of a request that gets no answer.
    pub(super) attempts: u32,
    /// Bytes of the largest answer.
    answer: u64,
    /// Whether the server is one that a tenant names: its answers share the memory of large answers, and what they take once they are read
    /// counts.
    is_foreign: bool,
    /// Whether its address may be one of this machine.
    allows_local: bool,
}

impl RequestLimits {
    /// Those of the own API server. `timeout`: `None` or zero for 70 s.
    pub(super) fn own(timeout: Option<Duration>) -> Self {
        Self {
            timeout: timeout.filter(|time| !time.is_zero()).unwrap_or(OWN_TIMEOUT),
            attempts: retry::ATTEMPTS,
            answer: OWN_ANSWER,
            is_foreign: false,
            allows_local: true,
        }
    }

    /// Those of a server that a tenant names.
    pub(super) fn foreign(allows_local: bool) -> Self {
        let answer = OWN_ANSWER.min(input_limit());
        Self { timeout: FOREIGN_TIMEOUT, attempts: 2, answer, is_foreign: true, allows_local }
    }

    /// What an answer of `most` bytes may be at most, for messages.
    pub(super) fn largest(&self, most: u64) -> String {
        let read = if self.is_foreign { " once it is read" } else { "" };
        format!("{} MiB{read}", most.min(self.answer) >> 20)
    }

    /// What the values of all pages of a list may take together, in bytes: twice what one answer may. `None`: the server is not a tenant's.
    pub(super) fn list_room(&self) -> Option<u64> {
        self.is_foreign.then(|| self.answer.saturating_mul(2))
    }

    /// The same, for messages.
    pub(super) fn largest_list(&self) -> String {
        format!("{} MiB in all pages once they are read", self.answer.saturating_mul(2) >> 20)
    }

    /// The bytes that are read of an answer with this status, of which a success may have `most`.
    pub(super) fn most_of(status: StatusCode, most: u64) -> u64 {
        if status.is_success() { most } else { MOST_OF_FAILURE.min(most) }
    }

    /// Refuses a server whose address is one of this machine. Names are checked as they are resolved.
    pub(super) fn check_host(&self, host: &str) -> Result<()> {
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        match address.is_some_and(is_local) && !self.allows_local {
            true => Err(ClusterError::Config(local(&NotConnected::Local(host.to_owned())))),
            false => Ok(()),
        }
    }

    /// How names of the server are resolved.
    pub(super) fn resolver(&self) -> Resolver {
        Resolver { allows_local: self.allows_local }
    }

    /// A body, unless it has more than `most` bytes or than an answer may have.
    pub(super) async fn collect(
        &self,
        mut body: Body,
        most: u64,
    ) -> std::result::Result<Collected, kube::Error> {
        let most = most.min(self.answer);
        if !self.is_foreign {
            let mut bytes: Vec<u8> = Vec::new();
            while let Some(frame) = body.frame().await {
                let Ok(data) = frame?.into_data() else { continue };
                if (bytes.len() + data.len()) as u64 > most {
                    return Ok(Collected::cut(&bytes, &data));
                }
                bytes.extend_from_slice(&data);
            }
            return Ok(Collected::Whole(bytes.into()));
        }
        let mut buffer = BodyMemory::of_process().buffer(most);
        let mut size = ParsedSize::default();
        let slow = || kube::Error::Service("the answer comes too slowly for its size".into());
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = buffer.expired() => return Err(slow()),
            };
            let Some(frame) = frame else { break };
            let Ok(data) = frame?.into_data() else { continue };
            size.add(&data);
            if size.parsed > self.answer || size.bytes > most {
                return Ok(Collected::cut(&buffer.finish(), &data));
            }
            buffer.push(&data).await;
        }
        Ok(Collected::Whole(buffer.finish()))
    }
}

/// Why a server is not connected to, and what to do.
fn local(why: &NotConnected) -> String {
    match why {
        NotConnected::Local(_) => {
            format!("{why}, where clusters of tenants may not be (--allow-local-sources permits it)")
        }
        NotConnected::Unresolved(..) => why.to_string(),
    }
}

/// Resolves names of servers, if need be to addresses that are not local.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    allows_local: bool,
}

type Resolving = Pin<Box<dyn Future<Output = io::Result<std::vec::IntoIter<SocketAddr>>> + Send>>;

impl tower::Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Resolving;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Resolving {
        let allows_local = self.allows_local;
        Box::pin(async move {
            let found: Vec<SocketAddr> = if allows_local {
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect()
            } else {
                let found = resolve(name.as_str()).await.map_err(|why| io::Error::other(local(&why)))?;
                found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect()
            };
            Ok(found.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(answer: u64, is_foreign: bool) -> RequestLimits {
        RequestLimits { answer, is_foreign, ..RequestLimits::foreign(false) }
    }

    /// The length of a body that is read whole.
    async fn length(limits: RequestLimits, body: Body, most: u64) -> Option<usize> {
        match limits.collect(body, most).await.unwrap() {
            Collected::Whole(bytes) => Some(bytes.len()),
            Collected::Cut(_) => None,
        }
    }

    #[tokio::test]
    async fn an_answer_is_bounded() {
        let body = || Body::from(vec![b' '; 1000]);
        for is_foreign in [false, true] {
            assert_eq!(length(limits(1000, is_foreign), body(), u64::MAX).await, Some(1000));
            assert_eq!(length(limits(999, is_foreign), body(), u64::MAX).await, None);
            assert_eq!(length(limits(9_999, is_foreign), body(), 1000).await, Some(1000));
            assert_eq!(length(limits(9_999, is_foreign), body(), 999).await, None);
        }
    }

    #[tokio::test]
    async fn the_start_of_a_failure_that_is_too_large_is_kept() {
        let most = RequestLimits::most_of(StatusCode::CONFLICT, u64::MAX);
        assert_eq!((most, RequestLimits::most_of(StatusCode::OK, 5)), (8 << 20, 5));
        assert_eq!(RequestLimits::most_of(StatusCode::CONFLICT, 5), 5);
        let text: Vec<u8> = (0..).map(|n: u64| n.to_le_bytes()[0]).take((8 << 20) + 1).collect();
        for is_foreign in [false, true] {
            let limits = limits(64 << 20, is_foreign);
            let Collected::Cut(start) = limits.collect(Body::from(text.clone()), most).await.unwrap() else {
                panic!("it is read whole");
            };
            assert_eq!(start, text[..2048]);
        }
    }

    #[tokio::test]
    async fn values_of_a_foreign_answer_count() {
        let items =
            |count: usize| Body::from(format!("[{}]", vec![r#"{"":0}"#; count].join(",")).into_bytes());
        let limits = |is_foreign| limits(100_000, is_foreign);
        assert!(length(limits(true), items(100), u64::MAX).await.is_some());
        assert!(length(limits(true), items(200), u64::MAX).await.is_none());
        assert!(length(limits(false), items(200), u64::MAX).await.is_some());
    }

    #[tokio::test]
    async fn a_foreign_server_is_no_address_of_this_machine() {
        for host in ["127.0.0.1", "[::1]", "169.254.169.254", "[fd00:ec2::254]"] {
            let refused = RequestLimits::foreign(false).check_host(host).unwrap_err().to_string();
            assert!(refused.contains("--allow-local-sources"), "{refused}");
            assert!(RequestLimits::foreign(true).check_host(host).is_ok());
        }
        assert!(RequestLimits::foreign(false).check_host("10.0.0.1").is_ok());
        let resolved = |allows_local| {
            tower::Service::call(
                &mut RequestLimits::foreign(allows_local).resolver(),
                "localhost".parse().unwrap(),
            )
        };
        assert!(resolved(true).await.is_ok());
        assert!(resolved(false).await.unwrap_err().to_string().contains("--allow-local-sources"));
    }
}
