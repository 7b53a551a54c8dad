//! Policies: which tag of a repository comes after the one that runs. Pure.
//!
//! The words, and what they choose, are keel's; `digest`, `semver:` and `flux:` are ours.

use std::cell::Cell;
use std::cmp::Ordering;
use std::time::{Duration, Instant};

use chart_compat::go::glob::Glob;
use chart_compat::go::semver::{self, Range};
use regex::{Regex, RegexBuilder};
use windlass_controller::is_dns_label;

use super::tag_filter::TagFilter;

/// The largest automaton of an expression, in bytes.
const MAX_AUTOMATON: usize = 256 << 10;
/// The longest policy, in bytes.
const MAX_POLICY: usize = 512;
/// The longest time that a choice may take.
pub(crate) const CHOICE_LIMIT: Duration = Duration::from_secs(2);
/// Group of an expression whose texts are compared.
const COMPARE: &str = "compare";

/// How far versions may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bump {
    /// Any later version, whatever its prerelease.
    All,
    /// Any later version.
    Major,
    /// Of the same major number.
    Minor,
    /// Of the same major and minor numbers.
    Patch,
}

/// Which tag comes next.
pub(crate) enum Policy {
    /// None.
    Never,
    /// The same tag, also when it goes back.
    Force,
    /// The same tag, when its digest is another one.
    Digest,
    /// Later versions.
    Version(Bump),
    /// The latest version of a range.
    Range(Range),
    /// Later texts that match.
    Glob(Glob),
    /// Later texts that match, compared by the group `compare` if there is one.
    Expression(Regex),
    /// That of an ImagePolicy of Flux, by its name: not read yet.
    Flux(String),
    /// The same as it was read.
    Filter(Box<TagFilter>),
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// It is none; the text says what there is.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_POLICY {
            return Err(format!("it has {} bytes, more than {MAX_POLICY}", text.len()));
        }
        let wrong = |error: &dyn std::fmt::Display| format!("{text:?}: {error}");
        Ok(match text.split_once(':') {
            Some(("semver", range)) => Self::Range(Range::parse(range.trim()).map_err(|e| wrong(&e))?),
            Some(("glob", glob)) => {
                Self::Glob(Glob::parse(glob).ok_or_else(|| wrong(&"it is not a glob pattern"))?)
            }
            Some(("regexp", expression)) => {
                Self::Expression(bounded_expression(expression).map_err(|e| wrong(&e))?)
            }
            Some(("flux", name)) => match name.len() <= 253 && name.split('.').all(is_dns_label) {
                true => Self::Flux(name.to_owned()),
                false => return Err(wrong(&"it is not the name of an ImagePolicy")),
            },
            _ => match text {
                "never" => Self::Never,
                "force" => Self::Force,
                "digest" => Self::Digest,
                "all" => Self::Version(Bump::All),
                "major" => Self::Version(Bump::Major),
                "minor" => Self::Version(Bump::Minor),
                "patch" => Self::Version(Bump::Patch),
                _ => {
                    return Err(wrong(
                        &"there are digest, semver:RANGE, all, major, minor, patch, glob:PATTERN, regexp:EXPRESSION, flux:NAME, force and never",
                    ));
                }
            },
        })
    }

    /// Whether the tag stays, and only its digest changes.
    pub(crate) fn keeps_tag(&self) -> bool {
        matches!(self, Self::Force | Self::Digest)
    }

    /// Whether nothing is followed.
    pub(crate) fn is_never(&self) -> bool {
        matches!(self, Self::Never)
    }

    /// Whether a digest that was rolled out before is rolled out again.
    pub(crate) fn goes_back(&self) -> bool {
        matches!(self, Self::Force)
    }

    /// The tag that comes after `current`, if there is one. `match_prerelease`: only versions with the same prerelease.
    ///
    /// # Errors
    /// The tag that runs is not a version, so that none comes after it; or the choice takes longer than `limit`.
    pub(crate) fn next<'t>(
        &self,
        current: &str,
        tags: &'t [String],
        match_prerelease: bool,
        limit: Duration,
    ) -> Result<Option<&'t str>, String> {
        let (start, is_late) = (Instant::now(), Cell::new(false));
        let in_time = |_: &&str| {
            is_late.set(start.elapsed() >= limit);
            !is_late.get()
        };
        let chosen =
            self.choose(current, tags.iter().map(String::as_str).take_while(in_time), match_prerelease);
        match is_late.get() {
            true => Err(format!("{} tags take longer than {} s", tags.len(), limit.as_secs())),
            false => chosen,
        }
    }

    fn choose<'t>(
        &self,
        current: &str,
        tags: impl Iterator<Item = &'t str>,
        match_prerelease: bool,
    ) -> Result<Option<&'t str>, String> {
        match self {
            Self::Never | Self::Force | Self::Digest | Self::Flux(_) => Ok(None),
            Self::Filter(filter) => filter.choose(current, tags),
            Self::Version(bump) => {
                let may = |tag: &&str| is_bump(*bump, match_prerelease, current, tag);
                if current != "latest" && semver::parse(current).is_err() {
                    return Err(format!("the tag {current:?} is not a version, so that none comes after it"));
                }
                Ok(latest(tags.filter(may)))
            }
            Self::Range(range) => {
                let may = |tag: &&str| is_in_range(range, match_prerelease, current, tag);
                Ok(latest(tags.filter(may)))
            }
            Self::Glob(glob) => Ok(tags.filter(|tag| *tag > current && glob.matches(tag)).max()),
            Self::Expression(expression) => {
                let before = compared(expression, current);
                Ok(tags
                    .filter_map(|tag| Some((compared(expression, tag)?, tag)))
                    .filter(|(text, tag)| *tag != current && is_after(text, before))
                    .max_by(|(a, _), (b, _)| natural(a, b))
                    .map(|(_, tag)| tag))
            }
        }
    }
}

