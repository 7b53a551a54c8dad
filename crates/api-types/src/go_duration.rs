//! Durations as Go writes them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration such as `1h30m`, `10.5s` or `500ms`. It keeps the text that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoDuration {
    text: String,
    value: Duration,
}

impl GoDuration {
    /// The duration.
    #[must_use]
    pub fn get(&self) -> Duration {
        self.value
    }
}

impl From<Duration> for GoDuration {
    /// In Go's form: `1h2m3.5s`, `1.5ms`.
    fn from(value: Duration) -> Self {
        let nanos = i64::try_from(value.as_nanos()).unwrap_or(i64::MAX);
        let text = chart_compat::go::time::duration_string(nanos);
        Self { text, value }
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration such as 10m or 1h30m");
        let mut rest = text;
        let mut seconds = 0.0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
            rest = &rest[digits..];
            let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            seconds += number
                * match &rest[..unit] {
                    "ms" => 0.001,
                    "s" => 1.0,
                    "m" => 60.0,
                    "h" => 3600.0,
                    _ => return Err(wrong()),
                };
            rest = &rest[unit..];
        }
        let value = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
        if text.is_empty() { Err(wrong()) } else { Ok(Self { text: text.to_owned(), value }) }
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in
            [("10m", 600_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("250ms", 250), ("0s", 0)]
        {
            let read: GoDuration = text.parse().unwrap();
            assert_eq!((read.get().as_millis(), read.to_string().as_str()), (millis, text));
        }
        for text in ["", "10", "5x", "m", "1h-1m", "1d"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
        assert_eq!(GoDuration::from(Duration::from_secs(300)).to_string(), "5m0s");
    }
}
