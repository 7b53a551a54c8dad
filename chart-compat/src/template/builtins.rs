//! The functions that every Go template has (`text/template/funcs.go`).

use super::compare::{equal, less};
use super::error::Error;
use super::exec::Exec;
use super::func::{Func, Type};
use crate::go::{Object, Value, fmt, unicode};

use Type::{Any, Reflect, String as Str};

type Result<'a> = std::result::Result<Value<'a>, Error>;

/// The built-in functions.
pub const BUILTINS: &[Func] = &[
    Func::variadic("and", &[Reflect, Reflect], unreachable),
    Func::variadic("or", &[Reflect, Reflect], unreachable),
    Func::new("not", &[Reflect], |_, a| Ok(Value::Bool(!a[0].truth()))),
    Func::new("len", &[Reflect], len),
    Func::variadic("index", &[Reflect, Reflect], index),
    Func::variadic("slice", &[Reflect, Reflect], slice),
    Func::variadic("call", &[Reflect, Reflect], unreachable),
    Func::variadic("print", &[Any], |x, a| Ok(Value::str(x.arena, fmt::sprint_all(a)))),
    Func::variadic("printf", &[Str, Any], printf),
    Func::variadic("println", &[Any], |x, a| Ok(Value::str(x.arena, fmt::sprintln(a)))),
    Func::variadic("html", &[Any], |x, a| Ok(Value::str(x.arena, html(&eval_args(x, a))))),
    Func::variadic("js", &[Any], |x, a| Ok(Value::str(x.arena, js(&eval_args(x, a))))),
    Func::variadic("urlquery", &[Any], |x, a| Ok(Value::str(x.arena, query_escape(&eval_args(x, a))))),
    Func::variadic("eq", &[Reflect, Reflect], eq),
    Func::new("ne", &[Reflect, Reflect], |x, a| Ok(Value::Bool(!equal(a[0], a[1], x.funcs.values_type)?))),
    Func::new("lt", &[Reflect, Reflect], |x, a| Ok(Value::Bool(less(a[0], a[1], x.funcs.values_type)?))),
    Func::new("le", &[Reflect, Reflect], |x, a| Ok(Value::Bool(less_or_equal(x, a)?))),
    Func::new("gt", &[Reflect, Reflect], |x, a| Ok(Value::Bool(!less_or_equal(x, a)?))),
    Func::new("ge", &[Reflect, Reflect], |x, a| Ok(Value::Bool(!less(a[0], a[1], x.funcs.values_type)?))),
];

/// Never called: the engine evaluates `and`, `or` and `call` itself, because it needs their unevaluated arguments.
fn unreachable<'a>(_: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    Ok(args.last().copied().unwrap_or_default())
}

fn less_or_equal<'a>(x: &Exec<'a>, a: &[Value<'a>]) -> std::result::Result<bool, Error> {
    Ok(less(a[0], a[1], x.funcs.values_type)? || equal(a[0], a[1], x.funcs.values_type)?)
}

fn eq<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let Some((first, rest)) = args.split_first().filter(|(_, r)| !r.is_empty()) else {
        return Err(Error::new("missing argument for comparison"));
    };
    for other in rest {
        if equal(*first, *other, x.funcs.values_type)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// The length of a string in bytes, of a list or of a map.
#[allow(clippy::cast_possible_wrap)]
fn len<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let n = match args[0] {
        Value::NilInterface => return Err(Error::new("len of nil pointer")),
        Value::Nil => return Err(Error::new("reflect: call of reflect.Value.Type on zero Value")),
        Value::Str(s) | Value::Bytes(s) => s.len(),
        Value::List(l) => l.items.len(),
        Value::Map(m) => m.len(),
        Value::Object(Object::ApiVersions(v)) => v.len(),
        Value::Object(Object::Files(f)) => f.len(),
        other => return Err(Error::new(format!("len of type {}", pointed(other, x.funcs.values_type)))),
    };
    Ok(Value::Int(n as i64))
}

fn position(index: Value<'_>, len: usize, values_type: &'static str) -> std::result::Result<usize, Error> {
    let n = match index {
        Value::Int(i) | Value::Int64(i) => i,
        Value::Object(Object::Duration(d)) => *d,
        Value::Uint64(u) => i64::try_from(u).unwrap_or(i64::MAX),
        Value::Nil | Value::NilInterface => return Err(Error::new("cannot index slice/array with nil")),
        other => {
            let name = other.type_name(values_type);
            return Err(Error::new(format!("cannot index slice/array with type {name}")));
        }
    };
    match usize::try_from(n) {
        Ok(n) if n <= len => Ok(n),
        _ => Err(Error::new(format!("index out of range: {n}"))),
    }
}

/// The item at index `key`; `what` is Go's kind of the container.
fn item<T: Copy>(
    items: &[T],
    key: Value<'_>,
    what: &str,
    values_type: &'static str,
) -> std::result::Result<T, Error> {
    // Go's own check accepts an index equal to the length; then reflect panics.
    let at = position(key, items.len(), values_type)?;
    items.get(at).copied().ok_or_else(|| Error::new(format!("reflect: {what} index out of range")))
}

