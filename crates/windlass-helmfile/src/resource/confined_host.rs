//! What the state files of an object may ask of the outside.
//!
//! Owns the bounds of a tenant: files of the source alone, the object's own variables, no programs and no hooks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chart_compat::world::World;

use crate::error::HelmfileError;
use crate::local_host::LocalHost;
use helmfile_compat::Error;
use helmfile_compat::host::{Entry, Forbidden, Host, Program, RenderMemory};
use helmfile_compat::value::Value;
use windlass_fetch::confined_files;

/// A host for the state files of one object.
pub(super) struct ConfinedHost {
    /// Reads files, addresses and secrets.
    pub(super) local: LocalHost,
    /// The directory of all files, without symbolic links in its path.
    pub(super) root: PathBuf,
    /// The environment variables.
    pub(super) variables: BTreeMap<String, String>,
}

const NO_PROGRAMS: &str = "the operator runs no programs for a Helmfile: pass what it prints in spec.values";
const NO_HOOKS: &str = "the operator runs no hooks of a Helmfile: use the hooks of charts (helm.sh/hook)";

impl ConfinedHost {
    /// Fails once the evaluation has taken too long.
    fn check_time(&self) -> Result<(), HelmfileError> {
        self.world().stopped().map_or(Ok(()), |why| Err(HelmfileError::Object(why)))
    }

    fn within(&self, path: &str) -> Result<String, HelmfileError> {
        // A file of this name stands for standard input.
        if path.rsplit('/').next() == Some("-") {
            return Err(HelmfileError::Object(format!("open {path}: no such file or directory")));
        }
        let found = confined_files::resolve(&self.root, Path::new(path))?;
        Ok(found.to_string_lossy().into_owned())
    }
}

impl Host for ConfinedHost {
    fn world(&self) -> &dyn World {
        self.local.world()
    }

    fn render_memory(&self) -> RenderMemory {
        self.local.render_memory()
    }

    fn without_logins(&self, text: &str) -> String {
        self.local.without_logins(text)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        self.check_time()?;
        self.local.read(&self.within(path)?)
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        self.local.is_dir(&self.within(path).ok()?)
    }

    fn read_dir(&self, path: &str) -> Result<Vec<Entry>, Error> {
        self.local.read_dir(&self.within(path)?)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn forbids(&self, what: Forbidden) -> Option<String> {
        match what {
            // Files are confined, and programs are refused by `run`.
            Forbidden::TemplateFunctions => None,
            Forbidden::Hooks => Some(NO_HOOKS.to_owned()),
        }
    }

    fn run(&self, _: &Program) -> Result<String, Error> {
        Err(HelmfileError::Object(NO_PROGRAMS.to_owned()).into())
    }

    fn fetch(&self, address: &str, what: &str) -> Result<String, Error> {
        self.check_time()?;
        self.local.fetch(address, what)
    }

    fn secret(&self, reference: &str, dir: &str) -> Result<Value, Error> {
        self.check_time()?;
        self.local.secret(reference, dir)
    }

    fn decrypt(&self, path: &str) -> Result<Vec<u8>, Error> {
        // The store resolves the path.
        self.local.decrypt(path)
    }

    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        self.local.derived_key(digest, derive)
    }

    fn warn(&self, line: &str) {
        self.local.warn(line);
    }
}
