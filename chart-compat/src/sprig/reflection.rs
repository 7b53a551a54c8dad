//! Functions for Go types and kinds.

use super::args::bytes;
use crate::go::Value;
use crate::template::{Func, Type};

use Type::{Any, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("typeOf", &[Any], |x, a| Ok(Value::Str(a[0].type_name(x.funcs.values_type).as_bytes()))),
    Func::new("typeIs", &[Str, Any], |x, a| {
        Ok(Value::Bool(bytes(a[0]) == a[1].type_name(x.funcs.values_type).as_bytes()))
    }),
    Func::new("typeIsLike", &[Str, Any], |x, a| {
        let name = a[1].type_name(x.funcs.values_type).as_bytes();
        Ok(Value::Bool(bytes(a[0]) == name || name.strip_prefix(b"*") == Some(bytes(a[0]))))
    }),
    Func::new("kindOf", &[Any], |_, a| Ok(Value::Str(a[0].kind().as_bytes()))),
    Func::new("kindIs", &[Str, Any], |_, a| Ok(Value::Bool(bytes(a[0]) == a[1].kind().as_bytes()))),
];
