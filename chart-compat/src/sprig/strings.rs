//! String functions: cutting, padding, searching, splitting, joining.
//!
//! Like Go's, they work on bytes, so a cut can split a character. Letter case is in `case`.

use std::collections::HashSet;

use super::args::{Out, bytes, fail, int, items, strval, strval_in};
use crate::go::{Arena, Elem, Map, MapKind, Value, fmt, strconv, trim};
use crate::template::{Error, Exec, Func, Type};

use Type::{Any, Int, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("abbrev", &[Int, Str], |x, a| {
        let (width, s) = (int(a[0]), bytes(a[1]));
        Ok(if width < 4 { a[1] } else { Value::str(x.arena, abbreviate(s, 0, width).unwrap_or_default()) })
    }),
    Func::new("abbrevboth", &[Int, Int, Str], abbrevboth),
    Func::new("trunc", &[Int, Str], |_, a| Ok(Value::Str(trunc(int(a[0]), bytes(a[1]))))),
    Func::new("trim", &[Str], |_, a| Ok(Value::Str(trim::space(bytes(a[0]))))),
    Func::new("substr", &[Int, Int, Str], |_, a| {
        substring(int(a[0]), int(a[1]), bytes(a[2])).map(Value::Str)
    }),
    Func::new("repeat", &[Int, Str], |x, a| Ok(Value::str(x.arena, repeat(bytes(a[1]), int(a[0]))?))),
    Func::new("trimall", &[Str, Str], trim_all),
    Func::new("trimAll", &[Str, Str], trim_all),
    Func::new("trimSuffix", &[Str, Str], |_, a| {
        Ok(Value::Str(bytes(a[1]).strip_suffix(bytes(a[0])).unwrap_or(bytes(a[1]))))
    }),
    Func::new("trimPrefix", &[Str, Str], |_, a| {
        Ok(Value::Str(bytes(a[1]).strip_prefix(bytes(a[0])).unwrap_or(bytes(a[1]))))
    }),
    Func::new("nospace", &[Str], nospace),
    Func::new("initials", &[Str], initials),
    Func::new("wrap", &[Int, Str], |x, a| {
        Ok(Value::str(x.arena, wrap(bytes(a[1]), int(a[0]), b"\n", false)))
    }),
    Func::new("wrapWith", &[Int, Str, Str], |x, a| {
        let separator = if bytes(a[1]).is_empty() { b"\n" } else { bytes(a[1]) };
        Ok(Value::str(x.arena, wrap(bytes(a[2]), int(a[0]), separator, true)))
    }),
    Func::new("contains", &[Str, Str], |_, a| {
        Ok(Value::Bool(memchr::memmem::find(bytes(a[1]), bytes(a[0])).is_some()))
    }),
    Func::new("hasPrefix", &[Str, Str], |_, a| Ok(Value::Bool(bytes(a[1]).starts_with(bytes(a[0]))))),
    Func::new("hasSuffix", &[Str, Str], |_, a| Ok(Value::Bool(bytes(a[1]).ends_with(bytes(a[0]))))),
    Func::variadic("quote", &[Any], quote),
    Func::variadic("squote", &[Any], squote),
    Func::variadic("cat", &[Any], |x, a| Ok(Value::str(x.arena, joined(a, fmt::sprint)))),
    Func::new("indent", &[Int, Str], |x, a| indent(x.arena, int(a[0]), bytes(a[1]), false)),
    Func::new("nindent", &[Int, Str], |x, a| indent(x.arena, int(a[0]), bytes(a[1]), true)),
    Func::new("replace", &[Str, Str, Str], |x, a| {
        replace(x.arena, bytes(a[2]), bytes(a[0]), bytes(a[1])).map(Value::Str)
    }),
    Func::new("plural", &[Str, Str, Int], |_, a| Ok(if int(a[2]) == 1 { a[0] } else { a[1] })),
    Func::new("toString", &[Any], |x, a| Ok(Value::Str(strval_in(x.arena, a[0])))),
    Func::new("split", &[Str, Str], |x, a| Ok(numbered(x.arena, split(bytes(a[1]), bytes(a[0]), -1)))),
    Func::new("splitn", &[Str, Int, Str], |x, a| {
        Ok(numbered(x.arena, split(bytes(a[2]), bytes(a[0]), int(a[1]))))
    }),
    Func::new("splitList", &[Str, Str], |x, a| {
        let parts = split(bytes(a[1]), bytes(a[0]), -1);
        let parts = x.arena.alloc_slice_fill_iter(parts.into_iter().map(Value::Str));
        Ok(Value::list_of(x.arena, Elem::String, parts))
    }),
    Func::new("toStrings", &[Any], to_strings),
    Func::new("join", &[Str, Any], join),
    Func::new("sortAlpha", &[Any], sort_alpha),
];

