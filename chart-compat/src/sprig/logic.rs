//! `default`, `empty`, `ternary` and similar functions.

use super::args::Out;
use crate::go::Value;
use crate::template::{Exec, Func, Type};

use Type::{Any, Bool};

pub(super) const FUNCS: &[Func] = &[
    Func::variadic("default", &[Any, Any], default),
    Func::new("empty", &[Any], |_, a| Ok(Value::Bool(!a[0].truth()))),
    Func::variadic("coalesce", &[Any], |_, a| Ok(a.iter().find(|v| v.truth()).copied().unwrap_or_default())),
    Func::variadic("all", &[Any], |_, a| Ok(Value::Bool(a.iter().all(|v| v.truth())))),
    Func::variadic("any", &[Any], |_, a| Ok(Value::Bool(a.iter().any(|v| v.truth())))),
    Func::new("ternary", &[Any, Any, Bool], |_, a| {
        Ok(if matches!(a[2], Value::Bool(true)) { a[0] } else { a[1] })
    }),
    Func::new("hello", &[], |_, _| Ok(Value::Str(b"Hello!"))),
];

fn default<'a>(_: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    Ok(match a.get(1) {
        Some(given) if given.truth() => *given,
        _ => a[0],
    })
}
