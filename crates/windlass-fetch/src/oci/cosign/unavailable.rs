//! Replaces cosign verification in builds without the feature `cosign`: refuses each policy.

use super::super::Registry;
use super::super::artifact_reference::OciReference;
use super::{CosignError, Policy};

/// A verifier that cannot be created.
pub enum Verifier {}

impl Verifier {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no cosign verification.
    pub fn new(_policy: &Policy) -> Result<Self, CosignError> {
        Err(CosignError::NotBuilt)
    }

    /// Never runs: a verifier cannot be created.
    ///
    /// # Errors
    /// None.
    pub async fn verify(
        &self,
        _registry: &Registry<'_>,
        _reference: &OciReference,
        _digest: &str,
    ) -> Result<(), CosignError> {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::Signer;
    use super::*;

    #[test]
    fn no_policy_is_accepted_without_the_feature() {
        let policy = Policy { signer: Signer::Key("own.pub".into()), trusted_root: None };
        let error = Verifier::new(&policy).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("need the cargo feature \"cosign\""), "{error}");
    }
}
