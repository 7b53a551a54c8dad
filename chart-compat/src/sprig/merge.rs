//! Merging of dictionaries as mergo does: in place, and the destination shares the sources' nested maps.

use super::args::{Out, fail};
use super::dicts::plain_dict;
use crate::go::{Map, MapKind, Object, Value};
use crate::template::{Error, Exec, Func, Type};

use Type::Map as Dict;

pub(super) const FUNCS: &[Func] = &[
    Func::variadic("merge", &[Dict, Dict], |x, a| swallowed(merge_all(x, a, false))),
    Func::variadic("mergeOverwrite", &[Dict, Dict], |x, a| swallowed(merge_all(x, a, true))),
    Func::variadic("mustMerge", &[Dict, Dict], |x, a| merge_all(x, a, false)),
    Func::variadic("mustMergeOverwrite", &[Dict, Dict], |x, a| merge_all(x, a, true)),
];

/// Deeper maps contain themselves. In Go the stack would overflow, which ends the process.
const MAX_DEPTH: usize = 10_000;

/// The text of mergo's `ErrDifferentArgumentsTypes`.
const DIFFERENT_TYPES: &str = "src and dst must be of same type";

/// The work of a new entry, which moves those behind it.
fn insertion_steps(map: &Map<'_>) -> usize {
    map.len() / 16
}

/// sprig's merge functions return "" for this error of mergo.
fn swallowed(result: Out<'_>) -> Out<'_> {
    match result {
        Err(e) if e.to_string() == DIFFERENT_TYPES => Ok(Value::Str(b"")),
        other => other,
    }
}

fn merge_all<'a>(x: &mut Exec<'a>, a: &[Value<'a>], overwrite: bool) -> Out<'a> {
    let mut dst = plain_dict(x.arena, a[0]);
    for src in &a[1..] {
        let Value::Map(src) = src else { continue };
        if let Value::Map(m) = dst
            && m.is_nil()
            && !src.is_nil()
        {
            dst = Value::Map(Map::new(x.arena, MapKind::Any));
        }
        if let Value::Map(dst) = dst {
            merge(x, dst, src, overwrite, 0)?;
        }
    }
    Ok(dst)
}

fn merge<'a>(
    x: &mut Exec<'a>,
    dst: &Map<'a>,
    src: &Map<'a>,
    overwrite: bool,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return fail(format!("merge: the value is nested deeper than {MAX_DEPTH}, or contains itself"));
    }
    for (key, value) in src.snapshot(x.arena) {
        let old = dst.get(key);
        if old.is_none() {
            x.count_steps(insertion_steps(dst))?;
        }
        match value {
            Value::Nil | Value::NilInterface => {
                if overwrite {
                    dst.insert(key, Value::Nil);
                }
                continue;
            }
            Value::Map(from) => match old {
                Some(Value::Map(into)) if !into.is_nil() => {
                    stacker::maybe_grow(128 * 1024, 1024 * 1024, || {
                        merge(x, into, from, overwrite, depth + 1)
                    })?;
                }
                // A pointer can be set only to a pointer of its type.
                Some(Value::Object(Object::Version(_))) if !overwrite => return fail(DIFFERENT_TYPES),
                _ => {}
            },
            _ => {}
        }
        let is_list = value.kind() == "slice";
        if let Some(old) = old.filter(|v| v.truth()) {
            if is_list {
                if overwrite {
                    dst.insert(key, *value);
                }
                continue;
            }
            if value.kind() == "map" && old.kind() == "map" {
                continue;
            }
            if !overwrite {
                continue;
            }
        }
        dst.insert(key, *value);
    }
    Ok(())
}
