//! Secrets that sources refer to: logins, certificates, proxies, keys.
//!
//! Owns which keys of a Secret mean what, as source-controller has them. A Secret is read in the namespace of the source only, by
//! [`SecretData`].

use super::source_status::SourceError;
use flux_api::common::LocalObjectReference;
use windlass_base::redact::SecretText;
use windlass_controller::{ReconcilePass, SecretData, SecretReadError};
use windlass_fetch::http::{Pem, Proxy, Tls};
use windlass_fetch::oci::credentials::Credentials;

/// Key of a Secret of the type `kubernetes.io/dockerconfigjson`.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// A Secret of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceSecret(SecretData);

fn failed(text: impl Into<String>) -> SourceError {
    SourceError::fetch("AuthenticationFailed", text)
}

/// Reads a Secret of the source's namespace, and watches it.
pub(super) async fn read(
    pass: &mut ReconcilePass,
    reference: &LocalObjectReference,
) -> Result<SourceSecret, SourceError> {
    let namespace = pass.reference.namespace.clone().unwrap_or_default();
    let secret = pass.read_secret(&reference.name).await;
    secret.map(SourceSecret).map_err(|error| {
        let name = format!("{namespace}/{}", reference.name);
        match error {
            SecretReadError::Base64(_) => failed(format!("secret '{name}': {error}")),
            _ => failed(format!("failed to get secret '{name}': {error}")),
        }
    })
}

/// Reads a Secret if there is a reference.
pub(super) async fn read_optional(
    pass: &mut ReconcilePass,
    reference: Option<&LocalObjectReference>,
) -> Result<Option<SourceSecret>, SourceError> {
    match reference {
        Some(reference) => read(pass, reference).await.map(Some),
        None => Ok(None),
    }
}

impl SourceSecret {
    /// `NAMESPACE/NAME`.
    pub(super) fn name(&self) -> &str {
        self.0.name()
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key)
    }

    /// The value of a key, as text; empty without one.
    pub(super) fn text(&self, key: &str) -> String {
        self.0.text(key).unwrap_or_default()
    }

    /// The keys with this ending, and their values.
    pub(super) fn with_suffix<'s>(&'s self, suffix: &'s str) -> impl Iterator<Item = (&'s str, &'s [u8])> {
        self.0
            .values()
            .iter()
            .filter(move |(key, _)| key.ends_with(suffix))
            .map(|(key, value)| (key.as_str(), value.as_slice()))
    }

    /// User and password.
    pub(super) fn login(&self) -> Result<Option<(String, SecretText)>, SourceError> {
        match (self.get("username"), self.get("password")) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Ok(Some((self.text("username"), self.text("password").into()))),
            (Some(_), None) => Err(failed(format!("secret '{}': key 'password' not found", self.name()))),
            (None, Some(_)) => Err(failed(format!("secret '{}': key 'username' not found", self.name()))),
        }
    }

    /// Certificates and key. `legacy`: by the names that HelmRepositories had before.
    pub(super) fn tls(&self, legacy: bool) -> Result<Tls, SourceError> {
        let names = if legacy { ["caFile", "certFile", "keyFile"] } else { ["ca.crt", "tls.crt", "tls.key"] };
        let [ca, certificate, key] = names.map(|name| self.get(name).map(|bytes| Pem::Text(bytes.into())));
        if certificate.is_some() != key.is_some() {
            let [_, certificate, key] = names;
            return Err(failed(format!("secret '{}': {certificate} and {key} belong together", self.name())));
        }
        Ok(Tls { ca, certificate, key, insecure: false })
    }

    /// The proxy.
    pub(super) fn proxy(&self) -> Result<Proxy, SourceError> {
        let address = self.text("address");
        if address.is_empty() {
            return Err(failed(format!(
                "failed to get proxy address: secret '{}': key 'address' not found",
                self.name()
            )));
        }
        Ok(Proxy { address, login: self.login()? })
    }

    /// The credentials for a registry: a Docker configuration, or user and password.
    pub(super) fn registry(&self, host: &str) -> Result<RegistryLogin, SourceError> {
        let Some(config) = self.get(DOCKER_CONFIG) else {
            let login = self.login()?;
            return Ok(RegistryLogin { login, credentials: Credentials::none() });
        };
        let credentials = Credentials::of_config(config)
            .map_err(|e| failed(format!("secret '{}': {DOCKER_CONFIG}: {e}", self.name())))?;
        if !credentials.has(host) {
            let text = format!("no auth config for '{host}' in the docker-registry secret '{}'", self.name());
            return Err(failed(text));
        }
        Ok(RegistryLogin { login: None, credentials })
    }
}

/// Credentials for a registry.
#[derive(Clone)]
pub(super) struct RegistryLogin {
    /// User and password.
    pub(super) login: Option<(String, SecretText)>,
    /// A Docker configuration.
    pub(super) credentials: Credentials,
}

impl RegistryLogin {
    /// Access without credentials.
    pub(super) fn anonymous() -> Self {
        Self { login: None, credentials: Credentials::none() }
    }
}
