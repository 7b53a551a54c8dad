//! Containers of blobs in Azure's storage accounts. reqsign signs with an account's key.

use futures::future::BoxFuture;
use http::header::{self, HeaderName};
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use reqsign_azure_storage::{Credential, RequestSigner};
use reqsign_core::{Context, SignRequest as _};

use super::super::http::{Credentials, address};
use super::super::location::{Location, PATH, SEGMENT};
use super::object_bucket::{Authorized, BucketObject, MAX_OBJECTS, Page, StorageApi};
use super::{AzureAccess, BucketError};
use crate::xml_elements::{self, Element};

/// Version of the API.
const VERSION: (HeaderName, &str) = (HeaderName::from_static("x-ms-version"), "2023-11-03");

/// The API with access to an account.
pub(super) struct AzureApi {
    pub(super) access: AzureAccess,
}

fn container(endpoint: &Location, name: &str) -> String {
    format!("{}/{}", endpoint.path.trim_end_matches('/'), utf8_percent_encode(name, PATH))
}

impl StorageApi for AzureApi {
    fn list_url(&self, endpoint: &Location, bucket: &str, prefix: &str, next: Option<&str>) -> Location {
        let mut query = "comp=list".to_owned();
        if let Some(marker) = next {
            query.push_str(&format!("&marker={}", utf8_percent_encode(marker, SEGMENT)));
        }
        if !prefix.is_empty() {
            query.push_str(&format!("&prefix={}", utf8_percent_encode(prefix, SEGMENT)));
        }
        query.push_str("&restype=container");
        endpoint.with_path(container(endpoint, bucket)).with_query(query)
    }

    fn object_url(&self, endpoint: &Location, bucket: &str, key: &str) -> Location {
        let path = format!("{}/{}", container(endpoint, bucket), utf8_percent_encode(key, PATH));
        endpoint.with_path(path)
    }

    fn page(&self, body: &[u8]) -> Result<Page, BucketError> {
        page(body)
    }

    fn authorize(&self, url: Location) -> BoxFuture<'_, Result<Authorized, BucketError>> {
        Box::pin(async move {
            let version = (VERSION.0, VERSION.1.to_owned());
            let signed = |headers: Vec<_>| Some(Credentials::Signed(headers));
            Ok(match &self.access {
                AzureAccess::Key { account, key } => {
                    let credentials = Some(sign(&url, account, key.expose()).await?);
                    Authorized { url, credentials, secret: None }
                }
                AzureAccess::Sas(token) => {
                    let token = token.expose().trim().trim_start_matches('?').to_owned();
                    let query = url.query.iter().filter(|query| !query.is_empty()).chain([&token]);
                    let query = query.cloned().collect::<Vec<_>>().join("&");
                    Authorized {
                        url: url.with_query(query),
                        credentials: signed(vec![version]),
                        secret: Some(token.into()),
                    }
                }
                AzureAccess::Token(token) => {
                    let token = (header::AUTHORIZATION, format!("Bearer {}", token.expose()));
                    Authorized { url, credentials: signed(vec![version, token]), secret: None }
                }
            })
        })
    }
}

/// The headers that sign a `GET` of a URL with an account's key.
async fn sign(url: &Location, account: &str, key: &str) -> Result<Credentials, BucketError> {
    let wrong = |reason: String| BucketError::Answer(format!("{url}: {reason}"));
    let address = address(url).map_err(|e| wrong(e.to_string()))?;
    let request = http::Request::get(address.as_str()).header(VERSION.0, VERSION.1);
    let mut parts = request.body(()).map_err(|e| wrong(e.to_string()))?.into_parts().0;
    let credential = Credential::with_shared_key(account, key);
    RequestSigner::new().sign_request(&Context::new(), &mut parts, Some(&credential), None).await?;
    // The client sets the header `Host`.
    parts.headers.remove(header::HOST);
    let text = |(k, v): (&HeaderName, &http::HeaderValue)| Some((k.clone(), v.to_str().ok()?.to_owned()));
    Ok(Credentials::Signed(parts.headers.iter().filter_map(text).collect()))
}

/// Reads a page of `List Blobs`. source-controller's index has entity tags in the quotes of their header.
fn page(xml: &[u8]) -> Result<Page, BucketError> {
    let (mut out, mut object, mut encoded) = (Page::default(), BucketObject::default(), false);
    xml_elements::read(xml, |element| {
        match element {
            Element::Start("Blob", _) => object = BucketObject::default(),
            Element::Start("Name", is_encoded) => encoded = is_encoded,
            Element::End("Blob", _) => out.objects.push(std::mem::take(&mut object)),
            Element::End("Name", text) if encoded => {
                object.key = percent_decode_str(text).decode_utf8_lossy().into_owned();
            }
            Element::End("Name", text) => text.clone_into(&mut object.key),
            Element::End("Etag", text) => object.etag = format!("\"{}\"", text.trim_matches('"')),
            Element::End("Content-Length", text) => {
                object.size =
                    text.parse().map_err(|_| BucketError::List(format!("{text:?} is not a size")))?;
            }
            Element::End("NextMarker", text) if !text.is_empty() => out.next = Some(text.to_owned()),
            _ => {}
        }
        if out.objects.len() > MAX_OBJECTS {
            return Err(BucketError::List(format!("more than {MAX_OBJECTS} objects")));
        }
        Ok(())
    })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let xml = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs><Blob><Name>a/b c.yaml</Name>\
            <Properties><Etag>0x8D</Etag><Content-Length>3</Content-Length></Properties></Blob>\
            <Blob><Name Encoded=\"true\">d%20%EF</Name><Properties><Etag>\"0x8E\"</Etag><Content-Length>0</Content-Length>\
            </Properties></Blob></Blobs><NextMarker>2!x</NextMarker></EnumerationResults>";
        let read = page(xml.as_bytes()).unwrap();
        let found: Vec<_> = read.objects.iter().map(|o| (o.key.as_str(), o.etag.as_str(), o.size)).collect();
        assert_eq!(found, [("a/b c.yaml", "\"0x8D\"", 3), ("d \u{fffd}", "\"0x8E\"", 0)]);
        assert_eq!(read.next.as_deref(), Some("2!x"));
        let last = "<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>";
        assert_eq!(page(last.as_bytes()).unwrap(), Page::default());
        assert!(page(b"<Blob><Content-Length>x</Content-Length></Blob>").is_err());
    }
}
