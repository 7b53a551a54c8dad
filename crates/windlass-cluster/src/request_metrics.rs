//! Metrics of requests: one place that all requests pass, watches included.
//!
//! Owns the description of a request, without names: the number of paths must not grow with the objects.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};

/// A finished request, answered or not.
#[derive(Clone, Debug)]
pub struct CompletedRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// Host and port of the API server.
    pub host: String,
    /// The path with `{namespace}` and `{name}` in place of names.
    pub path: String,
    /// The status; `None` without an answer.
    pub status: Option<u16>,
    /// Time until the answer began.
    pub took: Duration,
}

/// Called for each request; must return quickly.
pub type RequestObserver = Box<dyn Fn(&CompletedRequest) + Send + Sync>;

/// An HTTP client that reports its requests to an observer, if one is set.
#[derive(Clone)]
pub(super) struct RequestMetrics<S> {
    pub(super) inner: S,
    pub(super) observer: Arc<OnceLock<RequestObserver>>,
}

impl<S, B, R> tower::Service<Request<B>> for RequestMetrics<S>
where
    S: tower::Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.observer.get().is_none() {
            return Box::pin(self.inner.call(request));
        }
        let mut exchange = CompletedRequest {
            method: request.method().as_str().to_owned(),
            host: request.uri().authority().map(ToString::to_string).unwrap_or_default(),
            path: path_template(request.uri().path()),
            status: None,
            took: Duration::ZERO,
        };
        let observer = Arc::clone(&self.observer);
        let answer = self.inner.call(request);
        Box::pin(async move {
            let began = Instant::now();
            let answer = answer.await;
            exchange.status = answer.as_ref().ok().map(|a| a.status().as_u16());
            exchange.took = began.elapsed();
            if let Some(observer) = observer.get() {
                observer(&exchange);
            }
            answer
        })
    }
}

/// A path without names, as client-go's `finalURLTemplate`. Paths outside of the API are reduced to their first
/// segment.
fn path_template(path: &str) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let version = match parts.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return format!("/{}", parts.first().copied().unwrap_or_default()),
    };
    let (start, rest) = parts.split_at(version.min(parts.len()));
    let mut out: Vec<&str> = start.to_vec();
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() && rest != ["status"] && rest != ["finalize"] => {
            out.extend(["namespaces", "{namespace}"]);
            rest
        }
        rest => rest,
    };
    for (at, part) in rest.iter().enumerate() {
        out.push(if at == 1 { "{name}" } else { part });
    }
    format!("/{}", out.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_have_no_names() {
        for (path, want) in [
            ("/api/v1/namespaces/ns/secrets/db", "/api/v1/namespaces/{namespace}/secrets/{name}"),
            ("/api/v1/namespaces/ns/secrets", "/api/v1/namespaces/{namespace}/secrets"),
            ("/api/v1/namespaces/ns/pods/a/log", "/api/v1/namespaces/{namespace}/pods/{name}/log"),
            ("/api/v1/namespaces/ns", "/api/v1/namespaces/{name}"),
            ("/api/v1/namespaces/ns/status", "/api/v1/namespaces/{name}/status"),
            ("/api/v1/nodes/n", "/api/v1/nodes/{name}"),
            (
                "/apis/apps/v1/namespaces/ns/deployments/d/scale",
                "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            ),
            ("/apis/apps/v1", "/apis/apps/v1"),
            ("/apis", "/apis"),
            ("/api", "/api"),
            ("/openapi/v3/apis/apps/v1", "/openapi"),
            ("/version", "/version"),
            ("/", "/"),
        ] {
            assert_eq!(path_template(path), want, "{path}");
        }
    }
}
