//! Flags for webhooks of hooks, with the names of addon-operator's server and of shell-operator's two.

use std::net::IpAddr;
use std::path::PathBuf;

use super::Failure;
use windlass_modules::shell_hooks::webhooks::{Files, Options, Server};

/// shell-operator's port for conversions.
const CONVERSION_PORT: u16 = 9681;

/// Flags of `operator` for webhooks.
#[derive(clap::Args)]
pub(super) struct WebhookFlags {
    /// Serve validating, mutating and conversion webhooks of hooks
    #[arg(long, visible_alias = "admission-server-enabled", env = "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "true", default_missing_value = "true")]
    webhooks: bool,
    /// Address for webhooks
    #[arg(
        long,
        visible_alias = "validating-webhook-listen-address",
        env = "VALIDATING_WEBHOOK_LISTEN_ADDRESS",
        default_value = "0.0.0.0"
    )]
    webhook_listen_address: IpAddr,
    /// Port for webhooks; 0 selects a free one. Also VALIDATING_WEBHOOK_LISTEN_PORT [default: 9651]
    #[arg(
        long,
        visible_alias = "admission-server-listen-port",
        env = "ADDON_OPERATOR_ADMISSION_SERVER_LISTEN_PORT"
    )]
    webhook_listen_port: Option<u16>,
    #[arg(long, env = "VALIDATING_WEBHOOK_LISTEN_PORT", hide = true)]
    validating_webhook_listen_port: Option<u16>,
    /// Directory with tls.crt, tls.key and ca.crt for webhooks; by default a generated certificate is stored in a Secret
    #[arg(
        long,
        visible_alias = "admission-server-certs-dir",
        env = "ADDON_OPERATOR_ADMISSION_SERVER_CERTS_DIR"
    )]
    webhook_certs_dir: Option<PathBuf>,
    #[arg(long, env = "VALIDATING_WEBHOOK_SERVER_CERT", hide = true)]
    validating_webhook_server_cert: Option<PathBuf>,
    #[arg(long, env = "VALIDATING_WEBHOOK_SERVER_KEY", hide = true)]
    validating_webhook_server_key: Option<PathBuf>,
    #[arg(long, env = "VALIDATING_WEBHOOK_CA", hide = true)]
    validating_webhook_ca: Option<PathBuf>,
    /// PEM files of certificate authorities: only clients with a certificate of one of them are accepted (can be repeated)
    #[arg(
        long,
        visible_alias = "validating-webhook-client-ca",
        env = "VALIDATING_WEBHOOK_CLIENT_CA",
        value_delimiter = ','
    )]
    webhook_client_ca: Vec<PathBuf>,
    /// Service through which the API server reaches webhooks
    #[arg(
        long,
        visible_alias = "validating-webhook-service-name",
        env = "VALIDATING_WEBHOOK_SERVICE_NAME",
        default_value = "windlass-webhooks"
    )]
    webhook_service_name: String,
    #[command(flatten)]
    conversion: ConversionFlags,
    /// Port of the Services of webhooks
    #[arg(long, env = "WINDLASS_WEBHOOK_SERVICE_PORT", default_value_t = 443)]
    webhook_service_port: u16,
    /// URL for the API server instead of a Service, e.g. https://10.0.0.7:9651; port 0 means the listening port
    #[arg(long, env = "WINDLASS_WEBHOOK_URL")]
    webhook_url: Option<String>,
    /// Name of the webhook configurations, without their suffix -hooks [default: windlass-NAMESPACE]
    #[arg(
        long,
        visible_alias = "validating-webhook-configuration-name",
        env = "VALIDATING_WEBHOOK_CONFIGURATION_NAME"
    )]
    webhook_configuration_name: Option<String>,
    /// Failure policy of webhooks whose binding sets none
    #[arg(
        long,
        visible_alias = "validating-webhook-failure-policy",
        env = "VALIDATING_WEBHOOK_FAILURE_POLICY",
        default_value = "Fail",
        value_parser = ["Fail", "Ignore"]
    )]
    webhook_failure_policy: String,
}

