//! Buckets of Google's storage, by its JSON API.

use futures::future::BoxFuture;
use percent_encoding::utf8_percent_encode;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::http::Credentials;
use super::super::location::{Location, SEGMENT};
use super::BucketError;
use super::object_bucket::{Authorized, BucketObject, Page, StorageApi};
use windlass_base::bounded_json;
use windlass_base::redact::SecretText;

/// The API with a token.
pub(super) struct GoogleApi {
    pub(super) token: SecretText,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct List {
    items: Vec<Item>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Item {
    name: String,
    #[serde(default)]
    etag: String,
    /// A number as text.
    #[serde(default)]
    size: String,
}

fn objects_url(endpoint: &Location, bucket: &str) -> String {
    let root = endpoint.path.trim_end_matches('/');
    format!("{root}/storage/v1/b/{}/o", utf8_percent_encode(bucket, SEGMENT))
}

impl StorageApi for GoogleApi {
    fn list_url(&self, endpoint: &Location, bucket: &str, prefix: &str, next: Option<&str>) -> Location {
        let mut query = "fields=items(name,etag,size),nextPageToken".to_owned();
        if let Some(token) = next {
            query.push_str(&format!("&pageToken={}", utf8_percent_encode(token, SEGMENT)));
        }
        if !prefix.is_empty() {
            query.push_str(&format!("&prefix={}", utf8_percent_encode(prefix, SEGMENT)));
        }
        endpoint.with_path(objects_url(endpoint, bucket)).with_query(query)
    }

    fn object_url(&self, endpoint: &Location, bucket: &str, key: &str) -> Location {
        let path = format!("{}/{}", objects_url(endpoint, bucket), utf8_percent_encode(key, SEGMENT));
        endpoint.with_path(path).with_query("alt=media".to_owned())
    }

    fn page(&self, body: &[u8]) -> Result<Page, BucketError> {
        page(body)
    }

    fn authorize(&self, url: Location) -> BoxFuture<'_, Result<Authorized, BucketError>> {
        let credentials = Some(Credentials::Bearer(self.token.clone()));
        Box::pin(async move { Ok(Authorized { url, credentials, secret: None }) })
    }
}

/// Reads a page of the list.
fn page(body: &[u8]) -> Result<Page, BucketError> {
    // serde would take an array for the fields in their order.
    let list: Map<String, Value> =
        bounded_json::from_slice(body).map_err(|e| BucketError::List(e.to_string()))?;
    let list: List = serde_json::from_value(list.into()).map_err(|e| BucketError::List(e.to_string()))?;
    let object = |item: Item| {
        let size =
            item.size.parse().map_err(|_| BucketError::List(format!("{:?} is not a size", item.size)))?;
        Ok(BucketObject { key: item.name, etag: item.etag, size })
    };
    let objects = list.items.into_iter().map(object).collect::<Result<_, BucketError>>()?;
    Ok(Page { objects, next: list.next_page_token.filter(|token| !token.is_empty()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let body = br#"{"kind": "storage#objects", "nextPageToken": "t=", "items": [
            {"name": "a/b c", "etag": "CKih16GMycgCEAE=", "size": "3"}, {"name": "d/", "etag": "x", "size": "0"}]}"#;
        let read = page(body).unwrap();
        assert_eq!(read.next.as_deref(), Some("t="));
        assert_eq!(
            read.objects.iter().map(|o| (o.key.as_str(), o.size)).collect::<Vec<_>>(),
            [("a/b c", 3), ("d/", 0)]
        );
        assert_eq!(read.objects[0].etag, "CKih16GMycgCEAE=");
        assert_eq!(page(b"{}").unwrap(), Page::default());
        for bad in ["", "[]", r#"{"items": [{"name": "a"}]}"#, r#"{"items": [{"name": "a", "size": "x"}]}"#] {
            assert!(page(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
