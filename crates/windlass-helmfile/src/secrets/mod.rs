//! Secret references: `ref+PROVIDER://PATH?PARAMETERS#/KEY/KEY`.
//!
//! Owns the providers, and what a run has: each document is read once, and each login made once, without a lock on others. Errors name the
//! provider and the path, never a secret, and no parameters.
//!
//! - [`secret_reference`]: a reference in its parts
//! - [`local_secrets`]: variables and files; [`cluster_secrets`]: objects of Kubernetes
//! - [`vault_secrets`], [`aws_secrets`], [`google_secrets`], [`azure_secrets`]: servers

mod aws_secrets;
mod azure_secrets;
mod cluster_secrets;
mod google_secrets;
mod local_secrets;
mod secret_reference;
mod vault_secrets;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use self::local_secrets::LocalSecrets;
use self::secret_reference::Reference;
use self::vault_secrets::VaultSessions;
use super::error::HelmfileError;
use super::local_host::SecretStore;
use super::sops;
use chart_compat::data::Data;
use helmfile_compat::document;
use helmfile_compat::value::{Map, Value};
use windlass_base::blocking;
use windlass_base::redact::SecretText;
use windlass_cluster::ConnectOptions;
use windlass_fetch::AwsSession;
use windlass_fetch::byte_budget::ByteBudget;
use windlass_fetch::http::Http;
use windlass_fetch::location::without_secrets;
use windlass_fetch::once_map::OnceMap;
use windlass_render::{note_document, note_values};

/// Providers that helmfile has and that are not supported here.
const KNOWN: &[&str] = &[
    "awskms",
    "bw",
    "conjur",
    "doppler",
    "exec",
    "gcs",
    "gitlab",
    "gkms",
    "googlesheets",
    "hcpvaultsecrets",
    "httpjson",
    "infisical",
    "keychain",
    "oci",
    "op",
    "onepasswordconnect",
    "openbao",
    "pulumistateapi",
    "s3",
    "scaleway",
    "secretserver",
    "servercore",
    "tfstate",
    "yclockbox",
];

/// Most bytes of all documents of one run.
const MAX_BYTES: u64 = 64 << 20;

/// What a provider has at a path.
#[derive(Clone, Debug)]
enum Document {
    /// A text.
    Text(String),
    /// A map.
    Map(Map),
}

impl Document {
    /// The bytes of its texts.
    fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Map(map) => map.iter().map(|(key, value)| key.len() + value.size()).sum(),
        }
    }

    /// The document as a map: a text is YAML.
    fn into_map(self) -> Result<Map, HelmfileError> {
        match self {
            Self::Map(map) => Ok(map),
            // The parser's error would quote the text.
            Self::Text(text) => {
                document::map(&text).map_err(|_| HelmfileError::Secret("it is not a YAML map".to_owned()))
            }
        }
    }
}

/// Resolves references and decrypts files.
pub struct Secrets {
    local: LocalSecrets,
    /// `None`: neither servers nor the cluster are asked, for it would be with the rights of this process.
    remote: Option<Remote>,
    documents: Mutex<Documents>,
    budget: ByteBudget,
}

/// How servers and the cluster are reached.
struct Remote {
    http: Http,
    cluster: ConnectOptions,
    logins: Logins,
}

/// Tokens and keys of this run.
#[derive(Default)]
struct Logins {
    vault: VaultSessions,
    /// By region, if a reference names one.
    aws: OnceMap<Option<String>, AwsSession>,
    google: OnceMap<(), SecretText>,
    /// By the domain of key vaults.
    azure: OnceMap<&'static str, SecretText>,
}

/// What was read in this run, by folder, reference without keys, and whether a map was asked for.
type Documents = HashMap<(String, String, bool), Arc<OnceLock<Result<Document, String>>>>;

impl Secrets {
    /// Secrets of the servers that `http` reaches, and of the cluster of the run.
    #[must_use]
    pub fn new(http: Http, cluster: ConnectOptions) -> Self {
        let remote = Remote { http, cluster, logins: Logins::default() };
        Self { remote: Some(remote), ..Self::of_tenant(LocalSecrets::default()) }
    }

