//! How a bucket is accessed: the storages with their credentials, and where credentials come from: they are given, asked for, or this
//! process' own.
//!
//! A build without the feature of a cloud refuses it here.

use super::super::http::{Http, Tls};
use super::super::location::{Location, is_host_label};
use super::BucketError;
use super::object_bucket::ObjectStorage;
use windlass_base::redact::SecretText;

/// Keys for storages with the API of S3.
#[derive(Clone)]
pub struct S3Keys {
    /// The access key.
    pub access: String,
    /// The secret key.
    pub secret: SecretText,
    /// The session token of temporary keys.
    pub session: Option<SecretText>,
}

/// Access to a storage account of Azure.
#[derive(Clone)]
pub enum AzureAccess {
    /// By the account's key.
    Key {
        /// The account.
        account: String,
        /// Its key, in base64.
        key: SecretText,
    },
    /// By a shared access signature: a part of the query.
    Sas(SecretText),
    /// By a token of Entra.
    Token(SecretText),
}

/// An application that Entra gives tokens.
#[derive(Clone)]
pub struct EntraApplication {
    /// URL of the authority; the public cloud's if empty.
    pub authority: String,
    /// Id of the tenant.
    pub tenant: String,
    /// Id of the application.
    pub client: String,
    /// How it proves who it is.
    pub proof: EntraProof,
}

/// How an application proves who it is.
#[derive(Clone)]
pub enum EntraProof {
    /// By a secret.
    Secret(SecretText),
    /// By a certificate and its key, in PEM.
    Certificate {
        /// Both.
        pem: Vec<u8>,
        /// Whether the certificates are sent with the proof.
        sends_chain: bool,
    },
    /// By a token of another issuer.
    Assertion(SecretText),
}

/// Scope of tokens for Azure's storage.
pub const AZURE_STORAGE: &str = "https://storage.azure.com/.default";
/// Scope of tokens for Azure's registries.
pub(in super::super) const AZURE_REGISTRIES: &str = "https://containerregistry.azure.net/.default";
/// Scope of tokens for Azure's Git repositories.
pub const AZURE_REPOSITORIES: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";
/// Scope of tokens that read Google's storage.
pub const GOOGLE_STORAGE: &str = "https://www.googleapis.com/auth/devstorage.read_only";
/// Scope of tokens for all that a service account of Google's may do.
pub const GOOGLE_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// An API of Amazon's with JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AwsApi {
    /// Secrets Manager.
    SecretsManager,
    /// Systems Manager, which has the parameter store.
    SystemsManager,
}

/// Keys of this process for a region of AWS.
#[derive(Clone)]
#[cfg_attr(not(feature = "s3"), expect(dead_code, reason = "all is refused"))]
pub struct AwsSession {
    region: String,
    keys: S3Keys,
}

/// Refuses what is not a region of AWS: it becomes a part of the names of Amazon's servers.
///
/// # Errors
/// It is empty, or is not a part of a host name.
pub fn check_aws_region(region: &str) -> Result<(), BucketError> {
    match region {
        "" => Err(BucketError::Answer("the region of AWS is empty: name one, or set AWS_REGION".to_owned())),
        region if is_host_label(region) => Ok(()),
        region => Err(BucketError::Answer(format!("{region:?} is not the name of a region of AWS"))),
    }
}

/// Asks clouds for credentials, with a client.
pub struct CloudCredentials<'h>(pub &'h Http);

#[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
fn absent(scheme: &str, feature: &'static str) -> BucketError {
    BucketError::Feature { scheme: scheme.to_owned(), feature }
}

#[cfg(feature = "s3")]
impl ObjectStorage {
    /// The API of S3, in a region; without keys nothing is signed.
    ///
    /// # Errors
    /// The build lacks it.
    pub fn s3(region: &str, keys: Option<S3Keys>) -> Result<Self, BucketError> {
        Ok(Self(Box::new(super::s3::S3Api::new(region, keys))))
    }
}

