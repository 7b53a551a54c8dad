//! A secret reference in its parts.
//!
//! Owns the grammar, which is vals', and the value that keys lead to. A parameter that a reference lacks is looked up in the variable
//! `VALS_NAME`.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::error::HelmfileError;
use helmfile_compat::value::{Map, Value};

/// A reference in its parts.
pub(super) struct Reference {
    /// The provider.
    pub(super) provider: String,
    /// What stands between the scheme and the parameters.
    pub(super) path: String,
    parameters: BTreeMap<String, String>,
    /// The keys that lead to the value; empty for the whole document.
    pub(super) keys: Vec<String>,
    /// The reference without keys.
    pub(super) document: String,
    /// Whether variables of this process have the parameters that the reference lacks.
    pub(super) has_defaults: bool,
}

impl Reference {
    /// Parses a reference without `ref+`.
    pub(super) fn parse(text: &str) -> Result<Self, HelmfileError> {
        let (provider, rest) = text.split_once("://").ok_or_else(|| {
            HelmfileError::Secret("a secret reference has the form ref+PROVIDER://PATH".to_owned())
        })?;
        let (address, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let fragment = fragment.strip_prefix('#').unwrap_or(fragment);
        let fragment = fragment.strip_prefix('/').unwrap_or(fragment);
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let keys = fragment.split('/').filter(|_| !fragment.is_empty());
        Ok(Self {
            provider: provider.to_owned(),
            path: decoded(path),
            parameters: pairs.map(|(key, value)| (decoded(key), decoded(&value.replace('+', " ")))).collect(),
            keys: keys.map(decoded).collect(),
            document: format!("{provider}://{address}"),
            has_defaults: true,
        })
    }

    /// A parameter, unless it is empty.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let variable = || std::env::var(format!("VALS_{}", name.to_ascii_uppercase())).ok();
        let variable = || self.has_defaults.then(variable).flatten();
        self.parameters.get(name).cloned().or_else(variable).filter(|value| !value.is_empty())
    }

    /// Fails if a parameter is set that is not supported. `hint`: what to do instead.
    pub(super) fn refuse(&self, name: &str, hint: &str) -> Result<(), HelmfileError> {
        match self.parameter(name) {
            Some(_) => Err(HelmfileError::Secret(format!("the parameter {name:?} is not supported; {hint}"))),
            None => Ok(()),
        }
    }

    /// The reference for messages: without parameters, which may be secrets.
    pub(super) fn without_parameters(&self) -> String {
        let keys = if self.keys.is_empty() { String::new() } else { format!("#/{}", self.keys.join("/")) };
        format!("{}://{}{keys}", self.provider, self.path)
    }

    /// The value at the keys.
    pub(super) fn value(&self, mut map: Map) -> Result<Value, HelmfileError> {
        let Some((last, keys)) = self.keys.split_last() else { return Ok(Value::Map(map)) };
        for key in keys {
            map = match map.remove(key) {
                Some(Value::Map(map)) => map,
                Some(other) => {
                    return Err(HelmfileError::Secret(format!(
                        "{key}: expected a map, got {}",
                        other.go_type()
                    )));
                }
                None => return Err(HelmfileError::Secret(format!("no value found for key {key}"))),
            };
        }
        map.remove(last).ok_or_else(|| HelmfileError::Secret(format!("no value found for key {last}")))
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_parts() {
        let reference = Reference::parse("vault://a/b%20c?address=http%3A%2F%2Fh&x=a+b#/d/e").unwrap();
        assert_eq!((reference.provider.as_str(), reference.path.as_str()), ("vault", "a/b c"));
        assert_eq!(reference.parameter("address").as_deref(), Some("http://h"));
        assert_eq!(reference.parameter("x").as_deref(), Some("a b"));
        assert_eq!(
            (reference.keys.as_slice(), reference.without_parameters().as_str()),
            (&["d".to_owned(), "e".to_owned()][..], "vault://a/b c#/d/e")
        );
        let arn = Reference::parse("awssecrets://arn:aws:secretsmanager:us-east-1:1:secret:x?version_id=1#k")
            .unwrap();
        assert_eq!((arn.path.as_str(), arn.keys.len()), ("arn:aws:secretsmanager:us-east-1:1:secret:x", 1));
        assert!(Reference::parse("x").is_err());
    }
}
