//! External documents of a schema: metaschemas are built in, others come from the caller
//! (`SchemeURLLoader`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::draft::Draft;
use super::json::Json;
use super::{meta, whole_document};
use crate::go::strconv;

/// The maximal number of external documents of one schema.
const MAX_DOCUMENTS: usize = 500;

/// Fetches a document by its URL.
pub(super) type Fetch<'f> = &'f dyn Fn(&str) -> Result<Bytes, String>;

/// The requested documents outside a schema.
pub(super) struct ExternalDocuments<'f> {
    fetch: Fetch<'f>,
    fetched: RefCell<HashMap<String, Arc<Json>>>,
    requested: Cell<bool>,
}

impl<'f> ExternalDocuments<'f> {
    /// Starts with no documents.
    pub(super) fn new(fetch: Fetch<'f>) -> Self {
        Self { fetch, fetched: RefCell::default(), requested: Cell::new(false) }
    }

    /// Whether a document was requested: it may differ the next time.
    pub(super) fn has_requested(&self) -> bool {
        self.requested.get()
    }

    /// Loads the target document of a reference.
    ///
    /// # Errors
    /// The document is not available or is not JSON.
    pub(super) fn load(&self, url: &str) -> Result<Arc<Json>, String> {
        if let Some(draft) = Draft::from_url(url) {
            return Ok(meta::document(draft));
        }
        if let Some(vocabulary) = meta::vocabulary(url) {
            return Ok(vocabulary);
        }
        if let Some(known) = self.fetched.borrow().get(url) {
            return Ok(Arc::clone(known));
        }
        let quoted = strconv::quote(url.as_bytes());
        let failed = |why: String| format!("failing loading {quoted}: {why}");
        let json = match url.split_once(':').map_or("", |(scheme, _)| scheme) {
            // An unknown URN is treated as a schema that allows everything.
            "urn" => return Ok(Arc::new(Json::Bool(true))),
            "http" | "https" | "file" if self.fetched.borrow().len() >= MAX_DOCUMENTS => {
                return Err(failed(format!("the schema leads to more than {MAX_DOCUMENTS} documents")));
            }
            "http" | "https" | "file" => {
                self.requested.set(true);
                (self.fetch)(url).and_then(|bytes| whole_document(&bytes))
            }
            _ => Err(format!("no URLLoader registered for {quoted}")),
        };
        let json = Arc::new(json.map_err(failed)?);
        self.fetched.borrow_mut().insert(url.to_owned(), Arc::clone(&json));
        Ok(json)
    }
}
