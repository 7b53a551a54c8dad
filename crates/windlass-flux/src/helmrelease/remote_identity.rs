//! Access to another cluster with a token of a ServiceAccount of this one: `kubeConfig.configMapRef` with the provider `generic`.
//!
//! Owns what the ConfigMap says, and the token. Refuses the identities of clouds, and the operator's own: a tenant chooses who gets
//! the token.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use windlass_base::redact;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectRef};
use windlass_controller::AccountName;

use super::super::error::FluxError;

/// Field manager of requests.
const MANAGER: &str = "windlass";
/// How long a token is asked for, in seconds.
const LIFETIME: u64 = 3600;
/// The most audiences of a token.
const MAX_AUDIENCES: usize = 16;

/// Who is who in another cluster, and where that is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    account: ObjectRef,
    server: String,
    /// PEM; empty: the certificates of public authorities.
    authority: String,
    audiences: Vec<String>,
}

impl Identity {
    /// What a ConfigMap of a namespace says. `default_account`: where it names none.
    ///
    /// # Errors
    /// The text names the key and what is wrong with it.
    pub(super) fn of(
        data: &BTreeMap<String, String>,
        namespace: &str,
        default_account: Option<&AccountName>,
    ) -> Result<Self, FluxError> {
        let text = |key: &str| data.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
        match text("provider") {
            Some("generic") => {}
            Some(other) => {
                return Err(format!(
                    "provider {other:?} is not supported, only \"generic\": use secretRef, or leave this object to helm-controller"
                ).into());
            }
            None => return Err("it has no key provider".into()),
        }
        let address = text("address").ok_or("it has no key address")?;
        let account = match (text("serviceAccountName"), default_account) {
            (Some(name), _) => AccountName::parse(name)
                .ok_or_else(|| format!("serviceAccountName {name:?} is not a name"))?,
            (None, Some(default)) => default.clone(),
            (None, None) => {
                return Err(
                    "it has no key serviceAccountName, and the operator's own identity is not sent to other clusters"
                        .into(),
                );
            }
        };
        let audiences: Vec<String> = text("audiences")
            .unwrap_or(address)
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        if audiences.len() > MAX_AUDIENCES {
            return Err(format!("it has more than {MAX_AUDIENCES} audiences").into());
        }
        Ok(Self {
            account: ObjectRef::new(Gvk::new("v1", "ServiceAccount"), Some(namespace), account.as_str()),
            server: server_of(address)?,
            authority: text("ca.crt").unwrap_or_default().to_owned(),
            audiences,
        })
    }
}

/// The URL of an address: host and port, by https alone.
fn server_of(address: &str) -> Result<String, FluxError> {
    let wrong = || FluxError::from(format!("address {address:?} is not a host or an https URL"));
    let rest = address.strip_prefix("https://").unwrap_or(address);
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || rest.contains("://") || host.contains(['@', '?', '#', ' ', '\\']) {
        return Err(wrong());
    }
    let uri: http::Uri = format!("https://{host}").parse().map_err(|_| wrong())?;
    let name = uri.host().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
    let port = match uri.port_u16() {
        Some(port) => port,
        None if name == host => 443,
        None => return Err(wrong()),
    };
    Ok(format!("https://{}:{port}", name.to_lowercase()))
}

/// Connects with a token, and says until when it is good for operations to come. `allows_local`: whether the server may be this machine.
///
/// # Errors
/// There is no such ServiceAccount, its token may not be requested, or the authority is no certificate.
pub(super) async fn connect(
    client: &Cluster,
    identity: &Identity,
    allows_local: bool,
) -> Result<(Cluster, Instant), ClusterError> {
    let body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": identity.audiences, "expirationSeconds": LIFETIME},
    });
    let answer = client.create_subresource(&identity.account, "token", &body, MANAGER).await?;
    let token = answer["status"]["token"].as_str().unwrap_or_default();
    redact::add(token);
    let expires: Option<jiff::Timestamp> =
        answer["status"]["expirationTimestamp"].as_str().and_then(|time| time.parse().ok());
    let left = expires.map_or(0, |at| at.as_second() - jiff::Timestamp::now().as_second());
    let mut cluster = json!({"server": identity.server});
    if !identity.authority.is_empty() {
        cluster["certificate-authority-data"] = STANDARD.encode(&identity.authority).into();
    }
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "remote",
        "contexts": [{"name": "remote", "context": {"cluster": "remote", "user": "remote"}}],
        "clusters": [{"name": "remote", "cluster": cluster}],
        "users": [{"name": "remote", "user": {"token": token}}],
    });
    // An operation that begins at the last moment has as long again.
    let half = Duration::from_secs(u64::try_from(left).unwrap_or_default() / 2);
    Ok((Cluster::of_kubeconfig(&kubeconfig.to_string(), allows_local).await?, Instant::now() + half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(data: &[(&str, &str)], default: Option<&str>) -> Result<Identity, String> {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Identity::of(&data, "apps", default.and_then(AccountName::parse).as_ref()).map_err(String::from)
    }

    #[test]
    fn a_config_map_names_server_and_account() {
        let own = [("provider", "generic"), ("address", "Far.example"), ("serviceAccountName", "deployer")];
        let found = identity(&own, None).unwrap();
        assert_eq!(found.server, "https://far.example:443");
        assert_eq!(
            (found.account.name.as_str(), found.account.namespace.as_deref()),
            ("deployer", Some("apps"))
        );
        assert_eq!(found.audiences, ["Far.example"], "the address, as it is written");
        let more = [&own[..], &[("audiences", "a\n\n b \n"), ("ca.crt", "pem")]].concat();
        let found = identity(&more, None).unwrap();
        assert_eq!(
            (found.audiences, found.authority.as_str()),
            (vec!["a".to_owned(), "b".to_owned()], "pem")
        );
        assert_eq!(identity(&own[..2], Some("default")).unwrap().account.name, "default");
        for (data, part) in [
            (&own[1..], "no key provider"),
            (&[("provider", "aws"), ("cluster", "arn:x")][..], "provider \"aws\" is not supported"),
            (&[own[0], own[2]][..], "no key address"),
            (&own[..2], "operator's own identity"),
            (&[own[0], own[1], ("serviceAccountName", "a/../b")][..], "is not a name"),
            (&[own[0], own[2], ("address", "http://h")][..], "not a host or an https URL"),
            (&[own[0], own[2], ("address", "https://")][..], "not a host or an https URL"),
            (&[own[0], own[2], ("address", "user:pass@h")][..], "not a host or an https URL"),
        ] {
            let error = identity(data, None).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_address_is_host_and_port() {
        for (address, server) in [
            ("https://h:6443/", Some("https://h:6443")),
            ("h:6443/path", Some("https://h:6443")),
            ("[::1]:6443", Some("https://[::1]:6443")),
            ("https://h", Some("https://h:443")),
            ("ftp://h", None),
            ("h:port", None),
            ("", None),
        ] {
            assert_eq!(server_of(address).ok().as_deref(), server, "{address}");
        }
    }
}
