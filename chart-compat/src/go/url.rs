//! Go's `net/url`: parsing and formatting of URLs.

use super::strconv::quote;

/// The parts of a URL. All but the query are unescaped.
#[derive(Default)]
pub struct Url {
    /// The scheme in lower case.
    pub scheme: Vec<u8>,
    /// The part after the scheme, if it does not start with a slash.
    pub opaque: Vec<u8>,
    /// User and password, if present.
    pub user: Option<User>,
    /// The host with the port.
    pub host: Vec<u8>,
    /// The path.
    pub path: Vec<u8>,
    /// The original path, if escaping `path` does not reproduce it.
    pub raw_path: Vec<u8>,
    /// Whether there is a `?` with an empty query.
    pub force_query: bool,
    /// The query.
    pub raw_query: Vec<u8>,
    /// The fragment.
    pub fragment: Vec<u8>,
    /// The original fragment, if escaping `fragment` does not reproduce it.
    pub raw_fragment: Vec<u8>,
    /// Whether the authority is omitted although there is a scheme.
    pub omit_host: bool,
}

/// User and password.
#[derive(Clone)]
pub struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// A part of a URL, with its own escaping rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

fn should_escape(c: u8, part: Part) -> bool {
    if c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.' | b'~') {
        return false;
    }
    match part {
        Part::Host | Part::Zone => !matches!(
            c,
            b'!' | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'['
                | b']'
                | b'<'
                | b'>'
                | b'"'
        ),
        Part::Path => !matches!(c, b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@'),
        Part::User => !matches!(c, b'$' | b'&' | b'+' | b',' | b';' | b'='),
        Part::Fragment => !matches!(
            c,
            b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' | b'!' | b'(' | b')' | b'*'
        ),
    }
}

fn escape(s: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    for c in s {
        if should_escape(*c, part) {
            out.extend_from_slice(format!("%{c:02X}").as_bytes());
        } else {
            out.push(*c);
        }
    }
    out
}

fn unescape(s: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let bad = |s: &[u8]| Err(format!("invalid URL escape {}", quote(&s[..s.len().min(3)])));
    let mut out = Vec::with_capacity(s.len());
    let mut at = 0;
    while at < s.len() {
        let c = s[at];
        if c == b'%' {
            let hex = |i: usize| s.get(at + i).and_then(|b| char::from(*b).to_digit(16));
            let Some((high, low)) = hex(1).zip(hex(2)) else { return bad(&s[at..]) };
            let value = u8::try_from(high * 16 + low).unwrap_or(0);
            let percent = &s[at..at + 3] == b"%25";
            // A host can escape only bytes beyond ASCII.
            if part == Part::Host && high < 8 && !percent
                || part == Part::Zone && !percent && value != b' ' && should_escape(value, Part::Host)
            {
                return bad(&s[at..]);
            }
            out.push(value);
            at += 3;
            continue;
        }
        if matches!(part, Part::Host | Part::Zone) && c.is_ascii() && should_escape(c, part) {
            return Err(format!("invalid character {} in host name", quote(&[c])));
        }
        out.push(c);
        at += 1;
    }
    Ok(out)
}

fn cut(s: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(at, s) {
        Some(n) => (&s[..n], Some(&s[n + 1..])),
        None => (s, None),
    }
}

fn scheme(s: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (i, c) in s.iter().enumerate() {
        match c {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&s[..i], &s[i + 1..])),
            _ => break,
        }
    }
    Ok((b"", s))
}

fn port_ok(port: &[u8]) -> bool {
    port.is_empty() || port[0] == b':' && port[1..].iter().all(u8::is_ascii_digit)
}

fn checked_port(port: &[u8]) -> Result<(), String> {
    if port_ok(port) { Ok(()) } else { Err(format!("invalid port {} after host", quote(port))) }
}

