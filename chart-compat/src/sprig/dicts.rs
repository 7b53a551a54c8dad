//! Dictionary functions. They change maps in place, so all references to a map see the change.

use super::args::{Out, bytes, fail, strval_in};
use crate::go::object::{Struct, Version, is_exported};
use crate::go::{Arena, Elem, Map, MapKind, Object, Value};
use crate::template::{Error, Exec, Func, Type};

use Type::{Any, Map as Dict, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::variadic("dict", &[Any], dict),
    Func::new("get", &[Dict, Str], |_, a| {
        Ok(a[0].as_map().and_then(|m| m.get(bytes(a[1]))).unwrap_or(Value::Str(b"")))
    }),
    Func::new("set", &[Dict, Str, Any], set),
    Func::new("unset", &[Dict, Str], |x, a| {
        if let Value::Map(m) = a[0] {
            m.remove(bytes(a[1]));
        }
        Ok(plain_dict(x.arena, a[0]))
    }),
    Func::new("hasKey", &[Dict, Str], |_, a| {
        Ok(Value::Bool(a[0].as_map().is_some_and(|m| m.get(bytes(a[1])).is_some())))
    }),
    Func::variadic("pluck", &[Str, Dict], |x, a| {
        let found: Vec<Value<'_>> =
            a[1..].iter().filter_map(|d| d.as_map().and_then(|m| m.get(bytes(a[0])))).collect();
        Ok(Value::list(x.arena, &found))
    }),
    // Go returns keys and values in random order; here they are sorted by key.
    Func::variadic("keys", &[Dict], |x, a| {
        let keys: Vec<Value<'_>> = a
            .iter()
            .filter_map(|d| d.as_map())
            .flat_map(|m| m.snapshot(x.arena).iter().map(|e| Value::Str(e.0)))
            .collect();
        Ok(Value::typed_list(x.arena, Elem::String, &keys))
    }),
    Func::new("values", &[Dict], |x, a| {
        let values: Vec<Value<'_>> =
            a[0].as_map().map(|m| m.entries().iter().map(|e| e.1).collect()).unwrap_or_default();
        Ok(Value::list(x.arena, &values))
    }),
    Func::variadic("pick", &[Dict, Str], |x, a| {
        let out = Map::new(x.arena, MapKind::Any);
        if let Value::Map(m) = a[0] {
            for key in &a[1..] {
                let key = bytes(*key);
                if let Some(v) = m.get(key) {
                    out.insert(key, v);
                }
            }
        }
        Ok(Value::Map(out))
    }),
    Func::variadic("omit", &[Dict, Str], |x, a| {
        let Value::Map(m) = a[0] else { return Ok(Value::Map(Map::new(x.arena, MapKind::Any))) };
        let out = Map::with_capacity(x.arena, MapKind::Any, m.len());
        for (key, v) in m.entries().iter() {
            if !a[1..].iter().any(|k| bytes(*k) == *key) {
                out.insert(key, *v);
            }
        }
        Ok(Value::Map(out))
    }),
    Func::variadic("dig", &[Any], dig),
    Func::new("deepCopy", &[Any], deep_copy),
    Func::new("mustDeepCopy", &[Any], deep_copy),
];

/// The result of a function that returns its `map[string]interface {}` parameter: the same map, as that type.
pub(super) fn plain_dict<'a>(arena: &'a Arena, v: Value<'a>) -> Value<'a> {
    match v {
        Value::Map(m) if m.kind() == MapKind::Values => Value::Map(m.with_kind(arena, MapKind::Any)),
        Value::Map(_) => v,
        _ => nil_dict(arena),
    }
}

/// A nil `map[string]interface {}`.
pub(super) fn nil_dict(arena: &Arena) -> Value<'_> {
    Value::Map(Map::new(arena, MapKind::Nil))
}