fn index<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let types = x.funcs.values_type;
    let (&first, rest) = args.split_first().ok_or_else(|| Error::new("index of untyped nil"))?;
    let mut found = first;
    if found.is_nil() {
        return Err(Error::new("index of untyped nil"));
    }
    for &key in rest {
        found = match found {
            Value::Nil | Value::NilInterface => return Err(Error::new("index of nil pointer")),
            Value::Map(m) => match key {
                Value::Str(k) => {
                    m.get(k).unwrap_or(if m.holds_strings() { Value::Str(&[]) } else { Value::Nil })
                }
                Value::Nil | Value::NilInterface => {
                    return Err(Error::new("value is nil; should be of type string"));
                }
                other => {
                    let got = other.type_name(types);
                    return Err(Error::new(format!("value has type {got}; should be string")));
                }
            },
            Value::List(l) => item(l.items, key, "slice", types)?,
            Value::Bytes(b) => Value::Int(i64::from(item(b, key, "slice", types)?)),
            Value::Str(b) => Value::Int(i64::from(item(b, key, "string", types)?)),
            Value::Object(Object::ApiVersions(v)) => Value::Str(item(v, key, "slice", types)?.as_bytes()),
            Value::Object(Object::Files(f)) => match key {
                Value::Str(k) => {
                    f.iter().find(|e| e.0.as_bytes() == k).map_or(Value::Bytes(&[]), |e| Value::Bytes(e.1))
                }
                other => {
                    let got = other.type_name(types);
                    return Err(Error::new(format!("value has type {got}; should be string")));
                }
            },
            other => {
                return Err(Error::new(format!("can't index item of type {}", pointed(other, types))));
            }
        };
    }
    Ok(found)
}

/// Slices by indexes. In Helm charts sprig's `slice` replaces it; other users of the engine get this one.
fn slice<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let types = x.funcs.values_type;
    let len = match args[0] {
        Value::Nil | Value::NilInterface => return Err(Error::new("slice of untyped nil")),
        Value::Str(s) | Value::Bytes(s) => s.len(),
        Value::List(l) => l.items.len(),
        other => return Err(Error::new(format!("can't slice item of type {}", other.type_name(types)))),
    };
    if args.len() > 4 {
        return Err(Error::new(format!("too many slice indexes: {}", args.len() - 1)));
    }
    if args.len() == 4 && matches!(args[0], Value::Str(_)) {
        return Err(Error::new("cannot 3-index slice a string"));
    }
    let mut bounds = [0, len, len];
    for (bound, arg) in bounds.iter_mut().zip(&args[1..]) {
        *bound = position(*arg, len, types)?;
    }
    let [from, to, cap] = bounds;
    if from > to {
        return Err(Error::new(format!("invalid slice index: {from} > {to}")));
    }
    if to > cap {
        return Err(Error::new(format!("invalid slice index: {to} > {cap}")));
    }
    Ok(match args[0] {
        Value::Str(s) => Value::Str(&s[from..to]),
        Value::Bytes(s) => Value::Bytes(&s[from..to]),
        Value::List(l) => Value::List(x.arena.alloc(crate::go::List { items: &l.items[from..to], ..*l })),
        other => other,
    })
}

fn printf<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let format = args[0].as_bytes().unwrap_or_default();
    Ok(Value::str(x.arena, fmt::sprintf(format, &args[1..], x.funcs.values_type)))
}

fn eval_args<'a>(x: &Exec<'a>, args: &[Value<'a>]) -> Vec<u8> {
    match args {
        [Value::Str(s)] => s.to_vec(),
        _ => {
            let printable = |v: &Value<'a>| match v {
                // Nil becomes the text that an action prints for it.
                Value::Nil | Value::NilInterface => Value::Str(b"<no value>"),
                Value::Object(Object::Struct(s)) => {
                    s.pointed_at().map_or(*v, |s| Value::object(x.arena, Object::Struct(s)))
                }
                _ => *v,
            };
            fmt::sprint_all(&args.iter().map(printable).collect::<Vec<_>>())
        }
    }
}

fn html(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    for c in s {
        match c {
            0 => out.extend_from_slice("\u{FFFD}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            c => out.push(*c),
        }
    }
    out
}

fn js(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    let mut at = 0;
    while at < s.len() {
        let (c, size) = fmt::decode(&s[at..]);
        let piece = &s[at..at + size];
        at += size;
        match c {
            '\\' => out.extend_from_slice(b"\\\\"),
            '\'' => out.extend_from_slice(b"\\'"),
            '"' => out.extend_from_slice(b"\\\""),
            '<' => out.extend_from_slice(b"\\u003C"),
            '>' => out.extend_from_slice(b"\\u003E"),
            '&' => out.extend_from_slice(b"\\u0026"),
            '=' => out.extend_from_slice(b"\\u003D"),
            c if u32::from(c) < 0x20 || !c.is_ascii() && !unicode::is_print(c) => {
                out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes());
            }
            // Bytes that are not valid UTF-8 stay unchanged.
            _ => out.extend_from_slice(piece),
        }
    }
    out
}

/// Go's type name of a value, or of what a pointer points to.
fn pointed<'a>(value: Value<'a>, values_type: &'static str) -> &'a str {
    let name = value.type_name(values_type);
    name.strip_prefix('*').unwrap_or(name)
}

/// `url.QueryEscape`
fn query_escape(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    for &c in s {
        match c {
            b' ' => out.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => out.push(c),
            c if c.is_ascii_alphanumeric() => out.push(c),
            c => out.extend_from_slice(format!("%{c:02X}").as_bytes()),
        }
    }
    out
}
