//! Dependencies of a chart in a GitRepository or Bucket that are not in its `charts/`.
//!
//! Owns whose credentials are used: those of a HelmRepository of the same namespace with the dependency's URL, or else none.
//! `Chart.lock` decides on versions if there is one.

use std::collections::BTreeSet;
use std::path::Path;

use chart_compat::chart::Chart;
use chart_compat::profile::Profile;

use super::chart_fetch::dependency_failed;
use super::fetch_context::FetchContext;
use super::index_fetch;
use super::source_secrets;
use super::source_status::SourceError;
use flux_api::api_names::SOURCES;
use flux_api::helm_repository::HelmRepositorySpec;
use windlass_base::redact::SecretText;
use windlass_cluster::Gvk;
use windlass_fetch::dependencies::Manager;
use windlass_fetch::fetch::{Fetcher, Options};
use windlass_fetch::helm_paths::Home;
use windlass_fetch::http::{Credentials, Pem};
use windlass_fetch::location::same_repository;
use windlass_fetch::oci::credentials::Credentials as RegistryCredentials;
use windlass_fetch::repositories::{Entry, Repositories};
use windlass_fetch::repository::{RepositoryAccess, name_of};

/// Fetches the dependencies into the chart's directory, and loads the chart again. `root`: the files of the source.
pub(super) async fn fetch(
    context: &mut FetchContext<'_>,
    root: &Path,
    directory: &Path,
    chart: &Chart,
) -> Result<Chart, SourceError> {
    let home_directory = context.scratch()?;
    let home = Home::below(home_directory.path());
    let urls: BTreeSet<&str> = chart
        .metadata
        .dependencies
        .iter()
        .flatten()
        .map(|dependency| dependency.repository.as_str())
        .filter(|url| url.starts_with("http://") || url.starts_with("https://"))
        .collect();
    let mut repositories = Repositories::default();
    let known = repositories_of_namespace(context).await?;
    for url in urls {
        let spec = known.iter().find(|spec| same_repository(&spec.url, url));
        let entry = match spec {
            Some(spec) => {
                let access = index_fetch::access(context, spec).await?;
                entry(url, &access, home_directory.path()).map_err(|e| dependency_failed(&e.to_string()))?
            }
            None => Entry { name: name_of(url), url: url.to_owned(), ..Entry::default() },
        };
        repositories.update(entry);
    }
    repositories.save(&home.repositories).map_err(|e| dependency_failed(&e.to_string()))?;
    let http = context.http(None, None).await?;
    let logins = registry_credentials(context, chart, &known).await?;
    let fetcher = Fetcher::of_tenant(home, http, logins);
    let (mut said, mut warnings) = (Vec::new(), Vec::new());
    let mut manager = Manager {
        fetcher: &fetcher,
        path: directory,
        skip_refresh: false,
        options: &Options::default(),
        keyring: None,
        local_root: Some(root),
        say: &mut |line| said.push(line),
        warn: &mut |line| warnings.push(line),
    };
    let built = manager.build().await;
    let shown = |text: String| text.replace(&root.display().to_string(), "");
    built.map_err(|e| dependency_failed(&shown(e.to_string())))?;
    let loaded = windlass_fetch::load(directory, Profile::Helm4);
    loaded.map(|loaded| loaded.chart).map_err(|e| dependency_failed(&shown(e.to_string())))
}

/// The HelmRepositories of the source's namespace.
async fn repositories_of_namespace(
    context: &FetchContext<'_>,
) -> Result<Vec<HelmRepositorySpec>, SourceError> {
    let kind = Gvk::new(SOURCES, "HelmRepository");
    let all = context.pass.client().list(&kind, Some(&context.namespace()), "").await;
    let all = all.map_err(|e| dependency_failed(&format!("failed to list HelmRepositories: {e}")))?;
    Ok(all.into_iter().filter_map(|mut object| serde_json::from_value(object["spec"].take()).ok()).collect())
}

/// A repository as an entry of `repositories.yaml`. Certificates become files in `directory`, which only this process reads.
fn entry(url: &str, access: &RepositoryAccess, directory: &Path) -> std::io::Result<Entry> {
    let name = name_of(url);
    let file = |part: &str, pem: &Option<Pem>| -> std::io::Result<String> {
        let Some(Pem::Text(text)) = pem else { return Ok(String::new()) };
        let path = directory.join(format!("{name}-{part}"));
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let (username, password) = match &access.credentials {
        Some(Credentials::Basic(user, password)) => (user.clone(), password.clone()),
        _ => (String::new(), SecretText::default()),
    };
    Ok(Entry {
        url: url.to_owned(),
        username,
        password,
        ca_file: file("ca.crt", &access.tls.ca)?,
        cert_file: file("tls.crt", &access.tls.certificate)?,
        key_file: file("tls.key", &access.tls.key)?,
        pass_credentials_all: access.pass_credentials,
        insecure_skip_tls_verify: false,
        name,
    })
}

/// Credentials for the registries of dependencies.
async fn registry_credentials(
    context: &mut FetchContext<'_>,
    chart: &Chart,
    known: &[HelmRepositorySpec],
) -> Result<RegistryCredentials, SourceError> {
    let mut all = RegistryCredentials::none();
    let urls = chart.metadata.dependencies.iter().flatten().map(|d| d.repository.as_str());
    for url in urls.filter(|url| url.starts_with("oci://")) {
        let Some(spec) =
            known.iter().find(|spec| spec.url.trim_end_matches('/') == url.trim_end_matches('/'))
        else {
            continue;
        };
        if let Some(secret) = source_secrets::read_optional(context.pass, spec.secret_ref.as_ref()).await? {
            let host = url.trim_start_matches("oci://").split('/').next().unwrap_or_default();
            let login = secret.registry(host)?;
            all = all.with(&login.credentials);
            if let Some((user, password)) = &login.login {
                all = all.with(&RegistryCredentials::of_login(host, user, password.expose()));
            }
        }
    }
    Ok(all)
}
