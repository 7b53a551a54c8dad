//! Parses chart references: paths, URLs and `NAME/CHART`.

use std::path::PathBuf;

use super::location::{BadLocation, Location};

/// A chart's name on a command line or in a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChartReference {
    /// A directory or package on disk.
    Path(PathBuf),
    /// `NAME/CHART` of a repository in `repositories.yaml`.
    Repository {
        /// The repository's name.
        repository: String,
        /// The chart's name in it.
        chart: String,
    },
    /// A package at an `http` or `https` URL.
    Url(Location),
    /// An artifact of a registry: `oci://HOST/PATH[:TAG][@DIGEST]`, without the scheme.
    Oci(String),
    /// A directory of a Git repository: `git+https://…//path?ref=…`, `git+ssh://…`.
    Git(Location),
    /// A package in a bucket: `s3://bucket/key`, `gs://bucket/key`.
    Bucket(Location),
}

/// Why a reference is invalid; `Display` is Helm's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReference {
    /// It looks like a URL and is not one.
    #[error(transparent)]
    Location(#[from] BadLocation),
    /// It is a URL with another scheme.
    #[error("scheme {0:?} not supported")]
    Scheme(String),
    /// It is neither URL nor path nor `NAME/CHART`.
    #[error("non-absolute URLs should be in form of repo_name/path_to_chart, got: {0}")]
    Form(String),
}

impl ChartReference {
    /// Classifies a reference without access to the file system. An existing path takes precedence over all other kinds;
    /// the caller checks that.
    ///
    /// # Errors
    /// It is invalid.
    pub fn parse(text: &str) -> Result<Self, BadReference> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix("file://") {
            return Ok(Self::Path(path.into()));
        }
        if let Some(rest) = text.strip_prefix("oci://") {
            return Ok(Self::Oci(rest.to_owned()));
        }
        if Location::is_absolute(text) {
            let location = Location::parse(text)?;
            return match location.scheme.as_str() {
                "http" | "https" => Ok(Self::Url(location)),
                "git+http" | "git+https" | "git+ssh" | "git+file" => Ok(Self::Git(location)),
                "s3" | "gs" => Ok(Self::Bucket(location)),
                other => Err(BadReference::Scheme(other.to_owned())),
            };
        }
        if text.starts_with(['/', '.']) {
            return Ok(Self::Path(text.into()));
        }
        match text.split_once('/') {
            Some((repository, chart)) if !repository.is_empty() && !chart.is_empty() => {
                Ok(Self::Repository { repository: repository.to_owned(), chart: chart.to_owned() })
            }
            _ => Err(BadReference::Form(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_apart() {
        let repository =
            |r: &str, c: &str| ChartReference::Repository { repository: r.into(), chart: c.into() };
        let url = |s: &str| Location::parse(s).unwrap();
        let table = [
            ("./web", ChartReference::Path("./web".into())),
            ("/web-1.tgz", ChartReference::Path("/web-1.tgz".into())),
            ("file:///srv/web", ChartReference::Path("/srv/web".into())),
            ("stable/web", repository("stable", "web")),
            ("stable/team/web", repository("stable", "team/web")),
            ("https://h/web-1.tgz", ChartReference::Url(url("https://h/web-1.tgz"))),
            ("oci://h:5000/a/web:1.0.0", ChartReference::Oci("h:5000/a/web:1.0.0".into())),
            ("git+https://h/r.git//web?ref=v1", ChartReference::Git(url("git+https://h/r.git//web?ref=v1"))),
            ("s3://bucket/web-1.tgz", ChartReference::Bucket(url("s3://bucket/web-1.tgz"))),
        ];
        for (text, want) in table {
            assert_eq!(ChartReference::parse(text), Ok(want), "{text}");
        }
        let bad = [
            ("web", "non-absolute URLs should be in form of repo_name/path_to_chart, got: web"),
            ("ftp://h/x", "scheme \"ftp\" not supported"),
            ("https:///x", "invalid chart URL format: https:///x"),
        ];
        for (text, want) in bad {
            assert_eq!(ChartReference::parse(text).unwrap_err().to_string(), want);
        }
    }
}
