//! A map of a hook's configuration, read key by key: types are checked, and unknown keys are refused, or listed where a newer
//! library may have written them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::ConfigError;

/// A map under its path, with the keys read so far.
pub(super) struct Fields<'v> {
    path: String,
    map: &'v Map<String, Value>,
    asked: BTreeSet<&'static str>,
    /// Takes the paths of unknown keys; `None`: they are refused.
    unknown: Option<&'v RefCell<Vec<String>>>,
}

impl<'v> Fields<'v> {
    pub(super) fn new(path: impl Into<String>, value: &'v Value) -> Result<Self, ConfigError> {
        Self::within(path.into(), value, None)
    }

    /// A map whose unknown keys, and those of the maps below it, are added to a list.
    pub(super) fn tolerant(
        path: impl Into<String>,
        value: &'v Value,
        unknown: &'v RefCell<Vec<String>>,
    ) -> Result<Self, ConfigError> {
        Self::within(path.into(), value, Some(unknown))
    }

    fn within(
        path: String,
        value: &'v Value,
        unknown: Option<&'v RefCell<Vec<String>>>,
    ) -> Result<Self, ConfigError> {
        match value {
            Value::Object(map) => Ok(Self { path, map, asked: BTreeSet::new(), unknown }),
            other => Err(ConfigError::new(&path, format!("{} where a map is wanted", format_value(other)))),
        }
    }

    /// Whether a program wrote the map, which leaves no list out but writes null for an empty one.
    pub(super) fn is_tolerant(&self) -> bool {
        self.unknown.is_some()
    }

    /// The path of a key below this map.
    pub(super) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    pub(super) fn fail<T>(&self, key: &str, text: impl Into<String>) -> Result<T, ConfigError> {
        Err(ConfigError::new(&self.path(key), text.into()))
    }

    /// A value of any type; null counts as absent, as Go reads it.
    pub(super) fn any(&mut self, key: &'static str) -> Option<&'v Value> {
        self.asked.insert(key);
        self.map.get(key).filter(|v| !v.is_null())
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigError> {
        match self.any(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => self.fail(key, format!("{} where text is wanted", format_value(other))),
        }
    }

    /// Text that must be there and not be empty.
    pub(super) fn wanted(&mut self, key: &'static str) -> Result<String, ConfigError> {
        match self.text(key)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => self.fail(key, "it is missing"),
        }
    }

    /// One of these words.
    pub(super) fn word(
        &mut self,
        key: &'static str,
        words: &[&'static str],
    ) -> Result<Option<&'static str>, ConfigError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        match words.iter().find(|w| **w == text) {
            Some(word) => Ok(Some(word)),
            None => self.fail(key, format!("{text:?} is none of {}", words.join(", "))),
        }
    }

    pub(super) fn flag(&mut self, key: &'static str, absent: bool) -> Result<bool, ConfigError> {
        match self.any(key) {
            None => Ok(absent),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => self.fail(key, format!("{} where true or false is wanted", format_value(other))),
        }
    }

    pub(super) fn whole(&mut self, key: &'static str) -> Result<Option<i64>, ConfigError> {
        match self.any(key) {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => self.fail(key, format!("{} where a whole number is wanted", format_value(value))),
            },
        }
    }

    pub(super) fn list(&mut self, key: &'static str) -> Result<Option<&'v [Value]>, ConfigError> {
        match self.any(key) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => self.fail(key, format!("{} where a list is wanted", format_value(other))),
        }
    }

    /// A list of maps, each with its index in its path.
    pub(super) fn maps(&mut self, key: &'static str) -> Result<Vec<Fields<'v>>, ConfigError> {
        let items = self.list(key)?.unwrap_or_default();
        items
            .iter()
            .enumerate()
            .map(|(i, item)| Self::within(format!("{}[{i}]", self.path(key)), item, self.unknown))
            .collect()
    }

    pub(super) fn map(&mut self, key: &'static str) -> Result<Option<Fields<'v>>, ConfigError> {
        self.any(key).map(|value| Self::within(self.path(key), value, self.unknown)).transpose()
    }

    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, ConfigError> {
        let Some(items) = self.list(key)? else { return Ok(None) };
        let texts = items.iter().map(|item| match item {
            Value::String(text) => Ok(text.clone()),
            other => self.fail(key, format!("{} where text is wanted", format_value(other))),
        });
        texts.collect::<Result<_, _>>().map(Some)
    }

    /// A list of these words.
    pub(super) fn words(
        &mut self,
        key: &'static str,
        words: &[&'static str],
    ) -> Result<Option<Vec<&'static str>>, ConfigError> {
        let Some(texts) = self.texts(key)? else { return Ok(None) };
        let found = texts.iter().map(|text| match words.iter().find(|w| *w == text) {
            Some(word) => Ok(*word),
            None => self.fail(key, format!("{text:?} is none of {}", words.join(", "))),
        });
        found.collect::<Result<_, _>>().map(Some)
    }

    /// Refuses keys that were never read, or lists them.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        if let Some(unknown) = self.unknown {
            let keys = self.map.keys().filter(|key| !self.asked.contains(key.as_str()));
            unknown.borrow_mut().extend(keys.map(|key| self.path(key)));
            return Ok(());
        }
        match self.map.keys().find(|key| !self.asked.contains(key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let known: Vec<&str> = self.asked.iter().copied().collect();
                self.fail(key, format!("no such key; known here are {}", known.join(", ")))
            }
        }
    }
}

/// A value for an error message, cut short.
fn format_value(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        return text;
    }
    let mut short: String = text.chars().take(57).collect();
    short.push_str("...");
    short
}
