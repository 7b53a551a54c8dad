//! Flags of the controller of charts' kinds, with operator-sdk's names.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::operator_flags::HelmReleaseFlags;
use crate::runtime::{self, Controller};
use windlass_base::bounded_read;
use windlass_chartresource::{
    ChartResourceOptions, ChartSources, KindSettings, LoadedChart, ObjectOptions, WatchesFile,
};
use windlass_controller::{ControllerOptions, is_dns_label};

/// operator-sdk's file, where no flag names one.
const DEFAULT_FILE: &str = "watches.yaml";

/// Kinds of a file, each with its chart.
pub(super) type FileKinds = Vec<(KindSettings, LoadedChart)>;

/// How often an object is reconciled where nothing says otherwise.
pub(super) const PERIOD: Duration = Duration::from_secs(60);

/// Flags of the controller of charts' kinds.
#[derive(clap::Args)]
pub(super) struct ChartFlags {
    /// File with kinds and their charts, as operator-sdk's Helm operator reads it [default: watches.yaml, if there is one]
    #[arg(long, env = "WINDLASS_WATCHES_FILE", value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// Directory of charts that ChartResources name by a path
    #[arg(long, env = "WINDLASS_CHARTS_DIR", value_name = "DIRECTORY")]
    charts_dir: Option<PathBuf>,
    /// How often an object of a chart's kind is reconciled if nothing changes, e.g. 1m
    #[arg(long, env = "WINDLASS_RECONCILE_PERIOD", default_value = "1m", value_parser = super::flags::duration)]
    reconcile_period: Duration,
    /// Number of objects of each chart's kind that are reconciled at a time [default: the number of processors]
    #[arg(long, env = "WINDLASS_MAX_CONCURRENT_RECONCILES")]
    max_concurrent_reconciles: Option<usize>,
    /// Hide the values of overrideValues in Events
    #[arg(long, env = "WINDLASS_SUPPRESS_OVERRIDE_VALUES", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    suppress_override_values: bool,
    /// Further address of metrics, such as :8080; 0 for none
    #[arg(long, alias = "metrics-addr", value_name = "ADDRESS")]
    metrics_bind_address: Option<String>,
    /// Further address of probes, such as :8081; 0 for none
    #[arg(long, value_name = "ADDRESS")]
    health_probe_bind_address: Option<String>,
    /// Must be false: metrics are served without TLS
    #[arg(long, value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true", hide = true)]
    metrics_secure: bool,
    /// Must be false: metrics are served without a check of rights
    #[arg(long, value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true", hide = true)]
    metrics_require_rbac: bool,
}

impl ChartFlags {
    /// How objects of charts' kinds are reconciled. Reads the file and the charts only where the controller is chosen.
    ///
    /// # Errors
    /// The file or a chart cannot be used.
    pub(super) fn process(
        &self,
        controllers: &runtime::Controllers,
        shared: &HelmReleaseFlags,
    ) -> Result<runtime::ChartProcess, String> {
        let chosen = controllers.has(Controller::Charts);
        if self.max_concurrent_reconciles == Some(0) {
            return Err("--max-concurrent-reconciles: write 1 or more".to_owned());
        }
        let (kinds, ignored) = match chosen {
            true => file_kinds(self.watches_file.as_deref(), self.reconcile_period)?,
            false => Default::default(),
        };
        ignored.iter().for_each(|line| tracing::warn!("{line}"));
        let namespaces = if chosen { watched_namespaces()? } else { Vec::new() };
        let (namespace, further_namespaces) = match namespaces.split_first() {
            Some((first, rest)) => (Some(first.clone()), rest.to_vec()),
            None => (shared.watched_namespace()?, Vec::new()),
        };
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let charts_dir = self.charts_dir.as_ref().filter(|path| chosen && !path.as_os_str().is_empty());
        let charts_dir = charts_dir.map(|path| self::charts_dir(path));
        Ok(runtime::ChartProcess {
            kinds,
            options: ChartResourceOptions {
                sources: ChartSources {
                    charts_dir: charts_dir.transpose()?,
                    allow_local_addresses: shared.allow_local_sources,
                },
                objects: ObjectOptions {
                    default_service_account: shared.default_service_account.clone(),
                    suppress_override_values: self.suppress_override_values,
                    ..ObjectOptions::default()
                },
                controller: ControllerOptions {
                    namespace,
                    further_namespaces,
                    selector: shared.watch_label_selector.clone(),
                    concurrency: self.max_concurrent_reconciles.unwrap_or_else(processors),
                    once: false,
                },
                reserved: Vec::new(),
            },
        })
    }

