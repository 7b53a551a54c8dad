//! Secret references that this machine can resolve.
//!
//! Owns the providers and the path within a document that a fragment names. Errors name the provider and the address, never a
//! secret.

use std::collections::BTreeMap;
use std::io::Read as _;

use super::local_host::SecretStore;
use super::state::document;
use super::state::value::{Map, Value};

/// The maximal size of a file with secrets, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Providers that helmfile has and that are not supported here.
const KNOWN: &[&str] = &[
    "awskms",
    "awssecrets",
    "awsssm",
    "azurekeyvault",
    "bw",
    "conjur",
    "doppler",
    "exec",
    "gcpsecrets",
    "gcs",
    "gitlab",
    "gkms",
    "googlesheets",
    "hcpvaultsecrets",
    "httpjson",
    "infisical",
    "k8s",
    "keychain",
    "oci",
    "op",
    "onepasswordconnect",
    "openbao",
    "pulumistateapi",
    "s3",
    "scaleway",
    "secretserver",
    "servercore",
    "sops",
    "tfstate",
    "vault",
    "yclockbox",
];

/// The providers of this machine: `echo`, `env`, `envsubst` and `file`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalSecrets;

/// A reference in its parts.
struct Reference<'r> {
    provider: &'r str,
    path: String,
    parameters: BTreeMap<&'r str, &'r str>,
    /// The keys that lead to the value; empty for the whole document.
    keys: Vec<&'r str>,
}

impl<'r> Reference<'r> {
    fn parse(text: &'r str) -> Result<Self, String> {
        let (provider, rest) = text
            .split_once("://")
            .ok_or_else(|| "a secret reference has the form ref+PROVIDER://PATH".to_owned())?;
        let (address, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        let fragment = fragment.strip_prefix('#').unwrap_or(fragment);
        let fragment = fragment.strip_prefix('/').unwrap_or(fragment);
        Ok(Self {
            provider,
            path: path.to_owned(),
            parameters: query.split('&').filter_map(|pair| pair.split_once('=')).collect(),
            keys: if fragment.is_empty() { Vec::new() } else { fragment.split('/').collect() },
        })
    }
}

impl SecretStore for LocalSecrets {
    fn secret(&self, reference: &str, dir: &str) -> Result<Value, String> {
        let reference = Reference::parse(reference)?;
        let path = reference.path.trim_end_matches('/');
        let text = match reference.provider {
            "echo" => {
                if reference.keys.is_empty() {
                    return Ok(Value::String(path.to_owned()));
                }
                return at(&echoed(path)?, &reference);
            }
            "env" => {
                std::env::var(path).map_err(|_| format!("expand env://{path}: the variable is not set"))?
            }
            "envsubst" => substituted(path.trim()),
            "file" => file(dir, path)?,
            other if KNOWN.contains(&other) => {
                return Err(format!(
                    "expand {other}://{path}: the provider {other:?} is not supported; there are echo, env, envsubst and file"
                ));
            }
            other => {
                return Err(format!("expand {other}://{path}: no provider registered for scheme {other:?}"));
            }
        };
        if !reference.keys.is_empty() {
            let map = document::map(&text)
                .map_err(|_| format!("expand {}://{path}: no YAML map", reference.provider))?;
            return at(&map, &reference);
        }
        match reference.parameters.get("encode").copied() {
            None | Some("raw") => Ok(Value::String(text)),
            Some("base64") => {
                use base64::Engine;
                Ok(Value::String(base64::engine::general_purpose::STANDARD.encode(text)))
            }
            Some(other) => Err(format!("Unsupported encode parameter: '{other}'.")),
        }
    }

    fn decrypt(&self, path: &str) -> Result<Vec<u8>, String> {
        Err(format!("{path}: encrypted files are not supported; decrypt the file and list it under values"))
    }
}

/// The text of a file.
fn file(dir: &str, path: &str) -> Result<String, String> {
    let absolute = super::state::paths::within(dir, path);
    let failed =
        |error: std::io::Error| format!("expand file://{path}: {}", crate::causes::of_the_system(&error));
    let mut text = String::new();
    let file = std::fs::File::open(&absolute).map_err(failed)?;
    file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("expand file://{path}: the file is larger than {} MiB", MAX_FILE >> 20));
    }
    Ok(text)
}

/// `a/b/c` as the map `{a: {b: c}}`.
fn echoed(path: &str) -> Result<Map, String> {
    let parts: Vec<&str> = path.split('/').collect();
    let Some((last, keys)) = parts.split_last().filter(|(_, keys)| !keys.is_empty()) else {
        return Err(format!("key must have two or more components separated by \"/\": got {path:?}"));
    };
    let whole = keys.iter().rev().fold(Value::String((*last).to_owned()), |value, key| {
        Value::Map(Map::from([((*key).to_owned(), value)]))
    });
    match whole {
        Value::Map(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

/// The value at the keys of a reference.
fn at(map: &Map, reference: &Reference<'_>) -> Result<Value, String> {
    let place =
        || format!("expand {}://{}#/{}", reference.provider, reference.path, reference.keys.join("/"));
    let mut current = map;
    let Some((last, keys)) = reference.keys.split_last() else { return Ok(Value::Map(map.clone())) };
    for key in keys {
        current = match current.get(*key) {
            Some(Value::Map(map)) => map,
            Some(other) => {
                return Err(format!("{}: {key}: expected a map, got {}", place(), other.go_type()));
            }
            None => return Err(format!("{}: no value found for key {key}", place())),
        };
    }
    current.get(*last).cloned().ok_or_else(|| format!("{}: no value found for key {last}", place()))
}

/// Replaces `$NAME`, `${NAME}`, `${NAME:-default}` and `${NAME-default}`.
fn substituted(text: &str) -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        out.push_str(rest.get(..start).unwrap_or_default());
        rest = rest.get(start + 1..).unwrap_or_default();
        if let Some((inner, tail)) = rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            let end = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
            let (name, operator) = inner.split_at_checked(end).unwrap_or((inner, ""));
            let value = match (operator.strip_prefix(":-"), operator.strip_prefix('-')) {
                (Some(default), _) => {
                    variable(name).filter(|v| !v.is_empty()).unwrap_or_else(|| default.to_owned())
                }
                (None, Some(default)) => variable(name).unwrap_or_else(|| default.to_owned()),
                (None, None) => variable(name).unwrap_or_default(),
            };
            out.push_str(&value);
            rest = tail;
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if name.is_empty() {
            out.push('$');
        } else {
            out.push_str(&variable(name).unwrap_or_default());
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_to_values() {
        let store = LocalSecrets;
        let text = |value: &str| Ok(Value::String(value.to_owned()));
        assert_eq!(store.secret("echo://a/b/", "/"), text("a/b"));
        assert_eq!(store.secret("echo://a/b/c#/a/b", "/"), text("c"));
        assert!(store.secret("echo://a/b#/x", "/").unwrap_err().contains("no value found for key x"));
        assert!(store.secret("vault://a#/b", "/").unwrap_err().contains("is not supported"));
        assert!(store.secret("nope://a", "/").unwrap_err().contains("no provider registered"));
    }

    #[test]
    fn variables_are_substituted() {
        assert_eq!(substituted("a$WINDLASS_NO_SUCH-${WINDLASS_NO_SUCH:-d}$"), "a-d$");
    }
}
