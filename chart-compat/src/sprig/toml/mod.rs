//! TOML as BurntSushi/toml 1.6 encodes and decodes it.

mod read;
mod write;

use super::args::bytes;
use crate::go::{Map, MapKind, Value};
use crate::template::{Error, Func, Type};

use Type::{Any, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("toToml", &[Any], |x, a| {
        let text = match write::to_toml(a[0], x.room() / 2) {
            Ok(text) => text,
            // A panic of the library fails the render; an error is the function's result.
            Err(write::Failure::Panic(e)) => return Err(Error::new(e)),
            Err(write::Failure::Error(e)) => e.into_bytes(),
        };
        Ok(Value::str(x.arena, text))
    }),
    Func::new("fromToml", &[Str], |x, a| {
        let zone = super::dates::local(x);
        Ok(read::from_toml(x.arena, bytes(a[0]), &zone).unwrap_or_else(|e| {
            let map = Map::new(x.arena, MapKind::Any);
            map.insert(b"Error", Value::str(x.arena, e));
            Value::Map(map)
        }))
    }),
];

/// The functions that exist only in Helm 4.
pub(super) const HELM4: &[Func] =
    &[Func::new("mustToToml", &[Any], |x, a| match write::to_toml(a[0], x.room() / 2) {
        Ok(text) => Ok(Value::str(x.arena, text)),
        Err(write::Failure::Panic(e) | write::Failure::Error(e)) => Err(Error::new(e)),
    })];
