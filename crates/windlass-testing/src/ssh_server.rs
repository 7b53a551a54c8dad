//! A server of Git repositories over SSH, and keys for it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Error, Result, Tool};

/// A server of Git over SSH on loopback. Ends when it is dropped, or with its input.
#[derive(Debug)]
pub struct SshServer {
    child: Child,
    port: String,
}

impl SshServer {
    /// Starts the server. `host_key`: its private key; `authorized`: the public keys that it accepts, a line each.
    ///
    /// # Errors
    /// The server cannot be built or started.
    pub fn start(host_key: &Path, authorized: &Path) -> Result<Self> {
        let mut child = Command::new(Tool::Ssh.path()?)
            .args([host_key, authorized])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io("start the SSH server with", host_key))?;
        let mut address = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output)
                .read_line(&mut address)
                .map_err(Error::io("read the address of the SSH server with", host_key))?;
        }
        let port = address.trim().rsplit(':').next().unwrap_or_default().to_owned();
        let server = Self { child, port };
        // Without an address the server has ended: its output says why.
        if server.port.parse::<u16>().is_err() {
            return Err(Error::NoAddress { server: "the SSH server", line: address.trim().to_owned() });
        }
        Ok(server)
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> &str {
        &self.port
    }

    /// Makes a key pair without a passphrase in a directory. Returns the path of the private key, and the public key.
    ///
    /// # Errors
    /// `ssh-keygen` fails.
    pub fn key(directory: &Path, name: &str) -> Result<(PathBuf, String)> {
        let path = directory.join(name);
        let output = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
            .arg(&path)
            .output()
            .map_err(Error::io("run ssh-keygen for", &path))?;
        if !output.status.success() {
            return Err(Error::Command {
                command: "ssh-keygen".to_owned(),
                status: output.status,
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            });
        }
        let public = path.with_extension("pub");
        let public = std::fs::read_to_string(&public).map_err(Error::io("read", &public))?;
        Ok((path, public.trim().to_owned()))
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
