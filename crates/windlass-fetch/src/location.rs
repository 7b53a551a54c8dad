//! URLs of repositories and charts: parsed, joined, compared.
//!
//! Owns the parts of a URL that decide where a request goes, and hides passwords in all output. Fetches nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use windlass_base::redact::{self, SecretText};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str};

/// Maximum length of a URL.
const MAX_LENGTH: usize = 8192;
/// Maximum length of a part of a host name (RFC 1035).
const MAX_LABEL: usize = 63;
/// What is escaped in a segment of a path and in a value of a query: all but the unreserved characters (RFC 3986).
pub const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What is escaped in a path of several segments.
pub const PATH: &AsciiSet = &SEGMENT.remove(b'/');

/// A URL with a host.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    /// The scheme, in lower case.
    pub scheme: String,
    /// Host and port, in lower case.
    pub host: String,
    /// The path as written; empty or beginning with a slash.
    pub path: String,
    /// The query as written, without its question mark.
    pub query: Option<String>,
    user: Option<(String, SecretText)>,
}

/// Whether a text can be one part of a host name: 1 to 63 ASCII letters, digits and hyphens. What is put into the name of a cloud's server
/// must be one, or the request goes to another server.
#[must_use]
pub fn is_host_label(text: &str) -> bool {
    (1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// An invalid URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid chart URL format: {0}")]
pub struct BadLocation(pub String);

impl Location {
    /// Parses an absolute URL.
    ///
    /// # Errors
    /// It has no scheme or no host, is too long, or contains an invalid character.
    pub fn parse(text: &str) -> Result<Self, BadLocation> {
        let bad = || BadLocation(without_user(text));
        if text.len() > MAX_LENGTH || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(bad());
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let scheme_ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(scheme_ok) {
            return Err(bad());
        }
        let rest = rest.split_once('#').map_or(rest, |r| r.0);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, after) = rest.split_at(end);
        let (path, query) = match after.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (after, None),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let decoded = |s: &str| percent_decode_str(s).decode_utf8_lossy().into_owned();
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((decoded(name), SecretText::new(decoded(password)))), host)
            }
            None => (None, authority),
        };
        let on_disk = scheme.ends_with("file");
        if host.is_empty() && !on_disk || host.contains(['\\', '"', '<', '>', '^', '`', '{', '|', '}']) {
            return Err(bad());
        }
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_ascii_lowercase(),
            path: path.to_owned(),
            query,
            user,
        })
    }

    /// Whether a text looks like a URL.
    #[must_use]
    pub fn is_absolute(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        })
    }

    /// User and password in the URL.
    #[must_use]
    pub fn user(&self) -> Option<(&str, &SecretText)> {
        self.user.as_ref().map(|(name, password)| (name.as_str(), password))
    }

    /// The host without its port.
    #[must_use]
    pub fn hostname(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
            _ => &self.host,
        }
    }

    /// Address and port, if the host is an IP address.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        let ip: IpAddr = self.hostname().trim_matches(['[', ']']).parse().ok()?;
        let port = self.host[self.hostname().len()..].strip_prefix(':').and_then(|port| port.parse().ok());
        Some(SocketAddr::new(ip, port.unwrap_or(if self.scheme == "https" { 443 } else { 80 })))
    }

    /// The origin, `SCHEME://HOST:PORT` (RFC 6454): credentials never go from one to another.
    #[must_use]
    pub fn origin(&self) -> String {
        let given = self.host[self.hostname().len()..].trim_start_matches(':');
        let port = match (given, self.scheme.as_str()) {
            ("", "https") => "443",
            ("", "http") => "80",
            _ => given,
        };
        format!("{}://{}:{port}", self.scheme, self.hostname())
    }

    /// Whether both have the same scheme, host and port.
    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        self.origin() == other.origin()
    }

    /// Whether the host is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let name = self.hostname().trim_matches(['[', ']']);
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Resolves a reference relative to this URL (RFC 3986, section 5.2).
    ///
    /// # Errors
    /// The reference is not a URL.
    pub fn join(&self, reference: &str) -> Result<Self, BadLocation> {
        if Self::is_absolute(reference) {
            return Self::parse(reference);
        }
        if let Some(rest) = reference.strip_prefix("//") {
            return Self::parse(&format!("{}://{rest}", self.scheme));
        }
        if reference.len() > MAX_LENGTH || reference.chars().any(char::is_control) {
            return Err(BadLocation(reference.to_owned()));
        }
        let reference = reference.split_once('#').map_or(reference, |r| r.0);
        let (path, query) = match reference.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (reference, None),
        };
        let joined = if path.is_empty() {
            self.path.clone()
        } else if path.starts_with('/') {
            path.to_owned()
        } else {
            let base = self.path.rfind('/').map_or("/", |n| &self.path[..=n]);
            format!("{base}{path}")
        };
        let query = if path.is_empty() && query.is_none() { self.query.clone() } else { query };
        Ok(Self { path: without_dots(&joined), query, ..self.clone() })
    }

    /// Resolves a file of a repository with this URL: below the last segment of the path, with the repository's own
    /// query (`repo.ResolveReferenceURL`).
    ///
    /// # Errors
    /// The reference is not a URL.
    pub fn within(&self, reference: &str) -> Result<Self, BadLocation> {
        if Self::is_absolute(reference) {
            return Self::parse(reference);
        }
        let base = Self { path: format!("{}/", self.path.trim_end_matches('/')), ..self.clone() };
        Ok(Self { query: self.query.clone(), ..base.join(reference)? })
    }

    /// Replaces the path.
    #[must_use]
    pub fn with_path(&self, path: String) -> Self {
        Self { path, ..self.clone() }
    }

    /// Replaces the query.
    #[must_use]
    pub fn with_query(&self, query: String) -> Self {
        Self { query: Some(query), ..self.clone() }
    }

    /// The last segment of the path.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
    }

    /// Adds what messages show of a URL that is secret to what is masked ([`redact::add`]): the URL as it is shown, and its path without and
    /// with its query. A path shorter than what is masked at all, such as `/`, is no secret.
    pub fn mask(&self) {
        redact::add(&self.to_string());
        redact::add(&self.path);
        redact::add(&self.target());
        if let Some(query) = &self.query {
            redact::add(&format!("{}?{query}", self.path));
        }
    }

    /// Path and query, for a request line.
    #[must_use]
    pub fn target(&self) -> String {
        let mut out = String::with_capacity(self.path.len() + 1);
        out.push_str(if self.path.is_empty() { "/" } else { &self.path });
        if let Some(query) = &self.query {
            out.push('?');
            out.push_str(query);
        }
        // Characters that a request line cannot contain are escaped as by Go.
        let mut escaped = String::with_capacity(out.len());
        for c in out.chars() {
            if c.is_ascii_graphic() && !matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}') {
                escaped.push(c);
            } else {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer).bytes().for_each(|b| escaped.push_str(&format!("%{b:02X}")));
            }
        }
        escaped
    }
}