fn host(scheme: &[u8], s: &[u8]) -> Result<Vec<u8>, String> {
    match memchr::memrchr(b'[', s) {
        Some(0) => {}
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {
            let strict = matches!(scheme, b"http" | b"https");
            let colon = if strict { memchr::memchr(b':', s) } else { memchr::memrchr(b':', s) };
            checked_port(colon.map_or(b"", |n| &s[n..]))?;
            return unescape(s, Part::Host);
        }
    }
    let Some(close) = memchr::memrchr(b']', s) else { return Err("missing ']' in host".to_owned()) };
    let port = &s[close + 1..];
    checked_port(port)?;
    let port = unescape(port, Part::Host)?;
    let name = &s[1..close];
    let name = match memchr::memmem::find(name, b"%25") {
        Some(zone) => [unescape(&name[..zone], Part::Host)?, unescape(&name[zone..], Part::Zone)?].concat(),
        None => unescape(name, Part::Host)?,
    };
    let text = String::from_utf8_lossy(&name).into_owned();
    let address = text.split_once('%').map_or(text.as_str(), |(a, _)| a);
    match address.parse::<std::net::IpAddr>() {
        Ok(ip) if ip.is_ipv6() => Ok([b"[", &name[..], b"]", &port].concat()),
        Ok(_) => Err("invalid IP-literal".to_owned()),
        Err(_) => Err(format!("invalid host: ParseAddr({}): unable to parse IP", quote(&name))),
    }
}

fn authority(scheme: &[u8], s: &[u8]) -> Result<(Option<User>, Vec<u8>), String> {
    let Some(at) = memchr::memrchr(b'@', s) else { return Ok((None, host(scheme, s)?)) };
    let host = host(scheme, &s[at + 1..])?;
    let user = &s[..at];
    let ok = |c: &u8| c.is_ascii_alphanumeric() || br"-._:~!$&'()*+,;=%@".contains(c);
    if !user.iter().all(ok) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = cut(user, b':');
    let name = unescape(name, Part::User)?;
    let password = password.map(|p| unescape(p, Part::User)).transpose()?;
    Ok((Some(User { name, password }), host))
}

impl Url {
    /// Parses a URL (`url.Parse`).
    ///
    /// # Errors
    /// Go's error text, e.g. `parse ":x": missing protocol scheme`.
    pub fn parse(s: &[u8]) -> Result<Self, String> {
        let (before, fragment) = cut(s, b'#');
        let error = |url: &[u8], e: String| format!("parse {}: {e}", quote(url));
        let mut url = Self::parse_rest(before).map_err(|e| error(before, e))?;
        if let Some(f) = fragment.filter(|f| !f.is_empty()) {
            url.fragment = unescape(f, Part::Fragment).map_err(|e| error(s, e))?;
            if escape(&url.fragment, Part::Fragment) != f {
                url.raw_fragment = f.to_vec();
            }
        }
        Ok(url)
    }

