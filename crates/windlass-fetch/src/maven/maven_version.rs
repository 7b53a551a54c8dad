//! Versions as Maven orders them, and ranges of them.
//!
//! Source: the section "Version Order Specification" of Maven's POM reference, and its ranges of dependencies.

use std::cmp::Ordering;

/// The most bytes of a version; longer ones are equal from there on.
const MAX_VERSION: usize = 256;

/// A version, split as Maven splits it. Versions that are written differently may be equal: `1`, `1.0` and `1-ga` are.
#[derive(Clone, Debug)]
pub struct MavenVersion(Vec<Token>);

#[derive(Clone, Debug)]
struct Token {
    /// Whether a dot is before it; else a hyphen, or a change between digits and letters.
    after_dot: bool,
    part: Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Digits without leading zeros; empty: zero.
    Number(String),
    /// A qualifier in lower case.
    Text(String),
}

impl MavenVersion {
    /// Splits a version. Every text is one.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut tokens = Vec::new();
        let text: String = text.chars().take(MAX_VERSION).collect::<String>().to_lowercase();
        let (mut word, mut after_dot) = (String::new(), true);
        let mut characters = text.chars().peekable();
        while let Some(c) = characters.next() {
            let separator = matches!(c, '.' | '-' | '_');
            if !separator {
                word.push(c);
            }
            let changes = characters.peek().is_some_and(|next| {
                !separator && !matches!(next, '.' | '-' | '_') && next.is_ascii_digit() != c.is_ascii_digit()
            });
            if separator || changes {
                let before_digit = changes && !c.is_ascii_digit();
                tokens.push(token(std::mem::take(&mut word), after_dot, before_digit));
                after_dot = c == '.';
            }
        }
        tokens.push(token(word, after_dot, false));
        Self(trimmed(tokens))
    }
}

fn token(word: String, after_dot: bool, before_digit: bool) -> Token {
    let part = match word.as_str() {
        "" => Part::Number(String::new()),
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
            Part::Number(digits.trim_start_matches('0').to_owned())
        }
        "a" if before_digit => Part::Text("alpha".to_owned()),
        "b" if before_digit => Part::Text("beta".to_owned()),
        "m" if before_digit => Part::Text("milestone".to_owned()),
        "cr" => Part::Text("rc".to_owned()),
        "final" | "ga" | "release" => Part::Text(String::new()),
        _ => Part::Text(word),
    };
    Token { after_dot, part }
}

/// Without what means nothing at the end, and before each hyphen.
fn trimmed(mut tokens: Vec<Token>) -> Vec<Token> {
    let is_null =
        |token: &Token| matches!(&token.part, Part::Number(text) | Part::Text(text) if text.is_empty());
    let mut end = tokens.len();
    while end > 0 {
        if end == tokens.len() || tokens.get(end).is_some_and(|next| !next.after_dot) {
            while end > 0 && tokens.get(end - 1).is_some_and(is_null) {
                end -= 1;
                tokens.remove(end);
            }
        }
        end = end.saturating_sub(1);
    }
    tokens
}

/// The place of a qualifier; those without one come last, in the order of their letters.
fn rank(text: &str) -> (usize, &str) {
    let known = ["alpha", "beta", "milestone", "rc", "snapshot", "", "sp"];
    known.iter().position(|name| *name == text).map_or((known.len(), text), |at| (at, ""))
}

