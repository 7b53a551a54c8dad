//! The chart of a HelmChart, out of the object or from its server.
//!
//! Owns which client a download has: without addresses of this machine unless the operator allows them. The API server of the cluster is
//! one that the object may name: its client follows no redirect to another server.

use std::sync::Arc;

use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::chart_address::ChartAddress;
use super::chart_inputs::ChartAccess;
use windlass_base::redact;
use windlass_controller::ReconcileError;
use windlass_engine::Disposition;
use windlass_fetch::fetch::Options;
use windlass_fetch::http::{Http, TIMEOUT};
use windlass_fetch::tenant_chart::{TenantDownload, load_installable};
use windlass_render::RenderPermit;

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
        // An address of the API server is no way to others, be it by a redirect.
        Self { servers, api_server: http.within_one_origin() }
    }

    /// Gets and loads a chart. `renders`: the permits of renders: to unpack a chart takes memory as a render does.
    ///
    /// # Errors
    /// Its server does not return it, or it is not a chart that can be installed.
    pub(crate) async fn chart(
        &self,
        address: ChartAddress,
        access: ChartAccess,
        renders: Arc<Semaphore>,
    ) -> Result<DownloadedChart, ReconcileError> {
        let (package, name) = match address {
            ChartAddress::Content(package) => (package.into(), CONTENT.to_owned()),
            ChartAddress::Remote { reference, repository, of_api_server } => {
                let http = if of_api_server { &self.api_server } else { &self.servers };
                self.download(http, &reference, repository, access).await?
            }
        };
        let load = redact::spawn_blocking(move || {
            let _permit = RenderPermit::acquire(Some(renders));
            load(&package, &name)
        });
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
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use windlass_fetch::fetch::Options;
    use windlass_fetch::oci::credentials::Credentials;

    /// A server that answers each request with the text that is made of its path, and notes the paths.
    async fn server(
        answer: impl Fn(&str) -> String + Send + 'static,
    ) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
        let paths = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                drop(stream.write_all(answer(&path).as_bytes()).await);
                paths.lock().unwrap().push(path);
            }
        });
        (address, seen)
    }

    #[tokio::test]
    async fn the_api_server_redirects_to_nobody_else() {
        let none = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let (elsewhere, seen) = server(|_| none.to_owned()).await;
        let (api_server, asked) = server(move |path| {
            let location = match path {
                "/away.tgz" => format!("http://{elsewhere}/chart.tgz"),
                "/near.tgz" => "/other.tgz".to_owned(),
                _ => return none.to_owned(),
            };
            format!(
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
        })
        .await;
        let clients = ChartClients::new(false);
        let found = async |path: &str, of_api_server: bool, username: &str| {
            let reference = format!("http://{api_server}{path}");
            let address = ChartAddress::Remote { reference, repository: None, of_api_server };
            let access = ChartAccess {
                options: Options { username: username.to_owned(), ..Options::default() },
                registries: Credentials::none(),
            };
            clients.chart(address, access, Arc::new(Semaphore::new(1))).await.err().unwrap().to_string()
        };
        for username in ["", "me"] {
            let error = found("/away.tgz", true, username).await;
            assert!(error.contains("leads to another server, and only this one may be asked"), "{error}");
            let error = found("/near.tgz", true, username).await;
            assert!(error.contains("404 Not Found"), "{error}");
        }
        assert!(
            asked.lock().unwrap().contains(&"/other.tgz".to_owned()),
            "a redirect of its own is followed"
        );
        assert_eq!(*seen.lock().unwrap(), [""; 0]);
        // Other servers are not excepted.
        let error = found("/near.tgz", false, "").await;
        assert!(error.contains("--allow-local-sources"), "{error}");
    }

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