/// goutils' `abbreviate`; `None` if it fails.
#[allow(clippy::cast_possible_wrap)]
fn abbreviate(s: &[u8], offset: i64, width: i64) -> Option<Vec<u8>> {
    if s.is_empty() {
        return Some(Vec::new());
    }
    let len = s.len() as i64;
    if width < 4 {
        return None;
    }
    if len <= width {
        return Some(s.to_vec());
    }
    let mut offset = offset.min(len);
    if len - offset < width - 3 {
        offset = len - (width - 3);
    }
    let at = |n: i64| usize::try_from(n).unwrap_or(0).min(s.len());
    if offset <= 4 {
        return Some([&s[..at(width - 3)], b"..."].concat());
    }
    if width < 7 {
        return None;
    }
    if offset + width - 3 < len {
        let rest = abbreviate(&s[at(offset)..], 0, width - 3).unwrap_or_default();
        return Some([b"...", &rest[..]].concat());
    }
    Some([b"...", &s[at(len - (width - 3))..]].concat())
}

fn abbrevboth<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let (left, right, s) = (int(a[0]), int(a[1]), bytes(a[2]));
    if right < 4 || left > 0 && right < 7 {
        return Ok(a[2]);
    }
    Ok(Value::str(x.arena, abbreviate(s, left, right).unwrap_or_default()))
}

/// Truncates to `count` bytes; a negative count keeps the end.
#[allow(clippy::cast_possible_wrap)]
fn trunc(count: i64, s: &[u8]) -> &[u8] {
    let len = s.len() as i64;
    match usize::try_from(count) {
        Ok(n) => &s[..n.min(s.len())],
        Err(_) => usize::try_from(len.saturating_add(count)).map_or(s, |from| &s[from.min(s.len())..]),
    }
}

fn substring(start: i64, end: i64, s: &[u8]) -> Result<&[u8], Error> {
    let len = s.len();
    let bounds = |text: String| fail(format!("runtime error: slice bounds out of range {text}"));
    let Ok(from) = usize::try_from(start) else {
        return match usize::try_from(end) {
            Ok(to) if to <= len => Ok(&s[..to]),
            Ok(to) => bounds(format!("[:{to}] with length {len}")),
            Err(_) => bounds(format!("[:{end}]")),
        };
    };
    let to = usize::try_from(end).ok().filter(|e| *e <= len).unwrap_or(len);
    if from > to { bounds(format!("[{from}:{to}]")) } else { Ok(&s[from..to]) }
}

/// `strings.Repeat`
fn repeat(s: &[u8], count: i64) -> Result<Vec<u8>, Error> {
    let Ok(count) = usize::try_from(count) else {
        return fail("strings: negative Repeat count");
    };
    match s.len().checked_mul(count) {
        Some(_) => Ok(s.repeat(count)),
        None => fail("strings: Repeat output length overflow"),
    }
}

fn trim_all<'a>(_: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let cut: HashSet<char> = super::args::runes(bytes(a[0])).collect();
    Ok(Value::Str(trim::runes(bytes(a[1]), |c| cut.contains(&c))))
}

