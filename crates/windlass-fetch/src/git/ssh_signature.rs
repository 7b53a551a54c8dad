//! SSH signatures of Git objects, by OpenSSH's program `ssh-keygen`: no part of the protocol is this project's own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::GitError;
use windlass_base::child_process::{self, ChildError, Group, Limits};

/// The name of the only signer in the file of allowed ones.
const SIGNER: &str = "anybody";
/// What the program may take: it reads files that others wrote.
const LIMITS: Limits = Limits {
    output: 1 << 20,
    time: Some(Duration::from_secs(30)),
    memory: Some(256 << 20),
    group: Group::Own,
};

/// Verifies a signature of the namespace `git` by one of the keys, each of a type and base64. `directory`: for files. Returns the
/// fingerprint of the key.
///
/// # Errors
/// The signature is invalid or by no such key, or the program does not run.
pub async fn verify_ssh(
    directory: &Path,
    payload: &[u8],
    signature: &str,
    keys: &[String],
) -> Result<String, GitError> {
    let allowed: String = keys.iter().map(|key| format!("{SIGNER} {key}\n")).collect();
    let (signers, file) = (directory.join("allowed_signers"), directory.join("signature"));
    std::fs::write(&signers, allowed)?;
    std::fs::write(&file, signature)?;
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "verify", "-n", "git", "-I", SIGNER, "-f"]).arg(&signers).arg("-s").arg(&file);
    let ended = child_process::run_async(command, payload.to_vec(), LIMITS).await;
    let output = ended.map_err(|error| match error {
        ChildError::Start(e) => GitError::Reference(format!("ssh-keygen: {e}; SSH signatures need OpenSSH")),
        other => GitError::Reference(format!("ssh-keygen: {other}")),
    })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let text = format!("{said} {}", String::from_utf8_lossy(&output.stderr));
        return Err(GitError::Reference(text.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    // `Good "git" signature for anybody with ED25519 key SHA256:…`
    Ok(said.split_whitespace().last().unwrap_or_default().to_owned())
}
