//! Where the chart of a HelmChart is. Pure.
//!
//! Owns what `chart`, `repo` and `chartContent` mean together, and the placeholder of the API server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::k3s_api::HelmChartSpec;
use windlass_fetch::location::Location;

/// The repository of charts named `stable/NAME`, unless the operator has another one.
pub const STABLE_REPOSITORY: &str = "https://charts.helm.sh/stable/";
/// Stands for host and port of the API server.
const API_SERVER: &str = "%{KUBERNETES_API}%";
const STABLE: &str = "stable/";
const OCI: &str = "oci://";

/// Where a chart is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChartAddress {
    /// In the object: the package.
    Content(Vec<u8>),
    /// On a server.
    Remote {
        /// URL, or name in the repository.
        reference: String,
        /// URL of the repository.
        repository: Option<String>,
        /// It is the API server of the cluster.
        of_api_server: bool,
    },
}

impl ChartAddress {
    /// Whether it is the API server of the cluster.
    pub(crate) fn is_of_api_server(&self) -> bool {
        matches!(self, Self::Remote { of_api_server: true, .. })
    }
}

/// The address of a chart. `api_server`: URL of the API server; `stable`: of the repository of `stable/NAME`.
///
/// # Errors
/// The fields name no chart. The text names the field, and says what to write.
pub(crate) fn of(spec: &HelmChartSpec, api_server: &str, stable: &str) -> Result<ChartAddress, String> {
    if !spec.chart_content.is_empty() {
        let text: String = spec.chart_content.split_ascii_whitespace().collect();
        let package = STANDARD.decode(text);
        return package.map(ChartAddress::Content).map_err(|_| {
            "spec.chartContent is not valid base64: write the output of `base64 CHART.tgz`".to_owned()
        });
    }
    // A repository is another server: what is for the API server alone is not for it.
    let of_api_server = spec.repo.is_empty() && spec.chart.starts_with(&format!("https://{API_SERVER}/"));
    let reference = if spec.chart.contains(API_SERVER) {
        spec.chart.replace(API_SERVER, &host_and_port(api_server)?)
    } else {
        spec.chart.clone()
    };
    let remote = |reference: String, repository: Option<String>| {
        Ok(ChartAddress::Remote { reference, repository, of_api_server })
    };
    let repository = spec.repo.trim_end_matches('/');
    if repository.starts_with(OCI) {
        return remote(format!("{repository}/{reference}"), None);
    }
    if !repository.is_empty() {
        return remote(reference, Some(spec.repo.clone()));
    }
    if ["http://", "https://", OCI].iter().any(|scheme| reference.starts_with(scheme)) {
        return remote(reference, None);
    }
    match reference.strip_prefix(STABLE) {
        Some(name) if !name.is_empty() => remote(name.to_owned(), Some(stable.to_owned())),
        _ => Err(format!(
            "spec.chart: {reference:?} is the name of a chart, and spec.repo names no repository: set it, or write an address \
             (oci://…, https://….tgz) in spec.chart"
        )),
    }
}

/// `HOST:PORT` of a URL, IPv6 addresses in brackets.
fn host_and_port(url: &str) -> Result<String, String> {
    let location =
        Location::parse(url).map_err(|e| format!("spec.chart: the API server's address {url:?}: {e}"))?;
    let origin = location.origin();
    Ok(origin.split_once("://").map_or(origin.as_str(), |(_, host)| host).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(chart: &str, repo: &str) -> Result<String, String> {
        let spec =
            HelmChartSpec { chart: chart.to_owned(), repo: repo.to_owned(), ..HelmChartSpec::default() };
        of(&spec, "https://[fd00::1]:6443/", STABLE_REPOSITORY).map(|found| match found {
            ChartAddress::Remote { reference, repository, of_api_server } => {
                format!("{reference} {} {of_api_server}", repository.unwrap_or_default())
            }
            ChartAddress::Content(_) => "content".to_owned(),
        })
    }

    #[test]
    fn charts_are_found() {
        for (chart, repo, expected) in [
            ("web", "https://charts.example.com", "web https://charts.example.com false"),
            ("oci://r.example.com/charts/web", "", "oci://r.example.com/charts/web  false"),
            ("web", "oci://r.example.com/charts/", "oci://r.example.com/charts/web  false"),
            ("https://h.example.com/web-1.0.0.tgz", "", "https://h.example.com/web-1.0.0.tgz  false"),
            ("stable/web", "", "web https://charts.helm.sh/stable/ false"),
            ("stable/web", "https://charts.example.com", "stable/web https://charts.example.com false"),
            (
                "https://%{KUBERNETES_API}%/static/charts/traefik.tgz",
                "",
                "https://[fd00::1]:6443/static/charts/traefik.tgz  true",
            ),
            (
                "https://%{KUBERNETES_API}%/static/charts/x.tgz",
                "http://127.0.0.1:9000",
                "https://[fd00::1]:6443/static/charts/x.tgz http://127.0.0.1:9000 false",
            ),
            // The cluster's certificates are for the API server alone.
            (
                "https://h.example.com/%{KUBERNETES_API}%.tgz",
                "",
                "https://h.example.com/[fd00::1]:6443.tgz  false",
            ),
        ] {
            assert_eq!(address(chart, repo).as_deref(), Ok(expected), "{chart} {repo}");
        }
        for chart in
            ["web", "stable/", "./web", "/etc/charts/web", "file:///etc/web", "git+https://h.example.com/x"]
        {
            let error = address(chart, "").unwrap_err();
            assert!(error.contains("spec.repo names no repository"), "{chart}: {error}");
        }
    }

    #[test]
    fn servers_without_a_port_have_that_of_their_scheme() {
        for (url, expected) in [
            ("https://10.43.0.1:443/", "10.43.0.1:443"),
            ("https://k.example.com", "k.example.com:443"),
            ("http://localhost:8080", "localhost:8080"),
            ("https://[::1]/", "[::1]:443"),
        ] {
            assert_eq!(host_and_port(url).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn content_wins_and_must_be_base64() {
        let spec = |content: &str| HelmChartSpec {
            chart: "web".to_owned(),
            chart_content: content.to_owned(),
            ..HelmChartSpec::default()
        };
        let found = of(&spec("aGVs\nbG8=\n"), "", "");
        assert_eq!(found, Ok(ChartAddress::Content(b"hello".to_vec())));
        assert!(of(&spec("%%%"), "", "").unwrap_err().starts_with("spec.chartContent is not valid base64"));
    }
}
