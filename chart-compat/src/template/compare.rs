//! `eq`, `lt` and the other comparisons (`text/template/funcs.go`): by basic kind, with Go's errors.

use super::error::Error;
use crate::go::{Object, Value, fmt};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Other,
    Bool,
    Int,
    Float,
    String,
    Uint,
}

fn basic(v: Value<'_>) -> Basic {
    match v {
        Value::Bool(_) => Basic::Bool,
        Value::Int(_) | Value::Int64(_) | Value::Object(Object::Duration(_) | Object::Enum(_)) => Basic::Int,
        Value::Uint64(_) => Basic::Uint,
        Value::Float(_) => Basic::Float,
        Value::Str(_) => Basic::String,
        _ => Basic::Other,
    }
}

fn int(v: Value<'_>) -> i64 {
    match v {
        Value::Int(i) | Value::Int64(i) => i,
        Value::Object(Object::Duration(d)) => *d,
        Value::Object(Object::Enum(e)) => e.value,
        _ => 0,
    }
}

fn uint(v: Value<'_>) -> u64 {
    if let Value::Uint64(u) = v { u } else { 0 }
}

/// Whether a slice or map is nil (`isNil`).
fn is_go_nil(v: Value<'_>) -> bool {
    match v {
        Value::List(list) => list.nil,
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

fn incompatible<'a>(a: Value<'a>, b: Value<'a>, values_type: &'static str) -> Error {
    Error::new(format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(values_type),
        b.type_name(values_type)
    ))
}

/// Reports whether `a == b` (`eq` with two arguments).
///
/// # Errors
/// Fails for kinds that Go does not compare.
pub fn equal<'a>(a: Value<'a>, b: Value<'a>, values_type: &'static str) -> Result<bool, Error> {
    let (ka, kb) = (basic(a), basic(b));
    match (ka, kb) {
        (Basic::Int, Basic::Uint) => return Ok(u64::try_from(int(a)).is_ok_and(|n| n == uint(b))),
        (Basic::Uint, Basic::Int) => return Ok(u64::try_from(int(b)).is_ok_and(|n| n == uint(a))),
        _ => {}
    }
    if ka != kb {
        return if a.is_nil() || b.is_nil() { Ok(false) } else { Err(incompatible(a, b, values_type)) };
    }
    match (a, b) {
        (Value::Bool(x), Value::Bool(y)) => Ok(x == y),
        (Value::Float(x), Value::Float(y)) => Ok(x == y),
        (Value::Str(x), Value::Str(y)) => Ok(x == y),
        (Value::Uint64(x), Value::Uint64(y)) => Ok(x == y),
        _ if ka == Basic::Int => Ok(int(a) == int(b)),
        _ if a.is_nil() || b.is_nil() => Ok(a.is_nil() && b.is_nil()),
        _ if a.kind() != b.kind() => {
            let show =
                |v: Value<'_>| String::from_utf8_lossy(&fmt::sprintf(b"%s", &[v], values_type)).into_owned();
            Err(Error::new(format!(
                "non-comparable types {}: {}, {}: {}",
                show(a),
                a.type_name(values_type),
                b.type_name(values_type),
                String::from_utf8_lossy(&fmt::sprint(b))
            )))
        }
        _ if is_go_nil(a) || is_go_nil(b) => Ok(is_go_nil(a) && is_go_nil(b)),
        (Value::Object(x), Value::Object(y)) => Ok(match (x, y) {
            (Object::Time(s), Object::Time(t)) => {
                s.seconds == t.seconds && s.nanos == t.nanos && s.zone == t.zone
            }
            _ => std::ptr::eq(x, y),
        }),
        _ => {
            let shown = fmt::sprintf(b"%s", &[b], values_type);
            let shown = String::from_utf8_lossy(&shown);
            Err(Error::new(format!("non-comparable type {shown}: {}", b.type_name(values_type))))
        }
    }
}

/// Reports whether `a < b` (`lt`).
///
/// # Errors
/// Fails for values without an order and for kinds that cannot be compared with each other.
pub fn less<'a>(a: Value<'a>, b: Value<'a>, values_type: &'static str) -> Result<bool, Error> {
    let bad = || Error::new("invalid type for comparison");
    let (ka, kb) = (basic(a), basic(b));
    if ka == Basic::Other || kb == Basic::Other {
        return Err(bad());
    }
    match (ka, kb) {
        (Basic::Int, Basic::Uint) => return Ok(u64::try_from(int(a)).map_or(true, |n| n < uint(b))),
        (Basic::Uint, Basic::Int) => return Ok(u64::try_from(int(b)).is_ok_and(|n| uint(a) < n)),
        _ if ka != kb => return Err(incompatible(a, b, values_type)),
        _ => {}
    }
    match (a, b) {
        (Value::Float(x), Value::Float(y)) => Ok(x < y),
        (Value::Str(x), Value::Str(y)) => Ok(x < y),
        (Value::Uint64(x), Value::Uint64(y)) => Ok(x < y),
        _ if ka == Basic::Int => Ok(int(a) < int(b)),
        _ => Err(bad()),
    }
}
