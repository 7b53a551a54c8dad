//! The outside of a state file on this machine: its disk, environment and programs.
//!
//! Owns the bounds: sizes of files, and what is forbidden altogether. Addresses and secrets are handed on.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use chart_compat::world::World;
use tokio::sync::Semaphore;

use super::error::HelmfileError;
use helmfile_compat::Error;
use helmfile_compat::host::{Entry, Forbidden, Host, Program, RenderMemory};
use helmfile_compat::value::Value;
use windlass_base::bounded_read;
use windlass_base::child_process::{self, ChildError, Group, Limits};
use windlass_base::machine::input_limit;
use windlass_render::RenderPermit;

/// The maximal size of a file, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// The limits of a program. It may ask its user, who waits as long as with helmfile.
const PROGRAM_LIMITS: Limits = Limits { output: MAX_FILE, time: None, memory: None, group: Group::Shared };

/// Fetches what addresses name.
pub trait Fetcher: Send + Sync {
    /// The path of what an address names.
    ///
    /// # Errors
    /// It cannot be fetched.
    fn fetch(&self, address: &str, what: &str) -> Result<String, HelmfileError>;
}

impl<F: Fetcher> Fetcher for std::sync::Arc<F> {
    fn fetch(&self, address: &str, what: &str) -> Result<String, HelmfileError> {
        (**self).fetch(address, what)
    }
}

/// Resolves secret references and encrypted files.
pub trait SecretStore: Send + Sync {
    /// The value of a reference, without `ref+`. `dir`: the folder that paths are relative to.
    ///
    /// # Errors
    /// The provider is not supported or refuses.
    fn secret(&self, reference: &str, dir: &str) -> Result<Value, HelmfileError>;

    /// The decrypted bytes of a file.
    ///
    /// # Errors
    /// No key decrypts it.
    fn decrypt(&self, path: &str) -> Result<Vec<u8>, HelmfileError>;
}

/// What a state file may do on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Whether templates may run programs and read files (`HELMFILE_DISABLE_INSECURE_FEATURES` and the like).
    pub programs: bool,
    /// Whether addresses may be fetched (`HELMFILE_DISABLE_INSECURE_FEATURES`).
    pub addresses: bool,
    /// Whether hooks may run (`HELMFILE_DISABLE_HOOKS`).
    pub hooks: bool,
}

/// What renders of templates and builds of kustomizations may take.
#[derive(Clone, Debug)]
pub struct RenderShare {
    /// Memory of one, in bytes.
    pub memory: usize,
    /// One permit for each render that may run now, of charts too; `None`: nothing runs beside.
    pub permits: Option<Arc<Semaphore>>,
}

/// This machine.
pub struct LocalHost {
    renders: RenderShare,
    world: Box<dyn World>,
    fetcher: Box<dyn Fetcher>,
    secrets: Box<dyn SecretStore>,
    permissions: Permissions,
    warn: fn(&str),
    /// Keys of `derivePassword`: a state file derives the same one for each of its files, and each takes a quarter of a second.
    keys: Mutex<HashMap<[u8; 32], Vec<u8>>>,
}

impl LocalHost {
    /// This machine with the given permissions. `warn` takes warnings.
    #[must_use]
    pub fn new(
        world: Box<dyn World>,
        fetcher: Box<dyn Fetcher>,
        secrets: Box<dyn SecretStore>,
        permissions: Permissions,
        renders: RenderShare,
        warn: fn(&str),
    ) -> Self {
        Self { renders, world, fetcher, secrets, permissions, warn, keys: Mutex::default() }
    }
}

/// The error of an operation on a path, as Go prints it.
fn failed(operation: &str, path: &str, error: &std::io::Error) -> HelmfileError {
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    };
    HelmfileError::Machine(format!("{operation} {path}: {reason}"))
}

impl Host for LocalHost {
    fn world(&self) -> &dyn World {
        &*self.world
    }

    fn render_memory(&self) -> RenderMemory {
        let permit = RenderPermit::acquire(self.renders.permits.clone());
        RenderMemory { bytes: self.renders.memory, held: Some(Box::new(permit)) }
    }

    fn without_logins(&self, text: &str) -> String {
        windlass_fetch::location::without_secrets(text)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let file: Box<dyn Read> = if path.rsplit('/').next() == Some("-") {
            Box::new(std::io::stdin())
        } else {
            Box::new(std::fs::File::open(path).map_err(|error| failed("open", path, &error))?)
        };
        let read = bounded_read::read_to_end(file, MAX_FILE.min(input_limit()));
        Ok(read.map_err(|error| failed("read", path, &error))?)
    }

