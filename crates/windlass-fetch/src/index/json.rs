//! Repository indexes in JSON, one version of one chart at a time.

use std::fmt;
use std::io::Read;

use chart_compat::data::Data;
use serde::de::{DeserializeSeed, Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{IndexError, Items};

/// Reads an index. `None` if the text is not JSON.
pub(super) fn read(text: impl Read, items: &mut impl Items) -> Option<Result<(), IndexError>> {
    let mut wrong = None;
    let mut reader = serde_json::Deserializer::from_reader(text);
    let top = Top { items, wrong: &mut wrong };
    let result = reader.deserialize_map(top).and_then(|version| reader.end().map(|()| version));
    match (wrong, result) {
        (Some(e), _) => Some(Err(e)),
        (None, Err(_)) => None,
        (None, Ok(true)) => Some(Ok(())),
        (None, Ok(false)) => Some(Err(IndexError::NoApiVersion)),
    }
}

struct Top<'t, I> {
    items: &'t mut I,
    wrong: &'t mut Option<IndexError>,
}

impl<'de, I: Items> Visitor<'de> for Top<'_, I> {
    /// Whether the index has an API version.
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut version = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => version = map.next_value::<Value>()?.as_str().is_some_and(|v| !v.is_empty()),
                "entries" => map.next_value_seed(Entries { items: self.items, wrong: self.wrong })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(version)
    }
}

struct Entries<'t, I> {
    items: &'t mut I,
    wrong: &'t mut Option<IndexError>,
}

impl<'de, I: Items> DeserializeSeed<'de> for Entries<'_, I> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de, I: Items> Visitor<'de> for Entries<'_, I> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("charts")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if self.items.chart(name) {
                map.next_value_seed(Versions { items: self.items, wrong: self.wrong })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct Versions<'t, I> {
    items: &'t mut I,
    wrong: &'t mut Option<IndexError>,
}

impl<'de, I: Items> DeserializeSeed<'de> for Versions<'_, I> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de, I: Items> Visitor<'de> for Versions<'_, I> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("versions of a chart")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(item) = list.next_element::<Value>()? {
            if let Err(e) = self.items.item(&data(item)) {
                *self.wrong = Some(e);
                return Err(A::Error::custom("the entry is wrong"));
            }
        }
        Ok(())
    }
}

fn data(value: Value) -> Data {
    match value {
        Value::Null => Data::Null,
        Value::Bool(b) => Data::Bool(b),
        Value::Number(n) => n.as_i64().map_or_else(|| Data::Float(n.as_f64().unwrap_or_default()), Data::Int),
        Value::String(s) => Data::String(s),
        Value::Array(l) => Data::List(l.into_iter().map(data).collect()),
        Value::Object(m) => Data::Map(m.into_iter().map(|(k, v)| (k, data(v))).collect()),
    }
}