/// goutils converts bytes to characters, so text beyond ASCII is read as Latin-1.
fn latin1(b: u8) -> char {
    char::from(b)
}

fn nospace<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let s = bytes(a[0]);
    if !s.iter().any(|b| latin1(*b).is_whitespace()) {
        return Ok(a[0]);
    }
    let out: String = s.iter().map(|b| latin1(*b)).filter(|c| !c.is_whitespace()).collect();
    Ok(Value::str(x.arena, out))
}

fn initials<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let mut out = String::new();
    let mut gap = true;
    for b in bytes(a[0]) {
        let c = latin1(*b);
        if c.is_whitespace() {
            gap = true;
        } else if std::mem::take(&mut gap) {
            out.push(c);
        }
    }
    Ok(Value::str(x.arena, out))
}

/// Wraps lines at spaces (`goutils.WrapCustom`). `long`: whether words longer than a line are split.
fn wrap(s: &[u8], width: i64, separator: &[u8], long: bool) -> Vec<u8> {
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let mut out = Vec::with_capacity(s.len() + s.len() / width.max(8) * separator.len());
    let mut at = 0;
    while s.len() - at > width {
        if s[at] == b' ' {
            at += 1;
            continue;
        }
        let end = at + width;
        let (line, next) = match memchr::memrchr(b' ', &s[at..=end]) {
            Some(space) => (at + space, at + space + 1),
            None if long => (end, end),
            None => match memchr::memchr(b' ', &s[end..]) {
                Some(space) => (end + space, end + space + 1),
                None => {
                    out.extend_from_slice(&s[at..]);
                    return out;
                }
            },
        };
        out.extend_from_slice(&s[at..line]);
        out.extend_from_slice(separator);
        at = next;
    }
    out.extend_from_slice(&s[at..]);
    out
}

/// The arguments except nil, formatted with `show` and joined with spaces.
fn joined<'a>(a: &[Value<'a>], show: impl Fn(Value<'a>) -> Vec<u8>) -> Vec<u8> {
    let shown: Vec<Vec<u8>> = a.iter().filter(|v| !v.is_nil()).map(|v| show(*v)).collect();
    shown.join(&b' ')
}

fn quote<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    if let [Value::Str(s)] = a
        && s.iter().all(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\'))
    {
        let out = x.arena.alloc_slice_fill_copy(s.len() + 2, b'"');
        out[1..=s.len()].copy_from_slice(s);
        return Ok(Value::Str(out));
    }
    Ok(Value::str(x.arena, joined(a, |v| strconv::quote(&strval(v)).into_bytes())))
}

fn squote<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    Ok(Value::str(x.arena, joined(a, |v| [b"'", &fmt::sprint(v)[..], b"'"].concat())))
}

/// Indents every line. With `newline` the text starts with a line feed.
fn indent<'a>(arena: &'a Arena, spaces: i64, s: &[u8], newline: bool) -> Out<'a> {
    let Ok(pad) = usize::try_from(spaces) else {
        return fail("strings: negative Repeat count");
    };
    let lines = 1 + memchr::memchr_iter(b'\n', s).count();
    let total = lines.checked_mul(pad).and_then(|n| n.checked_add(s.len() + usize::from(newline)));
    let Some(total) = total else { return fail("strings: Repeat output length overflow") };
    let out = arena.alloc_slice_fill_copy(total, b' ');
    let mut at = 0;
    if newline {
        out[0] = b'\n';
        at = 1;
    }
    let mut rest = s;
    loop {
        at += pad;
        let n = memchr::memchr(b'\n', rest).map_or(rest.len(), |n| n + 1);
        out[at..at + n].copy_from_slice(&rest[..n]);
        at += n;
        if n == 0 || rest[n - 1] != b'\n' {
            return Ok(Value::Str(out));
        }
        rest = &rest[n..];
    }
}

