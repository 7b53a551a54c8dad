//! What a hook file holds: one hook that answers `--config`, or a batch program with several hooks that answers `hook config`.
//!
//! Owns who is asked what, and that a program is asked once for each state of its file. Only files without an extension may be batch
//! programs, and they are asked `hook config` only where `--config` brings no configuration: plain hooks get no call that they do not
//! know.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::config::{BatchConfig, ConfigError, HookConfig};
use super::hook::{CONFIG_TIMEOUT, Hook, HookError};
use super::process::{self, ProcessError, Program, Stdout, Stream};
use super::settings_check::SettingsCheck;
use super::{ReadinessProbe, Scope};
use windlass_base::bounded_read;

/// How often a file is asked that changes meanwhile.
const TRIES: u32 = 3;
/// How a native program begins.
const ELF: [u8; 4] = *b"\x7fELF";

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    size: u64,
    modified: (i64, i64),
    file: (u64, u64),
    mode: u32,
}

impl FileState {
    /// The state of a file, or of what a link leads to.
    ///
    /// # Errors
    /// The file is not there.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let meta = std::fs::metadata(path)?;
        Ok(Self {
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            file: (meta.dev(), meta.ino()),
            mode: meta.mode(),
        })
    }
}

/// A file of hooks, and whose it is.
#[derive(Clone, Copy, Debug)]
pub struct HookSource<'s> {
    pub path: &'s Path,
    /// Path below the directory of hooks; for modules with the module's directory in front.
    pub name: &'s str,
    /// Name of the module; empty for global hooks.
    pub module: &'s str,
    pub scope: Scope,
    /// How long an answer may take.
    pub limit: Duration,
}

/// What a file answered in one state.
#[derive(Clone, Debug)]
pub struct HookFile {
    state: FileState,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Plain(HookConfig),
    Batch(BatchConfig),
}

/// The parts of a file.
#[derive(Debug, Default)]
pub(super) struct FileParts {
    pub hooks: Vec<Hook>,
    pub readiness: Option<ReadinessProbe>,
    pub check: Option<SettingsCheck>,
    /// What is ignored or odd, each text with its key.
    pub notes: Vec<String>,
}

/// Variables that batch programs get beside those of every hook.
pub(super) fn batch_environment(module: &str) -> Vec<(String, OsString)> {
    let name = if module.is_empty() { "global" } else { module };
    let variables = [("MODULE_NAME", name), ("APPLICATION_NAME", ""), ("APPLICATION_NAMESPACE", "")];
    variables.map(|(name, value)| (name.to_owned(), value.into())).into()
}

/// The program of a hook file: Python ones run in the environment beside them, if there is one.
fn program(path: &Path) -> Program {
    let python = path.ancestors().find(|a| a.ends_with("hooks")).map(|h| h.join("venv/bin/python3"));
    match python.filter(|python| path.extension().is_some_and(|e| e == "py") && python.is_file()) {
        Some(python) => {
            Program { path: python, arguments: vec![path.as_os_str().to_owned()], ..Program::default() }
        }
        None => Program { path: path.to_owned(), ..Program::default() },
    }
}

/// The program with these arguments, as a batch program is called.
fn batch_program(source: &HookSource<'_>, arguments: &[&str]) -> Program {
    let mut program = program(source.path);
    program.arguments.extend(arguments.iter().map(OsString::from));
    program.environment = batch_environment(source.module);
    program
}