    /// Secrets of a tenant: its own variables, files and keys alone.
    #[must_use]
    pub fn of_tenant(local: LocalSecrets) -> Self {
        Self { local, remote: None, documents: Mutex::default(), budget: ByteBudget::new(MAX_BYTES) }
    }

    /// The document of a reference, which is read once. Others that want it wait, and no one else does.
    fn document(&self, reference: &Reference, dir: &str) -> Result<Document, HelmfileError> {
        let key = (dir.to_owned(), reference.document.clone(), !reference.keys.is_empty());
        let cell = {
            let mut documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(documents.entry(key).or_default())
        };
        let read = || {
            let document = self.read(reference, dir).map_err(|error| error.to_string())?;
            let bytes = document.size() + dir.len() + reference.document.len();
            let taken = self.budget.take(bytes as u64);
            taken.map(|()| document).map_err(|error| format!("secret documents: {error}"))
        };
        cell.get_or_init(read).clone().map_err(HelmfileError::Secret)
    }

    /// Asks the provider for a document: for a map, if the reference has keys.
    fn read(&self, reference: &Reference, dir: &str) -> Result<Document, HelmfileError> {
        let path = reference.path.as_str();
        let wants_map = !reference.keys.is_empty();
        let provider = reference.provider.as_str();
        match provider {
            "echo" if wants_map => local_secrets::echoed(path).map(Document::Map),
            "echo" => Ok(Document::Text(path.trim_end_matches('/').to_owned())),
            "env" => self.local.variable(path).map(Document::Text),
            "envsubst" => self.local.substituted(path.trim()).map(Document::Text),
            "file" => self.local.file(dir, path).map(Document::Text),
            "sops" => self.local.encrypted(dir, reference).map(Document::Text),
            "vault" | "awssecrets" | "awsssm" | "gcpsecrets" | "azurekeyvault" | "k8s" => {
                self.read_remote(reference)
            }
            other if KNOWN.contains(&other) => Err(HelmfileError::Secret(format!(
                "the provider {other:?} is not supported; pass the secret in a variable: ref+env://NAME"
            ))),
            other => Err(HelmfileError::Secret(format!("no provider registered for scheme {other:?}"))),
        }
    }
}

impl Secrets {
    /// Asks a server, or the cluster.
    fn read_remote(&self, reference: &Reference) -> Result<Document, HelmfileError> {
        let provider = reference.provider.as_str();
        let Some(remote) = &self.remote else {
            return Err(HelmfileError::Secret(format!(
                "a Helmfile may not ask {provider} with the operator's rights; put the secret into spec.secretRefs.env: ref+env://NAME"
            )));
        };
        if provider == "k8s" {
            return blocking::wait(|| cluster_secrets::read(&remote.cluster, reference));
        }
        if remote.http.is_offline() {
            return Err(HelmfileError::Secret("offline mode forbids asking for it".to_owned()));
        }
        match provider {
            "vault" => blocking::wait(|| vault_secrets::read(remote, reference)),
            "awssecrets" => blocking::wait(|| aws_secrets::of_manager(remote, reference)),
            "awsssm" => blocking::wait(|| aws_secrets::of_parameters(remote, reference)),
            "gcpsecrets" => blocking::wait(|| google_secrets::read(remote, reference)),
            _ => blocking::wait(|| azure_secrets::read(remote, reference)),
        }
    }
}

impl SecretStore for Secrets {
    fn secret(&self, text: &str, dir: &str) -> Result<Value, HelmfileError> {
        let value = self.value(text, dir)?;
        let data = value.to_data();
        note_values(&data);
        if let Data::String(text) = &data {
            note_document(text.as_bytes());
        }
        Ok(value)
    }

    fn decrypt(&self, path: &str) -> Result<Vec<u8>, HelmfileError> {
        let format = sops::Format::of_secrets_file(path);
        self.local.decrypt(path, format).map_err(|error| error.within(&*path))
    }
}

