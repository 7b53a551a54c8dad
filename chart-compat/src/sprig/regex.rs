//! Regular expressions. The plain functions panic on an invalid pattern, their `must` variants return the error.
//!
//! The output of a replacement grows by doubling, so it is limited to half of the remaining memory.

use std::sync::Arc;

use super::args::{Out, bytes, int};
use crate::go::regexp::{self, Regexp};
use crate::go::{Elem, Value};
use crate::template::{Error, Exec, Func, Type};

use Type::{Int, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("regexMatch", &[Str, Str], |x, a| match x.regexp(bytes(a[0])) {
        Ok(regexp) => is_match(x, &regexp, a[1]),
        Err(_) => Ok(Value::Bool(false)),
    }),
    Func::new("mustRegexMatch", &[Str, Str], |x, a| returned(x, a[0]).and_then(|r| is_match(x, &r, a[1]))),
    Func::new("regexFindAll", &[Str, Str, Int], |x, a| panicking(x, a[0]).and_then(|r| find_all(x, &r, a))),
    Func::new("mustRegexFindAll", &[Str, Str, Int], |x, a| {
        returned(x, a[0]).and_then(|r| find_all(x, &r, a))
    }),
    Func::new("regexFind", &[Str, Str], |x, a| panicking(x, a[0]).and_then(|r| find(x, &r, a[1]))),
    Func::new("mustRegexFind", &[Str, Str], |x, a| returned(x, a[0]).and_then(|r| find(x, &r, a[1]))),
    Func::new("regexReplaceAll", &[Str, Str, Str], |x, a| {
        panicking(x, a[0]).and_then(|r| replace(x, &r, a, Replacement::Template))
    }),
    Func::new("mustRegexReplaceAll", &[Str, Str, Str], |x, a| {
        returned(x, a[0]).and_then(|r| replace(x, &r, a, Replacement::Template))
    }),
    Func::new("regexReplaceAllLiteral", &[Str, Str, Str], |x, a| {
        panicking(x, a[0]).and_then(|r| replace(x, &r, a, Replacement::Literal))
    }),
    Func::new("mustRegexReplaceAllLiteral", &[Str, Str, Str], |x, a| {
        returned(x, a[0]).and_then(|r| replace(x, &r, a, Replacement::Literal))
    }),
    Func::new("regexSplit", &[Str, Str, Int], |x, a| panicking(x, a[0]).and_then(|r| split(x, &r, a))),
    Func::new("mustRegexSplit", &[Str, Str, Int], |x, a| returned(x, a[0]).and_then(|r| split(x, &r, a))),
    Func::new("regexQuoteMeta", &[Str], |x, a| Ok(Value::str(x.arena, regexp::quote_meta(bytes(a[0]))))),
];

type Compiled = Result<Arc<Regexp>, Error>;

fn panicking<'a>(x: &mut Exec<'a>, pattern: Value<'a>) -> Compiled {
    let pattern = bytes(pattern);
    x.regexp(pattern).map_err(|error| Error::new(regexp::must_compile_panic(pattern, &error)))
}

fn returned<'a>(x: &mut Exec<'a>, pattern: Value<'a>) -> Compiled {
    x.regexp(bytes(pattern)).map_err(Error::new)
}

fn is_match<'a>(x: &mut Exec<'a>, regexp: &Regexp, s: Value<'a>) -> Out<'a> {
    x.count_search(regexp, bytes(s).len())?;
    Ok(Value::Bool(regexp.is_match(bytes(s))))
}

fn find<'a>(x: &mut Exec<'a>, regexp: &Regexp, s: Value<'a>) -> Out<'a> {
    x.count_search(regexp, bytes(s).len())?;
    Ok(Value::Str(regexp.find(bytes(s)).unwrap_or_default()))
}

fn find_all<'a>(x: &mut Exec<'a>, regexp: &Regexp, a: &[Value<'a>]) -> Out<'a> {
    let s = bytes(a[1]);
    let found = regexp.try_find_all(s, int(a[2]), &mut |left| x.count_search(regexp, left))?;
    if found.is_empty() {
        return Ok(Value::nil_list(x.arena, Elem::String));
    }
    let items = x.arena.alloc_slice_fill_iter(found.into_iter().map(|m| Value::Str(&s[m.range()])));
    Ok(Value::list_of(x.arena, Elem::String, items))
}

/// What a match is replaced by.
#[derive(Clone, Copy)]
enum Replacement {
    /// A text in which `$1` and the like refer to groups.
    Template,
    Literal,
}

fn replace<'a>(x: &mut Exec<'a>, regexp: &Regexp, a: &[Value<'a>], form: Replacement) -> Out<'a> {
    let (s, by, room) = (bytes(a[1]), bytes(a[2]), x.room() / 2);
    let search = &mut |left| x.count_search(regexp, left);
    let text = match form {
        Replacement::Template => regexp.replace_all(s, by, room, search)?,
        Replacement::Literal => regexp.replace_all_literal(s, by, room, search)?,
    };
    text.map(|text| Value::str(x.arena, text)).ok_or_else(|| x.out_of_memory())
}

fn split<'a>(x: &mut Exec<'a>, regexp: &Regexp, a: &[Value<'a>]) -> Out<'a> {
    Ok(match regexp.split(bytes(a[1]), int(a[2]), &mut |left| x.count_search(regexp, left))? {
        None => Value::nil_list(x.arena, Elem::String),
        Some(parts) => {
            let items = x.arena.alloc_slice_fill_iter(parts.into_iter().map(Value::Str));
            Value::list_of(x.arena, Elem::String, items)
        }
    })
}