    /// The addresses of operator-sdk's flags.
    ///
    /// # Errors
    /// One is no address, or a flag asks for what is not there.
    pub(super) fn listeners(&self) -> Result<Vec<SocketAddr>, String> {
        for (flag, set) in
            [("--metrics-secure", self.metrics_secure), ("--metrics-require-rbac", self.metrics_require_rbac)]
        {
            if set {
                return Err(format!(
                    "{flag}: metrics are served over HTTP, without a login: leave the flag out"
                ));
            }
        }
        let mut all = Vec::new();
        let flags = [
            ("--metrics-bind-address", &self.metrics_bind_address),
            ("--health-probe-bind-address", &self.health_probe_bind_address),
        ];
        for (flag, text) in flags {
            let Some(text) = text.as_deref().filter(|text| !text.is_empty() && *text != "0") else {
                continue;
            };
            // As in Go, `:8080` means all interfaces.
            let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
            let address = whole.parse().map_err(|error| {
                format!("{flag} {text:?}: {error}: write an address with a port, such as :8080, or 0")
            })?;
            if !all.contains(&address) {
                all.push(address);
            }
        }
        Ok(all)
    }
}

/// The kinds of a file, each with its chart, and what of the file has no effect. `file`: as the flag names it.
///
/// # Errors
/// The file or a chart cannot be used.
pub(super) fn file_kinds(file: Option<&Path>, period: Duration) -> Result<(FileKinds, Vec<String>), String> {
    let default = || Some(Path::new(DEFAULT_FILE)).filter(|path| path.exists());
    let file = file.filter(|path| !path.as_os_str().is_empty());
    let Some(path) = file.or_else(default) else { return Ok(Default::default()) };
    let failed = |error: String| format!("--watches-file {}: {error}", path.display());
    let text =
        bounded_read::read_text(path, bounded_read::MAX_TEXT).map_err(|error| failed(error.to_string()))?;
    let variable = |name: &str| std::env::var(name).ok();
    let file = WatchesFile::parse(&text, period, variable).map_err(failed)?;
    let load = |kind: windlass_chartresource::WatchedKind| {
        let place =
            |error| failed(format!("{}: chart {}: {error}", kind.settings.name, kind.chart.display()));
        let chart = LoadedChart::of_path(&kind.chart).map_err(place)?;
        Ok::<_, String>((kind.settings, chart))
    };
    let kinds = file.kinds.into_iter().map(load).collect::<Result<_, _>>()?;
    Ok((kinds, file.ignored.into_iter().map(failed).collect()))
}

/// The directory of charts, without symbolic links in its path.
///
/// # Errors
/// It is not there.
pub(super) fn charts_dir(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("--charts-dir {}: {error}", path.display()))
}

/// The namespaces of operator-sdk's environment variable; none for all.
fn watched_namespaces() -> Result<Vec<String>, String> {
    parse_namespaces(&std::env::var("WATCH_NAMESPACE").unwrap_or_default())
}

fn parse_namespaces(text: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    match names.iter().find(|name| !is_dns_label(name)) {
        Some(wrong) => Err(format!("WATCH_NAMESPACE: {wrong:?} is not the name of a namespace")),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_separated_by_commas() {
        assert_eq!(parse_namespaces(""), Ok(Vec::new()));
        assert_eq!(parse_namespaces("b, a,,b"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert!(parse_namespaces("a,B").unwrap_err().starts_with("WATCH_NAMESPACE: \"B\""));
    }
}
