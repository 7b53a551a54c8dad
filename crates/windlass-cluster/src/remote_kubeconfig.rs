//! Kubeconfigs that tenants bring: connections to other clusters with what the text holds, and nothing of this machine.
//!
//! Refuses programs, files and servers without a verified certificate.

use chart_compat::{json, yaml};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::api_client::Cluster;
use super::error::{ClusterError, Result};
use super::request_limits::RequestLimits;
use windlass_base::causes::chain;

/// The largest kubeconfig, in bytes.
const MAX_TEXT: usize = 1 << 20;

impl Cluster {
    /// Connects to the cluster of a kubeconfig's current context; sends nothing yet. `allows_local`: whether its server may be this machine.
    ///
    /// # Errors
    /// The text is no kubeconfig, or refers to programs, files or an address of this machine. The error quotes no credentials.
    pub async fn of_kubeconfig(text: &str, allows_local: bool) -> Result<Self> {
        let kubeconfig = read(text).map_err(ClusterError::Config)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.map_err(|e| ClusterError::Config(chain(&e)))?;
        Self::of_config(config, RequestLimits::foreign(allows_local))
    }
}

/// Reads a kubeconfig that holds all that it needs.
fn read(text: &str) -> std::result::Result<Kubeconfig, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("the kubeconfig is larger than {MAX_TEXT} bytes"));
    }
    // The parser's text may quote what it cannot read. It is not kube's, which has other bounds than all that tenants write.
    let no_kubeconfig = || "it is not a kubeconfig".to_owned();
    let data = yaml::from_slice(text.as_bytes()).map_err(|_| no_kubeconfig())?;
    let data = json::to_string(&data).map_err(|_| no_kubeconfig())?;
    let config: Kubeconfig = serde_json::from_str(&data).map_err(|_| no_kubeconfig())?;
    for user in &config.auth_infos {
        let Some(info) = &user.auth_info else { continue };
        let foreign = [
            ("exec", info.exec.is_some()),
            ("auth-provider", info.auth_provider.is_some()),
            ("tokenFile", info.token_file.is_some()),
            ("client-certificate", info.client_certificate.is_some()),
            ("client-key", info.client_key.is_some()),
        ];
        if let Some((field, _)) = foreign.iter().find(|(_, used)| *used) {
            return Err(format!(
                "user {:?}: {field} refers to this machine: put certificate, key or token into the kubeconfig",
                user.name
            ));
        }
    }
    for cluster in &config.clusters {
        let Some(own) = &cluster.cluster else { continue };
        let refused = [
            (
                "certificate-authority refers to this machine: use certificate-authority-data",
                own.certificate_authority.is_some(),
            ),
            ("insecure-skip-tls-verify is not allowed", own.insecure_skip_tls_verify == Some(true)),
            ("proxy-url is not supported", own.proxy_url.is_some()),
            (
                "server is not an https URL",
                own.server.as_ref().is_some_and(|url| !url.starts_with("https://")),
            ),
        ];
        if let Some((why, _)) = refused.iter().find(|(_, used)| *used) {
            return Err(format!("cluster {:?}: {why}", cluster.name));
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    #[test]
    fn a_kubeconfig_takes_nothing_of_this_machine() {
        let server = "server: 'https://h:6443'";
        assert!(read(&config(server, "token: secret-word")).is_ok());
        for (cluster, user, part) in [
            (server, "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}", "exec"),
            (server, "tokenFile: /var/run/secrets/token", "tokenFile"),
            (server, "client-certificate: /etc/x", "client-certificate"),
            (server, "client-key: /etc/x", "client-key"),
            (server, "auth-provider: {name: gcp, config: {}}", "auth-provider"),
            ("server: 'https://h', certificate-authority: /etc/x", "", "certificate-authority-data"),
            ("server: 'https://h', insecure-skip-tls-verify: true", "", "insecure-skip-tls-verify"),
            ("server: 'https://h', proxy-url: 'http://p:1'", "", "proxy-url"),
            ("server: 'http://h'", "", "https"),
        ] {
            let error = read(&config(cluster, user)).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let error = read("users: [secret-word").unwrap_err();
        assert!(!error.contains("secret-word"), "{error}");
        assert!(read(&"x".repeat(MAX_TEXT + 1)).is_err());
        let deep = format!("a: {}{}", "[".repeat(100_000), "]".repeat(100_000));
        let aliases = format!("a: &a {}\nb: [{}]\n", "x".repeat(50_000), vec!["*a"; 20_000].join(", "));
        for text in [deep, aliases, "[]".to_owned(), "a".to_owned()] {
            assert_eq!(read(&text).unwrap_err(), "it is not a kubeconfig");
        }
    }
}