    fn is_dir(&self, path: &str) -> Option<bool> {
        if path.rsplit('/').next() == Some("-") {
            return Some(false);
        }
        std::fs::metadata(path).ok().map(|metadata| metadata.is_dir())
    }

    fn read_dir(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let listed = std::fs::read_dir(path).map_err(|error| failed("open", path, &error))?;
        let mut entries = Vec::new();
        for entry in listed {
            let entry = entry.map_err(|error| failed("readdirent", path, &error))?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), is_dir });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn run(&self, program: &Program) -> Result<String, Error> {
        let mut command = Command::new(&program.command);
        command.args(&program.arguments).envs(&program.variables).current_dir(Path::new(&program.dir));
        let shown = &program.command;
        let input = program.input.clone().into_bytes();
        let ended = child_process::run(&mut command, input, &PROGRAM_LIMITS);
        let output = ended.map_err(|error| {
            HelmfileError::Machine(match error {
                ChildError::Start(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    format!("exec: \"{shown}\": executable file not found in $PATH")
                }
                ChildError::Start(error) => format!("exec: \"{shown}\": {error}"),
                other => format!("{shown}: {other}"),
            })
        })?;
        if !output.status.success() {
            // Arguments may hold secrets, and are not shown.
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(HelmfileError::Machine(format!(
                "command \"{shown}\" exited with non-zero status: {}: {}",
                output.status,
                stderr.trim()
            ))
            .into());
        }
        let text = String::from_utf8(output.stdout);
        Ok(text.map_err(|_| HelmfileError::Machine(format!("{shown}: the output is not UTF-8 text")))?)
    }

    fn forbids(&self, what: Forbidden) -> Option<String> {
        let (allowed, reason) = match what {
            Forbidden::TemplateFunctions => (
                self.permissions.programs,
                "HELMFILE_DISABLE_INSECURE_FEATURES or HELMFILE_DISABLE_INSECURE_TEMPLATE_FUNCTIONS is active, insecure \
                 function calls are disabled",
            ),
            Forbidden::Hooks => {
                (self.permissions.hooks, "HELMFILE_DISABLE_HOOKS is active, hooks are disabled")
            }
        };
        (!allowed).then(|| reason.to_owned())
    }

    fn fetch(&self, address: &str, what: &str) -> Result<String, Error> {
        if !self.permissions.addresses {
            let text = "remote sources are disabled due to 'HELMFILE_DISABLE_INSECURE_FEATURES'";
            return Err(HelmfileError::Address(text.to_owned()).into());
        }
        Ok(self.fetcher.fetch(address, what)?)
    }

    fn secret(&self, reference: &str, dir: &str) -> Result<Value, Error> {
        Ok(self.secrets.secret(reference, dir)?)
    }

    fn decrypt(&self, path: &str) -> Result<Vec<u8>, Error> {
        Ok(self.secrets.decrypt(path)?)
    }

    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.entry(digest).or_insert_with(derive).clone()
    }

    fn warn(&self, line: &str) {
        (self.warn)(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helmfile_compat::template::{Root, render_named};
    use windlass_render::SystemWorld;

    struct Nothing;

    impl Fetcher for Nothing {
        fn fetch(&self, _: &str, _: &str) -> Result<String, HelmfileError> {
            Err(HelmfileError::Machine("nothing is fetched".to_owned()))
        }
    }

    impl SecretStore for Nothing {
        fn secret(&self, _: &str, _: &str) -> Result<Value, HelmfileError> {
            Err(HelmfileError::Machine("there are no secrets".to_owned()))
        }

        fn decrypt(&self, _: &str) -> Result<Vec<u8>, HelmfileError> {
            Err(HelmfileError::Machine("there are no keys".to_owned()))
        }
    }

    #[test]
    fn templates_share_the_memory_of_renders() {
        let permits = Arc::new(Semaphore::new(1));
        let permissions = Permissions { programs: true, addresses: true, hooks: true };
        let renders = RenderShare { memory: 8 << 20, permits: Some(Arc::clone(&permits)) };
        let world = Box::new(SystemWorld::default());
        let host = LocalHost::new(world, Box::new(Nothing), Box::new(Nothing), permissions, renders, |_| ());
        let aliases = r#"{{ fromYaml (printf "a: &a %s\nb: [%s]" (repeat 50000 "x") (repeat 2000 "*a,")) }}"#;
        for template in [aliases, r#"{{ repeat 100000000 "x" }}"#] {
            let told =
                render_named(&host, "/", "t", template, &Root::default(), true).unwrap_err().to_string();
            assert!(told.contains("its values take more than 8 MiB"), "{told}");
        }
        let held = host.render_memory();
        assert_eq!((held.bytes, permits.available_permits()), (8 << 20, 0));
        drop(held);
        assert_eq!(permits.available_permits(), 1);
    }
}
