//! `format`: text formats, with the checks and error texts of Helm's validator.

use super::address;
use crate::go::layout;
use crate::go::regexp;
use crate::go::strconv::{parse_int, quote, quote_byte, quote_rune};
use crate::go::url::{Url, path_unescape};
use crate::go::zone::Zone;

/// Checks that a text has the format; the error is the reason.
type Check = fn(&str) -> Result<(), String>;

/// A known format.
#[derive(Clone, Copy)]
pub(super) struct Format(&'static (&'static str, Check));

const FORMATS: &[(&str, Check)] = &[
    ("regex", |s| regexp::compile(s.as_bytes()).map(|_| ())),
    ("json-pointer", json_pointer),
    ("relative-json-pointer", relative_json_pointer),
    ("uuid", uuid),
    ("duration", duration),
    ("period", period),
    ("ipv4", ipv4),
    ("ipv6", address::ipv6),
    ("hostname", hostname),
    ("email", email),
    ("date", date),
    ("time", time),
    ("date-time", date_time),
    ("uri", uri),
    ("iri", uri),
    ("uri-reference", uri_reference),
    ("iri-reference", uri_reference),
    ("uri-template", uri_template),
    ("semver", semver),
];

impl Format {
    /// The format of a name; an unknown one is only an annotation.
    pub(super) fn named(name: &str) -> Option<Self> {
        FORMATS.iter().find(|f| f.0 == name).map(Self)
    }

    pub(super) fn name(self) -> &'static str {
        self.0.0
    }

    pub(super) fn check(self, text: &str) -> Result<(), String> {
        (self.0.1)(text)
    }
}

fn fail<T>(why: &str) -> Result<T, String> {
    Err(why.to_owned())
}

fn invalid(c: char) -> String {
    format!("invalid character {}", quote_rune(c))
}

/// Splits a text after its leading digits.
fn digits(s: &str) -> (&str, &str) {
    s.split_at(s.bytes().take_while(u8::is_ascii_digit).count())
}

/// `strconv.Atoi`
fn number(s: &str) -> Result<i64, String> {
    parse_int(s, 10).map_err(|e| format!("strconv.Atoi: parsing {}: {e}", quote(s.as_bytes())))
}

fn json_pointer(s: &str) -> Result<(), String> {
    if s.is_empty() {
        return Ok(());
    }
    let Some(rest) = s.strip_prefix('/') else { return fail("not starting with /") };
    for token in rest.split('/') {
        let mut parts = token.split('~');
        parts.next();
        if parts.any(|part| !part.starts_with(['0', '1'])) {
            return fail("~ must be followed by 0 or 1");
        }
    }
    Ok(())
}

fn relative_json_pointer(s: &str) -> Result<(), String> {
    let (steps, rest) = digits(s);
    match steps.len() {
        0 => fail("must start with non-negative integer"),
        2.. if steps.starts_with('0') => fail("starts with zero"),
        _ if rest == "#" => Ok(()),
        _ => json_pointer(rest),
    }
}

fn uuid(s: &str) -> Result<(), String> {
    let groups: Vec<&str> = s.split('-').collect();
    if groups.len() != 5 {
        return fail("must have 5 elements");
    }
    for (i, (group, length)) in groups.into_iter().zip([8, 4, 4, 4, 12]).enumerate() {
        if group.len() != length {
            return Err(format!("element {} must be {length} characters long", i + 1));
        }
        if let Some(c) = group.chars().find(|c| !c.is_ascii_hexdigit()) {
            return Err(format!("non-hex character {}", quote_rune(c)));
        }
    }
    Ok(())
}

fn duration(s: &str) -> Result<(), String> {
    let Some(s) = s.strip_prefix('P') else { return fail("must start with P") };
    if s.is_empty() {
        return fail("nothing after P");
    }
    if let Some(weeks) = s.strip_suffix('W') {
        return match weeks {
            "" => fail("no number in week"),
            w if w.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
            _ => fail("invalid week"),
        };
    }
    for (i, part) in s.split('T').enumerate() {
        if i != 0 && part.is_empty() {
            return fail("no time elements");
        }
        let all = match i {
            0 => "YMD",
            1 => "HMS",
            _ => return fail("more than one T"),
        };
        let (mut units, mut rest) = (all, part);
        while !rest.is_empty() {
            let (count, after) = digits(rest);
            if count.is_empty() {
                return fail("missing number");
            }
            let Some(unit) = after.bytes().next() else { return fail("missing unit") };
            match units.bytes().position(|u| u == unit) {
                Some(at) => units = &units[at + 1..],
                None if all.bytes().any(|u| u == unit) => {
                    return Err(format!("unit {} out of order", quote_byte(unit)));
                }
                None => return Err(format!("invalid unit {}", quote_byte(unit))),
            }
            rest = after.get(1..).unwrap_or_default();
        }
    }
    Ok(())
}

