//! The storage of a Bucket: its address, and the credentials that the spec refers to.
//!
//! Owns which keys of a Secret mean what to which provider, and where this process' own identity may go.

use chart_compat::go::regexp;

use super::fetch_context::FetchContext;
use super::source_secrets::{self, SourceSecret};
use super::source_status::SourceError;
use flux_api::bucket_source::{BucketSpec, BucketSts};
use windlass_base::redact::SecretText;
use windlass_fetch::http::{Http, Tls};
use windlass_fetch::location::Location;
use windlass_fetch::{
    AZURE_STORAGE, AzureAccess, BucketError, CloudCredentials, EntraApplication, EntraProof, GOOGLE_STORAGE,
    ObjectStorage, S3Keys,
};

/// Region of servers that have none.
const REGION: &str = "us-east-1";
/// Domains of Amazon's services.
const AMAZON: &str = r"(amazonaws\.com|amazonaws\.com\.cn|api\.aws)";
/// Domains of Google's storage.
const GOOGLE: [&str; 1] = ["googleapis.com"];
/// Domains of Azure's storage.
const AZURE: [&str; 4] =
    ["core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net", "storage.azure.net"];

fn denied(text: impl Into<String>) -> SourceError {
    SourceError::fetch("AuthenticationFailed", text)
}

fn refused(text: impl Into<String>) -> SourceError {
    SourceError::fetch("InvalidProviderConfiguration", text).stalling()
}

fn no_credentials(error: &BucketError) -> SourceError {
    denied(format!("failed to get credentials: {error}"))
}

fn absent_feature(error: &BucketError) -> SourceError {
    refused(error.to_string())
}

/// The server and its storage. `http`: a client for addresses of the source.
pub(super) async fn open(
    context: &mut FetchContext<'_>,
    spec: &BucketSpec,
    http: &Http,
) -> Result<(Location, ObjectStorage), SourceError> {
    if !spec.service_account_name.is_empty() {
        return Err(refused("spec.serviceAccountName is not supported: use credentials in spec.secretRef"));
    }
    let endpoint = endpoint(spec)?;
    let secret = source_secrets::read_optional(context.pass, spec.secret_ref.as_ref()).await?;
    let storage = match spec.provider.as_str() {
        "gcp" => google(context, &endpoint, secret.as_ref(), http).await?,
        "azure" => azure(context, &endpoint, secret.as_ref(), http).await?,
        "" | "generic" | "aws" => s3(context, (spec, &endpoint), secret.as_ref(), http).await?,
        other => {
            let text = format!("spec.provider {other:?} is not supported: use generic, aws, azure or gcp");
            return Err(refused(text));
        }
    };
    Ok((endpoint, storage))
}

/// The URL of the server: that of Azure has a scheme of its own.
fn endpoint(spec: &BucketSpec) -> Result<Location, SourceError> {
    let text = spec.endpoint.trim_end_matches('/');
    let scheme = if spec.insecure { "http" } else { "https" };
    let url = match spec.provider.as_str() {
        "azure" if Location::is_absolute(text) => text.to_owned(),
        _ => format!("{scheme}://{text}"),
    };
    let wrong = |why: &str| SourceError::fetch("URLInvalid", format!("spec.endpoint: {why}")).stalling();
    let url = Location::parse(&url).map_err(|e| wrong(&e.to_string()))?;
    match url.scheme.as_str() {
        "http" | "https" => Ok(url),
        _ => Err(wrong("the scheme is not http or https")),
    }
}

async fn s3(
    context: &mut FetchContext<'_>,
    (spec, endpoint): (&BucketSpec, &Location),
    secret: Option<&SourceSecret>,
    http: &Http,
) -> Result<ObjectStorage, SourceError> {
    let region = if spec.region.is_empty() { REGION } else { &spec.region };
    let provider = if spec.provider.is_empty() { "generic" } else { &spec.provider };
    if let Some(sts) = &spec.sts {
        check_sts(provider, sts)?;
    }
    let keys = match (secret, &spec.sts) {
        (Some(secret), _) => Some(keys_of(secret)?),
        (None, sts) if provider == "aws" => {
            let sts = sts.as_ref().map(|sts| amazons_sts(context, sts)).transpose()?;
            let own = context.own_identity(provider)?;
            if !is_amazons(context, endpoint, "s3") {
                return Err(no_identity_for(endpoint, "amazonaws.com, amazonaws.com.cn, api.aws"));
            }
            Some(CloudCredentials(&own).own_aws(region, sts).await.map_err(|e| no_credentials(&e))?)
        }
        (None, Some(sts)) => Some(ldap(context, sts, http).await?),
        (None, None) => None,
    };
    ObjectStorage::s3(region, keys).map_err(|e| absent_feature(&e))
}

