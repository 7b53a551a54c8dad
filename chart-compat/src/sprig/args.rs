//! What every family of functions needs: arguments as Rust values, and the texts of Go's run-time errors.

use std::borrow::Cow;

use crate::go::{Arena, Object, Value, fmt};
use crate::template::Error;

/// What a template function returns.
pub(super) type Out<'a> = Result<Value<'a>, Error>;

/// Go's panic on a nil pointer; sprig's list functions run into it with nil.
pub(super) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// A string argument.
pub(super) fn bytes(v: Value<'_>) -> &[u8] {
    v.as_bytes().unwrap_or_default()
}

/// A string argument as text; bytes that are no UTF-8 became U+FFFD.
pub(super) fn text(v: Value<'_>) -> Cow<'_, str> {
    go_text(bytes(v))
}

/// Bytes as text, each byte that is no UTF-8 as one U+FFFD, as Go ranges over strings.
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

/// sprig's `strval`: strings and bytes as they are, all else as `%v` prints it.
pub(super) fn strval<'a>(v: Value<'a>) -> Cow<'a, [u8]> {
    match v {
        Value::Str(s) | Value::Bytes(s) => Cow::Borrowed(s),
        other => Cow::Owned(fmt::sprint(other)),
    }
}

/// [`strval`] in the arena.
pub(super) fn strval_in<'a>(arena: &'a Arena, v: Value<'a>) -> &'a [u8] {
    match strval(v) {
        Cow::Borrowed(s) => s,
        Cow::Owned(s) => arena.alloc_slice_copy(&s),
    }
}

/// The items of anything whose Go kind is slice.
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
