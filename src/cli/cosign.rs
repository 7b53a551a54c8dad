//! Flags for the required cosign signer of a chart.

use std::path::PathBuf;

use super::Failure;
use windlass_fetch::oci::cosign::{IdentityMatch, Policy, Signer};

/// A key, or an identity and its issuer.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Cosign {
    /// Public key (PEM) that must have signed the chart with cosign; only charts in registries have such signatures
    #[arg(long, value_hint = clap::ValueHint::FilePath)]
    cosign_key: Option<PathBuf>,
    /// Identity (e-mail address or URI) that must have signed the chart with cosign, without a key
    #[arg(long, conflicts_with = "cosign_key")]
    cosign_identity: Option<String>,
    /// Like --cosign-identity, but a regular expression that matches the whole identity
    #[arg(long, conflicts_with_all = ["cosign_key", "cosign_identity"])]
    cosign_identity_regexp: Option<String>,
    /// URL of the issuer of tokens that attested to the identity
    #[arg(long, conflicts_with = "cosign_key")]
    cosign_issuer: Option<String>,
    /// Like --cosign-issuer, but a regular expression that matches the whole URL
    #[arg(long, conflicts_with_all = ["cosign_key", "cosign_issuer"])]
    cosign_issuer_regexp: Option<String>,
    /// Trusted certificate authorities and logs (trusted_root.json). With --cosign-key, a log must then contain the signature
    #[arg(long, value_hint = clap::ValueHint::FilePath)]
    cosign_trusted_root: Option<PathBuf>,
}

impl Cosign {
    /// The required signer, if any flag was given.
    pub(super) fn policy(&self) -> Result<Option<Policy>, Failure> {
        let wanted = |exact: &Option<String>, pattern: &Option<String>| {
            let exact = exact.clone().map(IdentityMatch::Exact);
            exact.or_else(|| pattern.clone().map(IdentityMatch::Pattern))
        };
        let identity = wanted(&self.cosign_identity, &self.cosign_identity_regexp);
        let issuer = wanted(&self.cosign_issuer, &self.cosign_issuer_regexp);
        let signer = match (&self.cosign_key, identity, issuer) {
            (Some(key), _, _) => Signer::Key(key.clone()),
            (None, Some(identity), Some(issuer)) => Signer::Identity { identity, issuer },
            (None, Some(_), None) => {
                return Err("--cosign-identity needs --cosign-issuer or --cosign-issuer-regexp".to_owned());
            }
            (None, None, Some(_)) => {
                return Err("--cosign-issuer needs --cosign-identity or --cosign-identity-regexp".to_owned());
            }
            (None, None, None) if self.cosign_trusted_root.is_some() => {
                return Err("--cosign-trusted-root needs --cosign-key or --cosign-identity".to_owned());
            }
            (None, None, None) => return Ok(None),
        };
        Ok(Some(Policy { signer, trusted_root: self.cosign_trusted_root.clone() }))
    }
}