#[cfg(feature = "gcs")]
impl ObjectStorage {
    /// Google's storage, with a token.
    ///
    /// # Errors
    /// The build lacks it.
    pub fn google(token: SecretText) -> Result<Self, BucketError> {
        Ok(Self(Box::new(super::google_storage::GoogleApi { token })))
    }
}

#[cfg(feature = "azure")]
impl ObjectStorage {
    /// Azure's storage.
    ///
    /// # Errors
    /// The build lacks it.
    pub fn azure(access: AzureAccess) -> Result<Self, BucketError> {
        Ok(Self(Box::new(super::azure_blobs::AzureApi { access })))
    }
}

#[cfg(feature = "s3")]
impl CloudCredentials<'_> {
    /// Keys for a user of a directory (`AssumeRoleWithLDAPIdentity`, as MinIO has it).
    ///
    /// # Errors
    /// The service cannot be reached, or refuses.
    pub async fn ldap(
        &self,
        tls: &Tls,
        endpoint: &Location,
        (user, password): (&str, &str),
    ) -> Result<S3Keys, BucketError> {
        let fields =
            [("Action", "AssumeRoleWithLDAPIdentity"), ("LDAPUsername", user), ("LDAPPassword", password)];
        super::security_tokens::ask(self.0, tls, endpoint, &fields).await
    }

    /// The keys of this process for a region of AWS; `sts`: a token service that replaces Amazon's.
    ///
    /// # Errors
    /// The region is not a part of a host name, there are no keys, or they are refused.
    pub async fn own_aws(&self, region: &str, sts: Option<Location>) -> Result<S3Keys, BucketError> {
        super::aws::own_keys(self.0, region, sts).await
    }

    /// The keys of this process for calls of [`Self::aws_json`]. `region`: in place of the environment's.
    ///
    /// # Errors
    /// As [`Self::own_aws`].
    pub async fn own_aws_session(&self, region: Option<&str>) -> Result<AwsSession, BucketError> {
        let region = region.map_or_else(super::aws::own_region, |region| Ok(region.to_owned()))?;
        let keys = self.own_aws(&region, None).await?;
        Ok(AwsSession { region, keys })
    }

    /// Calls an operation of an API of AWS.
    ///
    /// # Errors
    /// The API cannot be reached, or it refuses ([`BucketError::Refused`]).
    pub async fn aws_json(
        &self,
        session: &AwsSession,
        api: AwsApi,
        operation: &str,
        body: &serde_json::Value,
    ) -> Result<serde_json::Value, BucketError> {
        let (service, version, endpoint) = match api {
            AwsApi::SecretsManager => {
                ("secretsmanager", "secretsmanager", "AWS_ENDPOINT_URL_SECRETS_MANAGER")
            }
            AwsApi::SystemsManager => ("ssm", "AmazonSSM", "AWS_ENDPOINT_URL_SSM"),
        };
        let AwsSession { region, keys } = session;
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let place = super::environment::variable(&[endpoint, "AWS_ENDPOINT_URL"])
            .unwrap_or_else(|| format!("https://{service}.{region}.{domain}"));
        let target = format!("{version}.{operation}");
        let operation = super::aws_json::Operation { place: &place, service, target: &target };
        super::aws_json::call(self.0, keys.clone(), region, &operation, body).await
    }

    /// User and password for registries of AWS, by the keys of this process. The host is that of their API; `true`: they are the public
    /// ones.
    ///
    /// # Errors
    /// There are no keys, or they are refused.
    pub async fn own_ecr(
        &self,
        region: &str,
        api: (&str, bool),
    ) -> Result<(String, SecretText), BucketError> {
        let keys = self.own_aws(region, None).await?;
        super::ecr::login(self.0, keys, region, api).await
    }
}

#[cfg(feature = "gcs")]
impl CloudCredentials<'_> {
    /// A token of Google's storage for credentials in JSON; `shown`: where they come from.
    ///
    /// # Errors
    /// They are malformed, or refused.
    pub async fn google(&self, shown: &str, json: &[u8]) -> Result<SecretText, BucketError> {
        super::google::exchange(self.0, shown, json, GOOGLE_STORAGE).await
    }

    /// A token of this process.
    ///
    /// # Errors
    /// It has no identity, or it is refused.
    pub async fn own_google(&self, scope: &str) -> Result<SecretText, BucketError> {
        super::google::own_token(self.0, scope).await
    }
}

