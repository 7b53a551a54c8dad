//! Flux's kinds by the names that users type. Pure.

use flux_api::api_names::SOURCES;
use windlass_cluster::{Gvk, ObjectRef};

/// A kind of Flux, with the names that select it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FluxKind {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// Its name after `source`; empty: it is no source.
    source: &'static str,
    /// Names of its own: plural, singular and short ones.
    names: &'static [&'static str],
}

/// All kinds, sources last.
pub(super) const KINDS: [FluxKind; 7] = [
    FluxKind {
        api_version: "helm.toolkit.fluxcd.io/v2",
        kind: "HelmRelease",
        source: "",
        names: &["helmreleases", "helmrelease", "hr"],
    },
    source("HelmRepository", "helm", &["helmrepositories", "helmrepository", "helmrepo"]),
    source("HelmChart", "chart", &["helmcharts", "helmchart", "hc"]),
    source("OCIRepository", "oci", &["ocirepositories", "ocirepository", "ocirepo"]),
    source("GitRepository", "git", &["gitrepositories", "gitrepository", "gitrepo"]),
    source("Bucket", "bucket", &["buckets", "bucket"]),
    source("ExternalArtifact", "external", &["externalartifacts", "externalartifact", "ea"]),
];

const fn source(kind: &'static str, source: &'static str, names: &'static [&'static str]) -> FluxKind {
    FluxKind { api_version: SOURCES, kind, source, names }
}

impl FluxKind {
    pub(super) fn gvk(&self) -> Gvk {
        Gvk::new(self.api_version, self.kind)
    }

    pub(super) fn object(&self, namespace: &str, name: &str) -> ObjectRef {
        ObjectRef::new(self.gvk(), Some(namespace), name)
    }

    pub(super) fn is_source(&self) -> bool {
        !self.source.is_empty()
    }
}

/// Kinds, and the name of one object if there is one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) kinds: Vec<&'static FluxKind>,
    pub(super) name: Option<String>,
}

impl Selection {
    /// Reads `KIND [NAME]`, `source KIND [NAME]`, `source all` or `all`.
    ///
    /// # Errors
    /// A word is no kind, or there are too many words.
    pub(super) fn parse(words: &[String]) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (kinds, rest) = match &words[..] {
            ["all", rest @ ..] => (KINDS.iter().collect(), rest),
            ["source" | "sources", "all", rest @ ..] => {
                (KINDS.iter().filter(|kind| kind.is_source()).collect(), rest)
            }
            ["source" | "sources", name, rest @ ..] => {
                let found = KINDS
                    .iter()
                    .find(|kind| kind.is_source() && (kind.source == *name || kind.names.contains(name)));
                let known = || {
                    let names: Vec<&str> =
                        KINDS.iter().map(|kind| kind.source).filter(|name| !name.is_empty()).collect();
                    format!("unknown kind of source {name:?}; there are {} and all", names.join(", "))
                };
                (vec![found.ok_or_else(known)?], rest)
            }
            ["source" | "sources"] => return Err("name a kind of source, or all".to_owned()),
            [name, rest @ ..] => (vec![named(name)?], rest),
            [] => return Err("name a kind, such as helmreleases".to_owned()),
        };
        let name = match rest {
            [] => None,
            [_] if kinds.len() > 1 => return Err("a name needs one kind, not all of them".to_owned()),
            [name] => Some((*name).to_owned()),
            [_, more, ..] => return Err(format!("unexpected argument {more:?}")),
        };
        Ok(Self { kinds, name })
    }

    /// The same for verbs that work on one kind.
    ///
    /// # Errors
    /// As [`Selection::parse`], or all kinds are selected.
    pub(super) fn parse_one(words: &[String]) -> Result<(&'static FluxKind, Option<String>), String> {
        let Self { kinds, name } = Self::parse(words)?;
        match kinds[..] {
            [kind] => Ok((kind, name)),
            _ => Err("name one kind".to_owned()),
        }
    }
}

/// The kind with this name, in any case.
///
/// # Errors
/// There is none.
pub(super) fn named(name: &str) -> Result<&'static FluxKind, String> {
    let lower = name.to_lowercase();
    KINDS.iter().find(|kind| kind.names.contains(&lower.as_str())).ok_or_else(|| {
        let kinds = KINDS.iter().map(|kind| kind.names[1]).collect::<Vec<_>>().join(", ");
        format!("unknown kind {name:?}; there are {kinds}, and sources")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_names_of_flux() {
        for (words, expected) in [
            ("hr web", Ok((vec!["HelmRelease"], Some("web")))),
            ("helmreleases", Ok((vec!["HelmRelease"], None))),
            ("HelmRelease", Ok((vec!["HelmRelease"], None))),
            ("source helm a", Ok((vec!["HelmRepository"], Some("a")))),
            ("sources chart", Ok((vec!["HelmChart"], None))),
            ("source ocirepo x", Ok((vec!["OCIRepository"], Some("x")))),
            ("ea", Ok((vec!["ExternalArtifact"], None))),
            (
                "sources all",
                Ok((
                    vec![
                        "HelmRepository",
                        "HelmChart",
                        "OCIRepository",
                        "GitRepository",
                        "Bucket",
                        "ExternalArtifact",
                    ],
                    None,
                )),
            ),
            ("sources all x", Err("a name needs one kind, not all of them")),
            (
                "source tape",
                Err(
                    "unknown kind of source \"tape\"; there are helm, chart, oci, git, bucket, external and all",
                ),
            ),
            ("sources", Err("name a kind of source, or all")),
            ("hr a b", Err("unexpected argument \"b\"")),
            ("", Err("name a kind, such as helmreleases")),
        ] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let found = Selection::parse(&words);
            let short = found.map(|found| {
                (found.kinds.iter().map(|kind| kind.kind).collect::<Vec<_>>(), found.name.clone())
            });
            let expected =
                expected.map(|(kinds, name)| (kinds, name.map(str::to_owned))).map_err(str::to_owned);
            assert_eq!(short, expected, "{words:?}");
        }
        assert!(Selection::parse_one(&["all".to_owned()]).is_err());
    }
}
