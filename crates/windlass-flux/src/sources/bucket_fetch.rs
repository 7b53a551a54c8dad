//! Bucket: the files of an object storage.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::bucket_storage;
use super::chart_build::inside;
use super::fetch_context::FetchContext;
use super::ignore_rules::{IgnoreRules, SOURCE_IGNORE};
use super::source_archive::write_archive;
use super::source_secrets;
use super::source_status::{Fetched, SourceError, SourceStatus};
use flux_api::bucket_source::BucketSpec;
use windlass_base::hex::hex;
use windlass_base::redact;
use windlass_fetch::{BucketObject, ObjectBucket};

/// The most bytes of all objects together.
const MAX_BYTES: u64 = 1 << 30;

fn failed(text: String) -> SourceError {
    SourceError::fetch("BucketOperationFailed", text)
}

/// Fetches the files unless they are there.
pub(super) async fn fetch(
    context: &mut FetchContext<'_>,
    spec: &BucketSpec,
    status: &SourceStatus,
) -> Result<Fetched, SourceError> {
    let certificates = source_secrets::read_optional(context.pass, spec.cert_secret_ref.as_ref()).await?;
    let tls = certificates.map(|secret| secret.tls(false)).transpose()?.unwrap_or_default();
    let http = context.http(spec.timeout.as_ref(), spec.proxy_secret_ref.as_ref()).await?;
    let (endpoint, storage) = bucket_storage::open(context, spec, &http).await?;
    let bucket = ObjectBucket { http: &http, tls: &tls, endpoint, name: &spec.bucket_name, storage };
    let scratch = context.scratch()?;
    let objects = bucket.list(&spec.prefix).await;
    let objects =
        objects.map_err(|e| failed(format!("fetch from bucket '{}' failed: {e}", spec.bucket_name)))?;
    let ignore = ignore_rules(&bucket, spec, scratch.path()).await?;
    let wanted: Vec<BucketObject> = objects
        .into_iter()
        // The file with ignore rules is not a file of the source.
        .filter(|object| !object.key.ends_with('/') && object.key != SOURCE_IGNORE)
        .filter(|object| inside(scratch.path(), &object.key).is_some_and(|path| !ignore.ignores_below(&path)))
        .collect();
    let revision = format!("sha256:{}", index_digest(&wanted));
    let observed = Map::from_iter([("observedIgnore".to_owned(), json!(spec.ignore))]);
    let same = status.observed.get("observedIgnore").unwrap_or(&Value::Null) == &observed["observedIgnore"];
    let known = status.artifact.as_ref().filter(|known| same && known.revision == revision);
    let artifact = match known {
        Some(known) => known.clone(),
        None => {
            download(&bucket, &wanted, scratch.path()).await?;
            let (scratch, revision) = (Arc::clone(&scratch), revision.clone());
            context
                .blocking(move |store, source, end| {
                    let stored = |e: io::Error| SourceError::storage("ArchiveOperationFailed", &e);
                    let file = format!("{}.tar.gz", revision.trim_start_matches("sha256:"));
                    let none = IgnoreRules::none();
                    store
                        .save(source, &file, &revision, |out| write_archive(scratch.path(), &none, out, end))
                        .map_err(stored)
                })
                .await?
        }
    };
    Ok(Fetched {
        reason: "Succeeded",
        message: format!("stored artifact: revision '{revision}'"),
        note: format!(
            "stored artifact with {} fetched files from '{}' bucket",
            wanted.len(),
            spec.bucket_name
        ),
        artifact,
        observed,
        verified: None,
        latest: Some("latest.tar.gz"),
    })
}

/// The ignore rules of the spec and of the bucket's `.sourceignore`; other sources have more.
async fn ignore_rules(
    bucket: &ObjectBucket<'_>,
    spec: &BucketSpec,
    root: &Path,
) -> Result<IgnoreRules, SourceError> {
    let text = bucket.get(SOURCE_IGNORE, 1 << 20).await;
    let text = text.map_err(|e| failed(format!("failed to get '{SOURCE_IGNORE}' object: {e}")))?;
    let rules = match text {
        Some(text) => fs::write(root.join(SOURCE_IGNORE), &text),
        None => Ok(()),
    };
    let (root, ignore) = (root.to_owned(), spec.ignore.clone());
    let load = move || rules.and_then(|()| IgnoreRules::load_own(&root, ignore.as_deref()));
    let rules = redact::spawn_blocking(load).await.map_err(|e| failed(e.to_string()))?;
    rules.map_err(|e| SourceError::storage("ArchiveOperationFailed", &e))
}

/// The digest of keys and entity tags, in hexadecimal digits.
fn index_digest(objects: &[BucketObject]) -> String {
    let mut digest = Sha256::new();
    for BucketObject { key, etag, .. } in objects {
        digest.update(format!("{key} {etag}\n"));
    }
    hex(&digest.finalize())
}

async fn download(
    bucket: &ObjectBucket<'_>,
    objects: &[BucketObject],
    root: &Path,
) -> Result<(), SourceError> {
    let mut left = MAX_BYTES;
    for object in objects {
        let large = || failed(format!("the files of the bucket have more than {MAX_BYTES} bytes"));
        left = left.checked_sub(object.size).ok_or_else(large)?;
        let bytes = bucket.get(&object.key, object.size).await;
        let wrong = |why: &str| failed(format!("failed to get '{}' object: {why}", object.key));
        let bytes = bytes.map_err(|e| wrong(&e.to_string()))?;
        let bytes = bytes.ok_or_else(|| wrong("it is gone since the bucket was listed"))?;
        let path = inside(root, &object.key).ok_or_else(|| failed(format!("'{}' is no path", object.key)))?;
        let written =
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &bytes));
        written.map_err(|e| SourceError::storage("ArchiveOperationFailed", &e))?;
    }
    Ok(())
}
