//! Provenance files: written and signed, parsed and verified (`Signatory.ClearSign`, `Signatory.Verify`).
//!
//! Owns Helm's two YAML documents and the cleartext framework (RFC 9580, section 7). rPGP's own parser of that
//! framework scans the whole text again for each line, which takes hours for the largest allowed file; lines are
//! split here.

use std::path::Path;
use std::time::SystemTime;
use windlass_base::hex::hex;

use chart_compat::chart::Metadata;
use chart_compat::data::{Data, Map};
use chart_compat::yaml;
use sha2::{Digest as _, Sha256};

use super::certificate::Certificate;
use super::{ProvenanceError, Verified, keyring, signature};

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// A text in canonical form for signatures: lines without trailing spaces, and no final line end.
fn canonical(text: &str) -> Vec<u8> {
    let lines: Vec<&str> = text.split('\n').map(|l| l.trim_end_matches([' ', '\t', '\r'])).collect();
    lines.join("\r\n").into_bytes()
}

/// Signs a package. `id`: the name of the key, or a part of it; `passphrase`: called if the key is protected. Returns the
/// provenance file.
///
/// # Errors
/// The key does not exist, or cannot sign.
pub fn sign(
    package: &[u8],
    file: &str,
    metadata: &Metadata,
    keyring: &Path,
    id: &str,
    passphrase: &mut dyn FnMut() -> Result<Option<Vec<u8>>, String>,
) -> Result<String, ProvenanceError> {
    let ring = keyring::read(keyring).map_err(ProvenanceError::Keyring)?;
    let certificate = named(&ring, id)?;
    let secret = certificate.secret.as_ref().ok_or(ProvenanceError::NotSecret)?;
    let name = || certificate.names().next().unwrap_or_default();
    if let Err(refusal) = certificate.primary_may_sign(now()) {
        let reason = refusal.of_key();
        return Err(ProvenanceError::CannotSign { key: name(), reason });
    }
    let passphrase = if secret.secret_params().is_encrypted() {
        let given = passphrase().map_err(ProvenanceError::Passphrase)?;
        given.ok_or_else(|| ProvenanceError::Protected(name()))?
    } else {
        Vec::new()
    };
    let files: Map = [(file.to_owned(), digest(package).into())].into();
    let sums: Map = [("files".to_owned(), files.into())].into();
    let message = format!("{}\n...\n{}", yaml::to_string(&metadata.data())?, yaml::to_string(&sums.into())?);
    let message = message.trim_end_matches('\n');
    let signed = signature::sign(secret, &passphrase, &canonical(message), now());
    let escaped: Vec<String> = message
        .split('\n')
        .map(|l| if l.starts_with('-') { format!("- {l}") } else { l.to_owned() })
        .collect();
    Ok(format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{}\n{}",
        escaped.join("\n"),
        signed.map_err(ProvenanceError::Signature)?
    ))
}

/// The certificate for a name: an exact match takes precedence over a partial one.
fn named<'k>(ring: &'k [Certificate], id: &str) -> Result<&'k Certificate, ProvenanceError> {
    if let Some(exact) = ring.iter().find(|c| c.names().any(|n| n == id)) {
        return Ok(exact);
    }
    let mut found = ring.iter().filter(|c| c.names().any(|n| n.contains(id)));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(ProvenanceError::Vague(id.to_owned())),
        (None, _) => Err(ProvenanceError::NoKey),
    }
}

/// Verifies a package against its provenance file. `file`: the package's name.
///
/// # Errors
/// The signature is invalid, by no key of the keyring, or of another package.
pub fn verify(
    package: &[u8],
    provenance: &[u8],
    file: &str,
    keyring: &Path,
) -> Result<Verified, ProvenanceError> {
    let ring = keyring::read(keyring).map_err(ProvenanceError::Keyring)?;
    let text = String::from_utf8_lossy(provenance).replace("\r\n", "\n");
    let (message, signatures) = block(&text).ok_or(ProvenanceError::NoBlock)?;
    let signer = signature::check(&ring, &canonical(&message), signatures, now());
    let signer = signer.map_err(ProvenanceError::Signature)?;
    let found = digest(package);
    let (_, sums) = message.split_once("\n...\n").ok_or(ProvenanceError::NoParts)?;
    let sums = sums.split("\n...\n").next().unwrap_or_default();
    let sums = yaml::from_slice(sums.as_bytes())?;
    let signed = sums.get("files").and_then(|f| f.get(file)).and_then(Data::as_str);
    match signed {
        None => Err(ProvenanceError::NoFile(file.to_owned())),
        Some(signed) if signed != found => {
            Err(ProvenanceError::Digest { file: file.to_owned(), signed: signed.to_owned(), found })
        }
        Some(_) => {
            Ok(Verified { names: signer.names().collect(), fingerprint: signer.fingerprint(), digest: found })
        }
    }
}

/// Verifies a detached signature of a text by keys in armor. Returns the fingerprint of the key.
///
/// # Errors
/// The signature is invalid, or by none of the keys.
pub fn verify_detached(keys: &[String], text: &[u8], signature: &str) -> Result<String, ProvenanceError> {
    let ring = keyring::of_texts(keys).map_err(ProvenanceError::Keyring)?;
    let signer = signature::check(&ring, text, signature, now()).map_err(ProvenanceError::Signature)?;
    Ok(signer.fingerprint())
}

/// The signed text of a cleartext signature, without trailing spaces, and the armored signature after it.
fn block(text: &str) -> Option<(String, &str)> {
    const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----\n";
    const SIGNATURE: &str = "\n-----BEGIN PGP SIGNATURE-----";
    const END: &str = "-----END PGP SIGNATURE-----";
    let start = if text.starts_with(BEGIN) { 0 } else { text.find(&format!("\n{BEGIN}"))? + 1 };
    let rest = &text[start + BEGIN.len()..];
    let (headers, rest) = match rest.strip_prefix('\n') {
        Some(rest) => ("", rest),
        None => rest.split_once("\n\n")?,
    };
    if headers.lines().any(|l| !l.starts_with("Hash:")) {
        return None;
    }
    let middle = rest.find(SIGNATURE)?;
    let lines = rest[..middle].split('\n').map(|l| l.strip_prefix("- ").unwrap_or(l));
    let lines: Vec<&str> = lines.map(|l| l.trim_end_matches([' ', '\t'])).collect();
    let armored = &rest[middle + 1..];
    let end = armored.find(END)? + END.len();
    Some((lines.join("\n"), &armored[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_text_is_what_stands_between_the_headers_and_the_signature() {
        let end = "-----BEGIN PGP SIGNATURE-----\n\nAA==\n-----END PGP SIGNATURE-----";
        let begin = "-----BEGIN PGP SIGNED MESSAGE-----\n";
        let cases = [
            (format!("{begin}Hash: SHA512\n\na: 1  \n- - b\n{end}"), Some("a: 1\n- b")),
            (format!("mail\n{begin}\na\n\nb\n{end}\ntail"), Some("a\n\nb")),
            (format!("{begin}Comment: x\n\na\n{end}"), None),
            (format!("{begin}Hash: SHA512\na\n{end}"), None),
            (format!("{begin}\na\n"), None),
            ("a".to_owned(), None),
        ];
        for (text, want) in cases {
            let read = block(&text);
            assert_eq!(read.as_ref().map(|(message, _)| message.as_str()), want, "{text}");
            assert!(read.is_none_or(|(_, signature)| signature == end), "{text}");
        }
    }
}
