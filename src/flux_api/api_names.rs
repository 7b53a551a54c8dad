//! Names that several of Flux's controllers have in common: API versions, annotations, the finalizer, keys of Secrets.

/// API version of the sources.
pub const SOURCES: &str = "source.toolkit.fluxcd.io/v1";
/// The finalizer of every kind.
pub const FINALIZER: &str = "finalizers.fluxcd.io";
/// The annotation that asks for a pass.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
/// The annotation that asks for a release action.
pub const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
/// The annotation that resets the counts of failures.
pub const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";

/// Keys of Secrets whose values are not secret, whatever the Secret is for: they are not masked in messages.
const PUBLIC_KEYS: [&str; 15] = [
    "authorityHost",
    "ca.crt",
    "caFile",
    "certFile",
    "clientCertificateSendChain",
    "clientId",
    "githubAppBaseURL",
    "githubAppID",
    "githubAppInstallationID",
    "githubAppInstallationOwner",
    "identity.pub",
    "known_hosts",
    "tenantId",
    "tls.crt",
    "username",
];

/// Whether the value of a key of a Secret is public: a name, an address, a certificate or a public key. An `address` is not one: that of
/// a chat service has its password.
#[must_use]
pub fn is_public_key(key: &str) -> bool {
    PUBLIC_KEYS.contains(&key) || [".pub", ".asc", ".sshpub"].iter().any(|suffix| key.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_in_a_secret() {
        for (key, expected) in [
            ("username", true),
            ("githubAppInstallationID", true),
            ("cosign.pub", true),
            ("author.asc", true),
            ("githubAppPrivateKey", false),
            ("password", false),
            ("identity", false),
            ("tls.key", false),
            ("address", false),
            ("clientSecret", false),
            ("username2", false),
        ] {
            assert_eq!(is_public_key(key), expected, "{key}");
        }
    }
}