/// An expression whose automaton is bounded.
///
/// # Errors
/// It is none, or too large.
pub(crate) fn bounded_expression(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(MAX_AUTOMATON).build()
}

/// The highest version.
fn latest<'t>(tags: impl Iterator<Item = &'t str>) -> Option<&'t str> {
    tags.max_by(|a, b| match (semver::parse(a), semver::parse(b)) {
        (Ok(a), Ok(b)) => semver::compare(&a, &b),
        _ => a.cmp(b),
    })
}

/// How many numbers a version has: `1.25` moves to `1.26`, and not to `1.26.1`.
pub(crate) fn numbers(tag: &str) -> usize {
    tag.split(['-', '+']).next().unwrap_or_default().split('.').count()
}

fn is_bump(bump: Bump, match_prerelease: bool, current: &str, tag: &str) -> bool {
    let Ok(new) = semver::parse(tag) else { return false };
    let Ok(old) = semver::parse(current) else {
        // After `latest` comes any version, as with keel; no prerelease where those are to match.
        return new.prerelease.is_empty() || !match_prerelease || bump == Bump::All;
    };
    if numbers(tag) != numbers(current) || semver::compare(&old, &new) != Ordering::Less {
        return false;
    }
    if match_prerelease && bump != Bump::All && old.prerelease != new.prerelease {
        return false;
    }
    match bump {
        Bump::All | Bump::Major => true,
        Bump::Minor => new.major == old.major,
        Bump::Patch => (new.major, new.minor) == (old.major, old.minor),
    }
}

fn is_in_range(range: &Range, match_prerelease: bool, current: &str, tag: &str) -> bool {
    let Ok(mut new) = semver::parse(tag) else { return false };
    if let Ok(old) = semver::parse(current) {
        if numbers(tag) != numbers(current) || semver::compare(&old, &new) != Ordering::Less {
            return false;
        }
        if match_prerelease && old.prerelease != new.prerelease {
            return false;
        }
        if match_prerelease {
            // `1.25.3-alpine` is a build of 1.25.3 to its users, and in the ranges of 1.25.3.
            new.prerelease = "";
        }
    }
    range.check(&new)
}

/// What is compared of a tag; `None` if it does not match.
fn compared<'t>(expression: &Regex, tag: &'t str) -> Option<&'t str> {
    // Much cheaper than to capture, and most tags do not match.
    if !expression.is_match(tag) {
        return None;
    }
    let found = expression.captures(tag)?;
    Some(found.name(COMPARE).map_or(tag, |group| group.as_str()))
}

/// `before`: what is compared of the tag that runs.
fn is_after(text: &str, before: Option<&str>) -> bool {
    match before {
        Some(before) => natural(text, before) == Ordering::Greater,
        // The tag that runs is not one of these: the first of them replaces it.
        None => true,
    }
}