fn keys_of(secret: &SourceSecret) -> Result<S3Keys, SourceError> {
    match (secret.text("accesskey"), secret.text("secretkey")) {
        (access, key) if !access.is_empty() && !key.is_empty() => {
            Ok(S3Keys { access, secret: key.into(), session: None })
        }
        _ => {
            let text = format!(
                "invalid '{}' secret data: required fields 'accesskey' and 'secretkey'",
                secret.name()
            );
            Err(denied(text))
        }
    }
}

/// Which token services a provider has, in source-controller's words.
fn check_sts(provider: &str, sts: &BucketSts) -> Result<(), SourceError> {
    let kind = sts.provider.as_str();
    let text = match (provider, kind) {
        ("aws", "aws") if sts.secret_ref.is_some() => {
            format!("spec.sts.secretRef is not required for the '{kind}' STS provider")
        }
        ("aws", "aws") if sts.cert_secret_ref.is_some() => {
            format!("spec.sts.certSecretRef is not required for the '{kind}' STS provider")
        }
        ("aws", "aws") | ("generic", "ldap") => return Ok(()),
        _ => format!("STS provider '{kind}' is not supported for '{provider}' bucket provider"),
    };
    Err(SourceError::fetch("InvalidSTSConfiguration", text).stalling())
}

fn sts_endpoint(sts: &BucketSts) -> Result<Location, SourceError> {
    let wrong = |e| format!("failed to parse STS endpoint '{}': {e}", sts.endpoint);
    Location::parse(&sts.endpoint).map_err(|e| SourceError::fetch("URLInvalid", wrong(e)).stalling())
}

/// Whether a host has the name of a server of a service of Amazon's: others below the same domains belong to Amazon's customers.
fn has_amazons_name(host: &str, service: &str) -> bool {
    let names =
        format!(r"^([a-z0-9-]+\.)*{service}(-[a-z0-9-]+)?(\.dualstack)?(\.[a-z0-9-]+)?(\.vpce)?\.{AMAZON}$");
    regexp::compile(names.as_bytes()).is_ok_and(|names| names.is_match(host.as_bytes()))
}

/// Whether this process may send its identity to a server: one of a service of Amazon's.
fn is_amazons(context: &FetchContext<'_>, url: &Location, service: &str) -> bool {
    url.scheme == "https" && has_amazons_name(url.hostname(), service)
        || context.allows_local && url.is_loopback()
}

/// Amazon's token service, which alone gets this process' identity.
fn amazons_sts(context: &FetchContext<'_>, sts: &BucketSts) -> Result<Location, SourceError> {
    let url = sts_endpoint(sts)?;
    if is_amazons(context, &url, "sts") {
        return Ok(url);
    }
    let text = format!("spec.sts.endpoint '{url}' is not a token service of AWS");
    Err(SourceError::fetch("InvalidSTSConfiguration", text).stalling())
}

/// Keys for a user of a directory.
async fn ldap(context: &mut FetchContext<'_>, sts: &BucketSts, http: &Http) -> Result<S3Keys, SourceError> {
    let endpoint = sts_endpoint(sts)?;
    let certificates = source_secrets::read_optional(context.pass, sts.cert_secret_ref.as_ref()).await?;
    let tls = certificates.map(|secret| secret.tls(false)).transpose()?.unwrap_or_else(Tls::default);
    let secret = source_secrets::read_optional(context.pass, sts.secret_ref.as_ref()).await?;
    let (user, password) = match &secret {
        Some(secret) => secret.login()?.ok_or_else(|| {
            denied(format!(
                "invalid '{}' secret data for 'ldap' STS provider: required fields username, password",
                secret.name()
            ))
        })?,
        None => (String::new(), SecretText::default()),
    };
    let login = (user.as_str(), password.expose());
    CloudCredentials(http).ldap(&tls, &endpoint, login).await.map_err(|e| no_credentials(&e))
}