    fn parse_rest(s: &[u8]) -> Result<Self, String> {
        if s.iter().any(u8::is_ascii_control) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if s == b"*" {
            return Ok(Self { path: s.to_vec(), ..Self::default() });
        }
        let (scheme, mut rest) = scheme(s)?;
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), ..Self::default() };
        if rest.last() == Some(&b'?') && memchr::memchr_iter(b'?', rest).count() == 1 {
            url.force_query = true;
            rest = &rest[..rest.len() - 1];
        } else {
            let (before, query) = cut(rest, b'?');
            rest = before;
            url.raw_query = query.unwrap_or_default().to_vec();
        }
        if !rest.starts_with(b"/") {
            if !scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if rest.starts_with(b"//") && (!scheme.is_empty() || !rest.starts_with(b"///")) {
            let all = &rest[2..];
            let end = memchr::memchr(b'/', all).unwrap_or(all.len());
            (url.user, url.host) = authority(&url.scheme, &all[..end])?;
            rest = &all[end..];
        } else if !scheme.is_empty() && rest.starts_with(b"/") {
            url.omit_host = true;
        }
        url.set_path(rest)?;
        Ok(url)
    }

    fn set_path(&mut self, path: &[u8]) -> Result<(), String> {
        self.path = unescape(path, Part::Path)?;
        self.raw_path = if escape(&self.path, Part::Path) == path { Vec::new() } else { path.to_vec() };
        Ok(())
    }

    fn escaped_path(&self) -> Vec<u8> {
        if self.path == b"*" { self.path.clone() } else { escaped(&self.path, &self.raw_path, Part::Path) }
    }

    /// Resolves a reference against this URL (`URL.ResolveReference`).
    #[must_use]
    pub fn resolve(&self, reference: Self) -> Self {
        let (relative, bare) = (reference.scheme.is_empty(), reference.path.is_empty());
        let within = relative && reference.host.is_empty() && reference.user.is_none();
        let mut out = reference;
        if relative {
            out.scheme.clone_from(&self.scheme);
        }
        let path = if within {
            if bare && !out.force_query && out.raw_query.is_empty() {
                out.raw_query.clone_from(&self.raw_query);
                if out.fragment.is_empty() {
                    out.fragment.clone_from(&self.fragment);
                    out.raw_fragment.clone_from(&self.raw_fragment);
                }
            }
            if bare && !self.opaque.is_empty() {
                out.opaque.clone_from(&self.opaque);
                return out;
            }
            out.host.clone_from(&self.host);
            out.user.clone_from(&self.user);
            resolved_path(&self.escaped_path(), &out.escaped_path())
        } else {
            resolved_path(&out.escaped_path(), b"")
        };
        // Both paths were just escaped, so this cannot fail.
        drop(out.set_path(&path));
        out
    }

    /// The host without port and brackets.
    #[must_use]
    pub fn hostname(&self) -> &[u8] {
        let host = &self.host[..];
        let host = match memchr::memrchr(b':', host) {
            Some(colon) if port_ok(&host[colon..]) => &host[..colon],
            _ => host,
        };
        host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")).unwrap_or(host)
    }

    /// Formats the URL (`URL.String`).
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.write_path(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if self.force_query || !self.raw_query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.raw_query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escaped(&self.fragment, &self.raw_fragment, Part::Fragment));
        }
        out
    }

    fn write_path(&self, out: &mut Vec<u8>) {
        let bare = self.host.is_empty() && self.user.is_none();
        if !(bare && (self.scheme.is_empty() || self.omit_host)) {
            if !bare || !self.path.is_empty() {
                out.extend_from_slice(b"//");
            }
            if let Some(user) = &self.user {
                out.extend(user.to_bytes());
                out.push(b'@');
            }
            out.extend(escape(&self.host, Part::Host));
        }
        let path = self.escaped_path();
        if !path.is_empty() && path[0] != b'/' && !self.host.is_empty() {
            out.push(b'/');
        }
        // Otherwise the first segment would be parsed as a scheme.
        if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }
}

/// The path of a reference, resolved against `base` and without dot segments (`resolvePath`).
fn resolved_path(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let whole = match reference.first() {
        None => base.to_vec(),
        Some(b'/') => reference.to_vec(),
        Some(_) => [&base[..memchr::memrchr(b'/', base).map_or(0, |n| n + 1)], reference].concat(),
    };
    if whole.is_empty() {
        return whole;
    }
    let mut out = vec![b'/'];
    let mut first = true;
    let mut last: &[u8] = b"";
    for segment in whole.split(|b| *b == b'/') {
        last = segment;
        match segment {
            b"." => first = false,
            b".." => {
                out.truncate(memchr::memrchr(b'/', &out[1..]).map_or(1, |n| n + 1));
                first = out.len() == 1;
            }
            _ => {
                if !first {
                    out.push(b'/');
                }
                out.extend_from_slice(segment);
                first = false;
            }
        }
    }
    if matches!(last, b"." | b"..") {
        out.push(b'/');
    }
    // A path with a leading slash has two now.
    if out.get(1) == Some(&b'/') {
        out.remove(0);
    }
    out
}

/// Reverses percent encoding (`url.PathUnescape`).
///
/// # Errors
/// Go's error text, e.g. `invalid URL escape "%"`.
pub fn path_unescape(s: &[u8]) -> Result<Vec<u8>, String> {
    // In a path every character can be escaped.
    unescape(s, Part::Path)
}

/// The original form of a part if it is valid, otherwise the escaped text.
fn escaped(text: &[u8], raw: &[u8], part: Part) -> Vec<u8> {
    let valid = |c: &u8| b"!$&'()*+,;=:@[]%".contains(c) || !should_escape(*c, part);
    if !raw.is_empty() && raw.iter().all(valid) && unescape(raw, part).is_ok_and(|u| u == text) {
        return raw.to_vec();
    }
    escape(text, part)
}

impl User {
    /// User and password, escaped for a URL.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Part::User));
        }
        out
    }
}
