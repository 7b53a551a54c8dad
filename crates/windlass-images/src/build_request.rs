//! What an ImageBuild asks for, checked before anything is asked of a server; and with which logins.

use windlass_base::redact::SecretText;
use windlass_cluster::Cluster;
use windlass_controller::{ReconcileError, References, SecretData, SecretReadError};
use windlass_engine::Disposition;
use windlass_fetch::http::{Credentials, Pem, Tls};
use windlass_fetch::location::Location;
use windlass_fetch::maven::{MavenCoordinates, MavenFile, VersionWish};
use windlass_fetch::maven_image::path_in_image;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::check_image_path;
use windlass_fetch::oci::credentials::Credentials as RegistryCredentials;

use super::image_build_api::{BuiltOf, ImageBuildSpec};
use super::image_reference::image_location;
use super::pull_logins::registry_logins;

/// The version of specs that name none.
const RELEASE: &str = "RELEASE";

/// A checked spec.
#[derive(Debug)]
pub(crate) struct BuildRequest {
    pub(crate) artifact: MavenCoordinates,
    pub(crate) repository: Location,
    pub(crate) version: String,
    pub(crate) base: OciReference,
    pub(crate) target: OciReference,
    /// Path of the file in the image.
    pub(crate) path: String,
}

fn invalid(field: &str, why: impl std::fmt::Display) -> ReconcileError {
    ReconcileError::Config(format!("spec.{field}: {why}"))
}

impl BuildRequest {
    /// # Errors
    /// A field has no usable value; the text names it.
    pub(crate) fn of(spec: &ImageBuildSpec) -> Result<Self, ReconcileError> {
        let artifact = MavenCoordinates::parse(&spec.artifact).map_err(|error| invalid("artifact", error))?;
        let url = &spec.repository.url;
        let repository = Location::parse(url).map_err(|error| invalid("repository.url", error))?;
        if !matches!(repository.scheme.as_str(), "http" | "https") {
            return Err(invalid("repository.url", "write an http:// or https:// URL"));
        }
        if repository.user().is_some() {
            return Err(invalid(
                "repository.url",
                "it has a login in it: name a Secret in repository.secretRef",
            ));
        }
        let version = if spec.version.is_empty() { RELEASE } else { &spec.version };
        VersionWish::parse(version).map_err(|error| invalid("version", error))?;
        let base = image_location(&spec.base).map_err(|error| invalid("base", error))?;
        let target = image_location(&spec.image).map_err(|error| invalid("image", error))?;
        if target.digest.is_some() {
            return Err(invalid(
                "image",
                format!("{:?} has a digest: name the tag that the image gets", spec.image),
            ));
        }
        // Each build would be the base of the next one.
        if base.digest.is_none() && base == target {
            return Err(invalid("image", format!("{:?} is the base: name another tag", spec.image)));
        }
        let path = path_in_image(&spec.path, &artifact);
        check_image_path(&path).map_err(|error| invalid("path", error))?;
        Ok(Self { artifact, repository, version: version.to_owned(), base, target, path })
    }

    /// What an image is built of now.
    pub(crate) fn inputs(&self, file: &MavenFile, base_digest: &str) -> BuiltOf {
        BuiltOf {
            artifact: self.artifact.to_string(),
            version: file.version.clone(),
            file: file.url.file_name().to_owned(),
            checksum: file.checksum.to_string(),
            base: self.base.to_string(),
            base_digest: base_digest.to_owned(),
            path: self.path.clone(),
        }
    }
}

/// The logins of an ImageBuild: of Secrets of its namespace, and no others.
pub(crate) struct BuildLogins {
    pub(crate) maven: Option<Credentials>,
    pub(crate) maven_tls: Tls,
    pub(crate) pull: RegistryAccess,
    pub(crate) push: RegistryAccess,
}

/// How a registry is accessed.
pub(crate) struct RegistryAccess {
    pub(crate) credentials: RegistryCredentials,
    pub(crate) tls: Tls,
}

/// Reads the Secrets of a namespace that an object names.
pub(crate) struct LoginReader<'r> {
    /// Reads with the rights of the object's ServiceAccount, if it has one.
    pub(crate) cluster: &'r Cluster,
    pub(crate) namespace: &'r str,
    /// What was read, to be watched.
    pub(crate) references: &'r mut References,
}

