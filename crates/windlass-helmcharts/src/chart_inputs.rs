//! What a HelmChart refers to: Secrets with values, logins and certificates.
//!
//! Owns which keys of them mean what. Everything is read in the object's namespace, by one client, and watched with its rights.

use chart_compat::data::{Data, Map};

use super::k3s_api::{HelmChartConfigSpec, HelmChartSpec, ValuesSecret};
use super::layered_values::ValuesText;
use windlass_base::redact::SecretText;
use windlass_cluster::Cluster;
use windlass_controller::{ReconcileError, References, SecretData, SecretReadError};
use windlass_engine::Disposition;
use windlass_fetch::fetch::Options;
use windlass_fetch::http::{Pem, Tls};
use windlass_fetch::oci::credentials::Credentials;
use windlass_render::lookup_object;
use windlass_render::replay::{LookupQuery, answer_digest};

/// Keys of Secrets with values of one object at most, and their bytes together.
const MAX_KEYS: usize = 100;
const MAX_KEY_BYTES: usize = 16 << 20;
/// Secrets with values of one object at most.
const MAX_SECRETS: usize = 100;
/// Key of a Secret of the type `kubernetes.io/dockerconfigjson`.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// Reads what an object of a namespace refers to.
pub(crate) struct InputReader<'r> {
    /// The client that reads.
    pub(crate) cluster: &'r Cluster,
    /// The object's namespace.
    pub(crate) namespace: &'r str,
    /// What was read, to be watched.
    pub(crate) references: &'r mut References,
}

/// Access to a chart's server.
pub(crate) struct ChartAccess {
    pub(crate) options: Options,
    pub(crate) registries: Credentials,
}

/// An object that is referred to and cannot be used: it may be there later.
fn unavailable(text: String) -> ReconcileError {
    ReconcileError::Reason { reason: "ReferenceUnavailable", text, disposition: Disposition::Retry }
}

impl InputReader<'_> {
    /// The values files of a chart and its configuration, in ascending precedence.
    ///
    /// # Errors
    /// A Secret or a key of it is missing, or there are too many.
    pub(crate) async fn values(
        &mut self,
        chart: &HelmChartSpec,
        config: &HelmChartConfigSpec,
    ) -> Result<Vec<ValuesText>, ReconcileError> {
        let count = chart.values_secrets.len() + config.values_secrets.len();
        if count > MAX_SECRETS {
            return Err(ReconcileError::Config(format!(
                "valuesSecrets: {count} Secrets; no more than {MAX_SECRETS} are read"
            )));
        }
        let mut layers = Vec::new();
        layers.extend(ValuesText::field("spec.valuesContent", &chart.values_content));
        layers.extend(ValuesText::fields("spec.values", &chart.values));
        self.secrets("spec.valuesSecrets", &chart.values_secrets, &mut layers).await?;
        layers.extend(ValuesText::field("HelmChartConfig spec.valuesContent", &config.values_content));
        layers.extend(ValuesText::fields("HelmChartConfig spec.values", &config.values));
        self.secrets("HelmChartConfig spec.valuesSecrets", &config.values_secrets, &mut layers).await?;
        Ok(layers)
    }

    async fn secrets(
        &mut self,
        field: &str,
        secrets: &[ValuesSecret],
        layers: &mut Vec<ValuesText>,
    ) -> Result<(), ReconcileError> {
        for (at, secret) in secrets.iter().enumerate().filter(|(_, secret)| !secret.keys.is_empty()) {
            let field = format!("{field}[{at}]");
            let Some(data) = self.secret(&field, &secret.name, secret.ignore_updates).await? else {
                continue;
            };
            for key in &secret.keys {
                let held = layers.iter().filter(|layer| layer.secret);
                let (count, bytes) =
                    held.fold((1, 0), |(count, bytes), layer| (count + 1, bytes + layer.text.len()));
                if count > MAX_KEYS || bytes > MAX_KEY_BYTES {
                    return Err(ReconcileError::Config(format!(
                        "{field}: more than {MAX_KEYS} keys or {} MiB of values in Secrets: name each key once",
                        MAX_KEY_BYTES >> 20
                    )));
                }
                match data.values().get(key) {
                    Some(text) => layers.push(ValuesText {
                        name: format!("{field}: Secret {}, key {key:?}", data.name()),
                        text: text.clone(),
                        secret: true,
                    }),
                    None if secret.ignore_updates => {}
                    None => {
                        let text = format!("{field}: Secret {} has no key {key:?}", data.name());
                        return Err(unavailable(text));
                    }
                }
            }
        }
        Ok(())
    }

    /// A Secret. One that is optional may be absent, and is not watched.
    async fn secret(
        &mut self,
        field: &str,
        name: &str,
        optional: bool,
    ) -> Result<Option<SecretData>, ReconcileError> {
        let namespace = self.namespace;
        let read = match optional {
            true => SecretData::read(self.cluster, namespace, name).await,
            false => SecretData::read_watched(self.cluster, self.references, namespace, name).await,
        };
        match read {
            Ok(data) => Ok(Some(data)),
            Err(SecretReadError::NotFound(_)) if optional => Ok(None),
            Err(SecretReadError::NotFound(_)) => {
                Err(unavailable(format!("{field}: Secret {namespace}/{name} does not exist")))
            }
            Err(SecretReadError::EmptyName) => {
                Err(ReconcileError::Config(format!("{field}: the name of a Secret may not be empty")))
            }
            Err(error @ SecretReadError::Base64(_)) => {
                Err(ReconcileError::Config(format!("{field}: Secret {namespace}/{name}: {error}")))
            }
            Err(SecretReadError::Request(error)) => {
                Err(unavailable(format!("{field}: Secret {namespace}/{name} cannot be read: {error}")))
            }
        }
    }

    /// Access to the server of a chart. `authorities`: certificates of the server in PEM, beside those of the spec.
    ///
    /// # Errors
    /// A Secret or ConfigMap is missing, or has not the keys that it needs.
    pub(crate) async fn access(
        &mut self,
        spec: &HelmChartSpec,
        authorities: Option<String>,
    ) -> Result<ChartAccess, ReconcileError> {
        let mut options = Options {
            version: spec.version.clone(),
            pass_credentials: spec.auth_pass_credentials,
            plain_http: spec.plain_http,
            ..Options::default()
        };
        let mut certificates: Vec<String> = authorities.into_iter().collect();
        certificates.extend(Some(spec.repo_ca.clone()).filter(|text| !text.is_empty()));
        if let Some(map) = &spec.repo_ca_config_map {
            certificates.extend(self.config_map("spec.repoCAConfigMap", &map.name).await?);
        }
        let ca = Some(certificates.join("\n")).filter(|text| !text.trim().is_empty());
        options.tls = Tls {
            ca: ca.map(|text| Pem::Text(text.into_bytes().into())),
            insecure: spec.insecure_skip_tls_verify,
            ..Tls::default()
        };
        if let Some(secret) = &spec.auth_secret
            && let Some(data) = self.secret("spec.authSecret", &secret.name, false).await?
        {
            login(&data, &mut options)?;
        }
        let mut registries = Credentials::none();
        if let Some(secret) = &spec.docker_registry_secret
            && let Some(data) = self.secret("spec.dockerRegistrySecret", &secret.name, false).await?
        {
            let wrong = |text: &str| {
                ReconcileError::Config(format!("spec.dockerRegistrySecret: Secret {}: {text}", data.name()))
            };
            let config =
                data.get(DOCKER_CONFIG).ok_or_else(|| wrong(&format!("it has no key {DOCKER_CONFIG}")))?;
            registries =
                Credentials::of_config(config).map_err(|e| wrong(&format!("{DOCKER_CONFIG}: {e}")))?;
        }
        Ok(ChartAccess { options, registries })
    }

    /// The values of a ConfigMap, by their keys.
    async fn config_map(&mut self, field: &str, name: &str) -> Result<Vec<String>, ReconcileError> {
        if name.is_empty() {
            return Err(ReconcileError::Config(format!("{field}: the name of a ConfigMap may not be empty")));
        }
        let query = LookupQuery {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
        };
        let shown = format!("{field}: ConfigMap {}/{name}", self.namespace);
        let object = lookup_object(self.cluster, &query)
            .await
            .map_err(|error| unavailable(format!("{shown} cannot be read: {error}")))?;
        self.references.insert(query, answer_digest(object.as_ref().unwrap_or(&Data::Map(Map::new()))));
        let object = object.ok_or_else(|| unavailable(format!("{shown} does not exist")))?;
        let data = object.get("data").and_then(Data::as_map).into_iter().flatten();
        Ok(data.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect())
    }
}

