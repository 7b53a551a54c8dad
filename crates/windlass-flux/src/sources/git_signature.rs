//! Signatures of commits and tags, by OpenPGP or SSH.
//!
//! Owns what of a Git object is signed. Knows no policy: which objects must be signed is the GitRepository's.

use std::path::Path;

use super::super::error::FluxError;
use super::source_secrets::SourceSecret;
use windlass_fetch::git::remote::GitRemote;
use windlass_fetch::git::ssh_signature::verify_ssh;
use windlass_fetch::provenance;

/// The longest title of a commit, in characters.
const MAX_TITLE: usize = 50;

/// Where a Git object is: the directory for git's files, the checkout, and the object's name.
pub(super) type ObjectPlace<'p> = (&'p Path, &'p Path, &'p str);

/// The first line of a commit's message.
pub(super) async fn title(git: &GitRemote<'_>, (scratch, root, commit): ObjectPlace<'_>) -> Option<String> {
    let object = git.object(scratch, root, "commit", commit).await.ok()?;
    let text = String::from_utf8_lossy(&object).into_owned();
    let (_, message) = text.split_once("\n\n")?;
    let line = message.trim_start().lines().next()?;
    let short: String = line.chars().take(MAX_TITLE).collect();
    Some(if short.len() < line.len() { format!("{short}...") } else { short })
}

/// Verifies a commit. Returns the key.
///
/// # Errors
/// The commit is not signed, or not by one of the keys.
pub(super) async fn verify_commit(
    git: &GitRemote<'_>,
    (scratch, root, commit): ObjectPlace<'_>,
    keys: &SourceSecret,
) -> Result<String, FluxError> {
    let object = git.object(scratch, root, "commit", commit).await.map_err(|e| e.to_string())?;
    let (payload, signature) = split_commit(&object).ok_or("the commit is not signed")?;
    verify(scratch, &payload, &signature, keys).await
}

/// Verifies an annotated tag. Returns the key.
///
/// # Errors
/// The tag is not annotated, not signed, or not by one of the keys.
pub(super) async fn verify_tag(
    git: &GitRemote<'_>,
    (scratch, root, name): ObjectPlace<'_>,
    keys: &SourceSecret,
) -> Result<String, FluxError> {
    git.fetch_reference(scratch, root, name).await.map_err(|e| e.to_string())?;
    let object = git.object(scratch, root, "tag", name).await;
    let object = object.map_err(|_| "it is not an annotated tag".to_owned())?;
    let (payload, signature) = split_tag(&object).ok_or("the tag is not signed")?;
    verify(scratch, &payload, &signature, keys).await
}

/// The signed part of a commit, and its signature: the header `gpgsig` with its continuation lines is not signed.
fn split_commit(object: &[u8]) -> Option<(Vec<u8>, String)> {
    let (mut payload, mut signature) = (Vec::new(), String::new());
    let (mut in_signature, mut in_message) = (false, false);
    for line in object.split_inclusive(|byte| *byte == b'\n') {
        if !in_message {
            if line == b"\n" {
                in_message = true;
            }
            if let Some(first) = line.strip_prefix(b"gpgsig ") {
                in_signature = true;
                signature.push_str(&String::from_utf8_lossy(first));
                continue;
            }
            if in_signature && let Some(next) = line.strip_prefix(b" ") {
                signature.push_str(&String::from_utf8_lossy(next));
                continue;
            }
            in_signature = false;
        }
        payload.extend_from_slice(line);
    }
    (!signature.is_empty()).then_some((payload, signature))
}

/// The signed part of a tag, and the signature at its end.
fn split_tag(object: &[u8]) -> Option<(Vec<u8>, String)> {
    let text = String::from_utf8_lossy(object);
    let at = ["-----BEGIN PGP SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----"]
        .iter()
        .filter_map(|begin| text.rfind(begin))
        .max()?;
    Some((object.get(..at)?.to_vec(), text[at..].to_owned()))
}

async fn verify(
    scratch: &Path,
    payload: &[u8],
    signature: &str,
    keys: &SourceSecret,
) -> Result<String, FluxError> {
    if signature.starts_with("-----BEGIN SSH SIGNATURE-----") {
        let keys = ssh_keys(keys);
        if keys.is_empty() {
            let text =
                "SSH signature detected but no SSH public keys found in secret (keys with .sshpub suffix)";
            return Err(text.into());
        }
        return Ok(verify_ssh(scratch, payload, signature, &keys).await.map_err(|e| e.to_string())?);
    }
    if !signature.starts_with("-----BEGIN PGP SIGNATURE-----") {
        return Err("unsupported signature type".into());
    }
    let rings: Vec<String> =
        keys.with_suffix(".asc").map(|(_, key)| String::from_utf8_lossy(key).into_owned()).collect();
    if rings.is_empty() {
        return Err(
            "PGP signature detected but no PGP public keys found in secret (keys with .asc suffix)".into()
        );
    }
    Ok(provenance::verify_detached(&rings, payload, signature).map_err(|e| e.to_string())?)
}

/// The keys of entries `*.sshpub`, a line each: type and key alone, since options would mean something else here.
fn ssh_keys(keys: &SourceSecret) -> Vec<String> {
    let texts = keys.with_suffix(".sshpub").map(|(_, text)| String::from_utf8_lossy(text).into_owned());
    let mut out = Vec::new();
    for text in texts {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            if let (Some(kind), Some(key)) = (words.next(), words.next()) {
                out.push(format!("{kind} {key}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_taken_out_of_commits_and_tags() {
        let commit = b"tree 1\nauthor a\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\nencoding x\n\ntitle\n\ngpgsig no\n";
        let (payload, signature) = split_commit(commit).unwrap();
        assert_eq!(payload, b"tree 1\nauthor a\nencoding x\n\ntitle\n\ngpgsig no\n");
        assert_eq!(signature, "-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----\n");
        assert_eq!(split_commit(b"tree 1\n\ngpgsig in the message\n"), None);
        let tag = b"object 1\ntype commit\n\nrelease\n-----BEGIN SSH SIGNATURE-----\nx\n-----END SSH SIGNATURE-----\n";
        let (payload, signature) = split_tag(tag).unwrap();
        assert_eq!(payload, b"object 1\ntype commit\n\nrelease\n");
        assert!(signature.starts_with("-----BEGIN SSH SIGNATURE-----"));
        assert_eq!(split_tag(b"object 1\n\nrelease\n"), None);
    }
}
