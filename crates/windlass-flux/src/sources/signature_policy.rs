//! cosign's signatures of artifacts, with the keys and identities of a source.

use std::path::Path;

use super::super::error::FluxError;
use super::fetch_context::FetchContext;
use super::source_secrets::{self, SourceSecret};
use super::source_status::SourceError;
use flux_api::common::{LocalObjectReference, OidcIdentityMatch};
use windlass_fetch::oci::Registry;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::cosign::{IdentityMatch, Policy, Signer, Verifier};

/// Key of the Secret with the trusted root of a Sigstore of one's own.
const TRUSTED_ROOT: &str = "trusted_root.json";

/// Verifies the artifact of a tag or digest, with the keys and the trusted root of its Secrets. `failed`: an error with the source's words.
///
/// # Errors
/// A Secret cannot be read, or no signature is by any of the keys and identities.
pub(super) async fn verify_artifact(
    context: &mut FetchContext<'_>,
    provider: &str,
    (keys, root): (Option<&LocalObjectReference>, Option<&LocalObjectReference>),
    identities: &[OidcIdentityMatch],
    (registry, reference): (&Registry<'_>, &OciReference),
    failed: impl Fn(String) -> SourceError,
) -> Result<(), SourceError> {
    if provider != "cosign" {
        return Err(failed(format!("provider {provider:?} is not supported: use cosign")).stalling());
    }
    let keys = source_secrets::read_optional(context.pass, keys).await?;
    let root = source_secrets::read_optional(context.pass, root).await?;
    let mut pinned = reference.clone();
    if pinned.digest.is_none() {
        pinned.digest = Some(registry.resolve(reference).await.map_err(|e| failed(e.to_string()))?);
    }
    let scratch = context.scratch()?;
    let keys = (keys.as_ref(), root.as_ref());
    verify_cosign(scratch.path(), keys, identities, (registry, &pinned)).await.map_err(|e| failed(e.into()))
}

/// Verifies an artifact: by one of the keys `*.pub` of a Secret, or else by one of the identities. `directory`: for files of keys.
///
/// # Errors
/// No signature is by any of them, in words.
async fn verify_cosign(
    directory: &Path,
    (keys, root): (Option<&SourceSecret>, Option<&SourceSecret>),
    identities: &[OidcIdentityMatch],
    (registry, reference): (&Registry<'_>, &OciReference),
) -> Result<(), FluxError> {
    let trusted_root = match root {
        Some(secret) => {
            let text = secret
                .get(TRUSTED_ROOT)
                .ok_or_else(|| format!("'{TRUSTED_ROOT}' not found in secret '{}'", secret.name()))?;
            Some(write(directory, "trusted_root.json", text)?)
        }
        None => None,
    };
    let mut signers = Vec::new();
    match keys {
        Some(secret) => {
            for (at, (_, key)) in secret.with_suffix(".pub").enumerate() {
                signers.push(Signer::Key(write(directory, &format!("{at}.pub"), key)?));
            }
            if signers.is_empty() {
                return Err(format!("no public keys (*.pub) found in secret '{}'", secret.name()).into());
            }
        }
        None if identities.is_empty() => {
            return Err("a keyless signature needs matchOIDCIdentity: any identity would do without".into());
        }
        None => {
            let pattern = |text: &str| IdentityMatch::Pattern(format!("(?s:.*)(?:{text})(?s:.*)"));
            signers.extend(identities.iter().map(|one| Signer::Identity {
                identity: pattern(&one.subject),
                issuer: pattern(&one.issuer),
            }));
        }
    }
    let digest = reference.digest.clone().unwrap_or_default();
    let mut last = String::new();
    for signer in signers {
        let policy = Policy { signer, trusted_root: trusted_root.clone() };
        let verifier = Verifier::new(&policy).map_err(|e| e.to_string())?;
        match verifier.verify(registry, reference, &digest).await {
            Ok(()) => return Ok(()),
            Err(e) => last = e.to_string(),
        }
    }
    Err(format!("no matching signatures were found for '{reference}': {last}").into())
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<std::path::PathBuf, FluxError> {
    let path = directory.join(name);
    std::fs::write(&path, bytes).map_err(|e| e.to_string())?;
    Ok(path)
}