async fn google(
    context: &FetchContext<'_>,
    endpoint: &Location,
    secret: Option<&SourceSecret>,
    http: &Http,
) -> Result<ObjectStorage, SourceError> {
    let token = match secret {
        Some(secret) => {
            let absent = || {
                denied(format!("invalid '{}' secret data: required fields 'serviceaccount'", secret.name()))
            };
            let json = secret.get("serviceaccount").ok_or_else(absent)?;
            check_encrypted(secret, endpoint)?;
            let shown = format!("secret '{}': serviceaccount", secret.name());
            CloudCredentials(http).google(&shown, json).await.map_err(|e| no_credentials(&e))?
        }
        None => {
            let own = context.own_identity("gcp")?;
            check_cloud(context, endpoint, &GOOGLE)?;
            CloudCredentials(&own).own_google(GOOGLE_STORAGE).await.map_err(|e| no_credentials(&e))?
        }
    };
    ObjectStorage::google(token).map_err(|e| absent_feature(&e))
}

/// This process' identity goes to its cloud only.
fn check_cloud(context: &FetchContext<'_>, endpoint: &Location, domains: &[&str]) -> Result<(), SourceError> {
    match context.is_of_cloud(endpoint, domains) {
        true => Ok(()),
        false => Err(no_identity_for(endpoint, &domains.join(", "))),
    }
}

fn no_identity_for(endpoint: &Location, domains: &str) -> SourceError {
    refused(format!(
        "spec.endpoint '{endpoint}' does not get the identity of this process: it is not a storage with HTTPS in {domains}"
    ))
}

/// What a request carries as it is, a token or a signature, goes to an endpoint with TLS only.
fn check_encrypted(secret: &SourceSecret, endpoint: &Location) -> Result<(), SourceError> {
    if endpoint.scheme == "https" || endpoint.is_loopback() {
        return Ok(());
    }
    let text = "tokens and shared access signatures go to an endpoint with HTTPS only";
    Err(denied(format!("secret '{}': {text}", secret.name())))
}

async fn azure(
    context: &FetchContext<'_>,
    endpoint: &Location,
    secret: Option<&SourceSecret>,
    http: &Http,
) -> Result<ObjectStorage, SourceError> {
    let access = match secret {
        Some(secret) => azure_access(context, secret, endpoint, http).await?,
        None => {
            let own = context.own_identity("azure")?;
            check_cloud(context, endpoint, &AZURE)?;
            AzureAccess::Token(
                CloudCredentials(&own).own_azure(AZURE_STORAGE).await.map_err(|e| no_credentials(&e))?,
            )
        }
    };
    ObjectStorage::azure(access).map_err(|e| absent_feature(&e))
}

/// The access that a Secret gives, in source-controller's order: an application, a managed identity, an account's key, a shared access signature.
async fn azure_access(
    context: &FetchContext<'_>,
    secret: &SourceSecret,
    endpoint: &Location,
    http: &Http,
) -> Result<AzureAccess, SourceError> {
    let wrong = |text: &str| denied(format!("secret '{}': {text}", secret.name()));
    if let Some(application) = entra_application(secret)? {
        check_encrypted(secret, endpoint)?;
        let token = CloudCredentials(http).entra(&application, AZURE_STORAGE).await;
        return Ok(AzureAccess::Token(token.map_err(|e| no_credentials(&e))?));
    }
    // One of the identities of this process, as without a Secret.
    if let Some(client) = secret.get("clientId") {
        let own = context.own_identity("azure")?;
        check_cloud(context, endpoint, &AZURE)?;
        let client = String::from_utf8_lossy(client);
        let token = CloudCredentials(&own).managed_azure(client.trim(), AZURE_STORAGE).await;
        return Ok(AzureAccess::Token(token.map_err(|e| no_credentials(&e))?));
    }
    let (key, signature) = (secret.text("accountKey"), secret.text("sasKey"));
    let (key, signature) = (key.trim(), signature.trim().trim_start_matches('?'));
    if !key.is_empty() {
        let account = account_of(endpoint).ok_or_else(|| {
            wrong(&format!(
                "accountKey: spec.endpoint '{endpoint}' does not begin with the name of an account"
            ))
        })?;
        return Ok(AzureAccess::Key { account, key: key.into() });
    }
    if !signature.is_empty() {
        check_encrypted(secret, endpoint)?;
        return Ok(AzureAccess::Sas(signature.into()));
    }
    let text = format!(
        "invalid '{}' secret data: requires a 'sasKey' or 'accountKey' field, or a combination of 'tenantId', 'clientId', and \
         'clientSecret' or 'clientCertificate'",
        secret.name()
    );
    Err(denied(text))
}

