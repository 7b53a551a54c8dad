//! Logins of the operator's own identity for registries of its cloud.
//!
//! Owns that the identity serves the registries which the operator's flags name, and no other: whoever may write a workload names its
//! images.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use windlass_fetch::http::Http;
use windlass_fetch::location::Location;
use windlass_fetch::oci::cloud_login::CloudRegistry;
use windlass_fetch::oci::credentials::Credentials;

/// How long a login is used; those of all clouds are valid for longer.
const KEPT: Duration = Duration::from_secs(120);
/// How long a cloud is left alone that gave none.
const PAUSE: Duration = Duration::from_secs(30);

/// Registries that take the operator's identity, by host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudRegistries(BTreeMap<String, CloudRegistry>);

impl CloudRegistries {
    /// Reads `REGISTRY=aws|azure|gcp`, separated by commas.
    ///
    /// # Errors
    /// An entry is none, or the registry is not of that cloud; the text names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let wrong = || format!("{entry:?}: write REGISTRY=PROVIDER, with the provider aws, azure or gcp");
            let (host, provider) = entry.split_once('=').ok_or_else(wrong)?;
            if !["aws", "azure", "gcp"].contains(&provider) {
                return Err(wrong());
            }
            let registry = CloudRegistry::of(provider, host)
                .ok_or_else(|| format!("{entry:?}: {host} is not a registry of that cloud"))?;
            all.insert(host.to_owned(), registry);
        }
        Ok(Self(all))
    }
}

/// A login, or why there is none, and until when that counts.
type Kept = (Result<Credentials, String>, Instant);

/// The operator's logins.
pub(crate) struct CloudLogins {
    registries: CloudRegistries,
    /// Asks the cloud for them: also its metadata service.
    http: Http,
    kept: Mutex<BTreeMap<String, Kept>>,
}

impl CloudLogins {
    pub(crate) fn new(registries: CloudRegistries, http: Http) -> Self {
        Self { registries, http, kept: Mutex::default() }
    }

    /// The login for a registry; `None`: it is not one that takes the operator's identity.
    ///
    /// # Errors
    /// The operator has no identity, or it is refused.
    pub(crate) async fn login(&self, host: &str) -> Result<Option<Credentials>, String> {
        let Some(registry) = self.registries.0.get(host) else { return Ok(None) };
        let mut kept = self.kept.lock().await;
        if let Some((login, _)) = kept.get(host).filter(|(_, until)| *until > Instant::now()) {
            return login.clone().map(Some);
        }
        let url = Location::parse(&format!("https://{host}")).map_err(|error| error.to_string())?;
        let login = match registry.own_login(&self.http, &url).await {
            Ok((user, password)) => Ok(Credentials::of_login(host, &user, password.expose())),
            Err(error) => Err(format!("{host}: {error}")),
        };
        let pause = if login.is_ok() { KEPT } else { PAUSE };
        kept.insert(host.to_owned(), (login.clone(), Instant::now() + pause));
        login.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_are_those_of_their_clouds() {
        let text = "1.dkr.ecr.us-east-1.amazonaws.com=aws, team.azurecr.io=azure,eu-docker.pkg.dev=gcp";
        let all = CloudRegistries::parse(text).unwrap();
        assert_eq!(all.0.len(), 3);
        assert_eq!(CloudRegistries::parse("").unwrap(), CloudRegistries::default());
        for (text, part) in [
            ("team.azurecr.io", "write REGISTRY=PROVIDER"),
            ("team.azurecr.io=generic", "write REGISTRY=PROVIDER"),
            ("registry.example.com=azure", "registry.example.com is not a registry of that cloud"),
            ("azurecr.io=azure", "is not a registry of that cloud"),
            ("team.azurecr.io=aws", "is not a registry of that cloud"),
        ] {
            let error = CloudRegistries::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[tokio::test]
    async fn no_other_registry_gets_the_operators_identity() {
        let registries = CloudRegistries::parse("team.azurecr.io=azure").unwrap();
        let logins = CloudLogins::new(registries, Http::new(Duration::from_millis(1), false));
        for host in ["other.azurecr.io", "team.azurecr.io.example.com", "1.dkr.ecr.us-east-1.amazonaws.com"] {
            assert!(logins.login(host).await.unwrap().is_none(), "{host}");
        }
        assert!(logins.kept.lock().await.is_empty(), "nobody was asked");
    }
}
