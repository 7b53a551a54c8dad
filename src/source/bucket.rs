//! Packages in buckets: `s3://BUCKET/KEY` and `gs://BUCKET/KEY`, where they are and how their servers are told who asks.
//!
//! Owns the signature of AWS (version 4) over a `GET`, which S3 and all that is like it want. Who we are is found as the tools
//! of Amazon ([`aws`]) and Google ([`google`]) find it; without that, nobody signs. A library of buckets would bring its own
//! client.

mod aws;
mod google;

use std::io;
use std::path::Path;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use http::{HeaderName, header};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use self::aws::{Keys, Settings};
use super::cache::hex;
use super::files;
use super::http::{Credentials, Http, HttpError};
use super::location::{BadLocation, Location};

/// What stays as it is in a signed path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// SHA-256 of an empty body.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The largest file of credentials, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The largest answer of a server that hands out credentials, in bytes.
const MAX_ANSWER: u64 = 1 << 20;

/// Why nobody knows how to ask for a package in a bucket.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The reference, or an endpoint, is no address.
    #[error(transparent)]
    Location(#[from] BadLocation),
    /// A file of credentials cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A server that hands out credentials cannot be asked, or refuses.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// What a file or a server says is not what it should be.
    #[error("{0}")]
    Answer(String),
}

/// How a bucket's server is told who asks.
#[derive(Clone)]
pub(super) enum Asker {
    /// Nobody says.
    Anonymous,
    /// By a token.
    Token(String),
    /// By a signature.
    Keys { keys: Keys, region: String },
}

fn variable(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
}

/// What a file of credentials holds; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>, BucketError> {
    let bytes = files::read(path, MAX_FILE);
    let bytes = bytes.map_err(|source| BucketError::File { path: path.display().to_string(), source })?;
    Ok(bytes.map(|b| String::from_utf8_lossy(&b).into_owned()))
}

/// Fields as the body of a form.
fn form(fields: &[(&str, &str)]) -> String {
    let pair =
        |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC));
    fields.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// Where a package is, and who asks for it.
///
/// # Errors
/// The environment names credentials that cannot be had.
pub(super) async fn place(bucket: &Location, http: &Http) -> Result<(Location, Asker), BucketError> {
    let key = utf8_percent_encode(bucket.path.trim_start_matches('/'), PATH).to_string();
    if bucket.scheme == "gs" {
        let endpoint = variable(&["STORAGE_EMULATOR_HOST"]);
        let endpoint = endpoint.unwrap_or_else(|| "https://storage.googleapis.com".to_owned());
        let endpoint = if endpoint.contains("://") { endpoint } else { format!("http://{endpoint}") };
        let url = Location::parse(&format!("{}/{}/{key}", endpoint.trim_end_matches('/'), bucket.host))?;
        let token = google::token(http).await?;
        return Ok((url, token.map_or(Asker::Anonymous, Asker::Token)));
    }
    let settings = Settings::load()?;
    let region = settings.region.clone();
    let url = match &settings.endpoint {
        Some(endpoint) => format!("{}/{}/{key}", endpoint.trim_end_matches('/'), bucket.host),
        // A name with dots is no name of a host under the server's certificate.
        None if bucket.host.contains('.') => {
            format!("https://s3.{region}.amazonaws.com/{}/{key}", bucket.host)
        }
        None => format!("https://{}.s3.{region}.amazonaws.com/{key}", bucket.host),
    };
    let keys = settings.keys(http).await?;
    let asker = keys.map_or(Asker::Anonymous, |keys| Asker::Keys { keys, region });
    Ok((Location::parse(&url)?, asker))
}

impl Asker {
    /// What a `GET` of a URL says of who asks.
    pub(super) fn credentials(&self, url: &Location, now: Timestamp) -> Option<Credentials> {
        match self {
            Self::Anonymous => None,
            Self::Token(token) => Some(Credentials::Bearer(token.clone())),
            Self::Keys { keys: Keys { id, secret, session }, region } => {
                let date = now.strftime("%Y%m%dT%H%M%SZ").to_string();
                let mut headers = vec![
                    ("host".to_owned(), url.host.clone()),
                    ("x-amz-content-sha256".to_owned(), EMPTY.to_owned()),
                    ("x-amz-date".to_owned(), date.clone()),
                ];
                headers.extend(session.clone().map(|s| ("x-amz-security-token".to_owned(), s)));
                let authorization = authorization(id, secret, region, url, &headers, &date);
                let named = headers.into_iter().skip(1).map(|(k, v)| (HeaderName::try_from(k), v));
                let mut out: Vec<(HeaderName, String)> =
                    named.filter_map(|(k, v)| Some((k.ok()?, v))).collect();
                out.push((header::AUTHORIZATION, authorization));
                Some(Credentials::Signed(out))
            }
        }
    }
}

/// The header `Authorization` of a `GET`; `headers`: those that are signed, by name.
fn authorization(
    id: &str,
    secret: &str,
    region: &str,
    url: &Location,
    headers: &[(String, String)],
    date: &str,
) -> String {
    let names: Vec<&str> = headers.iter().map(|h| h.0.as_str()).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(k, v)| format!("{k}:{}\n", v.trim())).collect();
    let query = url.query.clone().unwrap_or_default();
    let request = format!("GET\n{}\n{query}\n{lines}\n{names}\n{EMPTY}", url.path);
    let day = &date[..date.len().min(8)];
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(request.as_bytes())));
    let step = |key: &[u8], data: &str| sign(&Key::new(HMAC_SHA256, key), data.as_bytes());
    let mut key = step(format!("AWS4{secret}").as_bytes(), day);
    for part in [region, "s3", "aws4_request"] {
        key = step(key.as_ref(), part);
    }
    let signature = hex(step(key.as_ref(), &text).as_ref());
    format!("AWS4-HMAC-SHA256 Credential={id}/{scope},SignedHeaders={names},Signature={signature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_signed_as_amazons_own_example() {
        // "GET Object" of the documentation of signature version 4.
        let url = Location::parse("https://examplebucket.s3.amazonaws.com/test.txt").unwrap();
        let date = "20130524T000000Z";
        let headers = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", EMPTY),
            ("x-amz-date", date),
        ];
        let headers: Vec<_> = headers.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let (id, secret) = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let said = authorization(id, secret, "us-east-1", &url, &headers, date);
        assert_eq!(
            said,
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
             Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }
}