fn dict<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let map = Map::with_capacity(x.arena, MapKind::Any, a.len().div_ceil(2));
    for pair in a.chunks(2) {
        let value = pair.get(1).copied().unwrap_or(Value::Str(b""));
        map.insert(strval_in(x.arena, pair[0]), value);
    }
    Ok(Value::Map(map))
}

fn set<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    match a[0] {
        Value::Map(m) if !m.is_nil() => {
            m.insert(bytes(a[1]), a[2]);
            Ok(plain_dict(x.arena, a[0]))
        }
        _ => fail("assignment to entry in nil map"),
    }
}

fn assertion<T>(x: &Exec<'_>, v: Value<'_>, wanted: &str) -> Result<T, Error> {
    let is = if v.is_nil() { "nil" } else { v.type_name(x.funcs.values_type) };
    fail(format!("interface conversion: interface {{}} is {is}, not {wanted}"))
}

fn dig<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let [keys @ .., default, dict] = a else { return fail("dig needs at least three arguments") };
    if keys.is_empty() {
        return fail("dig needs at least three arguments");
    }
    let as_dict = |v: Value<'a>| match v {
        Value::Map(m) if matches!(m.kind(), MapKind::Any | MapKind::Nil) => Ok(m),
        other => assertion(x, other, "map[string]interface {}"),
    };
    let mut at = as_dict(*dict)?;
    if let Some(bad) = keys.iter().find(|k| k.as_bytes().is_none()) {
        return assertion(x, *bad, "string");
    }
    for (i, key) in keys.iter().enumerate() {
        match at.get(bytes(*key)) {
            None => return Ok(*default),
            Some(v) if i + 1 == keys.len() => return Ok(v),
            Some(v) => at = as_dict(v)?,
        }
    }
    Ok(*default)
}

/// The maximal depth of a copy. A deeper map contains itself.
const MAX_DEPTH: usize = 10_000;

fn deep_copy<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    if a[0].is_nil() {
        return fail("reflect: call of reflect.Value.Type on zero Value");
    }
    copied(x.arena, a[0], 0)
}

fn copied<'a>(arena: &'a Arena, v: Value<'a>, depth: usize) -> Out<'a> {
    if depth > MAX_DEPTH {
        return fail(format!(
            "deepCopy error: the value is nested deeper than {MAX_DEPTH}, or contains itself"
        ));
    }
    stacker::maybe_grow(128 * 1024, 1024 * 1024, || match v {
        Value::List(l) if !l.nil => {
            let items: Result<Vec<_>, Error> = l.items.iter().map(|i| copied(arena, *i, depth + 1)).collect();
            Ok(Value::typed_list(arena, l.elem, &items?))
        }
        Value::Map(m) => {
            let out = Map::with_capacity(arena, m.kind(), m.len());
            for (key, value) in m.snapshot(arena) {
                out.insert(key, copied(arena, *value, depth + 1)?);
            }
            Ok(Value::Map(out))
        }
        // Private fields are not copied. The text of a version struct is its exported `Version` field.
        Value::Object(Object::Struct(s)) => {
            let mut fields = s.fields.to_vec();
            for (name, value) in &mut fields {
                *value = if is_exported(name) { copied(arena, *value, depth + 1)? } else { Value::Str(b"") };
            }
            let written = fields.iter().find(|(name, _)| *name == "Version");
            let written = written.and_then(|(_, value)| std::str::from_utf8(value.as_bytes()?).ok());
            let text = s.text.and(written);
            let fields = arena.alloc_slice_copy(&fields);
            Ok(Value::object(arena, Object::Struct(Struct { type_name: s.type_name, fields, text })))
        }
        // All fields of a version are private.
        Value::Object(Object::Version(v)) => {
            let zero = Version {
                major: 0,
                minor: 0,
                patch: 0,
                prerelease: "",
                metadata: "",
                original: "",
                by_value: v.by_value,
            };
            Ok(Value::object(arena, Object::Version(zero)))
        }
        other => Ok(other),
    })
}
