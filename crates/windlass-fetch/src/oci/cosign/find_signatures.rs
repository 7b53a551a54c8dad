//! Finds the signatures of an artifact in a registry: bundles that refer to it, and the `.sig` tag of older versions
//! of cosign.
//!
//! Owns the distribution protocol's referrers. Does not judge signatures.

use http::{Method, StatusCode, header};
use serde::Deserialize;
use std::collections::BTreeMap;
use windlass_base::bounded_json;

use super::super::artifact::{Descriptor, Manifest};
use super::super::artifact_reference::OciReference;
use super::super::tag_list::next_page;
use super::super::{Ask, MAX_MANIFEST, OciError, Registry};
use super::check::{Checks, Found, Simple};
use super::{CosignError, Policy, Signer};

/// The media type of a bundle, and the artifact type of referrers with one.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The annotation of a referrer with the predicate type of its statement.
const PREDICATE: &str = "dev.sigstore.bundle.predicateType";
/// Maximum number of signatures checked per artifact.
const MAX_SIGNATURES: usize = 64;
/// Size limit of a bundle or a signed payload, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Maximum number of pages of referrers that are read.
const MAX_PAGES: usize = 16;

/// Verifies artifacts against a policy.
pub struct Verifier {
    signer: Signer,
    checks: Checks,
    /// Whether the trusted root is the built-in one.
    built_in_root: bool,
}

/// A referrer of an artifact.
#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Referrer>,
}

#[derive(Deserialize)]
struct Referrer {
    digest: String,
    #[serde(default, rename = "artifactType")]
    artifact_type: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Referrer {
    /// Whether it may be a signature: statements of provenance or content are not.
    fn may_sign(&self) -> bool {
        self.artifact_type == BUNDLE
            && self.annotations.get(PREDICATE).is_none_or(|p| p == super::check::SIGNED)
    }
}

impl Verifier {
    /// A verifier of a policy.
    ///
    /// # Errors
    /// The key or the trusted root cannot be read, or a pattern is not a regular expression.
    pub fn new(policy: &Policy) -> Result<Self, CosignError> {
        let built_in_root = policy.trusted_root.is_none() && matches!(policy.signer, Signer::Identity { .. });
        Ok(Self { signer: policy.signer.clone(), checks: Checks::new(policy)?, built_in_root })
    }

    /// Verifies an artifact's signatures by the policy. `digest`: of its manifest.
    ///
    /// # Errors
    /// No signature is valid, or the registry fails.
    pub async fn verify(
        &self,
        registry: &Registry<'_>,
        reference: &OciReference,
        digest: &str,
    ) -> Result<(), CosignError> {
        let mut count = 0;
        let mut last = None;
        for referrer in registry.referrers(reference, digest).await? {
            for found in registry.bundles(reference, &referrer).await? {
                if count == MAX_SIGNATURES {
                    break;
                }
                match self.checks.check(&found, digest) {
                    Ok(()) => return Ok(()),
                    Err(reason) => last = Some(reason),
                }
                count += 1;
            }
        }
        for layer in registry.simple_signatures(reference, digest).await? {
            if count == MAX_SIGNATURES {
                break;
            }
            let payload = registry.small_blob(reference, &layer).await?;
            let found = Found::Simple(Simple { payload, annotations: layer.annotations });
            match self.checks.check(&found, digest) {
                Ok(()) => return Ok(()),
                Err(reason) => last = Some(reason),
            }
            count += 1;
        }
        let (reference, signer) = (reference.to_string(), Box::new(self.signer.clone()));
        let Some(reason) = last else { return Err(CosignError::Unsigned(reference)) };
        Err(CosignError::NotVerified { reference, count, signer, reason, built_in_root: self.built_in_root })
    }
}

impl Registry<'_> {
    /// The referrers of an artifact with bundles; registries without the referrers API have a tag instead.
    async fn referrers(&self, reference: &OciReference, digest: &str) -> Result<Vec<Referrer>, OciError> {
        let scope = format!("repository:{}:pull", reference.repository);
        let url = self.url(reference, &format!("referrers/{digest}"))?;
        let mut url =
            url.with_query(format!("artifactType={}", BUNDLE.replace('/', "%2F").replace('+', "%2B")));
        let mut out = Vec::new();
        for _ in 0..MAX_PAGES {
            let ask = Ask {
                method: Method::GET,
                url: url.clone(),
                headers: vec![(header::ACCEPT, "application/vnd.oci.image.index.v1+json".to_owned())],
                body: bytes::Bytes::new(),
                limit: MAX_MANIFEST,
                scope: &scope,
            };
            let response = self.send(ask).await?;
            match response.status {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND
                | StatusCode::BAD_REQUEST
                | StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::NOT_ACCEPTABLE => break,
                _ => return Err(self.refusal(Method::GET, response, digest).await),
            }
            let next = response.header(header::LINK).and_then(next_page).map(str::to_owned);
            out.extend(read_index(&response.bytes().await?)?);
            if out.len() >= MAX_SIGNATURES {
                break;
            }
            match next {
                Some(next) => {
                    let page = url.join(&next)?;
                    if !page.same_origin(&url) {
                        return Err(OciError::Answer("the next page of referrers is elsewhere".to_owned()));
                    }
                    url = page;
                }
                None => break,
            }
        }
        if out.is_empty() {
            match self.manifest(&reference.tagged(&digest.replace(':', "-"))).await {
                Ok((bytes, _, _)) => out = read_index(&bytes)?,
                Err(OciError::NotFound(_)) => {}
                Err(e) => return Err(e),
            }
        }
        out.truncate(MAX_SIGNATURES);
        Ok(out)
    }

    /// The bundles of a referrer.
    async fn bundles(&self, reference: &OciReference, referrer: &Referrer) -> Result<Vec<Found>, OciError> {
        let at = OciReference { tag: None, digest: Some(referrer.digest.clone()), ..reference.clone() };
        let manifest = Manifest::read(&self.manifest(&at).await?.0)?;
        let mut out = Vec::new();
        for layer in manifest.layers.iter().filter(|l| l.media_type == BUNDLE).take(MAX_SIGNATURES) {
            out.push(Found::Bundle(self.small_blob(reference, layer).await?));
        }
        Ok(out)
    }

    /// The layers of the `.sig` tag.
    async fn simple_signatures(
        &self,
        reference: &OciReference,
        digest: &str,
    ) -> Result<Vec<Descriptor>, OciError> {
        match self.manifest(&reference.tagged(&format!("{}.sig", digest.replace(':', "-")))).await {
            Ok((bytes, _, _)) => Ok(Manifest::read(&bytes)?.layers),
            Err(OciError::NotFound(_)) => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    async fn small_blob(
        &self,
        reference: &OciReference,
        layer: &Descriptor,
    ) -> Result<bytes::Bytes, OciError> {
        let Descriptor { digest, size, .. } = layer;
        if *size > MAX_BYTES {
            let text = format!("signature {digest} has {size} bytes, more than the maximum {MAX_BYTES}");
            return Err(OciError::Answer(text));
        }
        self.blob(reference, digest, *size).await
    }
}

/// Those entries of an index that may be signatures, so many of them as are looked at.
fn read_index(bytes: &[u8]) -> Result<Vec<Referrer>, OciError> {
    let index: Index =
        bounded_json::from_slice(bytes).map_err(|e| OciError::Answer(format!("referrers: {e}")))?;
    Ok(index.manifests.into_iter().filter(Referrer::may_sign).take(MAX_SIGNATURES).collect())
}
