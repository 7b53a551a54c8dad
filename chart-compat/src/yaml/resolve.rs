//! The meaning of scalars: YAML 1.1 as go-yaml implements it.
//!
//! Owns the forms of null, booleans, numbers and timestamps. Knows nothing of quotes, tags and documents.

use super::timestamp::is_timestamp;
use crate::go::strconv::{parse_float, parse_int, parse_uint};

/// The resolved value of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond `i64`.
    Uint(u64),
    Float(f64),
    /// A date or time, which stays a string.
    Timestamp,
    Str,
}

/// The version of go-yaml. v3 has two more forms of octal numbers, and only `true` and `false` as booleans.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

/// Resolves an untagged plain scalar.
#[inline]
pub(super) fn resolve(text: &str) -> Resolved {
    match text.as_bytes().first() {
        None => Resolved::Null,
        Some(b'+' | b'-' | b'0'..=b'9') => number(text, true, Dialect::V2),
        Some(b'.') => dotted(text),
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => word(text),
        _ => Resolved::Str,
    }
}

/// Whether a string, written plain, would be read as another value.
#[inline]
pub(super) fn needs_quotes(text: &str, dialect: Dialect) -> bool {
    match text.as_bytes().first() {
        None => true,
        Some(b'+' | b'-' | b'0'..=b'9') => number(text, true, dialect) != Resolved::Str || is_base_60(text),
        // v3 still quotes the words that it no longer resolves.
        _ => resolve(text) != Resolved::Str,
    }
}

/// Resolves numbers, infinities and timestamps, which start with a digit or a sign.
pub(super) fn number(text: &str, timestamps: bool, dialect: Dialect) -> Resolved {
    let bytes = text.as_bytes();
    if let [b'+' | b'-', b'.', ..] = bytes {
        match text.get(1..) {
            Some(".inf" | ".Inf" | ".INF") if bytes.first() == Some(&b'-') => {
                return Resolved::Float(f64::NEG_INFINITY);
            }
            Some(".inf" | ".Inf" | ".INF") => return Resolved::Float(f64::INFINITY),
            _ => {}
        }
    }
    if timestamps && is_timestamp(text) {
        return Resolved::Timestamp;
    }
    // Fast path: most words that start with a digit contain bytes that no number has.
    if !bytes.iter().all(|b| b.is_ascii_hexdigit() || b"+-._xXoO".contains(b)) {
        return Resolved::Str;
    }
    let without;
    let plain = if bytes.contains(&b'_') {
        without = text.replace('_', "");
        without.as_str()
    } else {
        text
    };
    if let Ok(value) = parse_int(plain, 0) {
        return Resolved::Int(value);
    }
    if let Ok(value) = parse_uint(plain, 0) {
        return Resolved::Uint(value);
    }
    if is_decimal(plain)
        && let Ok(value) = parse_float(plain)
    {
        return Resolved::Float(value);
    }
    let signed = |digits: &str, base| match parse_int(digits, base) {
        Ok(value) => Some(Resolved::Int(value)),
        Err(_) => parse_uint(digits, base).ok().map(Resolved::Uint),
    };
    // A sign after the prefix is accepted.
    let odd = if let Some(digits) = plain.strip_prefix("0b") {
        signed(digits, 2)
    } else if let Some(digits) = plain.strip_prefix("-0b") {
        parse_int(&format!("-{digits}"), 2).ok().map(Resolved::Int)
    } else if dialect == Dialect::V2 {
        None
    } else if let Some(digits) = plain.strip_prefix("0o") {
        signed(digits, 8)
    } else if let Some(digits) = plain.strip_prefix("-0o") {
        parse_int(&format!("-{digits}"), 8).ok().map(Resolved::Int)
    } else {
        None
    };
    odd.unwrap_or(Resolved::Str)
}

/// Resolves a scalar that starts with a dot.
pub(super) fn dotted(text: &str) -> Resolved {
    match text {
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" => Resolved::Float(f64::INFINITY),
        other => parse_float(other).map_or(Resolved::Str, Resolved::Float),
    }
}

/// Resolves the words of YAML 1.1.
pub(super) fn word(text: &str) -> Resolved {
    match text {
        "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Resolved::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Resolved::Bool(false)
        }
        _ => Resolved::Str,
    }
}

/// Digits with at most one dot and an optional exponent, as in YAML 1.1.
fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let exponent_ok = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    let mantissa_ok = match mantissa.split_once('.') {
        Some(("", decimals)) => !decimals.is_empty() && digits(decimals),
        Some((whole, decimals)) => digits(whole) && digits(decimals),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    exponent_ok && mantissa_ok
}

/// A base-60 number such as `12:30:45`. It is never read as a number, but always quoted.
fn is_base_60(text: &str) -> bool {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (body, decimals) = body.split_once('.').unwrap_or((body, ""));
    let mut parts = body.split(':');
    let digits = |part: &str, extra: bool| part.bytes().all(|b| b.is_ascii_digit() || extra && b == b'_');
    let first_ok = parts
        .next()
        .is_some_and(|first| first.starts_with(|c: char| c.is_ascii_digit()) && digits(first, true));
    let mut more = 0;
    let rest_ok = parts.all(|part| {
        more += 1;
        digits(part, false)
            && match part.len() {
                1 => true,
                2 => part.as_bytes().first().is_some_and(|b| *b <= b'5'),
                _ => false,
            }
    });
    first_ok && rest_ok && more > 0 && digits(decimals, true)
}