/// Flags of a separate server for conversions.
#[derive(clap::Args)]
struct ConversionFlags {
    /// Service for conversions [default: the Service of the other webhooks]
    #[arg(long, env = "CONVERSION_WEBHOOK_SERVICE_NAME")]
    conversion_webhook_service_name: Option<String>,
    /// Address of a separate server for conversions, which starts if its address, port, certificate or clients are set
    /// [default: the address of the other webhooks]
    #[arg(long, env = "CONVERSION_WEBHOOK_LISTEN_ADDRESS")]
    conversion_webhook_listen_address: Option<IpAddr>,
    /// Port of the server for conversions; 0 selects a free one [default: 9681]
    #[arg(long, env = "CONVERSION_WEBHOOK_LISTEN_PORT")]
    conversion_webhook_listen_port: Option<u16>,
    /// Certificate of the server for conversions, a PEM file [default: from --webhook-certs-dir, else generated and stored in a Secret]
    #[arg(long, env = "CONVERSION_WEBHOOK_SERVER_CERT")]
    conversion_webhook_server_cert: Option<PathBuf>,
    /// Key of that certificate, a PEM file
    #[arg(long, env = "CONVERSION_WEBHOOK_SERVER_KEY")]
    conversion_webhook_server_key: Option<PathBuf>,
    /// Authority that signed that certificate, a PEM file
    #[arg(long, env = "CONVERSION_WEBHOOK_CA")]
    conversion_webhook_ca: Option<PathBuf>,
    /// As --webhook-client-ca, for conversions [default: --webhook-client-ca]
    #[arg(long, env = "CONVERSION_WEBHOOK_CLIENT_CA", value_delimiter = ',')]
    conversion_webhook_client_ca: Vec<PathBuf>,
}

impl WebhookFlags {
    /// Resolves the flags.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let own = self.webhook_listen_port.or(self.validating_webhook_listen_port);
        let defaults = Options::default();
        let server = Server {
            address: self.webhook_listen_address,
            ports: own.map_or(defaults.server.ports, |port| vec![port]),
            certificate: self.certificate()?,
            clients: self.webhook_client_ca.clone(),
        };
        if let Some(url) = self.webhook_url.as_ref().filter(|u| !u.starts_with("https://")) {
            return Err(format!("--webhook-url {url}: API servers call https:// only"));
        }
        let service = self.webhook_service_name.clone();
        Ok(Options {
            enabled: self.webhooks,
            conversion: self.conversion(&server)?,
            server,
            url: self.webhook_url.clone(),
            conversion_service: self
                .conversion
                .conversion_webhook_service_name
                .clone()
                .unwrap_or_else(|| service.clone()),
            service,
            service_port: self.webhook_service_port,
            leader_at: None,
            configuration: self.webhook_configuration_name.clone().unwrap_or_default(),
            failure_policy: self.webhook_failure_policy.clone(),
        })
    }

    fn certificate(&self) -> Result<Option<Files>, Failure> {
        if let Some(directory) = &self.webhook_certs_dir {
            let path = |name: &str| directory.join(name);
            let files =
                Files { certificate: path("tls.crt"), key: path("tls.key"), authority: path("ca.crt") };
            return Ok(Some(files));
        }
        files(
            "VALIDATING_WEBHOOK",
            [
                self.validating_webhook_server_cert.as_ref(),
                self.validating_webhook_server_key.as_ref(),
                self.validating_webhook_ca.as_ref(),
            ],
        )
    }

    /// The server for conversions, if any flag other than its Service is set. If only its address is set, the rest is inherited
    /// from the other webhooks, so that a server with client authentication does not get an open one next to it.
    fn conversion(&self, other: &Server) -> Result<Option<Server>, Failure> {
        let certificate = files(
            "CONVERSION_WEBHOOK",
            [
                self.conversion.conversion_webhook_server_cert.as_ref(),
                self.conversion.conversion_webhook_server_key.as_ref(),
                self.conversion.conversion_webhook_ca.as_ref(),
            ],
        )?;
        let (address, port) = (
            self.conversion.conversion_webhook_listen_address,
            self.conversion.conversion_webhook_listen_port,
        );
        let own = certificate.is_some() || !self.conversion.conversion_webhook_client_ca.is_empty();
        if !own && address.is_none() && port.is_none() {
            return Ok(None);
        }
        let server = Server {
            address: address.unwrap_or(other.address),
            ports: vec![port.unwrap_or(CONVERSION_PORT)],
            certificate: certificate
                .or_else(|| other.certificate.clone().filter(|_| self.webhook_certs_dir.is_some())),
            clients: if self.conversion.conversion_webhook_client_ca.is_empty() {
                other.clients.clone()
            } else {
                self.conversion.conversion_webhook_client_ca.clone()
            },
        };
        let same = server.ports == other.ports && server.ports != [0] && server.address == other.address;
        match (same, own) {
            (false, _) => Ok(Some(server)),
            (true, false) => Ok(None),
            (true, true) => Err(format!(
                "CONVERSION_WEBHOOK_LISTEN_PORT {} is that of the other webhooks: a certificate or clients of its own need a port of \
                 its own",
                server.ports.first().copied().unwrap_or_default()
            )),
        }
    }
}

