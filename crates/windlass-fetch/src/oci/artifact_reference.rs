//! References to artifacts of a registry, with Helm's rule for versions: a `+` is a `_` in a tag.

/// `HOST/REPOSITORY[:TAG][@DIGEST]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference {
    /// Host and port as written.
    pub registry: String,
    /// The path of the repository.
    pub repository: String,
    /// The tag, `+` as `_`.
    pub tag: Option<String>,
    /// The digest, `sha256:…`.
    pub digest: Option<String>,
}

/// An invalid reference, in oras' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid reference: {0}")]
pub struct BadOciReference(String);

impl OciReference {
    /// Parses a reference, with or without `oci://`.
    ///
    /// # Errors
    /// It is invalid.
    pub fn parse(text: &str) -> Result<Self, BadOciReference> {
        let bad = |what: &str, part: &str| BadOciReference(format!("invalid {what} {part:?}"));
        let text = text.strip_prefix("oci://").unwrap_or(text);
        let (text, digest) = match text.rsplit_once('@') {
            Some((text, digest)) => (text, Some(digest.to_owned())),
            None => (text, None),
        };
        let (registry, path) = text
            .split_once('/')
            .ok_or_else(|| BadOciReference("missing registry or repository".to_owned()))?;
        let (repository, tag) = match path.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag.replace('+', "_"))),
            None => (path, None),
        };
        let host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
        if registry.is_empty() || !registry.chars().all(host) {
            return Err(bad("registry", registry));
        }
        if !repository.split('/').all(is_component) {
            return Err(bad("repository", repository));
        }
        if let Some(tag) = tag.as_deref().filter(|t| !is_tag(t)) {
            return Err(bad("tag", tag));
        }
        if let Some(digest) = digest.as_deref().filter(|d| !is_digest(d)) {
            return Err(bad("digest", digest));
        }
        Ok(Self { registry: registry.to_owned(), repository: repository.to_owned(), tag, digest })
    }

    /// The last segment of the repository's path: the chart's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }

    /// The same artifact with another tag.
    #[must_use]
    pub fn tagged(&self, tag: &str) -> Self {
        Self { tag: Some(tag.replace('+', "_")), digest: None, ..self.clone() }
    }

    /// The reference in a request: the digest if there is one, else the tag.
    #[must_use]
    pub fn wanted(&self) -> &str {
        self.digest.as_deref().or(self.tag.as_deref()).unwrap_or("latest")
    }

    /// The host of the registry's API.
    #[must_use]
    pub fn host(&self) -> &str {
        if self.registry == "docker.io" { "registry-1.docker.io" } else { &self.registry }
    }
}

impl std::fmt::Display for OciReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match (&self.tag, &self.digest) {
            (Some(tag), _) => write!(f, ":{tag}"),
            (None, Some(digest)) => write!(f, "@{digest}"),
            (None, None) => Ok(()),
        }
    }
}

/// Lower-case words joined by `.`, `_`, `__` or dashes.
fn is_component(text: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !text.starts_with(word) || !text.ends_with(word) || !text.chars().all(|c| word(c) || "._-".contains(c))
    {
        return false;
    }
    text.split(word)
        .filter(|s| !s.is_empty())
        .all(|s| matches!(s, "." | "_" | "__") || s.bytes().all(|c| c == b'-'))
}

/// Whether a text is a tag: at most 128 bytes of a word.
pub(super) fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128 && text.starts_with(word) && text.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

/// Whether a text is a SHA-256, `sha256:…`.
pub(super) fn is_digest(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|h| h.len() == 64 && h.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_taken_apart() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let parse = |s: &str| OciReference::parse(s).map(|r| (r.registry, r.repository, r.tag, r.digest));
        let own = |s: &str| Some(s.to_owned());
        let table = [
            ("oci://h:5000/a/web:1.0.0+x", ("h:5000".into(), "a/web".into(), own("1.0.0_x"), None)),
            ("localhost/web", ("localhost".into(), "web".into(), None, None)),
            (&*format!("h/a__b-c.d:1@{digest}"), ("h".into(), "a__b-c.d".into(), own("1"), Some(digest))),
        ];
        for (text, want) in table {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for bad in [
            "h",
            "h/",
            "/x",
            "h/A",
            "h/a//b",
            "h/a..b",
            "h/-a",
            "h/a:",
            "h/a:-",
            "h/a@sha256:x",
            "h x/a",
            "h/../x",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
