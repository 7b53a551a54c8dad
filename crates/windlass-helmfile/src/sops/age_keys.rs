//! Data keys that are encrypted for recipients of age.
//!
//! Owns where identities come from, as for sops: `SOPS_AGE_KEY`, `SOPS_AGE_KEY_FILE`, `sops/age/keys.txt` in the user's directory of
//! configuration, `SOPS_AGE_SSH_PRIVATE_KEY_FILE`, `~/.ssh/id_ed25519` and `~/.ssh/id_rsa`. Commands (`SOPS_AGE_KEY_CMD`) are not run,
//! and nobody is asked for a passphrase.

use std::path::{Path, PathBuf};

use age::armor::ArmoredReader;
use age::{Decryptor, Identity, ssh, x25519};

use super::Keys;
use crate::error::HelmfileError;
use windlass_base::bounded_read;
use windlass_fetch::helm_paths::known_home;

/// The size limit of a file of identities, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The size limit of a data key, in bytes.
const MAX_KEY: u64 = 1024;

/// Identities that decrypt.
pub(super) type Identities = Vec<Box<dyn Identity>>;

/// Reads the identities.
pub(super) fn identities(keys: &Keys) -> Result<Identities, HelmfileError> {
    let Some(given) = keys.given(".agekey") else { return of_user() };
    let mut found = Identities::new();
    for (name, text) in given {
        native(&mut found, name, &String::from_utf8_lossy(text))?;
    }
    match found.is_empty() {
        true => Err(HelmfileError::Sops("there is no identity of age: no key ends in .agekey".to_owned())),
        false => Ok(found),
    }
}

/// The identities of this user.
fn of_user() -> Result<Identities, HelmfileError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut found = Identities::new();
    if let Some(text) = variable("SOPS_AGE_KEY") {
        // Several may be in a line.
        native(&mut found, "SOPS_AGE_KEY", &text.split_whitespace().collect::<Vec<_>>().join("\n"))?;
    }
    if let Some(path) = variable("SOPS_AGE_KEY_FILE") {
        of_file(&mut found, Path::new(&path))?;
    }
    if let Some(path) = variable("SOPS_AGE_SSH_PRIVATE_KEY_FILE") {
        of_ssh_file(&mut found, Path::new(&path))?;
    }
    // Files that nobody named are used if they can be: another identity may decrypt.
    let mut unusable = Vec::new();
    if let Some(directory) = config_directory() {
        let path = directory.join("sops/age/keys.txt");
        if path.exists() {
            unusable.extend(of_file(&mut found, &path).err());
        }
    }
    let ssh = known_home().map(|home| home.join(".ssh"));
    for path in ssh.iter().flat_map(|ssh| ["id_ed25519", "id_rsa"].map(|name| ssh.join(name))) {
        if path.exists() {
            unusable.extend(of_ssh_file(&mut found, &path).err());
        }
    }
    if found.is_empty() {
        let why = unusable.iter().map(|why| format!("; {why}")).collect::<String>();
        return Err(HelmfileError::Sops(format!(
            "there is no identity of age: set SOPS_AGE_KEY or SOPS_AGE_KEY_FILE{why}"
        )));
    }
    Ok(found)
}

/// The user's directory of configuration, as Go finds it.
fn config_directory() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    named.or_else(|| known_home().map(|home| home.join(usual)))
}

/// The text of a file.
fn read(path: &Path) -> Result<String, HelmfileError> {
    let shown = path.display();
    let bytes =
        bounded_read::read_file(path, MAX_FILE).map_err(|error| HelmfileError::file(&shown, &error))?;
    String::from_utf8(bytes).map_err(|_| HelmfileError::Sops(format!("{shown} is not UTF-8 text")))
}

/// Adds the identities of a file, one a line; none of them if one is malformed.
fn of_file(found: &mut Identities, path: &Path) -> Result<(), HelmfileError> {
    let mut own = Identities::new();
    native(&mut own, &path.display().to_string(), &read(path)?)?;
    found.append(&mut own);
    Ok(())
}

/// Adds the identity of a private key of ssh.
fn of_ssh_file(found: &mut Identities, path: &Path) -> Result<(), HelmfileError> {
    match ssh::Identity::from_buffer(read(path)?.as_bytes(), None) {
        Ok(key @ ssh::Identity::Unencrypted(_)) => {
            found.push(Box::new(key));
            Ok(())
        }
        _ => Err(HelmfileError::Sops(format!("{} is not a key of ssh without a passphrase", path.display()))),
    }
}

/// Adds the identities of a text, one a line.
fn native(found: &mut Identities, shown: &str, text: &str) -> Result<(), HelmfileError> {
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with("AGE-PLUGIN-") {
            return Err(HelmfileError::Sops(format!(
                "{shown}, line {}: plugins of age are not supported",
                at + 1
            )));
        }
        let identity: Result<x25519::Identity, _> = line.parse();
        found.push(Box::new(identity.map_err(|_| {
            HelmfileError::Sops(format!("{shown}, line {}: not an identity of age", at + 1))
        })?));
    }
    Ok(())
}

/// Decrypts a data key.
pub(super) fn decrypt(armored: &str, identities: &Identities) -> Result<Vec<u8>, HelmfileError> {
    let malformed = || HelmfileError::Sops("the data key is not a message of age".to_owned());
    let decryptor =
        Decryptor::new_buffered(ArmoredReader::new(armored.as_bytes())).map_err(|_| malformed())?;
    let known = identities.iter().map(|identity| &**identity as &dyn Identity);
    let reader = decryptor
        .decrypt(known)
        .map_err(|_| HelmfileError::Sops("no identity of age is a recipient".to_owned()))?;
    bounded_read::read_to_end(reader, MAX_KEY).map_err(|_| malformed())
}
