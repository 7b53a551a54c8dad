//! Flags for webhooks of hooks, under the names of both peers: addon-operator's server, and shell-operator's two.

use std::net::IpAddr;
use std::path::PathBuf;

use super::Failure;
use crate::hooks::webhooks::{Files, Options};

/// Flags of `operator` for webhooks.
#[derive(clap::Args)]
pub(super) struct WebhookFlags {
    /// Serve webhooks of hooks (validating, mutating, conversion), if hooks have any
    #[arg(long, visible_alias = "admission-server-enabled", env = "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "true", default_missing_value = "true")]
    webhooks: bool,
    /// Address for webhooks
    #[arg(long, env = "VALIDATING_WEBHOOK_LISTEN_ADDRESS", default_value = "0.0.0.0")]
    webhook_listen_address: IpAddr,
    /// Port for webhooks; 0 takes a free one. Also VALIDATING_WEBHOOK_LISTEN_PORT, and CONVERSION_WEBHOOK_LISTEN_PORT, where the
    /// same is served [default: 9651]
    #[arg(
        long,
        visible_alias = "admission-server-listen-port",
        env = "ADDON_OPERATOR_ADMISSION_SERVER_LISTEN_PORT"
    )]
    webhook_listen_port: Option<u16>,
    #[arg(long, env = "VALIDATING_WEBHOOK_LISTEN_PORT", hide = true)]
    validating_webhook_listen_port: Option<u16>,
    #[arg(long, env = "CONVERSION_WEBHOOK_LISTEN_PORT", hide = true)]
    conversion_webhook_listen_port: Option<u16>,
    /// Directory with tls.crt, tls.key and ca.crt for webhooks; without it a certificate is made and kept in a Secret
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
    /// Authorities of clients, PEM files: only clients with a certificate of one of them are answered (repeatable)
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
    /// The same for conversions, if it is another one
    #[arg(long, env = "CONVERSION_WEBHOOK_SERVICE_NAME")]
    conversion_webhook_service_name: Option<String>,
    /// Port of these Services
    #[arg(long, env = "WINDLASS_WEBHOOK_SERVICE_PORT", default_value_t = 443)]
    webhook_service_port: u16,
    /// Where the API server reaches webhooks instead, e.g. https://10.0.0.7:9651; port 0 is the one listened on
    #[arg(long, env = "WINDLASS_WEBHOOK_URL")]
    webhook_url: Option<String>,
    /// Name of the webhook configurations, to which -hooks is added [default: windlass-NAMESPACE]
    #[arg(
        long,
        visible_alias = "validating-webhook-configuration-name",
        env = "VALIDATING_WEBHOOK_CONFIGURATION_NAME"
    )]
    webhook_configuration_name: Option<String>,
    /// What happens if a hook cannot be asked, where its binding does not say
    #[arg(
        long,
        visible_alias = "validating-webhook-failure-policy",
        env = "VALIDATING_WEBHOOK_FAILURE_POLICY",
        default_value = "Fail",
        value_parser = ["Fail", "Ignore"]
    )]
    webhook_failure_policy: String,
}

impl WebhookFlags {
    /// What they say together.
    ///
    /// # Errors
    /// They contradict each other.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let own = self.webhook_listen_port;
        let first = own.or(self.validating_webhook_listen_port);
        let mut ports: Vec<u16> = first.into_iter().chain(self.conversion_webhook_listen_port).collect();
        ports.dedup();
        let defaults = Options::default();
        if ports.is_empty() {
            ports = defaults.ports;
        }
        if let Some(url) = self.webhook_url.as_ref().filter(|u| !u.starts_with("https://")) {
            return Err(format!("--webhook-url {url}: API servers call https:// only"));
        }
        let service = self.webhook_service_name.clone();
        Ok(Options {
            enabled: self.webhooks,
            address: self.webhook_listen_address,
            ports,
            certificate: self.certificate()?,
            clients: self.webhook_client_ca.clone(),
            url: self.webhook_url.clone(),
            conversion_service: self
                .conversion_webhook_service_name
                .clone()
                .unwrap_or_else(|| service.clone()),
            service,
            service_port: self.webhook_service_port,
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
        let parts = [
            &self.validating_webhook_server_cert,
            &self.validating_webhook_server_key,
            &self.validating_webhook_ca,
        ];
        match parts {
            [None, None, None] => Ok(None),
            [Some(certificate), Some(key), Some(authority)] => Ok(Some(Files {
                certificate: certificate.clone(),
                key: key.clone(),
                authority: authority.clone(),
            })),
            _ => Err("VALIDATING_WEBHOOK_SERVER_CERT, VALIDATING_WEBHOOK_SERVER_KEY and VALIDATING_WEBHOOK_CA belong \
                      together: set all three, or none for a certificate of our own"
                .to_owned()),
        }
    }
}
