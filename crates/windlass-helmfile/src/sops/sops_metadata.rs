//! What a file says about its encryption: the key `sops`.

use regex::Regex;

use crate::error::HelmfileError;
use helmfile_compat::value::{Map, Value};

/// Kinds of keys that are refused by name.
const UNSUPPORTED: [&str; 5] = ["kms", "gcp_kms", "azure_kv", "hc_vault", "hckms"];
/// The suffix of keys whose values are not encrypted, unless the file says otherwise.
const UNENCRYPTED: &str = "_unencrypted";

/// The encrypted data key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DataKey {
    /// For a recipient of age, in armor.
    Age(String),
    /// For a PGP key.
    Pgp {
        /// The fingerprint of the key.
        fingerprint: String,
        /// The message, in armor.
        armored: String,
    },
}

/// Which values are encrypted: those with a key on their path that says so.
#[derive(Debug)]
enum Rule {
    EncryptedSuffix(String),
    UnencryptedSuffix(String),
    EncryptedRegex(Regex),
    UnencryptedRegex(Regex),
}

/// The metadata of a file.
#[derive(Debug)]
pub(super) struct Metadata {
    /// The data key, once for each key that decrypts it.
    pub(super) keys: Vec<DataKey>,
    /// Kinds of keys that the file has besides.
    pub(super) unsupported: Vec<&'static str>,
    /// The encrypted message authentication code.
    pub(super) mac: String,
    /// When the file was last changed; authenticated with the code.
    pub(super) modified: String,
    /// Whether the code is over the encrypted values alone.
    pub(super) mac_only_encrypted: bool,
    rule: Rule,
}

impl Metadata {
    /// Reads the metadata of a file.
    pub(super) fn read(map: &Map) -> Result<Self, HelmfileError> {
        let text = |name: &str| map.get(name).map(Value::go_text).filter(|text| !text.is_empty());
        for name in ["encrypted_comment_regex", "unencrypted_comment_regex"] {
            if text(name).is_some() {
                return Err(HelmfileError::Sops(format!(
                    "{name} is not supported; choose values by their keys"
                )));
            }
        }
        let regex = |pattern: String| {
            Regex::new(&pattern).map_err(|error| HelmfileError::cause(error).within("sops"))
        };
        let mut rules = Vec::new();
        rules.extend(text("encrypted_suffix").map(Rule::EncryptedSuffix));
        rules.extend(text("unencrypted_suffix").map(Rule::UnencryptedSuffix));
        rules.extend(text("encrypted_regex").map(regex).transpose()?.map(Rule::EncryptedRegex));
        rules.extend(text("unencrypted_regex").map(regex).transpose()?.map(Rule::UnencryptedRegex));
        if rules.len() > 1 {
            return Err(HelmfileError::Sops(
                "sops has more than one rule for which values are encrypted".to_owned(),
            ));
        }
        let missing = |name: &str| HelmfileError::Sops(format!("sops.{name} is missing"));
        let mut out = Self {
            keys: Vec::new(),
            unsupported: Vec::new(),
            mac: text("mac").ok_or_else(|| missing("mac"))?,
            modified: text("lastmodified").ok_or_else(|| missing("lastmodified"))?,
            mac_only_encrypted: text("mac_only_encrypted").as_deref() == Some("true"),
            rule: rules.pop().unwrap_or_else(|| Rule::UnencryptedSuffix(UNENCRYPTED.to_owned())),
        };
        match map.get("key_groups") {
            Some(Value::List(groups)) if groups.len() > 1 => {
                return Err(HelmfileError::Sops(
                    "key groups are not supported; use one group of keys".to_owned(),
                ));
            }
            Some(Value::List(groups)) => {
                for group in groups.iter().filter_map(Value::as_map) {
                    out.add_keys(group);
                }
            }
            _ => {}
        }
        out.add_keys(map);
        Ok(out)
    }

    fn add_keys(&mut self, map: &Map) {
        let entries = |name: &str| match map.get(name) {
            Some(Value::List(items)) => items.iter().filter_map(Value::as_map).collect(),
            _ => Vec::new(),
        };
        let text = |entry: &Map, name: &str| entry.get(name).map(Value::go_text).unwrap_or_default();
        self.keys.extend(entries("age").into_iter().map(|entry| DataKey::Age(text(entry, "enc"))));
        self.keys.extend(
            entries("pgp")
                .into_iter()
                .map(|entry| DataKey::Pgp { fingerprint: text(entry, "fp"), armored: text(entry, "enc") }),
        );
        self.unsupported.extend(UNSUPPORTED.into_iter().filter(|name| !entries(name).is_empty()));
    }

    /// Whether the value at a path is encrypted.
    pub(super) fn encrypts(&self, path: &[String]) -> bool {
        match &self.rule {
            Rule::EncryptedSuffix(suffix) => path.iter().any(|key| key.ends_with(suffix.as_str())),
            Rule::UnencryptedSuffix(suffix) => !path.iter().any(|key| key.ends_with(suffix.as_str())),
            Rule::EncryptedRegex(regex) => path.iter().any(|key| regex.is_match(key)),
            Rule::UnencryptedRegex(regex) => !path.iter().any(|key| regex.is_match(key)),
        }
    }
}