#[cfg(feature = "azure")]
impl CloudCredentials<'_> {
    /// A token for an application of Azure.
    ///
    /// # Errors
    /// Its authority cannot be reached, or refuses.
    pub async fn entra(
        &self,
        application: &EntraApplication,
        scope: &str,
    ) -> Result<SecretText, BucketError> {
        super::entra::token(self.0, application, scope).await
    }

    /// A token of this process.
    ///
    /// # Errors
    /// It has no identity, or it is refused.
    pub async fn own_azure(&self, scope: &str) -> Result<SecretText, BucketError> {
        super::entra::own_token(self.0, scope).await
    }

    /// A token of one of the managed identities of this process' virtual machine. `client`: the id of its application.
    ///
    /// # Errors
    /// It has no such identity, or it is refused.
    pub async fn managed_azure(&self, client: &str, scope: &str) -> Result<SecretText, BucketError> {
        super::entra::managed_token(self.0, Some(client), scope).await
    }
}

// Builds without a cloud refuse its buckets.

#[cfg(not(feature = "s3"))]
impl ObjectStorage {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub fn s3(_region: &str, _keys: Option<S3Keys>) -> Result<Self, BucketError> {
        Err(absent("s3", "s3"))
    }
}

#[cfg(not(feature = "s3"))]
impl CloudCredentials<'_> {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub async fn ldap(
        &self,
        _tls: &Tls,
        _endpoint: &Location,
        _login: (&str, &str),
    ) -> Result<S3Keys, BucketError> {
        Err(absent("s3", "s3"))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub async fn own_aws(&self, _region: &str, _sts: Option<Location>) -> Result<S3Keys, BucketError> {
        Err(absent("s3", "s3"))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no identities of AWS.
    pub async fn own_aws_session(&self, _region: Option<&str>) -> Result<AwsSession, BucketError> {
        Err(absent("s3", "s3"))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no identities of AWS.
    pub async fn aws_json(
        &self,
        _session: &AwsSession,
        _api: AwsApi,
        _operation: &str,
        _body: &serde_json::Value,
    ) -> Result<serde_json::Value, BucketError> {
        Err(absent("s3", "s3"))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no identities of AWS.
    pub async fn own_ecr(
        &self,
        _region: &str,
        _api: (&str, bool),
    ) -> Result<(String, SecretText), BucketError> {
        Err(absent("s3", "s3"))
    }
}

#[cfg(not(feature = "gcs"))]
impl ObjectStorage {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub fn google(_token: SecretText) -> Result<Self, BucketError> {
        Err(absent("gs", "gcs"))
    }
}

#[cfg(not(feature = "gcs"))]
impl CloudCredentials<'_> {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub async fn google(&self, _shown: &str, _json: &[u8]) -> Result<SecretText, BucketError> {
        Err(absent("gs", "gcs"))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub async fn own_google(&self, _scope: &str) -> Result<SecretText, BucketError> {
        Err(absent("gs", "gcs"))
    }
}

#[cfg(not(feature = "azure"))]
impl ObjectStorage {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub fn azure(_access: AzureAccess) -> Result<Self, BucketError> {
        Err(absent("azure", "azure"))
    }
}

#[cfg(not(feature = "azure"))]
impl CloudCredentials<'_> {
    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub async fn entra(
        &self,
        _application: &EntraApplication,
        _scope: &str,
    ) -> Result<SecretText, BucketError> {
        Err(absent("azure", "azure"))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub async fn own_azure(&self, _scope: &str) -> Result<SecretText, BucketError> {
        Err(absent("azure", "azure"))
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: the build has no such buckets.
    pub async fn managed_azure(&self, _client: &str, _scope: &str) -> Result<SecretText, BucketError> {
        Err(absent("azure", "azure"))
    }
}
