//! Semantic versions and ranges as Masterminds/semver 3.5 parses and compares them.
//!
//! Parsing is lenient (`v` prefix, one or two numbers). A range matches a prerelease only if one of its parts has a prerelease.

use std::cmp::Ordering;

use super::object::Version;
use super::strconv::quote;

/// Maximal length of a version (`MaxVersionLen`).
const MAX_VERSION: usize = 256;
/// Maximal length of a range (`MaxConstraintLen`).
const MAX_RANGE: usize = 512;
/// Maximal number of `||` groups in a range (`MaxConstraintGroups`).
const MAX_GROUPS: usize = 32;

fn identifiers(s: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let n = s[at..].bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'-').count();
        if n == 0 {
            return (at > 0).then(|| at - 1);
        }
        at += n;
        if !s[at..].starts_with('.') {
            return Some(at);
        }
        at += 1;
    }
}

/// The suffixes `-prerelease` and `+metadata` at the start of `s`, and their total length.
fn suffixes(s: &str) -> (&str, &str, usize) {
    let (mut pre, mut meta, mut at) = ("", "", 0);
    if s.starts_with('-')
        && let Some(n) = identifiers(&s[1..]).filter(|n| *n > 0)
    {
        pre = &s[1..=n];
        at = 1 + n;
    }
    if s[at..].starts_with('+')
        && let Some(n) = identifiers(&s[at + 1..]).filter(|n| *n > 0)
    {
        meta = &s[at + 1..at + 1 + n];
        at += 1 + n;
    }
    (pre, meta, at)
}

/// Parses a version leniently (`semver.NewVersion`).
///
/// # Errors
/// The library's error text, e.g. `invalid semantic version`.
pub fn parse(text: &str) -> Result<Version<'_>, String> {
    if text.len() > MAX_VERSION {
        return Err(format!("version string is too long (max {MAX_VERSION} bytes)"));
    }
    let invalid = || "invalid semantic version".to_owned();
    let mut rest = text.strip_prefix('v').unwrap_or(text);
    let mut texts = ["0"; 3];
    for (i, text) in texts.iter_mut().enumerate() {
        if i > 0 {
            match rest.strip_prefix('.') {
                Some(r) if r.starts_with(|c: char| c.is_ascii_digit()) => rest = r,
                _ => break,
            }
        }
        let n = rest.bytes().take_while(u8::is_ascii_digit).count();
        if n == 0 {
            return Err(invalid());
        }
        (*text, rest) = rest.split_at(n);
    }
    let (prerelease, metadata, used) = suffixes(rest);
    if used != rest.len() {
        return Err(invalid());
    }
    // The library checks the syntax of the whole version before its parts.
    let mut numbers = [0u64; 3];
    for (number, text) in numbers.iter_mut().zip(texts) {
        *number = text.parse().map_err(|_| {
            let shown = quote(text.as_bytes());
            format!("error parsing version segment: strconv.ParseUint: parsing {shown}: value out of range")
        })?;
    }
    if leading_zero(prerelease) {
        return Err("version segment starts with 0".to_owned());
    }
    let [major, minor, patch] = numbers;
    Ok(Version { major, minor, patch, prerelease, metadata, original: text, by_value: false })
}

/// Whether a number in a prerelease has a leading zero.
fn leading_zero(prerelease: &str) -> bool {
    prerelease.split('.').any(|p| p.len() > 1 && p.starts_with('0') && p.bytes().all(|c| c.is_ascii_digit()))
}

