//! The outside of a state file that runs from a bundle.
//!
//! Owns the answers about files of the bundle. Variables, programs and secrets are those of the machine.

use std::path::Path;
use std::sync::Arc;

use chart_compat::world::World;

use super::opened_bundle::OpenedBundle;
use crate::error::HelmfileError;
use helmfile_compat::Error;
use helmfile_compat::host::{Entry, Forbidden, Host, Program, RenderMemory};
use helmfile_compat::paths;
use helmfile_compat::value::Value;

/// A host with the files of a bundle.
pub struct BundledHost {
    host: Box<dyn Host>,
    bundle: Arc<OpenedBundle>,
}

impl BundledHost {
    /// The files of a bundle on a host.
    #[must_use]
    pub fn new(host: Box<dyn Host>, bundle: Arc<OpenedBundle>) -> Self {
        Self { host, bundle }
    }

    /// Whether a path without content in the bundle is a folder, a file or missing; `None` if it was not recorded.
    fn known(&self, place: &str) -> Option<Option<bool>> {
        let manifest = &self.bundle.manifest;
        if let Some(known) = manifest.paths.get(place) {
            return Some(*known);
        }
        let entries = manifest.folders.get(&paths::dir(place))?;
        Some(entries.get(&paths::base(place)).copied())
    }

    /// Adds what to do to the error of a file of the bundle.
    fn explained(&self, path: &str, error: Error) -> Error {
        match self.bundle.place(Path::new(path)) {
            Some(place) => {
                let text = format!("{error}: the bundle does not have {place}: bundle again");
                HelmfileError::Bundle(text).into()
            }
            None => error,
        }
    }
}

impl Host for BundledHost {
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
        self.host.read(path).map_err(|error| self.explained(path, error))
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        if let Some(found) = self.host.is_dir(path) {
            return Some(found);
        }
        let place = self.bundle.place(Path::new(path))?;
        self.known(&place).unwrap_or_else(|| {
            self.host.warn(&format!(
                "{place}: nothing asked for this path when the bundle was made, so it counts as missing"
            ));
            None
        })
    }

    fn read_dir(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let place = self.bundle.place(Path::new(path));
        match place.as_ref().and_then(|place| self.bundle.manifest.folders.get(place)) {
            Some(entries) => Ok(entries
                .iter()
                .map(|(name, is_dir)| Entry { name: name.clone(), is_dir: *is_dir })
                .collect()),
            None if place.is_some() => {
                let text = format!("open {path}: the folder was not listed");
                Err(self.explained(path, HelmfileError::Bundle(text).into()))
            }
            None => self.host.read_dir(path),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.host.variable(name)
    }

    fn forbids(&self, what: Forbidden) -> Option<String> {
        self.host.forbids(what)
    }

    fn run(&self, program: &Program) -> Result<String, Error> {
        self.host.run(program)
    }

    fn fetch(&self, address: &str, what: &str) -> Result<String, Error> {
        self.host.fetch(address, what)
    }

    fn secret(&self, reference: &str, dir: &str) -> Result<Value, Error> {
        self.host.secret(reference, dir)
    }

    fn decrypt(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.host.decrypt(path).map_err(|error| self.explained(path, error))
    }

    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        self.host.derived_key(digest, derive)
    }

    fn warn(&self, line: &str) {
        self.host.warn(line);
    }
}
