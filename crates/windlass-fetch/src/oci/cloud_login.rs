//! Registries of clouds: which hosts they are, and how this process' own identity becomes a login for them.

use serde_json::Value;

use super::super::bucket::{AZURE_REGISTRIES, BucketError, CloudCredentials, GOOGLE_PLATFORM};
use super::super::http::{Http, Request, Tls};
use super::super::location::{Location, is_host_label};
use windlass_base::bounded_json;
use windlass_base::redact::SecretText;

/// User of Azure's registries whose password is a token.
const AZURE_USER: &str = "00000000-0000-0000-0000-000000000000";
/// Domains of Amazon's private registries, `ACCOUNT.dkr.ecr.REGION.DOMAIN`.
const AMAZON: [&str; 8] = [
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "sc2s.sgov.gov",
    "c2s.ic.gov",
    "cloud.adc-e.uk",
    "csp.hci.ic.gov",
    "on.aws",
];

/// A registry that takes a cloud's identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudRegistry {
    /// Of Amazon.
    Amazon {
        /// Its region.
        region: String,
        /// Host of the API that gives logins.
        api: String,
        /// Whether it is the public one.
        public: bool,
    },
    /// Of Azure.
    Azure,
    /// Of Google.
    Google,
}

impl CloudRegistry {
    /// The registry of a provider at a host; `None` if the host is not that cloud's.
    #[must_use]
    pub fn of(provider: &str, host: &str) -> Option<Self> {
        let within = |domain: &str| host.len() > domain.len() + 1 && host.ends_with(&format!(".{domain}"));
        match provider {
            "aws" => amazon(host),
            "azure" => ["azurecr.io", "azurecr.cn", "azurecr.de", "azurecr.us"]
                .into_iter()
                .any(within)
                .then_some(Self::Azure),
            "gcp" => {
                let artifacts = host.len() > 15 && host.ends_with("-docker.pkg.dev");
                (host == "gcr.io" || within("gcr.io") || artifacts || host == "docker.s3nsregistry.fr")
                    .then_some(Self::Google)
            }
            _ => None,
        }
    }

    /// The registry of a provider on this machine, for tests.
    #[must_use]
    pub fn local(provider: &str) -> Option<Self> {
        match provider {
            "aws" => {
                let (region, api) = ("us-east-1".to_owned(), "localhost".to_owned());
                Some(Self::Amazon { region, api, public: false })
            }
            "azure" => Some(Self::Azure),
            "gcp" => Some(Self::Google),
            _ => None,
        }
    }

    /// User and password for this process' identity. `registry`: URL of the registry.
    ///
    /// # Errors
    /// The process has no identity, or it is refused.
    pub async fn own_login(
        &self,
        http: &Http,
        registry: &Location,
    ) -> Result<(String, SecretText), BucketError> {
        let cloud = CloudCredentials(http);
        match self {
            Self::Amazon { region, api, public } => cloud.own_ecr(region, (api, *public)).await,
            Self::Google => Ok(("oauth2accesstoken".to_owned(), cloud.own_google(GOOGLE_PLATFORM).await?)),
            Self::Azure => {
                let token = cloud.own_azure(AZURE_REGISTRIES).await?;
                Ok((AZURE_USER.to_owned(), exchange(http, registry, &token).await?))
            }
        }
    }
}

