//! Secrets that a Helmfile refers to.
//!
//! Owns which keys of them mean what. Credentials for the source go to its server alone.

use std::collections::BTreeMap;

use super::api::HelmfileSpec;
use windlass_base::redact::SecretText;
use windlass_controller::{ReconcileError, ReconcilePass};
use windlass_fetch::git::remote::{GitAccess, GitLogin, SshKey};
use windlass_fetch::http::{Pem, Tls};
use windlass_fetch::oci::credentials::Credentials;

/// What an object has beside its spec.
pub(super) struct ObjectInputs {
    /// Environment variables.
    pub(super) variables: BTreeMap<String, String>,
    /// Access to the server of the source.
    pub(super) git: GitAccess,
    /// Logins of registries.
    pub(super) registry: Credentials,
    /// Keys that decrypt files of sops: names and texts.
    pub(super) sops_keys: BTreeMap<String, Vec<u8>>,
}

/// Reads what the spec refers to.
///
/// # Errors
/// A Secret does not exist or has not the keys that it needs.
pub(super) async fn read(
    pass: &mut ReconcilePass,
    spec: &HelmfileSpec,
) -> Result<ObjectInputs, ReconcileError> {
    let mut variables = spec.envvars.clone();
    if let Some(name) = &spec.secret_refs.env {
        for (key, value) in pass.secret_data("spec.secretRefs.env", name).await? {
            let text = String::from_utf8(value).map_err(|_| {
                ReconcileError::Config(format!(
                    "spec.secretRefs.env: Secret {name:?}: key {key:?} is not UTF-8 text"
                ))
            })?;
            variables.insert(key, text);
        }
    }
    let mut git = GitAccess { isolated: true, ..GitAccess::default() };
    if let Some(name) = &spec.secret_refs.git {
        let data = pass.secret_data("spec.secretRefs.git", name).await?;
        git.login = login("spec.secretRefs.git", name, &data)?;
        git.tls =
            Tls { ca: data.get("ca.crt").map(|bytes| Pem::Text(bytes.as_slice().into())), ..Tls::default() };
    }
    if let Some(name) = &spec.secret_refs.ssh {
        let data = pass.secret_data("spec.secretRefs.ssh", name).await?;
        let key = |key: &str| required("spec.secretRefs.ssh", name, &data, key);
        git.ssh = Some(SshKey {
            identity: SecretText::new(key("identity")?),
            known_hosts: key("known_hosts")?,
            password: SecretText::new(text(&data, "password").unwrap_or_default()),
        });
    }
    let mut registry = Credentials::none();
    if let Some(name) = &spec.secret_refs.registry {
        let field = "spec.secretRefs.registry";
        let data = pass.secret_data(field, name).await?;
        let config = required(field, name, &data, ".dockerconfigjson")?;
        registry = Credentials::of_config(config.as_bytes()).map_err(|error| {
            ReconcileError::Config(format!("{field}: Secret {name:?}: .dockerconfigjson: {error}"))
        })?;
    }
    let sops_keys = match &spec.secret_refs.sops {
        Some(name) => pass.secret_data("spec.secretRefs.sops", name).await?,
        None => BTreeMap::new(),
    };
    Ok(ObjectInputs { variables, git, registry, sops_keys })
}

fn text(data: &BTreeMap<String, Vec<u8>>, key: &str) -> Option<String> {
    data.get(key).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn required(
    field: &str,
    name: &str,
    data: &BTreeMap<String, Vec<u8>>,
    key: &str,
) -> Result<String, ReconcileError> {
    let missing = || ReconcileError::Config(format!("{field}: Secret {name:?} has no key {key:?}"));
    text(data, key).filter(|text| !text.is_empty()).ok_or_else(missing)
}

fn login(
    field: &str,
    name: &str,
    data: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<GitLogin>, ReconcileError> {
    match (text(data, "bearerToken"), text(data, "username"), text(data, "password")) {
        (Some(token), None, None) => Ok(Some(GitLogin::Bearer(SecretText::new(token)))),
        (None, Some(user), Some(password)) => Ok(Some(GitLogin::Basic(user, SecretText::new(password)))),
        (None, None, None) if data.contains_key("ca.crt") => Ok(None),
        _ => Err(ReconcileError::Config(format!(
            "{field}: Secret {name:?} needs username and password, or bearerToken, or ca.crt alone"
        ))),
    }
}