/// `strings.Replace` of all occurrences; an empty pattern matches before each character and at the end.
fn replace<'a>(arena: &'a Arena, s: &'a [u8], old: &[u8], new: &[u8]) -> Result<&'a [u8], Error> {
    if old == new {
        return Ok(s);
    }
    let mut out = Vec::new();
    if old.is_empty() {
        let mut rest = s;
        while !rest.is_empty() {
            let (_, size) = fmt::decode(rest);
            out.extend_from_slice(new);
            out.extend_from_slice(&rest[..size]);
            rest = &rest[size..];
        }
        out.extend_from_slice(new);
        return Ok(arena.alloc_slice_copy(&out));
    }
    let mut at = 0;
    for found in memchr::memmem::find_iter(s, old) {
        out.extend_from_slice(&s[at..found]);
        out.extend_from_slice(new);
        at = found + old.len();
    }
    if at == 0 {
        return Ok(s);
    }
    out.extend_from_slice(&s[at..]);
    Ok(arena.alloc_slice_copy(&out))
}

/// `strings.SplitN`; an empty separator splits into characters.
fn split<'a>(s: &'a [u8], separator: &[u8], n: i64) -> Vec<&'a [u8]> {
    let limit = if n < 0 { usize::MAX } else { usize::try_from(n).unwrap_or(usize::MAX) };
    if limit == 0 {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut rest = s;
    if separator.is_empty() {
        while !rest.is_empty() {
            let size = if parts.len() + 1 == limit { rest.len() } else { fmt::decode(rest).1 };
            parts.push(&rest[..size]);
            rest = &rest[size..];
        }
        return parts;
    }
    while parts.len() + 1 < limit {
        let Some(found) = memchr::memmem::find(rest, separator) else { break };
        parts.push(&rest[..found]);
        rest = &rest[found + separator.len()..];
    }
    parts.push(rest);
    parts
}

/// A map with the keys `_0`, `_1`, …
fn numbered<'a>(arena: &'a Arena, parts: Vec<&'a [u8]>) -> Value<'a> {
    let map = Map::with_capacity(arena, MapKind::Strings, parts.len());
    let mut entries: Vec<_> =
        parts.into_iter().enumerate().map(|(i, part)| (format!("_{i}"), part)).collect();
    // In the order of the map: to insert before others takes linear time.
    entries.sort_unstable();
    for (key, part) in entries {
        map.insert(arena.alloc_slice_copy(key.as_bytes()), Value::Str(part));
    }
    Value::Map(map)
}

/// sprig's `strslice`: the items as strings, without nil. Any other value becomes a list of one string.
fn strslice<'a>(arena: &'a Arena, v: Value<'a>) -> Vec<&'a [u8]> {
    match items(arena, v) {
        Some(items) => items.iter().filter(|i| !i.is_nil()).map(|i| strval_in(arena, *i)).collect(),
        None if v.is_nil() => Vec::new(),
        None => vec![strval_in(arena, v)],
    }
}

fn to_strings<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    if let Value::List(l) = a[0]
        && l.elem == Elem::String
    {
        return Ok(a[0]);
    }
    let parts = strslice(x.arena, a[0]);
    Ok(Value::list_of(
        x.arena,
        Elem::String,
        x.arena.alloc_slice_fill_iter(parts.into_iter().map(Value::Str)),
    ))
}

fn join<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    Ok(Value::str(x.arena, strslice(x.arena, a[1]).join(bytes(a[0]))))
}

fn sort_alpha<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let mut parts = match items(x.arena, a[0]) {
        Some(_) => strslice(x.arena, a[0]),
        None => vec![strval_in(x.arena, a[0])],
    };
    if let Value::List(l) = a[0]
        && l.nil
        && l.elem == Elem::String
    {
        return Ok(a[0]);
    }
    parts.sort_unstable();
    Ok(Value::list_of(
        x.arena,
        Elem::String,
        x.arena.alloc_slice_fill_iter(parts.into_iter().map(Value::Str)),
    ))
}
