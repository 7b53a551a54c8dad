//! Flags for the location of a chart and the access to it, and the fetcher for them.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io::Write as _, sync::Mutex};

use chart_compat::profile::Profile;

use super::Failure;
use super::cosign::Cosign;
use super::flags::Globals;
use super::verify::Verify;
use windlass_base::redact::SecretText;
use windlass_fetch::fetch::{Fetcher, Options, ProvenanceMode};
use windlass_fetch::http::{Http, Pem, Progress, TIMEOUT, Tls};

/// TLS flags.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct TlsFlags {
    /// Verify certificates of HTTPS-enabled servers using this CA bundle
    #[arg(long, value_parser = super::flags::path(), value_hint = clap::ValueHint::AnyPath)]
    pub(super) ca_file: Option<PathBuf>,
    /// Identify HTTPS client using this SSL certificate file
    #[arg(long, value_parser = super::flags::path(), value_hint = clap::ValueHint::AnyPath)]
    pub(super) cert_file: Option<PathBuf>,
    /// Identify HTTPS client using this SSL key file
    #[arg(long, value_parser = super::flags::path(), value_hint = clap::ValueHint::AnyPath)]
    pub(super) key_file: Option<PathBuf>,
    /// Skip tls certificate checks for the chart download
    #[arg(long)]
    pub(super) insecure_skip_tls_verify: bool,
}

impl TlsFlags {
    pub(super) fn tls(&self) -> Tls {
        let given = |p: &Option<PathBuf>| p.clone().filter(|p| !p.as_os_str().is_empty()).map(Pem::from);
        Tls {
            ca: given(&self.ca_file),
            certificate: given(&self.cert_file),
            key: given(&self.key_file),
            insecure: self.insecure_skip_tls_verify,
        }
    }
}

/// Login flags.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Login {
    /// Chart repository username where to locate the requested chart
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) username: String,
    /// Chart repository password where to locate the requested chart
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) password: SecretText,
    #[command(flatten)]
    pub(super) tls: TlsFlags,
    /// Use insecure HTTP connections for the chart download
    #[arg(long)]
    pub(super) plain_http: bool,
}

impl Login {
    pub(super) fn options(&self) -> Options {
        Options {
            username: self.username.clone(),
            password: self.password.clone(),
            tls: self.tls.tls(),
            plain_http: self.plain_http,
            ..Options::default()
        }
    }
}

/// The chart's version and location (`ChartPathOptions`).
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct ChartPath {
    /// Specify a version constraint for the chart version to use: a specific tag (e.g. 1.1.1) or a valid range (e.g.
    /// ^2.0.0). If this is not specified, the latest version is used
    #[arg(long = "version", default_value = "", hide_default_value = true)]
    pub(super) version: String,
    /// Use development versions, too. Equivalent to version '>0.0.0-0'. If --version is set, this is ignored
    #[arg(long)]
    pub(super) devel: bool,
    /// Chart repository url where to locate the requested chart
    #[arg(long)]
    pub(super) repo: Option<String>,
    /// Pass credentials to all domains
    #[arg(long)]
    pub(super) pass_credentials: bool,
    #[command(flatten)]
    pub(super) verify: Verify,
    #[command(flatten)]
    pub(super) cosign: Cosign,
    #[command(flatten)]
    pub(super) login: Login,
}

impl ChartPath {
    /// The URL of `--repo`.
    pub(super) fn repository(&self) -> Option<&str> {
        self.repo.as_deref().filter(|url| !url.is_empty())
    }

    /// Whether the chart may be on disk. Helm 3 prefers an existing path to `--repo`.
    pub(super) fn may_be_local(&self, reference: &str, profile: Profile) -> bool {
        self.repository().is_none() || profile == Profile::Helm3 && Path::new(reference.trim()).exists()
    }

    pub(super) fn options(&self) -> Result<Options, Failure> {
        let version = match self.version.trim() {
            "" if self.devel => ">0.0.0-0",
            version => version,
        };
        Ok(Options {
            version: version.to_owned(),
            repository: self.repository().map(str::to_owned),
            pass_credentials: self.pass_credentials,
            provenance: if self.verify.verify { ProvenanceMode::Yes } else { ProvenanceMode::No },
            cosign: self.cosign.policy()?,
            ..self.login.options()
        })
    }
}

/// The fetcher for the flags.
pub(super) fn fetcher(globals: &Globals) -> Fetcher {
    Fetcher { inputs: globals.inputs.clone(), ..Fetcher::new(globals.home(), http(globals, TIMEOUT)) }
}

/// An HTTP client with a time limit. Shows progress on a terminal.
pub(super) fn http(globals: &Globals, timeout: Duration) -> Http {
    let http = Http::new(timeout, globals.offline);
    if std::io::stderr().is_terminal() { http.with_progress(progress()) } else { http }
}

/// The progress line on the terminal for downloads of more than a second.
fn progress() -> Progress {
    const PATIENCE: Duration = Duration::from_secs(1);
    let state = Mutex::new((Instant::now(), String::new()));
    Arc::new(move |url, seen, all| {
        let Ok(mut state) = state.lock() else { return };
        let url = url.to_string();
        if state.1 != url {
            *state = (Instant::now(), url);
            return;
        }
        let done = all == Some(seen);
        if state.0.elapsed() < PATIENCE {
            return;
        }
        let mib = |n: u64| format!("{}.{} MiB", n >> 20, ((n & 0xf_ffff) * 10) >> 20);
        let text = match all {
            _ if done => String::new(),
            Some(all) => format!("{} of {}  {}", mib(seen), mib(all), state.1),
            None => format!("{}  {}", mib(seen), state.1),
        };
        // The line is erased at the end; errors of the terminal are ignored.
        drop(write!(std::io::stderr().lock(), "\r\x1b[K{text}"));
    })
}
