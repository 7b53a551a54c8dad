//! `azurekeyvault`: secrets of Azure's key vaults, `VAULT/NAME[/VERSION]`.
//!
//! Owns which hosts are key vaults: the token of this process is for these alone. `WINDLASS_AZURE_KEYVAULT_URL` names a server in place
//! of all of them.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use windlass_base::bounded_json;

use super::secret_reference::Reference;
use super::{Document, Remote};
use crate::error::HelmfileError;
use windlass_fetch::CloudCredentials;
use windlass_fetch::http::{Credentials, MAX_CREDENTIALS, Request, Tls};
use windlass_fetch::location::{Location, is_host_label};

/// Domains of key vaults, which are the resources of their tokens, too.
const DOMAINS: [&str; 4] =
    ["vault.azure.net", "vault.azure.cn", "vault.usgovcloudapi.net", "vault.microsoftazure.de"];

/// The variable of a server in place of the key vaults'. Azure's tools have none.
const ENDPOINT: &str = "WINDLASS_AZURE_KEYVAULT_URL";

/// The text of a secret.
pub(super) async fn read(remote: &Remote, reference: &Reference) -> Result<Document, HelmfileError> {
    let parts: Vec<&str> = reference.path.trim_end_matches('/').split('/').collect();
    let (vault, name, version) = match parts.as_slice() {
        [vault, name] => (*vault, *name, ""),
        [vault, name, version] => (*vault, *name, *version),
        _ => ("", "", ""),
    };
    if vault.trim().is_empty() || name.trim().is_empty() {
        return Err(HelmfileError::Secret("the path has the form VAULT/NAME[/VERSION]".to_owned()));
    }
    let host = if vault.contains('.') { vault.to_owned() } else { format!("{vault}.{}", DOMAINS[0]) };
    let is_of = |domain: &&str| {
        let name = host.strip_suffix(*domain).and_then(|name| name.strip_suffix('.'));
        name.is_some_and(is_host_label)
    };
    // Another host would get a token with which it could read the vaults.
    let domain = DOMAINS.into_iter().find(is_of);
    let domain =
        domain.ok_or_else(|| HelmfileError::Secret(format!("{host} is not a host of a key vault")))?;
    let server = std::env::var(ENDPOINT).ok().filter(|server| !server.is_empty());
    let server = server.unwrap_or_else(|| format!("https://{host}"));
    let part = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let path = format!("/secrets/{}/{}", part(name), part(version));
    let url = Location::parse(&format!("{}{}", server.trim_end_matches('/'), path.trim_end_matches('/')));
    let url = url.map_err(HelmfileError::cause)?;
    let scope = format!("https://{domain}/.default");
    let cloud = CloudCredentials(&remote.http);
    let token = remote.logins.azure.get(domain, cloud.own_azure(&scope)).await;
    let token = token.map_err(HelmfileError::cause)?;
    let tls = Tls::default();
    let request = Request {
        credentials: Some(Credentials::Bearer(token)),
        confined: true,
        ..Request::get(url.with_query("api-version=7.4".to_owned()), &tls, MAX_CREDENTIALS)
    };
    let answer = remote.http.fetch(request).await.map_err(HelmfileError::cause)?;
    let answer: serde_json::Value = bounded_json::from_slice(&answer).unwrap_or_default();
    let text = answer["value"]
        .as_str()
        .ok_or_else(|| HelmfileError::Secret(format!("{url} answered without a secret")))?;
    Ok(Document::Text(text.to_owned()))
}
