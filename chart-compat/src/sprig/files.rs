//! The methods of `.Files` and of `.Values`.

use super::args::{bytes, fail};
use super::base::encode64;
use super::documents::yaml_text;
use super::encode;
use crate::go::glob::Glob;
use crate::go::{Arena, Elem, Map, MapKind, Object, Value, path};
use crate::template::{Error, Exec, Func, Type};

use super::args::Out;
use Type::{Any, String as Str};

/// The files by name, in the order of their names.
type Files<'a> = &'a [(&'a str, &'a [u8])];

fn files(v: Value<'_>) -> Files<'_> {
    match v {
        Value::Object(Object::Files(f)) => f,
        _ => &[],
    }
}

fn file<'a>(receiver: Value<'a>, name: &[u8]) -> &'a [u8] {
    let files = files(receiver);
    match files.binary_search_by(|f| f.0.as_bytes().cmp(name)) {
        Ok(i) => files[i].1,
        Err(_) => &[],
    }
}

/// Methods of `.Files`.
pub(super) const FILES: &[Func] = &[
    Func::new("Get", &[Any, Str], |_, a| Ok(Value::Str(file(a[0], bytes(a[1]))))),
    Func::new("GetBytes", &[Any, Str], |_, a| Ok(Value::Bytes(file(a[0], bytes(a[1]))))),
    Func::new("Glob", &[Any, Str], |x, a| {
        // An invalid pattern matches all files.
        let glob = std::str::from_utf8(bytes(a[1])).ok().and_then(Glob::parse);
        let found: Vec<_> =
            files(a[0]).iter().filter(|f| glob.as_ref().is_none_or(|g| g.matches(f.0))).copied().collect();
        Ok(Value::object(x.arena, Object::Files(x.arena.alloc_slice_copy(&found))))
    }),
    Func::new("Lines", &[Any, Str], |x, a| {
        let text = file(a[0], bytes(a[1]));
        if text.is_empty() {
            return Ok(Value::list_of(x.arena, Elem::String, &[]));
        }
        let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|b| *b == b'\n');
        let lines = x.arena.alloc_slice_fill_iter(lines.map(Value::Str).collect::<Vec<_>>());
        Ok(Value::list_of(x.arena, Elem::String, lines))
    }),
    Func::new("AsConfig", &[Any], |x, a| by_base_name(x.arena, a[0], Value::Str)),
    Func::new("AsSecrets", &[Any], |x, a| {
        let arena = x.arena;
        by_base_name(arena, a[0], |data| Value::str(arena, encode64(data)))
    }),
];

/// A YAML map of files by base name. Of two files with one name the later one wins.
fn by_base_name<'a>(arena: &'a Arena, receiver: Value<'a>, show: impl Fn(&'a [u8]) -> Value<'a>) -> Out<'a> {
    let map = Map::new(arena, MapKind::Strings);
    for (name, data) in files(receiver) {
        map.insert(path::base(name.as_bytes()), show(data));
    }
    Ok(Value::str(arena, yaml_text(arena, Value::Map(map)).unwrap_or_default()))
}

/// Methods of `.Values`.
pub(super) const VALUES: &[Func] = &[
    Func::new("YAML", &[Any], |x, a| {
        Ok(Value::str(x.arena, encode::yaml(x.arena, a[0]).map_err(Error::new)?))
    }),
    Func::new("AsMap", &[Any], |x, a| {
        Ok(match a[0] {
            Value::Map(m) if !m.is_empty() => Value::Map(m.with_kind(x.arena, MapKind::Any)),
            _ => Value::Map(Map::new(x.arena, MapKind::Any)),
        })
    }),
    Func::new("Table", &[Any, Str], table),
    Func::new("PathValue", &[Any, Str], path_value),
    // Its parameter is an `io.Writer`; templates have no such value.
    Func::new("Encode", &[Any, Type::Struct("io.Writer")], |_, _| fail("no writer")),
];

fn as_table<'a>(x: &Exec<'a>, v: Option<Value<'a>>) -> Option<Value<'a>> {
    match v {
        Some(Value::Map(m)) if matches!(m.kind(), MapKind::Any | MapKind::Values) => {
            Some(Value::Map(m.with_kind(x.arena, MapKind::Values)))
        }
        _ => None,
    }
}

fn quoted(v: &[u8]) -> String {
    crate::go::strconv::quote(v)
}

fn lookup_table<'a>(x: &Exec<'a>, receiver: Value<'a>, names: &[&[u8]]) -> Out<'a> {
    let mut at = receiver;
    for name in names {
        match as_table(x, at.as_map().and_then(|m| m.get(name))) {
            Some(next) => at = next,
            None => return fail(format!("{} is not a table", quoted(name))),
        }
    }
    Ok(at)
}

fn table<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let names: Vec<&[u8]> = bytes(a[1]).split(|b| *b == b'.').collect();
    lookup_table(x, a[0], &names)
}

fn path_value<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let names: Vec<&[u8]> = bytes(a[1]).split(|b| *b == b'.').collect();
    let Some((key, tables)) = names.split_last().filter(|_| !bytes(a[1]).is_empty()) else {
        return fail("YAML path cannot be empty");
    };
    let found = lookup_table(x, a[0], tables).ok().and_then(|t| t.as_map().and_then(|m| m.get(key)));
    match found {
        Some(v) if !matches!(v, Value::Map(_)) => Ok(v),
        _ => fail(format!("{} is not a value", quoted(key))),
    }
}
