//! A bucket with the API of S3: the list of its objects, and their content. Requests are signed with given keys, or not at all.

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quick_xml::Reader;
use quick_xml::events::Event;

use super::super::http::Request;
use super::super::location::Location;
use super::aws::Keys;
use super::{BucketError, BucketObject, S3Bucket};

/// Size limit of a page of a listing, in bytes.
const MAX_PAGE: u64 = 16 << 20;
/// The most objects of a bucket.
const MAX_OBJECTS: usize = 100_000;
/// What S3 leaves as it is in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// The same in a query.
const QUERY: &AsciiSet = &PATH.add(b'/');

/// One page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    objects: Vec<BucketObject>,
    next: Option<String>,
}

impl S3Bucket<'_> {
    /// The objects whose keys begin with a prefix, by key.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or there are too many.
    pub async fn list(&self, prefix: &str) -> Result<Vec<BucketObject>, BucketError> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            // The parameters of a signed request are in order.
            let mut query = String::new();
            if let Some(token) = &token {
                query.push_str(&format!("continuation-token={}&", utf8_percent_encode(token, QUERY)));
            }
            query.push_str("encoding-type=url&list-type=2");
            if !prefix.is_empty() {
                query.push_str(&format!("&prefix={}", utf8_percent_encode(prefix, QUERY)));
            }
            let url = self.endpoint.with_path(format!("/{}", self.name)).with_query(query);
            let page = page(&self.send(url, MAX_PAGE).await?)?;
            all.extend(page.objects);
            if all.len() > MAX_OBJECTS {
                return Err(BucketError::Answer(format!("the bucket has more than {MAX_OBJECTS} objects")));
            }
            match page.next {
                Some(next) if Some(&next) != token.as_ref() => token = Some(next),
                _ => break,
            }
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(all)
    }

    /// The content of an object, at most `limit` bytes.
    ///
    /// # Errors
    /// It does not exist, or is too large.
    pub async fn get(&self, key: &str, limit: u64) -> Result<Bytes, BucketError> {
        let path = format!("/{}/{}", self.name, utf8_percent_encode(key, PATH));
        self.send(self.endpoint.with_path(path), limit).await
    }

    async fn send(&self, url: Location, limit: u64) -> Result<Bytes, BucketError> {
        let mut request = Request::get(url, self.tls, limit);
        if let Some((access, secret)) = &self.keys {
            request.credentials = Some(Keys::of(access, secret, self.region).sign(&request.url).await?);
            // A signature is for this server.
            request.confined = true;
        }
        Ok(self.http.fetch(request).await?)
    }
}

/// Reads a page of `ListObjectsV2`.
fn page(xml: &[u8]) -> Result<Page, BucketError> {
    let wrong = |why: String| BucketError::Answer(format!("the list of the bucket is malformed: {why}"));
    let text = std::str::from_utf8(xml).map_err(|e| wrong(e.to_string()))?;
    let mut reader = Reader::from_str(text);
    let (mut out, mut object, mut field) = (Page::default(), BucketObject::default(), String::new());
    let (mut value, mut truncated) = (String::new(), false);
    loop {
        match reader.read_event().map_err(|e| wrong(e.to_string()))? {
            Event::Eof => break,
            Event::Start(start) => {
                start.name().as_ref().clone_into(&mut field);
                value.clear();
                if field == "Contents" {
                    object = BucketObject::default();
                }
            }
            Event::Text(part) => value.push_str(&part.xml10_content()),
            Event::GeneralRef(name) => {
                value.push_str(match name.as_ref() {
                    "quot" => "\"",
                    "amp" => "&",
                    "lt" => "<",
                    "gt" => ">",
                    "apos" => "'",
                    "#34" => "\"",
                    "#39" => "'",
                    other => return Err(wrong(format!("unknown entity {other:?}"))),
                });
            }
            Event::End(end) => {
                match end.name().as_ref() {
                    "Contents" => out.objects.push(std::mem::take(&mut object)),
                    "Key" => object.key = percent_decode_str(&value).decode_utf8_lossy().into_owned(),
                    "ETag" => value.trim_matches('"').clone_into(&mut object.etag),
                    "Size" => {
                        object.size = value.parse().map_err(|_| wrong(format!("{value:?} is no size")))?;
                    }
                    "IsTruncated" => truncated = value == "true",
                    "NextContinuationToken" => out.next = Some(value.clone()),
                    _ => {}
                }
                field.clear();
                value.clear();
            }
            _ => {}
        }
        if out.objects.len() > MAX_OBJECTS {
            return Err(wrong(format!("more than {MAX_OBJECTS} objects")));
        }
    }
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
            <Contents><Key>a%2Fb+c.yaml</Key><ETag>&quot;abc&quot;</ETag><Size>3</Size></Contents>
            <Contents><Key>d</Key><ETag>"def"</ETag><Size>0</Size></Contents></ListBucketResult>"#;
        let object = |key: &str, etag: &str, size| BucketObject { key: key.into(), etag: etag.into(), size };
        let page_of = page(xml).unwrap();
        assert_eq!(page_of.objects, [object("a/b+c.yaml", "abc", 3), object("d", "def", 0)]);
        assert_eq!(page_of.next.as_deref(), Some("t/1="));
        assert_eq!(page(b"<ListBucketResult></ListBucketResult>").unwrap(), Page::default());
        for bad in ["<a>&x;</a>", "<Contents><Size>x</Size></Contents>", "<a><b></a>"] {
            assert!(page(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
