//! The outside of a state file, while it is recorded for a bundle.
//!
//! Owns what of each operation is recorded. What programs print and what variables and secrets hold is not.

use std::path::Path;
use std::sync::Arc;

use chart_compat::world::World;
use percent_encoding::percent_decode_str;

use super::recorder::Recorder;
use crate::error::HelmfileError;
use helmfile_compat::Error;
use helmfile_compat::host::{Entry, Forbidden, Host, Program, RenderMemory};
use helmfile_compat::paths;
use helmfile_compat::value::Value;
use windlass_fetch::input_store::InputStore as _;

/// A host whose operations are recorded.
pub struct RecordingHost {
    host: Box<dyn Host>,
    recorder: Arc<Recorder>,
}

impl RecordingHost {
    /// Records the operations of a host.
    #[must_use]
    pub fn new(host: Box<dyn Host>, recorder: Arc<Recorder>) -> Self {
        Self { host, recorder }
    }

    /// Notes a program: with a path it is packed, otherwise it is one of the machine.
    ///
    /// # Errors
    /// It cannot be packed.
    pub fn note_program(&self, dir: &str, command: &str) -> Result<(), HelmfileError> {
        let path = paths::within(dir, command);
        if command.contains('/') && self.recorder.place(Path::new(&path)).is_some() {
            return match self.host.is_dir(&path) {
                Some(false) => self.recorder.note_file(Path::new(&path)).map_err(HelmfileError::cause),
                _ => Ok(()),
            };
        }
        self.recorder.note_need(|needs| {
            needs.programs.insert(command.to_owned());
        });
        Ok(())
    }
}

impl RecordingHost {
    /// Packs an encrypted file of a secret reference. One that is not encrypted is refused, unless it is packed on request: a run from
    /// the bundle does not have what lies beside its state files.
    fn note_secret_file(
        &self,
        reference: &str,
        provider: &str,
        path: &str,
        dir: &str,
    ) -> Result<(), HelmfileError> {
        if path.starts_with('/') {
            return Ok(());
        }
        let path = percent_decode_str(path).decode_utf8_lossy();
        let file = paths::within(dir, path.trim_end_matches('/'));
        let file = Path::new(&file);
        match provider {
            // Another `key_type` has no file at this path.
            "sops" if file.is_file() && !reference.contains("key_type=base64") => {
                self.recorder.note_file(file).map_err(HelmfileError::cause)
            }
            "file" if !self.recorder.is_packed(file) => Err(HelmfileError::Bundle(format!(
                "ref+file://{path}: a file with a secret beside the state file is not packed: give its absolute path on the machines of \
                 the runs, take a variable (ref+env://NAME), encrypt it (ref+sops://FILE), or pack it as it is by --include {path}"
            ))),
            _ => Ok(()),
        }
    }
}

impl Host for RecordingHost {
    fn world(&self) -> &dyn World {
        self.host.world()
    }

    fn render_memory(&self) -> RenderMemory {
        self.host.render_memory()
    }

    fn without_logins(&self, text: &str) -> String {
        self.host.without_logins(text)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        if paths::base(path) == "-" {
            return Err(HelmfileError::Bundle(
                "standard input cannot be packed into a bundle: write it to a file".to_owned(),
            )
            .into());
        }
        let content = self.host.read(path)?;
        if self.recorder.place(Path::new(path)).is_none() {
            self.recorder.note_need(|needs| {
                needs.files.insert(path.to_owned());
            });
        }
        self.recorder.note_file(Path::new(path)).map_err(Error::host)?;
        Ok(content)
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        let found = self.host.is_dir(path);
        self.recorder.note_path(path, found);
        found
    }

    fn read_dir(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let entries = self.host.read_dir(path)?;
        self.recorder.note_entries(path, &entries);
        Ok(entries)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.recorder.note_need(|needs| {
            needs.variables.insert(name.to_owned());
        });
        self.host.variable(name)
    }

    fn forbids(&self, what: Forbidden) -> Option<String> {
        self.host.forbids(what)
    }

    fn run(&self, program: &Program) -> Result<String, Error> {
        self.note_program(&program.dir, &program.command)?;
        self.host.run(program)
    }

    fn fetch(&self, address: &str, what: &str) -> Result<String, Error> {
        self.host.fetch(address, what)
    }

    fn secret(&self, reference: &str, dir: &str) -> Result<Value, Error> {
        let (provider, path) = reference.split_once("://").unwrap_or((reference, ""));
        let path = path.split(['#', '?']).next().unwrap_or_default().to_owned();
        self.note_secret_file(reference, provider, &path, dir)?;
        self.recorder.note_need(|needs| {
            match provider {
                "env" => needs.variables.insert(path),
                "file" if path.starts_with('/') => needs.secrets.insert(format!("file://{path}")),
                "file" => true,
                // The path of other providers may be the secret.
                other => needs.secrets.insert(other.to_owned()),
            };
        });
        self.host.secret(reference, dir)
    }

    fn decrypt(&self, path: &str) -> Result<Vec<u8>, Error> {
        let content = self.host.decrypt(path)?;
        // As it is: encrypted.
        self.recorder.note_file(Path::new(path)).map_err(Error::host)?;
        Ok(content)
    }

    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        self.host.derived_key(digest, derive)
    }

    fn warn(&self, line: &str) {
        self.host.warn(line);
    }
}
