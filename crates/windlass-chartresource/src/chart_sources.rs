//! The chart of a ChartResource, from wherever it is.
//!
//! Owns what a reference of a ChartResource may be, and which login goes with it. Each download is `fetch`'s, with its bounds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::chart_resource_api::ChartLocation;
use super::loaded_chart::LoadedChart;
use windlass_base::redact::{self, SecretText};
use windlass_controller::{ChartArguments, ReconcileError, SecretData};
use windlass_engine::Disposition;
use windlass_fetch::chart_reference::ChartReference;
use windlass_fetch::confined_files;
use windlass_fetch::fetch::Options;
use windlass_fetch::http::{Http, Pem, Tls};
use windlass_fetch::oci::credentials::Credentials;
use windlass_fetch::tenant_chart::TenantDownload;
use windlass_render::RenderPermit;

/// Time for one download.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Where charts of ChartResources may be.
#[derive(Clone, Debug, Default)]
pub struct ChartSources {
    /// The directory of charts on disk, without symbolic links in its path; `None`: there are none.
    pub charts_dir: Option<PathBuf>,
    /// Whether servers may be at addresses of this machine and of its cloud's metadata service.
    pub allow_local_addresses: bool,
}

/// The login for a chart's server.
#[derive(Clone, Default)]
pub(crate) struct ChartAccess {
    username: String,
    password: SecretText,
    tls: Tls,
    registry: Option<Credentials>,
}

impl ChartAccess {
    /// That of a Secret.
    ///
    /// # Errors
    /// The Secret has none of the keys, or some that do not go together; the text names it.
    pub(crate) fn of_secret(secret: &SecretData) -> Result<Self, ReconcileError> {
        let wrong = |why: &str| {
            ReconcileError::Config(format!("spec.chart.secretRef: Secret {}: {why}", secret.name()))
        };
        let ca = secret.get("ca.crt").map(|bytes| Pem::Text(bytes.into()));
        let mut own = Self { tls: Tls { ca, ..Tls::default() }, ..Self::default() };
        match (secret.text("username"), secret.text("password"), secret.get(".dockerconfigjson")) {
            (Some(username), Some(password), None) => {
                own.username = username;
                own.password = SecretText::new(password);
            }
            (None, None, Some(config)) => {
                let read = Credentials::of_config(config);
                own.registry = Some(read.map_err(|error| wrong(&format!(".dockerconfigjson: {error}")))?);
            }
            (None, None, None) if own.tls.ca.is_some() => {}
            _ => return Err(wrong("it needs username and password, or .dockerconfigjson, or ca.crt alone")),
        }
        Ok(own)
    }
}

/// A reference that cannot be one.
fn invalid(text: &str) -> ReconcileError {
    ReconcileError::Config(format!("spec.chart: {text}"))
}

/// A chart that may be there the next time.
fn unavailable(text: &str) -> ReconcileError {
    let text = format!("spec.chart: {text}");
    ReconcileError::Reason { reason: "ChartUnavailable", text, disposition: Disposition::Retry }
}

impl ChartSources {
    /// Downloads a chart, or reads it from disk. `renders`: the permits of renders: to unpack a chart takes memory as a render does.
    ///
    /// # Errors
    /// The reference is of no kind that is possible, or the chart cannot be fetched or installed.
    pub(crate) async fn chart(
        &self,
        chart: &ChartLocation,
        access: Option<ChartAccess>,
        renders: Arc<Semaphore>,
    ) -> Result<LoadedChart, ReconcileError> {
        if chart.name.trim().is_empty() {
            return Err(invalid("name: it is empty: name a chart"));
        }
        let has_login = access.is_some();
        let is_url = chart.name.contains("://");
        if chart.repo.is_empty() && !is_url {
            return self.on_disk(chart, has_login, renders).await;
        }
        if !chart.repo.is_empty() && is_url {
            return Err(invalid(&format!(
                "name: {:?} is an address of its own: leave repo out, or name a chart in it",
                chart.name
            )));
        }
        let as_user = chart.repo.is_empty()
            && match ChartReference::parse(&chart.name).map_err(|error| invalid(&format!("name: {error}")))? {
                ChartReference::Path(_) => {
                    return Err(invalid("name: file:// is not possible: name a path below --charts-dir"));
                }
                ChartReference::Git(_) | ChartReference::Bucket(_) => true,
                ChartReference::Repository { .. } | ChartReference::Url(_) | ChartReference::Oci(_) => false,
            };
        if as_user && has_login {
            return Err(invalid(
                "secretRef: Git repositories and buckets are read with the operator's own login: leave it out",
            ));
        }
        let access = access.unwrap_or_default();
        let options = Options {
            version: chart.version.clone(),
            repository: Some(chart.repo.clone()).filter(|repo| !repo.is_empty()),
            username: access.username,
            password: access.password,
            tls: access.tls,
            ..Options::default()
        };
        let http = Http::new(TIMEOUT, false);
        let http = if self.allow_local_addresses { http } else { http.without_local_addresses() };
        let registries = access.registry.unwrap_or_else(Credentials::none);
        let download = TenantDownload { http: &http, registries, as_operator: as_user, options };
        let fetched = download.fetch(&chart.name, &mut |line| tracing::warn!("{line}")).await;
        let fetched = fetched.map_err(|error| unavailable(&error.to_string()))?;
        let arguments = ChartArguments::without_login(&chart.name, &chart.repo, &chart.version);
        blocking(renders, move || LoadedChart::of_package(&fetched.bytes, &fetched.file_name, arguments))
            .await
    }

