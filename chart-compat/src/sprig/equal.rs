//! Go's `reflect.DeepEqual` on template values. Types must be equal: `2` differs from `2.0`.

use super::args::{Out, items};
use crate::go::{Arena, Object, Value};
use crate::template::{Exec, Func, Type};

use Type::Any;

pub(super) const FUNCS: &[Func] = &[Func::new("deepEqual", &[Any, Any], |x: &mut Exec<'_>, a| -> Out<'_> {
    Ok(Value::Bool(deep_equal(x.arena, a[0], a[1])))
})];

/// Whether both values have the same type and content.
pub(super) fn deep_equal<'a>(arena: &'a Arena, a: Value<'a>, b: Value<'a>) -> bool {
    equal(arena, a, b, 0)
}

/// Deeper maps must be cyclic. Go treats a pair of maps whose comparison is in progress as equal.
const DEEP: usize = 2_000;

fn equal<'a>(arena: &'a Arena, a: Value<'a>, b: Value<'a>, depth: usize) -> bool {
    if depth > DEEP {
        return true;
    }
    stacker::maybe_grow(128 * 1024, 1024 * 1024, || match (a, b) {
        (Value::Nil | Value::NilInterface, Value::Nil | Value::NilInterface) => true,
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Int(x), Value::Int(y)) | (Value::Int64(x), Value::Int64(y)) => x == y,
        (Value::Uint64(x), Value::Uint64(y)) => x == y,
        (Value::Float(x), Value::Float(y)) => x == y,
        (Value::Str(x), Value::Str(y)) | (Value::Bytes(x), Value::Bytes(y)) => x == y,
        (Value::List(x), Value::List(y)) => {
            x.elem == y.elem
                && x.nil == y.nil
                && x.items.len() == y.items.len()
                && x.items.iter().zip(y.items).all(|(x, y)| equal(arena, *x, *y, depth + 1))
        }
        (Value::Map(x), Value::Map(y)) => {
            // Nil maps and other maps have one type, but a nil map equals only a nil map.
            if x.kind() != y.kind() || x.len() != y.len() {
                return false;
            }
            if x.same(y) || x.is_nil() {
                return true;
            }
            let (x, y) = (x.snapshot(arena), y.snapshot(arena));
            x.iter().zip(y).all(|(x, y)| x.0 == y.0 && equal(arena, x.1, y.1, depth + 1))
        }
        (Value::Object(x), Value::Object(y)) => same_object(arena, x, y, depth),
        _ => false,
    })
}

fn same_object<'a>(arena: &'a Arena, a: &'a Object<'a>, b: &'a Object<'a>, depth: usize) -> bool {
    match (a, b) {
        (Object::Struct(x), Object::Struct(y)) => {
            x.type_name == y.type_name
                && x.fields.len() == y.fields.len()
                && x.fields.iter().zip(y.fields).all(|(x, y)| x.0 == y.0 && equal(arena, x.1, y.1, depth + 1))
        }
        (Object::ApiVersions(_), Object::ApiVersions(_)) => {
            items(arena, Value::Object(a)).zip(items(arena, Value::Object(b))).is_some_and(|(x, y)| {
                x.len() == y.len() && x.iter().zip(y).all(|(x, y)| x.as_bytes() == y.as_bytes())
            })
        }
        (Object::Files(x), Object::Files(y)) => x == y,
        (Object::Version(x), Object::Version(y)) => {
            (x.major, x.minor, x.patch, x.prerelease, x.metadata, x.original)
                == (y.major, y.minor, y.patch, y.prerelease, y.metadata, y.original)
        }
        (Object::Time(x), Object::Time(y)) => {
            (x.seconds, x.nanos, x.offset, x.zone) == (y.seconds, y.nanos, y.offset, y.zone)
        }
        (Object::Duration(x), Object::Duration(y)) => x == y,
        (Object::Enum(x), Object::Enum(y)) => x.type_name == y.type_name && x.value == y.value,
        _ => false,
    }
}