fn period(s: &str) -> Result<(), String> {
    let Some((start, end)) = s.split_once('/') else { return fail("missing slash") };
    let named = |what: &str, result: Result<(), String>| result.map_err(|e| format!("invalid {what}: {e}"));
    if start.starts_with('P') {
        named("start duration", duration(start))?;
        return named("end date-time", date_time(end));
    }
    named("start date-time", date_time(start))?;
    if end.starts_with('P') {
        named("end duration", duration(end))
    } else {
        named("end date-time", date_time(end))
    }
}

fn ipv4(s: &str) -> Result<(), String> {
    let groups: Vec<&str> = s.split('.').collect();
    if groups.len() != 4 {
        return fail("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return fail("leading zeros");
        }
        if !(0..=255).contains(&number(group)?) {
            return fail("decimal must be between 0 and 255");
        }
    }
    Ok(())
}

fn hostname(s: &str) -> Result<(), String> {
    let s = s.strip_suffix('.').unwrap_or(s);
    if s.len() > 253 {
        return fail("more than 253 characters long");
    }
    for label in s.split('.') {
        if label.is_empty() || label.len() > 63 {
            return fail("label must be 1 to 63 characters long");
        }
        if label.starts_with('-') {
            return fail("label starts with hyphen");
        }
        if label.ends_with('-') {
            return fail("label ends with hyphen");
        }
        if let Some(c) = label.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '-') {
            return Err(invalid(c));
        }
    }
    Ok(())
}

fn email(s: &str) -> Result<(), String> {
    if s.len() > 254 {
        return fail("more than 255 characters long");
    }
    let Some((local, domain)) = s.rsplit_once('@') else { return fail("missing @") };
    if local.len() > 64 {
        return fail("local part more than 64 characters long");
    }
    if local.len() > 1 && local.starts_with('"') && local.ends_with('"') {
        if local[1..local.len() - 1].contains(['\\', '"']) {
            return fail("backslash and quote are not allowed within quoted local part");
        }
    } else if local.starts_with('.') {
        return fail("starts with dot");
    } else if local.ends_with('.') {
        return fail("ends with dot");
    } else if local.contains("..") {
        return fail("consecutive dots");
    } else if let Some(c) =
        local.chars().find(|c| !c.is_ascii_alphanumeric() && !".!#$%&'*+-/=?^_`{|}~".contains(*c))
    {
        return Err(invalid(c));
    }
    if let Some(literal) = domain.strip_prefix('[').and_then(|d| d.strip_suffix(']')) {
        return match literal.strip_prefix("IPv6:") {
            Some(v6) => address::ipv6(v6).map_err(|e| format!("invalid ipv6 address: {e}")),
            None => ipv4(literal).map_err(|e| format!("invalid ipv4 address: {e}")),
        };
    }
    hostname(domain).map_err(|e| format!("invalid domain: {e}"))
}

fn date(s: &str) -> Result<(), String> {
    layout::parse(b"2006-01-02", s.as_bytes(), &Zone::utc()).map(|_| ())
}

fn time(s: &str) -> Result<(), String> {
    let bytes = s.as_bytes();
    if bytes.len() < 9 {
        return fail("less than 9 characters long");
    }
    if bytes[2] != b':' || bytes[5] != b':' {
        return fail("missing colon in correct place");
    }
    let clock = |from: usize, what: &str| -> Result<i64, String> {
        let field = s.get(from..from + 2).and_then(|f| parse_int(f, 10).ok());
        match field.ok_or_else(|| format!("invalid {what}"))? {
            n if n < 0 => Err(format!("non-positive {what}")),
            n => Ok(n),
        }
    };
    let what = "hour/min/sec";
    let (mut hour, mut minute, second) = (clock(0, what)?, clock(3, what)?, clock(6, what)?);
    if hour > 23 || minute > 59 || second > 60 {
        return fail("hour/min/sec out of range");
    }
    let mut rest = s.get(8..).unwrap_or_default();
    let mut at = 8;
    if let Some(fraction) = rest.strip_prefix('.') {
        let (decimals, after) = digits(fraction);
        if decimals.is_empty() {
            return fail("no digits in second fraction");
        }
        at += 1 + decimals.len();
        rest = after;
    }
    if !matches!(rest, "z" | "Z") {
        if rest.len() != 6 {
            return fail("offset must be 6 characters long");
        }
        let sign = match rest.as_bytes()[0] {
            b'+' => -1,
            b'-' => 1,
            _ => return fail("offset must begin with plus/minus"),
        };
        if rest.as_bytes()[3] != b':' {
            return fail("missing colon in offset in correct place");
        }
        let what = "hour/min in offset";
        let (hours, minutes) = (clock(at + 1, what)?, clock(at + 4, what)?);
        if hours > 23 || minutes > 59 {
            return fail("hour/min in offset out of range");
        }
        let shifted = hour * 60 + minute + sign * (hours * 60 + minutes);
        let shifted = if shifted < 0 { shifted + 24 * 60 } else { shifted };
        (hour, minute) = (shifted / 60, shifted % 60);
    }
    if second >= 60 && (hour != 23 || minute != 59) {
        return fail("invalid leap second");
    }
    Ok(())
}

