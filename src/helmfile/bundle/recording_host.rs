//! The outside of a state file, while it is recorded for a bundle.
//!
//! Owns what of each operation is recorded. What programs print and what variables and secrets hold is not.

use std::path::Path;
use std::sync::Arc;

use chart_compat::world::World;

use super::recorder::Recorder;
use crate::helmfile::state::host::{Entry, Forbidden, Host, Program};
use crate::helmfile::state::paths;
use crate::helmfile::state::value::Value;
use crate::source::input_store::InputStore as _;

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
    pub fn note_program(&self, dir: &str, command: &str) -> Result<(), String> {
        let path = paths::within(dir, command);
        if command.contains('/') && self.recorder.place(Path::new(&path)).is_some() {
            return match self.host.is_dir(&path) {
                Some(false) => self.recorder.note_file(Path::new(&path)),
                _ => Ok(()),
            };
        }
        self.recorder.note_need(|needs| {
            needs.programs.insert(command.to_owned());
        });
        Ok(())
    }
}

impl Host for RecordingHost {
    fn world(&self) -> &dyn World {
        self.host.world()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        if paths::base(path) == "-" {
            return Err("standard input cannot be packed into a bundle: write it to a file".to_owned());
        }
        let content = self.host.read(path)?;
        if self.recorder.place(Path::new(path)).is_none() {
            self.recorder.note_need(|needs| {
                needs.files.insert(path.to_owned());
            });
        }
        self.recorder.note_file(Path::new(path))?;
        Ok(content)
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        let found = self.host.is_dir(path);
        self.recorder.note_path(path, found);
        found
    }

    fn read_dir(&self, path: &str) -> Result<Vec<Entry>, String> {
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

    fn run(&self, program: &Program) -> Result<String, String> {
        self.note_program(&program.dir, &program.command)?;
        self.host.run(program)
    }

    fn fetch(&self, address: &str, what: &str) -> Result<String, String> {
        self.host.fetch(address, what)
    }

    fn secret(&self, reference: &str, dir: &str) -> Result<Value, String> {
        let (provider, path) = reference.split_once("://").unwrap_or((reference, ""));
        let path = path.split(['#', '?']).next().unwrap_or_default().to_owned();
        self.recorder.note_need(|needs| {
            match provider {
                "env" => needs.variables.insert(path),
                "file" => needs.secrets.insert(format!("file://{path}")),
                // The path of other providers may be the secret.
                other => needs.secrets.insert(other.to_owned()),
            };
        });
        self.host.secret(reference, dir)
    }

    fn decrypt(&self, path: &str) -> Result<Vec<u8>, String> {
        let content = self.host.decrypt(path)?;
        // As it is: encrypted.
        self.recorder.note_file(Path::new(path))?;
        Ok(content)
    }

    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        self.host.derived_key(digest, derive)
    }

    fn warn(&self, line: &str) {
        self.host.warn(line);
    }
}
