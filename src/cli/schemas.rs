//! Loads documents that a `values.schema.json` refers to, from files and HTTP servers, as Helm does.
//!
//! Owns the limits of such a request, and what a bundle has of them. The operator loads no such documents.

use std::sync::Arc;
use std::time::Duration;

use chart_compat::Bytes;
use percent_encoding::percent_decode_str;

use super::fetch;
use super::flags::Globals;
use windlass_base::blocking;
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_fetch::http::{Http, Request, Tls};
use windlass_fetch::input_store::{InputKind, InputStore, RemoteInput};
use windlass_fetch::location::Location;
use windlass_render::Documents;

/// Time limit of one request, as in Helm.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Size limit of a document, in bytes. A schema of all Kubernetes kinds has 2 MiB.
const MAX_DOCUMENT: u64 = 20 * 1024 * 1024;

/// The loader for files and HTTP servers (`FileLoader`, `HTTPURLLoader`).
pub(super) struct Schemas {
    http: Http,
    /// Records the documents for a bundle, or has them.
    inputs: Option<Arc<dyn InputStore>>,
}

impl Schemas {
    pub(super) fn new(globals: &Globals) -> Self {
        Self { http: fetch::http(globals, TIMEOUT), inputs: globals.inputs.clone() }
    }

    /// A document of a file or a server.
    fn load(&self, url: &str, location: Location) -> Result<Bytes, String> {
        if location.scheme == "file" {
            return file(&percent_decode_str(&location.path).decode_utf8_lossy());
        }
        blocking::wait(|| remote(&self.http, url, location))
    }
}

impl Documents for Schemas {
    fn document(&self, url: &str) -> Result<Bytes, String> {
        let location = Location::parse(url).map_err(|e| e.to_string())?;
        let Some(inputs) = &self.inputs else { return self.load(url, location) };
        if location.scheme == "file" {
            return Err(format!(
                "{url} is a file of this machine, which a bundle does not have: write it into the schema"
            ));
        }
        let input = RemoteInput::new(InputKind::File, url, "");
        if let Some(packed) = inputs.find(&input)? {
            return file(&packed.to_string_lossy());
        }
        let document = self.load(url, location)?;
        inputs.take_files(&input, &[("schema.json", &document)])?;
        Ok(document)
    }
}

async fn remote(http: &Http, url: &str, location: Location) -> Result<Bytes, String> {
    let failed = |why: &dyn std::fmt::Display| format!("HTTP request failed for {url}: {why}");
    let answer =
        http.send(Request::get(location, &Tls::default(), MAX_DOCUMENT)).await.map_err(|e| failed(&e))?;
    let status = answer.status;
    if status != http::StatusCode::OK {
        let words = status.canonical_reason().unwrap_or_default();
        return Err(format!("HTTP request to {url} returned status {} ({words})", status.as_u16()));
    }
    answer.bytes().await.map_err(|e| e.to_string())
}

fn file(path: &str) -> Result<Bytes, String> {
    let failed = |step: &str, e: &std::io::Error| format!("{step} {path}: {}", of_the_system(e));
    let file = std::fs::File::open(path).map_err(|e| failed("open", &e))?;
    let bytes = bounded_read::read_to_end(file, MAX_DOCUMENT).map_err(|e| failed("read", &e))?;
    Ok(bytes.into())
}
