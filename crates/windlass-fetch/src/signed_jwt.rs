//! JSON Web Tokens that an RSA key signs: how clouds and forges know who asks.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

/// An algorithm of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// `RS256`.
    Pkcs1,
    /// `PS256`.
    #[cfg_attr(not(feature = "azure"), expect(dead_code, reason = "Azure's alone"))]
    Pss,
}

/// Signs claims with the first key of a text in PEM. `head`: what the token's header has besides type and algorithm.
///
/// # Errors
/// There is no RSA key, or it does not sign.
pub(super) fn sign(
    algorithm: Algorithm,
    mut head: Value,
    claims: &Value,
    pem: &[u8],
) -> Result<String, &'static str> {
    const NO_KEY: &str = "is not an RSA key in PEM";
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| NO_KEY)?;
    let key = match &key {
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(NO_KEY),
    };
    let key = key.map_err(|_| NO_KEY)?;
    let (name, encoding): (_, &dyn RsaEncoding) = match algorithm {
        Algorithm::Pkcs1 => ("RS256", &RSA_PKCS1_SHA256),
        Algorithm::Pss => ("PS256", &RSA_PSS_SHA256),
    };
    head["typ"] = "JWT".into();
    head["alg"] = name.into();
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&head), part(claims));
    let mut signature = vec![0; key.public_modulus_len()];
    let signed = key.sign(encoding, &SystemRandom::new(), text.as_bytes(), &mut signature);
    signed.map_err(|_| "does not sign")?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{
        KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, UnparsedPublicKey,
    };
    use serde_json::json;

    #[test]
    fn tokens_are_signed() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
        let key = RsaKeyPair::from_pkcs8(&pair.serialize_der()).unwrap();
        for (algorithm, name) in [(Algorithm::Pkcs1, "RS256"), (Algorithm::Pss, "PS256")] {
            let pem = pair.serialize_pem();
            let token = sign(algorithm, json!({"kid": "k"}), &json!({"iss": "me"}), pem.as_bytes()).unwrap();
            let (text, signature) = token.rsplit_once('.').unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            let public = key.public_key().as_ref();
            let verified = match algorithm {
                Algorithm::Pkcs1 => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public)
                    .verify(text.as_bytes(), &signature),
                Algorithm::Pss => UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, public)
                    .verify(text.as_bytes(), &signature),
            };
            assert!(verified.is_ok(), "{name}");
            let head = URL_SAFE_NO_PAD.decode(text.split_once('.').unwrap().0).unwrap();
            let head: Value = serde_json::from_slice(&head).unwrap();
            assert_eq!(head, json!({"alg": name, "typ": "JWT", "kid": "k"}));
        }
        for wrong in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert!(sign(Algorithm::Pkcs1, json!({}), &json!({}), wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
