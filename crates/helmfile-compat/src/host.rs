//! What the evaluation of a state file may ask of the outside.
//!
//! Owns only the interface: files, environment variables, programs, addresses and secrets. The caller implements it, and can
//! bound or forbid each operation.

use std::collections::BTreeMap;

use chart_compat::world::World;

use super::error::Error;
use super::value::Value;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the folder.
    pub name: String,
    /// Whether it is a folder.
    pub is_dir: bool,
}

/// A program to run (`exec`, `envExec`, hooks).
#[derive(Clone, Debug)]
pub struct Program {
    /// The folder to run in, absolute.
    pub dir: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables that are added.
    pub variables: BTreeMap<String, String>,
    /// Standard input.
    pub input: String,
}

/// What a host may forbid altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// `exec`, `envExec`, `readFile`, `readDir` and `readDirEntries`.
    TemplateFunctions,
    /// Hooks.
    Hooks,
}

/// The memory of one render of a template.
pub struct RenderMemory {
    /// How many bytes.
    pub bytes: usize,
    /// What holds them for the render: others may have them once it is dropped.
    pub held: Option<Box<dyn Send>>,
}

/// The operations of an evaluation on the outside. Paths are absolute.
pub trait Host: Send + Sync {
    /// Clock and randomness of template functions.
    fn world(&self) -> &dyn World;

    /// Memory for a render; waits for renders beside it to end.
    fn render_memory(&self) -> RenderMemory;

    /// A path as messages show it: without the login and the query of an address.
    fn without_logins(&self, text: &str) -> String;

    /// The bytes of a file.
    ///
    /// # Errors
    /// `open PATH: no such file or directory` and the like.
    fn read(&self, path: &str) -> Result<Vec<u8>, Error>;

    /// Whether a path is a folder (`Some(true)`), a file, or does not exist. Symbolic links are followed.
    fn is_dir(&self, path: &str) -> Option<bool>;

    /// The entries of a folder, sorted by name.
    ///
    /// # Errors
    /// `open PATH: no such file or directory` and the like.
    fn read_dir(&self, path: &str) -> Result<Vec<Entry>, Error>;

    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// The reason why something is forbidden, if it is.
    fn forbids(&self, what: Forbidden) -> Option<String>;

    /// Runs a program and returns its standard output.
    ///
    /// # Errors
    /// The program cannot be run, fails, or programs are forbidden.
    fn run(&self, program: &Program) -> Result<String, Error>;

    /// The path of what an address names, fetched. `what`: `states`, `values` or `charts`.
    ///
    /// # Errors
    /// The address cannot be fetched, or addresses are forbidden.
    fn fetch(&self, address: &str, what: &str) -> Result<String, Error>;

    /// The value of a secret reference, without `ref+`. `dir`: the folder that paths are relative to.
    ///
    /// # Errors
    /// The provider is not supported or refuses; never names the secret.
    fn secret(&self, reference: &str, dir: &str) -> Result<Value, Error>;

    /// The decrypted bytes of an encrypted file.
    ///
    /// # Errors
    /// No key decrypts it, or its format is not supported.
    fn decrypt(&self, path: &str) -> Result<Vec<u8>, Error>;

    /// A key that is slow to derive, by a digest of its inputs. A host can keep it for the next render.
    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        let _ = digest;
        derive()
    }

    /// Receives a warning.
    fn warn(&self, line: &str);
}

/// The text of a file.
///
/// # Errors
/// As [`Host::read`], and a file that is not UTF-8.
pub fn read_text(host: &dyn Host, path: &str) -> Result<String, Error> {
    String::from_utf8(host.read(path)?).map_err(|_| Error::Invalid(format!("{path} is not UTF-8 text")))
}

/// The paths that a pattern matches, sorted (`filepath.Glob`).
///
/// # Errors
/// The pattern is malformed.
pub fn glob(host: &dyn Host, pattern: &str) -> Result<Vec<String>, Error> {
    if !pattern.contains(['*', '?', '[', '\\']) {
        return Ok(if host.is_dir(pattern).is_some() { vec![pattern.to_owned()] } else { Vec::new() });
    }
    let (dir, file) = match pattern.rfind('/') {
        Some(0) => ("/", pattern.get(1..).unwrap_or_default()),
        Some(at) => pattern
            .split_at_checked(at)
            .map_or((pattern, ""), |(dir, file)| (dir, file.get(1..).unwrap_or(""))),
        None => (".", pattern),
    };
    let dirs = if dir.contains(['*', '?', '[', '\\']) { glob(host, dir)? } else { vec![dir.to_owned()] };
    // Go reports a malformed pattern even if there is nothing to match.
    chart_compat::chart::matches(file, "").map_err(Error::Invalid)?;
    let mut out = Vec::new();
    for dir in dirs {
        if host.is_dir(&dir) != Some(true) {
            continue;
        }
        for entry in host.read_dir(&dir).unwrap_or_default() {
            if chart_compat::chart::matches(file, &entry.name).map_err(Error::Invalid)? {
                out.push(super::paths::join(&dir, &entry.name));
            }
        }
    }
    out.sort();
    Ok(out)
}
