//! The chart of a HelmChart, out of the object or from its server.
//!
//! Owns which client a download has: without addresses of this machine unless the operator allows them, but for the API server of the
//! cluster, which the object may name.

use std::sync::Arc;

use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;
use sha2::{Digest as _, Sha256};

use super::chart_address::ChartAddress;
use super::chart_inputs::ChartAccess;
use windlass_base::redact;
use windlass_controller::ReconcileError;
use windlass_engine::Disposition;
use windlass_fetch::fetch::Options;
use windlass_fetch::http::{Http, TIMEOUT};
use windlass_fetch::tenant_chart::{TenantDownload, load_installable};

/// Name of the package in `chartContent`, for errors.
const CONTENT: &str = "chartContent.tgz";

/// Clients for charts. Clones share connections.
#[derive(Clone)]
pub(crate) struct ChartClients {
    servers: Http,
    api_server: Http,
}

/// A chart that was loaded.
pub(crate) struct DownloadedChart {
    pub(crate) chart: Arc<CompiledChart>,
    /// SHA-256 of its package in hexadecimal digits.
    pub(crate) digest: String,
}

impl ChartClients {
    /// Clients. `allow_local`: charts may be on this machine.
    pub(crate) fn new(allow_local: bool) -> Self {
        let http = Http::new(TIMEOUT, false);
        let servers = if allow_local { http.clone() } else { http.clone().without_local_addresses() };
        Self { servers, api_server: http }
    }

    /// Gets and loads a chart.
    ///
    /// # Errors
    /// Its server does not return it, or it is not a chart that can be installed.
    pub(crate) async fn chart(
        &self,
        address: ChartAddress,
        access: ChartAccess,
    ) -> Result<DownloadedChart, ReconcileError> {
        let (package, name) = match address {
            ChartAddress::Content(package) => (package.into(), CONTENT.to_owned()),
            ChartAddress::Remote { reference, repository, of_api_server } => {
                let http = if of_api_server { &self.api_server } else { &self.servers };
                self.download(http, &reference, repository, access).await?
            }
        };
        let load = redact::spawn_blocking(move || load(&package, &name));
        load.await.map_err(|e| ReconcileError::Task(e.to_string()))?
    }

    async fn download(
        &self,
        http: &Http,
        reference: &str,
        repository: Option<String>,
        access: ChartAccess,
    ) -> Result<(bytes::Bytes, String), ReconcileError> {
        let options = Options { repository, ..access.options };
        let download = TenantDownload { http, registries: access.registries, as_operator: false, options };
        let fetched = download.fetch(reference, &mut |line| tracing::warn!("{line}")).await;
        let fetched = fetched.map_err(|error| ReconcileError::Reason {
            reason: "ChartUnavailable",
            text: format!("spec.chart: {error}"),
            disposition: Disposition::Retry,
        })?;
        Ok((fetched.bytes, fetched.file_name))
    }
}

fn load(package: &[u8], name: &str) -> Result<DownloadedChart, ReconcileError> {
    let digest: String = Sha256::digest(package).iter().map(|byte| format!("{byte:02x}")).collect();
    let loaded = load_installable(package, name, Profile::Helm4, &mut |line| tracing::warn!("{line}"))
        .map_err(|error| ReconcileError::Chart(format!("spec.chart: {error}")))?;
    Ok(DownloadedChart { chart: Arc::new(loaded.compile(Profile::Helm4)), digest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_no_charts_are_refused() {
        for (package, part) in [
            (&b"not an archive"[..], "does not appear to be a gzipped archive"),
            (&[0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0][..], "unable to load chart archive"),
            (&[][..], "does not appear to be a gzipped archive"),
        ] {
            let error = load(package, CONTENT).err().unwrap().to_string();
            assert!(error.starts_with("spec.chart: ") && error.contains(part), "{error}");
        }
    }
}
