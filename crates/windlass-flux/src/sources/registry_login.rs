//! Who a source is for its registry: what its Secrets hold, or this process, if the operator allows it.

use super::fetch_context::FetchContext;
use super::source_secrets::{self, RegistryLogin};
use super::source_status::SourceError;
use flux_api::common::LocalObjectReference;
use windlass_fetch::location::Location;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::cloud_login::CloudRegistry;

/// What a source says of its registry.
pub(super) struct RegistryAccess<'s> {
    pub(super) provider: &'s str,
    pub(super) secret: Option<&'s LocalObjectReference>,
    /// A ServiceAccount with pull Secrets; empty if there is none.
    pub(super) account: &'s str,
    /// Without TLS.
    pub(super) insecure: bool,
}

/// The credentials for a registry: those of Secrets go before those of the provider.
pub(super) async fn login(
    context: &mut FetchContext<'_>,
    access: &RegistryAccess<'_>,
    reference: &OciReference,
) -> Result<RegistryLogin, SourceError> {
    let host = reference.host();
    if let Some(secret) = access.secret {
        return source_secrets::read(context.pass, secret).await?.registry(host);
    }
    if !access.account.is_empty() {
        for reference in context.pull_secrets(access.account).await? {
            let secret = source_secrets::read(context.pass, &reference).await?;
            if let Ok(login) = secret.registry(host) {
                return Ok(login);
            }
        }
    }
    match access.provider {
        "" | "generic" => Ok(RegistryLogin::anonymous()),
        provider => own_login(context, provider, (host, access)).await,
    }
}

/// This process' login for a registry of its cloud.
async fn own_login(
    context: &FetchContext<'_>,
    provider: &str,
    (host, access): (&str, &RegistryAccess<'_>),
) -> Result<RegistryLogin, SourceError> {
    let refused = |text: String| SourceError::fetch("InvalidProviderConfiguration", text).stalling();
    if !access.account.is_empty() {
        return Err(refused(format!(
            "spec.serviceAccountName with spec.provider {provider:?} is not supported: the ServiceAccount has no pull Secret for '{host}'"
        )));
    }
    let scheme = if access.insecure { "http" } else { "https" };
    let url = Location::parse(&format!("{scheme}://{host}")).map_err(|e| refused(e.to_string()))?;
    let cloud = CloudRegistry::of(provider, host).filter(|_| url.scheme == "https");
    let local = || context.allows_local && url.is_loopback();
    let cloud = cloud.or_else(|| local().then(|| CloudRegistry::local(provider)).flatten());
    let cloud = cloud.ok_or_else(|| {
        refused(format!("spec.provider {provider:?}: '{host}' is not a registry of that cloud with HTTPS"))
    })?;
    let http = context.own_identity(provider)?;
    let failed = |e| {
        SourceError::fetch("AuthenticationFailed", format!("failed to get credential from '{provider}': {e}"))
    };
    let login = cloud.own_login(&http, &url).await.map_err(failed)?;
    Ok(RegistryLogin { login: Some(login), ..RegistryLogin::anonymous() })
}