impl Ord for MavenVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        let nothing = |like: &Token| Token {
            after_dot: like.after_dot,
            part: match like.part {
                Part::Number(_) if like.after_dot => Part::Number(String::new()),
                _ => Part::Text(String::new()),
            },
        };
        for at in 0..self.0.len().max(other.0.len()) {
            let order = match (self.0.get(at), other.0.get(at)) {
                (Some(a), Some(b)) => compare(a, b),
                (Some(a), None) => compare(a, &nothing(a)),
                (None, Some(b)) => compare(&nothing(b), b),
                (None, None) => Ordering::Equal,
            };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

fn compare(a: &Token, b: &Token) -> Ordering {
    match (&a.part, &b.part) {
        (Part::Text(x), Part::Text(y)) => rank(x).cmp(&rank(y)),
        (Part::Text(_), Part::Number(_)) => Ordering::Less,
        (Part::Number(_), Part::Text(_)) => Ordering::Greater,
        (Part::Number(x), Part::Number(y)) => {
            a.after_dot.cmp(&b.after_dot).then(x.len().cmp(&y.len())).then_with(|| x.cmp(y))
        }
    }
}

impl PartialOrd for MavenVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MavenVersion {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for MavenVersion {}

/// Which versions an artifact may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionWish {
    /// This one, `-SNAPSHOT` included.
    Exact(String),
    /// The latest that is no snapshot.
    Release,
    /// The latest, be it a snapshot.
    Latest,
    /// The latest in one of these ranges that is no snapshot.
    Ranges(Vec<VersionRange>),
}

/// Versions between two bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The bound below, and whether it belongs to the range.
    lower: Option<(MavenVersion, bool)>,
    /// The bound above.
    upper: Option<(MavenVersion, bool)>,
}

/// The most ranges of a wish.
const MOST_RANGES: usize = 16;

/// A text is no version and no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid version {0:?}: write a version such as 1.2 or 1.3-SNAPSHOT, a range such as [1.2,2.0) or [1.0,), LATEST or RELEASE"
)]
pub struct InvalidVersion(String);

impl VersionWish {
    /// Parses a version, ranges, `LATEST` or `RELEASE`.
    ///
    /// # Errors
    /// It is none of them.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        let invalid = || InvalidVersion(text.to_owned());
        match text {
            "LATEST" => return Ok(Self::Latest),
            "RELEASE" => return Ok(Self::Release),
            _ => {}
        }
        if !text.starts_with(['[', '(']) {
            return if is_file_part(text) { Ok(Self::Exact(text.to_owned())) } else { Err(invalid()) };
        }
        let mut ranges = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if ranges.len() == MOST_RANGES {
                return Err(invalid());
            }
            let end = rest.find([']', ')']).ok_or_else(invalid)?;
            let (range, after) = rest.split_at_checked(end + 1).ok_or_else(invalid)?;
            ranges.push(range_of(range).ok_or_else(invalid)?);
            rest = match after.strip_prefix(',') {
                Some("") => return Err(invalid()),
                Some(next) => next,
                None if after.is_empty() => after,
                None => return Err(invalid()),
            };
        }
        Ok(Self::Ranges(ranges))
    }

    /// The latest of these versions that fits.
    #[must_use]
    pub fn choose<'v>(&self, versions: impl Iterator<Item = &'v str>) -> Option<&'v str> {
        let fits = |version: &&str| {
            let is_release = !version.to_ascii_uppercase().ends_with("-SNAPSHOT");
            match self {
                Self::Exact(wanted) => version == wanted,
                Self::Latest => true,
                Self::Release => is_release,
                Self::Ranges(ranges) if is_release => {
                    let version = MavenVersion::parse(version);
                    ranges.iter().any(|range| range.contains(&version))
                }
                Self::Ranges(_) => false,
            }
        };
        versions.filter(fits).max_by_key(|version| MavenVersion::parse(version))
    }
}

impl VersionRange {
    fn contains(&self, version: &MavenVersion) -> bool {
        let above =
            self.lower.as_ref().is_none_or(|(bound, own)| version > bound || *own && version == bound);
        let below =
            self.upper.as_ref().is_none_or(|(bound, own)| version < bound || *own && version == bound);
        above && below
    }
}