/// `ACCOUNT.dkr.ecr.REGION.DOMAIN`, `ACCOUNT.dkr-ecr.REGION.on.aws`, with `-fips` after `ecr`, or the public registry.
fn amazon(host: &str) -> Option<CloudRegistry> {
    if host == "public.ecr.aws" {
        let (region, api) = ("us-east-1".to_owned(), "api.ecr-public.us-east-1.amazonaws.com".to_owned());
        return Some(CloudRegistry::Amazon { region, api, public: true });
    }
    let (account, rest) = host.split_once('.')?;
    let rest = rest.strip_prefix("dkr.").or_else(|| rest.strip_prefix("dkr-"))?;
    let (service, rest) = rest.split_once('.')?;
    let (region, domain) = rest.split_once('.')?;
    let known = account.bytes().all(|b| b.is_ascii_digit())
        && !account.is_empty()
        && is_host_label(region)
        && AMAZON.contains(&domain);
    let api = match (known, service, domain) {
        (true, "ecr", "on.aws") => format!("ecr.{region}.api.aws"),
        (true, "ecr-fips", "on.aws") => format!("ecr-fips.{region}.api.aws"),
        (true, "ecr", _) => format!("api.ecr.{region}.{domain}"),
        (true, "ecr-fips", _) => format!("ecr-fips.{region}.{domain}"),
        _ => return None,
    };
    Some(CloudRegistry::Amazon { region: region.to_owned(), api, public: false })
}

/// A registry's own token for one of Entra.
async fn exchange(http: &Http, registry: &Location, token: &SecretText) -> Result<SecretText, BucketError> {
    let url = registry.with_path("/oauth2/exchange".to_owned());
    let place = url.to_string();
    let tls = Tls::default();
    let fields =
        [("grant_type", "access_token"), ("service", &registry.host), ("access_token", token.expose())];
    let answer = http.fetch(Request::form(url, &tls, &fields)).await?;
    let answer: Value = bounded_json::from_slice(&answer).unwrap_or_default();
    let token = answer["refresh_token"].as_str().filter(|token| !token.is_empty()).map(SecretText::from);
    token.ok_or_else(|| BucketError::Answer(format!("{place} answered without a token")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registries_are_known_by_their_hosts() {
        let amazon = |region: &str, api: &str, public| {
            Some(CloudRegistry::Amazon { region: region.to_owned(), api: api.to_owned(), public })
        };
        for (provider, host, expected) in [
            (
                "aws",
                "012345678901.dkr.ecr.eu-west-1.amazonaws.com",
                amazon("eu-west-1", "api.ecr.eu-west-1.amazonaws.com", false),
            ),
            (
                "aws",
                "012345678901.dkr.ecr-fips.us-gov-west-1.amazonaws.com",
                amazon("us-gov-west-1", "ecr-fips.us-gov-west-1.amazonaws.com", false),
            ),
            (
                "aws",
                "012345678901.dkr.ecr.cn-north-1.amazonaws.com.cn",
                amazon("cn-north-1", "api.ecr.cn-north-1.amazonaws.com.cn", false),
            ),
            (
                "aws",
                "012345678901.dkr-ecr.eu-west-1.on.aws",
                amazon("eu-west-1", "ecr.eu-west-1.api.aws", false),
            ),
            ("aws", "public.ecr.aws", amazon("us-east-1", "api.ecr-public.us-east-1.amazonaws.com", true)),
            ("aws", "012345678901.dkr.ecr.eu-west-1.amazonaws.com.example.org", None),
            ("aws", "x.dkr.ecr.eu-west-1.amazonaws.com", None),
            ("aws", "012345678901.dkr.ecr.a/b.amazonaws.com", None),
            ("aws", "example.org", None),
            ("azure", "mine.azurecr.io", Some(CloudRegistry::Azure)),
            ("azure", ".azurecr.io", None),
            ("azure", "mine.azurecr.io.example.org", None),
            ("azure", "evilazurecr.io", None),
            ("gcp", "gcr.io", Some(CloudRegistry::Google)),
            ("gcp", "eu.gcr.io", Some(CloudRegistry::Google)),
            ("gcp", "europe-west1-docker.pkg.dev", Some(CloudRegistry::Google)),
            ("gcp", "-docker.pkg.dev", None),
            ("gcp", "evilgcr.io", None),
            ("gcp", "gcr.io:443", None),
            ("generic", "gcr.io", None),
        ] {
            assert_eq!(CloudRegistry::of(provider, host), expected, "{provider} {host}");
        }
    }
}
