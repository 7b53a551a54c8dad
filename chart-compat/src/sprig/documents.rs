//! Conversion between values and JSON or YAML. Helm's functions without `must` hide errors: encoding returns "", decoding returns
//! the error in a map.

use super::args::{Out, bytes};
use super::dicts::nil_dict;
use super::encode::{self, JsonStyle};
use crate::data::{Data, Map as DataMap};
use crate::go::{Arena, Elem, Map, MapKind, Value};
use crate::template::{Error, Exec, Func, Type};
use crate::yaml::Room;
use crate::{json, yaml};

use Type::{Any, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("toYaml", &[Any], |x, a| Ok(Value::str(x.arena, yaml_text(x.arena, a[0]).unwrap_or_default()))),
    Func::new("toYamlPretty", &[Any], |x, a| {
        let text = encode::yaml_pretty(x.arena, a[0]).unwrap_or_default();
        Ok(Value::str(x.arena, text.strip_suffix('\n').unwrap_or(&text)))
    }),
    Func::new("fromYaml", &[Str], |x, a| {
        let read = within_memory(x, |room| yaml::from_slice_map_within(bytes(a[0]), room))?;
        Ok(map_or_error(x.arena, read))
    }),
    Func::new("fromYamlArray", &[Str], |x, a| {
        let read = within_memory(x, |room| yaml::from_slice_list_within(bytes(a[0]), room))?;
        Ok(list_or_error(x.arena, read))
    }),
    Func::new("toJson", &[Any], |x, a| {
        Ok(to_json(x.arena, a[0], JsonStyle::Compact).unwrap_or(Value::Str(b"")))
    }),
    Func::new("mustToJson", &[Any], |x, a| to_json(x.arena, a[0], JsonStyle::Compact)),
    Func::new("toPrettyJson", &[Any], |x, a| {
        Ok(to_json(x.arena, a[0], JsonStyle::Pretty).unwrap_or(Value::Str(b"")))
    }),
    Func::new("mustToPrettyJson", &[Any], |x, a| to_json(x.arena, a[0], JsonStyle::Pretty)),
    Func::new("toRawJson", &[Any], |x, a| to_json(x.arena, a[0], JsonStyle::Raw)),
    Func::new("mustToRawJson", &[Any], |x, a| to_json(x.arena, a[0], JsonStyle::Raw)),
    Func::new("fromJson", &[Str], from_json),
    Func::new("mustFromJson", &[Str], |x, a| {
        json::from_slice(bytes(a[0]))
            .map(|d| Value::from_data(x.arena, &d))
            .map_err(|e| Error::new(e.to_string()))
    }),
    Func::new("fromJsonArray", &[Str], |x, a| {
        if let Ok(Data::Null) = json::from_slice(bytes(a[0])) {
            return Ok(Value::nil_list(x.arena, Elem::Any));
        }
        Ok(list_or_error(x.arena, json::from_slice_list(bytes(a[0]))))
    }),
];

/// The conversions that exist only in Helm 4.
pub(super) const HELM4: &[Func] = &[Func::new("mustToYaml", &[Any], |x, a| {
    Ok(Value::str(x.arena, yaml_text(x.arena, a[0]).map_err(Error::new)?))
})];

/// Reads documents within the memory that a render has left.
///
/// # Errors
/// The error of the memory limit.
pub fn within_memory<T>(x: &Exec<'_>, read: impl FnOnce(&Room) -> T) -> Result<T, Error> {
    let room = Room::whole(x.room());
    let result = read(&room);
    if room.exceeded().is_some() { Err(x.out_of_memory()) } else { Ok(result) }
}

/// The text of `toYaml`, without the final line feed.
pub(super) fn yaml_text<'a>(arena: &'a Arena, value: Value<'a>) -> Result<String, String> {
    let mut text = encode::yaml(arena, value)?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

fn to_json<'a>(arena: &'a Arena, value: Value<'a>, style: JsonStyle) -> Out<'a> {
    encode::json(arena, value, style).map(|s| Value::str(arena, s)).map_err(Error::new)
}

/// The decoded map, or a map with the error text.
pub(super) fn map_or_error<E: std::fmt::Display>(arena: &Arena, read: Result<DataMap, E>) -> Value<'_> {
    match read {
        Ok(map) => Value::from_data(arena, &Data::Map(map)),
        Err(e) => {
            let map = Map::new(arena, MapKind::Any);
            map.insert(b"Error", Value::str(arena, e.to_string()));
            Value::Map(map)
        }
    }
}

fn list_or_error<E: std::fmt::Display>(arena: &Arena, read: Result<Vec<Data>, E>) -> Value<'_> {
    match read {
        Ok(list) => Value::from_data(arena, &Data::List(list)),
        Err(e) => Value::list(arena, &[Value::str(arena, e.to_string())]),
    }
}

fn from_json<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    if let Ok(Data::Null) = json::from_slice(bytes(a[0])) {
        return Ok(nil_dict(x.arena));
    }
    Ok(map_or_error(x.arena, json::from_slice_map(bytes(a[0]))))
}