impl HookSource<'_> {
    /// Asks the file what it holds. One that changes meanwhile is asked again.
    ///
    /// # Errors
    /// It cannot be run, or says nothing that can be used.
    pub async fn ask(&self) -> Result<HookFile, HookError> {
        let state = || FileState::of(self.path).ok();
        let mut tries = 0;
        loop {
            tries += 1;
            let before = state();
            let content = self.ask_once().await;
            match (before, before == state()) {
                (Some(state), true) => return content.map(|content| HookFile { state, content }),
                // It is gone: why it cannot be run says so.
                (None, true) => content.map(drop)?,
                _ => {}
            }
            if tries >= TRIES {
                return Err(HookError::Changing { hook: self.name.to_owned() });
            }
        }
    }

    async fn ask_once(&self) -> Result<Content, HookError> {
        let hook = || self.name.to_owned();
        let mut program = program(self.path);
        program.arguments.push("--config".into());
        let may_be_batch = self.path.extension().is_none();
        let refusal = match self.answer(program).await {
            Ok(stdout) if may_be_batch && stdout.trim_ascii().is_empty() => None,
            Ok(stdout) => {
                let config = HookConfig::parse(&stdout, self.scope);
                return config
                    .map(Content::Plain)
                    .map_err(|reason| HookError::Config { hook: hook(), reason });
            }
            Err(reason @ ProcessError::Failed { .. }) if may_be_batch => Some(reason),
            Err(reason) => {
                return Err(HookError::AskConfig { hook: hook(), reason: Box::new(reason), batch: None });
            }
        };
        self.ask_batch().await.map(Content::Batch).map_err(|batch| match refusal {
            // A plain hook that fails says why; a batch program prints nothing there.
            Some(reason) if !reason.stderr().is_empty() => {
                let batch = Some(batch).filter(|text| *text != reason.to_string());
                HookError::AskConfig { hook: hook(), reason: Box::new(reason), batch }
            }
            _ => HookError::Batch { hook: hook(), reason: batch },
        })
    }

    async fn ask_batch(&self) -> Result<BatchConfig, String> {
        let text = |e: ConfigError| e.to_string();
        match self.answer(batch_program(self, &["hook", "config"])).await {
            Ok(stdout) => BatchConfig::parse(&stdout, self.scope).map_err(text),
            // The library logs to standard output why it fails.
            Err(ProcessError::Failed { stdout, .. }) if !stdout.trim_ascii().is_empty() => {
                match BatchConfig::parse(&stdout, self.scope) {
                    Ok(_) => Err("it printed its hooks and failed".to_owned()),
                    Err(e) => Err(text(e)),
                }
            }
            Err(reason) => Err(reason.to_string()),
        }
    }

    async fn answer(&self, mut program: Program) -> Result<Vec<u8>, ProcessError> {
        program.timeout = Some(self.limit.min(CONFIG_TIMEOUT));
        let (module, hook) = (self.module, self.name);
        let log = |stream: Stream, line: &str| {
            tracing::debug!(module, hook, output = stream.name(), "{line}");
        };
        process::run(&program, Stdout::Answer, log).await.map(|ended| ended.stdout)
    }

    /// The parts of a file that answered so.
    pub(super) fn parts(&self, file: &HookFile) -> FileParts {
        let batch = match &file.content {
            Content::Plain(config) => {
                let program = Program { timeout: config.settings.timeout, ..program(self.path) };
                let hook = Hook::new(self, (self.name.to_owned(), 0), config.clone(), (program, None));
                return FileParts { hooks: vec![hook], ..FileParts::default() };
            }
            Content::Batch(batch) => batch,
        };
        let mark = match self.scope {
            Scope::Module => ':',
            Scope::Global => '-',
        };
        let hooks = batch.hooks.iter().enumerate().map(|(index, hook)| {
            let name = format!("{}{mark}{}{mark}{index}", self.name, hook.name);
            let program = batch_program(self, &["hook", "run", &index.to_string()]);
            Hook::new(self, (name, index), hook.config.clone(), (program, Some(file.state)))
        });
        FileParts {
            hooks: hooks.collect(),
            readiness: batch.readiness.as_ref().map(|probe| {
                let program =
                    Program { timeout: Some(CONFIG_TIMEOUT), ..batch_program(self, &["hook", "ready"]) };
                let name = format!("{}-readiness", self.name);
                let config = HookConfig::of_probe(probe);
                let hook = Hook::new(self, (name, batch.hooks.len()), config, (program, Some(file.state)));
                ReadinessProbe { hook: Arc::new(hook), cron: probe.cron.clone() }
            }),
            check: batch.checks_settings.then(|| {
                let program = batch_program(self, &["hook", "check"]);
                SettingsCheck::new(
                    self.name,
                    Program { timeout: Some(self.limit.min(CONFIG_TIMEOUT)), ..program },
                )
            }),
            notes: batch
                .notes
                .iter()
                .map(|note| format!("hook {}: hook config: {note}", self.name))
                .collect(),
        }
    }
}

/// What files have answered, each in one state: a file is asked once a change.
#[derive(Debug, Default)]
pub struct ConfigCache {
    files: Mutex<BTreeMap<PathBuf, Arc<tokio::sync::Mutex<Option<Cached>>>>>,
}

#[derive(Debug)]
struct Cached {
    /// A fingerprint of all hook files of the owner.
    files: u64,
    file: Arc<HookFile>,
}

impl ConfigCache {
    /// What a file answers; it is asked where that is not known. `files` is a fingerprint of all hook files of its owner: a script may
    /// read others, a native program does not.
    ///
    /// # Errors
    /// As [`HookSource::ask`]. Failures are not kept.
    pub async fn get(&self, source: &HookSource<'_>, files: u64) -> Result<Arc<HookFile>, HookError> {
        let entry = {
            let mut all = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(source.path.to_owned()).or_default())
        };
        // Whoever else wants to know it waits, and asks nothing.
        let mut cached = entry.lock().await;
        if let Some(known) = cached.as_ref()
            && FileState::of(source.path).is_ok_and(|state| state == known.file.state)
            && (known.files == files || is_native(source.path))
        {
            return Ok(Arc::clone(&known.file));
        }
        *cached = None;
        let file = Arc::new(source.ask().await?);
        *cached = Some(Cached { files, file: Arc::clone(&file) });
        Ok(file)
    }

    /// Drops what is known of files below a directory but these.
    pub fn retain(&self, directory: &Path, files: &[PathBuf]) {
        let mut all = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|path, _| !path.starts_with(directory) || files.contains(path));
    }
}

/// Whether a file is a native program.
fn is_native(path: &Path) -> bool {
    let begins = File::open(path).and_then(|file| bounded_read::first_bytes(file, ELF.len() as u64));
    begins.is_ok_and(|bytes| bytes == ELF)
}

#[cfg(test)]
mod tests;
