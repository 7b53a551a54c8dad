//! References between schemas: URLs, their fragments, and JSON pointers.

use super::json::Json;

/// A pointer's token with `~` and `/` escaped.
pub(super) fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// One step further than `pointer`.
pub(super) fn append(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", escape(token))
}

/// One step further, into a list.
pub(super) fn append_index(pointer: &str, index: usize) -> String {
    format!("{pointer}/{index}")
}

/// Why a pointer leads nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// An escape that is none.
    Invalid,
    /// There is nothing.
    NotFound,
}

/// The value that a pointer points to.
pub(super) fn lookup<'j>(document: &'j Json, pointer: &str) -> Result<&'j Json, Lost> {
    let mut value = document;
    for token in pointer.split('/').skip(1) {
        let token = unescape(token).ok_or(Lost::Invalid)?;
        let next = match value {
            Json::Map(m) => m.get(&token),
            Json::List(l) => token.parse::<usize>().ok().and_then(|i| l.get(i)),
            _ => None,
        };
        value = next.ok_or(Lost::NotFound)?;
    }
    Ok(value)
}

pub(super) fn unescape(token: &str) -> Option<String> {
    let mut parts = token.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        out.push(match part.bytes().next()? {
            b'0' => '~',
            b'1' => '/',
            _ => return None,
        });
        out.push_str(&part[1..]);
    }
    Some(out)
}

/// Takes a reference apart into URL and decoded fragment.
pub(super) fn split(reference: &str) -> Result<(&str, String), String> {
    let (url, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let decoded = decode(fragment).ok_or_else(|| {
        let whole = crate::go::strconv::quote(reference.as_bytes());
        format!("error in parsing {whole}: invalid URL escape")
    })?;
    Ok((url, decoded))
}

/// Undoes percent encoding.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    out.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let digits = part.get(..2)?;
        out.push(u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?);
        out.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// A location for messages: the pointer percent-encoded as the fragment.
pub(super) fn location(url: &str, pointer: &str) -> String {
    let mut out = format!("{url}#");
    for b in pointer.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~$&+:=@/".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// A URL in the parts that matter for resolving: scheme, authority with its slashes, path, query with its mark.
struct Parts<'u> {
    scheme: &'u str,
    authority: &'u str,
    path: &'u str,
    query: &'u str,
}

fn parts(url: &str) -> Parts<'_> {
    let scheme_end = url.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    let (scheme, rest) = match scheme_end {
        Some(end) if end > 0 && url.as_bytes()[end] == b':' && url.as_bytes()[0].is_ascii_alphabetic() => {
            url.split_at(end + 1)
        }
        _ => ("", url),
    };
    let (rest, query) = rest.find('?').map_or((rest, ""), |at| rest.split_at(at));
    let (authority, path) = match rest.strip_prefix("//") {
        Some(inner) => rest.split_at(inner.find('/').map_or(rest.len(), |n| n + 2)),
        None => ("", rest),
    };
    Parts { scheme, authority, path, query }
}

/// Where a reference (without fragment) leads from a base (RFC 3986, 5.2).
pub(super) fn join(base: &str, reference: &str) -> String {
    let r = parts(reference);
    if !r.scheme.is_empty() {
        return reference.to_owned();
    }
    let b = parts(base);
    // What follows the scheme without a slash is no path: a name such as a `urn:`, and all of it stays.
    if !b.scheme.is_empty() && b.authority.is_empty() && !b.path.starts_with('/') {
        return base.to_owned();
    }
    if !r.authority.is_empty() {
        return format!("{}{}{}{}", b.scheme, r.authority, without_dots(r.path), r.query);
    }
    if r.path.is_empty() {
        let query = if r.query.is_empty() { b.query } else { r.query };
        return format!("{}{}{}{query}", b.scheme, b.authority, b.path);
    }
    let path = if r.path.starts_with('/') {
        without_dots(r.path)
    } else {
        let folder = b.path.rfind('/').map_or("/", |at| &b.path[..=at]);
        without_dots(&format!("{folder}{}", r.path))
    };
    format!("{}{}{path}{}", b.scheme, b.authority, r.query)
}

fn without_dots(path: &str) -> String {
    let mut out: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." && out.len() > 1 {
                    out.pop();
                }
                if last {
                    out.push("");
                }
            }
            other => out.push(other),
        }
    }
    out.join("/")
}
