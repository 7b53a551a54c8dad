//! Helpers of all function families: arguments as Rust values, and Go's run-time error texts.

use std::borrow::Cow;

use crate::go::{Arena, Object, Value, fmt};
use crate::template::Error;

/// The result of a template function.
pub(super) type Out<'a> = Result<Value<'a>, Error>;

/// Go's panic on a nil pointer, the error of sprig's list functions for nil.
pub(super) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// The bytes of a string argument.
pub(super) fn bytes(v: Value<'_>) -> &[u8] {
    v.as_bytes().unwrap_or_default()
}

/// A string argument as UTF-8; each invalid byte becomes U+FFFD.
pub(super) fn text(v: Value<'_>) -> Cow<'_, str> {
    go_text(bytes(v))
}

/// Bytes as UTF-8. Each invalid byte becomes one U+FFFD, as when Go ranges over a string.
pub(super) fn go_text(s: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(s) {
        Ok(t) => Cow::Borrowed(t),
        Err(_) => Cow::Owned(runes(s).collect()),
    }
}

/// The runes of a string as Go ranges over it.
pub(super) fn runes(s: &[u8]) -> impl Iterator<Item = char> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= s.len() {
            return None;
        }
        let (c, size) = fmt::decode(&s[at..]);
        at += size;
        Some(c)
    })
}

/// An `int` or `int64` argument.
pub(super) fn int(v: Value<'_>) -> i64 {
    match v {
        Value::Int(i) | Value::Int64(i) => i,
        _ => 0,
    }
}

/// An error with Go's text.
pub(super) fn fail<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::new(text))
}

/// sprig's `strval`: strings and bytes unchanged, other values as `%v` prints them.
pub(super) fn strval<'a>(v: Value<'a>) -> Cow<'a, [u8]> {
    match v {
        Value::Str(s) | Value::Bytes(s) => Cow::Borrowed(s),
        other => Cow::Owned(fmt::sprint(other)),
    }
}

/// [`strval`], copied into the arena if necessary.
pub(super) fn strval_in<'a>(arena: &'a Arena, v: Value<'a>) -> &'a [u8] {
    match strval(v) {
        Cow::Borrowed(s) => s,
        Cow::Owned(s) => arena.alloc_slice_copy(&s),
    }
}

/// The items of a value whose Go kind is slice.
pub(super) fn items<'a>(arena: &'a Arena, v: Value<'a>) -> Option<&'a [Value<'a>]> {
    match v {
        Value::List(l) => Some(l.items),
        Value::Bytes(b) => Some(arena.alloc_slice_fill_iter(b.iter().map(|b| Value::Int(i64::from(*b))))),
        Value::Object(Object::ApiVersions(versions)) => {
            Some(arena.alloc_slice_fill_iter(versions.iter().map(|v| Value::Str(v.as_bytes()))))
        }
        _ => None,
    }
}
