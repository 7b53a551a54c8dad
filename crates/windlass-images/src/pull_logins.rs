//! Logins for the registry of a workload's image: of the Secret that it names, of its Pods' pull secrets, of its ServiceAccount's, of the
//! operator's own.
//!
//! Owns which Secrets are read, in which order, and that a login goes to the registry it names and to no other.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use windlass_base::hex::hex;
use windlass_cluster::{Cluster, Gvk, ObjectRef};
use windlass_controller::{SecretData, SecretReadError};
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::credentials::{Credentials, Login};

/// The most Secrets that are read of a workload, and of its ServiceAccount.
const MAX_SECRETS: usize = 20;
/// Keys of Secrets with logins: of today's form, and of Docker's old one.
const CONFIG: &str = ".dockerconfigjson";
const OLD_CONFIG: &str = ".dockercfg";

/// A login for one registry, or none.
#[derive(Clone)]
pub(crate) struct PullLogin {
    pub(crate) credentials: Credentials,
    /// Tells logins apart without showing them; empty for none.
    pub(crate) fingerprint: String,
    /// Secrets that are missing or cannot be used: for the error of a registry that refuses.
    pub(crate) notes: Vec<String>,
}

/// The operator's own Secret with logins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSecret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Finds the login for an image. `named`: the Secret that an annotation names; `pod`: the spec of the workload's Pods; `operator`: the
/// operator's Secret, for registries for which the others have no login.
///
/// # Errors
/// A Secret or the ServiceAccount cannot be read, for another reason than that it is missing.
pub(crate) async fn login_for(
    cluster: &Cluster,
    namespace: &str,
    image: &OciReference,
    named: Option<&str>,
    pod: &Value,
    operator: Option<&OperatorSecret>,
) -> Result<PullLogin, String> {
    let mut notes = Vec::new();
    let mut names: Vec<String> = named.map(str::to_owned).into_iter().collect();
    names.extend(secret_names(pod));
    // The ServiceAccount is read only if none of the others has a login.
    for of_account in [false, true] {
        if of_account {
            names = account_secrets(cluster, namespace, pod).await?;
        }
        for name in names.drain(..).take(MAX_SECRETS) {
            match read(cluster, namespace, &name).await? {
                Ok(credentials) if credentials.has(image.host()) => {
                    let fingerprint = fingerprint(&credentials, image.host()).await?;
                    return Ok(PullLogin { credentials, fingerprint, notes });
                }
                Ok(_) => {}
                Err(note) => notes.push(note),
            }
        }
    }
    if let Some(OperatorSecret { namespace, name }) = operator {
        match read(cluster, namespace, name).await.flatten() {
            Ok(credentials) if credentials.has(image.host()) => {
                let fingerprint = fingerprint(&credentials, image.host()).await?;
                return Ok(PullLogin { credentials, fingerprint, notes });
            }
            Ok(_) => {}
            // Its name is not for tenants, and images without a login are asked for all the same.
            Err(note) => {
                tracing::warn!("--image-pull-secret: {note}");
                notes.push("the operator's own Secret cannot be used".to_owned());
            }
        }
    }
    Ok(PullLogin { credentials: Credentials::none(), fingerprint: String::new(), notes })
}

/// The names of a list `imagePullSecrets`.
fn secret_names(object: &Value) -> Vec<String> {
    let list = object["imagePullSecrets"].as_array().into_iter().flatten();
    list.filter_map(|one| one["name"].as_str()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

async fn account_secrets(cluster: &Cluster, namespace: &str, pod: &Value) -> Result<Vec<String>, String> {
    let name = pod["serviceAccountName"].as_str().filter(|name| !name.is_empty()).unwrap_or("default");
    let account = ObjectRef::new(Gvk::new("v1", "ServiceAccount"), Some(namespace), name);
    let found = cluster.get(&account).await.map_err(|error| format!("ServiceAccount {name}: {error}"))?;
    Ok(found.map(|account| secret_names(&account)).unwrap_or_default())
}

/// The logins of a Secret; a note if it is missing or has none.
async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Result<Credentials, String>, String> {
    let secret = match SecretData::read(cluster, namespace, name).await {
        Ok(secret) => secret,
        Err(SecretReadError::Request(error)) => return Err(format!("Secret {name}: {error}")),
        Err(error) => return Ok(Err(format!("Secret {name}: {error}"))),
    };
    Ok(registry_logins(&secret).map_err(|error| format!("Secret {name}: {error}")))
}

/// The logins of a Secret.
///
/// # Errors
/// It has none.
pub(crate) fn registry_logins(secret: &SecretData) -> Result<Credentials, String> {
    match (secret.get(CONFIG), secret.get(OLD_CONFIG)) {
        (Some(config), _) => Credentials::of_config(config).map_err(|error| error.to_string()),
        (None, Some(old)) => of_old_config(old),
        (None, None) => Err(format!("it has neither {CONFIG} nor {OLD_CONFIG}")),
    }
}

/// Docker's old form: what is `auths` of today's.
fn of_old_config(text: &[u8]) -> Result<Credentials, String> {
    let auths: Map<String, Value> =
        serde_json::from_slice(text).map_err(|error| format!("line {}: it is not JSON", error.line()))?;
    Credentials::of_config(json!({"auths": auths}).to_string().as_bytes()).map_err(|error| error.to_string())
}

async fn fingerprint(credentials: &Credentials, host: &str) -> Result<String, String> {
    let login = credentials.get(host).await.map_err(|error| error.to_string())?;
    let text = match &login {
        Some(Login::Basic(user, password)) => format!("{user}\n{}", password.expose()),
        Some(Login::Identity(token)) => format!("\n{}", token.expose()),
        None => String::new(),
    };
    Ok(hex(&Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_login_is_for_the_registry_that_it_names() {
        let old = of_old_config(br#"{"registry.test:5000": {"username": "me", "password": "pw"}}"#).unwrap();
        assert!(old.has("registry.test:5000") && !old.has("registry.test") && !old.has("other.test"));
        let one = fingerprint(&old, "registry.test:5000").await.unwrap();
        assert_eq!(one, fingerprint(&Credentials::of_login("a", "me", "pw"), "a").await.unwrap());
        assert_ne!(one, fingerprint(&Credentials::of_login("a", "me", "px"), "a").await.unwrap());
        assert_eq!(of_old_config(b"[").err().unwrap(), "line 1: it is not JSON");
        let pod = json!({"imagePullSecrets": [{"name": "a"}, {"name": ""}, {}, {"name": "b"}]});
        assert_eq!(secret_names(&pod), ["a", "b"]);
    }
}
