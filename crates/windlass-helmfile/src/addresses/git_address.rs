//! Git repositories that addresses name.
//!
//! Owns what the parameters of `git::` mean. `depth` means nothing here: a copy has no history.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::remote_files::TenantAccess;
use super::address::Address;
use crate::error::HelmfileError;
use windlass_base::bounded_read;
use windlass_base::redact::SecretText;
use windlass_fetch::git::copies::GitCopies;
use windlass_fetch::git::remote::{GitAccess, GitLogin, GitRemote, GitRevision, SshKey};
use windlass_fetch::helm_paths::known_home;

/// The root of the copy of the commit that an address asks for. `tenant`: on whose behalf, if not this machine's user.
///
/// # Errors
/// A parameter is not supported, or the commit cannot be copied.
pub async fn copy(
    copies: &GitCopies,
    address: &Address,
    tenant: Option<&TenantAccess>,
) -> Result<PathBuf, HelmfileError> {
    if let Some(other) = address.parameters().find(|name| !["ref", "sshkey", "depth", "cache"].contains(name))
    {
        return Err(HelmfileError::Address(format!(
            "the parameter {other:?} is not supported; there are ref and sshkey"
        )));
    }
    let point = GitRevision::of_reference(&address.parameter("ref").unwrap_or_default())?;
    let location = &address.location;
    let login = location.user();
    // ssh takes the user from the URL; https sends it to this origin alone.
    let (url, login) = match (location.scheme.as_str(), login) {
        ("ssh", Some((user, password))) if password.is_empty() && !is_ssh_user(user) => {
            return Err(HelmfileError::Address(
                "the user of ssh has other characters than letters, digits, dots, dashes and underscores"
                    .to_owned(),
            ));
        }
        ("ssh", Some((user, password))) if password.is_empty() => {
            (format!("ssh://{user}@{}{}", location.host, location.path), None)
        }
        ("ssh", Some(_)) => return Err(HelmfileError::Address("ssh takes keys, and no password".to_owned())),
        ("https" | "http", Some((user, password))) => {
            (location.to_string(), Some(GitLogin::Basic(user.to_owned(), password.clone())))
        }
        ("https" | "http" | "ssh" | "file", None) => (location.to_string(), None),
        (other, _) => {
            return Err(HelmfileError::Address(format!(
                "git by {other:?} is not supported; there are https, ssh and file"
            )));
        }
    };
    let ssh = address.parameter("sshkey").map(|key| ssh_key(&key)).transpose()?;
    let access = match tenant {
        Some(_) if ssh.is_some() => {
            return Err(HelmfileError::Address("sshkey: use spec.secretRefs.ssh".to_owned()));
        }
        Some(tenant) => tenant.access(location, login)?,
        None => GitAccess { login, ssh, ..GitAccess::default() },
    };
    let git = GitRemote { url: &url, access: &access };
    copies.copy(&git, &point, false).await.map_err(HelmfileError::cause)
}

/// Whether a user, which was percent-decoded, ends before the host when it is put into a URL again.
fn is_ssh_user(user: &str) -> bool {
    !user.starts_with('-') && user.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

/// A key in base64, for the hosts that the user knows.
fn ssh_key(text: &str) -> Result<SshKey, HelmfileError> {
    let wrong =
        || HelmfileError::Address("the parameter \"sshkey\" is not a key in PEM in base64".to_owned());
    let bytes = STANDARD.decode(text).map_err(|_| wrong())?;
    let identity = String::from_utf8(bytes).map_err(|_| wrong())?;
    if !identity.contains("-----BEGIN ") {
        return Err(wrong());
    }
    let own = known_home().map(|home| home.join(".ssh/known_hosts"));
    let known = own.into_iter().chain([PathBuf::from("/etc/ssh/ssh_known_hosts")]);
    let known_hosts: String = known
        .filter_map(|path| bounded_read::read_text(&path, bounded_read::MAX_TEXT).ok())
        .collect::<Vec<_>>()
        .join("\n");
    Ok(SshKey { identity: SecretText::new(identity), known_hosts, password: SecretText::new(String::new()) })
}
