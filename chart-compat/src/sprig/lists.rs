//! List functions. Each has a `must` variant that returns an error where the plain one panics; both read the same in a template.

use super::args::{NIL_POINTER, Out, fail, int, items};
use super::equal::deep_equal;
use super::numbers::to_int64;
use crate::go::{Arena, Elem, Object, Value};
use crate::template::{Error, Exec, Func, Type};

use Type::{Any, Int};

pub(super) const FUNCS: &[Func] = &[
    Func::variadic("list", &[Any], |x, a| Ok(Value::list(x.arena, a))),
    Func::variadic("tuple", &[Any], |x, a| Ok(Value::list(x.arena, a))),
    Func::new("append", &[Any, Any], append),
    Func::new("push", &[Any, Any], append),
    Func::new("mustAppend", &[Any, Any], append),
    Func::new("mustPush", &[Any, Any], append),
    Func::new("prepend", &[Any, Any], prepend),
    Func::new("mustPrepend", &[Any, Any], prepend),
    Func::new("first", &[Any], first),
    Func::new("mustFirst", &[Any], first),
    Func::new("last", &[Any], last),
    Func::new("mustLast", &[Any], last),
    Func::new("rest", &[Any], rest),
    Func::new("mustRest", &[Any], rest),
    Func::new("initial", &[Any], initial),
    Func::new("mustInitial", &[Any], initial),
    Func::new("reverse", &[Any], reverse),
    Func::new("mustReverse", &[Any], reverse),
    Func::new("uniq", &[Any], uniq),
    Func::new("mustUniq", &[Any], uniq),
    Func::new("compact", &[Any], compact),
    Func::new("mustCompact", &[Any], compact),
    Func::variadic("without", &[Any, Any], without),
    Func::variadic("mustWithout", &[Any, Any], without),
    Func::new("has", &[Any, Any], has),
    Func::new("mustHas", &[Any, Any], has),
    Func::variadic("slice", &[Any, Any], slice),
    Func::variadic("mustSlice", &[Any, Any], slice),
    Func::variadic("concat", &[Any], concat),
    Func::new("chunk", &[Int, Any], chunk),
    Func::new("mustChunk", &[Int, Any], chunk),
];

/// The items of a list; for any other value Go's error. `what` is its beginning.
fn list_items<'a>(arena: &'a Arena, v: Value<'a>, what: &str) -> Result<&'a [Value<'a>], Error> {
    match items(arena, v) {
        Some(items) => Ok(items),
        None if v.is_nil() => fail(NIL_POINTER),
        None => fail(format!("{what} {}", v.kind())),
    }
}

fn collected<'a>(arena: &'a Arena, items: Vec<Value<'a>>) -> Value<'a> {
    Value::list_of(arena, Elem::Any, arena.alloc_slice_fill_iter(items))
}

fn append<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[0], "Cannot push on type")?;
    let all = x.arena.alloc_slice_fill_iter(items.iter().chain([&a[1]]).copied().collect::<Vec<_>>());
    Ok(Value::list_of(x.arena, Elem::Any, all))
}

fn prepend<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[0], "Cannot prepend on type")?;
    Ok(collected(x.arena, [a[1]].into_iter().chain(items.iter().copied()).collect()))
}

fn first<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    Ok(list_items(x.arena, a[0], "Cannot find first on type")?.first().copied().unwrap_or_default())
}

fn last<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    Ok(list_items(x.arena, a[0], "Cannot find last on type")?.last().copied().unwrap_or_default())
}

fn rest<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    Ok(match list_items(x.arena, a[0], "Cannot find rest on type")?.split_first() {
        Some((_, rest)) => Value::list_of(x.arena, Elem::Any, rest),
        None => Value::nil_list(x.arena, Elem::Any),
    })
}

fn initial<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    Ok(match list_items(x.arena, a[0], "Cannot find initial on type")?.split_last() {
        Some((_, initial)) => Value::list_of(x.arena, Elem::Any, initial),
        None => Value::nil_list(x.arena, Elem::Any),
    })
}

fn reverse<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[0], "Cannot find reverse on type")?;
    Ok(collected(x.arena, items.iter().rev().copied().collect()))
}

/// Whether a list has a value. The comparisons count: a function that calls this for each item of a list takes the square of its length.
fn is_in<'a>(x: &mut Exec<'a>, needle: Value<'a>, hay: &[Value<'a>]) -> Result<bool, Error> {
    x.count_steps(hay.len() / 4)?;
    Ok(hay.iter().any(|item| deep_equal(x.arena, needle, *item)))
}