/// The application of a Secret.
pub(super) fn entra_application(secret: &SourceSecret) -> Result<Option<EntraApplication>, SourceError> {
    let (tenant, client) = (secret.text("tenantId"), secret.text("clientId"));
    if tenant.is_empty() || client.is_empty() {
        return Ok(None);
    }
    let proof = match (secret.text("clientSecret"), secret.get("clientCertificate")) {
        (password, _) if !password.is_empty() => EntraProof::Secret(password.into()),
        (_, Some(_)) if secret.get("clientCertificatePassword").is_some() => {
            let text = format!(
                "secret '{}': clientCertificatePassword is not supported: use a key without a password",
                secret.name()
            );
            return Err(denied(text));
        }
        (_, Some(pem)) => {
            let sends_chain = secret.text("clientCertificateSendChain").to_ascii_lowercase();
            let sends_chain = matches!(sends_chain.as_str(), "1" | "true");
            EntraProof::Certificate { pem: pem.to_vec(), sends_chain }
        }
        _ => return Ok(None),
    };
    Ok(Some(EntraApplication { authority: secret.text("authorityHost"), tenant, client, proof }))
}

/// The account in the name of its server: the first of at least three parts.
fn account_of(endpoint: &Location) -> Option<String> {
    let mut parts = endpoint.hostname().split('.');
    let account = parts.next().filter(|account| !account.is_empty())?;
    (parts.count() >= 2).then(|| account.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_the_scheme_of_their_provider() {
        for (provider, endpoint_text, insecure, expected) in [
            ("generic", "minio:9000", true, Ok("http://minio:9000")),
            ("generic", "minio.example.org/", false, Ok("https://minio.example.org")),
            ("gcp", "storage.googleapis.com", false, Ok("https://storage.googleapis.com")),
            ("azure", "https://acc.blob.core.windows.net", false, Ok("https://acc.blob.core.windows.net")),
            ("azure", "acc.blob.core.windows.net", false, Ok("https://acc.blob.core.windows.net")),
            ("azure", "file:///etc", false, Err(())),
            ("generic", "a b", false, Err(())),
        ] {
            let spec = BucketSpec {
                provider: provider.to_owned(),
                endpoint: endpoint_text.to_owned(),
                insecure,
                ..BucketSpec::default()
            };
            let found = endpoint(&spec).map(|url| url.to_string()).map_err(|_| ());
            assert_eq!(found.as_deref().map_err(|e| *e), expected, "{provider} {endpoint_text}");
        }
        let account = |host: &str| account_of(&Location::parse(&format!("https://{host}")).unwrap());
        assert_eq!(account("acc.blob.core.windows.net").as_deref(), Some("acc"));
        assert_eq!(account("example.org"), None);
        for (host, known) in [
            ("sts.amazonaws.com", true),
            ("sts.eu-west-1.amazonaws.com", true),
            ("sts-fips.us-east-1.amazonaws.com", true),
            ("vpce-1-a.sts.eu-west-1.vpce.amazonaws.com", true),
            ("sts.cn-north-1.amazonaws.com.cn", true),
            ("sts.amazonaws.com.example.org", false),
            ("evil-sts.amazonaws.com", false),
            ("s3.amazonaws.com", false),
        ] {
            assert_eq!(has_amazons_name(host, "sts"), known, "{host}");
        }
        for (host, known) in [
            ("s3.amazonaws.com", true),
            ("s3.eu-west-1.amazonaws.com", true),
            ("s3-fips.us-gov-west-1.amazonaws.com", true),
            ("s3.dualstack.eu-west-1.amazonaws.com", true),
            ("bucket.vpce-1-a.s3.us-east-1.vpce.amazonaws.com", true),
            ("s3.cn-north-1.amazonaws.com.cn", true),
            ("s3.eu-west-1.api.aws", true),
            ("s3.amazonaws.com.example.org", false),
            ("evil-s3.amazonaws.com", false),
            ("minio.example.org", false),
            ("a1b2.execute-api.eu-west-1.amazonaws.com", false),
            ("ec2-192-0-2-1.compute.amazonaws.com", false),
            ("s3.eu-west-1.elb.amazonaws.com", false),
        ] {
            assert_eq!(has_amazons_name(host, "s3"), known, "{host}");
        }
    }
}
