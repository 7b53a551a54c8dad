//! One version of a chart in an index (`repo.ChartVersion`).

use std::cmp::Ordering;

use chart_compat::chart::{self, Metadata};
use chart_compat::data::{Data, Map};
use chart_compat::go::fmt::float32;
use chart_compat::go::semver;
use chart_compat::profile::Profile;

use super::IndexError;

/// A version of a chart, and its location.
#[derive(Clone, Debug, Default)]
pub struct ChartVersion {
    /// Its `Chart.yaml`.
    pub metadata: Metadata,
    /// Where to fetch it, relative to the repository or absolute; the first counts.
    pub urls: Vec<String>,
    /// When it was created, RFC 3339.
    pub created: String,
    /// Whether it was removed.
    pub removed: bool,
    /// SHA-256 of the package in hex, `sha256:` before it or not; empty if unknown.
    pub digest: String,
}

/// The result of an item of an index.
pub(super) enum Item {
    Version(Box<ChartVersion>),
    /// Invalid and omitted, as by Helm; the reason.
    Skipped(String),
}

impl ChartVersion {
    /// Parses an item.
    ///
    /// # Errors
    /// A field has the wrong type, in Go's words: then the whole index is invalid.
    pub(super) fn read(item: &Data) -> Result<Item, IndexError> {
        let Data::Map(map) = item else {
            return match item {
                Data::Null => Ok(Item::Skipped("empty entry".to_owned())),
                _ => Err(IndexError::no_object()),
            };
        };
        let mut out = Self::default();
        out.metadata.read(map, Profile::Helm4).map_err(IndexError::Wrong)?;
        out.urls = strings(map, "urls")?;
        out.created = text(map, "created")?;
        out.digest = text(map, "digest")?;
        out.removed = map.get("removed").and_then(Data::as_bool).unwrap_or_default();
        if out.metadata.api_version.is_empty() {
            out.metadata.api_version = "v1".to_owned();
        }
        match out.metadata.validate() {
            // Some repositories drop the aliases of dependencies.
            Ok(()) | Err(chart::Error::DuplicateDependency(_)) => Ok(Item::Version(Box::new(out))),
            Err(error) => Ok(Item::Skipped(error.to_string())),
        }
    }

    /// The order of an index: highest version first, invalid ones last (`ChartVersions.Less`, reversed).
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (semver::parse(&self.metadata.version), semver::parse(&other.metadata.version)) {
            (Ok(a), Ok(b)) => semver::compare(&b, &a),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => Ordering::Equal,
        }
    }

    /// The item as Helm writes it.
    #[must_use]
    pub fn data(&self) -> Data {
        let Data::Map(mut map) = self.metadata.data() else { return Data::Null };
        map.insert("urls".to_owned(), Data::List(self.urls.iter().map(|u| u.as_str().into()).collect()));
        map.insert("created".to_owned(), self.created.as_str().into());
        if self.removed {
            map.insert("removed".to_owned(), true.into());
        }
        if !self.digest.is_empty() {
            map.insert("digest".to_owned(), self.digest.as_str().into());
        }
        Data::Map(map)
    }
}

fn wrong(key: &str) -> IndexError {
    IndexError::Wrong(format!(
        "error unmarshaling JSON: while decoding JSON: {key} of an entry has the wrong type"
    ))
}

/// Converts a scalar to text, as sigs.k8s.io/yaml does: a digest of digits only is a number in YAML.
fn scalar(d: &Data) -> Option<String> {
    Some(match d {
        Data::String(s) => s.clone(),
        Data::Bool(b) => b.to_string(),
        Data::Int(i) => i.to_string(),
        Data::Float(f) => float32(*f),
        Data::Null | Data::List(_) | Data::Map(_) => return None,
    })
}

fn text(map: &Map, key: &str) -> Result<String, IndexError> {
    match map.get(key) {
        None | Some(Data::Null) => Ok(String::new()),
        Some(d) => scalar(d).ok_or_else(|| wrong(key)),
    }
}

fn strings(map: &Map, key: &str) -> Result<Vec<String>, IndexError> {
    match map.get(key) {
        None | Some(Data::Null) => Ok(Vec::new()),
        Some(Data::List(list)) => list.iter().map(|d| scalar(d).ok_or_else(|| wrong(key))).collect(),
        Some(_) => Err(wrong(key)),
    }
}

/// A range of versions that is none, in the words of Masterminds' library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRange(pub String);

/// Which version is requested (`IndexFile.Get`).
#[derive(Debug, PartialEq, Eq)]
pub enum Choice<'v> {
    /// This one.
    Found(&'v str),
    /// Another version than the requested one; Helm warns.
    Near(&'v str),
    /// None.
    None,
}

/// Chooses a version: the exact text first, else the first in the range. `versions`: highest first; without a
/// request, the newest stable one.
///
/// # Errors
/// The range is invalid, in the words of Masterminds' library.
pub fn choose<'v>(
    versions: impl Iterator<Item = &'v str> + Clone,
    wish: &str,
) -> Result<Choice<'v>, BadRange> {
    let range = semver::Range::parse(if wish.is_empty() { "*" } else { wish }).map_err(BadRange)?;
    if !wish.is_empty()
        && let Some(exact) = versions.clone().find(|v| *v == wish)
    {
        return Ok(Choice::Found(exact));
    }
    let fits = |v: &&str| semver::parse(v).is_ok_and(|v| range.check(&v));
    Ok(match versions.into_iter().find(fits) {
        Some(v) if wish.is_empty() || is_range(wish) => Choice::Found(v),
        Some(v) => Choice::Near(v),
        None => Choice::None,
    })
}

/// Whether a text is a range rather than one version (`isVersionRange`).
#[must_use]
pub fn is_range(wish: &str) -> bool {
    if wish.contains(['^', '~', '<', '>', '=', '!', '*']) || wish.contains("||") || wish.contains(" - ") {
        return true;
    }
    wish.split(['-', '+']).next().unwrap_or_default().contains(['x', 'X'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_chosen_as_helm_chooses() {
        let versions = ["2.0.0-rc.1", "1.10.0", "1.9.3+build", "1.9.3", "v1.2", "junk"];
        // (requested version, Helm's choice)
        let table = [
            ("", Choice::Found("1.10.0")),
            ("1.9.3", Choice::Found("1.9.3")),
            ("1.9.3+other", Choice::Near("1.9.3+build")),
            ("^1.9", Choice::Found("1.10.0")),
            ("~1.9", Choice::Found("1.9.3+build")),
            (">0.0.0-0", Choice::Found("2.0.0-rc.1")),
            ("1.2", Choice::Near("v1.2")),
            ("1.2.x", Choice::Found("v1.2")),
            ("3.x", Choice::None),
            ("junk", Choice::None),
        ];
        for (wish, want) in table {
            match choose(versions.iter().copied(), wish) {
                Ok(found) => assert_eq!(found, want, "{wish}"),
                Err(e) => assert_eq!((wish, e.0.as_str()), ("junk", "improper constraint: \"junk\"")),
            }
        }
    }

    #[test]
    fn the_highest_version_comes_first() {
        let of = |v: &str| {
            let mut out = ChartVersion::default();
            out.metadata.version = v.to_owned();
            out
        };
        let mut all: Vec<_> = ["1.2.0", "x", "1.10.0", "1.10.0-rc", "v2"].into_iter().map(of).collect();
        all.sort_by(ChartVersion::order);
        let names: Vec<&str> = all.iter().map(|c| c.metadata.version.as_str()).collect();
        assert_eq!(names, ["v2", "1.10.0", "1.10.0-rc", "1.2.0", "x"]);
    }
}