impl Secrets {
    /// The value that a reference stands for.
    fn value(&self, text: &str, dir: &str) -> Result<Value, HelmfileError> {
        let mut reference = Reference::parse(text)?;
        reference.has_defaults = self.remote.is_some();
        // Causes may have secrets.
        let place = |error: HelmfileError| {
            let text = without_secrets(&error.to_string());
            HelmfileError::Secret(format!("expand {}: {text}", reference.without_parameters()))
        };
        let document = self.document(&reference, dir).map_err(place)?;
        if !reference.keys.is_empty() {
            return document.into_map().and_then(|map| reference.value(map)).map_err(place);
        }
        let Document::Text(text) = document else {
            return Err(place(HelmfileError::Secret("it is a map; name a key after #".to_owned())));
        };
        let encode =
            reference.parameter("encode").filter(|_| matches!(reference.provider.as_str(), "file" | "sops"));
        match encode.as_deref() {
            None | Some("raw") => Ok(Value::String(text)),
            Some("base64") => Ok(Value::String(STANDARD.encode(text))),
            Some(_) => Err(place(HelmfileError::Secret("encode is raw or base64".to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn secrets(offline: bool) -> Secrets {
        Secrets::new(Http::new(Duration::from_secs(5), offline), ConnectOptions::default())
    }

    #[test]
    fn references_lead_to_values() {
        let store = secrets(false);
        let text = |value: &str| Value::String(value.to_owned());
        assert_eq!(store.secret("echo://a/b/", "/").unwrap(), text("a/b"));
        assert_eq!(store.secret("echo://a/b/c#/a/b", "/").unwrap(), text("c"));
        assert!(
            store.secret("echo://a/b#/x", "/").unwrap_err().to_string().contains("no value found for key x")
        );
        assert!(store.secret("nope://a", "/").unwrap_err().to_string().contains("no provider registered"));
    }

    #[test]
    fn documents_count_against_a_budget_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "x".repeat(600)).unwrap();
        let store = Secrets { budget: ByteBudget::new(1000), ..secrets(false) };
        let read = |reference: &str| store.secret(reference, dir.path().to_str().unwrap());
        assert!(read("file://a").is_ok() && read("file://a").is_ok());
        assert!(read("file://a?x=1").unwrap_err().to_string().contains("secret documents: a run may take"));
        assert_eq!(read("echo://b").unwrap(), Value::String("b".to_owned()));
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_secrets() {
        for (reference, words) in [
            ("op://a/b?token=hunter2#/c", "\"op\" is not supported; pass the secret in a variable"),
            ("sops://aHVudGVyMg==?key_type=base64&format=ini", "INI"),
            ("sops://aHVudGVyMg==?key_type=base64&format=hunter2", "the format is none"),
            ("awssecrets://a?profile=hunter2", "set AWS_PROFILE"),
            ("awssecrets://a?role_arn=hunter2", "role_arn"),
            ("azurekeyvault://evil.example/a", "is not a host of a key vault"),
            ("azurekeyvault://127.0.0.1:1/a", "is not a host of a key vault"),
            ("azurekeyvault://evil.example%2F.vault.azure.net/a", "is not a host of a key vault"),
            ("azurekeyvault://a.b.vault.azure.net/a", "is not a host of a key vault"),
            ("azurekeyvault://a", "VAULT/NAME"),
            ("k8s://v1/Pod/n/a/k", "Secret and ConfigMap"),
            ("k8s://apps/v1/a", "v1/KIND/NAMESPACE/NAME"),
            ("vault://a/b?address=ftp://u:hunter2@h", "address"),
            ("vault://a/b?address=http://h&auth_method=github", "\"github\" is not supported"),
        ] {
            let told = secrets(false).secret(reference, "/").unwrap_err().to_string();
            assert!(told.contains(words) && !told.contains("hunter2"), "{reference}: {told}");
        }
        assert!(secrets(true).secret("vault://a/b", "/").unwrap_err().to_string().contains("offline"));
    }
}