/// A value that equals others exactly if this does; `None` for one that has to be compared.
fn plain<'a>(value: Value<'a>) -> Option<(u8, u64, &'a [u8])> {
    Some(match value {
        Value::Str(text) => (0, 0, text),
        Value::Bool(value) => (1, value.into(), b""),
        Value::Int(value) => (2, value.cast_unsigned(), b""),
        Value::Int64(value) => (3, value.cast_unsigned(), b""),
        Value::Uint64(value) => (4, value, b""),
        _ => return None,
    })
}

fn uniq<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[0], "Cannot find uniq on type")?;
    // Plain values are compared by hash, so long lists of them stay fast.
    let mut known = std::collections::HashSet::new();
    let mut out: Vec<Value<'a>> = Vec::with_capacity(items.len());
    let mut others: Vec<Value<'a>> = Vec::new();
    for item in items {
        let new = match plain(*item) {
            Some(value) => known.insert(value),
            None => {
                let new = !is_in(x, *item, &others)?;
                if new {
                    others.push(*item);
                }
                new
            }
        };
        if new {
            out.push(*item);
        }
    }
    Ok(collected(x.arena, out))
}

fn compact<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[0], "Cannot compact on type")?;
    Ok(collected(x.arena, items.iter().filter(|i| i.truth()).copied().collect()))
}

fn without<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[0], "Cannot find without on type")?;
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if !is_in(x, *item, &a[1..])? {
            kept.push(*item);
        }
    }
    Ok(collected(x.arena, kept))
}

fn has<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    if a[1].is_nil() {
        return Ok(Value::Bool(false));
    }
    let items = list_items(x.arena, a[1], "Cannot find has on type")?;
    is_in(x, a[0], items).map(Value::Bool)
}

fn slice<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[0], "list should be type of slice or array but")?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let from = a.get(1).map_or(0, |v| to_int64(*v));
    let to = a.get(2).map_or(i64::try_from(items.len()).unwrap_or(i64::MAX), |v| to_int64(*v));
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok()).filter(|(f, t)| f <= t);
    let Some(part) = range.and_then(|(from, to)| items.get(from..to)) else {
        return fail("reflect.Value.Slice: slice index out of bounds");
    };
    Ok(match a[0] {
        Value::List(l) => Value::list_of(x.arena, l.elem, part),
        Value::Bytes(b) => Value::Bytes(range.and_then(|(from, to)| b.get(from..to)).unwrap_or_default()),
        Value::Object(Object::ApiVersions(v)) => {
            let part = range.and_then(|(from, to)| v.get(from..to)).unwrap_or_default();
            Value::object(x.arena, Object::ApiVersions(part))
        }
        other => other,
    })
}

fn concat<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let mut all = Vec::new();
    for list in a {
        match items(x.arena, *list) {
            Some(items) => all.extend_from_slice(items),
            None if list.is_nil() => return fail(NIL_POINTER),
            None => return fail(format!("Cannot concat type {} as list", list.kind())),
        }
    }
    Ok(if all.is_empty() { Value::nil_list(x.arena, Elem::Any) } else { collected(x.arena, all) })
}

/// Go computes in floats here; that decides the result for sizes below one.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn chunk<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let items = list_items(x.arena, a[1], "Cannot chunk type")?;
    let (size, len) = (int(a[0]), items.len());
    let count = ((len as f64 - 1.0) / size as f64).floor() + 1.0;
    if !(0.0..=len as f64).contains(&count) {
        return fail("runtime error: makeslice: len out of range");
    }
    let count = count as usize;
    let mut chunks = Vec::with_capacity(count);
    for i in 0..count {
        let mut n = size;
        if i + 1 == count {
            n = ((len as f64) % (size as f64)).floor() as i64;
            if n == 0 {
                n = size;
            }
        }
        let Ok(n) = usize::try_from(n) else {
            return fail("runtime error: makeslice: len out of range");
        };
        let from = i * usize::try_from(size).unwrap_or(0);
        match items.get(from..from + n) {
            Some(part) => chunks.push(Value::list_of(x.arena, Elem::Any, part)),
            None => return fail("reflect: slice index out of range"),
        }
    }
    Ok(Value::list_of(x.arena, Elem::List, x.arena.alloc_slice_fill_iter(chunks)))
}
