//! Loads documents that a `values.schema.json` refers to, from files and HTTP servers, as Helm does.
//!
//! Owns the limits of such a request. The operator loads no such documents.

use std::time::Duration;

use chart_compat::Bytes;
use percent_encoding::percent_decode_str;

use super::flags::Globals;
use super::{block_on, fetch};
use crate::bounded_read;
use crate::causes::of_the_system;
use crate::render::Documents;
use crate::source::http::{Http, Request, Tls};
use crate::source::location::Location;

/// Time limit of one request, as in Helm.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Size limit of a document, in bytes. A schema of all Kubernetes kinds has 2 MiB.
const MAX_DOCUMENT: u64 = 20 * 1024 * 1024;

/// The loader for files and HTTP servers (`FileLoader`, `HTTPURLLoader`).
pub(super) struct Schemas(Http);

impl Schemas {
    pub(super) fn new(globals: &Globals) -> Self {
        Self(fetch::http(globals, TIMEOUT))
    }
}

impl Documents for Schemas {
    fn document(&self, url: &str) -> Result<Bytes, String> {
        let location = Location::parse(url).map_err(|e| e.to_string())?;
        if location.scheme == "file" {
            return file(&percent_decode_str(&location.path).decode_utf8_lossy());
        }
        // The caller can run in a runtime, which must not block on another one.
        std::thread::scope(|threads| threads.spawn(|| remote(&self.0, url, location)).join())
            .map_err(|_| format!("HTTP request failed for {url}"))?
    }
}

fn remote(http: &Http, url: &str, location: Location) -> Result<Bytes, String> {
    let failed = |why: &dyn std::fmt::Display| format!("HTTP request failed for {url}: {why}");
    let tls = Tls::default();
    block_on(async {
        let answer = http.send(Request::get(location, &tls, MAX_DOCUMENT)).await.map_err(|e| failed(&e))?;
        let status = answer.status;
        if status != http::StatusCode::OK {
            let words = status.canonical_reason().unwrap_or_default();
            return Err(format!("HTTP request to {url} returned status {} ({words})", status.as_u16()));
        }
        answer.bytes().await.map_err(|e| e.to_string())
    })?
}

fn file(path: &str) -> Result<Bytes, String> {
    let failed = |step: &str, e: &std::io::Error| format!("{step} {path}: {}", of_the_system(e));
    let file = std::fs::File::open(path).map_err(|e| failed("open", &e))?;
    let bytes = bounded_read::read_to_end(file, MAX_DOCUMENT).map_err(|e| failed("read", &e))?;
    Ok(bytes.into())
}
