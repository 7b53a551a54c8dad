//! `enabled` scripts of modules: the last word on whether a module that must be enabled is on.
//!
//! As addon-operator's `script_enabled` extender, one after another in the modules' order; but a script that fails leaves its
//! own module as it was and no other module waits for it, where addon-operator stops converging.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Hooks;
use crate::shell_hooks::process::{self, ProcessError, Program, Scratch, Stdout};

/// The file's name in a module's directory.
const SCRIPT: &str = "enabled";
/// The longest reason that is shown, in characters.
const MAX_REASON: usize = 300;

/// A module that may be on.
#[derive(Clone, Debug)]
pub(in crate::addon) struct Candidate {
    pub(in crate::addon) name: String,
    pub(in crate::addon) key: String,
    pub(in crate::addon) path: PathBuf,
    /// What flags say.
    pub(in crate::addon) flagged: bool,
    /// The script's last verdict; `None`: it has not run yet.
    pub(in crate::addon) before: Option<bool>,
    /// Why it is off, if that is what it said.
    pub(in crate::addon) reason: String,
}

/// What the scripts said.
#[derive(Clone, Debug, Default)]
pub(in crate::addon) struct Verdicts {
    /// By module name, of the modules whose scripts ran.
    pub(in crate::addon) on: BTreeMap<String, bool>,
    /// Why modules are off, by name, in the words of their scripts.
    pub(in crate::addon) reasons: BTreeMap<String, String>,
    /// Modules whose script failed before it ever said anything: nothing is done with them.
    pub(in crate::addon) undecided: BTreeSet<String>,
    /// Some script failed and must run again.
    pub(in crate::addon) failed: bool,
}

/// Whether a module has an executable script; one that is not executable is logged and ignored.
pub fn has_script(directory: &Path) -> bool {
    let path = directory.join(SCRIPT);
    match std::fs::metadata(&path) {
        Ok(m) if m.is_file() && m.permissions().mode() & 0o111 != 0 => true,
        Ok(m) if m.is_file() => {
            tracing::warn!("{}: not executable, so it is not asked whether the module is on", path.display());
            false
        }
        _ => false,
    }
}

impl Hooks {
    /// Asks the scripts of the modules that flags turn on, in order.
    pub(in crate::addon) async fn ask_scripts(&self, modules: &[Candidate]) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let mut enabled: Vec<String> = Vec::new();
        for module in modules.iter().filter(|m| m.flagged) {
            let mut on = Some(true);
            if has_script(&module.path) {
                on = match self.ask_script(module, &enabled).await {
                    Ok((on, reason)) => {
                        if !on {
                            verdicts.reasons.insert(module.name.clone(), reason);
                        }
                        Some(on)
                    }
                    Err(text) => {
                        verdicts.failed = true;
                        tracing::error!(
                            module = module.name,
                            "enabled script: {text}; the module stays as it is"
                        );
                        if module.before == Some(false) {
                            verdicts.reasons.insert(module.name.clone(), module.reason.clone());
                        }
                        module.before
                    }
                };
                match on {
                    Some(on) => drop(verdicts.on.insert(module.name.clone(), on)),
                    None => drop(verdicts.undecided.insert(module.name.clone())),
                }
            }
            if on == Some(true) {
                enabled.push(module.name.clone());
            }
        }
        verdicts
    }

    /// Whether the module is on, and why it is not.
    async fn ask_script(&self, module: &Candidate, enabled: &[String]) -> Result<(bool, String), String> {
        let scratch =
            Scratch::new(&self.around.scratch, self.around.keep_files).map_err(|e| e.to_string())?;
        let (config, values) = {
            let store = self.store();
            (store.values.config_for_hook(&module.key), store.values.for_hook(&module.key, enabled))
        };
        let mut environment = Vec::new();
        for (variable, name, content) in [
            ("CONFIG_VALUES_PATH", "config-values.json", config.to_string()),
            ("VALUES_PATH", "values.json", values.to_string()),
            ("MODULE_ENABLED_RESULT", "result", String::new()),
            ("MODULE_ENABLED_REASON", "reason", String::new()),
        ] {
            let path = scratch.write(name, content.as_bytes()).map_err(|e| e.to_string())?;
            environment.push((variable.to_owned(), OsString::from(path)));
        }
        let path = std::path::absolute(module.path.join(SCRIPT)).map_err(|e| e.to_string())?;
        // Nothing converges until it has ended, so that it may not run forever as a hook may.
        let timeout = Some(self.limit());
        let program = Program { path, environment, timeout, ..Program::default() };
        let name = module.name.as_str();
        let line = |stream: process::Stream, line: &str| {
            tracing::info!(module = name, script = SCRIPT, output = stream.name(), "{line}");
        };
        process::run(&program, Stdout::Lines, line).await.map_err(|e| match e {
            ProcessError::Timeout { .. } => {
                format!("{e} (--hook-unblock-after, or --hook-timeout if that is less)")
            }
            e => e.to_string(),
        })?;
        let read = |name: &str| scratch.read(name).map_err(|e| e.to_string());
        let on = match read("result")?.trim() {
            "true" => true,
            "false" => false,
            other => {
                let shown: String = other.chars().take(40).collect();
                return Err(format!("it wrote {shown:?} to $MODULE_ENABLED_RESULT instead of true or false"));
            }
        };
        if on {
            return Ok((on, String::new()));
        }
        let reason: String = read("reason")?.trim().chars().take(MAX_REASON).collect();
        if module.before != Some(false) {
            tracing::info!(module = name, reason, "its enabled script says that the module is off");
        }
        Ok((on, reason))
    }
}