fn date_time(s: &str) -> Result<(), String> {
    if s.len() < 20 {
        return fail("less than 20 characters long");
    }
    if !matches!(s.as_bytes()[10], b't' | b'T') {
        return fail("11th character must be t or T");
    }
    // The eleventh byte is a letter, so both parts are valid UTF-8.
    date(&s[..10]).map_err(|e| format!("invalid date element: {e}"))?;
    time(&s[11..]).map_err(|e| format!("invalid time element: {e}"))
}

fn url(s: &str) -> Result<Url, String> {
    let url = Url::parse(s.as_bytes())?;
    let host = String::from_utf8_lossy(url.hostname()).into_owned();
    if host.contains(':') {
        if !url.host.contains(&b'[') || !url.host.contains(&b']') {
            return fail("ipv6 address not enclosed in brackets");
        }
        address::ipv6(&host).map_err(|e| format!("invalid ipv6 address: {e}"))?;
    }
    Ok(url)
}

fn uri(s: &str) -> Result<(), String> {
    if url(s)?.scheme.is_empty() { fail("relative url") } else { Ok(()) }
}

fn uri_reference(s: &str) -> Result<(), String> {
    if s.contains('\\') {
        return fail("contains \\");
    }
    url(s).map(|_| ())
}

fn uri_template(s: &str) -> Result<(), String> {
    let url = url(s)?;
    // Checks only the raw path, which is empty unless the path has characters, such as braces, that Go escapes.
    for token in url.raw_path.split(|b| *b == b'/') {
        let token = path_unescape(token).map_err(|why| format!("percent decode failed: {why}"))?;
        let mut open = false;
        for c in token.into_iter().filter(|c| matches!(c, b'{' | b'}')) {
            if open == (c == b'{') {
                return fail("nested curly braces");
            }
            open = !open;
        }
        if open {
            return fail("no matching closing brace");
        }
    }
    Ok(())
}

fn semver(s: &str) -> Result<(), String> {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let wrong = |c: char, part: &str| format!("{} in {part} identifier", invalid(c));
    let (s, build) = s.split_once('+').map_or((s, None), |(s, b)| (s, Some(b)));
    if let Some(build) = build {
        if build.is_empty() {
            return fail("build is empty");
        }
        for id in build.split('.') {
            if id.is_empty() {
                return fail("build identifier is empty");
            }
            if let Some(c) = id.chars().find(|c| !ok(*c)) {
                return Err(wrong(c, "build"));
            }
        }
    }
    let (core, pre) = s.split_once('-').map_or((s, None), |(s, p)| (s, Some(p)));
    for id in pre.into_iter().flat_map(|p| p.split('.')) {
        if id.is_empty() {
            return fail("pre-release identifier is empty");
        }
        if let Some(c) = id.chars().find(|c| !ok(*c)) {
            return Err(wrong(c, "pre-release"));
        }
        if id.len() > 1 && id.starts_with('0') && id.bytes().all(|b| b.is_ascii_digit()) {
            return fail("pre-release numeric identifier starts with zero");
        }
    }
    let versions: Vec<&str> = core.split('.').collect();
    if versions.len() != 3 {
        return fail("versionCore must have 3 numbers separated by dot");
    }
    for (name, version) in ["major", "minor", "patch"].into_iter().zip(versions) {
        if version.is_empty() {
            return Err(format!("{name} is empty"));
        }
        if version.len() > 1 && version.starts_with('0') {
            return Err(format!("{name} starts with zero"));
        }
        if !version.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("{name} contains non-digit"));
        }
    }
    Ok(())
}