/// The login of a Secret: user and password, or a client certificate.
fn login(data: &SecretData, options: &mut Options) -> Result<(), ReconcileError> {
    let pem = |key: &str| data.get(key).map(|bytes| Pem::Text(bytes.into()));
    let (certificate, key) = (pem("tls.crt"), pem("tls.key"));
    let (username, password) = (data.text("username"), data.text("password"));
    let has_login = username.is_some() && password.is_some();
    let has_certificate = certificate.is_some() && key.is_some();
    if !(has_login || has_certificate) {
        return Err(ReconcileError::Config(format!(
            "spec.authSecret: Secret {} needs username and password, or tls.crt and tls.key",
            data.name()
        )));
    }
    if has_certificate {
        (options.tls.certificate, options.tls.key) = (certificate, key);
    }
    if let (Some(username), Some(password)) = (username, password) {
        (options.username, options.password) = (username, SecretText::new(password));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn logins_are_complete_or_refused() {
        // Whether there is a user name, and a client certificate; `None` is refused.
        let table = [
            (&["username", "password"][..], Some((true, false))),
            (&["tls.crt", "tls.key"], Some((false, true))),
            (&["username", "password", "tls.crt", "tls.key"], Some((true, true))),
            (&["username"], None),
            (&["tls.crt", "password"], None),
            (&[], None),
        ];
        for (keys, expected) in table {
            let values: BTreeMap<String, Vec<u8>> =
                keys.iter().map(|key| ((*key).to_owned(), format!("of-{key}").into_bytes())).collect();
            let mut options = Options::default();
            let found = login(&SecretData::new("ns", "login", values), &mut options);
            let shown = (!options.username.is_empty(), options.tls.key.is_some());
            match expected {
                Some(expected) => assert_eq!((found.is_ok(), shown), (true, expected), "{keys:?}"),
                None => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains("Secret ns/login needs username and password"), "{error}");
                    assert!(!error.contains("of-"), "{error}");
                }
            }
        }
    }
}
