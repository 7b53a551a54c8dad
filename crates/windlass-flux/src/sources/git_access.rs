//! How the repository of a GitRepository is accessed: what its Secrets hold, or this process, if the operator allows it.

use super::fetch_context::{FetchContext, timeout_of};
use super::source_secrets::{self, SourceSecret};
use super::source_status::SourceError;
use flux_api::GoDuration;
use flux_api::git_repository::GitRepositorySpec;
use windlass_base::redact::SecretText;
use windlass_fetch::address_guard::Server;
use windlass_fetch::git::github_app::{self, GitHubApp, TokenError};
use windlass_fetch::git::remote::{GitAccess, GitLogin, SshKey};
use windlass_fetch::http::{Http, Tls};
use windlass_fetch::location::Location;
use windlass_fetch::{AZURE_REPOSITORIES, CloudCredentials};

fn refused(text: &str) -> SourceError {
    SourceError::fetch("InvalidProviderConfiguration", text).stalling()
}

/// How the repository is accessed: nothing of this process' user is used.
pub(super) async fn access(
    context: &mut FetchContext<'_>,
    spec: &GitRepositorySpec,
    url: &Location,
) -> Result<GitAccess, SourceError> {
    let mut access = GitAccess {
        isolated: true,
        no_local_addresses: !context.allows_local,
        timeout: Some(timeout_of(spec.timeout.as_ref().map(GoDuration::get))),
        ..GitAccess::default()
    };
    if let Some(secret) = source_secrets::read_optional(context.pass, spec.proxy_secret_ref.as_ref()).await? {
        let proxy = proxy_url(&secret)?;
        if !context.allows_local {
            let failed =
                |e| SourceError::fetch("AuthenticationFailed", format!("secret '{}': {e}", secret.name()));
            Server::of_url(&proxy).and_then(|server| server.check_text()).map_err(failed)?;
        }
        access.proxy = Some(SecretText::new(proxy));
    }
    let provider = spec.provider.as_str();
    if !spec.service_account_name.is_empty() {
        return Err(refused("spec.serviceAccountName is not supported: use credentials in spec.secretRef"));
    }
    if provider == "azure" {
        access.login = Some(azure_login(context, url).await?);
        return Ok(access);
    }
    let secret = source_secrets::read_optional(context.pass, spec.secret_ref.as_ref()).await?;
    let app = secret.as_ref().is_some_and(|secret| secret.get(github_app::APP_ID).is_some());
    let secret = match (provider, secret) {
        ("github", Some(secret)) if app => {
            let http = context.http(spec.timeout.as_ref(), spec.proxy_secret_ref.as_ref()).await?;
            access.tls = secret.tls(false)?;
            access.login = Some(github_login(&secret, url, (&http, &access.tls)).await?);
            return Ok(access);
        }
        ("github", _) => {
            return Err(refused(
                "secretRef with github app data must be specified when provider is set to github",
            ));
        }
        ("" | "generic", Some(secret)) if app => {
            let name = secret.name();
            return Err(refused(&format!(
                "secretRef '{name}' has github app data but provider is not set to github"
            )));
        }
        ("" | "generic", Some(secret)) => secret,
        ("" | "generic", None) => return Ok(access),
        (other, _) => {
            return Err(refused(&format!(
                "spec.provider {other:?} is not supported: use generic, azure or github"
            )));
        }
    };
    let failed = |text: String| {
        let text = format!("failed to configure authentication options: {text}");
        SourceError::fetch("AuthenticationFailed", text)
    };
    if url.scheme == "ssh" {
        let missing =
            |key: &str| failed(format!("invalid '{key}' in secret '{}': it is required", secret.name()));
        if secret.get("identity").is_none() {
            return Err(missing("identity"));
        }
        if secret.get("known_hosts").is_none() {
            return Err(missing("known_hosts"));
        }
        access.ssh = Some(SshKey {
            identity: SecretText::new(secret.text("identity")),
            known_hosts: secret.text("known_hosts"),
            password: SecretText::new(secret.text("password")),
        });
        return Ok(access);
    }
    access.tls = secret.tls(false)?;
    if access.tls.ca.is_none() {
        // The name before it was called as in certificates' own Secrets.
        access.tls.ca = secret.tls(true)?.ca;
    }
    access.login = match (secret.get("bearerToken"), secret.login()?) {
        (Some(_), Some(_)) => {
            return Err(failed("bearerToken and username exclude each other".to_owned()));
        }
        (Some(_), None) => Some(GitLogin::Bearer(SecretText::new(secret.text("bearerToken")))),
        (None, Some((user, password))) => Some(GitLogin::Basic(user, password)),
        (None, None) => None,
    };
    Ok(access)
}

fn proxy_url(secret: &SourceSecret) -> Result<String, SourceError> {
    let proxy = secret.proxy()?;
    let Some((user, password)) = proxy.login else { return Ok(proxy.address) };
    let escape = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    Ok(match proxy.address.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}:{}@{rest}", escape(&user), escape(password.expose())),
        None => proxy.address,
    })
}

/// The login of an app of GitHub.
async fn github_login(
    secret: &SourceSecret,
    url: &Location,
    (http, tls): (&Http, &Tls),
) -> Result<GitLogin, SourceError> {
    let wrong = |text: &str| {
        let text = format!("secret '{}': {text}", secret.name());
        SourceError::fetch("InvalidProviderConfiguration", text)
    };
    let app = GitHubApp::of_secret(|key| secret.get(key)).map_err(|e| wrong(&e.to_string()))?;
    let token = app.token_for(url, http, tls).await.map_err(|e| match e {
        TokenError::OtherServer(_) => wrong(&e.to_string()).stalling(),
        TokenError::Refused(_) => SourceError::fetch("AuthenticationFailed", e.to_string()),
    })?;
    Ok(GitLogin::Basic(github_app::USER.to_owned(), token))
}

/// This process' login for repositories of Azure DevOps.
async fn azure_login(context: &FetchContext<'_>, url: &Location) -> Result<GitLogin, SourceError> {
    const DOMAINS: [&str; 2] = ["dev.azure.com", "visualstudio.com"];
    let own = context.own_identity("azure")?;
    if !context.is_of_cloud(url, &DOMAINS) {
        return Err(refused(&format!(
            "spec.provider \"azure\": '{url}' is not a repository of Azure DevOps with HTTPS"
        )));
    }
    let token = CloudCredentials(&own).own_azure(AZURE_REPOSITORIES).await;
    let token = token
        .map_err(|e| SourceError::fetch("AuthenticationFailed", format!("failed to get credentials: {e}")))?;
    Ok(GitLogin::Bearer(token))
}