/// The order of texts; of numbers by their value, whatever their length.
fn natural(a: &str, b: &str) -> Ordering {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !(digits(a) && digits(b)) {
        return a.cmp(b);
    }
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(policy: &str, current: &str, tags: &[&str], match_prerelease: bool) -> Option<String> {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        let policy = Policy::parse(policy).unwrap();
        policy.next(current, &tags, match_prerelease, CHOICE_LIMIT).unwrap().map(str::to_owned)
    }

    #[test]
    fn versions_come_after_each_other_by_keels_words() {
        let tags = ["1.2.3", "1.2.4", "1.3.0", "2.0.0", "2.1.0-dev", "1.3.0-dev", "1.2", "latest", "v1", "x"];
        for (policy, current, match_prerelease, expected) in [
            ("all", "1.2.3", true, Some("2.1.0-dev")),
            ("major", "1.2.3", true, Some("2.0.0")),
            ("major", "1.2.3", false, Some("2.1.0-dev")),
            ("minor", "1.2.3", true, Some("1.3.0")),
            ("patch", "1.2.3", true, Some("1.2.4")),
            ("patch", "1.2.4", true, None),
            ("minor", "1.2.0-dev", true, Some("1.3.0-dev")),
            ("major", "2.0.0", true, None),
            ("major", "latest", true, Some("2.0.0")),
            ("semver:~1.2", "1.2.3", true, Some("1.2.4")),
            ("semver:<2", "1.2.3", true, Some("1.3.0")),
            ("semver:>=1 <2", "1.2.0-dev", true, Some("1.3.0-dev")),
            ("semver:^2", "x", true, Some("2.0.0")),
            ("semver:^3", "1.2.3", true, None),
            ("never", "1.2.3", true, None),
            ("force", "1.2.3", true, None),
            ("digest", "1.2.3", true, None),
        ] {
            let found = next(policy, current, &tags, match_prerelease);
            assert_eq!(found.as_deref(), expected, "{policy} {current} {match_prerelease}");
        }
        assert_eq!(next("minor", "1.25", &["1.26", "1.26.1", "2.0"], true).as_deref(), Some("1.26"));
        let error = Policy::parse("minor").unwrap().next("main", &[], true, CHOICE_LIMIT).unwrap_err();
        assert_eq!(error, "the tag \"main\" is not a version, so that none comes after it");
    }

    #[test]
    fn a_choice_that_takes_too_long_is_an_error_and_no_choice() {
        let tags = ["1.0".to_owned(), "2.0".to_owned()];
        for policy in ["all", "semver:*", "glob:*", "regexp:.*"] {
            let policy = Policy::parse(policy).unwrap();
            assert_eq!(policy.next("1.0", &tags, true, CHOICE_LIMIT), Ok(Some("2.0")));
            let error = policy.next("1.0", &tags, true, Duration::ZERO).unwrap_err();
            assert_eq!(error, "2 tags take longer than 0 s");
        }
    }

    #[test]
    fn texts_come_after_each_other_by_patterns() {
        let builds = ["build-1", "build-2", "build-10", "master-9", "build-2-rc"];
        for (policy, current, expected) in [
            ("glob:build-*", "build-1", Some("build-2-rc")),
            ("glob:build-?", "build-1", Some("build-2")),
            ("glob:build-*", "build-2-rc", None),
            ("glob:master-*", "build-1", Some("master-9")),
            ("regexp:^build-[0-9]+$", "build-1", Some("build-2")),
            ("regexp:^build-(?P<compare>[0-9]+)$", "build-1", Some("build-10")),
            ("regexp:^build-(?P<compare>[0-9]+)$", "build-10", None),
            ("regexp:^build-(?P<compare>[0-9]+)$", "master-9", Some("build-10")),
            ("regexp:^nothing$", "build-1", None),
        ] {
            assert_eq!(next(policy, current, &builds, true).as_deref(), expected, "{policy} {current}");
        }
    }

    #[test]
    fn what_is_no_policy_is_an_error_that_names_them() {
        for (text, part) in [
            ("newest", "there are digest, semver:RANGE, all"),
            ("semver:x.y", "improper constraint"),
            ("glob:[", "not a glob pattern"),
            ("regexp:a(", "unclosed group"),
            ("flux:", "not the name of an ImagePolicy"),
            ("flux:shop/web", "not the name of an ImagePolicy"),
            ("regexp:(\\pL{900}){900}", "exceeds size limit"),
            (&format!("glob:{}", "a".repeat(600)), "more than 512"),
        ] {
            let error = Policy::parse(text).err().unwrap();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
