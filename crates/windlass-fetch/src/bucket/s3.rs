//! Buckets with the API of S3. Requests are signed with given keys, or not at all.

use futures::future::BoxFuture;
use percent_encoding::{percent_decode_str, utf8_percent_encode};

use super::super::location::{Location, PATH, SEGMENT};
use super::aws::Keys;
use super::object_bucket::{Authorized, BucketObject, MAX_OBJECTS, Page, StorageApi};
use super::{BucketError, S3Keys};
use crate::xml_elements::{self, Element};

/// The API with the keys for a region.
pub(super) struct S3Api {
    keys: Option<Keys>,
}

impl S3Api {
    pub(super) fn new(region: &str, keys: Option<S3Keys>) -> Self {
        Self { keys: keys.map(|keys| Keys::of(keys, region)) }
    }
}

impl StorageApi for S3Api {
    fn list_url(&self, endpoint: &Location, bucket: &str, prefix: &str, next: Option<&str>) -> Location {
        // The parameters of a signed request are in order.
        let mut query = String::new();
        if let Some(token) = next {
            query.push_str(&format!("continuation-token={}&", utf8_percent_encode(token, SEGMENT)));
        }
        query.push_str("encoding-type=url&list-type=2");
        if !prefix.is_empty() {
            query.push_str(&format!("&prefix={}", utf8_percent_encode(prefix, SEGMENT)));
        }
        endpoint.with_path(format!("/{bucket}")).with_query(query)
    }

    fn object_url(&self, endpoint: &Location, bucket: &str, key: &str) -> Location {
        endpoint.with_path(format!("/{bucket}/{}", utf8_percent_encode(key, PATH)))
    }

    fn page(&self, body: &[u8]) -> Result<Page, BucketError> {
        page(body)
    }

    fn authorize(&self, url: Location) -> BoxFuture<'_, Result<Authorized, BucketError>> {
        Box::pin(async move {
            let credentials = match &self.keys {
                Some(keys) => Some(keys.sign(&url).await?),
                None => None,
            };
            Ok(Authorized { url, credentials, secret: None })
        })
    }
}

/// Reads a page of `ListObjectsV2`.
fn page(xml: &[u8]) -> Result<Page, BucketError> {
    let (mut out, mut object, mut truncated) = (Page::default(), BucketObject::default(), false);
    xml_elements::read(xml, |element| {
        match element {
            Element::Start("Contents", _) => object = BucketObject::default(),
            Element::End("Contents", _) => out.objects.push(std::mem::take(&mut object)),
            // In the encoding of forms.
            Element::End("Key", text) => {
                object.key = percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
            }
            Element::End("ETag", text) => text.trim_matches('"').clone_into(&mut object.etag),
            Element::End("Size", text) => {
                object.size =
                    text.parse().map_err(|_| BucketError::List(format!("{text:?} is not a size")))?;
            }
            Element::End("IsTruncated", text) => truncated = text == "true",
            Element::End("NextContinuationToken", text) => out.next = Some(text.to_owned()),
            _ => {}
        }
        if out.objects.len() > MAX_OBJECTS {
            return Err(BucketError::List(format!("more than {MAX_OBJECTS} objects")));
        }
        Ok(())
    })?;
    if !truncated {
        out.next = None;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let xml = br#"<?xml version="1.0"?><ListBucketResult><Name>b</Name><IsTruncated>true</IsTruncated>
            <NextContinuationToken>t/1=</NextContinuationToken>
            <Contents><Key>a%2Fb%2Bc+d.yaml</Key><ETag>&quot;abc&quot;</ETag><Size>3</Size></Contents>
            <Contents><Key>d</Key><ETag>&#34;def&#x22;</ETag><Size>0</Size></Contents></ListBucketResult>"#;
        let object = |key: &str, etag: &str, size| BucketObject { key: key.into(), etag: etag.into(), size };
        let page_of = page(xml).unwrap();
        assert_eq!(page_of.objects, [object("a/b+c d.yaml", "abc", 3), object("d", "def", 0)]);
        assert_eq!(page_of.next.as_deref(), Some("t/1="));
        assert_eq!(page(b"<ListBucketResult></ListBucketResult>").unwrap(), Page::default());
        for bad in ["<a>&x;</a>", "<Contents><Size>x</Size></Contents>", "<a><b></a>"] {
            assert!(page(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