/// Formats the URL without its password.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme, self.host, self.path)?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Whether two URLs name the same repository: a trailing slash does not count (`urlutil.Equal`).
#[must_use]
pub fn same_repository(a: &str, b: &str) -> bool {
    match (Location::parse(a), Location::parse(b)) {
        (Ok(mut a), Ok(mut b)) => {
            for l in [&mut a, &mut b] {
                l.path = without_dots(&format!("/{}", l.path.trim_matches('/')));
            }
            a == b
        }
        _ => a.trim_end_matches('/') == b.trim_end_matches('/'),
    }
}

/// Hides the text between `://` and `@`, which may be a password.
#[must_use]
pub fn without_user(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => text.to_owned(),
    }
}

/// A text without the logins and queries of the URLs in it, which may be secrets.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        out.push_str(before);
        let end = url.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>'));
        let (url, after) = url.split_at(end.unwrap_or(url.len()));
        // What follows a URL in a sentence is not a part of it.
        let (url, mark) = url.split_at(url.trim_end_matches([':', ',', ';', ')']).len());
        let shown = without_user(&format!("://{}", url.split_once('?').map_or(url, |(shown, _)| shown)));
        out.push_str(shown.get(3..).unwrap_or_default());
        out.push_str(mark);
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A path without `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (n, segment) in segments.iter().enumerate() {
        let last = n + 1 == segments.len();
        match *segment {
            "." => {
                if last {
                    out.push("");
                }
            }
            ".." => {
                out.pop();
                if last {
                    out.push("");
                }
            }
            other => out.push(other),
        }
    }
    format!("/{}", out.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_host_names() {
        let long = "a".repeat(64);
        for (text, expected) in [
            ("eu-west-1", true),
            ("US1", true),
            (&long[..63], true),
            (&long, false),
            ("", false),
            ("a.b", false),
            ("a/", false),
            ("x@h", false),
            ("a#", false),
            ("ä", false),
        ] {
            assert_eq!(is_host_label(text), expected, "{text}");
        }
    }

    #[test]
    fn references_are_joined_as_go_joins_them() {
        // (base, reference, result of Helm's `ResolveReferenceURL`)
        let table = [
            ("http://h/charts", "a-1.tgz", "http://h/charts/a-1.tgz"),
            ("http://h/charts/", "a-1.tgz", "http://h/charts/a-1.tgz"),
            ("http://h/charts/", "/a-1.tgz", "http://h/a-1.tgz"),
            ("http://h/charts", "../a-1.tgz", "http://h/a-1.tgz"),
            ("http://h/charts", "../../../a-1.tgz", "http://h/a-1.tgz"),
            ("http://h", "x/./a-1.tgz", "http://h/x/a-1.tgz"),
            ("http://h/charts?token=1", "a-1.tgz", "http://h/charts/a-1.tgz?token=1"),
            ("http://h/charts", "https://elsewhere/a.tgz?x=1", "https://elsewhere/a.tgz?x=1"),
            ("http://h:8080/c", "index.yaml", "http://h:8080/c/index.yaml"),
        ];
        for (base, reference, want) in table {
            let joined = Location::parse(base).unwrap().within(reference).unwrap();
            assert_eq!(joined.to_string(), want, "{base} {reference}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let l = Location::parse("https://me:s%40cret@host/x").unwrap();
        assert_eq!(l.user(), Some(("me", &SecretText::new("s@cret"))));
        assert_eq!(format!("{l} {l:?}"), "https://host/x https://host/x");
        let e = Location::parse("https://me:secret@ho st/x").unwrap_err();
        assert!(!e.to_string().contains("secret"), "{e}");
    }

    #[test]
    fn a_masked_url_is_shown_in_no_form() {
        redact::SecretScope::new().run(|| {
            Location::parse("https://me:pw@Hooks.test/T/B/token-one#part").unwrap().mask();
            Location::parse("https://Other.test?key=token-two").unwrap().mask();
            Location::parse("https://plain.test/").unwrap().mask();
            for (text, shown) in [
                ("Post \"https://hooks.test/T/B/token-one\": EOF", "Post \"***\": EOF"),
                ("no answer for /T/B/token-one", "no answer for ***"),
                ("GET https://other.test?key=token-two", "GET ***"),
                ("GET /?key=token-two: 404", "GET ***: 404"),
                ("a / b", "a / b"),
            ] {
                assert_eq!(redact::mask(text), shown);
            }
        });
    }

    #[test]
    fn logins_and_queries_are_cut_from_texts() {
        for (text, shown) in [
            ("GET https://u:p@h/x?t=1: 404", "GET https://h/x: 404"),
            (
                "\"http://h/a?b\" and git::ssh://git@h/r//d@f?sshkey=x",
                "\"http://h/a\" and git::ssh://h/r//d@f",
            ),
            ("s3://b/k?x=a://u:p@h", "s3://b/k"),
            ("no address, 1?2", "no address, 1?2"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    #[test]
    fn origins_differ_by_scheme_host_and_port() {
        let same = |a: &str, b: &str| Location::parse(a).unwrap().same_origin(&Location::parse(b).unwrap());
        assert!(same("https://h/x", "https://h:443/y"));
        assert!(same("HTTPS://H/x", "https://me:pw@h/y"));
        assert!(same("http://[::1]/x", "http://[::1]:80/y"));
        assert!(!same("http://[::1]:81/x", "http://[::1]/x"));
        assert!(!same("http://h:443/x", "https://h/x"));
        assert!(!same("https://h/x", "http://h/x"));
        assert!(!same("https://h/x", "https://h:8443/x"));
        assert!(!same("https://h/x", "https://g.h/x"));
        assert!(same_repository("https://h/x/", "https://h/x"));
        assert!(!same_repository("https://h/x", "https://h/y"));
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for bad in ["", "x", "://h", "http://", "http:///x", "http://h\n/", "ht tp://h", "http://a{b}/"] {
            assert!(Location::parse(bad).is_err(), "{bad}");
        }
    }
}