/// `[a,b)` and its kin; `[a]` is `[a,a]`.
fn range_of(text: &str) -> Option<VersionRange> {
    let lower_belongs = text.starts_with('[');
    if !lower_belongs && !text.starts_with('(') {
        return None;
    }
    let upper_belongs = text.ends_with(']');
    let inner = text.get(1..text.len().checked_sub(1)?)?;
    let bound = |text: &str, belongs: bool| match text.trim() {
        "" => Some(None),
        version if is_file_part(version) => Some(Some((MavenVersion::parse(version), belongs))),
        _ => None,
    };
    match inner.split_once(',') {
        Some((lower, upper)) => {
            let (lower, upper) = (bound(lower, lower_belongs)?, bound(upper, upper_belongs)?);
            let is_empty = matches!((&lower, &upper), (Some((a, _)), Some((b, _))) if a > b);
            (!is_empty).then_some(VersionRange { lower, upper })
        }
        None if lower_belongs && upper_belongs => {
            let only = bound(inner, true)?;
            only.is_some().then_some(VersionRange { lower: only.clone(), upper: only })
        }
        None => None,
    }
}

/// Whether a text may be part of the name of a file of a repository.
pub(super) fn is_file_part(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    !text.is_empty()
        && text.len() <= MAX_VERSION
        && text.chars().all(allowed)
        && !text.starts_with('.')
        && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_the_reference_says() {
        let ascending = [
            &["1-alpha-1", "1-a1", "1.alpha1"][..],
            &["1-beta1", "1-b1"],
            &["1-milestone-2", "1-m2"],
            &["1-rc", "1-cr"],
            &["1-SNAPSHOT"],
            &["1", "1.0", "1.0.0", "1-ga", "1.final", "1-0", "1.0-release"],
            &["1-sp"],
            &["1-foo2"],
            &["1-foo10"],
            &["1-1"],
            &["1-2"],
            &["1.0.1"],
            &["1.1", "1.01"],
            &["1.10"],
            &["1.1000000000000000000000000000000"],
            &["2.0-SNAPSHOT"],
            &["2"],
        ];
        for (at, equal) in ascending.iter().enumerate() {
            for (other, same) in ascending.iter().enumerate() {
                for (a, b) in equal.iter().flat_map(|a| same.iter().map(move |b| (a, b))) {
                    let order = MavenVersion::parse(a).cmp(&MavenVersion::parse(b));
                    assert_eq!(order, at.cmp(&other), "{a} and {b}");
                }
            }
        }
        assert_eq!(MavenVersion::parse("1.0.0-foo.0.0"), MavenVersion::parse("1-foo"));
        assert_eq!(MavenVersion::parse("1.0.0-0.0.0"), MavenVersion::parse("1"));
        assert!(MavenVersion::parse(&"1.".repeat(1_000_000)) > MavenVersion::parse(""));
    }

    #[test]
    fn the_latest_version_that_fits_is_chosen() {
        let all = ["1.0", "1.9", "1.10", "2.0-rc1", "2.0", "2.1-SNAPSHOT", "1.11"];
        for (wish, chosen) in [
            ("[1.0,2.0)", Some("2.0-rc1")),
            ("[1.0,1.99]", Some("1.11")),
            ("(,1.10)", Some("1.9")),
            ("[1.5,)", Some("2.0")),
            ("(2.0,)", None),
            ("[1.9]", Some("1.9")),
            ("[1.0,1.2],[1.9,1.10]", Some("1.10")),
            ("RELEASE", Some("2.0")),
            ("LATEST", Some("2.1-SNAPSHOT")),
            ("1.9", Some("1.9")),
            ("3", None),
        ] {
            assert_eq!(VersionWish::parse(wish).unwrap().choose(all.into_iter()), chosen, "{wish}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        let long = "1".repeat(1000);
        for text in [
            "", "[", "[1", "(1)", "[]", "[2,1]", "[1,2", "[1,2],", "[1,2]x", "../1", "a/b", "1 2", "1\n",
            ".", &long,
        ] {
            let error = VersionWish::parse(text).unwrap_err().to_string();
            assert!(error.contains("write a version such as 1.2"), "{text:?}: {error}");
        }
    }
}