impl LoginReader<'_> {
    /// # Errors
    /// A Secret is missing, or has no login; the text names it and the field.
    pub(crate) async fn logins(&mut self, spec: &ImageBuildSpec) -> Result<BuildLogins, ReconcileError> {
        let (mut maven, mut maven_tls) = (None, Tls::default());
        if let Some(reference) = &spec.repository.secret_ref {
            let field = "repository.secretRef";
            let secret = self.secret(field, &reference.name).await?;
            maven_tls = tls_of(&secret);
            maven = match (secret.text("username"), secret.text("password")) {
                (Some(user), Some(password)) => Some(Credentials::Basic(user, SecretText::new(password))),
                (None, None) if maven_tls.ca.is_some() => None,
                _ => {
                    let text =
                        format!("Secret {} needs username and password, or ca.crt alone", secret.name());
                    return Err(invalid(field, text));
                }
            };
        }
        let pull = self.registry("pullSecret", &spec.pull_secret).await?;
        let push = self.registry("pushSecret", &spec.push_secret).await?;
        Ok(BuildLogins { maven, maven_tls, pull, push })
    }

    async fn registry(&mut self, field: &str, name: &str) -> Result<RegistryAccess, ReconcileError> {
        if name.is_empty() {
            return Ok(RegistryAccess { credentials: RegistryCredentials::none(), tls: Tls::default() });
        }
        let secret = self.secret(field, name).await?;
        let credentials = registry_logins(&secret);
        let credentials =
            credentials.map_err(|error| invalid(field, format!("Secret {}: {error}", secret.name())))?;
        Ok(RegistryAccess { credentials, tls: tls_of(&secret) })
    }

    async fn secret(&mut self, field: &str, name: &str) -> Result<SecretData, ReconcileError> {
        let read = SecretData::read_watched(self.cluster, self.references, self.namespace, name).await;
        read.map_err(|error| {
            let text = match error {
                SecretReadError::NotFound(_) => format!("Secret {}/{name} does not exist", self.namespace),
                error @ (SecretReadError::EmptyName | SecretReadError::Base64(_)) => {
                    return invalid(field, format!("Secret {}/{name}: {error}", self.namespace));
                }
                SecretReadError::Request(error) => {
                    format!("Secret {}/{name} cannot be read: {error}", self.namespace)
                }
            };
            // It may be there later.
            let (reason, text) = ("ReferenceUnavailable", format!("spec.{field}: {text}"));
            ReconcileError::Reason { reason, text, disposition: Disposition::Retry }
        })
    }
}

fn tls_of(secret: &SecretData) -> Tls {
    Tls { ca: secret.get("ca.crt").map(|bytes| Pem::Text(bytes.into())), ..Tls::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_build_api::MavenRepositoryReference;

    fn spec() -> ImageBuildSpec {
        ImageBuildSpec {
            artifact: "com.example:shop".to_owned(),
            repository: MavenRepositoryReference {
                url: "https://maven.example.com/releases".to_owned(),
                ..MavenRepositoryReference::default()
            },
            base: "registry.example.com/liberty:24".to_owned(),
            path: "/config/dropins/".to_owned(),
            image: "registry.example.com/shop:1".to_owned(),
            ..ImageBuildSpec::default()
        }
    }

    #[test]
    fn a_spec_is_checked_before_anything_is_asked() {
        let request = BuildRequest::of(&spec()).unwrap();
        assert_eq!(
            (request.version.as_str(), request.path.as_str()),
            ("RELEASE", "/config/dropins/shop.war")
        );
        type Change = fn(&mut ImageBuildSpec);
        let table: [(Change, &str); 14] = [
            (|s| s.artifact.clear(), "spec.artifact: invalid artifact \"\""),
            (|s| s.artifact = "a:../b".to_owned(), "spec.artifact: invalid artifact"),
            (|s| s.repository.url.clear(), "spec.repository.url: "),
            (|s| s.repository.url = "file:///etc".to_owned(), "spec.repository.url: "),
            (|s| s.repository.url = "https://me:secret@m".to_owned(), "spec.repository.url: it has a login"),
            (|s| s.version = "../1".to_owned(), "spec.version: invalid version"),
            (|s| s.version = "[1,".to_owned(), "spec.version: "),
            (|s| s.base.clear(), "spec.base: "),
            (|s| s.base = "a".repeat(501), "spec.base: an image of 501 bytes"),
            (|s| s.image = "a b".to_owned(), "spec.image: "),
            (|s| s.image = format!("r.test/a@sha256:{}", "0".repeat(64)), "spec.image: \"r.test/a@sha256"),
            (|s| s.image.clone_from(&s.base), "spec.image: \"registry.example.com/liberty:24\" is the base"),
            (|s| s.path = "/a/../b".to_owned(), "spec.path: invalid path"),
            (|s| s.path = "app.war".to_owned(), "spec.path: invalid path"),
        ];
        for (change, part) in table {
            let mut spec = spec();
            change(&mut spec);
            let error = BuildRequest::of(&spec).unwrap_err().to_string();
            assert!(error.starts_with(part) && !error.contains("secret@"), "{error}");
        }
    }
}
