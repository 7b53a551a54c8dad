//! The reference registry of OCI artifacts, in memory.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::{Error, Result, Tool, wait_until};

/// A registry on loopback. Ends when it is dropped.
#[derive(Debug)]
pub struct RegistryServer {
    child: Child,
    host: String,
    directory: TempDir,
}

impl RegistryServer {
    /// Starts a registry with files of a directory. `http`: more settings of its server, each after a comma; `more`: lines of the
    /// configuration.
    ///
    /// # Errors
    /// It cannot be built or started.
    pub fn start(directory: TempDir, http: &str, more: &str) -> Result<Self> {
        let path = directory.path().join("config.yml");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let host = free.map_err(Error::io("find a port for", &path))?.to_string();
        let storage = "version: 0.1\nlog: {level: error}\nstorage: {inmemory: {}}";
        let config = format!("{storage}\nhttp: {{addr: \"{host}\"{http}}}\n{more}");
        std::fs::write(&path, config).map_err(Error::io("write", &path))?;
        let child = Command::new(Tool::Registry.path()?)
            .arg("serve")
            .arg(&path)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::io("start the registry with", &path))?;
        let registry = Self { child, host, directory };
        let up = || Ok(TcpStream::connect(&registry.host).is_ok().then_some(()));
        wait_until("the registry listens", Duration::from_secs(60), up)?;
        Ok(registry)
    }

    /// Its address and port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The directory of its files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