fn compare_prerelease(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let (x, y) = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => (x, y),
        };
        let order = match (x.parse::<u64>(), y.parse::<u64>()) {
            (Ok(m), Ok(n)) => m.cmp(&n),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => x.cmp(y),
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The order of two versions; build metadata is ignored (`Version.Compare`).
#[must_use]
pub fn compare(a: &Version<'_>, b: &Version<'_>) -> Ordering {
    (a.major, a.minor, a.patch)
        .cmp(&(b.major, b.minor, b.patch))
        .then_with(|| compare_prerelease(a.prerelease, b.prerelease))
}

/// A parsed range of versions (`semver.Constraints`).
pub struct Range {
    groups: Vec<Group>,
}

struct Group {
    parts: Vec<Part>,
    prerelease: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    TildeOrEqual,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

/// Operators, in the order in which the library's pattern tries them.
const OPS: [(&str, Op); 12] = [
    ("=", Op::TildeOrEqual),
    ("", Op::TildeOrEqual),
    ("!=", Op::NotEqual),
    (">", Op::Greater),
    ("<", Op::Less),
    (">=", Op::GreaterEqual),
    ("=>", Op::GreaterEqual),
    ("<=", Op::LessEqual),
    ("=<", Op::LessEqual),
    ("~", Op::Tilde),
    ("~>", Op::Tilde),
    ("^", Op::Caret),
];

struct Part {
    op: Op,
    numbers: (u64, u64, u64),
    prerelease: String,
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

fn component(s: &str) -> usize {
    s.bytes().take_while(|c| c.is_ascii_digit() || matches!(c, b'|' | b'x' | b'X' | b'*')).count()
}

/// A version pattern at the start of `s`: its three components, its prerelease, and its length.
fn pattern(s: &str) -> Option<([&str; 3], &str, usize)> {
    let mut at = usize::from(s.starts_with('v'));
    let mut parts = [""; 3];
    for (i, part) in parts.iter_mut().enumerate() {
        let from = if i == 0 {
            at
        } else if s[at..].starts_with('.') {
            at + 1
        } else {
            break;
        };
        let n = component(&s[from..]);
        if n == 0 {
            if i == 0 {
                return None;
            }
            break;
        }
        *part = &s[from..from + n];
        at = from + n;
    }
    let (pre, _, n) = suffixes(&s[at..]);
    Some((parts, pre, at + n))
}

fn blanks(s: &str) -> usize {
    s.bytes().take_while(|c| matches!(c, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)).count()
}

/// Rewrites `a - b` to `>= a, <= b` (`rewriteRange`).
fn rewrite_hyphens(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    'next: while at < text.len() {
        let rest = &text[at..];
        let lead = blanks(rest);
        if let Some((_, _, n)) = pattern(&rest[lead..]) {
            let after = &rest[lead + n..];
            let gap = blanks(after);
            if gap > 0 && after[gap..].starts_with('-') {
                let second = &after[gap + 1..];
                let gap2 = blanks(second);
                if gap2 > 0
                    && let Some((_, _, m)) = pattern(&second[gap2..])
                {
                    let end = gap2 + m + blanks(&second[gap2 + m..]);
                    let (from, to) = (&rest[lead..lead + n], &second[gap2..gap2 + m]);
                    out.push_str(&format!(">= {from}, <= {to} "));
                    at += lead + n + gap + 1 + end;
                    continue 'next;
                }
            }
        }
        let c = rest.chars().next().map_or(1, char::len_utf8);
        out.push_str(&rest[..c]);
        at += c;
    }
    out
}

fn is_x(s: &str) -> bool {
    matches!(s, "x" | "X" | "*")
}

fn part(op: Op, numbers: [&str; 3], prerelease: &str) -> Result<Part, String> {
    let bad = || "constraint parser error".to_owned();
    let number = |s: &str| s.parse::<u64>().map_err(|_| bad());
    let [a, b, c] = numbers;
    let mut p = Part {
        op,
        numbers: (0, 0, 0),
        prerelease: prerelease.to_owned(),
        dirty: true,
        minor_dirty: false,
        patch_dirty: false,
    };
    if leading_zero(prerelease) {
        return Err(bad());
    }
    if is_x(a) || a.is_empty() {
    } else if is_x(b) || b.is_empty() {
        p.numbers = (number(a)?, 0, 0);
        p.minor_dirty = true;
    } else if is_x(c) || c.is_empty() {
        p.numbers = (number(a)?, number(b)?, 0);
        p.patch_dirty = true;
    } else {
        p.numbers = (number(a)?, number(b)?, number(c)?);
        p.dirty = false;
    }
    Ok(p)
}

impl Range {
    /// Parses a range (`semver.NewConstraint`).
    ///
    /// ```
    /// use chart_compat::go::semver::{Range, parse};
    ///
    /// let range = Range::parse(">= 1.25.0-0, < 1.32")?;
    /// assert!(range.check(&parse("v1.30.4-gke.1")?) && !range.check(&parse("1.32.0")?));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// The library's error text, e.g. `improper constraint: "x"`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_RANGE {
            return Err(format!("constraint string is too long (max {MAX_RANGE} bytes)"));
        }
        let text = rewrite_hyphens(text);
        let ors: Vec<&str> = text.split("||").collect();
        if ors.len() > MAX_GROUPS {
            return Err(format!("too many constraint groups (max {MAX_GROUPS})"));
        }
        let groups = ors.into_iter().map(Self::group).collect::<Result<_, _>>()?;
        Ok(Self { groups })
    }

    fn group(text: &str) -> Result<Group, String> {
        let improper = || format!("improper constraint: {}", quote(text.as_bytes()));
        // The library checks the syntax of the whole range before its parts.
        let mut found_parts = Vec::new();
        let mut rest = &text[blanks(text)..];
        loop {
            let found = OPS.iter().find_map(|(name, op)| {
                let after = rest.strip_prefix(name)?;
                let gap = blanks(after);
                pattern(&after[gap..]).map(|(n, pre, len)| (*op, n, pre, name.len() + gap + len))
            });
            let (op, numbers, pre, used) = found.ok_or_else(improper)?;
            found_parts.push((op, numbers, pre));
            rest = &rest[used..];
            let gap = blanks(rest);
            if gap == rest.len() {
                break;
            }
            let after = &rest[gap..];
            rest = match after.strip_prefix(',') {
                Some(r) => &r[blanks(r)..],
                None if gap > 0 => after,
                None => return Err(improper()),
            };
        }
        let prerelease = found_parts.iter().any(|(_, _, pre)| !pre.is_empty());
        let parts = found_parts.into_iter().map(|(op, numbers, pre)| part(op, numbers, pre));
        Ok(Group { parts: parts.collect::<Result<_, _>>()?, prerelease })
    }

    /// Whether the version is in the range (`Constraints.Check`).
    #[must_use]
    pub fn check(&self, v: &Version<'_>) -> bool {
        self.groups.iter().any(|g| g.parts.iter().all(|p| p.check(v, g.prerelease)))
    }
}

