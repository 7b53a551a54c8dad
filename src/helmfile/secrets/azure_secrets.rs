//! `azurekeyvault`: secrets of Azure's key vaults, `VAULT/NAME[/VERSION]`.
//!
//! Owns which hosts are key vaults: the token of this process is for these alone.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Document;
use super::secret_reference::Reference;
use crate::source::CloudCredentials;
use crate::source::http::{Credentials, Http, MAX_CREDENTIALS, Request, Tls};
use crate::source::location::Location;

/// Domains of key vaults, which are the resources of their tokens, too.
const DOMAINS: [&str; 4] =
    ["vault.azure.net", "vault.azure.cn", "vault.usgovcloudapi.net", "vault.microsoftazure.de"];

/// The text of a secret.
pub(super) async fn read(http: &Http, reference: &Reference) -> Result<Document, String> {
    let parts: Vec<&str> = reference.path.trim_end_matches('/').split('/').collect();
    let (vault, name, version) = match parts.as_slice() {
        [vault, name] => (*vault, *name, ""),
        [vault, name, version] => (*vault, *name, *version),
        _ => ("", "", ""),
    };
    if vault.trim().is_empty() || name.trim().is_empty() {
        return Err("the path has the form VAULT/NAME[/VERSION]".to_owned());
    }
    let host = if vault.contains('.') { vault.to_owned() } else { format!("{vault}.vault.azure.net") };
    let part = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let path = format!("/secrets/{}/{}", part(name), part(version));
    let url = Location::parse(&format!("https://{host}{}", path.trim_end_matches('/')));
    let url = url.map_err(|error| error.to_string())?;
    let is_of = |domain: &&&str| {
        url.host.strip_suffix(**domain).is_some_and(|name| name.len() > 1 && name.ends_with('.'))
    };
    // Another host would get a token with which it could read the vaults.
    let domain = match DOMAINS.iter().find(is_of) {
        Some(domain) => domain,
        None if url.is_loopback() => &DOMAINS[0],
        None => return Err(format!("{host} is not a host of a key vault")),
    };
    let scope = format!("https://{domain}/.default");
    let token = CloudCredentials(http).own_azure(&scope).await.map_err(|error| error.to_string())?;
    let tls = Tls::default();
    let request = Request {
        credentials: Some(Credentials::Bearer(token)),
        confined: true,
        ..Request::get(url.with_query("api-version=7.4".to_owned()), &tls, MAX_CREDENTIALS)
    };
    let answer = http.fetch(request).await.map_err(|error| error.to_string())?;
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap_or_default();
    let text = answer["value"].as_str().ok_or_else(|| format!("{url} answered without a secret"))?;
    Ok(Document::Text(text.to_owned()))
}
