//! `windlass registry` and `windlass push`: logins to registries, and pushes of packages.

use std::path::{Path, PathBuf};

use chart_compat::go::slog;

use super::fetch::{self, TlsFlags};
use super::flags::Globals;
use super::{Failure, block_on, print, prompt, tell};
use windlass_base::bounded_read;
use windlass_base::redact::SecretText;
use windlass_fetch::fetch::{Fetcher, Options};
use windlass_fetch::http::{Pem, Tls};
use windlass_fetch::oci::credentials::{Credentials, CredentialsError};

/// Subcommands of `registry`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Login to a registry
    Login(Box<Login>),
    /// Logout from a registry
    Logout(Logout),
}

/// Flags of `registry login`.
#[derive(clap::Args)]
pub(super) struct Login {
    /// The registry
    host: String,
    /// Registry username
    #[arg(short, long, default_value = "", hide_default_value = true)]
    username: String,
    /// Registry password or identity token
    #[arg(short, long, default_value = "", hide_default_value = true)]
    password: SecretText,
    /// Read password or identity token from stdin
    #[arg(long)]
    password_stdin: bool,
    /// Allow connections to TLS registry without certs
    #[arg(long)]
    insecure: bool,
    /// Use insecure HTTP connections
    #[arg(long)]
    plain_http: bool,
    /// Verify certificates of HTTPS-enabled servers using this CA bundle
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// Identify registry client using this SSL certificate file
    #[arg(long)]
    cert_file: Option<PathBuf>,
    /// Identify registry client using this SSL key file
    #[arg(long)]
    key_file: Option<PathBuf>,
}

/// Flags of `registry logout`.
#[derive(clap::Args)]
pub(super) struct Logout {
    /// The registry
    host: String,
}

/// Flags of `push`.
#[derive(clap::Args)]
pub(super) struct Push {
    /// The package
    chart: PathBuf,
    /// Destination: oci://HOST/PATH
    remote: String,
    /// Chart repository username where to locate the requested chart
    #[arg(long, default_value = "", hide_default_value = true)]
    username: String,
    /// Chart repository password where to locate the requested chart
    #[arg(long, default_value = "", hide_default_value = true)]
    password: SecretText,
    #[command(flatten)]
    tls: TlsFlags,
    /// Use insecure HTTP connections for the chart upload
    #[arg(long)]
    plain_http: bool,
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Login(args) => login(globals, args),
        Command::Logout(args) => logout(globals, args),
    }
}

/// User and password; without a user the password is an identity token (`getUsernamePassword`).
fn who(args: &Login) -> Result<(String, SecretText), Failure> {
    if args.password_stdin {
        return Ok((args.username.clone(), prompt::password_from_stdin()?));
    }
    if !args.password.is_empty() {
        let text = "using --password via the CLI is insecure. Use --password-stdin";
        tell(&slog::line("WARN", text, &[]));
        return Ok((args.username.clone(), args.password.clone()));
    }
    let username = match args.username.as_str() {
        "" => prompt::line("Username: ")?.trim().to_owned(),
        given => given.to_owned(),
    };
    let (question, missing) = match username.as_str() {
        "" => ("Token: ", "token required"),
        _ => ("Password: ", "password required"),
    };
    let password = prompt::secret(question)?;
    if password.is_empty() { Err(missing.to_owned()) } else { Ok((username, password)) }
}

fn login(globals: &Globals, args: &Login) -> Result<(), Failure> {
    let (username, password) = who(args)?;
    let mut host = args.host.as_str();
    if let Some((short, _)) = host.split_once('/') {
        let text = "registry login currently only supports registry hostname, not a repository path";
        tell(&slog::line("WARN", text, &[("host", host), ("suggested", short)]));
        host = short;
    }
    let fetcher = fetch::fetcher(globals);
    let pem = |path: &Option<PathBuf>| path.clone().map(Pem::from);
    let tls = Tls {
        ca: pem(&args.ca_file),
        certificate: pem(&args.cert_file),
        key: pem(&args.key_file),
        insecure: args.insecure,
    };
    let options = Options {
        username: username.clone(),
        password: password.clone(),
        tls,
        plain_http: args.plain_http,
        ..Options::default()
    };
    let credentials = Credentials::of_files(&fetcher.home.registry);
    block_on(async {
        let registry = fetcher.registry(&options);
        registry.ping(host).await.map_err(|e| format!("authenticating to {host:?}: {e}"))?;
        credentials.put(host, &username, password.expose()).await.map_err(|e| e.to_string())
    })??;
    print(b"Login Succeeded\n")
}

fn logout(globals: &Globals, args: &Logout) -> Result<(), Failure> {
    let credentials = Credentials::of_files(&globals.home().registry);
    let result = block_on(credentials.remove(&args.host))?;
    // Helm prints the same text with and without a login.
    match result {
        Ok(()) | Err(CredentialsError::NotLoggedIn) => {}
        Err(e) => return Err(e.to_string()),
    }
    print(format!("Removing login credentials for {}\n", args.host).as_bytes())
}

pub(super) fn push(globals: &Globals, args: &Push) -> Result<(), Failure> {
    match args.remote.split_once("://") {
        Some(("oci", _)) => {}
        Some((scheme, _)) => return Err(format!("scheme {scheme:?} not supported")),
        None => return Err("scheme prefix missing from remote (e.g. \"oci://\")".to_owned()),
    }
    let shown = args.chart.display();
    let meta = match std::fs::metadata(&args.chart) {
        Ok(meta) if meta.is_dir() => {
            return Err("cannot push directory, must provide chart archive (.tgz)".to_owned());
        }
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(format!("{shown}: no such file")),
        Err(e) => return Err(format!("{shown}: {e}")),
    };
    let bytes = windlass_fetch::package_bytes(&args.chart).map_err(|e| e.to_string())?;
    windlass_fetch::load_package(&bytes, &args.chart, globals.profile()).map_err(|e| e.to_string())?;
    let provenance = provenance(&args.chart)?;
    let created = meta.modified().ok().and_then(|t| jiff::Timestamp::try_from(t).ok()).unwrap_or_default();
    let created = created.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    let created = created.strip_suffix("+00:00").map_or(created.clone(), |c| format!("{c}Z"));
    let fetcher: Fetcher = fetch::fetcher(globals);
    let options = Options {
        username: args.username.clone(),
        password: args.password.clone(),
        tls: args.tls.tls(),
        plain_http: args.plain_http,
        ..Options::default()
    };
    let registry = fetcher.registry(&options);
    let pushed = block_on(registry.push(&args.remote, bytes.into(), provenance, &created))?;
    let notes = pushed.map_err(|e| e.to_string())?.notes;
    print(format!("{}\n", notes.join("\n")).as_bytes())
}

/// The provenance file of a package.
fn provenance(chart: &Path) -> Result<Option<bytes::Bytes>, Failure> {
    let mut path = chart.as_os_str().to_owned();
    path.push(".prov");
    match bounded_read::read_file(Path::new(&path), bounded_read::MAX_TEXT) {
        Ok(bytes) => Ok(Some(bytes.into())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("{}: {e}", Path::new(&path).display())),
    }
}
