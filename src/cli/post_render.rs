//! `--post-renderer`: a user's program that reads the rendered output from stdin and writes its replacement to stdout.
//!
//! Two contracts. A plugin of Helm 4 (type `postrenderer/v1`), by name: hooks are included, and documents contain the names of
//! their files. A program, as in Helm 3 (`postrender.NewExec`): hooks are not included. With Helm 4's profile a name without a
//! plugin is a program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use chart_compat::profile::Profile;
use chart_compat::render::{Rendered, manifest_text};

use super::flags::Globals;
use super::plugin::{self, Plugin};
use super::{Failure, tell};
use helmfile_compat::Error;
use windlass_base::child_process::{self, ChildError, Group, Limits};
use windlass_helmfile::release_spec::PostProgram;

/// The limits of a post-renderer. It may ask its user, who waits as long as with Helm.
const LIMITS: Limits = Limits { output: 256 << 20, time: None, memory: None, group: Group::Shared };

/// Flags of the post-renderer.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct PostRender {
    /// The name of a postrenderer type plugin to be used for post rendering, or the path to an executable
    #[arg(long)]
    post_renderer: Option<String>,
    /// An argument to the post-renderer (can specify multiple)
    #[arg(long, allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,
}

/// An existing post-renderer.
pub(super) struct PostRenderer {
    kind: Kind,
    arguments: Vec<String>,
    profile: Profile,
}

enum Kind {
    Program(PathBuf),
    Plugin(Plugin),
}

impl PostRender {
    /// The flags of a program and its arguments.
    pub(super) fn of(program: String, arguments: Vec<String>) -> Self {
        Self { post_renderer: Some(program), post_renderer_args: arguments }
    }

    /// The post-renderer of the flags, if any.
    ///
    /// # Errors
    /// It does not exist; Helm's message.
    pub(super) fn find(&self, globals: &Globals) -> Result<Option<PostRenderer>, Failure> {
        let Some(name) = self.post_renderer.as_deref().filter(|n| !n.is_empty()) else { return Ok(None) };
        let invalid =
            |reason: String| format!("invalid argument {name:?} for \"--post-renderer\" flag: {reason}");
        let profile = globals.profile();
        let found =
            |kind| Ok(Some(PostRenderer { kind, arguments: self.post_renderer_args.clone(), profile }));
        if profile == Profile::Helm4 {
            let plugins = globals.home().plugins;
            if let Some(plugin) = plugin::find(plugins.as_os_str(), name).map_err(invalid)? {
                return found(Kind::Plugin(plugin));
            }
        }
        match (program(name), profile) {
            (Ok(program), _) => found(Kind::Program(program)),
            (Err(_), Profile::Helm4) => Err(invalid(plugin::not_found(name))),
            (Err(reason), Profile::Helm3) => {
                Err(invalid(format!("unable to find binary at {name}: exec: {name:?}: {reason}")))
            }
        }
    }
}

/// Finds an executable like Go's `exec.LookPath`.
fn program(name: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        return match std::fs::metadata(name) {
            Ok(meta) if meta.is_file() => Ok(windlass_fetch::absolute(Path::new(name))),
            Ok(_) => Err("is a directory".to_owned()),
            Err(_) => Err(format!("stat {name}: no such file or directory")),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file());
    found.ok_or_else(|| "executable file not found in $PATH".to_owned())
}

impl PostRenderer {
    /// The post-renderer for the specs of releases.
    pub(super) fn into_program(self) -> PostProgram {
        Arc::new(move |rendered: &mut Rendered| self.apply(rendered, false).map_err(Error::from))
    }

    /// Runs the post-renderer. Returns the output of a program, which is the whole manifest; `None` for a plugin. A program also
    /// gets the CRDs if they are part of the output.
    ///
    /// # Errors
    /// It fails, or its output is not a manifest.
    pub(super) fn apply(
        &self,
        rendered: &mut Rendered,
        include_crds: bool,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let profile = self.profile;
        let mut warn = |line: String| tell(&line);
        match &self.kind {
            Kind::Program(program) => {
                let mut command = Command::new(program);
                command.args(&self.arguments);
                let shown = program.display();
                let text = run(command, manifest_text(rendered, include_crds)).map_err(|(told, reason)| {
                    format!(
                        "error while running post render on files: error while running command {shown}. error output:\n{told}: {reason}"
                    )
                })?;
                let manifest = String::from_utf8_lossy(&text);
                rendered.replace_manifest(&manifest, profile, &mut warn).map_err(|e| e.to_string())?;
                Ok(Some(text))
            }
            Kind::Plugin(plugin) => {
                let Plugin { name, program, arguments, variables } = plugin;
                let failed = |reason: String| format!("error while running post render on files: {reason}");
                let merged = rendered.merged().map_err(|e| format!("error merging manifests: {e}"))?;
                let mut command = Command::new(program);
                command.args(arguments).args(&self.arguments);
                command.envs(variables.iter().map(|(k, v)| (k, v)));
                let text = run(command, merged.into()).map_err(|(told, reason)| {
                    let told = if told.trim().is_empty() { reason } else { format!("{reason}: {}", told.trim()) };
                    failed(format!(
                        "failed to invoke post-renderer plugin {name:?}: plugin {name:?} exited with error: {told}"
                    ))
                })?;
                if text.trim_ascii().is_empty() {
                    return Err(failed(format!("post-renderer {name:?} produced empty output")));
                }
                let text = String::from_utf8_lossy(&text);
                let split = rendered.split_merged(&text, profile, &mut warn);
                split.map_err(|e| format!("error while parsing post rendered output: {e}"))?;
                Ok(None)
            }
        }
    }
}

/// Runs a program with `input` as stdin. An error contains its stderr and the reason.
fn run(mut command: Command, input: Vec<u8>) -> Result<Vec<u8>, (String, String)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ended = child_process::run(&mut command, input, &LIMITS).map_err(|error| match error {
        ChildError::Start(error) => (String::new(), format!("fork/exec {program}: {error}")),
        other => (String::new(), other.to_string()),
    })?;
    let failed = |reason| Err((String::from_utf8_lossy(&ended.stderr).into_owned(), reason));
    match ended.status.code() {
        Some(0) => Ok(ended.stdout),
        Some(code) => failed(format!("exit status {code}")),
        None => failed(ended.status.to_string()),
    }
}
