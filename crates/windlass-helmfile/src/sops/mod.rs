//! Files that sops encrypted: YAML, JSON, dotenv and binary files.
//!
//! Owns the formats and the order of the steps: read the file, find the data key, decrypt each value, compare the message
//! authentication code, write the file. Comments are left out. Keys of key management services are refused by name.
//!
//! - [`sops_metadata`]: what a file says about its encryption; [`value_cipher`]: one encrypted value
//! - [`age_keys`], [`openpgp_keys`]: the data key; [`encrypted_tree`]: the values of a file, [`plain_file`]: the decrypted text

#[cfg(feature = "age")]
mod age_keys;
mod encrypted_tree;
#[cfg(feature = "pgp")]
mod openpgp_keys;
mod plain_file;
mod sops_metadata;
mod value_cipher;

use std::collections::BTreeMap;

use self::encrypted_tree::Tree;
use self::sops_metadata::{DataKey, Metadata};
use super::error::HelmfileError;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// YAML, with any number of documents.
    Yaml,
    /// JSON.
    Json,
    /// Lines `KEY=VALUE`.
    Dotenv,
    /// Any bytes, in a JSON envelope.
    Binary,
    /// INI, which is refused.
    Ini,
}

impl Format {
    /// The format by its name.
    ///
    /// # Errors
    /// There is no such format.
    pub fn parse(name: &str) -> Result<Self, HelmfileError> {
        match name {
            "yaml" => Ok(Self::Yaml),
            "json" => Ok(Self::Json),
            "dotenv" => Ok(Self::Dotenv),
            "binary" => Ok(Self::Binary),
            "ini" => Ok(Self::Ini),
            _ => Err(HelmfileError::Sops("the format is none of yaml, json, dotenv and binary".to_owned())),
        }
    }

    /// The format by the end of a file's name, as for sops.
    #[must_use]
    pub fn of_file(name: &str) -> Self {
        match name.rsplit_once('.').map(|(_, end)| end) {
            Some("yaml" | "yml") => Self::Yaml,
            Some("json") => Self::Json,
            Some("env") => Self::Dotenv,
            Some("ini") => Self::Ini,
            _ => Self::Binary,
        }
    }

    /// The format of a file under `secrets`: YAML unless the name says otherwise, as for helm-secrets.
    #[must_use]
    pub fn of_secrets_file(name: &str) -> Self {
        match Self::of_file(name) {
            Self::Binary => Self::Yaml,
            other => other,
        }
    }
}

/// The secret keys that decrypt files.
#[derive(Clone, Debug, Default)]
pub enum Keys {
    /// Those of this process' user.
    #[default]
    User,
    /// Given ones, by the names of their files: identities of age in `*.agekey`, armored OpenPGP keys in `*.asc`.
    Given(BTreeMap<String, Vec<u8>>),
}

impl Keys {
    /// The given texts under names with an ending; `None` for keys of the user.
    #[cfg(any(feature = "age", feature = "pgp"))]
    fn given(&self, ending: &str) -> Option<impl Iterator<Item = (&str, &[u8])>> {
        match self {
            Self::User => None,
            Self::Given(keys) => Some(
                keys.iter()
                    .filter(move |(name, _)| name.ends_with(ending))
                    .map(|(name, text)| (name.as_str(), text.as_slice())),
            ),
        }
    }
}

/// Decrypts a file.
///
/// # Errors
/// It is not encrypted or malformed, no key decrypts it, or it was changed after it was encrypted. The error has no value of it.
pub fn decrypt(text: &[u8], format: Format, keys: &Keys) -> Result<Vec<u8>, HelmfileError> {
    let text = std::str::from_utf8(text)
        .map_err(|_| HelmfileError::Sops("the encrypted file is not UTF-8 text".to_owned()))?;
    let (mut tree, metadata) = match format {
        Format::Yaml => Tree::of_yaml(text)?,
        Format::Json | Format::Binary => Tree::of_json(text)?,
        Format::Dotenv => Tree::of_dotenv(text)?,
        Format::Ini => {
            return Err(HelmfileError::Sops(
                "INI files are not supported; encrypt YAML, JSON or dotenv".to_owned(),
            ));
        }
    };
    let metadata = Metadata::read(&metadata)?;
    let key = data_key(&metadata, keys)?;
    tree.decrypt(&metadata, &key)?;
    plain_file::write(&tree, format)
}

/// The key that the values are encrypted with.
fn data_key(metadata: &Metadata, keys: &Keys) -> Result<Vec<u8>, HelmfileError> {
    let mut reasons = Vec::new();
    let mut age = None;
    for key in &metadata.keys {
        let found = match key {
            DataKey::Age(armored) => {
                let identities =
                    age.get_or_insert_with(|| age_keys::identities(keys).map_err(|error| error.to_string()));
                let known = identities.as_ref().map_err(Clone::clone);
                known.and_then(|known| age_keys::decrypt(armored, known).map_err(|error| error.to_string()))
            }
            DataKey::Pgp { fingerprint, armored } => {
                of_pgp(fingerprint, armored, keys).map_err(|error| error.to_string())
            }
        };
        match found {
            Ok(key) if key.len() == value_cipher::KEY_BYTES => return Ok(key),
            Ok(_) => reasons.push("the data key has another length than 32 bytes".to_owned()),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    if !metadata.unsupported.is_empty() {
        reasons.push(format!(
            "keys of {} are not supported; add a key of age or PGP",
            metadata.unsupported.join(", ")
        ));
    }
    Err(HelmfileError::Sops(format!("no key decrypts the file: {}", reasons.join("; "))))
}

/// What stands for the module in a build without age.
#[cfg(not(feature = "age"))]
mod age_keys {
    use crate::error::HelmfileError;

    pub(super) struct Identities;

    pub(super) fn identities(_: &super::Keys) -> Result<Identities, HelmfileError> {
        Err(HelmfileError::Sops(
            "this build has no age keys: it was made without the feature \"age\"".to_owned(),
        ))
    }

    pub(super) fn decrypt(_: &str, _: &Identities) -> Result<Vec<u8>, HelmfileError> {
        // Nobody has identities.
        Err(HelmfileError::Sops("no identity matched".to_owned()))
    }
}

#[cfg(feature = "pgp")]
fn of_pgp(fingerprint: &str, armored: &str, keys: &Keys) -> Result<Vec<u8>, HelmfileError> {
    openpgp_keys::decrypt(fingerprint, armored, keys)
}

#[cfg(not(feature = "pgp"))]
fn of_pgp(_: &str, _: &str, _: &Keys) -> Result<Vec<u8>, HelmfileError> {
    Err(HelmfileError::Sops("this build has no PGP keys: it was made without the feature \"pgp\"".to_owned()))
}
