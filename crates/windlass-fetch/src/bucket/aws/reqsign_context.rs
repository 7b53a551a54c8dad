//! reqsign's access to this machine: variables, files and servers, within our limits.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use reqsign_core::{Context, Env, Error, FileRead, HttpSend, Result};

use super::super::super::helm_paths::user_home;
use super::super::super::http::{Credentials, Http, HttpError, MAX_CREDENTIALS, Request, Tls};
use super::super::super::location::Location;
use super::super::environment::{read, variable};

/// The reason of the last failed request, which reqsign does not always report.
pub(super) type Failure = Arc<Mutex<Option<HttpError>>>;

/// Returns a context and its record of failures; `sts`: a token service that replaces Amazon's.
pub(super) fn new(http: &Http, sts: Option<Location>) -> (Context, Failure) {
    let failure = Failure::default();
    let servers = Servers { http: http.clone(), sts, failure: Arc::clone(&failure) };
    (Context::new().with_env(Variables).with_file_read(Files).with_http_send(servers), failure)
}

#[derive(Debug)]
struct Variables;

impl Env for Variables {
    fn var(&self, key: &str) -> Option<String> {
        variable(&[key])
    }

    fn vars(&self) -> HashMap<String, String> {
        let text = |(k, v): (std::ffi::OsString, std::ffi::OsString)| {
            Some((k.into_string().ok()?, v.into_string().ok().filter(|v| !v.is_empty())?))
        };
        std::env::vars_os().filter_map(text).collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        Some(user_home())
    }
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> Result<Vec<u8>> {
        let text = read(Path::new(path)).map_err(|e| Error::config_invalid(e.to_string()))?;
        text.map(String::into_bytes).ok_or_else(|| Error::config_invalid(format!("{path}: no such file")))
    }
}

/// Credentials servers. Secrets sent to them are never redirected.
struct Servers {
    http: Http,
    sts: Option<Location>,
    failure: Failure,
}

impl Servers {
    async fn answer(&self, request: Request<'_>) -> std::result::Result<(StatusCode, Bytes), HttpError> {
        let answer = self.http.send(request).await?;
        Ok((answer.status, answer.bytes().await?))
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Servers")
    }
}

impl HttpSend for Servers {
    async fn http_send(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>> {
        let (parts, body) = request.into_parts();
        let failed = |e: &dyn fmt::Display| Error::unexpected(e.to_string());
        let mut url = Location::parse(&parts.uri.to_string()).map_err(|e| failed(&e))?;
        let moved = self.sts.is_some() && url.host.starts_with("sts.");
        if let Some(sts) = self.sts.as_ref().filter(|_| moved) {
            let place = sts.with_path(format!("{}/", sts.path.trim_end_matches('/')));
            url = url.query.map_or_else(|| place.clone(), |query| place.with_query(query));
        }
        // The client sets `Content-Length` and `Host`. If another server replaces Amazon's, the signature covers
        // Amazon's host name.
        let ours = |name: &HeaderName| *name == header::CONTENT_LENGTH || !moved && *name == header::HOST;
        let text = |(k, v): (&HeaderName, &HeaderValue)| {
            (!ours(k)).then_some((k.clone(), v.to_str().ok()?.to_owned()))
        };
        let headers = parts.headers.iter().filter_map(text).collect();
        let tls = Tls::default();
        let request = Request {
            confined: true,
            method: parts.method,
            body,
            credentials: Some(Credentials::Signed(headers)),
            ..Request::get(url, &tls, MAX_CREDENTIALS)
        };
        let answer = self.answer(request).await;
        let (status, body) = answer.map_err(|e| {
            let error = failed(&e);
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
            error
        })?;
        http::Response::builder().status(status).body(body).map_err(|e| failed(&e))
    }
}
