//! Images as Docker and Kubernetes write them: short names, ports, tags, digests. Pure.

use windlass_fetch::oci::artifact_reference::OciReference;

/// The tag of an image that names none.
const LATEST: &str = "latest";
/// Docker's registry, which short names are of.
const DOCKER: &str = "docker.io";
/// The longest image, in bytes: a name has at most 255, a tag 128, a digest 71.
const MAX_IMAGE: usize = 500;

/// An image of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImageReference {
    /// As it is asked for, with its registry; it has a tag unless it has only a digest.
    pub(crate) location: OciReference,
    /// The name as it was written, without tag and digest.
    name: String,
}

impl ImageReference {
    /// Reads the image of a container.
    ///
    /// # Errors
    /// It is no image; the text says why.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_IMAGE {
            return Err(format!("an image of {} bytes: more than {MAX_IMAGE} are not read", text.len()));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash is that of a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (host, path.to_owned()),
            _ => (DOCKER, name.to_owned()),
        };
        let registry = if registry == "index.docker.io" { DOCKER } else { registry };
        let path = match registry == DOCKER && !path.contains('/') {
            true => format!("library/{path}"),
            false => path,
        };
        let tag = tag.or(digest.is_none().then_some(LATEST));
        let tag = tag.map(|tag| format!(":{tag}")).unwrap_or_default();
        let digest = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        let location = OciReference::parse(&format!("{registry}/{path}{tag}{digest}"));
        let location = location.map_err(|error| format!("{text:?}: {error}"))?;
        Ok(Self { location, name: name.to_owned() })
    }

    /// The tag; `None` if the image has only a digest.
    pub(crate) fn tag(&self) -> Option<&str> {
        self.location.tag.as_deref()
    }

    /// The name as it was written, without tag and digest.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its registry and path, however the name was written.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.location.registry, self.location.repository)
    }

    /// The text of the same image with another tag and digest. The digest counts; the tag is for people, and for the next check.
    pub(crate) fn pinned(&self, tag: &str, digest: &str) -> String {
        format!("{}:{tag}@{digest}", self.name)
    }

    /// The same image by another tag.
    pub(crate) fn tagged(&self, tag: &str) -> OciReference {
        OciReference { tag: Some(tag.to_owned()), digest: None, ..self.location.clone() }
    }

    /// The same image by a digest.
    pub(crate) fn at(&self, digest: &str) -> OciReference {
        OciReference { tag: None, digest: Some(digest.to_owned()), ..self.location.clone() }
    }
}

/// Where an image is, as Docker and Kubernetes read its name.
///
/// # Errors
/// It is no image; the text says why.
pub fn image_location(text: &str) -> Result<OciReference, String> {
    ImageReference::parse(text).map(|image| image.location)
}

/// The digest of an `imageID` in the status of a Pod: `NAME@sha256:…`, with or without a scheme before it.
pub(crate) fn running_digest(image_id: &str) -> Option<&str> {
    let digest = image_id.rsplit_once('@').map_or(image_id, |(_, digest)| digest);
    digest.starts_with("sha256:").then_some(digest).filter(|_| image_id.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_as_docker_reads_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let pinned = format!("nginx:1.25@{digest}");
        let bare = format!("ghcr.io/a/b@{digest}");
        for (text, registry, repository, tag, has_digest) in [
            ("nginx", "docker.io", "library/nginx", Some("latest"), false),
            ("nginx:1.25", "docker.io", "library/nginx", Some("1.25"), false),
            ("bitnami/redis:7", "docker.io", "bitnami/redis", Some("7"), false),
            ("docker.io/nginx", "docker.io", "library/nginx", Some("latest"), false),
            ("index.docker.io/a/b:c", "docker.io", "a/b", Some("c"), false),
            ("localhost/web", "localhost", "web", Some("latest"), false),
            ("127.0.0.1:5000/web", "127.0.0.1:5000", "web", Some("latest"), false),
            ("registry:5000/team/web:v1.2", "registry:5000", "team/web", Some("v1.2"), false),
            ("ghcr.io/a/b:c", "ghcr.io", "a/b", Some("c"), false),
            (&pinned, "docker.io", "library/nginx", Some("1.25"), true),
            (&bare, "ghcr.io", "a/b", None, true),
        ] {
            let read = ImageReference::parse(text).unwrap();
            let OciReference { registry: host, repository: path, .. } = &read.location;
            assert_eq!((host.as_str(), path.as_str(), read.tag()), (registry, repository, tag), "{text}");
            assert_eq!(read.location.digest.is_some(), has_digest, "{text}");
        }
        for bad in ["", "Nginx", "nginx:", "a/b@sha256:1", "a b", &"a".repeat(600)] {
            assert!(ImageReference::parse(bad).is_err(), "{bad}");
        }
        let next = ImageReference::parse("registry:5000/web:1").unwrap().pinned("2", &digest);
        assert_eq!(next, format!("registry:5000/web:2@{digest}"));
        assert_eq!(ImageReference::parse(&next).unwrap().pinned("2", &digest), next);
    }

    #[test]
    fn running_digests_are_read_of_every_runtime() {
        for (id, expected) in [
            ("docker.io/library/nginx@sha256:1", Some("sha256:1")),
            ("docker-pullable://nginx@sha256:1", Some("sha256:1")),
            // The digest of the configuration, which no registry serves as an image.
            ("sha256:1", None),
            ("", None),
        ] {
            assert_eq!(running_digest(id), expected, "{id}");
        }
    }
}
