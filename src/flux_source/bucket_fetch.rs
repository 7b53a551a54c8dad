//! Bucket: the files of an object storage with the API of S3.

use std::fs;
use std::io;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::chart_build::inside;
use super::fetch_context::FetchContext;
use super::source_archive::{IgnoreRules, write_archive};
use super::source_secrets;
use super::source_status::{Fetched, SourceError, SourceStatus};
use crate::flux_api::bucket_source::BucketSpec;
use crate::source::cache::hex;
use crate::source::http::Tls;
use crate::source::location::Location;
use crate::source::{BucketObject, S3Bucket};

/// The most bytes of all objects together.
const MAX_BYTES: u64 = 1 << 30;
/// Region of servers that have none.
const REGION: &str = "us-east-1";

fn failed(text: String) -> SourceError {
    SourceError::fetch("BucketOperationFailed", text)
}

/// Fetches the files unless they are there.
pub(super) async fn fetch(
    context: &mut FetchContext<'_>,
    spec: &BucketSpec,
    status: &SourceStatus,
) -> Result<Fetched, SourceError> {
    let refused = |text: String| SourceError::fetch("InvalidProviderConfiguration", text).stalling();
    if !matches!(spec.provider.as_str(), "" | "generic" | "aws") {
        let text = format!("spec.provider {:?} is not supported: use generic or aws", spec.provider);
        return Err(refused(text));
    }
    if spec.sts.is_some() {
        return Err(refused("spec.sts is not supported: use keys in spec.secretRef".to_owned()));
    }
    let secret = source_secrets::read_optional(context.pass, spec.secret_ref.as_ref()).await?;
    if secret.is_none() && spec.provider == "aws" {
        let text =
            "spec.provider aws needs spec.secretRef: this process' own identity is not used for sources";
        return Err(refused(text.to_owned()));
    }
    let keys = match &secret {
        Some(secret) => match (secret.text("accesskey"), secret.text("secretkey")) {
            (access, key) if !access.is_empty() && !key.is_empty() => Some((access, key)),
            _ => {
                let text = format!("secret '{}': keys accesskey and secretkey are required", secret.name());
                return Err(SourceError::fetch("AuthenticationFailed", text));
            }
        },
        None => None,
    };
    let certificates = source_secrets::read_optional(context.pass, spec.cert_secret_ref.as_ref()).await?;
    let tls = certificates.map(|secret| secret.tls(false)).transpose()?.unwrap_or_else(Tls::default);
    let http = context.http(spec.timeout.as_ref(), spec.proxy_secret_ref.as_ref()).await?;
    let scheme = if spec.insecure { "http" } else { "https" };
    let endpoint = Location::parse(&format!("{scheme}://{}", spec.endpoint.trim_end_matches('/')))
        .map_err(|e| SourceError::fetch("URLInvalid", format!("spec.endpoint: {e}")).stalling())?;
    let region = if spec.region.is_empty() { REGION } else { &spec.region };
    let bucket = S3Bucket { http: &http, tls: &tls, endpoint, name: &spec.bucket_name, region, keys };
    let scratch = context.scratch()?;
    let ignore = ignore_rules(&bucket, spec, scratch.path()).await?;
    let objects = bucket.list(&spec.prefix).await;
    let objects =
        objects.map_err(|e| failed(format!("fetch from bucket '{}' failed: {e}", spec.bucket_name)))?;
    let wanted: Vec<BucketObject> = objects
        .into_iter()
        .filter(|object| !object.key.ends_with('/'))
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
            let (root, revision) = (scratch.path().to_owned(), revision.clone());
            context
                .blocking(move |store, source| {
                    let stored = |e: io::Error| SourceError::storage("ArchiveOperationFailed", &e);
                    let file = format!("{}.tar.gz", revision.trim_start_matches("sha256:"));
                    let none = IgnoreRules::none();
                    store
                        .save(source, &file, &revision, |out| write_archive(&root, &none, out))
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

/// The ignore rules of the spec and of the bucket's `.sourceignore`.
async fn ignore_rules(
    bucket: &S3Bucket<'_>,
    spec: &BucketSpec,
    root: &std::path::Path,
) -> Result<IgnoreRules, SourceError> {
    const FILE: &str = ".sourceignore";
    let found = bucket.list(FILE).await.map_err(|e| failed(e.to_string()))?;
    if found.iter().any(|object| object.key == FILE) {
        let text = bucket.get(FILE, 1 << 20).await.map_err(|e| failed(e.to_string()))?;
        fs::write(root.join(FILE), &text).map_err(|e| SourceError::storage("ArchiveOperationFailed", &e))?;
    }
    let rules = IgnoreRules::load(root, spec.ignore.as_deref());
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
    bucket: &S3Bucket<'_>,
    objects: &[BucketObject],
    root: &std::path::Path,
) -> Result<(), SourceError> {
    let mut left = MAX_BYTES;
    for object in objects {
        let large = || failed(format!("the files of the bucket have more than {MAX_BYTES} bytes"));
        left = left.checked_sub(object.size).ok_or_else(large)?;
        let bytes = bucket.get(&object.key, object.size).await;
        let bytes = bytes.map_err(|e| failed(format!("failed to get '{}' object: {e}", object.key)))?;
        let path = inside(root, &object.key).ok_or_else(|| failed(format!("'{}' is no path", object.key)))?;
        let written =
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &bytes));
        written.map_err(|e| SourceError::storage("ArchiveOperationFailed", &e))?;
    }
    Ok(())
}