    async fn on_disk(
        &self,
        chart: &ChartLocation,
        has_login: bool,
        renders: Arc<Semaphore>,
    ) -> Result<LoadedChart, ReconcileError> {
        if has_login || !chart.version.is_empty() {
            let field = if has_login { "secretRef" } else { "version" };
            return Err(invalid(&format!(
                "{field}: {:?} is a chart on disk: leave it out, or set repo",
                chart.name
            )));
        }
        let Some(root) = self.charts_dir.clone() else {
            return Err(invalid(&format!(
                "name: {:?} is a chart on disk, and the operator has no --charts-dir: set repo, or name an address such as oci://…",
                chart.name
            )));
        };
        let path = root.join(&chart.name);
        blocking(renders, move || {
            confined_files::check_tree(&root, &path).map_err(|error| format!("name: {error}"))?;
            LoadedChart::of_path(Path::new(&path))
        })
        .await
    }
}

async fn blocking(
    renders: Arc<Semaphore>,
    work: impl FnOnce() -> Result<LoadedChart, String> + Send + 'static,
) -> Result<LoadedChart, ReconcileError> {
    let permitted = move || {
        let _permit = RenderPermit::acquire(Some(renders));
        work()
    };
    let done =
        redact::spawn_blocking(permitted).await.map_err(|error| ReconcileError::Task(error.to_string()))?;
    done.map_err(|error| unavailable(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn location(name: &str, repo: &str, version: &str) -> ChartLocation {
        ChartLocation {
            name: name.to_owned(),
            repo: repo.to_owned(),
            version: version.to_owned(),
            ..ChartLocation::default()
        }
    }

    #[tokio::test]
    async fn references_that_cannot_be_name_the_field() {
        let root = tempfile::tempdir().unwrap();
        let sources = ChartSources {
            charts_dir: Some(root.path().canonicalize().unwrap()),
            allow_local_addresses: false,
        };
        for (sources, chart, part) in [
            (&sources, location("", "", ""), "spec.chart: name: it is empty"),
            (&sources, location(" ", "", ""), "spec.chart: name: it is empty"),
            (&sources, location("../etc", "", ""), "spec.chart: name: "),
            (&sources, location("/etc", "", ""), "spec.chart: name: "),
            (&sources, location("web", "", "1.0.0"), "spec.chart: version: \"web\" is a chart on disk"),
            (
                &sources,
                location("oci://r/web", "https://r", ""),
                "spec.chart: name: \"oci://r/web\" is an address",
            ),
            (&sources, location("file:///etc", "", ""), "spec.chart: name: file:// is not possible"),
            (&sources, location("ftp://r/web", "", ""), "spec.chart: name: scheme"),
            (&sources, location("http://127.0.0.1:1/web.tgz", "", ""), "spec.chart: "),
            (
                &ChartSources::default(),
                location("web", "", ""),
                "spec.chart: name: \"web\" is a chart on disk, and",
            ),
        ] {
            let error =
                sources.chart(&chart, None, Arc::new(Semaphore::new(1))).await.unwrap_err().to_string();
            assert!(error.starts_with(part), "{chart:?}: {error}");
        }
    }

    #[test]
    fn a_secret_has_one_kind_of_login() {
        let of = |keys: &[&str]| {
            let values: BTreeMap<String, Vec<u8>> =
                keys.iter().map(|key| ((*key).to_owned(), b"{\"auths\":{}}".to_vec())).collect();
            ChartAccess::of_secret(&SecretData::new("ops", "login", values))
                .map(drop)
                .map_err(|error| error.to_string())
        };
        for keys in [
            &["username", "password"][..],
            &[".dockerconfigjson"],
            &["ca.crt"],
            &["username", "password", "ca.crt"],
        ] {
            assert_eq!(of(keys), Ok(()), "{keys:?}");
        }
        for keys in [&[][..], &["username"], &["password"], &["username", "password", ".dockerconfigjson"]] {
            assert!(
                of(keys).unwrap_err().starts_with("spec.chart.secretRef: Secret ops/login: it needs"),
                "{keys:?}"
            );
        }
    }
}
