//! One encrypted value: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::generic_array::GenericArray;
use aes_gcm::aead::{Aead as _, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, KeyInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::HelmfileError;
use windlass_base::redact;

/// The length of a data key, in bytes.
pub(super) const KEY_BYTES: usize = 32;
/// The length of a nonce, in bytes.
const NONCE_BYTES: usize = 32;

/// The cipher of a file.
pub(super) struct ValueCipher(AesGcm<Aes256, U32>);

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    /// `str`, `bytes`.
    Text,
    /// `int`.
    Int,
    /// `float`.
    Float,
    /// `bool`.
    Bool,
    /// `time`.
    Time,
}

impl ValueCipher {
    /// The cipher with a data key.
    pub(super) fn new(key: &[u8]) -> Result<Self, HelmfileError> {
        let wrong = |_| HelmfileError::Sops(format!("the data key has not {KEY_BYTES} bytes"));
        AesGcm::new_from_slice(key).map(Self).map_err(wrong)
    }

    /// Decrypts a value. `place`: where it stands, which is part of what is authenticated.
    pub(super) fn decrypt(&self, text: &str, place: &str) -> Result<(String, ValueType), HelmfileError> {
        let malformed = || HelmfileError::Sops("the value is not in the format of sops".to_owned());
        let inner = text.strip_prefix("ENC[AES256_GCM,data:").and_then(|rest| rest.strip_suffix(']'));
        let (data, rest) = inner.and_then(|inner| inner.split_once(",iv:")).ok_or_else(malformed)?;
        let (nonce, rest) = rest.split_once(",tag:").ok_or_else(malformed)?;
        let (tag, kind) = rest.split_once(",type:").ok_or_else(malformed)?;
        let kind = match kind {
            "str" | "bytes" => ValueType::Text,
            "int" => ValueType::Int,
            "float" => ValueType::Float,
            "bool" => ValueType::Bool,
            "time" => ValueType::Time,
            _ => return Err(malformed()),
        };
        let bytes = |text: &str| STANDARD.decode(text).map_err(|_| malformed());
        let (mut sealed, nonce, tag) = (bytes(data)?, bytes(nonce)?, bytes(tag)?);
        if nonce.len() != NONCE_BYTES {
            return Err(malformed());
        }
        sealed.extend(tag);
        let payload = Payload { msg: &sealed, aad: place.as_bytes() };
        let plain = self.0.decrypt(GenericArray::from_slice(&nonce), payload);
        let plain = plain.map_err(|_| {
            HelmfileError::Sops("the value was changed, or encrypted with another key".to_owned())
        })?;
        let plain = String::from_utf8(plain)
            .map_err(|_| HelmfileError::Sops("the decrypted value is not UTF-8 text".to_owned()))?;
        redact::add(&plain);
        Ok((plain, kind))
    }
}
