//! Repository indexes in JSON, one version of one chart at a time.

use std::fmt;
use std::io::Read;

use chart_compat::data::{Data, Map};
use serde::de::{DeserializeSeed, Deserializer as _, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{IndexError, Items};

/// The most memory that an entry takes, in bytes, and what a value and a map count of it.
const LARGEST: usize = 16 << 20;
const VALUE: usize = 64;
const MAP: usize = 640;

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
                "apiVersion" => {
                    let value = map.next_value_seed(Bounded(&mut { LARGEST }))?;
                    version = value.as_str().is_some_and(|v| !v.is_empty());
                }
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
        loop {
            let mut left = LARGEST;
            let item = match list.next_element_seed(Bounded(&mut left)) {
                Ok(Some(item)) => item,
                Ok(None) => return Ok(()),
                Err(error) => {
                    if left == 0 {
                        *self.wrong = Some(IndexError::TooLarge);
                    }
                    return Err(error);
                }
            };
            if let Err(e) = self.items.item(&item) {
                *self.wrong = Some(e);
                return Err(A::Error::custom("the entry is wrong"));
            }
        }
    }
}

/// Reads a value that takes at most so many bytes; what is left of them is noted.
struct Bounded<'l>(&'l mut usize);

impl Bounded<'_> {
    fn take<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.0.checked_sub(bytes) {
            Some(left) => *self.0 = left,
            None => {
                *self.0 = 0;
                return Err(E::custom("the entry is too large"));
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Data;

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<Data, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<Data, E> {
        self.take(VALUE).map(|()| Data::Null)
    }

    fn visit_bool<E: serde::de::Error>(mut self, value: bool) -> Result<Data, E> {
        self.take(VALUE).map(|()| Data::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(mut self, value: i64) -> Result<Data, E> {
        self.take(VALUE).map(|()| Data::Int(value))
    }

    fn visit_u64<E: serde::de::Error>(mut self, value: u64) -> Result<Data, E> {
        self.take(VALUE)?;
        // Go's decoder makes floats of what is no int64.
        #[expect(clippy::cast_precision_loss, reason = "as Go")]
        Ok(i64::try_from(value).map_or(Data::Float(value as f64), Data::Int))
    }

    fn visit_f64<E: serde::de::Error>(mut self, value: f64) -> Result<Data, E> {
        self.take(VALUE).map(|()| Data::Float(value))
    }

    fn visit_str<E: serde::de::Error>(mut self, value: &str) -> Result<Data, E> {
        self.take(VALUE + value.len()).map(|()| Data::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Data, A::Error> {
        self.take(VALUE)?;
        let mut out = Vec::new();
        while let Some(item) = list.next_element_seed(Bounded(self.0))? {
            out.push(item);
        }
        Ok(Data::List(out))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Data, A::Error> {
        self.take(MAP)?;
        let mut out = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            self.take(VALUE + key.len())?;
            out.insert(key, map.next_value_seed(Bounded(self.0))?);
        }
        Ok(Data::Map(out))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;

    /// The names of the charts of an index whose entry has so many empty maps beside what it needs.
    fn checked(maps: usize) -> Result<Vec<String>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("index.yaml");
        let maps = vec![r#"{"":0}"#; maps].join(",");
        let entry =
            format!(r#"{{"name":"a","version":"1.0.0","apiVersion":"v1","urls":["u"],"x":[{maps}]}}"#);
        std::fs::write(&path, format!(r#"{{"apiVersion":"v1","entries":{{"a":[{entry},{entry}]}}}}"#))
            .unwrap();
        check(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn an_entry_is_bounded() {
        assert_eq!(checked(20_000), Ok(vec!["a".to_owned()]), "two entries of 14 MiB each");
        assert_eq!(
            checked(25_000).unwrap_err(),
            "a version of a chart takes more than 16 MiB once it is read"
        );
    }
}