/// A certificate from its three variables: all or none must be set.
fn files(prefix: &str, parts: [Option<&PathBuf>; 3]) -> Result<Option<Files>, Failure> {
    match parts {
        [None, None, None] => Ok(None),
        [Some(certificate), Some(key), Some(authority)] => Ok(Some(Files {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: authority.clone(),
        })),
        _ => Err(format!(
            "{prefix}_SERVER_CERT, {prefix}_SERVER_KEY and {prefix}_CA belong together: set all three, or none for a certificate \
             of our own"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: WebhookFlags,
    }

    fn options(words: &[&str]) -> Result<Options, Failure> {
        Line::parse_from(std::iter::once(&"x").chain(words)).flags.options()
    }

    #[test]
    fn conversions_have_a_server_of_their_own_where_something_is_said_of_it() {
        let none = options(&["--conversion-webhook-service-name", "c"]).unwrap();
        assert!(none.conversion.is_none());
        assert_eq!((none.service.as_str(), none.conversion_service.as_str()), ("windlass-webhooks", "c"));
        let guarded = ["--webhook-client-ca", "ca.pem", "--conversion-webhook-listen-address", "10.0.0.1"];
        let server = options(&guarded).unwrap().conversion.unwrap();
        assert_eq!((server.address.to_string().as_str(), server.ports.as_slice()), ("10.0.0.1", &[9681][..]));
        assert_eq!(server.clients, [PathBuf::from("ca.pem")], "it is guarded like the other one");
        assert!(server.certificate.is_none());
        let words: Vec<String> = ["server-cert", "server-key", "ca", "client-ca"]
            .iter()
            .flat_map(|part| [format!("--conversion-webhook-{part}"), format!("/own/{part}")])
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let server = options(&words).unwrap().conversion.unwrap();
        assert_eq!(server.certificate.unwrap().authority, PathBuf::from("/own/ca"));
        assert_eq!(server.clients, [PathBuf::from("/own/client-ca")]);
        assert!(options(&words[..2]).unwrap_err().contains("CONVERSION_WEBHOOK_CA"));
        // The same address is one server, unless a second one is requested.
        assert!(options(&["--conversion-webhook-listen-port", "9651"]).unwrap().conversion.is_none());
        let both = [&words[..], &["--conversion-webhook-listen-port", "9651"]].concat();
        assert!(options(&both).unwrap_err().contains("a port of its own"));
    }
}
