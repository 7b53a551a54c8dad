//! Data keys that are encrypted for PGP keys.
//!
//! Owns where secret keys come from: `secring.gpg` in GnuPG's directory, which `gpg --export-secret-keys` writes. GnuPG's own store of
//! secret keys is its agent's, which is not asked. Keys with a passphrase are refused.

use std::io::{BufReader, ErrorKind};
use std::path::PathBuf;

use pgp::composed::{Deserializable as _, Message, SignedSecretKey};
use pgp::types::{KeyDetails as _, Password};

use super::Keys;
use crate::error::HelmfileError;
use windlass_base::bounded_read;
use windlass_fetch::helm_paths::known_home;

/// The size limit of a data key, in bytes.
const MAX_KEY: u64 = 1024;
/// The size limit of the keyring, in bytes.
const MAX_KEYRING: u64 = 64 << 20;

/// Decrypts a data key with the secret key of a fingerprint: its own, or that of a subkey.
pub(super) fn decrypt(fingerprint: &str, armored: &str, keys: &Keys) -> Result<Vec<u8>, HelmfileError> {
    let keys = keyring(keys)?;
    let wanted = fingerprint.to_ascii_lowercase();
    let is_meant = |key: &&SignedSecretKey| {
        let subkeys = key.secret_subkeys.iter().map(|subkey| subkey.key.fingerprint().to_string());
        std::iter::once(key.fingerprint().to_string())
            .chain(subkeys)
            .any(|own| own.to_ascii_lowercase() == wanted)
    };
    let key = keys
        .iter()
        .find(is_meant)
        .ok_or_else(|| HelmfileError::Sops(format!("there is no secret PGP key {fingerprint}")))?;
    let failed = |_| {
        HelmfileError::Sops(format!(
            "the PGP key {fingerprint} does not decrypt the data key; keys with a passphrase are not supported"
        ))
    };
    let malformed = || HelmfileError::Sops("the data key is not a PGP message".to_owned());
    let (message, _) = Message::from_armor(BufReader::new(armored.as_bytes())).map_err(|_| malformed())?;
    let mut message = message.decrypt(&Password::empty(), key).map_err(failed)?;
    if message.is_compressed() {
        message = message.decompress().map_err(|_| malformed())?;
    }
    bounded_read::read_to_end(message, MAX_KEY).map_err(|_| malformed())
}

/// The given secret keys, or those of the user's exported ring.
fn keyring(keys: &Keys) -> Result<Vec<SignedSecretKey>, HelmfileError> {
    if let Some(given) = keys.given(".asc") {
        let mut all = Vec::new();
        for (name, text) in given {
            let found = SignedSecretKey::from_armor_many(text);
            // The parser's error could quote the key.
            let (found, _) =
                found.map_err(|_| HelmfileError::Sops(format!("{name} is not an armored OpenPGP key")))?;
            all.extend(found.filter_map(Result::ok));
        }
        return Ok(all);
    }
    let own = std::env::var_os("GNUPGHOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = own.or_else(|| known_home().map(|home| home.join(".gnupg")));
    let path = home
        .ok_or_else(|| {
            HelmfileError::Sops("there is no keyring: neither GNUPGHOME nor HOME is set".to_owned())
        })?
        .join("secring.gpg");
    let shown = path.display();
    let bytes = bounded_read::read_file(&path, MAX_KEYRING).map_err(|error| match error.kind() {
        ErrorKind::NotFound => HelmfileError::Sops(format!(
            "there is no {shown}; gpg-agent is not asked: export the key by gpg --export-secret-keys --output {shown}"
        )),
        _ => HelmfileError::file(&shown, &error),
    })?;
    let (keys, _) = SignedSecretKey::from_reader_many(&*bytes)
        .map_err(|error| HelmfileError::cause(error).within(shown.to_string()))?;
    Ok(keys.filter_map(Result::ok).collect())
}