impl Part {
    fn check(&self, v: &Version<'_>, prereleases: bool) -> bool {
        if !v.prerelease.is_empty() && !prereleases {
            return false;
        }
        let (major, minor, patch) = self.numbers;
        let con = Version {
            major,
            minor,
            patch,
            prerelease: &self.prerelease,
            metadata: "",
            original: "",
            by_value: false,
        };
        let order = compare(v, &con);
        match self.op {
            Op::TildeOrEqual if !self.dirty => order.is_eq(),
            Op::TildeOrEqual | Op::Tilde => {
                let any = self.numbers == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty;
                order.is_ge() && (any || v.major == major && (self.minor_dirty || v.minor == minor))
            }
            Op::NotEqual if !self.dirty => order.is_ne(),
            Op::NotEqual => {
                if v.major != major {
                    true
                } else if self.minor_dirty {
                    false
                } else if v.minor != minor {
                    true
                } else if self.patch_dirty {
                    compare_prerelease(v.prerelease, &self.prerelease).is_ne()
                } else {
                    v.patch != patch || order.is_ne()
                }
            }
            Op::Greater if !self.dirty => order.is_gt(),
            Op::Greater => {
                if v.major != major {
                    v.major > major
                } else if self.minor_dirty {
                    false
                } else if self.patch_dirty {
                    v.minor > minor
                } else {
                    order.is_gt()
                }
            }
            Op::Less => order.is_lt(),
            Op::GreaterEqual => order.is_ge(),
            Op::LessEqual if !self.dirty => order.is_le(),
            Op::LessEqual => !(v.major > major || v.major == major && v.minor > minor && !self.minor_dirty),
            Op::Caret => {
                if order.is_lt() {
                    false
                } else if major > 0 || self.minor_dirty {
                    v.major == major
                } else if v.major > 0 {
                    false
                } else if minor > 0 || self.patch_dirty {
                    v.minor == minor
                } else {
                    v.minor == 0 && v.patch == patch
                }
            }
        }
    }
}

/// Whether `version` is in `range`; false if either is invalid (`chartutil.IsCompatibleRange`).
#[must_use]
pub fn is_compatible(range: &str, version: &str) -> bool {
    match (Range::parse(range), parse(version)) {
        (Ok(r), Ok(v)) => r.check(&v),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_match_as_masterminds_does() {
        // range, version, result of Masterminds/semver 3.5
        let table = [
            (">=1.20-0", "v1.31.0", true),
            (">=1.20-0", "1.31.0-gke.1", true),
            (">=1.20", "1.31.0-gke.1", false),
            ("=1.2", "1.2.3", true),
            (">1.2", "1.2.5", false),
            (">1.2", "1.3.0", true),
            ("^0.0.3", "0.0.3", true),
            ("^0.0.3", "0.0.4", false),
            ("^0.2", "0.2.9", true),
            ("^1", "1.9.9", true),
            ("~1.2.3", "1.2.9", true),
            ("~1.2.3", "1.3.0", false),
            ("1.2 - 1.4", "1.4.5", true),
            ("1.2 - 1.4", "1.5.0", false),
            ("1.x || 3.x", "3.1.0", true),
            (">=1.0, <2.0", "1.5.0", true),
            (">=1.0 <2.0", "2.0.0", false),
            ("!=1.2.x", "1.2.3", false),
            ("*", "9.9.9", true),
            (">= 1.10.0-0 < 2", "1.9.0", false),
            ("<=1.2", "1.2.9", true),
        ];
        for (range, version, want) in table {
            assert_eq!(is_compatible(range, version), want, "{range} {version}");
        }
        for bad in ["", "a", ">=1.0<2.0", ">>1", "1.2.3.4"] {
            assert!(Range::parse(bad).is_err(), "{bad}");
        }
    }
}
