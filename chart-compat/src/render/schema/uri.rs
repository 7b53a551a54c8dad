//! References between schemas: URLs, their fragments, and JSON pointers.

use super::json::Json;
use crate::go::strconv::quote;
use crate::go::url::{self, Url};

/// A pointer's token with `~` and `/` escaped.
pub(super) fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Appends a key to `pointer`.
pub(super) fn append(pointer: &str, token: &str) -> String {
    format!("{pointer}/{}", escape(token))
}

/// Appends a list index to `pointer`.
pub(super) fn append_index(pointer: &str, index: usize) -> String {
    format!("{pointer}/{index}")
}

/// Why a pointer cannot be resolved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// An invalid escape.
    Invalid,
    /// No such value.
    NotFound,
}

/// Resolves a pointer.
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

/// Splits a reference into URL and decoded fragment (`splitFragment`).
pub(super) fn split(reference: &str) -> Result<(&str, String), String> {
    let (url, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let decoded = url::path_unescape(fragment.as_bytes())
        .map_err(|why| format!("error in parsing {}: {why}", quote(reference.as_bytes())))?;
    Ok((url, String::from_utf8_lossy(&decoded).into_owned()))
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

/// Resolves a reference (without fragment) against a base (`url.join`).
pub(super) fn join(base: &str, reference: &str) -> Result<String, String> {
    let parsed = |text: &str| {
        Url::parse(text.as_bytes())
            .map_err(|why| format!("error in parsing {}: {why}", quote(text.as_bytes())))
    };
    let (base, reference) = (parsed(base)?, parsed(reference)?);
    let relative = reference.scheme.is_empty();
    let mut resolved = base.resolve(reference);
    // An opaque base such as a `urn:` does not change.
    if relative && !base.opaque.is_empty() {
        resolved.opaque = base.opaque;
    }
    Ok(String::from_utf8_lossy(&resolved.to_bytes()).into_owned())
}
