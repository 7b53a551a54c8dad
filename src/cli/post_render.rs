//! `--post-renderer`: a program of the user that gets the manifest on stdin and gives another one on stdout.
//!
//! The contract is that of Helm 3 (`postrender.NewExec`): hooks are not shown to it, arguments are passed on. Helm 4 runs
//! plugins instead; with its profile a program is run in the same way.

use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Failure;

/// The most that a post-renderer may print, in bytes.
const MAX_OUTPUT: u64 = 256 * 1024 * 1024;

/// Flags of the post-renderer.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct PostRender {
    /// The path to an executable to be used for post rendering
    #[arg(long)]
    post_renderer: Option<String>,
    /// An argument to the post-renderer (can specify multiple)
    #[arg(long, allow_hyphen_values = true)]
    post_renderer_args: Vec<String>,
}

/// A program that was found.
pub(super) struct PostRenderer<'f> {
    program: PathBuf,
    arguments: &'f [String],
}

impl PostRender {
    /// The program that the flags name, if they do.
    ///
    /// # Errors
    /// It is not there, in Helm's words.
    pub(super) fn find(&self) -> Result<Option<PostRenderer<'_>>, Failure> {
        let Some(name) = self.post_renderer.as_deref().filter(|n| !n.is_empty()) else { return Ok(None) };
        let program = find(name).map_err(|reason| {
            format!(
                "invalid argument {name:?} for \"--post-renderer\" flag: unable to find binary at {name}: exec: {name:?}: {reason}"
            )
        })?;
        Ok(Some(PostRenderer { program, arguments: &self.post_renderer_args }))
    }
}

/// The executable of a name, as Go's `exec.LookPath` finds it.
fn find(name: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        return match std::fs::metadata(name) {
            Ok(meta) if meta.is_file() => Ok(crate::source::absolute(Path::new(name))),
            Ok(_) => Err("is a directory".to_owned()),
            Err(_) => Err(format!("stat {name}: no such file or directory")),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file());
    found.ok_or_else(|| "executable file not found in $PATH".to_owned())
}

impl PostRenderer<'_> {
    /// Runs the program on a manifest.
    ///
    /// # Errors
    /// It fails; the text has what it said on stderr.
    pub(super) fn run(&self, manifest: &[u8]) -> Result<Vec<u8>, Failure> {
        let shown = self.program.display();
        let failed = |stderr: &[u8], reason: String| {
            let stderr = String::from_utf8_lossy(stderr);
            format!(
                "error while running post render on files: error while running command {shown}. error output:\n{stderr}: {reason}"
            )
        };
        let mut child = Command::new(&self.program)
            .args(self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| failed(b"", format!("fork/exec {shown}: {e}")))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (out, told) = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A program need not read what it is given.
                drop(stdin.map(|mut stdin| stdin.write_all(manifest)));
            });
            let told = scope.spawn(move || all(stderr));
            (all(stdout), told.join().unwrap_or_default())
        });
        let status = child.wait().map_err(|e| failed(&told, e.to_string()))?;
        if out.len() as u64 > MAX_OUTPUT {
            return Err(failed(&told, format!("it printed more than {MAX_OUTPUT} bytes")));
        }
        match status.code() {
            Some(0) => Ok(out),
            Some(code) => Err(failed(&told, format!("exit status {code}"))),
            None => Err(failed(&told, status.to_string())),
        }
    }
}

fn all(stream: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before a failure is what there is.
    drop(stream.map(|s| s.take(MAX_OUTPUT + 1).read_to_end(&mut bytes)));
    bytes
}
