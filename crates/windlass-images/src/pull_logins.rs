//! Logins for the registry of a workload's image: of the Secret that it names, of its Pods' pull secrets, of its ServiceAccount's, of the
//! operator's own, of the operator's identity in its cloud.
//!
//! Owns which Secrets are read, in which order, and that a login goes to the registry it names and to no other.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use windlass_base::bounded_json;
use windlass_base::hex::hex;
use windlass_base::redact;
use windlass_cluster::{Cluster, Gvk, ObjectRef};
use windlass_controller::{SecretData, SecretReadError};
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::credentials::{Credentials, Login};

use super::cloud_logins::CloudLogins;
use super::image_annotations::SecretSetting;

/// The most Secrets that are read of a workload, and of its ServiceAccount.
const MAX_SECRETS: usize = 20;
/// Keys of Secrets with logins: of today's form, and of Docker's old one.
const CONFIG: &str = ".dockerconfigjson";
const OLD_CONFIG: &str = ".dockercfg";
/// The key of the operator's identity among logins.
const CLOUD: &str = "cloud";

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

/// The Secret that a setting names.
#[derive(Clone, Copy)]
pub(crate) struct NamedSecret<'s> {
    /// Reads it: whoever may write the setting has no more rights than that.
    pub(crate) reader: &'s Cluster,
    pub(crate) namespace: &'s str,
    pub(crate) name: &'s str,
}

impl<'s> NamedSecret<'s> {
    /// That of a setting. `home`: the namespace of a Secret that is named without one.
    pub(crate) fn of(setting: &'s SecretSetting, reader: &'s Cluster, home: &'s str) -> Self {
        let namespace = setting.namespace.as_deref().unwrap_or(home);
        Self { reader, namespace, name: &setting.name }
    }
}

/// Where a login may be.
#[derive(Clone, Copy)]
pub(crate) struct LoginSources<'s> {
    /// Reads with the operator's rights.
    pub(crate) cluster: &'s Cluster,
    /// The namespace of the Pods.
    pub(crate) namespace: &'s str,
    /// The Secret that a setting names.
    pub(crate) named: Option<NamedSecret<'s>>,
    /// The spec of the Pods, if they are known.
    pub(crate) pod: Option<&'s Value>,
    /// The operator's Secret, for registries for which the others have no login.
    pub(crate) operator: Option<&'s OperatorSecret>,
    /// The operator's identity, for registries that take it.
    pub(crate) cloud: &'s CloudLogins,
}

/// The logins for an image at its registry, and at the mirror of that if it has one.
#[derive(Clone)]
pub(crate) struct OriginLogins {
    pub(crate) own: PullLogin,
    pub(crate) mirror: Option<PullLogin>,
}

impl OriginLogins {
    /// Finds them. `mirror`: the image at the mirror.
    ///
    /// # Errors
    /// As [`login_for`].
    pub(crate) async fn find(
        sources: LoginSources<'_>,
        image: &OciReference,
        mirror: Option<&OciReference>,
    ) -> Result<Self, String> {
        let mirror = match mirror {
            Some(mirror) => Some(login_for(sources, mirror).await?),
            None => None,
        };
        Ok(Self { own: login_for(sources, image).await?, mirror })
    }
}

/// Finds the login for an image.
///
/// # Errors
/// A Secret or the ServiceAccount cannot be read, for another reason than that it is missing.
async fn login_for(sources: LoginSources<'_>, image: &OciReference) -> Result<PullLogin, String> {
    let LoginSources { cluster, namespace, named, pod, operator, cloud } = sources;
    let (host, mut notes, mut found) = (image.host(), Vec::new(), None);
    if let Some(NamedSecret { reader, namespace, name }) = named {
        found = of_secrets((reader, namespace), vec![name.to_owned()], host, &mut notes).await?;
    }
    if let (None, Some(pod)) = (&found, pod) {
        found = of_secrets((cluster, namespace), secret_names(pod), host, &mut notes).await?;
        // The ServiceAccount is read only if none of the others has a login.
        if found.is_none() {
            let names = account_secrets(cluster, namespace, pod).await?;
            found = of_secrets((cluster, namespace), names, host, &mut notes).await?;
        }
    }
    if let (None, Some(OperatorSecret { namespace, name })) = (&found, operator) {
        // Its logins keep that scope: no text of a workload is masked by them.
        match redact::own(read(cluster, namespace, name)).await.flatten() {
            Ok(credentials) => found = Some(credentials).filter(|credentials| credentials.has(host)),
            // Its name is not for tenants, and images without a login are asked for all the same.
            Err(note) => {
                tracing::warn!("--image-pull-secret: {note}");
                notes.push("the operator's own Secret cannot be used".to_owned());
            }
        }
    }
    let fingerprint = match &found {
        Some(credentials) => fingerprint(credentials, host).await?,
        None => match redact::own(cloud.login(host)).await {
            Ok(login) => {
                found = login;
                // The tokens of one identity have the same rights.
                found.as_ref().map(|_| CLOUD.to_owned()).unwrap_or_default()
            }
            Err(error) => {
                tracing::warn!("--image-provider: {error}");
                notes.push("the operator's own identity cannot be used".to_owned());
                String::new()
            }
        },
    };
    Ok(PullLogin { credentials: found.unwrap_or_else(Credentials::none), fingerprint, notes })
}

/// The login of the first Secret that has one for a registry.
async fn of_secrets(
    (cluster, namespace): (&Cluster, &str),
    names: Vec<String>,
    host: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Credentials>, String> {
    for name in names.into_iter().take(MAX_SECRETS) {
        match read(cluster, namespace, &name).await? {
            Ok(credentials) if credentials.has(host) => return Ok(Some(credentials)),
            Ok(_) => {}
            Err(note) => notes.push(note),
        }
    }
    Ok(None)
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
        bounded_json::from_slice(text).map_err(|error| format!("line {}: it is not JSON", error.line()))?;
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
